"""Which features matter? Intervals for the coefficients of Adult and COMPAS, as in the paper's remark."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from surefair.experiments.experiment import Claim, Experiment, Result
from surefair.experiments.rules import covers, plus, share_error
from surefair.experiments.study import Study, names_of, shares
from surefair.inference.checks import coefficient_diagnostics
from surefair.inference.coefficients import coefficient_table
from surefair.plotting import CoefficientDisplay
from surefair.rows import FloatArray

LEVEL = 0.95


class Coefficients(NamedTuple):
    """Coefficients of a fit with their intervals."""

    estimate: FloatArray
    low: FloatArray
    high: FloatArray
    warned: str


def repeat(study: Study, repetition: int) -> Coefficients:
    """Fit a bootstrap sample as large as the population."""
    rng = np.random.default_rng([study.seed, 6, repetition])
    model = study.model(int(rng.integers(2**31)))
    n = study.population.n
    model = model.take(study.population.part(rng.integers(0, n, n)))
    method = study.preset.coef_method
    table = coefficient_table(model, study.features, LEVEL, method)
    estimate, low, high = (np.array(table[name]) for name in ("estimate", "low", "high"))
    found = [*model.diagnostics, *coefficient_diagnostics(model, LEVEL, method)]
    return Coefficients(estimate, low, high, names_of(found))


def judge(study: Study, outcomes: Sequence[Coefficients]) -> Result:
    """Tabulate the coefficients of the first fit, and count how often intervals contain those of θ*."""
    R = len(outcomes)
    rows = _table(study, outcomes[0])
    n_features = len(study.features)
    excluded = sum(row["excludes_zero"] for row in rows[:-1])
    covered = np.array([(one.low <= study.star) & (study.star <= one.high) for one in outcomes])
    share = float(covered.mean())
    error = share_error(share, float(covered.mean(axis=1).std(ddof=1) / np.sqrt(R)), R)
    line = {
        "repetitions": R,
        "features": n_features,
        "exclude_zero": excluded,
        "covered": share,
        "covered_error": error,
        "warned": shares([one.warned for one in outcomes]),
    }
    held = covers(share, share - 2.0 * error, share + 2.0 * error)
    return Result(line, {"coefficients": rows}, [_claim(line, held)], lambda: draw(study, rows))


def _table(study: Study, fit: Coefficients) -> list[dict[str, Any]]:
    """One row per coefficient, largest first and the intercept last."""
    names = [*study.features, "intercept"]
    columns = (fit.estimate.tolist(), fit.low.tolist(), fit.high.tolist(), study.star.tolist())
    rows = [
        {
            "feature": name,
            "estimate": estimate,
            "low": low,
            "high": high,
            "optimum": star,
            "excludes_zero": bool(low > 0.0 or high < 0.0),
        }
        for name, estimate, low, high, star in zip(names, *columns, strict=True)
    ]
    return [*sorted(rows[:-1], key=lambda row: -abs(row["estimate"])), rows[-1]]


def _claim(line: dict[str, Any], held: bool | None) -> Claim:
    return Claim(
        "95 % intervals contain the coefficients of the optimum",
        f"{100.0 * line['covered']:.1f} %{plus(100.0 * line['covered_error'])} of all coefficients and repetitions; "
        f"in one fit, the intervals of {line['exclude_zero']} of {line['features']} features exclude 0",
        held,
        whose="ours",
    )


def draw(study: Study, rows: list[dict[str, Any]]) -> Any:
    """Draw the intervals, largest coefficient first."""
    display = CoefficientDisplay(rows).plot()
    display.ax_.set_title(f"{study.title}, {study.preset.name} preset", fontsize="medium")
    return display.figure_


EXPERIMENTS = tuple(
    Experiment(
        f"{data}_coefficients", f"{title}: coefficients", (5, i), data, "log_loss", 20, Coefficients, repeat, judge
    )
    for i, (data, title) in enumerate((("adult", "Adult"), ("compas", "COMPAS")))
)
