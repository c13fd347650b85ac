"""Which features matter? Intervals for the coefficients of Adult and COMPAS, as in the paper's remark."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from surefair.experiments._experiment import Claim, Experiment, Result
from surefair.experiments._rules import covers, plus, share_error
from surefair.experiments._study import Study, names_of, shares, trained
from surefair.plotting import CoefficientDisplay
from surefair.rows.arrays import FloatArray


class Coefficients(NamedTuple):
    """Coefficients of a fit, and their intervals."""

    estimate: FloatArray
    low: FloatArray
    high: FloatArray
    warned: str


def repeat(study: Study, repetition: int) -> Coefficients:
    """Fit to as many rows as there are, drawn with replacement."""
    rng = np.random.default_rng([study.seed, 6, repetition])
    clf = study.classifier(random_state=int(rng.integers(2**31)))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        trained(clf, study, study.population.part(rng.integers(0, len(study.population.y), len(study.population.y))))
        table = clf.coef_interval(method=study.preset.coef_method)
    estimate, low, high = (table[name].to_numpy() for name in ("estimate", "low", "high"))
    return Coefficients(estimate, low, high, names_of(caught))


def judge(study: Study, outcomes: Sequence[Coefficients]) -> Result:
    """One line per coefficient."""
    names = [*study.features, "intercept"]
    fit, covered = outcomes[0], np.array([(one.low <= study.star) & (study.star <= one.high) for one in outcomes])
    rows = [
        {
            "feature": name,
            "estimate": a,
            "low": low,
            "high": high,
            "optimum": star,
            "excludes_zero": bool(low > 0.0 or high < 0.0),
        }
        for name, a, low, high, star in zip(
            names, fit.estimate.tolist(), fit.low.tolist(), fit.high.tolist(), study.star.tolist(), strict=True
        )
    ]
    rows = [*sorted(rows[:-1], key=lambda row: -abs(row["estimate"])), rows[-1]]
    significant = sum(row["excludes_zero"] for row in rows[:-1])
    share, R = float(covered.mean()), len(outcomes)
    error = share_error(share, float(covered.mean(axis=1).std(ddof=1) / np.sqrt(R)), R)
    line = {
        "repetitions": R,
        "features": len(names) - 1,
        "exclude_zero": significant,
        "covered": share,
        "covered_error": error,
        "warned": shares([one.warned for one in outcomes]),
    }
    claim = Claim(
        "intervals of level 95 % contain the optimum's coefficients",
        f"{100.0 * share:.1f} %{plus(100.0 * error)} of all, over repetitions; "
        f"in one fit, {significant} of {len(names) - 1} features have intervals that exclude 0",
        covers(share, share - 2.0 * error, share + 2.0 * error),
        whose="ours",
    )
    return Result(line, {"coefficients": rows}, [claim], lambda: draw(study, rows))


def draw(study: Study, rows: list[dict[str, Any]]) -> Any:
    """Forest of the intervals, the largest coefficient first."""
    display = CoefficientDisplay(rows).plot()
    display.ax_.set_title(f"{study.title}, {study.preset.name} preset", fontsize="medium")
    return display.figure_


EXPERIMENTS = tuple(
    Experiment(
        f"{data}_coefficients", f"{title}: coefficients", (5, i), data, "log_loss", 20, Coefficients, repeat, judge
    )
    for i, (data, title) in enumerate((("adult", "Adult"), ("compas", "COMPAS")))
)
