"""Small audits of every shape, made by hand from decisions on synthetic rows."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest

import surefair as sf
from surefair.audit.result import Audit
from surefair.inference.sources import SOURCES

TRAINING, EVALUATION = 1500, 600  # rows

HOSTILE = (
    "<script>alert(1)</script>",
    "\"quoted\" & 'single' </style></title><b onmouseover=alert(1)>",
    "שלום עולם \u202e مرحبا 🦄",
    "{{ 7 * 7 }} {% raw %} javascript:alert(1)",
    "long " + "x" * 300,
)

SMALL = {
    "name": "SmallEvaluationSet", "message": "few <rows>.", "advice": "Pass more <rows>.",
    "command_line_advice": "Use more <rows>.", "statistic": 12.0, "threshold": 30.0, "forbids_verdict": False,
}  # fmt: skip
CONSTANT = SMALL | {"name": "ConstantModel", "message": "same for all.", "forbids_verdict": True, "statistic": None}
SHORT = SMALL | {"name": "PathTooShort", "message": "short path.", "command_line_advice": ""}


def _columns(shape: str, y: np.ndarray) -> dict[str, np.ndarray]:
    """Sensitive columns of rows with labels y."""
    k = np.arange(len(y))
    if shape == "three columns":
        return {
            "sex": np.where(k % 2 == 1, "f", "m"), "region": k % 6, "age band": np.where(k % 3 == 0, "old", "young")
        }  # fmt: skip
    if shape == "thirty groups":
        return {"county": np.char.add("county ", (k % 30).astype(str))}
    if shape == "hostile":
        return {name: np.array(HOSTILE)[(k + i) % len(HOSTILE)] for i, name in enumerate(HOSTILE[:2])}
    sex = np.where(k % 2 == 1, "Female", "Male")
    if shape == "undefined":  # no row of the third group has a positive label
        sex = np.where((k % 9 == 0) & (y == 0), "other", sex)
    return {"sex": sex}


def _metrics(shape: str) -> list[str]:
    """Metrics that get a verdict."""
    asked = {"equalized odds": ["equalized_odds"], "ratios": ["demographic_parity_ratio", "equalized_odds_ratio"]}
    return asked.get(shape, ["demographic_parity"])


def _interval(interval: sf.Interval, source: str) -> dict[str, Any]:
    """An interval as an audit holds it."""
    return interval.to_dict() | {"source": source, "diagnostics": [SMALL]}


def _looks(shape: str, model: str, found: dict[str, Any]) -> list[dict[str, Any]]:
    """Interim results that approach the final one."""
    looks = []
    for rows in [TRAINING] if shape == "one look" else [400, 800, TRAINING]:
        extra = 0.1 * (TRAINING / rows - 1.0)
        low, high = (None, None) if found["low"] is None else (max(0.0, found["low"] - extra), found["high"] + extra)
        looks.append({"model": model, "metric": found["metric"], "rows": rows, "estimate": found["estimate"]})
        looks[-1] |= {"low": low, "high": high}
    return [look | {"source": source} for source in ("total", "training") for look in looks]


def _model(shape: str, name: str, margin: float | None, path: list[dict[str, Any]]) -> dict[str, Any]:
    """A model with intervals for its made-up decisions."""
    rng = np.random.default_rng(0 if name == "constrained" else 1)
    k = np.arange(EVALUATION)
    y = (k // 2) % 2
    bias = 0.05 if name == "constrained" else 0.3
    decisions = (rng.random(EVALUATION) < 0.35 + 0.3 * y + bias * (k % 2)).astype(int)
    columns = _columns(shape, y)
    metrics = _metrics(shape)
    intervals = []
    verdicts = []
    for metric in dict.fromkeys([*metrics, "demographic_parity", "equalized_odds", "false_negative_rate"]):
        found = sf.fairness_interval(y, decisions, sensitive_features=columns, metric=metric, n_replicates=50)
        intervals += [_interval(found, source) for source in SOURCES]
        if margin is not None and metric in metrics:
            needed = {"training": 5.0, "evaluation": None, "times": 1.5}
            joint = {"confidence_level": 0.95, "low": found.low, "high": found.high}
            verdicts.append({
                "metric": metric, "margin": margin, "verdict": found.verdict(margin), "reason": "",
                "rows_needed": needed, "joint": joint,
            })  # fmt: skip
    path += _looks(shape, name, intervals[0])
    many = {"hostile": list(HOSTILE), "many coefficients": [f"feature {k}" for k in range(120)]}
    coefficients = [
        {"feature": feature, "estimate": 1 / k - 0.3, "low": 1 / k - 0.5, "high": 1 / k, "excludes_zero": k < 2}
        for k, feature in enumerate(many.get(shape, ["x1", "x2"]), 1)
    ]
    right = float(np.mean(decisions == y))
    constrained = name == "constrained"
    return {
        "name": name, "criterion": "demographic_parity" if constrained else None, "constant": False,
        "positive": None, "threshold": None, "rows": {"decided": EVALUATION, "labelled": EVALUATION}, "notes": [],
        "intervals": intervals, "accuracy": {"estimate": right, "low": right - 0.02, "high": right + 0.02},
        "coefficients": coefficients, "verdicts": verdicts,
        "diagnostics": [SMALL, CONSTANT, SHORT] if constrained else [SMALL],
    }  # fmt: skip


def build(shape: str) -> Audit:
    """Make an audit of a shape."""
    margin = None if shape == "no margin" else 0.8 if shape == "ratios" else 0.1
    path: list[dict[str, Any]] = []
    models = [_model(shape, name, margin, path) for name in ("constrained", "unconstrained")]
    first = models[0]["intervals"][0]
    price = models[1]["accuracy"]["estimate"] - models[0]["accuracy"]["estimate"]
    metrics = _metrics(shape)
    columns = _columns(shape, np.arange(TRAINING) % 2)
    odd = HOSTILE[0] if shape == "hostile" else "table.csv"
    column = {"role": "sensitive", "features": 0, "missing": 3, "unseen": 1, "note": odd}
    group = {"constrained": True, "evaluation": 120, "base_rate": 0.25, "compared": True, "note": ""}
    return Audit(
        kind="training",
        sentence=f"Groups {first['pair'][0]!r} and {first['pair'][1]!r} differ by {first['estimate']:.4f} & more.",
        verdict=models[0]["verdicts"][0]["verdict"] if margin else None,
        complete=shape != "partial",
        settings={
            "label": odd, "labels": ["0", "1"], "sensitive": list(columns), "criterion": "demographic_parity",
            "margin": margin, "metric": [] if metrics == ["demographic_parity"] else metrics, "features": None,
            "random_state": 0, "confidence_level": 0.95, "policy": None,
        },
        data={"name": odd, "kind": "csv", "files": [{"name": odd, "size": 12345, "sha256": "5b" * 32}]},
        rows={
            "read": TRAINING + EVALUATION, "training": TRAINING, "evaluation": EVALUATION, "folds": None,
            "labelled": EVALUATION,
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
            {"name": "StepBias", "assumes": "Steps leave no bias.", "held": True, "diagnostics": []},
            {"name": "SmallEvaluationSet", "assumes": "There are many rows.", "held": False, "diagnostics": [SMALL]},
            {"name": "ConstantModel", "assumes": "Decisions differ.", "held": False, "diagnostics": [CONSTANT]},
        ],
        versions={"surefair": "0", "python": "3"},
    )  # fmt: skip


SHAPES = (
    "two groups", "three columns", "thirty groups", "ratios", "equalized odds", "no margin", "undefined",
    "many coefficients", "one look", "partial", "hostile",
)  # fmt: skip


DECISIONS = ("decisions", "scores", "hostile decisions")


def build_decisions(shape: str) -> Audit:
    """Audit made-up decisions or scores."""
    rng = np.random.default_rng(0)
    k = np.arange(EVALUATION)
    y = (k // 2) % 2
    names = {"sex": "sex", "race": "race", "first": "first", "second": "second"}
    if shape == "hostile decisions":
        names = dict(zip(names, HOSTILE, strict=False))
    values = _columns("hostile" if shape == "hostile decisions" else "three columns", y)
    groups = [np.where(k % 7 == 0, None, one.astype(object)) for one in [*values.values()][:2]]
    table = pd.DataFrame({names["sex"]: groups[0], names["race"]: groups[1], "y": y})
    table[names["first"]] = rng.random(EVALUATION) < 0.35 + 0.3 * y + 0.1 * (k % 2)
    table[names["second"]] = rng.random(EVALUATION)
    asked: dict[str, Any] = {"sensitive": [names["sex"], names["race"]], "label": "y", "n_replicates": 50}
    if shape == "scores":
        return sf.audit(table, score=names["second"], **asked)
    metrics = {"demographic_parity": 0.1, "accuracy": 0.2, "demographic_parity_ratio": 0.8}
    return sf.audit(
        table.assign(**{names["second"]: table[names["second"]] > 0.5}), decision=[names["first"], names["second"]],
        margin=metrics, **asked,
    )  # fmt: skip


@cache
def _built(shape: str) -> Audit:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # there are few rows
        return build_decisions(shape) if shape in DECISIONS else build(shape)


@pytest.fixture(scope="session")
def make_audit() -> Callable[[str], Audit]:
    """Make an audit of a shape, once."""
    return _built


@pytest.fixture(params=SHAPES, ids=lambda shape: shape.replace(" ", "-"))
def audit(request: pytest.FixtureRequest) -> Audit:
    """Audits of all shapes."""
    return _built(request.param)


@pytest.fixture(params=(*SHAPES, *DECISIONS), ids=lambda shape: shape.replace(" ", "-"))
def any_audit(request: pytest.FixtureRequest) -> Audit:
    """Audits of all shapes and kinds."""
    return _built(request.param)
