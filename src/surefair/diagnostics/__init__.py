"""What a fit or an interval warns of, each a class of its own that can be filtered by name, and how it is found.

The functions take numbers and return what there is to warn of, most often nothing; the estimator gathers and issues it.

>>> import warnings
>>> warnings.filterwarnings("ignore", category=TooFewReplicates)
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtri, ndtr

from surefair.rows.arrays import FloatArray

IntArray = NDArray[np.int64]

BIAS = 0.5  # of a standard deviation: 95 % intervals that are off by as much cover 92 %
UNSTABLE = 3.0  # times the standard deviation that theory gives
OFF_CENTRE = 1.0, 5.0  # standard deviations between the fit and the mean of its replicates
CLEAR = 3.0  # standard errors at which a constraint clearly holds, or clearly does not
SMALL_GROUP = 30  # rows
SMALL_SIDE = 3  # rows on a side of a rate
NEAR = 30  # kinds of evaluation rows that replicates disagree about
DISTINCT = 5  # values of a gap
CERTAIN = 0.04  # mean of p(1 - p), relative to that of labels that nothing tells
CLUMPED = 0.8, 4.0  # share of the changes expected of independent rows, and standard deviations below them
DISAGREE = 1.5  # ratio of two standard deviations
MEMORY = 0.05  # of the rows, within which iterates must forget for random scaling; with 0.09, its 95 % are 91 %
CHANCE = 0.05  # how often groups that are alike may pass for different
SELDOM = 0.001  # how often a standard deviation of replicates may be off by chance


class Diagnostic(UserWarning):
    """What a fit or an interval warns of.

    Attributes
    ----------
    assumes : str
        What an interval rests on, and this says it does not have; empty where it is not about intervals.
    """

    assumes = ""


class TooFewReplicates(Diagnostic):
    """Fewer replicates than a quantile of the interval's level needs: use ``method="cheap"``, or more replicates."""

    assumes = "There are replicates enough for the level of confidence."


class StartNotForgotten(Diagnostic):
    """The average still leans towards where training began: train on more rows, or with ``step_size="auto"``."""

    assumes = "Training has forgotten where it began."


class StepTooSmall(Diagnostic):
    """The steps add up to too little to reach the optimum: use ``step_size="auto"``, or a larger eta0."""

    assumes = "Steps are large enough to reach the optimum."


class StepTooLarge(Diagnostic, RuntimeWarning):
    """The fit or its replicates diverge or jump about: use ``step_size="auto"``, or a smaller eta0."""

    assumes = "Steps are small enough for training to settle."


class StepBias(Diagnostic):
    """Steps leave a coefficient off by its standard deviation or more; only mirrored intervals make up for it."""

    assumes = "Steps leave no coefficient off by as much as its uncertainty."


class DegenerateReplicates(Diagnostic):
    """Replicates are alike, so that their spread says nothing: free the fit, or measure on more rows."""

    assumes = "Replicates differ from each other."


class BoundaryConstraint(Diagnostic):
    """The optimum touches a constraint that hardly holds it back: its law is not normal. Change the tolerance."""

    assumes = "The constraint clearly holds the model back, or clearly does not."


class SmallConstraintSet(Diagnostic):
    """The constraint set has few rows of a group: the constraint is met there by chance. Pass a larger one."""

    assumes = "The constraint set has enough rows of every group."


class LateGroup(Diagnostic):
    """A group is not in the constraint set: it is measured, but not constrained. Fit afresh with more rows in it."""

    assumes = "Every group is in the constraint set."


class SmallEvaluationSet(Diagnostic):
    """The evaluation rows hold few of a group, or of a decision in it: limits are exact, and wide. Pass more rows."""

    assumes = "The evaluation rows hold enough of every group and decision."


class SeparableData(Diagnostic):
    """The labels can be told (almost) without error: coefficients grow for ever. Raise ``alpha``."""

    assumes = "The labels cannot be told without error."


class FewRowsNearBoundary(Diagnostic):
    """Replicates disagree about hardly any kind of evaluation row, so that the gap moves in jumps."""

    assumes = "Enough kinds of evaluation rows lie near the decision boundary."


class TimeDependence(Diagnostic):
    """Labels or groups come in clumps, or the fit drifts along the stream: shuffle the rows."""

    assumes = "Rows come in no order that matters."


class DependentRows(Diagnostic):
    """Several rows belong together, of one person perhaps: intervals are too narrow. Keep one of each."""

    assumes = "Rows are independent of each other."


class ChanceConstraint(Diagnostic):
    """The constraint set does not show that groups differ: what is held back is chance, and costs accuracy."""

    assumes = "Groups differ in ways that are more than chance."


class CovarianceDisagreement(Diagnostic):
    """Replicates and theory give different standard deviations: train on more rows."""

    assumes = "Replicates spread as theory says."


class PathTooShort(Diagnostic):
    """Random scaling is too narrow as yet: train on more rows, or use another method."""


class LocalOptima(Diagnostic):
    """A penalised problem has several local optima."""


class StoppedEarly(Diagnostic):
    """The solver ran out of steps before it reached an optimum."""


def assumptions() -> list[type[Diagnostic]]:
    """Each kind of warning that is about something intervals rest on."""
    return [kind for kind in Diagnostic.__subclasses__() if kind.assumes]


def told(message: Warning | str) -> str:
    """Write what was warned of with its name."""
    return f"{type(message).__name__}: {message}"


def issue(found: Iterable[Diagnostic], stacklevel: int) -> tuple[str, ...]:
    """Warn of everything found; return it as text."""
    found = list(found)
    for one in found:
        warnings.warn(one, stacklevel=stacklevel + 1)
    return tuple(map(told, found))


# -- Training ---------------------------------------------------------------------------------------------------------


def left_of_start(curvature: FloatArray, rows: FloatArray, steps: FloatArray) -> FloatArray:
    """Share of the start that the average of the iterates still has, in directions of given curvature λ.

    The mean of exp(-λ(η_1 + … + η_k)) over the rows k.

    Parameters
    ----------
    curvature : ndarray of shape (D,)
    rows : ndarray of shape (K,)
        Some numbers k of rows, the last one all of them.
    steps : ndarray of shape (K,)
        Sums of the first k steps.

    Examples
    --------
    >>> rows = np.arange(0.0, 10_001.0)
    >>> left_of_start(np.array([0.0, 1.0]), rows, 0.01 * rows).round(4)
    array([1.  , 0.01])
    """
    left = np.exp(-np.outer(curvature, steps))
    return np.asarray(np.trapezoid(left, rows, axis=1) / rows[-1])


def limit(sd: FloatArray, n_replicates: int, probability: float = 0.95) -> FloatArray:
    """Limit that a standard deviation stays below, with this probability, given its estimate from so many replicates.

    Examples
    --------
    >>> [round(float(limit(np.array(1.0), n)), 2) for n in (2, 20, 200)]
    [15.95, 1.37, 1.09]
    """
    return np.asarray(sd * np.sqrt((n_replicates - 1.0) / chdtri(n_replicates - 1.0, probability)))


def check_start(bias: FloatArray, sd: FloatArray, reach: float) -> list[Diagnostic]:
    """Warn of a bias that the start leaves, coefficient by coefficient.

    The ``reach`` is the sum of the steps times the smallest curvature: below 1, iterates are hardly halfway.
    """
    worst = float(_ratio(np.abs(bias), sd).max(initial=0.0))
    if not worst > BIAS:
        return []
    found: list[Diagnostic] = []
    if reach < 1.0:
        found.append(
            StepTooSmall(
                f"The steps add up to {reach:.2g} of what it takes to come near the optimum in the flattest direction: "
                "the fit has not arrived. Train on more rows, or, with a schedule of your own, take a larger eta0."
            )
        )
    words = (
        f"The start is not forgotten: by linear dynamics it still moves a coefficient by {worst:.2g} of its standard "
        "deviations, and its interval does not show that. Train on more rows (merged fits: on more in each), pass a "
        "larger constraint_set, which step_size='auto' starts from, or, with a schedule of your own, take larger steps."
    )
    return [*found, StartNotForgotten(words)]


def check_steps(off: FloatArray, sd: FloatArray, plug_in: FloatArray, n_replicates: int) -> list[Diagnostic]:
    """Warn of replicates that jump about, or that lie far off the fit: of their mean less the fit, and their spread."""
    wide = float(_ratio(limit(sd, n_replicates, SELDOM), plug_in).max(initial=0.0))
    far = float(_ratio(np.abs(off), limit(sd, n_replicates, 1.0 - SELDOM)).max(initial=0.0))
    if wide <= UNSTABLE and far <= OFF_CENTRE[1]:
        return []
    what = f"spread {wide:.2g} times as far as theory says" if wide > UNSTABLE else f"lie {far:.2g} deviations off"
    return [
        StepTooLarge(
            f"Replicates {what}: the step is too large for this problem, or rows are too few. Use step_size='auto', a "
            "smaller eta0, or more rows."
        )
    ]


def check_bias(off: FloatArray, sd: FloatArray, n_replicates: int) -> list[Diagnostic]:
    """Warn of a bias that steps leave: replicates have it twice, and lie beside the fit by as much as it has."""
    clear = np.maximum(np.abs(off) - 2.0 * sd / np.sqrt(n_replicates), 0.0)
    if not _ratio(clear, limit(sd, n_replicates, 1.0 - SELDOM)).max(initial=0.0) > OFF_CENTRE[0]:
        return []
    worst = float(_ratio(np.abs(off), sd).max())
    return [
        StepBias(
            f"The steps leave a coefficient off by {worst:.2g} of its standard deviations, as rows of far-out features "
            "do. Methods 'basic' of coef_interval and 'percentile' of fairness_interval make up for it, and are then "
            "rather wide; others do not. Train on more rows, or bring in those features (by their logarithm, say)."
        )
    ]


def check_replicates(replicates: FloatArray) -> list[Diagnostic]:
    """Warn of replicates, (D, B), that are alike."""
    B = replicates.shape[1]
    distinct = len(np.unique(replicates, axis=1).T)
    if distinct > B / 2:
        return []
    return [
        DegenerateReplicates(
            f"Only {distinct} of {B} replicates are distinct: their spread says nothing. The constraint, or weights of "
            "0, leave nothing to learn: raise tolerance, add features, or train on more rows."
        )
    ]


def check_boundary(
    room: FloatArray, sd: FloatArray, push: FloatArray, error: FloatArray, tolerance: float
) -> list[Diagnostic]:
    """Warn of constraints that neither clearly hold the optimum back nor clearly leave it alone.

    Parameters
    ----------
    room, sd : ndarray of shape (S,)
        How far the fit is from each face, and the spread of its replicates across it.
    push, error : ndarray of shape (S,)
        Multiplier of each face, and its standard error.
    tolerance : float
    """
    touching = int(np.count_nonzero((room <= CLEAR * sd) & ~(push > CLEAR * error)))
    if not touching:
        return []
    return [
        BoundaryConstraint(
            f"{touching} constraint(s) of tolerance {tolerance:g} may or may not hold the optimum back: near such a "
            "boundary the law of the coefficients is not normal. Choose a smaller or larger tolerance, or train on "
            "more rows."
        )
    ]


def check_covariance(sd: FloatArray, plug_in: FloatArray, n_replicates: int) -> list[Diagnostic]:
    """Warn of standard deviations of the replicates that are not those of the plug-in sandwich."""
    some = (sd > 0.0) & (plug_in > 0.0)
    sd, plug_in = sd[some], plug_in[some]
    above, below = limit(sd, n_replicates, SELDOM) / plug_in, plug_in / limit(sd, n_replicates, 1.0 - SELDOM)
    if not max(above.max(initial=0.0), below.max(initial=0.0)) > DISAGREE:
        return []
    worst = float((sd / plug_in)[np.argmax(np.maximum(above, below))])
    return [
        CovarianceDisagreement(
            f"The standard deviation of a coefficient is, by its replicates, {worst:.2g} times what the plug-in "
            "sandwich says: at least one of the two is not yet near its limit. Train on more rows, and take the wider."
        )
    ]


def check_path(scaling: FloatArray, sd: FloatArray, n_replicates: int) -> list[Diagnostic]:
    """Warn of an average that wandered farther than its replicates say, by random scaling: of a stream that drifts.

    Over independent rows of one law, V̂ / n over the variance of a coefficient has the law of ∫ b(t)² dt, b a Brownian
    bridge. Its mean is 1/6, and its tail, to a few percent, P(> x) = 2√2 Φ(-π√x): only a large difference is beyond
    chance.

    Parameters
    ----------
    scaling : ndarray of shape (D,)
        √(V̂ / n), see ``covariances.random_scaling``.
    sd : ndarray of shape (D,)
        Standard deviations of the replicates.
    n_replicates : int
    """
    root = float(_ratio(scaling, limit(sd, n_replicates, 1.0 - SELDOM)).max(initial=0.0))
    if not 2.0 * 2.0**0.5 * ndtr(-np.pi * root) * len(sd) < SELDOM:
        return []
    times = float(_ratio(scaling, sd).max()) * 6.0**0.5
    return [
        TimeDependence(
            f"The standard deviation of a coefficient is, by the path of the average (random scaling), {times:.2g} "
            "times what its replicates say, which chance does not explain: the stream drifts, or its rows depend on "
            "each other, and replicates cannot know. Shuffle the rows, or train on rows of one time."
        )
    ]


def check_memory(memory: FloatArray, rows: FloatArray, n_rows: int) -> list[Diagnostic]:
    """Warn of random scaling where iterates need too many of the rows to forget: it is then too narrow.

    ``memory`` says how many rows it takes to forget after each number of ``rows``, the first of them ``n_rows``.
    """
    enough = memory <= MEMORY * rows
    if enough[0]:
        return []
    wanted = f"about {rows[enough.argmax()]:,.0f} rows are" if enough.any() else "far more rows are"
    return [
        PathTooShort(
            f"Random scaling is too narrow as yet: after {n_rows:,} rows, iterates need {memory[0]:,.0f} rows to "
            f"forget, and a twentieth of all is wanted. With these steps {wanted} needed: train on more, or use "
            "another method."
        )
    ]


def _ratio(a: FloatArray, b: FloatArray) -> FloatArray:
    """Ratios, 0 where there is nothing to compare with."""
    return np.divide(a, b, out=np.zeros_like(a), where=b > 0.0)


# -- Data -------------------------------------------------------------------------------------------------------------


def check_constraint_set(rows: Sequence[int], names: Sequence[str]) -> list[Diagnostic]:
    """Warn of groups with few rows in the part of the constraint set that the criterion looks at."""
    small = [f"{name} has {n}" for n, name in zip(rows, names, strict=True) if n < SMALL_GROUP]
    if not small:
        return []
    return [
        SmallConstraintSet(
            f"Of the rows of the constraint set that the criterion looks at, {_listed(small)}; {SMALL_GROUP} or more "
            "are wanted, or the constraint is one of chance. Pass a larger constraint_set, raise n_constraint (fit "
            "takes a fifth of the rows at most), or merge small groups."
        )
    ]


def check_evaluation_set(sides: FloatArray, names: Sequence[str]) -> list[Diagnostic]:
    """Warn of groups with few evaluation rows.

    Parameters
    ----------
    sides : ndarray of shape (2, rates, groups)
        Rows counted towards each rate, and the others that enter it, as many as their weights are worth.
    names : sequence of str
        Of the groups.
    """
    rows, least = np.rint(sides.sum(axis=0)), np.rint(sides.min(axis=0))
    found = [
        f"{names[g]} has {rows[j, g]:.0f}, {least[j, g]:.0f} of them on the rarer side of the rate"
        for j, g in np.argwhere((rows < SMALL_GROUP) | (least < SMALL_SIDE))
    ]
    if not found:
        return []
    return [
        SmallEvaluationSet(
            f"Of the evaluation rows that a rate looks at, {_listed(found)}: limits are made exact, which keeps their "
            f"level but makes them wide. Pass more evaluation rows ({SMALL_GROUP} of a group, and {SMALL_SIDE} on "
            "either side of its rate, are wanted), or merge small groups."
        )
    ]


def check_alike(p_values: Sequence[float], names: Sequence[str | None]) -> list[Diagnostic]:
    """Warn of sensitive columns whose groups do not differ by more than chance, by the p-value of each."""
    alike = [
        f"groups{'' if name is None else f' of {name!r}'} (p = {p:.2g})"
        for p, name in zip(p_values, names, strict=True)
        if p > CHANCE
    ]
    if not alike:
        return []
    return [
        ChanceConstraint(
            f"On the constraint set, the features of {_listed(alike)} do not differ by more than chance: what the "
            "constraint holds back is chance, which costs accuracy and makes no decisions alike. Raise tolerance, pass "
            "a larger constraint_set, or use criterion=None."
        )
    ]


def check_separable(
    margins: FloatArray, y: FloatArray, weight: FloatArray, variance: FloatArray, separable: bool
) -> list[Diagnostic]:
    """Warn of labels ±1 that can be told without error, or almost: by the variances p(1 - p) left at the optimum."""
    share, wrong = weight / weight.sum(), (y * margins <= 0.0) & (weight > 0.0)
    positive = float(share @ (y > 0.0))
    left = float(share @ variance) / max(positive * (1.0 - positive), 1e-12)
    almost = margins.any() and (left < CERTAIN or not wrong.any())
    if not (almost or separable):
        return []
    how = "a hyperplane tells all of them" if separable else f"{left:.2g} of their variance is left"
    return [
        SeparableData(
            f"On the constraint set, labels can be told (almost) without error: {how}. The coefficients are then ruled "
            "by the ridge and by very few rows. Raise alpha, use loss='squared_error', or drop the feature that gives "
            "the label away."
        )
    ]


def check_near(kinds: int) -> list[Diagnostic]:
    """Warn where models disagree about hardly any kind of row."""
    if kinds >= NEAR:
        return []
    return [
        FewRowsNearBoundary(
            f"Replicates disagree about only {kinds} kinds of evaluation rows near the decision boundary: the gap "
            "moves in jumps, of a few rows or of many alike, and intervals may cover more or less than their level. "
            "Pass more evaluation rows, or features with more values "
            f"({NEAR} kinds are wanted), or ask for source='total'."
        )
    ]


def check_distinct(gaps: FloatArray) -> list[Diagnostic]:
    """Warn of a gap that takes very few values over its replicates."""
    distinct = len(np.unique(gaps))
    if distinct >= max(2, min(DISTINCT, len(gaps) // 4)):
        return []
    return [
        DegenerateReplicates(
            f"The gap takes only {distinct} different value(s) over {len(gaps)} replicates: its quantiles say nothing. "
            "Pass more evaluation rows, or ask for source='total'."
        )
    ]


class Runs(NamedTuple):
    """How often neighbours in a stream differ: in their label, and in each sensitive column."""

    last: IntArray  # (1 + columns,), codes of the last row; -1 where none is known
    pairs: IntArray  # (1 + columns,), neighbours that are both known
    changes: IntArray  # (1 + columns,), of them, those that differ
    labels: IntArray  # (2,), rows of each label

    @classmethod
    def of(cls, columns: int) -> Runs:
        """Before the first row."""
        zeros = np.zeros(1 + columns, dtype=np.int64)
        return cls(zeros - 1, zeros, zeros, np.zeros(2, dtype=np.int64))

    def after(self, label: NDArray[Any], group: IntArray) -> Runs:
        """And more rows: their labels 0 or 1, and their groups (n, columns).

        Examples
        --------
        >>> runs = Runs.of(1).after(np.array([0, 1]), np.array([[0], [0]]))
        >>> runs.after(np.array([0, 0]), np.array([[0], [1]])).changes
        array([2, 1])
        """
        if len(label) == 0:
            return self
        codes = np.vstack([self.last, np.column_stack([label.astype(np.int64), group])])
        known = (codes[1:] >= 0) & (codes[:-1] >= 0)
        changes = ((codes[1:] != codes[:-1]) & known).sum(axis=0)
        labels = self.labels + np.bincount(codes[1:, 0], minlength=2)
        return Runs(codes[-1], self.pairs + known.sum(axis=0), self.changes + changes, labels)

    def recoded(self, codes: Sequence[NDArray[Any]]) -> Runs:
        """The same where the groups of each column have new codes."""
        last = [code[old] if old >= 0 else -1 for code, old in zip(codes, self.last[1:], strict=True)]
        return self._replace(last=np.array([self.last[0], *last], dtype=np.int64))

    def merged(self, other: Runs) -> Runs:
        """Runs of two streams, neither of which follows the other."""
        mine, theirs = self[1:], other[1:]
        return Runs(np.full_like(self.last, -1), *(a + b for a, b in zip(mine, theirs, strict=True)))


def check_order(runs: Runs, groups: Sequence[IntArray], names: Sequence[str | None]) -> list[Diagnostic]:
    """Warn of labels or groups that come in clumps.

    Parameters
    ----------
    runs : Runs
    groups : sequence of ndarray
        For each sensitive column, the rows of each group.
    names : sequence of str or None
        Of the sensitive columns.
    """
    clumped = []
    whats = ["labels", *("groups" if name is None else f"groups of {name!r}" for name in names)]
    for what, counts, pairs, changes in zip(whats, (runs.labels, *groups), runs.pairs, runs.changes, strict=True):
        mean, sd = _changes(counts.astype(np.float64), int(pairs))
        if changes < CLUMPED[0] * mean and changes < mean - CLUMPED[1] * sd:
            clumped.append(f"{what} change {int(changes)} times where independent rows would {mean:.0f} times")
    if not clumped:
        return []
    return [
        TimeDependence(
            f"Rows seem to be sorted, or to come in clumps: {_listed(clumped)}. Intervals are for independent rows: "
            "shuffle the rows before training."
        )
    ]


def _changes(counts: FloatArray, pairs: int) -> tuple[float, float]:
    """Mean and standard deviation of changes among so many neighbours, rows being in random order.

    Examples
    --------
    >>> mean, sd = _changes(np.array([50.0, 50.0]), 99)
    >>> round(mean, 2), round(sd, 2)
    (50.0, 4.97)
    """
    n, two, three = (float(np.sum(counts**power)) for power in (1, 2, 3))
    if n < 2.0:
        return 0.0, 0.0
    mean = (n**2 - two) / (n * (n - 1.0))
    variance = (two * (two + n * (n + 1.0)) - 2.0 * n * three - n**3) / (n**2 * (n - 1.0))
    return pairs * mean, float(np.sqrt(max(variance, 0.0) * pairs / (n - 1.0)))


def _listed(found: list[str], most: int = 3) -> str:
    """The first few, in words."""
    more = f" (and {len(found) - most} more)" if len(found) > most else ""
    return ", ".join(found[:most]) + more
