"""Compare each correction to the paper with the printed version, by simulation.

The corrections are about the running average (Algorithm 2), replicates without the penalty (Algorithm 2, DM), the class
of the synthetic labels, the two covariances (run ``studies/covariance.py`` first), quantiles of the absolute gap at
parity, steps of 0.01 k^-0.501, and the interval score with 0.95 for α. Each line has the true value, the value of the
printed version, and the value of the corrected version.

    python studies/corrections.py [--repetitions R]
"""

from __future__ import annotations

import argparse
import json
from typing import Any

import matplotlib as mpl
import numpy as np
import results
from scipy.stats import norm

import surefair as sf
from surefair.diagnostics import Diagnostic

mpl.use("Agg")
import warnings

import matplotlib.pyplot as plt

warnings.simplefilter("ignore", Diagnostic)
PRINTED, RIGHT, TRUTH = "#D55E00", "#0072B2", "0.25"
DI, DM = sf.datasets.SyntheticDI(seed=5), sf.datasets.SyntheticDM(seed=5)
N, LEVEL = 4_000, 0.95
STEPS = {"0.01 k^-0.501 (printed)": 0.01, "0.1 k^-0.501": 0.1, "1.0 k^-0.501": 1.0, "auto": None}


def train(data: Any, repetition: int, criterion: str | None, n: int = N, **params: Any) -> Any:
    """One fit on fresh rows; the constraint set is always the same."""
    apart, batch = data.rows(0, 1_000), data.rows((1 + repetition) * 10**6, n)
    clf = sf.FairClassifier(criterion, n_replicates=100, random_state=repetition, **params)
    given = (apart.X, apart.y, apart.sensitive)
    return clf.fit(batch.X, batch.y, sensitive_features=batch.sensitive, constraint_set=given)


def averages() -> dict[str, np.ndarray]:
    """Paths of the first least-squares coefficient on synthetic DM: iterates, printed average, correct average."""
    batch = DM.rows(0, N)
    X, y = np.column_stack([batch.X, np.ones(N)]), np.asarray(batch.y, dtype=float)
    optimum = np.linalg.lstsq(X, y, rcond=None)[0]
    theta, printed, right, paths = np.zeros(3), np.zeros(3), np.zeros(3), []
    for k, (x, label) in enumerate(zip(X, y, strict=True), start=1):
        theta = theta + 0.05 * k**-0.6 * (label - x @ theta) * x
        printed, right = (printed + theta) / k, right + (theta - right) / k
        paths.append((theta[0], printed[0], right[0]))
    iterate, printed_path, right_path = np.array(paths).T
    return {"iterate": iterate, "printed": printed_path, "right": right_path, "optimum": np.array(optimum[0])}


def replicates(repetitions: int, quiet: bool) -> list[dict[str, float]]:
    """Gaps of the replicates of a penalised fit, with and without the penalty in their steps."""
    held = DM.rows(900 * 10**6, 10_000)

    def gaps(clf: Any) -> np.ndarray:
        scores = held.X.to_numpy() @ clf.coef_replicates_.T + clf.intercept_replicates_
        positive, negative = scores > 0.0, held.y < 0.0
        rates = [positive[negative & (held.sensitive == g)].mean(axis=0) for g in (0, 1)]
        return np.asarray(rates[0] - rates[1])

    def one(repetition: int) -> dict[str, float]:
        fair, free = (train(DM, repetition, name, penalty=100.0) for name in ("false_positive_rate", None))
        gap = fair.fairness_interval(
            held.X, held.y, sensitive_features=held.sensitive, metric="false_positive_rate", source="training"
        ).gap
        return {"truth": gap, "right": float(gaps(fair).mean()), "printed": float(gaps(free).mean())}

    return list(results.in_parallel(one, range(min(repetitions, 40)), "replicates", quiet))


def parity(repetitions: int, quiet: bool) -> dict[str, float]:
    """Coverage of an unfairness of 0 by quantiles of the absolute gap and of the signed gap."""

    def one(repetition: int) -> tuple[bool, bool]:
        rng = np.random.default_rng([3, repetition])
        group, decision = np.repeat([0, 1], 500), rng.integers(0, 2, 1_000)
        found = [
            sf.fairness_interval(
                decision ^ 1, decision, sensitive_features=group, method=method, random_state=repetition
            )
            for method in ("paper", "percentile")
        ]
        return found[0].low <= 0.0, found[1].low <= 0.0 <= found[1].high

    held = np.mean(list(results.in_parallel(one, range(repetitions), "parity", quiet)), axis=0)
    return {"printed": float(held[0]), "right": float(held[1]), "truth": LEVEL}


def steps(repetitions: int, quiet: bool) -> list[dict[str, Any]]:
    """Coverage of the coefficients of θ*, and the largest bias, for each step size."""
    population = DI.rows(800 * 10**6, 100_000)
    rows = []
    for name, eta0 in STEPS.items():
        params = {"multiplier": "uniform", "step_size": sf.PolynomialDecay(eta0, 0.501)} if eta0 else {}
        pilot = train(DI, 0, "demographic_parity", tolerance=0.002, **params)
        star = sf.theory.optimum(pilot, population.X, population.y)

        def one(repetition: int, params: dict[str, Any] = params, star: np.ndarray = star) -> tuple[Any, Any]:
            clf = train(DI, repetition, "demographic_parity", tolerance=0.002, **params)
            table = clf.coef_interval(method="percentile" if params else "basic")
            held = (table["low"].to_numpy() <= star) & (star <= table["high"].to_numpy())
            return held, table["estimate"].to_numpy() - star

        found = list(results.in_parallel(one, range(repetitions), name, quiet))
        held, off = (np.array(column) for column in zip(*found, strict=True))
        bias = np.abs(off.mean(axis=0)) / off.std(axis=0, ddof=1)
        rows.append({"steps": name, "coverage": float(held.mean()), "bias": float(bias.max())})
    return rows


def score(alpha: float, half: np.ndarray) -> np.ndarray:
    """Expected interval score of [-h, h] for a standard normal number."""
    beyond = 2.0 * (norm.pdf(half) - half * norm.sf(half))
    return np.asarray(2.0 * half + 2.0 / alpha * beyond)


def table(found: dict[str, Any], variances: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Make one line per correction."""
    slab, penalty = variances[1], next(row for row in variances if row["problem"].startswith("synthetic DM"))
    gaps = {name: float(np.mean([one[name] for one in found["replicates"]])) for name in ("truth", "printed", "right")}
    average, half = found["averages"], np.linspace(0.01, 4.0, 4_000)
    best = {alpha: float(2.0 * norm.cdf(half[score(alpha, half).argmin()]) - 1.0) for alpha in (0.95, 0.05)}
    first, last = found["steps"][0], found["steps"][-1]
    labels = found["labels"]
    lines = [
        (
            "running average after 4,000 rows, first coefficient",
            average["optimum"],
            average["printed"][-1],
            average["right"][-1],
        ),
        ("mean gap of replicates, with a penalty", gaps["truth"], gaps["printed"], gaps["right"]),
        ("share of positive labels, synthetic DI", 0.5, 1.0, labels),
        ("variance of √n θ̄₂ under a slab", slab["simulated"], slab["printed"], slab["corrected"]),
        (
            f"variance of √n θ̄, {penalty['problem']}, {penalty['coefficient']}",
            penalty["simulated"],
            penalty["printed"],
            penalty["corrected"],
        ),
        ("coverage of an unfairness of 0, level 95 %", LEVEL, found["parity"]["printed"], found["parity"]["right"]),
        ("coverage of θ* by steps, level 95 %", LEVEL, first["coverage"], last["coverage"]),
        ("level of the interval with the best score", LEVEL, best[0.95], best[0.05]),
    ]
    return [
        {"what": what, "truth": float(truth), "printed": float(printed), "corrected": float(right)}
        for what, truth, printed, right in lines
    ]


def draw(found: dict[str, Any], variances: list[dict[str, Any]]) -> Any:
    """Draw one panel per correction."""
    figure, axes = plt.subplots(2, 4, figsize=(15.0, 7.0), layout="constrained")
    average, labels, gaps, slab, penalty, parity_ax, step, best = axes.flat
    k = np.arange(1, N + 1)
    for name, colour in (("printed", PRINTED), ("right", RIGHT)):
        average.plot(k, found["averages"][name], color=colour, label=name)
    average.axhline(found["averages"]["optimum"], color=TRUTH, linestyle="--", label="optimum")
    average.set(xscale="log", xlabel="rows", ylabel="first coefficient", title="Running average")
    batch = DI.rows(0, 1_000)
    for label, colour, marker in ((1.0, RIGHT, "o"), (-1.0, PRINTED, "x")):
        some = batch.y == label
        labels.plot(*batch.X.to_numpy()[some].T, marker, color=colour, markersize=3, label=f"y = {label:+.0f}")
    labels.set(xlabel="x1", ylabel="x2", title="Synthetic DI: the second class is y = -1")
    values = [[one[name] for one in found["replicates"]] for name in ("printed", "right", "truth")]
    for i, (one, colour) in enumerate(zip(values, (PRINTED, RIGHT, TRUTH), strict=True)):
        gaps.plot(one, i + np.linspace(-0.2, 0.2, len(one)), "o", color=colour, markersize=3)
    gaps.set_yticks(range(3), labels=["replicates,\nno penalty\n(printed)", "replicates,\ncorrected", "fits"])
    gaps.set(xlabel="gap of false-positive rates", title="Replicates of a penalised fit")
    for ax, part, title in (
        (slab, [row for row in variances if "slab" in row["problem"]][-1:], "Covariance under a slab"),
        (penalty, [row for row in variances if "penalty 20" in row["problem"]], "Covariance with a penalty of 20"),
    ):
        at = np.arange(len(part))
        for shift, name, colour in ((-0.25, "printed", PRINTED), (0.0, "corrected", RIGHT), (0.25, "simulated", TRUTH)):
            ax.bar(at + shift, [row[name] for row in part], 0.22, color=colour, label=name)
        ax.set_xticks(at, labels=[row["coefficient"] for row in part])
        ax.set(yscale="log", ylabel="variance of √n θ̄", title=title)
    share = found["parity"]
    parity_ax.bar([0, 1], [share["printed"], share["right"]], 0.5, color=(PRINTED, RIGHT))
    parity_ax.axhline(LEVEL, color=TRUTH, linestyle="--", label="95 %")
    parity_ax.set_xticks([0, 1], labels=["quantiles of |gap|\n(printed)", "quantiles of\nthe signed gap"])
    parity_ax.set(ylabel="coverage", ylim=(0.0, 1.05), title="Intervals at parity")
    names = [row["steps"] for row in found["steps"]]
    step.barh(names[::-1], [row["coverage"] for row in found["steps"]][::-1], color=[RIGHT, "0.6", "0.6", PRINTED])
    step.axvline(LEVEL, color=TRUTH, linestyle="--", label="95 %")
    step.set(xlabel=f"coverage of θ*, {N:,} rows", xlim=(0.0, 1.05), title="Steps")
    half = np.linspace(0.01, 4.0, 400)
    for alpha, colour in ((0.95, PRINTED), (0.05, RIGHT)):
        curve = score(alpha, half)
        best.plot(half, curve / curve.min(), color=colour, label=f"α = {alpha}")
    best.axvline(norm.ppf(0.975), color=TRUTH, linestyle="--", label="95 % interval")
    best.set(
        xlabel="half-width, standard deviations", ylabel="score over the best", ylim=(0.9, 6.5), title="Interval score"
    )
    for ax in axes.flat:
        ax.spines[["top", "right"]].set_visible(False)
        if ax.get_legend_handles_labels()[0]:
            ax.legend(frameon=False, fontsize="small", loc="upper right" if ax is best else "best")
    return figure


def main() -> None:
    """Run the study and save its results."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--repetitions", type=int, default=400)
    parser.add_argument("--quiet", action="store_true")
    args = parser.parse_args()
    variances = json.loads((results.FOLDER / "covariance.json").read_text())["rows"]
    found = {
        "averages": averages(),
        "replicates": replicates(args.repetitions, args.quiet),
        "labels": float(np.mean(DI.rows(0, 10_000).y > 0.0)),
        "parity": parity(args.repetitions, args.quiet),
        "steps": steps(args.repetitions, args.quiet),
    }
    rows = table(found, variances)
    picture = draw(found, variances)
    if results.keep("corrections", {"repetitions": args.repetitions}, rows, steps=found["steps"]):
        picture.savefig(results.FOLDER / "corrections.png", dpi=100)
    else:
        results.KEPT.mkdir(exist_ok=True)
        picture.savefig(results.KEPT / "corrections.png", dpi=100)
    if any(abs(row["corrected"] - row["truth"]) > abs(row["printed"] - row["truth"]) for row in rows):
        raise SystemExit("A printed version is closer to the truth than the corrected one.")


if __name__ == "__main__":
    main()
