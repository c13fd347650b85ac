"""What experiments leave behind: figures, JSON, and a page of tables."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from surefair import __version__
from surefair.experiments._experiment import Experiment, Result
from surefair.experiments._table import TABLE
from surefair.files import written_whole
from surefair.plotting import save

SHOWN = 4  # looks in the tables of the page; the JSON has them all


def write(found: list[tuple[Experiment, str, Result]], seed: int, folder: Path) -> list[Path]:
    """Write everything, and return where."""
    folder.mkdir(parents=True, exist_ok=True)
    for experiment, preset, result in found:
        save(result.draw(), folder / f"{experiment.name}-{preset}")
    pages = {"results.json": _json(found, seed), "RESULTS.md": _page(found, seed)}
    for name, text in pages.items():
        with written_whole(folder / name) as file:
            file.write(text.encode())
    return [folder / name for name in pages]


def _json(found: list[tuple[Experiment, str, Result]], seed: int) -> str:
    """Everything, for machines."""
    results = [
        {
            "experiment": experiment.name,
            "preset": preset,
            **result.line,
            "claims": [{"claim": one.words, "found": one.found, "held": one.held} for one in result.claims],
            **result.tables,
        }
        for experiment, preset, result in found
    ]
    setups = {name: vars(setup) for name, setup in TABLE.items()}
    kept = {"seed": seed, "version": __version__, "table": setups, "results": results}
    return json.dumps(kept, indent=1) + "\n"


def _page(found: list[tuple[Experiment, str, Result]], seed: int) -> str:
    """Everything, for people."""
    lines = [
        "# The paper's experiments",
        "",
        f"Seed {seed}, surefair {__version__}. Preset *paper*: steps 0.01 k^-0.501 from 0, sizes as printed, quantiles "
        "of the absolute gap. Preset *calibrated*: this package's defaults on the same problems, signed gaps. ± is one "
        "standard error over repetitions; *covers others* is how often the interval of one fit contains the value of "
        "another.",
        "",
    ]
    for experiment, preset, result in found:
        lines += [
            f"## {experiment.title}: {preset}",
            "",
            f"![]({experiment.name}-{preset}.png)",
            "",
        ]
        lines += ["| claim | found | held |", "|---|---|---|"]
        lines += [f"| {one.words} | {one.found} | {_word(one.held)} |" for one in result.claims]
        lines.append("")
        for rows in result.tables.values():
            some = rows if "rows" not in rows[0] else [rows[i * (len(rows) - 1) // (SHOWN - 1)] for i in range(SHOWN)]
            lines += [*_table(some), ""]
        numbers = ", ".join(
            f"{name.replace('_', ' ')} {_word(value)}"
            for name, value in result.line.items()
            if name not in ("rows", "warned")
        )
        lines += [numbers + ".", ""]
        if warned := result.line.get("warned"):
            lines += [
                "Warned of: " + ", ".join(f"{name} {100 * share:.0f} %" for name, share in warned.items()) + ".",
                "",
            ]
    return "\n".join(lines)


def _table(rows: list[dict[str, Any]]) -> list[str]:
    """Rows as Markdown, a column with its error in one."""
    names = [name for name in rows[0] if "_error" not in name]
    heading = [f"| {' | '.join(name.replace('_', ' ') for name in names)} |", f"|{'---|' * len(names)}"]
    return heading + [f"| {' | '.join(_cell(row, name) for name in names)} |" for row in rows]


def _cell(row: dict[str, Any], name: str) -> str:
    stem, _, source = name.rpartition("_")
    error = row.get(f"{name}_error", row.get(f"{stem}_error_{source}"))
    return _word(row[name]) + ("" if error is None else f" ± {_word(error)}")


def _word(value: Any) -> str:
    """Number or yes and no, in words."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,}" if isinstance(value, int) else f"{value:.4g}" if isinstance(value, float) else str(value)
