"""Comparison: two models on the same rows, by their unfairness, their gaps and their accuracy."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import norm, t

from surefair.criteria import CRITERIA, Criterion
from surefair.diagnostics import Diagnostic, issue
from surefair.inference.cluster_counts import Clustered
from surefair.inference.clusters import moves
from surefair.inference.counts import Counts
from surefair.inference.decisions import Evidence, Settings
from surefair.inference.interval import UNDECIDED, Interval, Question, plain
from surefair.inference.limits import Pairs
from surefair.inference.metric import Metric, get_metric
from surefair.inference.pairing import (
    DIFFERENCE,
    OVER_A,
    OVER_B,
    SUM,
    Pairing,
    clusters_of_model,
    of_model,
    unfairness_limits,
)
from surefair.inference.sample import About, Input, Sample
from surefair.pages.summary import summary
from surefair.rows import Groups, make_frame
from surefair.storage.atomic import written_whole

FORMAT = "surefair.Comparison"
VERSION = 1

OF_DIFFERENCES = 0.8
"""Share of the error probability that limits of differences of gaps take; the rest is for their sums."""


class Difference(NamedTuple):
    """A difference between two models, b minus a, with its limits."""

    estimate: float
    low: float
    high: float


@dataclass(frozen=True, eq=False, repr=False)
class Comparison:
    """Two models on the same rows, and whether one is less unfair than the other.

    Attributes
    ----------
    estimate, low, high : float
        Unfairness of b minus unfairness of a, with its interval: below 0, b is less unfair. For a ratio, the unfairness
        is the largest absolute logarithm of a ratio. Where rows do not show which sign the gaps have, either model may
        be the less unfair one, by as much as their gaps can differ. The interval is then symmetric about 0, wherever
        the estimate is, and the sentence says so.
    a, b : Interval
        Each model by itself.
    accuracy : Difference or None
        Accuracy of b minus accuracy of a: estimate, low, high. None without labels.
    by_pair : data frame
        One row per pair of groups: first, second, gap_a, gap_b, and the difference b minus a with limits that hold for
        all pairs together; before them column, where columns have names, and metric, where there are several rates.
    names : tuple of str
        What the two models are called.
    agreement : float
        Share of the rows, by weight, on which both decide the same.
    n : int
        Evaluation rows.
    metric : str
    confidence_level : float
    verdict : str
        "b is less unfair", "a is less unfair", with the names of the models, or "not enough evidence".
    sentence : str
    diagnostics : tuple of Diagnostic
        Those of the two intervals.
    data : dict
        Files and numbers of rows, where ``surefair compare`` read them; empty otherwise.

    Examples
    --------
    >>> import surefair as sf
    >>> group = ["x", "y"] * 400
    >>> a = [1, 0, 1, 0, 0, 0, 1, 1] * 100
    >>> b = [1, 0, 1, 0, 0, 0, 0, 1] * 100
    >>> found = sf.compare(None, a, b, sensitive_features=group)
    >>> found.verdict, round(found.estimate, 2), round(found.low, 2), round(found.high, 2)
    ('b is less unfair', -0.25, -0.3, -0.21)
    """

    estimate: float
    low: float
    high: float
    a: Interval
    b: Interval
    accuracy: Difference | None
    _by_pair: dict[str, list[Any]]
    _library: str
    names: tuple[str, str]
    agreement: float
    n: int
    metric: str
    confidence_level: float
    verdict: str
    sentence: str
    diagnostics: tuple[Diagnostic, ...]
    data: dict[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        numbers = f"{_words(self.estimate, 4)} [{self.low:.4f}, {self.high:.4f}]"
        return f"<{self.metric}, {self.names[1]} minus {self.names[0]}, {self.confidence_level:.6g}: {numbers}>"

    def __str__(self) -> str:
        return self.sentence

    @property
    def by_pair(self) -> Any:
        """One row per pair of groups, as a data frame."""
        return make_frame(self._by_pair, like=self._library)

    def rows_needed(self) -> float:
        """Forecast how many more rows would decide which model is less unfair, if estimates stay where they are.

        Limits move towards the estimate with the root of the number of rows. 0 if the verdict is definite already,
        infinite if both are equally unfair, or if a gap is undefined.

        Examples
        --------
        >>> import surefair as sf
        >>> a, b = [1, 0, 1, 0, 0, 0, 1, 1] * 10, [1, 0, 1, 0, 0, 0, 1, 1] * 8 + [1, 0, 1, 0, 0, 0, 0, 1] * 2
        >>> sf.compare(None, a, b, sensitive_features=["x", "y"] * 40).rows_needed() > 0
        True
        """
        if self.verdict != UNDECIDED:
            return 0
        reach = self.high - self.estimate if self.estimate < 0.0 else self.estimate - self.low
        undefined = any(math.isnan(gap) for gap in self._by_pair["difference"])
        if undefined or not (math.isfinite(reach) and abs(self.estimate) > 1e-6 * reach > 0.0):
            return math.inf
        return math.ceil(self.n * ((reach / self.estimate) ** 2 - 1.0)) if reach > abs(self.estimate) else math.inf

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON; an undefined or infinite number becomes None."""
        names = (
            "estimate",
            "low",
            "high",
            "names",
            "agreement",
            "n",
            "metric",
            "confidence_level",
            "verdict",
            "sentence",
        )
        found = {name: plain(getattr(self, name)) for name in names}
        columns = plain(self._by_pair)
        return found | {
            "rows_needed": plain(float(self.rows_needed())),
            "accuracy": None if self.accuracy is None else plain(self.accuracy._asdict()),
            "by_pair": [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)],
            "a": self.a.to_dict(),
            "b": self.b.to_dict(),
            "diagnostics": [one.to_dict() for one in self.diagnostics],
            "data": self.data,
        }

    def to_json(self, path: str | os.PathLike[str]) -> None:
        """Write the comparison to a JSON file; an older file stays as it was until the new one is complete.

        Parameters
        ----------
        path : path
        """
        content = {"format": FORMAT, "version": VERSION} | self.to_dict()
        with written_whole(path) as file:
            file.write((json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False) + "\n").encode())

    def to_html(self, path: str | os.PathLike[str]) -> None:
        """Write the comparison as a page with charts; an older file stays as it was until the new one is complete.

        Parameters
        ----------
        path : path
        """
        from surefair.inference.comparison_page import render  # templates are slow to import, and many write no page

        page = render(self.to_dict())
        with written_whole(path) as file:
            file.write(page.encode())

    def to_frame(self) -> Any:
        """Return one row per quantity: model a, model b and their difference of unfairness, and that of accuracy."""
        parts = [self.a, self.b, Difference(self.estimate, self.low, self.high)]
        what = [*(f"unfairness of {name}" for name in self.names), "difference of unfairness"]
        if self.accuracy is not None:
            parts.append(self.accuracy)
            what.append("difference of accuracy")
        table: dict[str, list[Any]] = {"quantity": what}
        table |= {name: [getattr(part, name) for part in parts] for name in ("estimate", "low", "high")}
        return make_frame(table, like=self._library)

    def _repr_html_(self) -> str:
        table = {
            f"unfairness of {name}": f"{_words(one.estimate, 4)} [{one.low:.4f}, {one.high:.4f}]"
            for name, one in zip(self.names, (self.a, self.b), strict=True)
        }
        table["difference"] = f"{_words(self.estimate, 4)} [{self.low:.4f}, {self.high:.4f}]"
        if self.accuracy is not None:
            table["difference of accuracy"] = "{:.4f} [{:.4f}, {:.4f}]".format(*self.accuracy)
        table["verdict"] = self.verdict
        return summary(self.sentence, table, [str(one) for one in self.diagnostics])


def compare(
    y_true: Any,
    y_pred_a: Any,
    y_pred_b: Any,
    *,
    sensitive_features: Any,
    metric: str | Criterion = "demographic_parity",
    names: Sequence[str] = ("a", "b"),
    pos_label: Any = None,
    threshold: float | None = None,
    sample_weight: Any = None,
    clusters: Any = None,
    intersections: bool = False,
    confidence_level: float = 0.95,
    n_replicates: int = 2000,
    random_state: int | None = 0,
) -> Comparison:
    """Compare the predictions of two models on the same rows.

    The comparison is paired: rows on which the models agree do not blur it, so the interval for the gap of two groups
    is far narrower than two separate ones suggest. With more groups any pair may be the one that is furthest apart,
    which makes the interval for the difference of the unfairness wider.

    Parameters
    ----------
    y_true : array-like of shape (n_rows,) or None
        Labels, two values of any type; None if the metric needs no labels.
    y_pred_a, y_pred_b : array-like of shape (n_rows,)
        Decisions of each model about the same rows, with the same two values; or scores, with a threshold.
    sensitive_features : array-like of shape (n_rows,), data frame or dict of columns
        Group of each row, values of any type, in one or several columns.
    metric : str or Criterion
        What is compared between the groups; "_ratio" after the name compares by ratios.
    names : sequence of two str
        What to call the two models.
    pos_label, threshold, sample_weight, clusters, intersections
        As in ``fairness_interval``.
    confidence_level, n_replicates, random_state
        As in ``fairness_interval``.

    Returns
    -------
    Comparison

    Examples
    --------
    >>> found = compare(None, [1, 0, 1, 0, 0, 1] * 50, [1, 0, 0, 0, 0, 1] * 50, sensitive_features=["x", "y"] * 150)
    >>> found.verdict
    'b is less unfair'
    """
    measured = get_metric(metric)
    settings = Settings("percentile", confidence_level, n_replicates, random_state)
    given = Input(sensitive_features, intersections, sample_weight, clusters, None, pos_label, threshold)
    settings.check(given)
    called = _check_names(names)
    sample = Sample.of(y_true, [y_pred_a, y_pred_b], given, measured.name if measured.needs_labels else "")
    seed = settings.seed
    both = sample.clustered(n_replicates, seed)
    counts = sample.counts if both is None else both.counts
    found = compare_counts(
        counts, both, sample.about, measured, settings._replace(random_state=seed), called, y_true is not None
    )
    issue(found.diagnostics)
    return found


def compare_counts(
    counts: Counts,
    clusters: Clustered | None,
    about: About,
    metric: Metric,
    settings: Settings,
    names: tuple[str, str] = ("a", "b"),
    labelled: bool = True,
    diagnostics: Sequence[Diagnostic] = (),
) -> Comparison:
    """Compare two models by the counts of their decisions.

    Parameters
    ----------
    counts : Counts of arrays of shape (1, groups, 2, 2, 2)
        By truth, decision of a and decision of b.
    clusters : Clustered or None
        The same counts by cluster, where rows are in clusters.
    about : About
        What the counts are of.
    metric : Metric
    settings : Settings
    names : tuple of str
    labelled : bool
        Whether there are labels.
    diagnostics : sequence of Diagnostic
        What else is known about the models or rows; some rule out a definite verdict.
    """
    groups = about.groups
    level = settings.confidence_level
    question = Question(metric, "evaluation", "percentile", level)
    models = [
        Evidence(about, of_model(counts, over), None if clusters is None else clusters_of_model(clusters, over),
                 settings.n_replicates, settings.seed)
        for over in (OVER_B, OVER_A)
    ]  # fmt: skip
    a, b = (model.interval(question) for model in models)
    pairs = Pairs.of(groups, metric.ratio)
    pooled = Counts(*(table.sum(axis=0) for table in counts))
    pairing = Pairing(pooled, clusters, metric.rates, pairs)
    differences = pairing.combine(DIFFERENCE)
    shown = pairing.limits(differences, level)
    apart = pairing.limits(differences, 1.0 - OF_DIFFERENCES * (1.0 - level))
    total = pairing.limits(pairing.combine(SUM), 1.0 - (1.0 - OF_DIFFERENCES) * (1.0 - level))
    low, top = unfairness_limits(apart, total)
    if not metric.ratio:
        low, top = max(low, -1.0), min(top, 1.0)
    estimate = 0.0 if pairing.same and not math.isnan(a.estimate) else _size(b) - _size(a)
    accuracy = _accuracy(pairing, groups, level) if labelled else None
    rows = pooled.weight[: groups.sizes[0]]
    same = rows[..., 0, 0].sum() + rows[..., 1, 1].sum()
    table = {name: values for name, values in a._by_pair.items() if name in ("column", "metric", "first", "second")}
    table |= {"gap_a": a._by_pair["gap"], "gap_b": b._by_pair["gap"]}
    table |= {"difference": shown.gap.ravel().tolist()}
    table |= {"low": shown.low.ravel().tolist(), "high": shown.high.ravel().tolist()}
    verdict = UNDECIDED
    diagnosed = tuple(dict.fromkeys((*diagnostics, *a.diagnostics, *b.diagnostics)))
    if not any(one.forbids_verdict for one in diagnosed):
        verdict = f"{names[1]} is less unfair" if top < 0.0 else f"{names[0]} is less unfair" if low > 0.0 else verdict
    found = Comparison(
        estimate=estimate, low=low, high=top, a=a, b=b, accuracy=accuracy, _by_pair=table, _library=about.library,
        names=names, agreement=float(same / rows.sum()), n=a.n, metric=metric.name, confidence_level=level,
        verdict=verdict, sentence="", diagnostics=diagnosed,
    )  # fmt: skip
    return replace(found, sentence=_sentence(found))


def _size(interval: Interval) -> float:
    """Unfairness; for a ratio, minus its logarithm; NaN where it is undefined."""
    if not interval.metric.endswith("_ratio") or math.isnan(interval.estimate):
        return interval.estimate
    return -math.log(interval.estimate) if interval.estimate > 0.0 else math.inf


def _words(number: float, digits: int) -> str:
    """Write a number, or that it is undefined."""
    return "undefined" if math.isnan(number) else f"{number:.{digits}f}"


def _accuracy(pairing: Pairing, groups: Groups, confidence_level: float) -> Difference:
    """Difference of the accuracies on all rows, which are those of the groups of the first sensitive column."""
    n = groups.sizes[0]
    counts = Counts(*(table[:n].sum(axis=0, keepdims=True) for table in pairing.counts))
    clusters = None
    if pairing.clusters is not None:
        of_all = (table[:, :n].sum(axis=1, keepdims=True) for table in pairing.clusters.counts)
        cells = np.arange(8 * n).reshape(n, 8).T
        replicates = pairing.clusters.replicates[:, :, :n].sum(axis=2, keepdims=True)
        clusters = Clustered(Counts(*of_all), replicates, pairing.clusters.distinct.joined(cells))
    rates = CRITERIA["accuracy"].rates
    none = Pairs(np.zeros(0, dtype=np.intp), np.zeros(0, dtype=np.intp), ratio=False)
    whole = Pairing(counts, clusters, rates, none)
    found = whole.combine(DIFFERENCE)
    tail = (1.0 - confidence_level) / 2.0
    q = float(norm.isf(tail))
    if clusters is not None:
        worth = moves(rates, clusters_of_model(clusters, OVER_B).pooled).worth[0, 0]
        q = float(t.isf(tail, max(worth - 1.0, 1.0)))
    few, low, high = whole.exact(found, confidence_level)
    value, half = float(found.value[0, 0]), q * float(found.spread[0, 0])
    if few[0, 0]:
        return Difference(value, min(value - half, float(low[0, 0])), max(value + half, float(high[0, 0])))
    return Difference(value, value - half, value + half)


def _sentence(found: Comparison) -> str:
    """The difference with its limits and the verdict, in words."""
    a, b = found.names
    level = f"{100.0 * found.confidence_level:.6g} %"
    scale = " (on the scale of logarithms)" if found.metric.endswith("_ratio") else ""
    words = (
        f"In {found.metric}, the unfairness of {b} minus that of {a} is {_words(found.estimate, 3)}{scale} ({level} "
        f"confidence interval {found.low:.3f} to {found.high:.3f}): "
    )
    words += (
        "there is not enough evidence that one is less unfair." if found.verdict == UNDECIDED else f"{found.verdict}."
    )
    undefined = any(math.isnan(gap) for gap in found._by_pair["difference"])
    if found.high > 0.0 and math.isclose(found.low, -found.high) and not undefined:
        words += (
            " The interval is symmetric about 0 because these rows do not show which sign the gaps have, and the "
            "difference changes its sign with them."
        )
    if found.accuracy is not None:
        estimate, low, high = found.accuracy
        words += f" The accuracy of {b} minus that of {a} is {estimate:.3f} ({low:.3f} to {high:.3f})."
    check = ": check which decision of each is positive" if found.agreement < 0.5 else ""
    return words + f" They agree on {100.0 * found.agreement:.1f} % of the {found.n:,} rows{check}."


def _check_names(names: Sequence[str]) -> tuple[str, str]:
    found = () if isinstance(names, str) else tuple(names)
    if len(found) != 2 or not all(isinstance(name, str) for name in found) or found[0] == found[1]:
        raise ValueError(f"names must be two different names for the two models; received {names!r}.")
    return found[0], found[1]
