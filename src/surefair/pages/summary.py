"""A small HTML summary of a result, for notebooks.

>>> summary("A finding.", {"unfairness": "0.03 [0.00, 0.11]"})
'<div><p>A finding.</p><table><tr><th>unfairness</th><td>0.03 [0.00, 0.11]</td></tr></table></div>'
"""

from __future__ import annotations

from collections.abc import Mapping
from html import escape


def summary(sentence: str, table: Mapping[str, str], notes: list[str] | None = None) -> str:
    """Return a sentence, a table of two columns and notes as HTML; everything is escaped."""
    rows = "".join(f"<tr><th>{escape(head)}</th><td>{escape(cell)}</td></tr>" for head, cell in table.items())
    more = "".join(f"<p>{escape(note)}</p>" for note in notes or [])
    return f"<div><p>{escape(sentence)}</p><table>{rows}</table>{more}</div>"
