"""Rows in shards, each fitted by itself and merged: bias, width and coverage against the number of shards.

A population of 200,000 rows for each problem, and one constraint set of 1,000 that is held fixed. R times: n rows are
drawn and cut at random into M shards of equal length, of 1,500 rows at least; ``fit_shards`` fits and merges them, at
default settings with 200 replicates, and intervals of all four sources are held against their truths on 5,000
evaluation rows, as in studies/calibration.py. A repetition has the same rows for every M, so that differences between M
are paired.

Printed: coverage of intervals of level 95 % (``shards``); bias of the training gap and of the coefficient that is
furthest off, in standard deviations of a fit in one pass, with its standard error and that of its difference from one
pass, mean width over that of one pass, and the bootstrap's spread over the true one (``bias``). A cell is out of bounds
where the exact binomial interval of a coverage, Bonferroni-corrected over all cells, is outside 93 to 97 %; it is
"warned of" where StartNotForgotten or StepBias is raised in nine repetitions of ten, and FAILS otherwise.

How many shards are safe (``law``, ``safe``): a shard of n/M rows carries what is left of its start, of order M/n, and
the bias of its steps, of the order of their mean size, (M/n)^p where they shrink like k^-p, by default with p = 2/3.
The standard deviation of the merged fit is of order 1/√n. So bias over standard deviation, beyond that of one pass, is
a (M - 1)/√n + b (M^p - 1)/n^(p - 1/2): a and b are fitted by weighted least squares, for the coefficient that is moved
furthest and for the gap, to biases of up to one standard deviation: beyond, shards are so short that the law does not
hold, nor matter. Safe is the largest M for which the larger of the two stays below a tenth of a standard deviation,
with constants at the far end of their 95 % region: counted is the start alone, as intervals are mirrored and make up
for the bias of steps, or both.

    python studies/shards.py [--repetitions R] [--rows N ...] [--shards M ...] [--jobs J] [--quiet]
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from itertools import pairwise, product
from typing import Any, NamedTuple

import matplotlib as mpl
import numpy as np
import results
from classic import COVARIANCES
from scipy.special import expit
from scipy.stats import chi2

import surefair as sf
from surefair.calibration import Calibration
from surefair.inference.scoring import binomial_limits
from surefair.learners.schedules import AUTO
from surefair.parallel.blocks import fit_shards

mpl.use("Agg")
import matplotlib.pyplot as plt

SEED, N_POPULATION, N_CONSTRAINT, N_EVALUATION, LEVEL = 19, 200_000, 1_000, 5_000, 0.95
ROWS, SHARDS, BOUNDS = (20_000, 200_000), (1, 2, 8, 32), (0.93, 0.97)
SOURCES = ("training", "retraining", "evaluation", "total")
WARNED = 0.9  # share of repetitions in which a cell out of bounds must be warned of
LEAST_ROWS = 1_500  # of a shard
ALLOWED, NEAR = 0.1, 1.0  # standard deviations of bias that are safe, and up to which the law is fitted
SIZES = tuple(10**k for k in range(4, 11))  # numbers of rows for which safe shards are told
COEFFICIENT, GAP = "#0072B2", "#D55E00"


class Rows(NamedTuple):
    """A population."""

    X: np.ndarray
    y: np.ndarray
    sensitive: np.ndarray


class Problem(NamedTuple):
    """A population and what is to be fair on it."""

    load: Callable[[], Any]
    criterion: str | None


def logistic(d: int = 20) -> Rows:
    """Toeplitz design of studies/classic.py, with a group that leans on the last features; large margins."""
    rng = np.random.default_rng(SEED)
    X = rng.normal(size=(N_POPULATION, d)) @ np.linalg.cholesky(COVARIANCES["Toeplitz"](d)).T
    y = np.where(rng.random(len(X)) < expit(X @ np.linspace(0.0, 1.0, d)), 1, -1)
    return Rows(X, y, (X[:, -2:].sum(axis=1) + rng.normal(size=len(X)) > 0.0).astype(int))


PROBLEMS = {
    "synthetic DI, demographic parity": Problem(
        lambda: sf.datasets.SyntheticDI(seed=SEED).sample(N_POPULATION), "demographic_parity"
    ),
    "synthetic DM, false-positive rate": Problem(
        lambda: sf.datasets.SyntheticDM(seed=SEED).sample(N_POPULATION), "false_positive_rate"
    ),
    "logistic, 20 features, no constraint": Problem(logistic, None),
}


def in_shards(
    M: int, clf: sf.FairClassifier, X: Any, y: Any, *, sensitive_features: Any, constraint_set: Any
) -> sf.FairClassifier:
    """Fit in M shards of equal length; the rows are independent draws, and so any cut is one at random."""
    edges = np.linspace(0, len(y), M + 1).astype(int)
    parts = [slice(*ends) for ends in pairwise(edges)]
    shards = [(X[part], y[part], {name: z.iloc[part] for name, z in sensitive_features.items()}) for part in parts]
    return fit_shards(clf, shards, constraint_set=constraint_set)


def measure(problem: Problem, population: Any, n: int, M: int, args: argparse.Namespace) -> Calibration:
    """Calibration of one cell."""
    return sf.calibrate(
        sf.FairClassifier(problem.criterion, n_constraint=N_CONSTRAINT),
        population.X,
        population.y,
        sensitive_features=population.sensitive,
        n_rows=n,
        n_evaluation=N_EVALUATION,
        repetitions=args.repetitions,
        confidence_level=LEVEL,
        fit=partial(in_shards, M),
        random_state=SEED,
        n_jobs=args.jobs,
        progress=not args.quiet,
    )


class Shift(NamedTuple):
    """Bias of one quantity in standard deviations of one pass: all of it, and beyond one pass, with errors."""

    bias: float
    error: float
    beyond: float
    error_beyond: float


def shift(errors: np.ndarray, one_pass: np.ndarray) -> Shift:
    """Bias out of paired repetitions, estimates minus truths, shape (R,)."""
    both = np.isfinite(errors) & np.isfinite(one_pass)
    errors, one_pass = errors[both], one_pass[both]
    sd, root = one_pass.std(ddof=1), np.sqrt(len(errors))
    apart = errors - one_pass
    return Shift(*(float(x / sd) for x in (errors.mean(), errors.std(ddof=1) / root)),
                 *(float(x / sd) for x in (apart.mean(), apart.std(ddof=1) / root)))  # fmt: skip


class Cell(NamedTuple):
    """What was found for one problem, number of rows and number of shards."""

    found: Calibration
    shifts: list[Shift]  # by row of the table

    @property
    def table(self) -> list[dict[str, Any]]:
        """One row per quantity."""
        return self.found.to_dict()["table"]

    def which(self, kind: str, source: str = "training") -> list[int]:
        """Numbers of the table's rows of a kind."""
        return [i for i, row in enumerate(self.table) if (row["kind"], row["source"]) == (kind, source)]

    @property
    def warned(self) -> dict[str, float]:
        """Shares of repetitions by diagnostic; a fit that warns of its start says nothing of its steps."""
        return {name: self.found.warned.get(name, 0.0) for name in ("StartNotForgotten", "StepBias")}


def coverage(cell: Cell, level: float) -> dict[str, Any]:
    """Coverages of a cell and what to say of them."""
    failed, limits = [], {}
    for row in cell.table:
        name = row["source"] if row["kind"] == "gap" else row["quantity"]
        defined = cell.found.settings["repetitions"] - row["undefined"]
        held = round(row["coverage"] * defined)
        low, high = binomial_limits(held, defined - held, level)
        if high < BOUNDS[0] or low > BOUNDS[1]:
            failed.append(f"{name} {'below' if high < BOUNDS[0] else 'above'}")
        if row["kind"] == "gap":
            limits[name] = f"{row['coverage']:.3f} ({row['coverage_low']:.3f} to {row['coverage_high']:.3f})"
    coefs = [cell.table[i]["coverage"] for i in cell.which("coefficient")]
    verdict = "holds" if not failed else "warned of" if sum(cell.warned.values()) >= WARNED else "FAILS"
    return {
        **{source: limits[source] for source in SOURCES},
        "coef_lowest": float(np.min(coefs)),
        "coef_mean": float(np.mean(coefs)),
        "coef_highest": float(np.max(coefs)),
        **cell.warned,
        "verdict": verdict,
        "out_of_bounds": ", ".join(failed),
    }


def bias(cell: Cell, one_pass: Cell) -> dict[str, Any]:
    """Bias, width and spread of a cell."""
    (gap,), coefs = cell.which("gap"), cell.which("coefficient")
    worst = max(coefs, key=lambda i: abs(cell.shifts[i].bias))
    wide = [wider(cell, one_pass, i)[0] for i in range(len(cell.table))]
    spreads = [cell.table[i]["spread_ratio"] for i in coefs]
    said = {name: _pair(i, cell) for name, i in (("gap", gap), ("coef", worst))}
    return {
        "gap_bias": said["gap"][0],
        "beyond_one_pass": said["gap"][1],
        "coefficient": cell.table[worst]["quantity"],
        "coef_bias": said["coef"][0],
        "coef_beyond_one_pass": said["coef"][1],
        **{f"width_{source}": wide[cell.which("gap", source)[0]] for source in SOURCES},
        "width_coef": float(np.mean([wide[i] for i in coefs])),
        "spread_gap": cell.table[gap]["spread_ratio"],
        "spread_coef_lowest": float(np.min(spreads)),
        "spread_coef_highest": float(np.max(spreads)),
    }


def wider(cell: Cell, one_pass: Cell, i: int) -> tuple[float, float]:
    """Mean width over that of one pass, with its standard error, of a quantity, in pairs."""
    here, there = cell.found.widths[:, i], one_pass.found.widths[:, i]
    both = np.isfinite(here) & np.isfinite(there)
    ratio = here[both].mean() / there[both].mean()
    error = (here - ratio * there)[both].std(ddof=1) / np.sqrt(both.sum()) / there[both].mean()
    return float(ratio), float(error)


def _pair(i: int, cell: Cell) -> tuple[str, str]:
    """Bias and bias beyond one pass of a quantity, with standard errors."""
    s = cell.shifts[i]
    return f"{s.bias:+.3f} ± {s.error:.3f}", f"{s.beyond:+.3f} ± {s.error_beyond:.3f}"


class Law(NamedTuple):
    """Bias of a quantity beyond one pass as a (M - 1)/√n + b (M^p - 1)/n^(p - 1/2), where steps shrink like k^-p."""

    quantity: str
    i: int  # its row of the table
    constants: np.ndarray  # a, b
    covariance: np.ndarray
    misfit: float  # sum of squares of the residuals over their errors
    free: int  # its degrees of freedom

    def at(self, n: float, M: float) -> float:
        """Bias beyond one pass."""
        return float(_terms(n, M) @ self.constants)

    def bound(self, n: float, M: float, terms: int) -> float:
        """Largest size of the bias, or of its first term alone, that the 95 % region of the constants allows."""
        at = _terms(n, M)[:terms]
        error = np.sqrt(at @ self.covariance[:terms, :terms] @ at)
        return float(abs(at @ self.constants[:terms]) + np.sqrt(chi2.ppf(LEVEL, terms)) * error)


def _terms(n: float, M: float) -> np.ndarray:
    return np.array([(M - 1.0) / np.sqrt(n), (M**AUTO.power - 1.0) / n ** (AUTO.power - 0.5)])


def fitted(cells: dict[tuple[int, int], Cell], i: int) -> Law:
    """Fit the law of one quantity, to cells with little bias and those with the fewest shards."""
    known = {key: cell.shifts[i] for key, cell in cells.items() if key[1] > 1}
    fewest = min(M for _, M in known)
    known = {key: one for key, one in known.items() if key[1] == fewest or abs(one.beyond) <= NEAR}
    error = np.array([one.error_beyond for one in known.values()])
    A = np.array([_terms(*key) for key in known]) / error[:, None]
    b = np.array([one.beyond for one in known.values()]) / error
    inverse = np.linalg.pinv(A.T @ A)
    constants = inverse @ A.T @ b
    row = next(iter(cells.values())).table[i]
    quantity = row["quantity"] if row["kind"] == "coefficient" else "gap"
    return Law(quantity, i, constants, inverse, float(np.sum((A @ constants - b) ** 2)), len(b) - len(constants))


def laws(cells: dict[tuple[int, int], Cell]) -> list[Law]:
    """Laws of one problem: of the gap, and of the coefficient that is moved furthest where shards are shortest."""
    last = max(cells.items(), key=lambda one: one[0][1] / np.sqrt(one[0][0]))[1]
    worst = max(last.which("coefficient"), key=lambda i: abs(last.shifts[i].beyond))
    return [fitted(cells, i) for i in (*last.which("gap"), worst)]


def safe(laws: list[Law], n: int, terms: int) -> int:
    """Return the largest number of shards, one per 1,500 rows at most, whose biases are surely small enough."""
    low, high = 1, n // LEAST_ROWS + 1
    while high - low > 1:
        middle = (low + high) // 2
        fine = max(law.bound(n, middle, terms) for law in laws) <= ALLOWED
        low, high = (middle, high) if fine else (low, middle)
    return low


def told(problem: str, law: Law) -> dict[str, Any]:
    """One line about a law."""
    (a, b), error = law.constants, np.sqrt(np.diag(law.covariance))
    return {
        "problem": problem,
        "quantity": law.quantity,
        "a": float(a),
        "error_of_a": float(error[0]),
        "b": float(b),
        "error_of_b": float(error[1]),
        "misfit": law.misfit,
        "degrees_of_freedom": law.free,
        "chance_of_more": float(chi2.sf(law.misfit, law.free)) if law.free > 0 else None,
    }


def draw(problem: str, cells: dict[tuple[int, int], Cell], axes: Any) -> None:
    """Bias and width of one problem against the number of shards."""
    sizes = sorted({n for n, _ in cells}, reverse=True)
    for (n, law), k in zip(product(sizes, laws(cells)), range(4), strict=False):
        colour, style = (GAP, COEFFICIENT)[k % 2], ("-", "--")[k // 2]
        look = {"color": colour, "markersize": 4, "mfc": colour if k < 2 else "white"}
        some = {M: cell for (rows, M), cell in cells.items() if rows == n}
        beside = [M * 1.06 ** (k - 1.5) for M in some]  # so that bars do not hide each other
        moved = [cell.shifts[law.i] for cell in some.values()]
        bars = [1.96 * one.error_beyond for one in moved]
        axes[0].errorbar(beside, [one.beyond for one in moved], bars, fmt="o", capsize=2, **look)
        M = np.geomspace(1, max(some), 200)
        label = f"{law.quantity}, {n:,} rows"
        axes[0].plot(M, [law.at(n, m) for m in M], style, color=colour, linewidth=1, label=label)
        wide = [wider(cell, some[1], law.i) for cell in some.values()]
        bars = [1.96 * error for _, error in wide]
        axes[1].errorbar(beside, [ratio for ratio, _ in wide], bars, fmt=f"o{style}", capsize=2, linewidth=1, **look)
    axes[0].axhspan(-ALLOWED, ALLOWED, color="0.92", zorder=0)
    axes[0].set_yscale("symlog", linthresh=ALLOWED)
    axes[0].yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes[1].axhline(1.0, color="0.8", linewidth=0.8, zorder=0)
    axes[0].set_title(problem, fontsize="small")
    axes[0].legend(frameon=False, fontsize="x-small")
    places = sorted({M for _, M in cells})
    for ax in axes:
        ax.set_xscale("log")
        ax.set_xticks(places, [str(M) for M in places])
        ax.minorticks_off()
        ax.spines[["top", "right"]].set_visible(False)
    axes[1].set_xlabel("shards")


def main() -> None:
    """Run the study and keep its results."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--repetitions", type=int, default=300)
    parser.add_argument("--rows", type=int, nargs="*", default=ROWS)
    parser.add_argument("--shards", type=int, nargs="*", default=SHARDS)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--quiet", action="store_true")
    args = parser.parse_args()
    if min(args.shards) != 1:
        parser.error("one shard must be among them: the others are compared with it")
    found: dict[str, dict[tuple[int, int], Cell]] = {}
    for name, problem in PROBLEMS.items():
        population, found[name] = problem.load(), {}
        for n, M in product(sorted(args.rows), sorted(args.shards)):
            if n / M < LEAST_ROWS:
                continue
            one = measure(problem, population, n, M, args)
            first = one if M == 1 else found[name][n, 1].found
            shifts = [shift(*pair) for pair in zip(one.errors.T, first.errors.T, strict=True)]
            found[name][n, M] = Cell(one, shifts)
            results.console.print(f"{name}, {n:,} rows in {M} shards: {one.sentence}", highlight=False)
    judged = sum(len(cell.table) for cells in found.values() for cell in cells.values())
    level = 1.0 - (1.0 - LEVEL) / judged
    covered, biased, constants, most = [], [], [], []
    for name, cells in found.items():
        for (n, M), cell in cells.items():
            names = {"problem": name, "rows": n, "shards": M}
            covered.append(names | coverage(cell, level))
            biased.append(names | bias(cell, cells[n, 1]))
        both = laws(cells)
        constants += [told(name, law) for law in both]
        for terms, counted in ((1, "start"), (2, "start and steps")):
            numbers = {f"{n:,}_rows": safe(both, n, terms) for n in SIZES}
            most.append({"problem": name, "counted": counted} | numbers)
    figure, axes = plt.subplots(2, len(found), figsize=(11.0, 6.0), sharex=True, squeeze=False, layout="constrained")
    for (name, cells), column in zip(found.items(), axes.T, strict=True):
        draw(name, cells, column)
    axes[0, 0].set_ylabel("bias beyond one pass\n(standard deviations)")
    axes[1, 0].set_ylabel("mean width over that of one pass")
    settings = {"repetitions": args.repetitions, "n_constraint": N_CONSTRAINT, "judged": judged, "level_each": level}
    kept = results.keep("shards", settings, covered, bias=biased, law=constants, safe=most)
    results.KEPT.mkdir(exist_ok=True)
    figure.savefig((results.FOLDER if kept else results.KEPT) / "shards.png", dpi=120)
    if failed := [row for row in covered if row["verdict"] == "FAILS"]:
        raise SystemExit(f"{len(failed)} cells are out of bounds, and no diagnostic says so.")


if __name__ == "__main__":
    main()
