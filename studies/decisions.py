"""Measure the coverage of intervals for decisions and scores of any model, and the error of verdicts on them.

Each simulation draws rows from a known population. The study prints how often nominal 95 % intervals contain the truth,
with a 95 % binomial interval for that share, for

- every metric, with two and five groups, at parity and with a different group;
- rows in clusters, by the number of clusters, their size and their intra-class correlation;
- gaps within strata;
- the difference between two models that agree on 90 % of the rows, and its width compared with two separate intervals;

and how often one of eight metrics wrongly seems to violate parity, and how often plans reach their power.

    python studies/decisions.py [--simulations N] [--part metrics] [--keep]
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import results
from scipy.special import expit
from scipy.stats import binomtest, norm

import surefair as sf
from surefair.inference.metric import get_metric, metric_names

LEAST = 0.93
N_REPLICATES = 400
EIGHT = (
    "demographic_parity", "false_positive_rate", "false_negative_rate", "error_rate", "false_discovery_rate",
    "false_omission_rate", "equalized_odds", "base_rate",
)  # fmt: skip
OPTIONS: dict[str, Any] = {"n_replicates": N_REPLICATES, "pos_label": 1}


def line(found: Sequence[bool], **what: Any) -> dict[str, Any]:
    """One row of a table: what was simulated, and the share of simulations that contain the truth."""
    share = binomtest(int(np.sum(found)), len(found)).proportion_ci(0.95)
    return {**what, "covered": float(np.mean(found)), "low": float(share.low), "high": float(share.high)}


def contains(interval: Any, truth: float) -> bool:
    """Whether an interval contains the truth, up to rounding."""
    return bool(interval.low <= truth + 1e-12 <= interval.high + 2e-12)


def repeat(function: Callable[[int], Any], simulations: int, title: str, quiet: bool) -> list[Any]:
    """Run simulations with seeds 0, 1 and so on."""
    return list(results.in_parallel(function, range(simulations), title, quiet))


# -- Metrics ----------------------------------------------------------------------------------------------------------


def tables(K: int, different: bool) -> np.ndarray:
    """Probabilities of truth and decision in each group, shape (groups, 2, 2); the last group may be different."""
    plain, other = (np.outer([1 - p, p], [1.0, 1.0]) * np.array([[1 - f, f], [1 - t, t]])
                    for p, f, t in ((0.45, 0.3, 0.65), (0.55, 0.4, 0.75)))  # fmt: skip
    return np.stack([plain] * (K - 1) + [other if different else plain])


def truths(table: np.ndarray) -> dict[str, float]:
    """Unfairness in the population by each metric."""
    found = {}
    for name in metric_names():
        metric = get_metric(name)
        rates = np.stack([rate.of(table) for rate in metric.rates])
        low, high = rates.min(axis=1), rates.max(axis=1)
        found[name] = float(np.min(low / high)) if metric.ratio else float(np.max(high - low))
    return found


def metrics(simulations: int, quiet: bool) -> list[dict[str, Any]]:
    """Every metric of decisions, and its ratio, with 400 rows per group."""
    rows = []
    for K, different in ((2, False), (2, True), (5, False), (5, True)):
        table = tables(K, different)
        truth = truths(table)

        def simulate(seed: int, table: np.ndarray = table, truth: dict[str, float] = truth) -> list[bool]:
            rng = np.random.default_rng([1, seed])
            counts = np.concatenate([rng.multinomial(400, group.ravel()) for group in table])
            cell = np.repeat(np.arange(4 * len(table)), counts)
            columns = {"sensitive_features": cell // 4, "random_state": seed, **OPTIONS}
            found = [sf.fairness_interval(cell // 2 % 2, cell % 2, metric=name, **columns) for name in truth]
            return [contains(one, value) for one, value in zip(found, truth.values(), strict=True)]

        covered = np.array(repeat(simulate, simulations, f"metrics, {K} groups", quiet))
        for j, (name, value) in enumerate(truth.items()):
            rows.append(line(covered[:, j], metric=name, groups=K, unfairness=f"{value:.2f}"))
    return rows


def score_truths(shifts: np.ndarray) -> dict[str, float]:
    """Unfairness in the population by each metric of scores: normal scores on the logit scale, 40 % positive rows."""
    z = np.linspace(-12.0, 12.0, 200_001)
    values = []
    densities = [0.6 * norm.pdf(z + 0.5 - shift) + 0.4 * norm.pdf(z - 0.5 - shift) for shift in shifts]
    step = z[1] - z[0]
    below = np.cumsum(np.mean(densities, axis=0)) * step
    above = z > z[np.searchsorted(below, 0.5)]
    for density in densities:
        mean = float(np.sum(density * expit(z)) * step)
        values.append((mean, mean - 0.4, float(np.sum(density * above) * step), float(norm.cdf(1.0 / np.sqrt(2.0)))))
    gaps = np.ptp(np.array(values), axis=0)
    return dict(zip(("mean_score", "calibration", "scoring_rate", "auc"), gaps.tolist(), strict=True))


def scores(simulations: int, quiet: bool) -> list[dict[str, Any]]:
    """Every metric of scores, with 300 rows per group; continuous scores, and scores of one digit for the areas."""
    rows = []
    for K, shift in ((2, 0.0), (2, 0.5), (5, 0.0), (5, 0.5)):
        shifts = np.array([0.0] * (K - 1) + [shift])
        truth = score_truths(shifts)

        def simulate(seed: int, shifts: np.ndarray = shifts, truth: dict[str, float] = truth) -> list[bool]:
            rng = np.random.default_rng([2, seed])
            group = np.repeat(np.arange(len(shifts)), 300)
            label = (rng.random(len(group)) < 0.4).astype(int)
            score = expit(label - 0.5 + shifts[group] + rng.normal(size=len(group)))
            columns = {"sensitive_features": group, "random_state": seed, **OPTIONS}
            return [contains(sf.fairness_interval(label, score, metric=name, **columns), truth[name]) for name in truth]

        covered = np.array(repeat(simulate, simulations, f"scores, {K} groups", quiet))
        for j, (name, value) in enumerate(truth.items()):
            rows.append(line(covered[:, j], metric=name, groups=K, unfairness=f"{value:.2f}"))
    return rows


# -- Clusters and strata ----------------------------------------------------------------------------------------------


def clusters(simulations: int, quiet: bool) -> list[dict[str, Any]]:
    """Clusters within groups, by number, size and correlation, at parity and with a gap of 0.1."""
    rows = []
    for G in (10, 30, 100, 1000):
        for size, correlation, gap in ((5, 0.0, 0.1), (5, 0.1, 0.0), (5, 0.5, 0.1), (50, 0.0, 0.0), (50, 0.1, 0.1),
                                       (50, 0.5, 0.0)):  # fmt: skip

            def simulate(
                seed: int, G: int = G, size: int = size, correlation: float = correlation, gap: float = gap
            ) -> tuple[bool, float]:
                rng = np.random.default_rng([3, seed])
                rate = 0.3 + gap * (np.arange(G) % 2)
                if correlation > 0.0:
                    spread = (1.0 - correlation) / correlation
                    rate = rng.beta(rate * spread, (1.0 - rate) * spread)
                cluster = np.repeat(np.arange(G), size)
                decision = (rng.random(len(cluster)) < rate[cluster]).astype(int)
                found = sf.fairness_interval(
                    None, decision, sensitive_features=cluster % 2, clusters=cluster, random_state=seed, **OPTIONS
                )
                return contains(found, gap), found.high - found.low

            found = np.array(repeat(simulate, simulations, f"{G} clusters of {size}", quiet))
            what = {"clusters": G, "rows_each": size, "correlation": correlation, "unfairness": f"{gap:.1f}"}
            rows.append(line(found[:, 0], **what) | {"mean_width": float(found[:, 1].mean())})
    return rows


def strata(simulations: int, quiet: bool) -> list[dict[str, Any]]:
    """Gaps within strata that differ in their rates and in their shares of groups; 1,000 rows."""
    rows = []
    for n_strata in (5, 50):
        for K, gap in ((2, 0.0), (2, 0.1), (5, 0.0), (5, 0.1)):

            def simulate(seed: int, n_strata: int = n_strata, K: int = K, gap: float = gap) -> bool:
                rng = np.random.default_rng([4, seed])
                stratum = rng.integers(n_strata, size=500 * K)
                last = rng.random(len(stratum)) < np.linspace(0.2, 0.8, n_strata)[stratum]
                group = np.where(last, K - 1, rng.integers(K - 1, size=len(stratum)))
                rate = np.linspace(0.2, 0.6, n_strata)[stratum] + gap * last
                decision = (rng.random(len(stratum)) < rate).astype(int)
                found = sf.fairness_interval(
                    None, decision, sensitive_features=group, strata=stratum, random_state=seed, **OPTIONS
                )
                return contains(found, gap)

            found = repeat(simulate, simulations, f"{n_strata} strata", quiet)
            rows.append(line(found, strata=n_strata, groups=K, unfairness=f"{gap:.1f}"))
    return rows


# -- Two models, several metrics, plans -------------------------------------------------------------------------------


def paired(simulations: int, quiet: bool) -> list[dict[str, Any]]:
    """Two models with rates near one half that agree on about 90 % of 2,000 rows."""
    rows = []
    for K, gaps in ((2, (0.0, 0.0)), (2, (0.1, 0.1)), (2, (0.15, 0.05)), (2, (0.1, -0.1)), (5, (0.0, 0.0)),
                    (5, (0.15, 0.05))):  # fmt: skip

        def simulate(seed: int, K: int = K, gaps: tuple[float, float] = gaps) -> list[float]:
            rng = np.random.default_rng([5, seed])
            group, label = rng.integers(K, size=2000), rng.integers(2, size=2000)
            u, v, again = rng.random(2000), rng.random(2000), rng.random(2000) < 0.2
            a, b = (0.45 + gap * (group == K - 1) for gap in gaps)
            found = sf.compare(
                label, (u < a).astype(int), (np.where(again, v, u) < b).astype(int), sensitive_features=group,
                random_state=seed, **OPTIONS,
            )  # fmt: skip
            apart = found.by_pair
            true = np.where(apart["second"] == K - 1, gaps[0] - gaps[1], 0.0)
            inside = ((apart["low"] <= true + 1e-12) & (apart["high"] >= true - 1e-12)).all()
            separate = np.hypot(found.a.gap_high - found.a.gap_low, found.b.gap_high - found.b.gap_low)
            width = apart["high"].iloc[0] - apart["low"].iloc[0]
            right = found.accuracy.low <= 0.0 <= found.accuracy.high
            return [contains(found, abs(gaps[1]) - abs(gaps[0])), inside, right, width / separate]

        found = np.array(repeat(simulate, simulations, f"two models, {K} groups", quiet))
        more = {"gaps_covered": found[:, 1], "accuracy_covered": found[:, 2], "width_over_separate": found[:, 3]}
        what = {"groups": K, "gap_a": gaps[0], "gap_b": gaps[1]}
        rows.append(line(found[:, 0], **what) | {name: float(values.mean()) for name, values in more.items()})
    return rows


def familywise(simulations: int, quiet: bool) -> list[dict[str, Any]]:
    """How often one of eight metrics excludes parity at parity, alone and jointly."""
    rows = []
    for K in (2, 5):
        table = tables(K, different=False)

        def simulate(seed: int, table: np.ndarray = table) -> tuple[bool, bool]:
            rng = np.random.default_rng([6, seed])
            counts = np.concatenate([rng.multinomial(400, group.ravel()) for group in table])
            cell = np.repeat(np.arange(4 * len(table)), counts)
            found = sf.joint_intervals(
                cell // 2 % 2, cell % 2, sensitive_features=cell // 4, metric=EIGHT, random_state=seed, pos_label=1
            )  # with the default number of replicates, because joint limits are far out
            return any(one.low > 0.0 for one in found), any(one.low > 0.0 for one in found.joint)

        found = np.array(repeat(simulate, simulations, f"eight metrics, {K} groups", quiet))
        share = binomtest(int(found[:, 1].sum()), len(found)).proportion_ci(0.95)
        alone, jointly = found.mean(axis=0).tolist()
        limits = {"low": float(share.low), "high": float(share.high)}
        rows.append({"groups": K, "alarms_alone": alone, "alarms_jointly": jointly, **limits})
    return rows


def plans(simulations: int, quiet: bool) -> list[dict[str, Any]]:
    """Power that a plan promises, and the share of samples of that size that give its verdict."""
    rows = []
    for margin, rates, shares, ratio in (
        (0.05, (0.3, 0.3), (0.9, 0.1), False), (0.1, (0.3, 0.25), (0.5, 0.5), False),
        (0.05, (0.3, 0.42), (0.7, 0.3), False), (0.1, (0.3,) * 5, (0.2,) * 5, False),
        (0.8, (0.5, 0.5), (0.5, 0.5), True), (0.05, (0.02, 0.02), (0.9, 0.1), False),
    ):  # fmt: skip
        plan = sf.plan(margin, rates=rates, shares=shares, ratio=ratio)
        group = np.repeat(np.arange(len(rates)), plan.by_group["rows"])

        def simulate(seed: int, group: np.ndarray = group, plan: Any = plan, rates: tuple[float, ...] = rates) -> bool:
            rng = np.random.default_rng([7, seed])
            decision = (rng.random(len(group)) < np.array(rates)[group]).astype(int)
            metric = "demographic_parity" + "_ratio" * plan.ratio
            found = sf.fairness_interval(
                None, decision, sensitive_features=group, metric=metric, random_state=seed, **OPTIONS
            )
            return found.verdict(plan.margin) == plan.verdict

        found = repeat(simulate, simulations, "plans", quiet)
        rows.append({"margin": margin, "rates": ", ".join(map(str, rates)), "shares": ", ".join(map(str, shares)),
                     "rows": plan.rows, "verdict": plan.verdict, "power": plan.power,
                     "realised": float(np.mean(found))})  # fmt: skip
    return rows


PARTS = {
    "metric": metrics, "scores": scores, "clusters": clusters, "strata": strata, "paired": paired,
    "familywise": familywise, "plans": plans,
}  # fmt: skip


def main() -> None:
    """Run the study and save its results."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--simulations", type=int, default=2_000)
    parser.add_argument("--part", action="append", choices=[*PARTS])
    parser.add_argument("--quiet", action="store_true")
    parser.add_argument("--keep", action="store_true", help="Save the results although options are given.")
    args = parser.parse_args()
    warnings.simplefilter("ignore", sf.diagnostics.Diagnostic)
    chosen = args.part or [*PARTS]
    found = {name: PARTS[name](args.simulations, args.quiet) for name in chosen}
    first, *others = found
    settings = {"simulations": args.simulations, "n_replicates": N_REPLICATES, "first": first}
    results.keep("decisions", settings, found[first], **{name: found[name] for name in others})
    covered = [row["covered"] for rows in found.values() for row in rows if "covered" in row]
    alarms = [row["alarms_jointly"] for row in found.get("familywise", ())]
    powers = [abs(row["power"] - row["realised"]) for row in found.get("plans", ())]
    if min(covered, default=1.0) < LEAST or max(alarms, default=0.0) > 0.06 or max(powers, default=0.0) > 0.05:
        sys.exit(f"Some coverage is below {LEAST}, alarms are too frequent, or a plan misses its power.")


if __name__ == "__main__":
    main()
