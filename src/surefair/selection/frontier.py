"""Frontier: what each tolerance buys in unfairness and costs in accuracy, with bands that hold for the whole path.

A model is trained for every tolerance, and one without a constraint, all on the same rows. Replicate b has the same
weights in all of them, in training and in evaluation, so what neighbouring models have in common cancels in their
differences. Per replicate, a rate moves by what training contributes (as far as two halves of the evaluation rows agree
on it; see ``inference/sources.py``) and by what the random weights of the evaluation rows contribute. The bands are at
the same multiple of the spread at every point, and that multiple is large enough for all points to stay within them in
95 % of the replicates (max-t). So whoever picks a tolerance after a look at the frontier may still trust its band.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import norm

from surefair.classifier import FairClassifier, check_groups_given, declare
from surefair.criteria import CRITERIA, Criterion
from surefair.diagnostics import Diagnostic, issue
from surefair.inference.comparison import OF_DIFFERENCES, Difference
from surefair.inference.counts import Counts, count_weights, effective_sides, rates_of
from surefair.inference.cross_fit import deal
from surefair.inference.evaluation import model_interval
from surefair.inference.interval import WITHIN, Interval, Question, plain
from surefair.inference.limits import Gaps, Pairs, check_level, few_sides, fold, gap_limits, single_limits
from surefair.inference.metric import Metric, get_metric
from surefair.inference.moves import between, rate_moves
from surefair.inference.pairing import unfairness_limits
from surefair.inference.sources import SOURCES, Tally
from surefair.learners.multipliers import EVALUATION, row_numbers, uniforms
from surefair.names import one_of
from surefair.pages.summary import summary
from surefair.rows import FloatArray, Groups, Rows, make_frame
from surefair.storage.atomic import written_whole
from surefair.training.model import Model, Problem
from surefair.training.parameters import check_parameters

FORMAT, VERSION = "surefair.Frontier", 1
HELD_OUT = (3, 10)  # tenths of the rows that are held out for evaluation
SHARES = (0.75, 0.5, 0.35, 0.2, 0.1, 0.0)  # of the gap of the free model: tolerances by default
MOST_TOLERANCES = 50
ACCURACY = CRITERIA["accuracy"].rates


class FrontierPoint(NamedTuple):
    """One model of a frontier."""

    tolerance: float | None  # None without a constraint
    interval: Interval  # its unfairness
    low: float  # band of the unfairness, which holds for all points together
    high: float
    accuracy: Difference  # estimate, low, high
    accuracy_band: tuple[float, float]
    change: Difference  # its unfairness minus that of the free model; for a ratio, on the scale of logarithms
    cost: Difference  # its accuracy minus that of the free model

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON."""
        found = {"tolerance": self.tolerance, "unfairness": self.interval.estimate, "low": self.low, "high": self.high,
                 "accuracy": self.accuracy.estimate, "accuracy_low": self.accuracy_band[0],
                 "accuracy_high": self.accuracy_band[1]}  # fmt: skip
        for name in ("change", "cost"):
            estimate, low, high = getattr(self, name)
            found |= {name: estimate, f"{name}_low": low, f"{name}_high": high}
        return {name: plain(value) for name, value in found.items()}


@dataclass(frozen=True, eq=False, repr=False)
class Frontier:
    """Unfairness and accuracy of models with different tolerances, with intervals and bands.

    Attributes
    ----------
    points : tuple of FrontierPoint
        From the free model to the smallest tolerance. Each has its ``tolerance``, the ``interval`` of its unfairness by
        itself, the limits ``low`` and ``high`` of the band that holds for all points together, its ``accuracy`` with
        its own interval and ``accuracy_band``, and differences from the free model: ``change`` of unfairness, ``cost``
        in accuracy, each with an interval for this point alone.
    criterion, metric, source : str
    confidence_level : float
    n, n_training : int
        Evaluation rows and training rows.
    sentence : str
    diagnostics : tuple of Diagnostic
    models : dict of (float or None) to Model
        The models by their tolerance.
    data : dict
        File and numbers of rows, where ``surefair frontier`` read them.

    Examples
    --------
    >>> import surefair as sf
    >>> data = sf.datasets.SyntheticDI(seed=0).sample(4_000)
    >>> clf = sf.FairClassifier(n_replicates=100, random_state=0)
    >>> found = sf.frontier(clf, data.X, data.y, sensitive_features=data.sensitive, tolerances=[0.4, 0.1])
    >>> [point.tolerance for point in found.points]
    [None, 0.4, 0.1]
    >>> found.best(0.5).tolerance
    0.4
    """

    points: tuple[FrontierPoint, ...]
    criterion: str
    metric: str
    source: str
    confidence_level: float
    n: int
    n_training: int
    sentence: str
    diagnostics: tuple[Diagnostic, ...]
    models: dict[float | None, Model] = field(default_factory=dict)
    data: dict[str, Any] = field(default_factory=dict)
    _library: str = "pandas"

    def __repr__(self) -> str:
        return f"<Frontier of {len(self.points)} models: {self.metric}, {self.source}, {self.confidence_level:.6g}>"

    def __str__(self) -> str:
        return self.sentence

    def best(self, margin: float) -> FrontierPoint | None:
        """Return the most accurate point that meets a margin with confidence, or None if there is none.

        The whole band of the point is within the margin. The bands hold for all points together, so the choice does
        not spoil the confidence. Points with a diagnostic that rules out a verdict are not considered.

        Parameters
        ----------
        margin : float
            The largest acceptable gap; for a ratio, the smallest acceptable ratio.
        """
        meets = [point for point in self.points if self._verdict(point, margin) == WITHIN]
        return max(meets, key=lambda point: point.accuracy.estimate, default=None)

    def _verdict(self, point: FrontierPoint, margin: float) -> str:
        return replace(point.interval, low=point.low, high=point.high).verdict(margin)

    def classifier(self, tolerance: float | None) -> FairClassifier:
        """Return the model of a tolerance as a fitted classifier.

        Parameters
        ----------
        tolerance : float or None
            One of the tolerances; None for the free model.
        """
        if tolerance not in self.models:
            known = ", ".join(str(one) for one in self.models)
            raise ValueError(f"There is no model with tolerance {tolerance!r}, only with {known}.")
        return FairClassifier.from_model(self.models[tolerance])

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON; an undefined or infinite number becomes None."""
        names = ("criterion", "metric", "source", "confidence_level", "n", "n_training", "sentence", "data")
        found = {name: plain(getattr(self, name)) for name in names}
        found["points"] = [point.to_dict() | {"interval": point.interval.to_dict()} for point in self.points]
        return found | {"diagnostics": [one.to_dict() for one in self.diagnostics]}

    def to_frame(self) -> Any:
        """Return one row per model: tolerance (NaN for the free model), unfairness, accuracy, and the differences."""
        rows = [point.to_dict() for point in self.points]
        table = {name: [np.nan if row[name] is None else row[name] for row in rows] for name in rows[0]}
        return make_frame(table, like=self._library)

    def to_json(self, path: str | os.PathLike[str]) -> None:
        """Write the frontier to a JSON file; an older file stays as it was until the new one is complete."""
        content = {"format": FORMAT, "version": VERSION} | self.to_dict()
        with written_whole(path) as file:
            file.write((json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False) + "\n").encode())

    def to_html(self, path: str | os.PathLike[str], margin: float | None = None) -> None:
        """Write the frontier as a page with charts; an older file stays as it was until the new one is complete.

        Parameters
        ----------
        path : path
        margin : float, optional
            Draw a line at the margin, and name the most accurate model that meets it.
        """
        from surefair.selection.frontier_page import render  # templates are slow to import, and many write no page

        best = None if margin is None else self.best(margin)
        page = render(self.to_dict() | {"margin": margin, "best": None if best is None else best.to_dict()})
        with written_whole(path) as file:
            file.write(page.encode())

    def _repr_html_(self) -> str:
        rows = {
            name_of(point.tolerance): f"unfairness {point.interval.estimate:.4f} [{point.low:.4f}, {point.high:.4f}], "
            f"accuracy {point.accuracy.estimate:.4f} [{point.accuracy_band[0]:.4f}, {point.accuracy_band[1]:.4f}]"
            for point in self.points
        }
        return summary(self.sentence, rows, [str(one) for one in self.diagnostics])


def name_of(tolerance: float | None) -> str:
    """Name a model by its tolerance."""
    return "no constraint" if tolerance is None else f"tolerance {tolerance:g}"


def frontier(
    clf: FairClassifier,
    X: Any,
    y: Any,
    *,
    sensitive_features: Any,
    tolerances: Sequence[float] | None = None,
    evaluation_set: Any = None,
    metric: str | Criterion | None = None,
    source: str = "total",
    confidence_level: float = 0.95,
    sample_weight: Any = None,
) -> Frontier:
    """Train models with different tolerances on the same rows, and measure what each buys and costs.

    Parameters
    ----------
    clf : FairClassifier
        The settings of all models, with a criterion; its own ``tolerance`` is not used, and it is not changed.
    X, y, sensitive_features, sample_weight
        As in ``FairClassifier.fit``.
    tolerances : sequence of float, optional
        Different numbers from 0 up to, but not including, 1. By default six, from three quarters of the free model's
        gap down to 0.
    evaluation_set : tuple (X, y, sensitive_features) or (X, y, sensitive_features, sample_weight), optional
        Rows to evaluate on; by default three tenths of the rows, which are not trained on then.
    metric : str, Criterion or None
        What to measure; by default the criterion.
    source : {"total", "evaluation"}
        Whether intervals and bands cover training and evaluation, or are about these very models.
    confidence_level : float

    Returns
    -------
    Frontier
    """
    if not isinstance(clf, FairClassifier):
        raise TypeError(f"frontier takes a FairClassifier; received {type(clf).__name__}.")
    asked = check_tolerances(tolerances)
    check_path(clf, source)
    check_groups_given(sensitive_features)
    new, model, rows, _ = declare(clf, X, y, sensitive_features, None, sample_weight)
    measured = get_metric(metric or model.problem.criterion or "")
    question = Question(measured, source, "percentile", check_level(confidence_level))
    test = None
    if evaluation_set is None:
        rows, test = held_out(rows, model.problem.seed)
    models = train_path(model.problem, rows, asked)
    if test is None:
        first = FairClassifier.from_model(models[None])
        Xe, ye, ze, *we = evaluation_set
        test = first.rows(Xe, ye, sensitive_features=ze, sample_weight=we[0] if we else None, need_groups=True)
    found = replace(frontier_of(models, test, question), _library=new.library_)
    issue(found.diagnostics)
    return found


def check_tolerances(tolerances: Sequence[float] | None) -> list[float] | None:
    """Return tolerances from the largest to the smallest, if they are different and within their range.

    Examples
    --------
    >>> check_tolerances([0, 0.1])
    [0.1, 0.0]
    """
    if tolerances is None:
        return None
    try:
        found = [float(one) for one in tolerances]
    except (TypeError, ValueError):
        raise ValueError(f"tolerances must be a list of numbers; received {tolerances!r}.") from None
    if not 1 <= len(found) <= MOST_TOLERANCES:
        raise ValueError(f"tolerances must be 1 to {MOST_TOLERANCES} numbers; received {len(found)}.")
    for one in found:
        if not 0.0 <= one < 1.0:
            raise ValueError(f"A tolerance is a gap, from 0 up to but not including 1; received {one:g}.")
        if found.count(one) > 1:
            raise ValueError(f"tolerances must be different numbers; {one:g} is there {found.count(one)} times.")
    return sorted(found, reverse=True)


def check_path(clf: FairClassifier, source: str) -> None:
    """Refuse a classifier that has no path of tolerances."""
    one_of(source, ("total", "evaluation"), "source")
    check_parameters(clf)
    if clf.criterion is None or clf.penalty is not None or clf.step_size != "auto":
        raise ValueError(
            "A frontier is a path of tolerances: the classifier needs a criterion, no penalty, and step_size='auto'. "
            f"Received criterion={clf.criterion!r}, penalty={clf.penalty!r}, step_size={clf.step_size!r}."
        )
    if clf.n_replicates < 2:
        raise ValueError(f"Bands need replicates; received n_replicates={clf.n_replicates}. Use 200, for example.")


def held_out(rows: Rows, seed: int) -> tuple[Rows, Rows]:
    """Rows to train on, and three tenths of the rows that are held out, about equally many of each group and label."""
    inside = deal(rows, HELD_OUT[1], seed) < HELD_OUT[0]
    return rows.part(~inside), rows.part(inside)


def train_path(problem: Problem, rows: Rows, tolerances: list[float] | None) -> dict[float | None, Model]:
    """Train the free model and one for each tolerance, from the largest to the smallest, all with the same weights."""

    def train(one: Problem, near: Model | None = None) -> Model:
        return Model.of(one, rows.names, rows.X.shape[1]).train(rows, near=near)

    models: dict[float | None, Model] = {None: train(replace(problem, criterion=None))}
    if tolerances is None:
        assert problem.criterion is not None
        gap = _gap(models[None], rows, get_metric(problem.criterion))
        tolerances = list(dict.fromkeys(float(f"{share * gap:.2g}") for share in SHARES))
    near = None
    for tolerance in tolerances:
        near = train(replace(problem, tolerance=tolerance), near)
        models[tolerance] = near
    return models


def _gap(model: Model, rows: Rows, metric: Metric) -> float:
    """Largest gap of a model on some rows."""
    positive = np.asarray(model.trained.score(rows.X) > 0.0, dtype=np.float64)[:, None]
    table = count_weights(rows, rows.weight[:, None], positive)[0]
    pairs = Pairs.of(rows.groups, ratio=False)
    gap = pairs.gap(rates_of(metric.rates, Counts(table, table, table)))
    return float(np.nanmax(np.abs(gap)))


# -- From models to bands ---------------------------------------------------------------------------------------------


class _Moves(NamedTuple):
    """Rates of all models, and how they move in the replicates."""

    rate: FloatArray  # (models, rates, groups)
    off: FloatArray  # (B, models, rates, groups)
    effective: FloatArray  # (2, models, rates, groups)
    accuracy: FloatArray  # (models,)
    accuracy_off: FloatArray  # (B, models)


def frontier_of(models: dict[float | None, Model], test: Rows, question: Question) -> Frontier:
    """Measure models on evaluation rows; the first is the free one."""
    tallies = [Tally.of(model, test, (question.source,), question.method, 1) for model in models.values()]
    intervals = [model_interval(model, tally, question) for model, tally in zip(models.values(), tallies, strict=True)]
    moves = _moves(list(models.values()), tallies, test, question)
    pairs = Pairs.of(test.groups, question.metric.ratio)
    bands = _bands(moves, pairs, intervals, question)
    level = question.confidence_level
    n = float(test.weight.sum() ** 2 / (test.weight @ test.weight))
    accuracies, accuracy_bands = _accuracies(moves.accuracy, moves.accuracy_off, level, n, exact=True)
    costs, _ = _accuracies(
        moves.accuracy - moves.accuracy[0], moves.accuracy_off - moves.accuracy_off[:, :1], level, n, exact=False
    )
    costs[0] = Difference(0.0, 0.0, 0.0)
    changes = _changes(moves, pairs, intervals, question)
    points = tuple(
        FrontierPoint(tolerance, *rest)
        for tolerance, *rest in zip(models, intervals, *np.transpose(bands).tolist(), accuracies, accuracy_bands,
                                    changes, costs, strict=True)
    )  # fmt: skip
    first = next(iter(models.values()))
    constrained = [model for tolerance, model in models.items() if tolerance is not None]
    criterion = constrained[0].problem.criterion
    warned = [one for point in points for one in point.interval.diagnostics]
    warned += [one for model in constrained for one in model.diagnostics]  # say, a constraint that changes nothing
    diagnostics = tuple({(one.name, one.message): one for one in warned}.values())
    found = Frontier(
        points=points, criterion="" if criterion is None else criterion.name, metric=question.metric.name,
        source=question.source, confidence_level=question.confidence_level, n=test.n, n_training=first.n_rows,
        sentence="", diagnostics=diagnostics, models=models,
    )  # fmt: skip
    return replace(found, sentence=_sentence(found))


def _moves(models: list[Model], tallies: list[Tally], test: Rows, question: Question) -> _Moves:
    """Rates of all models and how they move, by training and by the weights of the evaluation rows."""
    rates, source = question.metric.rates, question.source
    B = models[0].problem.n_replicates
    V = -np.log(uniforms(models[0].seed, row_numbers(0, test.n), B + 1, EVALUATION)[:, 1:])
    weight = test.weight[:, None]
    parts = []
    for model, tally in zip(models, tallies, strict=True):
        counts = tally.counts(source)
        of_fit = counts.of(0)
        positive = np.asarray(model.trained.score(test.X) > 0.0, dtype=np.float64)[:, None]
        tables = count_weights(test, weight * V, positive)
        off = rate_moves(rates, of_fit, tables)
        whole = _whole(of_fit, test.groups)
        accuracy_off = rate_moves(ACCURACY, whole, _all_rows(tables, test.groups))[:, 0, 0]
        rate = rates_of(rates, of_fit)
        if SOURCES[source].training:
            _, settled = tally.rates(source, rates, model.seed)
            assert settled is not None
            off = off + settled - rate
            accuracy_off = accuracy_off + _settled_accuracy(tally, source, test.groups)
        accuracy = float(rates_of(ACCURACY, whole)[0, 0])
        parts.append((rate, off, effective_sides(rates, of_fit), accuracy, accuracy_off))
    columns = list(zip(*parts, strict=True))
    return _Moves(
        np.stack(columns[0]), np.stack(columns[1], axis=1), np.stack(columns[2], axis=1), np.array(columns[3]),
        np.stack(columns[4], axis=1),
    )  # fmt: skip


def _all_rows(tables: FloatArray, groups: Groups) -> FloatArray:
    """Tables of all rows, as one group: those of the groups of the first sensitive column."""
    return np.asarray(tables[..., : groups.sizes[0], :, :].sum(axis=-3, keepdims=True))


def _whole(counts: Counts, groups: Groups) -> Counts:
    return Counts(*(_all_rows(table, groups) for table in counts))


def _settled_accuracy(tally: Tally, source: str, groups: Groups) -> FloatArray:
    """How the accuracy moves by training, scaled to what both halves of the evaluation rows agree on; shape (B,)."""
    one, two, both = (
        rates_of(ACCURACY, _whole(counts, groups))[:, 0, 0] for counts in (*tally.parts[source], tally.counts(source))
    )
    moved = both[1:] - both[0]
    variance = float(np.mean(moved**2))
    common = float(np.mean((one[1:] - one[0]) * (two[1:] - two[0])))
    share = common / variance if variance > 0.0 else 0.0
    return np.asarray(np.sqrt(min(max(share, 0.0), 1.0)) * moved)


def _bands(moves: _Moves, pairs: Pairs, intervals: list[Interval], question: Question) -> list[tuple[float, float]]:
    """Band of the unfairness of each model; never narrower than its own interval."""
    T, J, G = moves.rate.shape
    measured = moves.rate.reshape(T * J, G)
    rates_b = (moves.rate + moves.off).clip(0.0, 1.0).reshape(len(moves.off), T * J, G)
    effective = moves.effective.reshape(2, T * J, G)
    gaps = gap_limits(measured, rates_b, pairs, effective, question.confidence_level, "percentile")
    found = []
    for i, interval in enumerate(intervals):
        part = slice(i * J, (i + 1) * J)
        if not gaps.sure[part].all():
            found.append((interval.low, interval.high) if interval.reason else (0.0, 1.0))
            continue
        ends = [fold(*one) for one in zip(gaps.low[part].ravel(), gaps.high[part].ravel(), strict=True)]
        low, high = (float(end) for end in np.max(ends, axis=0))
        if question.metric.ratio:
            low, high = float(np.exp(-high)), float(np.exp(-low))
        found.append((min(low, interval.low), max(high, interval.high)))
    return found


def _accuracies(
    value: FloatArray, off: FloatArray, level: float, n: float, exact: bool
) -> tuple[list[Difference], list[tuple[float, float]]]:
    """Intervals of accuracies, or of their differences, each by itself; and a band for all together.

    Where few rows are decided wrongly, limits of accuracies are at least as wide as exact ones; where two models differ
    on few rows, one more row may have been among them.
    """
    spread = np.sqrt(np.mean(off**2, axis=0) + (0.0 if exact else 1.0 / n**2))
    far = np.divide(np.abs(off), spread, out=np.zeros_like(off), where=spread > 0.0).max(axis=1)
    c = float(norm.isf((1.0 - level) / 2.0))
    both = []
    for times in (c, max(c, float(np.quantile(far, level, method="weibull")))):
        low, high = value - times * spread, value + times * spread
        if exact:
            sides = n * np.stack([value, 1.0 - value])[:, None]
            least, most = single_limits(sides, 1.0 - 2.0 * float(norm.sf(times)))
            few = few_sides(sides)[0]
            low, high = np.where(few, np.fmin(low, least[0]), low), np.where(few, np.fmax(high, most[0]), high)
            low, high = low.clip(0.0, 1.0), high.clip(0.0, 1.0)
        both.append((low.tolist(), high.tolist()))
    each = [Difference(*numbers) for numbers in zip(value.tolist(), *both[0], strict=True)]
    return each, list(zip(*both[1], strict=True))


def _changes(moves: _Moves, pairs: Pairs, intervals: list[Interval], question: Question) -> list[Difference]:
    """Unfairness of each model minus that of the free one, with limits; pairs of groups hold together."""
    value, off = moves.rate, moves.off
    if pairs.ratio:
        off = np.divide(off, value, out=np.zeros_like(off), where=np.nan_to_num(value) > 0.0)
        value = np.asarray(pairs.scale(value))
    size = [-np.log(one.estimate) if pairs.ratio else one.estimate for one in intervals]
    shares = (OF_DIFFERENCES, -1.0), (1.0 - OF_DIFFERENCES, 1.0)
    found = [Difference(0.0, 0.0, 0.0)]
    for i in range(1, len(value)):
        limits = []
        for share, sign in shares:
            gap = pairs.gap(value[i]) + sign * pairs.gap(value[0])
            half, _ = between(off[:, i] + sign * off[:, 0], pairs).half_width(
                1.0 - share * (1.0 - question.confidence_level)
            )
            sure = np.isfinite(gap) & np.isfinite(half)
            limits.append(Gaps(gap, np.where(sure, gap - half, -2.0), np.where(sure, gap + half, 2.0), sure))
        low, high = unfairness_limits(*limits)
        found.append(Difference(float(size[i] - size[0]), low, high))
    return found


def _sentence(found: Frontier) -> str:
    """What the path does, in words."""
    free, last = found.points[0], found.points[-1]
    ratio = found.metric.endswith("_ratio")
    what = f"the smallest ratio in {found.metric}" if ratio else f"the unfairness in {found.metric}"
    words = (
        f"From no constraint to {name_of(last.tolerance)}, {what} goes from {free.interval.estimate:.3f} "
        f"({free.low:.3f} to {free.high:.3f}) to {last.interval.estimate:.3f} ({last.low:.3f} to {last.high:.3f}), and "
        f"the accuracy from {free.accuracy.estimate:.3f} to {last.accuracy.estimate:.3f} (difference "
        f"{last.cost.estimate:.3f}, {last.cost.low:.3f} to {last.cost.high:.3f})."
    )
    level = f"{100.0 * found.confidence_level:.6g} %"
    whose = "the models that unlimited data would give" if found.source == "total" else "these very models"
    return (
        f"{words} The limits of unfairness hold for all {len(found.points)} models together with {level} confidence, "
        f"and are for {whose}; {found.n_training:,} rows were trained on, {found.n:,} evaluated."
    )
