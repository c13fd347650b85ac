"""Measure bias, width and coverage of fits that are merged from shards, by number of shards.

Each problem has a population of 200,000 rows and one constraint set of 1,000 rows, which is drawn once. Each of R
repetitions draws n rows and cuts them at random into M shards of equal length, at least 1,500 rows each. ``fit_shards``
fits and merges them with default settings and 200 replicates. The study then compares the intervals of all four sources
with their true values on 5,000 evaluation rows, as in studies/calibration.py. A repetition has the same rows for every
M, so differences between M are paired.

The table ``shards`` has the coverage of 95 % intervals. The table ``bias`` has the bias of the training gap and of the
most biased coefficient, in standard deviations of a fit in one pass, with its standard error; its difference from one
pass, likewise; the mean width relative to one pass; and the bootstrap's spread relative to the true one. A cell is out
of bounds if the exact binomial interval of a coverage, Bonferroni-corrected over all cells, is outside 93 to 97 %. Such
a cell is "warned of" if StartNotForgotten or StepBias is raised in nine of ten repetitions, and FAILS otherwise.

The tables ``law`` and ``safe`` say how many shards are safe. A shard of n/M rows has a bias from its start, of order
M/n, and a bias from its steps, of the order of their mean size: (M/n)^p if they shrink like k^-p, by default with
p = 2/3. The standard deviation of the merged fit is of order 1/√n. So the bias relative to the standard deviation, in
excess of that of one pass, is a (M - 1)/√n + b (M^p - 1)/n^(p - 1/2). Weighted least squares gives a and b for the gap
and for the coefficient that moves most, from biases of up to one standard deviation; beyond that, shards are so short
that the law neither holds nor matters. The largest safe M keeps the larger of the two biases below a tenth of a
standard deviation, with constants at the far end of their 95 % region. It is computed for the start alone, because
intervals are mirrored and correct the bias of the steps, and for both.

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
WARNED = 0.9  # share of repetitions that must raise a diagnostic in a cell out of bounds
LEAST_ROWS = 1_500  # per shard
ALLOWED, NEAR = 0.1, 1.0  # largest safe bias, and largest bias for fitting the law, in standard deviations
SIZES = tuple(10**k for k in range(4, 11))  # numbers of rows in the table of safe shards
COEFFICIENT, GAP = "#0072B2", "#D55E00"


class Rows(NamedTuple):
    """A population."""

    X: np.ndarray
    y: np.ndarray
    sensitive: np.ndarray


class Problem(NamedTuple):
    """A population and a criterion."""

    load: Callable[[], Any]
    criterion: str | None


def logistic(d: int = 20) -> Rows:
    """Toeplitz design of studies/classic.py with large scores, and a group that depends on the last features."""
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
    """Fit in M shards of equal length; the rows are independent draws, so any cut is random."""
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
    """Bias of one quantity in standard deviations of one pass: in total and in excess of one pass, with errors."""

    bias: float
    error: float
    beyond: float
    error_beyond: float


def shift(errors: np.ndarray, one_pass: np.ndarray) -> Shift:
    """Bias from paired repetitions: estimates minus true values, shape (R,)."""
    both = np.isfinite(errors) & np.isfinite(one_pass)
    errors, one_pass = errors[both], one_pass[both]
    sd, root = one_pass.std(ddof=1), np.sqrt(len(errors))
    apart = errors - one_pass
    return Shift(*(float(x / sd) for x in (errors.mean(), errors.std(ddof=1) / root)),
                 *(float(x / sd) for x in (apart.mean(), apart.std(ddof=1) / root)))  # fmt: skip


class Cell(NamedTuple):
    """Results for one problem, number of rows and number of shards."""

    found: Calibration
    shifts: list[Shift]  # one per row of the table

    @property
    def table(self) -> list[dict[str, Any]]:
        """One row per quantity."""
        return self.found.to_dict()["table"]

    def which(self, kind: str, source: str = "training") -> list[int]:
        """Indices of the table's rows of one kind."""
        return [i for i, row in enumerate(self.table) if (row["kind"], row["source"]) == (kind, source)]

    @property
    def warned(self) -> dict[str, float]:
        """Share of repetitions by diagnostic; a fit that warns about its start does not check its steps."""
        return {name: self.found.warned.get(name, 0.0) for name in ("StartNotForgotten", "StepBias")}


def coverage(cell: Cell, level: float) -> dict[str, Any]:
    """Coverages of a cell and the verdict on them."""
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
    """Mean width of a quantity relative to one pass, with its standard error; paired by repetition."""
    here, there = cell.found.widths[:, i], one_pass.found.widths[:, i]
    both = np.isfinite(here) & np.isfinite(there)
    ratio = here[both].mean() / there[both].mean()
    error = (here - ratio * there)[both].std(ddof=1) / np.sqrt(both.sum()) / there[both].mean()
    return float(ratio), float(error)


def _pair(i: int, cell: Cell) -> tuple[str, str]:
    """Bias of a quantity, in total and in excess of one pass, with standard errors."""
    s = cell.shifts[i]
    return f"{s.bias:+.3f} ± {s.error:.3f}", f"{s.beyond:+.3f} ± {s.error_beyond:.3f}"


class Law(NamedTuple):
    """Excess bias of a quantity: a (M - 1)/√n + b (M^p - 1)/n^(p - 1/2), where steps shrink like k^-p."""

    quantity: str
    i: int  # row of the table
    constants: np.ndarray  # a, b
    covariance: np.ndarray
    misfit: float  # sum of squares of residuals divided by their errors
    free: int  # degrees of freedom of the misfit

    def at(self, n: float, M: float) -> float:
        """Bias in excess of one pass."""
        return float(_terms(n, M) @ self.constants)

    def bound(self, n: float, M: float, terms: int) -> float:
        """Largest absolute bias, by both terms or the first, that the 95 % region of the constants allows."""
        at = _terms(n, M)[:terms]
        error = np.sqrt(at @ self.covariance[:terms, :terms] @ at)
        return float(abs(at @ self.constants[:terms]) + np.sqrt(chi2.ppf(LEVEL, terms)) * error)


def _terms(n: float, M: float) -> np.ndarray:
    return np.array([(M - 1.0) / np.sqrt(n), (M**AUTO.power - 1.0) / n ** (AUTO.power - 0.5)])


def fitted(cells: dict[tuple[int, int], Cell], i: int) -> Law:
    """Fit the law of one quantity to cells with little bias and to those with the fewest shards."""
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
    """Laws of one problem: for the gap, and for the coefficient that moves most when shards are shortest."""
    last = max(cells.items(), key=lambda one: one[0][1] / np.sqrt(one[0][0]))[1]
    worst = max(last.which("coefficient"), key=lambda i: abs(last.shifts[i].beyond))
    return [fitted(cells, i) for i in (*last.which("gap"), worst)]


def safe(laws: list[Law], n: int, terms: int) -> int:
    """Return the largest safe number of shards, at most one per 1,500 rows."""
    low, high = 1, n // LEAST_ROWS + 1
    while high - low > 1:
        middle = (low + high) // 2
        fine = max(law.bound(n, middle, terms) for law in laws) <= ALLOWED
        low, high = (middle, high) if fine else (low, middle)
    return low


def described(problem: str, law: Law) -> dict[str, Any]:
    """Make one line about a law."""
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
    """Draw bias and width of one problem against the number of shards."""
    sizes = sorted({n for n, _ in cells}, reverse=True)
    for (n, law), k in zip(product(sizes, laws(cells)), range(4), strict=False):
        colour, style = (GAP, COEFFICIENT)[k % 2], ("-", "--")[k // 2]
        look = {"color": colour, "markersize": 4, "mfc": colour if k < 2 else "white"}
        some = {M: cell for (rows, M), cell in cells.items() if rows == n}
        beside = [M * 1.06 ** (k - 1.5) for M in some]  # shifted, so that bars do not hide each other
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
    """Run the study and save its results."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--repetitions", type=int, default=300)
    parser.add_argument("--rows", type=int, nargs="*", default=ROWS)
    parser.add_argument("--shards", type=int, nargs="*", default=SHARDS)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--quiet", action="store_true")
    args = parser.parse_args()
    if min(args.shards) != 1:
        parser.error("--shards must include 1, because the other numbers are compared with it")
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
        constants += [described(name, law) for law in both]
        for terms, counted in ((1, "start"), (2, "start and steps")):
            numbers = {f"{n:,}_rows": safe(both, n, terms) for n in SIZES}
            most.append({"problem": name, "counted": counted} | numbers)
    figure, axes = plt.subplots(2, len(found), figsize=(11.0, 6.0), sharex=True, squeeze=False, layout="constrained")
    for (name, cells), column in zip(found.items(), axes.T, strict=True):
        draw(name, cells, column)
    axes[0, 0].set_ylabel("bias in excess of one pass\n(standard deviations)")
    axes[1, 0].set_ylabel("mean width relative to one pass")
    settings = {"repetitions": args.repetitions, "n_constraint": N_CONSTRAINT, "judged": judged, "level_each": level}
    kept = results.keep("shards", settings, covered, bias=biased, law=constants, safe=most)
    results.KEPT.mkdir(exist_ok=True)
    figure.savefig((results.FOLDER if kept else results.KEPT) / "shards.png", dpi=120)
    if failed := [row for row in covered if row["verdict"] == "FAILS"]:
        raise SystemExit(f"{len(failed)} cells are out of bounds without a diagnostic that explains it.")


if __name__ == "__main__":
    main()
