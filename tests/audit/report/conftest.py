"""Small audits of every shape, from tiny fits on synthetic rows."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import surefair as sf
from surefair.audit.result import Audit
from surefair.inference.interval import SOURCES

N, HELD = 1500, 600  # rows to train on and to evaluate on

HOSTILE = (
    "<script>alert(1)</script>",
    "\"quoted\" & 'single' </style></title><b onmouseover=alert(1)>",
    "שלום עולם \u202e مرحبا 🦄",
    "{{ 7 * 7 }} {% raw %} javascript:alert(1)",
    "long " + "x" * 300,
)


def _columns(shape: str, n: int) -> dict[str, np.ndarray]:
    """Sensitive columns of n rows."""
    z, k = sf.datasets.SyntheticDI(seed=0).rows(0, n).group, np.arange(n)
    if shape == "three columns":
        return {"sex": np.where(z == 1, "f", "m"), "region": k % 6, "age band": np.where(k % 3 == 0, "old", "young")}
    if shape == "thirty groups":
        return {"county": np.char.add("county ", (k % 30).astype(str))}
    if shape == "hostile":
        return {name: np.array(HOSTILE)[(k + i) % len(HOSTILE)] for i, name in enumerate(HOSTILE[:2])}
    return {"sex": np.where(z == 1, "Female", "Male")}


def _metrics(shape: str) -> list[str]:
    """Metrics that the verdict is about."""
    asked = {"equalized odds": ["equalized_odds"], "ratios": ["demographic_parity_ratio", "equalized_odds_ratio"]}
    return asked.get(shape, ["demographic_parity"])


def _model(shape: str, name: str, margin: float | None, path: list[dict[str, Any]]) -> dict[str, Any]:
    """Fit a model, measure it along the way and at the end."""
    rows, columns = sf.datasets.SyntheticDI(seed=0).rows(0, N + HELD), _columns(shape, N + HELD)
    X, y, metrics = rows.X, rows.y, _metrics(shape)
    if shape == "undefined":  # no evaluation row of the third group is truly positive
        k = np.arange(N + HELD)
        columns["sex"][np.where(k < N, k % 9 == 0, (k % 9 == 0) & (y == -1))] = "other"
    criterion = "demographic_parity" if name == "constrained" else None
    clf = sf.FairClassifier(criterion, tolerance=0.1, n_replicates=40, n_constraint=300, random_state=0)

    def part(first: int, last: int) -> dict[str, Any]:
        return {key: column[first:last] for key, column in columns.items()}

    def ask(metric: str, source: str) -> sf.Interval:
        groups = part(N, N + HELD)
        return clf.fairness_interval(X[N:], y[N:], sensitive_features=groups, metric=metric, source=source)

    looks = [N] if shape == "one look" else [400, 800, N]
    for first, last in pairwise([0, *looks]):
        clf.partial_fit(X[first:last], y[first:last], sensitive_features=part(first, last), classes=[-1, 1])
        for source in ("total", "training"):
            found = ask(metrics[0], source).to_dict()
            path.append({"model": name, "metric": metrics[0], "source": source, "rows": last})
            path[-1] |= {key: found[key] for key in ("estimate", "low", "high")}
    measured = dict.fromkeys([*metrics, "demographic_parity", "equalized_odds", "false_negative_rate"])
    intervals = [ask(metric, source) for metric in measured for source in SOURCES]
    needed = {"training": 5.0, "evaluation": None, "times": 1.5}
    verdicts = [
        {"metric": one.metric, "verdict": one.verdict(margin), "rows_needed": needed}
        for one in intervals
        if margin is not None and one.source == "total" and one.metric in metrics
    ]
    many = {"hostile": list(HOSTILE), "many coefficients": [f"feature {k}" for k in range(120)]}
    coefficients = [
        {"feature": feature, "estimate": 1 / k - 0.3, "low": 1 / k - 0.5, "high": 1 / k, "excludes_zero": k < 2}
        for k, feature in enumerate(many.get(shape, ["x1", "x2"]), 1)
    ]
    right = float(np.mean(clf.predict(X[N:]) == y[N:]))
    return {
        "name": name, "criterion": criterion, "intervals": [one.to_dict() for one in intervals],
        "accuracy": {"estimate": right, "low": right - 0.02, "high": min(1.0, right + 0.02)},
        "coefficients": coefficients, "verdicts": verdicts, "warnings": ["SmallEvaluationSet: few <rows>"],
    }  # fmt: skip


def build(shape: str) -> Audit:
    """Audit of a shape."""
    margin = None if shape == "no margin" else 0.8 if shape == "ratios" else 0.1
    path: list[dict[str, Any]] = []
    models = [_model(shape, name, margin, path) for name in ("constrained", "unconstrained")]
    first, price = models[0]["intervals"][0], models[1]["accuracy"]["estimate"] - models[0]["accuracy"]["estimate"]
    metrics, columns = _metrics(shape), _columns(shape, N)
    odd = HOSTILE[0] if shape == "hostile" else "table.csv"
    column = {"role": "sensitive", "features": 0, "missing": 3, "unseen": 1, "note": odd}
    group = {"constraint": 60, "constrained": True, "evaluation": 120}
    return Audit(
        sentence=f"Groups {first['pair'][0]!r} and {first['pair'][1]!r} differ by {first['estimate']:.4f} & more.",
        verdict=models[0]["verdicts"][0]["verdict"] if margin else None,
        complete=shape != "partial",
        settings={
            "label": odd, "sensitive": list(columns), "criterion": "demographic_parity", "margin": margin,
            "metrics": [] if metrics == ["demographic_parity"] else metrics, "features": None, "random_state": 0,
            "confidence_level": 0.95,
        },
        data={"name": odd, "kind": "csv", "files": [{"name": odd, "size": 12345, "sha256": "5b" * 32}]},
        rows={
            "read": N + HELD, "training": N - 300, "constraint": 300, "evaluation": HELD, "set_aside": 0,
            "bad": [{"reason": "too few fields", "count": 2, "first": f"line 17: {odd!r}"}],
        },
        columns=[{"name": name} | column for name in columns],
        groups=[
            {"column": name, "group": str(value), "training": int(np.sum(values == value))} | group
            for name, values in columns.items()
            for value in np.unique(values)
        ],
        models=models,
        price={"estimate": price, "low": price - 0.02, "high": price + 0.02},
        path=path,
        assumptions=[
            {"name": "StepBias", "assumes": "Steps leave no coefficient off.", "held": True, "messages": []},
            {"name": "SmallEvaluationSet", "assumes": "Rows are many.", "held": False, "messages": ["few <rows>"]},
        ],
        versions={"surefair": "0", "python": "3"},
    )  # fmt: skip


SHAPES = (
    "two groups", "three columns", "thirty groups", "ratios", "equalized odds", "no margin", "undefined",
    "many coefficients", "one look", "partial", "hostile",
)  # fmt: skip


@cache
def _built(shape: str) -> Audit:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # so few rows are warned of
        return build(shape)


@pytest.fixture(scope="session")
def make_audit() -> Callable[[str], Audit]:
    """Audit of a shape, made once."""
    return _built


@pytest.fixture(params=SHAPES, ids=lambda shape: shape.replace(" ", "-"))
def audit(request: pytest.FixtureRequest) -> Audit:
    """Audits of all shapes."""
    return _built(request.param)
