"""Write the results of experiments: figures, JSON, and a page of tables."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from surefair import __version__
from surefair.experiments.experiment import Experiment, Result
from surefair.experiments.rules import RULES, answer
from surefair.experiments.run import digest
from surefair.experiments.setups import PRESETS, TABLE
from surefair.plotting.drawing import save
from surefair.storage.atomic import written_whole

SHOWN = 4  # looks in the tables of the page; the JSON file has all of them
HEAD = """# The paper's experiments

Seed {seed}, surefair {version}. The preset *paper* follows the paper: steps 0.01 k^-0.501 from 0, the sizes in its
table, a constraint that D' fixes, quantiles of the absolute gap, and the printed covariance. The preset *calibrated*
uses this package's defaults on the same data and criteria: a constraint on decisions that is learnt from the training
rows, with a tolerance of 0.05, signed gaps, and a covariance that includes the noise of the constraint. Until surefair
learnt the constraint from all rows, this preset fixed a constraint on scores by the 1,000 rows of D'; its gaps, widths
and limit laws are those of other models, and cannot be compared with the ones here. The paper does not say how many
rows of COMPAS and Adult it trains on; those numbers are our choice.

± is one standard error over repetitions; for a share of 0 or 1 it is half the width of the exact limits. *Covers
others* is how often the interval of one repetition contains the value of another, and *covers optimum* how often it
contains the value of θ\\*. *W2 ratio* is W2 divided by the 95th percentile of samples from the law itself. *Optimum
gap* is the gap of θ\\* on the evaluation rows and in the population.

These rules decide if a claim held. The column *whose claim* says if the paper makes it, Zafar et al. print it, or we
check it:

{rules}
"""


def write(
    found: list[tuple[Experiment, str, Result]], seed: int, folder: Path, say: Callable[[str], Any]
) -> list[Path]:
    """Write everything and return the paths; results in the folder with the same seed and code are kept.

    Parameters
    ----------
    found : list
        Tuples of experiment, preset and result.
    seed : int
    folder : path
    say : callable
        Called with a message if earlier results are dropped.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for experiment, preset, result in found:
        save(result.draw(), folder / f"{experiment.name}-{preset}")
    new = [_plain(*one) for one in found]
    kept = _known(folder / "results.json", seed, {(one["experiment"], one["preset"]) for one in new}, say)
    results = sorted([*new, *kept], key=_place)
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
    """Result as plain values for JSON."""
    kind = PRESETS[preset]
    setup = TABLE[experiment.data]
    sizes = {name: kind.size(setup, name) for name in ("rows", "n_replicates", "n_evaluation", "n_constraint")}
    return {
        "experiment": experiment.name,
        "preset": preset,
        "digest": digest(),
        "title": experiment.title,
        "place": list(experiment.place),
        "settings": {"step_size": str(kind.step_size), "multiplier": kind.multiplier, "bands": kind.bands} | sizes,
        "numbers": result.line,
        "claims": [vars(one) for one in result.claims],
        "tables": result.tables,
    }


def _known(path: Path, seed: int, new: set[tuple[str, str]], say: Callable[[str], Any]) -> list[dict[str, Any]]:
    """Earlier results to keep: those that this run does not replace and that have the same seed and code."""
    if not path.exists():
        return []
    try:
        found = json.loads(path.read_text())
        others = [one for one in found["results"] if (one["experiment"], one["preset"]) not in new]
        kept = [one for one in others if found["seed"] == seed and one.get("digest") == digest()]
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        say(f"{path} is incomplete or not a file of results: replacing it.")
        return []
    dropped = [f"{one['experiment']} ({one['preset']})" for one in others if one not in kept]
    if dropped:
        say(f"Dropped from {path.name} because seed or code differ: {', '.join(dropped)}.")
    return kept


def _place(result: dict[str, Any]) -> tuple[list[int], bool]:
    return result["place"], result["preset"] != "paper"


def _page(results: list[dict[str, Any]], seed: int) -> str:
    """All results as a Markdown page."""
    lines = [HEAD.format(seed=seed, version=__version__, rules=RULES), *_open(results)]
    for result in results:
        name, preset, numbers = result["experiment"], result["preset"], result["numbers"]
        lines += [f"## {result['title']}: {preset}", "", f"![{result['title']}, {preset}]({name}-{preset}.png)", ""]
        if result["claims"]:
            lines += ["| claim | whose claim | found | held |", "|---|---|---|---|"]
            lines += [
                f"| {one['words']} | {one['whose']} | {one['found']} | {answer(one['held'], one['judged'])} |"
                for one in result["claims"]
            ] + [""]
        for rows in result["tables"].values():
            some = [rows[i * (len(rows) - 1) // (SHOWN - 1)] for i in range(SHOWN)] if "rows" in rows[0] else rows
            lines += [*_table(some), ""]
        shown = [one for one in numbers if one not in ("rows", "warned") and "_error" not in one]
        words = [f"{one.replace('_', ' ')} {_cell(numbers, one)}" for one in shown if numbers[one] not in (None, "")]
        warned = _warned(numbers)
        lines += ["At the end: " + ", ".join(words) + ".", ""]
        lines += [f"Warnings (share of repetitions): {warned}.", ""] if warned else []
    return "\n".join(lines)


def _open(results: list[dict[str, Any]]) -> list[str]:
    """Claims that do not hold with this package's defaults, or are undecided; the docs include this part."""
    rows = [
        {"experiment": one["title"]}
        | {"claim": claim["words"], "found": claim["found"], "held": answer(claim["held"], claim["judged"])}
        | {"warnings (share of repetitions)": _warned(one["numbers"])}
        for one in results
        for claim in one["claims"]
        if one["preset"] == "calibrated" and claim["judged"] and not claim["held"]
    ]
    heading = "## Claims that do not hold, or stay undecided, with the calibrated preset"
    return [heading, "", "<!-- open -->", "", *(_table(rows) if rows else ["None."]), "", "<!-- end of open -->", ""]


def _warned(numbers: dict[str, Any]) -> str:
    """Warnings, each with the share of repetitions that raised it."""
    return ", ".join(f"{one} {100 * share:.0f} %" for one, share in numbers.get("warned", {}).items())


def _table(rows: list[dict[str, Any]]) -> list[str]:
    """Rows as a Markdown table; errors stand next to their numbers, and empty columns are left out."""
    names = [name for name in rows[0] if "_error" not in name and any(row[name] is not None for row in rows)]
    heading = [f"| {' | '.join(name.replace('_', ' ') for name in names)} |", f"|{'---|' * len(names)}"]
    return heading + [f"| {' | '.join(_cell(row, name) for name in names)} |" for row in rows]


def _cell(row: dict[str, Any], name: str) -> str:
    """Number with its error, if it has one."""
    stem, _, source = name.rpartition("_")
    error = row.get(f"{name}_error", row.get(f"{stem}_error_{source}"))
    return _word(row[name]) + (f" ± {_word(error)}" if error else "")


def _word(value: Any) -> str:
    """Value as text."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,}" if isinstance(value, int) else f"{value:.3g}" if isinstance(value, float) else str(value)
