"""Write the tables of results into the pages: ``python docs/tables.py``.

A page marks the place of a table with two comments, so that the table is in the page itself and a code host shows it:

    <!-- table: NAME -->
    <!-- end of table -->

NAME is the name of a file in ``docs/results``, without ``.json``, for its key "rows"; for another key it is FILE_KEY.
Between ``<!-- part: FILE#WORD -->`` and ``<!-- end of part -->`` comes what FILE has between ``<!-- WORD -->`` and
``<!-- end of WORD -->``. ``make docs`` runs this, and a test fails if a page does not have what its sources say.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

HERE = Path(__file__).parent
TABLE = re.compile(r"(?P<begin><!-- table: (?P<name>\w+) -->\n).*?(?P<end><!-- end of table -->)", re.DOTALL)
PART = re.compile(
    r"(?P<begin><!-- part: (?P<file>[^#\n]+)#(?P<word>\w+) -->\n).*?(?P<end><!-- end of part -->)", re.DOTALL
)


def main() -> None:
    """Write all tables, and name the pages that changed."""
    for page in pages():
        text = page.read_text(encoding="utf-8")
        filled = fill(text, page.parent)
        if filled != text:
            page.write_text(filled, encoding="utf-8")
            print(f"Written: {page.relative_to(HERE)}")


def pages() -> list[Path]:
    """Return the pages that have a place for a table or a part."""
    found = [*HERE.glob("*.md"), *HERE.glob("guide/*.md")]
    return [page for page in sorted(found) if re.search("<!-- (table|part): ", page.read_text(encoding="utf-8"))]


def fill(text: str, folder: Path) -> str:
    """Return the text of a page of this folder with its tables and parts as their sources say."""
    tables = read_tables()

    def table(place: re.Match[str]) -> str:
        name = place["name"]
        if name not in tables:
            raise ValueError(f"There is no table {name!r} in docs/results. Known: {', '.join(tables)}.")
        return f"{place['begin']}\n{tables[name]}\n{place['end']}"

    def part(place: re.Match[str]) -> str:
        source = (folder / place["file"]).read_text(encoding="utf-8")
        word = place["word"]
        found = re.search(f"<!-- {word} -->\n(.*?)<!-- end of {word} -->", source, re.DOTALL)
        if found is None:
            raise ValueError(f"{place['file']} has no part {word!r}.")
        return f"{place['begin']}\n{found[1].strip()}\n\n{place['end']}"

    return PART.sub(part, TABLE.sub(table, text))


def read_tables() -> dict[str, str]:
    """Return every list of rows in results/*.json as a Markdown table: FILE for the key "rows", FILE_KEY for others."""
    tables = {}
    for source in sorted((HERE / "results").glob("*.json")):
        for key, rows in json.loads(source.read_text(encoding="utf-8")).items():
            if isinstance(rows, list) and rows and isinstance(rows[0], dict):
                tables[source.stem if key == "rows" else f"{source.stem}_{key}"] = as_markdown(rows)
    return tables


def as_markdown(rows: list[dict[str, object]]) -> str:
    """Return a Markdown table whose headings are the keys of the first row."""
    heads = list(rows[0])
    lines = ["| " + " | ".join(head.replace("_", " ") for head in heads) + " |", "|---" * len(heads) + "|"]
    lines += ["| " + " | ".join(as_cell(row[head]) for head in heads) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def as_cell(value: object) -> str:
    """Format a cell: three digits for a fraction, separated thousands for a large number, empty for None."""
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.1f}" if abs(value) >= 10 else f"{value:.3f}"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return "" if value is None else str(value).replace("|", "\\|")


if __name__ == "__main__":
    main()
