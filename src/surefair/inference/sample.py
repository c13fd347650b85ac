"""Sample: evaluation rows with the decisions of one or two models, checked, as codes; and their counts."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from surefair.diagnostics import outside
from surefair.inference.cluster_counts import Clustered, count_clusters
from surefair.inference.counts import Counts
from surefair.rows import (
    CodedColumn,
    Column,
    FloatArray,
    Groups,
    IntArray,
    Levels,
    as_column,
    as_columns,
    as_keys,
    as_weight,
    check_some_weight,
    library_of,
    same_length,
    together,
)

MOST_STRATA = 10_000


class Input(NamedTuple):
    """What a caller passes besides labels and predictions."""

    sensitive_features: Any
    intersections: bool = False
    sample_weight: Any = None
    clusters: Any = None
    strata: Any = None
    pos_label: Any = None
    threshold: float | None = None


class About(NamedTuple):
    """What the cells of counts mean, and what else to say about the rows that were counted."""

    groups: Groups
    strata: list[str]  # names of the strata; empty without strata
    positive: Any = None  # the positive label
    library: str = "pandas"  # data-frame library of the groups
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Sample:
    """Evaluation rows with the decisions of one or several models; rows of weight 0 are left out.

    Attributes
    ----------
    truth : ndarray of shape (n,)
        0 or 1; 0 where labels are not needed.
    decisions : tuple of ndarray of shape (n,)
        0 or 1, of each model.
    codes : ndarray of shape (n, columns)
        Group of each row in each sensitive column.
    weight : ndarray of shape (n,)
        Relative to the largest.
    keys : ndarray of shape (n,) or None
        Hash of each row's cluster; None where rows are independent.
    strata : ndarray of shape (n,)
        Stratum of each row; 0 without strata.
    about : About
    """

    truth: IntArray
    decisions: tuple[IntArray, ...]
    codes: IntArray
    weight: FloatArray
    keys: NDArray[np.uint64] | None
    strata: IntArray
    about: About

    @classmethod
    def of(cls, y_true: Any, predictions: Sequence[Any], given: Input, unlabelled: str = "") -> Sample:
        """Check and code evaluation rows.

        Parameters
        ----------
        y_true : array-like or None
        predictions : sequence of array-like
            Those of each model.
        given : Input
        unlabelled : str
            The metric that needs labels, if one does.
        """
        columns = as_columns(given.sensitive_features, given.intersections)
        decided = decide(y_true, predictions, unlabelled, given.pos_label, given.threshold)
        first = next(iter(columns.values()))
        names = ["y_pred"] if len(predictions) == 1 else [f"y_pred_{which}" for which in _letters(len(predictions))]
        predicted = dict(zip(names, decided.decisions, strict=True))
        n = same_length(y_true=decided.truth, **predicted, sensitive_features=first.code)
        groups = Groups.of(columns).check_comparable()
        weight = relative_weight(given.sample_weight, n)
        keys = None if given.clusters is None else as_keys(given.clusters, "cluster")
        strata, strata_names = _strata(given.strata, n)
        same_length(sensitive_features=first.code, clusters=keys, strata=strata)
        some = weight > 0.0
        notes = weight_notes(n - int(some.sum()), n)
        n = int(some.sum())
        if keys is not None:
            keys = keys[some]
            n_clusters = len(np.unique(keys))
            check_clusters(n_clusters)
            if n_clusters < n:
                notes = (*notes, f"The {n:,} rows are in {n_clusters:,} clusters")
            else:
                notes = (*notes, "Every cluster has one row, so rows count as independent")
                keys = None
        like = given.sensitive_features
        like = next(iter(like.values())) if isinstance(like, dict) else like
        about = About(groups, strata_names, decided.positive, library_of(like), notes)
        decisions = tuple(one[some] for one in decided.decisions)
        codes = groups.codes(columns)[some]
        return cls(decided.truth[some], decisions, codes, weight[some], keys, strata[some], about)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the table of cells: strata, groups, truth, and the decision of each model."""
        return (max(1, len(self.about.strata)), sum(self.about.groups.sizes), 2, *(2 for _ in self.decisions))

    @property
    def cell(self) -> IntArray:
        """Cell of each row in each sensitive column, numbered through; shape (n, columns)."""
        group = self.codes + np.array(self.about.groups.offsets)
        cell = (self.strata[:, None] * self.shape[1] + group) * 2 + self.truth[:, None]
        for decision in self.decisions:
            cell = cell * 2 + decision[:, None]
        return np.asarray(cell, dtype=np.int64)

    @property
    def counts(self) -> Counts:
        """Rows of each cell."""
        cell = self.cell
        kinds = (None, self.weight, self.weight**2)
        repeated = (None if kind is None else np.repeat(kind, cell.shape[1]) for kind in kinds)
        n_cells = int(np.prod(self.shape))
        tables = (np.bincount(cell.ravel(), kind, minlength=n_cells) for kind in repeated)
        return Counts(*(np.asarray(table, dtype=np.float64).reshape(self.shape) for table in tables))

    def called(self, positive: Any) -> Sample:
        """Return the same rows with another name of the positive label."""
        return replace(self, about=self.about._replace(positive=positive))

    def clustered(self, n_replicates: int, seed: int) -> Clustered | None:
        """Rows of each cell with random weights of whole clusters; None where rows are independent."""
        if self.keys is None:
            return None
        return count_clusters(self.cell, self.shape, self.keys, self.weight, n_replicates, seed)


def _letters(n: int) -> Iterable[object]:
    """Names of n models: letters if there are two, numbers otherwise."""
    return "ab" if n == 2 else range(n)


def relative_weight(sample_weight: Any, n: int) -> FloatArray:
    """Weights of evaluation rows relative to the largest, so that equal weights are ones and squares stay in range.

    Examples
    --------
    >>> relative_weight([1e200, 5e199], 2), relative_weight([0.1, 0.1], 2)
    (array([1. , 0.5]), array([1., 1.]))
    """
    weight = as_weight(sample_weight, n)
    check_some_weight(weight, "to count")
    return np.asarray(weight / weight.max())


def weight_notes(none: int, n: int) -> tuple[str, ...]:
    """Say how many of n rows have the weight 0.

    Examples
    --------
    >>> weight_notes(1, 2)
    ('1 of 2 rows has the weight 0 and is left out',)
    """
    if none == 0:
        return ()
    words = "has the weight 0 and is" if none == 1 else "have the weight 0 and are"
    return (f"{none:,} of {n:,} rows {words} left out",)


def check_clusters(n: int) -> None:
    """Refuse rows that are all in one cluster."""
    if n < 2:
        raise ValueError(
            "All rows are in one cluster, and one cluster does not show how clusters differ. Pass rows of several "
            "clusters, or leave clusters out if rows are independent."
        )


def _strata(strata: Any, n: int) -> tuple[IntArray, list[str]]:
    """Stratum of each row, and the names of the strata."""
    if strata is None:
        return np.zeros(n, dtype=np.int64), []
    column = CodedColumn.of(strata, "stratum")
    levels = Levels.of(column.found, "stratum")
    if len(levels.values) > MOST_STRATA:
        raise ValueError(
            f"The stratum column has {len(levels.values):,} different values, and at most {MOST_STRATA:,} strata are "
            "possible. Bin numbers, for example with pandas.cut, or merge rare values."
        )
    return levels.codes(column.found)[column.code], [repr(value) for value in levels.values.tolist()]


class Decided(NamedTuple):
    """Labels and decisions as 0 and 1, and the label that is 1."""

    truth: IntArray
    decisions: tuple[IntArray, ...]
    positive: Any


def decide(y_true: Any, predictions: Sequence[Any], unlabelled: str, pos_label: Any, threshold: Any) -> Decided:
    """Turn labels and predictions into 0 and 1."""
    predicted = [as_column(one, "decision" if threshold is None else "score") for one in predictions]
    for one in predicted:
        _check_threshold(threshold, one)
    if y_true is None and unlabelled:
        raise ValueError(
            f"y_true is None, and the metric {unlabelled!r} needs labels. Pass the labels, or use "
            "metric='demographic_parity', which needs none."
        )
    true = predicted[0] if y_true is None else as_column(y_true, "label")  # without labels, any serve: none is used
    if len(true) == len(predicted[0]) == 0:
        raise ValueError("There are no evaluation rows. Pass at least one row of each group.")
    if y_true is None and threshold is not None:
        decisions = tuple((one >= threshold).astype(np.int64) for one in predicted)
        return Decided(np.zeros(len(true), dtype=np.int64), decisions, None)
    labels = Levels.of(true if threshold is not None else _in_same_words(true, predicted), "label")
    values = labels.values.tolist()
    if pos_label is not None and pos_label not in values and len(values) > 1:
        raise ValueError(f"pos_label={pos_label!r} is not one of the labels {values}. Pass one of them.")
    if pos_label is not None and pos_label not in values and pos_label != 1:  # 1 is positive wherever there are only 0s
        warnings.warn(
            f"No row has the label pos_label={pos_label!r}: all have {values[0]!r}. If that is a mistake, pass another "
            "pos_label.",
            stacklevel=outside(),
        )
    if threshold is None and len(values) > 2 and any(one.dtype.kind == "f" for one in predicted):
        raise ValueError(
            f"y_pred and y_true together have {len(values)} values. If y_pred holds scores or probabilities, pass a "
            "threshold, for example threshold=0.5, to turn them into decisions."
        )
    if len(values) == 1 and pos_label is None:
        what = "decisions" if y_true is None else "labels"
        raise ValueError(f"All {what} are {values[0]!r}. Pass pos_label to say which value is positive.")
    if len(values) > 2 or pos_label is None:
        labels.check_two()
    positive = values[-1] if pos_label is None else pos_label
    decisions = tuple(
        (one == positive if threshold is None else one >= threshold).astype(np.int64) for one in predicted
    )
    return Decided((true == positive).astype(np.int64), decisions, positive)


def _in_same_words(true: Column, predicted: Sequence[Column]) -> Column:
    """Labels and decisions in one column; they must use the same words."""
    if true.dtype.kind == "U" and any(one.dtype.kind in "iufb" for one in predicted):
        raise ValueError(
            "The labels y_true are text and y_pred has numbers or Booleans. If they are scores or probabilities, pass "
            "a threshold, for example threshold=0.5; if they are decisions, use the same two values as in y_true."
        )
    both = together([true, *predicted], "y_true and y_pred")
    words = [np.unique(one).tolist() for one in (true, *predicted)]
    scores = any(one.dtype.kind == "f" and (one % 1.0 != 0.0).any() for one in predicted)
    if not scores and all(len(one) <= 2 for one in words) and len(np.unique(both)) > 2:
        listed = "; ".join(dict.fromkeys(" and ".join(map(repr, one)) for one in words))
        raise ValueError(
            f"Labels and decisions use different values: {listed}. Use the same two everywhere, for example 1 for the "
            "positive one and 0 for the other."
        )
    return both


def _check_threshold(threshold: Any, predicted: Column) -> None:
    if threshold is None:
        return
    if not (isinstance(threshold, Real) and np.isfinite(float(threshold))):
        raise ValueError(f"threshold must be a finite number, for example 0.5; received {threshold!r}.")
    if predicted.dtype.kind not in "biuf":
        raise ValueError(
            f"With a threshold, y_pred must hold numbers; received {predicted[:3].tolist()}, for example. "
            "Leave the threshold out if y_pred holds decisions."
        )


def check_numbers(n_replicates: Any, random_state: Any) -> None:
    """Check the number of replicates and the seed."""
    if not (isinstance(n_replicates, int | np.integer) and n_replicates >= 2):
        raise ValueError(f"n_replicates must be a whole number, 2 or larger; received {n_replicates!r}.")
    if random_state is not None and not (isinstance(random_state, int | np.integer) and 0 <= random_state < 2**64):
        raise ValueError(f"random_state must be None or a whole number, 0 or larger; received {random_state!r}.")
