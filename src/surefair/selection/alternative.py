"""Alternative: whether there is a model that is less unfair than the one in use, and hardly less accurate.

Rows are split in two, about equally many of each group and label on both sides. On one part, models with different
tolerances are trained, and the one that most clearly meets the demands is chosen. On the other part it is tested. The
demands are that its unfairness is lower by more than D, and that its accuracy is lower by less than E.

The unfairness U is a largest absolute gap, which is not smooth. But U_old ≥ s g_old for the gap of any pair of groups
and either sign s, and U_new < u exactly if g < u and -g < u for all gaps g of the new model. So if s g_old - g > D and
s g_old + g > D for all g, then U_new < U_old - D. The pair and the sign are those of the old model's largest gap on
the first part. Each of these inequalities, and the one about accuracy, is tested one-sidedly at the full level: if all
hold with confidence, so do they together (intersection-union), and no correction is needed.

One split is luck. So there are several, and twice the median of their p-values is a p-value for the hypothesis that no
split found such a model, however the splits depend on each other. The bounds are the medians of bounds at half the
error probability, for the same reason.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import t

from surefair.classifier import FairClassifier, check_groups_given, declare
from surefair.criteria import Criterion, Rate
from surefair.inference.comparison import Difference
from surefair.inference.cross_fit import deal
from surefair.inference.interval import plain
from surefair.inference.limits import Pairs, check_level
from surefair.inference.metric import Metric, get_metric
from surefair.inference.sample import decide
from surefair.pages.summary import summary
from surefair.rows import FloatArray, IntArray, Rows, make_frame, same_length
from surefair.selection.frontier import check_path, check_tolerances, name_of, train_path
from surefair.training.model import Model

YES, NO_EVIDENCE, TOO_FEW = "yes", "no evidence", "not enough data"
N_SPLITS = 11
MOST_SPLITS = 1001


@dataclass(frozen=True, eq=False, repr=False)
class Alternative:
    """Whether there is a model that is less unfair than the one in use, at an acceptable cost in accuracy.

    Attributes
    ----------
    verdict : {"yes", "no evidence", "not enough data"}
        "yes" is wrong with a probability of at most one minus the confidence level. "no evidence": the models that were
        tried miss a demand, as far as these rows show. "not enough data": these rows leave open whether they meet it.
    p_value : float
        Against the hypothesis that none of the models that were chosen meets the demands.
    reduction : Difference
        By how much the unfairness falls: the median over splits, and one-sided limits of both sides, each at the
        confidence level. ``reduction.low`` is the bound that comes with "yes".
    accuracy : Difference
        Accuracy of the alternative minus that of the model in use, likewise.
    tolerance : float or None
        Tolerance of the alternative: the middle one of those that the splits chose; None for no constraint.
    demands : dict
        The ``reduction`` that is asked for, and the ``cost`` in accuracy that is accepted.
    by_split : data frame
        One row per split: tolerance, reduction, accuracy, p_value.
    n, n_splits : int
    metric : str
    confidence_level : float
    sentence : str
    model : Model
        The alternative, trained on all rows with that tolerance.
    """

    verdict: str
    p_value: float
    reduction: Difference
    accuracy: Difference
    tolerance: float | None
    demands: dict[str, float]
    _by_split: dict[str, list[Any]]
    n: int
    n_splits: int
    metric: str
    confidence_level: float
    sentence: str
    model: Model
    _library: str = field(default="pandas")

    def __repr__(self) -> str:
        return f"<Alternative: {self.verdict}, p = {self.p_value:.3g}>"

    def __str__(self) -> str:
        return self.sentence

    @property
    def by_split(self) -> Any:
        """One row per split, as a data frame."""
        return make_frame(self._by_split, like=self._library)

    def classifier(self) -> FairClassifier:
        """Return the alternative as a fitted classifier, without replicates."""
        return FairClassifier.from_model(self.model)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON; an undefined number becomes None."""
        names = (
            "verdict",
            "p_value",
            "tolerance",
            "demands",
            "n",
            "n_splits",
            "metric",
            "confidence_level",
            "sentence",
        )
        found = {name: plain(getattr(self, name)) for name in names}
        found |= {name: plain(getattr(self, name)._asdict()) for name in ("reduction", "accuracy")}
        columns = plain(self._by_split)
        return found | {
            "by_split": [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
        }

    def to_frame(self) -> Any:
        """Return one row per demand: quantity, demanded, estimate, low, high."""
        demanded = [self.demands["reduction"], -self.demands["cost"]]
        table: dict[str, list[Any]] = {"quantity": ["reduction of unfairness", "change of accuracy"]}
        table |= {"demanded": demanded}
        both = (self.reduction, self.accuracy)
        table |= {name: [getattr(one, name) for one in both] for name in Difference._fields}
        return make_frame(table, like=self._library)

    def _repr_html_(self) -> str:
        shown = {
            "verdict": self.verdict,
            "p-value": f"{self.p_value:.3g}",
            "reduction of unfairness": "{:.4f} [{:.4f}, {:.4f}]".format(*self.reduction),
            "change of accuracy": "{:.4f} [{:.4f}, {:.4f}]".format(*self.accuracy),
        }
        return summary(self.sentence, shown)


def alternative(
    y_pred: Any,
    X: Any,
    y: Any,
    *,
    sensitive_features: Any,
    reduction: float = 0.0,
    cost: float = 0.0,
    clf: FairClassifier | None = None,
    tolerances: Sequence[float] | None = None,
    metric: str | Criterion | None = None,
    threshold: float | None = None,
    n_splits: int = N_SPLITS,
    confidence_level: float = 0.95,
    random_state: int = 0,
) -> Alternative:
    """Find out whether a linear model is less unfair than the model in use, at an acceptable cost in accuracy.

    Parameters
    ----------
    y_pred : array-like of shape (n_rows,)
        What the model in use says about the rows: decisions, with the values of y, or scores, with a threshold. These
        rows must not be ones that it was trained on.
    X, y, sensitive_features
        Rows for the alternative to learn from, as in ``FairClassifier.fit``.
    reduction : float
        By how much more than this the unfairness must fall.
    cost : float
        By how much less than this the accuracy may fall.
    clf : FairClassifier, optional
        Settings of the alternative; by default a ``FairClassifier`` with demographic parity.
    tolerances : sequence of float, optional
        As in ``frontier``; the free model is always among those that are tried.
    metric : str, Criterion or None
        What is compared between the groups, by differences; by default the criterion of ``clf``.
    threshold : float, optional
        ``y_pred`` holds scores, and a score of at least this much is a positive decision.
    n_splits : int
        Number of splits, an odd number; more of them make the answer depend less on the seed.
    confidence_level : float
    random_state : int
        Seed of the splits.

    Returns
    -------
    Alternative

    Examples
    --------
    >>> import surefair as sf
    >>> data = sf.datasets.SyntheticDI(seed=0).sample(1_000)
    >>> unfair = np.where(data.sensitive == 1, 1, -1)  # decides by the group alone
    >>> found = sf.alternative(unfair, data.X, data.y, sensitive_features=data.sensitive, reduction=0.05, cost=0.05,
    ...                        tolerances=[0.5], n_splits=3)
    >>> found.verdict
    'yes'
    """
    clf = FairClassifier() if clf is None else clf
    if not isinstance(clf, FairClassifier):
        raise TypeError(f"clf must be a FairClassifier; received {type(clf).__name__}.")
    check_path(clf, "evaluation")
    asked = check_tolerances(tolerances)
    demands = {"reduction": _demand("reduction", reduction), "cost": _demand("cost", cost)}
    if not (isinstance(n_splits, int | np.integer) and 1 <= n_splits <= MOST_SPLITS and n_splits % 2 == 1):
        raise ValueError(f"n_splits must be an odd number from 1 to {MOST_SPLITS}; received {n_splits!r}.")
    level = check_level(confidence_level)
    check_groups_given(sensitive_features)
    new, empty, rows, _ = declare(clf, X, y, sensitive_features, None, None)
    rows.groups.check_comparable()
    measured = get_metric(metric or empty.problem.criterion or "")
    if measured.ratio:
        raise ValueError(f"Alternatives compare differences of rates; received the ratio {measured.name!r}.")
    old = decide(y, [y_pred], "", empty.labels.values.tolist()[1], threshold).decisions[0]
    same_length(X=rows.y, y_pred=old)
    problem = replace(empty.problem, n_replicates=0)
    splits = [
        _split(
            rows, old, int(random_state) + 7919 * s, measured, demands, lambda part: train_path(problem, part, asked)
        )
        for s in range(n_splits)
    ]
    tolerance = sorted(splits, key=lambda one: np.inf if one.tolerance is None else one.tolerance)[
        n_splits // 2
    ].tolerance
    final = replace(problem, criterion=None) if tolerance is None else replace(problem, tolerance=tolerance)
    model = Model.of(final, rows.names, rows.X.shape[1]).train(rows)
    return _concluded(splits, tolerance, demands, rows.n, measured.name, level, model, new.library_)


def _demand(name: str, value: Any) -> float:
    if not (isinstance(value, Real) and 0.0 <= float(value) < 1.0):
        raise ValueError(f"{name} must be a number from 0 up to but not including 1; received {value!r}.")
    return float(value)


class _Split(NamedTuple):
    """What one split found: the model that was chosen on one part, as tested on the other."""

    tolerance: float | None
    unfairness: _Tested
    accuracy: _Tested

    @property
    def p_value(self) -> float:
        """All inequalities together."""
        return max(self.unfairness.p_value, self.accuracy.p_value)


class _Tested(NamedTuple):
    """Estimates that should be above their bounds, with standard errors; the least clear one decides."""

    value: FloatArray
    error: FloatArray
    bound: float
    freedom: float

    @property
    def clarity(self) -> float:
        """How many standard errors the least clear estimate is above its bound."""
        if not np.isfinite(self.value).all():
            return -np.inf
        return float(np.min((self.value - self.bound) / self.error))

    @property
    def p_value(self) -> float:
        """Against the hypothesis that one of them is not above its bound."""
        return float(t.sf(self.clarity, self.freedom))

    def limits(self, tail: float) -> tuple[float, float, float]:
        """Smallest estimate, with one-sided limits."""
        if not np.isfinite(self.value).all():
            return np.nan, -1.0, 1.0
        half = t.isf(tail, self.freedom) * self.error
        return float(self.value.min()), float((self.value - half).min()), float((self.value + half).min())


def _split(rows: Rows, old: IntArray, seed: int, metric: Metric, demands: dict[str, float], train: Any) -> _Split:
    """Choose a model on one part, and test it on the other."""
    first = deal(rows, 2, seed) == 0
    part = rows.part(first)
    models: dict[float | None, Model] = train(part)
    pair, sign = _worst(part, old[first], metric)
    tried = {
        tolerance: _test(part, old[first], _decide(model, part), metric, (pair, sign), demands)
        for tolerance, model in models.items()
    }
    chosen = max(tried, key=lambda one: min(test.clarity for test in tried[one]))
    other = rows.part(~first)
    tests = _test(other, old[~first], _decide(models[chosen], other), metric, (pair, sign), demands)
    return _Split(chosen, *tests)


def _decide(model: Model, rows: Rows) -> IntArray:
    return np.asarray(model.trained.score(rows.X) > 0.0, dtype=np.int64)


def _worst(rows: Rows, old: IntArray, metric: Metric) -> tuple[int, float]:
    """Place of the old model's largest gap among all rates and pairs, and its sign."""
    rates = np.array([_influence(rate, rows, old)[0] for rate in metric.rates])
    gap = Pairs.of(rows.groups, ratio=False).gap(rates).ravel()
    place = int(np.argmax(np.where(np.isnan(gap), -1.0, np.abs(gap))))
    return place, float(np.sign(gap[place]) or 1.0)


def _influence(rate: Rate, rows: Rows, decision: IntArray) -> tuple[FloatArray, FloatArray]:
    """A rate of each group, shape (groups,), and by how much each row moves it, shape (n, groups)."""
    cell = 2 * rows.truth + decision
    above = np.isin(cell, [2 * a + b for a, b in rate.numerator]) * rows.weight
    below = np.isin(cell, [2 * a + b for a, b in rate.denominator]) * rows.weight
    values, moves = [], []
    for codes, size in zip(rows.group.T, rows.groups.sizes, strict=True):
        for code in range(size):
            inside = codes == code
            total = below[inside].sum()
            value = above[inside].sum() / total if total > 0.0 else np.nan
            values.append(value)
            moves.append(np.where(inside, above - value * below, 0.0) / total if total > 0.0 else np.zeros(rows.n))
    return np.array(values), np.column_stack(moves)


def _test(
    rows: Rows, old: IntArray, new: IntArray, metric: Metric, worst: tuple[int, float], demands: dict[str, float]
) -> tuple[_Tested, _Tested]:
    """Compare two models on some rows: the inequalities about gaps, and the one about accuracy."""
    pairs = Pairs.of(rows.groups, ratio=False)
    gaps, moves, sizes = [], [], []
    for decision in (old, new):
        parts = [_influence(rate, rows, decision) for rate in metric.rates]
        gaps.append(np.concatenate([pairs.gap(value) for value, _ in parts]))
        moves.append(np.hstack([pairs.gap(move) for _, move in parts]))
        sizes = [np.count_nonzero(codes == code) for codes, n in zip(rows.group.T, rows.groups.sizes, strict=True)
                 for code in range(n)]  # fmt: skip
    place, sign = worst
    values, errors = [], []
    small = np.array(sizes, dtype=np.float64)
    # one more row of each group may have decided otherwise, so few rows that differ do not look certain
    spare = np.tile(1.0 / small[pairs.first] ** 2 + 1.0 / small[pairs.second] ** 2, len(metric.rates))
    for one in (1.0, -1.0):
        values.append(sign * gaps[0][place] - one * gaps[1])
        off = sign * moves[0][:, [place]] - one * moves[1]
        errors.append(np.sqrt(np.sum(off**2, axis=0) + spare))
    right = [(decision == rows.truth).astype(np.float64) for decision in (old, new)]
    share = rows.weight / rows.weight.sum()
    difference = right[1] - right[0]
    value = float(share @ difference)
    error = np.sqrt(np.sum((share * (difference - value)) ** 2) + 1.0 / rows.n**2)
    unfairness = _Tested(
        np.concatenate(values), np.concatenate(errors), demands["reduction"], max(small.min() - 1.0, 1.0)
    )
    return unfairness, _Tested(np.array([value]), np.array([error]), -demands["cost"], rows.n - 1.0)


def _concluded(
    splits: list[_Split], tolerance: float | None, demands: dict[str, float], n: int, metric: str, level: float,
    model: Model, library: str,
) -> Alternative:  # fmt: skip
    """Combine the splits."""
    p_value = min(1.0, 2.0 * float(np.median([one.p_value for one in splits])))
    tail = (1.0 - level) / 2.0
    reduction, accuracy = (
        Difference(*np.nan_to_num(np.median([getattr(one, name).limits(tail) for one in splits], axis=0)).tolist())
        for name in ("unfairness", "accuracy")
    )
    verdict = YES if p_value <= 1.0 - level else TOO_FEW
    if verdict != YES and (reduction.high < demands["reduction"] or accuracy.high < -demands["cost"]):
        verdict = NO_EVIDENCE
    table: dict[str, list[Any]] = {"tolerance": [np.nan if one.tolerance is None else one.tolerance for one in splits]}
    table |= {"reduction": [one.unfairness.limits(tail)[0] for one in splits]}
    table |= {"accuracy": [one.accuracy.limits(tail)[0] for one in splits]}
    table |= {"p_value": [one.p_value for one in splits]}
    found = Alternative(
        verdict=verdict, p_value=p_value, reduction=reduction, accuracy=accuracy, tolerance=tolerance, demands=demands,
        _by_split=table, n=n, n_splits=len(splits), metric=metric, confidence_level=level, sentence="", model=model,
        _library=library,
    )  # fmt: skip
    return replace(found, sentence=_sentence(found))


def _sentence(found: Alternative) -> str:
    """The answer in words."""
    asked = (
        f"a linear model whose unfairness in {found.metric} is lower by more than {found.demands['reduction']:g} and "
        f"whose accuracy is lower by less than {found.demands['cost']:g}"
    )
    level = f"{100.0 * found.confidence_level:.6g} %"
    reduction, accuracy = found.reduction, found.accuracy
    if found.verdict == YES:
        words = (
            f"Yes, there is {asked}: with {level} confidence its unfairness is lower by at least {reduction.low:.3f} "
            f"(estimate {reduction.estimate:.3f}), and its accuracy changes by at least {accuracy.low:.3f} (estimate "
            f"{accuracy.estimate:.3f})"
        )
    elif found.verdict == NO_EVIDENCE:
        words = (
            f"There is no evidence of {asked}: the models that were tried reduce the unfairness by "
            f"{reduction.estimate:.3f} (at most {reduction.high:.3f}) and change the accuracy by "
            f"{accuracy.estimate:.3f} (at most {accuracy.high:.3f})"
        )
    else:
        words = (
            f"These {found.n:,} rows are too few to say whether there is {asked}: the models that were tried reduce "
            f"the unfairness by {reduction.estimate:.3f} ({reduction.low:.3f} to {reduction.high:.3f}) and change the "
            f"accuracy by {accuracy.estimate:.3f} ({accuracy.low:.3f} to {accuracy.high:.3f})"
        )
    kind = name_of(found.tolerance)
    return f"{words}; p = {found.p_value:.2g}, over {found.n_splits} splits; {kind}."
