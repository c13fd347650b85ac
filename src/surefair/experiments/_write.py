"""What experiments leave behind: figures, JSON, and a page of tables."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from surefair import __version__
from surefair.experiments._experiment import Experiment, Result
from surefair.experiments._table import PRESETS, TABLE
from surefair.files import written_whole
from surefair.plotting import save

SHOWN = 4  # looks in the tables of the page; the JSON has them all
HEAD = """# The paper's experiments

Seed {seed}, surefair {version}. Preset *paper*: steps 0.01 k^-0.501 from 0, sizes as printed, quantiles of the absolute
gap, the printed covariance. Preset *calibrated*: this package's defaults on the same problems, signed gaps, the
corrected covariance. ± is one standard error over repetitions. *Covers others* is how often the interval of one fit
contains the value of another, *covers optimum* how often it contains that of θ\\*. A claim that something falls is held
against the rank correlation with the rows, one of coverage against 93 to 97 %, within chance.
"""


def write(found: list[tuple[Experiment, str, Result]], seed: int, folder: Path) -> list[Path]:
    """Write everything, and return where; results of other experiments that are there already, and fit, stay."""
    folder.mkdir(parents=True, exist_ok=True)
    for experiment, preset, result in found:
        save(result.draw(), folder / f"{experiment.name}-{preset}")
    new = [_plain(*one) for one in found]
    kept = _known(folder / "results.json", seed)
    names = {(one["experiment"], one["preset"]) for one in new}
    results = sorted([*new, *(one for one in kept if (one["experiment"], one["preset"]) not in names)], key=_place)
    setups = {name: vars(setup) for name, setup in TABLE.items()}
    everything = {"seed": seed, "version": __version__, "table": setups, "results": results}
    pages = {
        "results.json": json.dumps(everything, indent=1, allow_nan=False) + "\n",
        "RESULTS.md": _page(results, seed),
    }
    for name, text in pages.items():
        with written_whole(folder / name) as file:
            file.write(text.encode())
    return [folder / name for name in pages]


def _plain(experiment: Experiment, preset: str, result: Result) -> dict[str, Any]:
    """A result as JSON knows it."""
    kind, setup = PRESETS[preset], TABLE[experiment.data]
    sizes = {name: kind.size(setup, name) for name in ("rows", "n_replicates", "n_evaluation", "n_constraint")}
    return {
        "experiment": experiment.name,
        "preset": preset,
        "title": experiment.title,
        "place": list(experiment.place),
        "settings": {"step_size": str(kind.step_size), "multiplier": kind.multiplier, "bands": kind.bands} | sizes,
        "numbers": result.line,
        "claims": [{"claim": one.words, "found": one.found, "held": one.held} for one in result.claims],
        "tables": result.tables,
    }


def _known(path: Path, seed: int) -> list[dict[str, Any]]:
    """Results that are there already, of the same seed and version."""
    if not path.exists():
        return []
    kept = json.loads(path.read_text())
    return list(kept["results"]) if (kept.get("seed"), kept.get("version")) == (seed, __version__) else []


def _place(result: dict[str, Any]) -> tuple[list[int], bool]:
    return result["place"], result["preset"] != "paper"


def _page(results: list[dict[str, Any]], seed: int) -> str:
    """Everything, for people."""
    lines = [HEAD.format(seed=seed, version=__version__)]
    for result in results:
        name, preset, numbers = result["experiment"], result["preset"], result["numbers"]
        lines += [f"## {result['title']}: {preset}", "", f"![{result['title']}, {preset}]({name}-{preset}.png)", ""]
        if result["claims"]:
            lines += ["| claim | found | held |", "|---|---|---|"]
            lines += [f"| {one['claim']} | {one['found']} | {_word(one['held'])} |" for one in result["claims"]] + [""]
        for rows in result["tables"].values():
            some = [rows[i * (len(rows) - 1) // (SHOWN - 1)] for i in range(SHOWN)] if "rows" in rows[0] else rows
            lines += [*_table(some), ""]
        shown = [one for one in numbers if one not in ("rows", "warned") and "_error" not in one]
        words = [f"{one.replace('_', ' ')} {_cell(numbers, one)}" for one in shown if numbers[one] not in (None, "")]
        warned = [f"{one} {100 * share:.0f} %" for one, share in numbers.get("warned", {}).items()]
        lines += ["At the end: " + ", ".join(words) + ".", ""]
        lines += ["Warned of, in repetitions: " + ", ".join(warned) + ".", ""] if warned else []
    return "\n".join(lines)


def _table(rows: list[dict[str, Any]]) -> list[str]:
    """Rows as Markdown, a column with its error in one; columns without a value are left out."""
    names = [name for name in rows[0] if "_error" not in name and any(row[name] is not None for row in rows)]
    heading = [f"| {' | '.join(name.replace('_', ' ') for name in names)} |", f"|{'---|' * len(names)}"]
    return heading + [f"| {' | '.join(_cell(row, name) for name in names)} |" for row in rows]


def _cell(row: dict[str, Any], name: str) -> str:
    """A number with its error, if it has one."""
    stem, _, source = name.rpartition("_")
    error = row.get(f"{name}_error", row.get(f"{stem}_error_{source}"))
    return _word(row[name]) + ("" if error is None else f" ± {_word(error)}")


def _word(value: Any) -> str:
    """Number, yes or no, or a word."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,}" if isinstance(value, int) else f"{value:.3g}" if isinstance(value, float) else str(value)
