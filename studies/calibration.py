"""Measure the coverage of 95 % intervals with everything redrawn: criteria, losses, data sets, tolerances, rows.

Each data set is the population; for a synthetic stream, 100,000 of its rows are. ``sf.calibrate`` repeats R times: draw
training rows and 5,000 evaluation rows, fit with default settings, constraint included, and compare the intervals of
all four sources for the gap, and those of every coefficient, with their true values. The study judges the exact
binomial interval of each coverage, Bonferroni-corrected for the number of coverages: with 20,000 rows it must not lie
outside 93 to 97 %, with 4,000 not below 92 %. COMPAS has features of few values, so its gap moves in jumps and only the
lower bounds count. The coverage of coefficients is judged by its mean over the coefficients and by the share of them
below 90 %, which must be at most 5 %.

    python studies/calibration.py [--repetitions R] [--replicates B] [--rows N ...] [--data NAME ...]
                                  [--criterion NAME ...] [--tolerance T ...] [--loss NAME ...] [--surrogate NAME]
                                  [--jobs J] [--finished] [--keep] [--quiet]

The study saves finished problems in build/calibration.jsonl, with a hash of the library's code, so an interrupted run
can be resumed. ``--finished`` shows only problems that earlier runs have finished, whatever the code was, and takes
those that are not in build from the results for the docs; so a long study can be computed in parts.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from functools import cache
from itertools import product
from typing import Any

import matplotlib as mpl
import numpy as np
import results

import surefair as sf
from surefair.inference.scoring import binomial_limits

mpl.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.lines import Line2D

CRITERIA = ("demographic_parity", "false_positive_rate", "false_negative_rate", "equalized_odds")
REPORTED = ("false_omission_rate", "false_discovery_rate")  # shown but not judged
TOLERANCES = (0.0, 0.05, 0.2)
LOSSES = ("log_loss", "squared_error")
ROWS = (20_000, 4_000)
BOUNDS = {
    4_000: (0.92, 1.0),
    20_000: (0.93, 0.97),
}  # by training rows; results with other numbers of rows are shown but not judged
LATTICE = ("COMPAS",)  # data sets whose gap moves in jumps: no upper bound
PROBLEM = ("data", "criterion", "tolerance", "loss", "rows")
SEED, N_POPULATION, N_EVALUATION, LEVEL = 11, 100_000, 5_000, 0.95
FEW_COVERED = 0.9  # a coefficient that is covered less often counts as one that fails
MOST_FAILING = 0.05  # share of such coefficients, at most
FINISHED = results.KEPT / "calibration.jsonl"
DATA: dict[str, Callable[[], Any]] = {
    "synthetic DI": lambda: sf.datasets.SyntheticDI(seed=SEED).sample(N_POPULATION),
    "synthetic DM": lambda: sf.datasets.SyntheticDM(seed=SEED).sample(N_POPULATION),
    "Adult": lambda: sf.datasets.load_adult(),
    "COMPAS": lambda: sf.datasets.load_compas(),
}
FLOOR = 0.75  # lower end of the picture; longer bars are cut off
SHADES = {"training": "#0072B2", "retraining": "#D55E00", "evaluation": "#009E73", "total": "#CC79A7"}
MARKS = {"log_loss": ("o", -0.2), "squared_error": ("s", 0.2)}  # marker, and its offset from the number of rows


@cache
def population(name: str) -> Any:
    """Load a data set, once."""
    return DATA[name]()


def finished(with_code: bool) -> dict[str, Any]:
    """Results of finished problems, by problem, with the hash of the code or without it; the latest of each."""
    lines = FINISHED.read_text().splitlines() if FINISHED.exists() else []
    found = {}
    for line in lines:
        try:
            one = json.loads(line)
        except ValueError:  # an interruption cut the line off
            continue
        problem = {name: value for name, value in one["problem"].items() if with_code or name != "code"}
        found[json.dumps(problem, sort_keys=True)] = one["result"]
    return found


def published(args: argparse.Namespace) -> dict[tuple[Any, ...], tuple[dict[str, Any], dict[str, Any]]]:
    """Lines of both tables in the results for the docs, by problem, if they have as many repetitions."""
    file = results.FOLDER / "calibration.json"
    found = json.loads(file.read_text()) if args.finished and file.exists() else {"settings": {}}
    settings = {"repetitions": args.repetitions, "n_replicates": args.replicates}
    if args.surrogate != "decisions" or not settings.items() <= found["settings"].items():
        return {}
    pairs = zip(found["rows"], found["widths"], strict=True)
    return {tuple(row[name] for name in PROBLEM): (row, wide) for row, wide in pairs}


def measure(
    data: str, criterion: str, tolerance: float, loss: str, n: int, args: argparse.Namespace
) -> dict[str, Any] | None:  # fmt: skip
    """Calibration of one problem as plain values, computed or taken from an earlier run."""
    problem: dict[str, Any] = {"data": data, "criterion": criterion, "tolerance": tolerance, "loss": loss, "rows": n}
    problem |= {"surrogate": args.surrogate, "repetitions": args.repetitions, "replicates": args.replicates}
    known = finished(with_code=not args.finished)
    problem |= {} if args.finished else {"code": results.digest()}
    found = known.get(json.dumps(problem, sort_keys=True))
    if found is not None or args.finished:
        return found
    rows = population(data)
    found = sf.calibrate(
        sf.FairClassifier(
            criterion,
            surrogate=args.surrogate,
            loss=loss,
            tolerance=tolerance,
            n_replicates=args.replicates,
        ),
        rows.X,
        rows.y,
        sensitive_features=rows.sensitive,
        n_rows=n,
        n_evaluation=N_EVALUATION,
        repetitions=args.repetitions,
        confidence_level=LEVEL,
        random_state=SEED,
        n_jobs=args.jobs,
        progress=not args.quiet,
    )
    gaps = found.table[found.table["kind"] == "gap"].set_index("source")["coverage"]
    shares = ", ".join(f"{source} {share:.3f}" for source, share in gaps.items())
    print(f"{data}, {criterion}, tolerance {tolerance:g}, {loss}, {n:,} rows: {shares}", flush=True)
    FINISHED.parent.mkdir(exist_ok=True)
    with FINISHED.open("a") as file:
        file.write(json.dumps({"problem": problem, "result": found.to_dict()}) + "\n")
    return found.to_dict()


def failures(found: dict[str, Any], data: str, n: int, level: float) -> list[tuple[str, str]]:
    """Quantities whose coverage is out of bounds by more than chance explains, each with "below" or "above"."""
    least, most = BOUNDS[n]
    most = 1.0 if data in LATTICE else most
    failed = []
    for row in (row for row in found["table"] if row["kind"] == "gap"):
        defined = found["settings"]["repetitions"] - row["undefined"]
        held = round(row["coverage"] * defined) if defined else 0
        low, high = binomial_limits(held, defined - held, level) if defined else (0.0, 0.0)
        if high < least or low > most:
            failed.append((row["source"], "below" if high < least else "above"))
    return failed + _failing_coefficients(found, least, most)


def _failing_coefficients(found: dict[str, Any], least: float, most: float) -> list[tuple[str, str]]:
    """Whether coefficients are covered too rarely or too often on average, or too many of them too rarely."""
    repetitions = found["settings"]["repetitions"]
    shares = np.array([row["coverage"] for row in found["table"] if row["kind"] == "coefficient"], dtype=float)
    error = 3.0 * np.sqrt(LEVEL * (1.0 - LEVEL) / repetitions)  # as if all of them were covered together
    failed = []
    if shares.mean() + error < least or shares.mean() - error > most:
        failed.append(("coefficients", "below" if shares.mean() < least else "above"))
    if np.mean(shares + error < FEW_COVERED) > MOST_FAILING:
        failed.append(("single coefficients", "below"))
    return failed


def explains(diagnostic: str, name: str, side: str) -> bool:
    """Whether a diagnostic explains a coverage that is out of bounds."""
    if diagnostic == "DegenerateReplicates":  # the gap moves in jumps
        return name in SHADES and name != "evaluation"
    if diagnostic == "SmallEvaluationSet":  # the limits are exact then, and wide
        return side == "above" and name in ("evaluation", "total")
    if diagnostic in ("SmallGroup", "TimeDependence", "TooFewReplicates", "ExceededTolerance"):
        return False
    return name != "evaluation"  # the others are about training; few rows near the boundary carry the constraint, too


def is_judged(criterion: str, n: int) -> bool:
    """Whether a problem must be within bounds."""
    return criterion in CRITERIA and n in BOUNDS


def summary(found: dict[str, Any], problem: tuple[str, str, float, str, int], level: float) -> dict[str, Any]:
    """One line of the table."""
    data, criterion, _, _, n = problem
    gaps = {row["source"]: row["coverage"] for row in found["table"] if row["kind"] == "gap"}
    coefs = [row["coverage"] for row in found["table"] if row["kind"] == "coefficient" and row["coverage"] is not None]
    diagnostics = {name: share for name, share in found["warned"].items() if hasattr(sf.diagnostics, name)}
    judged = is_judged(criterion, n)
    failed = failures(found, data, n, level) if judged else []
    verdict = "holds" if judged else "not judged"
    if failed:
        often = [name for name, share in diagnostics.items() if share >= 0.5]
        explained = all(any(explains(diagnostic, *one) for diagnostic in often) for one in failed)
        verdict = "warned of" if explained else "FAILS"
    return {
        **gaps,
        "coef_lowest": float(np.min(coefs)),
        "coef_mean": float(np.mean(coefs)),
        "coef_highest": float(np.max(coefs)),
        "verdict": verdict,
        "out_of_bounds": ", ".join(f"{name} {side}" for name, side in failed),
        "diagnostics": ", ".join(f"{name} {share:.0%}" for name, share in diagnostics.items()),
    }


def line(row: dict[str, Any]) -> str:
    """Format a line of the table for the terminal."""
    words = f"{row['data']:13}{row['criterion']:20}{row['tolerance']:<5g}{row['loss']:14}{row['rows']:>7,}"
    shares, coefs = (
        " ".join("-" if row[name] is None else f"{row[name]:.3f}" for name in names)
        for names in (SHADES, ("coef_lowest", "coef_mean", "coef_highest"))
    )
    said = "; ".join(part for part in (row["verdict"], row["out_of_bounds"], row["diagnostics"]) if part)
    return f"{words} | {shares} | {coefs} | {said}"


def widths(found: dict[str, Any]) -> dict[str, Any]:
    """Widths of the intervals of one problem, and ratios of the bootstrap's spread to the true one."""
    gaps = {row["source"]: row for row in found["table"] if row["kind"] == "gap"}
    coefs = [row for row in found["table"] if row["kind"] == "coefficient" and row["spread_ratio"] is not None]
    row = {f"width_{source}": gap["width"] for source, gap in gaps.items()}
    row |= {"score_total": gaps["total"]["score"]}
    row |= {f"spread_{source}": gap["spread_ratio"] for source, gap in gaps.items()}
    row |= {"spread_coef_lowest": float(np.min([one["spread_ratio"] for one in coefs]))}
    row |= {"spread_coef_highest": float(np.max([one["spread_ratio"] for one in coefs]))}
    return row | {"bias_coef_largest": float(np.max([abs(one["bias"]) for one in coefs]))}


def pooled(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Mean coverage over the problems that hold or fail; those that a diagnostic warns of are left out.

    Problems of one data set share their draws, so the mean is less precise than the number of repetitions suggests.
    """
    lines = []
    for n, loss in dict.fromkeys((row["rows"], row["loss"]) for row in rows):
        some = [row for row in rows if (row["rows"], row["loss"]) == (n, loss) and row["verdict"] in ("holds", "FAILS")]
        shares = {name: [row[name] for row in some if row[name] is not None] for name in (*SHADES, "coef_mean")}
        means = {name: float(np.mean(values)) for name, values in shares.items() if values}
        lines.append({"rows": n, "loss": loss, "problems": len(some), **means})
    return lines


def draw(rows: list[dict[str, Any]]) -> Any:
    """Draw coverage against training rows and tolerance: one panel per data set and criterion."""
    data, criteria = (list(dict.fromkeys(row[name] for row in rows)) for name in ("data", "criterion"))
    size = 1.0 + 3.4 * max(len(criteria), 2), 0.8 + 2.3 * len(data)
    figure, axes = plt.subplots(
        len(data), len(criteria), figsize=size, sharex=True, sharey=True, squeeze=False, layout="constrained"
    )
    places = sorted({(row["rows"], row["tolerance"]) for row in rows})
    for (i, name), (j, criterion) in product(enumerate(data), enumerate(criteria)):
        ax = axes[i, j]
        ax.axhspan(0.93, 0.97, color="0.92", zorder=0)
        ax.axhline(LEVEL, color="0.5", linewidth=0.8, zorder=1)
        for loss, (marker, shift) in MARKS.items():
            some = [row for row in rows if (row["data"], row["criterion"], row["loss"]) == (name, criterion, loss)]
            at = np.array([places.index((row["rows"], row["tolerance"])) for row in some]) + shift
            ends = [[row[end] for row in some] for end in ("coef_lowest", "coef_highest")]
            ax.vlines(at, *ends, color="0.7", linewidth=5)
            for k, (source, colour) in enumerate(SHADES.items()):
                shares = [np.nan if row[source] is None else row[source] for row in some]
                ax.plot(at + 0.08 * (k - 1.5), shares, marker, color=colour, markersize=4)
        ax.set_title(f"{name}, {criterion.replace('_', ' ')}", fontsize="small")
        ax.set(ylim=(FLOOR, 1.01), xlim=(-0.6, len(places) - 0.4))
        ax.set_xticks(range(len(places)), labels=[f"{n // 1000}k\n{tolerance:g}" for n, tolerance in places])
        ax.spines[["top", "right"]].set_visible(False)
    for ax in axes[-1]:
        ax.set_xlabel("training rows, tolerance")
    for ax in axes[:, 0]:
        ax.set_ylabel("coverage")
    handles = [Line2D([], [], marker="o", linestyle="", color=colour, label=name) for name, colour in SHADES.items()]
    handles.append(Line2D([], [], color="0.7", linewidth=5, label="coefficients, lowest to highest"))
    for loss, (marker, _) in MARKS.items():
        handles.append(Line2D([], [], marker=marker, linestyle="", color="0.3", label=loss.replace("_", " ")))
    figure.legend(handles=handles, loc="outside lower center", ncols=4, frameon=False, fontsize="small")
    return figure


def main() -> None:
    """Run the study and save its results."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--surrogate", choices=sf.criteria.SURROGATES, default="decisions")
    parser.add_argument("--repetitions", type=int, default=2_000)
    parser.add_argument("--replicates", type=int, default=99)
    parser.add_argument("--rows", type=int, nargs="*", default=ROWS)
    parser.add_argument("--data", nargs="*", choices=DATA, default=list(DATA))
    parser.add_argument("--criterion", nargs="*", choices=CRITERIA + REPORTED, default=CRITERIA)
    parser.add_argument("--tolerance", type=float, nargs="*", default=TOLERANCES)
    parser.add_argument("--loss", nargs="*", choices=LOSSES, default=LOSSES)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--finished", action="store_true", help="show what earlier runs have finished")
    parser.add_argument("--keep", action="store_true", help="save the results for the docs, with their options")
    parser.add_argument("--quiet", action="store_true")
    args = parser.parse_args()
    order = product(args.loss, args.rows, args.data, args.criterion, args.tolerance)
    problems = [(data, criterion, tolerance, loss, n) for loss, n, data, criterion, tolerance in order]
    measured, known = {problem: measure(*problem, args) for problem in problems}, published(args)
    found = [problem for problem in problems if measured[problem] is not None or problem in known]
    if not found:
        raise SystemExit("No problem is finished with these options.")
    judged = sum(len(SHADES) for (_, criterion, _, _, n) in found if is_judged(criterion, n))
    level = 1.0 - 0.05 / max(judged, 1)
    rows, wide = [], []
    for problem in found:
        one, names = measured[problem], dict(zip(PROBLEM, problem, strict=True))
        lines = known[problem] if one is None else (names | summary(one, problem, level), names | widths(one))
        rows.append(lines[0])
        wide.append(lines[1])
    settings = {
        "repetitions": args.repetitions,
        "n_replicates": args.replicates,
        "judged": judged,
        "level_each": level,
    }
    picture = draw(rows)
    print(f"{'':54} | {', '.join(SHADES)} | coefficients: lowest, mean, highest | verdict")
    for row in rows:
        print(line(row))
    if results.keep("calibration", settings, rows, shown=("pooled",), pooled=pooled(rows), widths=wide):
        picture.savefig(results.FOLDER / "calibration.png", dpi=120)
    else:
        FINISHED.parent.mkdir(exist_ok=True)
        picture.savefig(FINISHED.with_suffix(".png"), dpi=120)
    if failed := [row for row in rows if row["verdict"] == "FAILS"]:
        raise SystemExit(f"{len(failed)} problems are out of bounds without a diagnostic that explains it.")


if __name__ == "__main__":
    main()
