"""The audited model as a plain scikit-learn pipeline, from what audit.json says about it.

An audit learns from standardised numbers, indicators and hashes (``tables/encoder.py``). The pipeline computes the same
scores from the columns as they are, with steps of scikit-learn alone:

- A number x with mean m and scale s has the feature (x - m) / s. Its coefficient θ becomes θ / s, and -θ m / s goes to
  the intercept. Missing numbers are filled with m, and then clipped, like all others. If they have an indicator, it
  keeps its coefficient. A code such as 99999 counts as missing: its indicator also takes back what the code adds.
- Every known word of a category gets an indicator, with its coefficient minus that of unknown words, which have none;
  theirs goes to the intercept.
- Hashes are the same.

A feature that follows from others has the coefficient 0.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from sklearn.compose import ColumnTransformer
from sklearn.feature_extraction import FeatureHasher
from sklearn.impute import MissingIndicator, SimpleImputer
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder

from surefair.tables.values import MISSING

INTERCEPT = "intercept"
NO_WORDS = ("nan", "None", "<NA>")  # missing values of data frames, as text


class Exported(NamedTuple):
    """How a column enters the pipeline."""

    transformer: Any
    coefficients: list[float]  # of what the transformer returns
    intercept: float  # what the column adds for every row
    example: Any  # a value, for transformers that must see one
    dtype: type


def to_sklearn(settings: Mapping[str, Any], columns: Sequence[Mapping[str, Any]], model: Mapping[str, Any]) -> Any:
    """Make a scikit-learn pipeline of an audited model.

    Parameters
    ----------
    settings, columns : mapping, sequence of mapping
        Those of the audit.
    model : mapping
        One of its models.
    """
    used = [one for one in columns if one["features"]]
    if any("encoding" not in one for one in used):
        raise ValueError(
            "This audit does not say how columns became features: an earlier release wrote it. Run the audit again."
        )
    theta = [one["estimate"] for one in model["coefficients"]]
    intercept = theta.pop() if model["coefficients"][-1]["feature"] == INTERCEPT else 0.0
    parts = {one["name"]: _KINDS[one["encoding"]["kind"]](one["encoding"], theta) for one in used}
    chosen = ColumnTransformer(
        [(f"{i}", part.transformer, [name]) for i, (name, part) in enumerate(parts.items())], sparse_threshold=0.0
    )
    chosen.fit(pd.DataFrame({name: pd.Series([part.example], dtype=part.dtype) for name, part in parts.items()}))
    coefficients = np.array([value for part in parts.values() for value in part.coefficients])
    labels = _labels(settings["labels"])
    linear = LogisticRegression() if settings["loss"] == "log_loss" else RidgeClassifier()
    linear.fit(np.array([np.zeros(len(coefficients)), np.ones(len(coefficients))]), labels)
    linear.coef_ = coefficients[None]
    total = intercept + sum(part.intercept for part in parts.values())
    linear.intercept_ = np.array([total])
    return Pipeline([("columns", chosen), ("linear", linear)])


def _number(encoding: Mapping[str, Any], theta: Sequence[float]) -> Exported:
    """Fill, clip, and beside it indicators of missing values and of codes."""
    own, flag = (*_coefficients(encoding, theta), 0.0)[:2]
    mean, slope = encoding["mean"], own / encoding["scale"]
    low = -np.inf if encoding["low"] is None else encoding["low"]
    high = np.inf if encoding["high"] is None else encoding["high"]
    steps = [
        ("fill", SimpleImputer(strategy="constant", fill_value=mean, keep_empty_features=True)),
        ("clip", FunctionTransformer(np.clip, kw_args={"a_min": low, "a_max": high}, feature_names_out="one-to-one")),
    ]
    union = [("value", Pipeline(steps)), ("missing", MissingIndicator(features="all"))]
    coefficients = [slope, flag]
    if codes := encoding["codes"]:
        union.append(("code", OneHotEncoder(categories=[codes], handle_unknown="ignore", sparse_output=False)))
        coefficients += [flag - slope * (float(np.clip(code, low, high)) - mean) for code in codes]
    as_float = FunctionTransformer(np.asarray, kw_args={"dtype": np.float64}, feature_names_out="one-to-one")
    return Exported(
        Pipeline([("number", as_float), ("features", FeatureUnion(union))]), coefficients, -slope * mean, mean, float
    )


def _category(encoding: Mapping[str, Any], theta: Sequence[float]) -> Exported:
    """Indicators of all known words."""
    by_feature = _coefficients(encoding, theta)

    def of(feature: int | None) -> float:
        return 0.0 if feature is None else by_feature[feature]

    other = of(encoding["other"])
    words = encoding["words"] | _read_as_truth(encoding["words"])
    steps = [
        *_words(words),
        ("indicators", OneHotEncoder(categories=[[*words]], handle_unknown="ignore", sparse_output=False)),
    ]
    coefficients = [of(feature) - other for feature in words.values()]
    return Exported(Pipeline(steps), coefficients, other, next(iter(words)), object)


def _hashed(encoding: Mapping[str, Any], theta: Sequence[float]) -> Exported:
    """Hashes of words."""
    hasher = FeatureHasher(encoding["buckets"], input_type="string")
    return Exported(Pipeline([*_words(), ("hash", hasher)]), _coefficients(encoding, theta), 0.0, "a", object)


_KINDS = {"number": _number, "category": _category, "hashed": _hashed}


def _words(known: Container[str] = ()) -> list[tuple[str, Any]]:
    """Steps that turn values into text, and missing ones into the word for them."""
    steps: list[tuple[str, Any]] = [
        (
            f"as {kind.__name__}",
            FunctionTransformer(np.asarray, kw_args={"dtype": kind}, feature_names_out="one-to-one"),
        )
        for kind in (str, object)
    ]
    fill: Any = {"strategy": "constant", "fill_value": MISSING, "keep_empty_features": True}
    return steps + [(word, SimpleImputer(missing_values=word, **fill)) for word in NO_WORDS if word not in known]


def _read_as_truth(words: Mapping[str, Any]) -> dict[str, Any]:
    """Words for true and false as pandas reads them from a CSV file: True and False, whatever their case."""
    by_case = {word.lower(): feature for word, feature in words.items()}
    if not {*by_case} <= {"true", "false", MISSING} or len(by_case) < len(words):
        return {}
    return {word: by_case[word.lower()] for word in ("True", "False") if word.lower() in by_case}


def _coefficients(encoding: Mapping[str, Any], theta: Sequence[float]) -> list[float]:
    """Coefficients of a column's features; 0 for those that follow from others."""
    return [0.0 if place is None else theta[place] for place in encoding["places"]]


def _labels(words: Sequence[str]) -> list[Any]:
    """Labels as numbers, if both are whole."""
    try:
        return [int(word) for word in words]
    except ValueError:
        return [*words]
