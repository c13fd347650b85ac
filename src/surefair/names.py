"""Names that people type: the known ones, and the close ones where a name is not known."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Any


def one_of(name: Any, known: Iterable[str], what: str) -> str:
    """Return the name if it is known; otherwise say which names are, and the one that may have been meant.

    Examples
    --------
    >>> one_of("traning", ["training", "total"], "source")
    Traceback (most recent call last):
    ValueError: Unknown source: 'traning'. Did you mean 'training'? Known: 'training', 'total'.
    """
    known = list(known)
    if isinstance(name, str) and name in known:
        return name
    close = difflib.get_close_matches(str(name), known, n=1)
    hint = f"Did you mean {close[0]!r}? " if close else ""
    raise ValueError(f"Unknown {what}: {name!r}. {hint}Known: {', '.join(map(repr, known))}.")
