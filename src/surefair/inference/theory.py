"""What the learners converge to, and how far from it they stop: the optimum θ* and the limit law of θ̄.

minimise  mean ℓ(θᵀx, y) + κ‖θ‖²/2   subject to |x̃_sᵀθ| ≤ ε for all s,   or with R₂ Σⱼ gⱼ(θ)² added.

With H the Hessian of what is minimised and Σ the covariance of the loss's gradients over the rows, both at θ*,
√n(θ̄ - θ*) is in the limit normal with covariance (PHP)† PΣP (PHP)†. P projects onto the directions along all faces
that hold θ*; without any it is the identity, and this is the ordinary H⁻¹ΣH⁻¹. A penalty is not random: it is part of H
and not of Σ. Steps that are damped, whitened or implicit have the same limit.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize, nnls
from scipy.special import ndtr

from surefair.criteria import Criterion, Form, Penalty, Rate, Slabs, kinked
from surefair.diagnostics import BoundaryConstraint, LocalOptima, StoppedEarly
from surefair.inference.counts import count
from surefair.inference.interval import compared_rates, get_metric, rates_of
from surefair.learners import Settings
from surefair.names import one_of
from surefair.rows.arrays import FloatArray, is_sparse

if TYPE_CHECKING:
    from surefair.classifier import FairClassifier
    from surefair.training.model import Fit, Rows

MAX_ITERATIONS = 200
MAX_NEWTON = 50
SHARES = 0.5 ** np.arange(10)  # of a Newton step
GRADIENT = 1e-10  # length of a gradient that counts as 0
LEFT = 1e-7  # decrease still ahead, relative to 1 + |value|, at which an optimum counts as reached
APART = 1e-3  # distance of two optima, relative to the larger, at which they count as two
ON_FACE = 1e-6  # distance from a face, relative to ε, at which θ counts as on it
NO_PUSH = 1e-6  # multiplier of a face, relative to the spread of the gradients across it, that counts as 0
RANDOM_STARTS = 3
SIDES = 100  # directions to look in from an optimum
DRAWS = 2000  # coefficients drawn from the limit law
METHODS = ("delta", "sample")


class Optimum(NamedTuple):
    """A local optimum: where, and the objective there (mean loss, ridge and penalty)."""

    theta: FloatArray  # (D,), features, then the intercept
    value: float
    reached: bool  # false where the solver stopped early


def optimum(clf: FairClassifier, X: Any, y: Any, *, sample_weight: Any = None) -> FloatArray:
    """θ* of a classifier's own problem when (X, y) is the whole population.

    A penalty may have several local optima. The best one found from several starts is returned, with a warning,
    ``LocalOptima``, where there are others; ``optima`` returns them all.

    Parameters
    ----------
    clf : FairClassifier
        Fitted; it supplies loss, ridge, coordinates and the constraint set D'.
    X : array-like of shape (n_rows, n_features), data frame or sparse matrix
    y : array-like of shape (n_rows,)
    sample_weight : array-like of shape (n_rows,), optional

    Returns
    -------
    ndarray of shape (n_features + 1,)
        Coefficients, then the intercept (if the classifier fits one).

    Examples
    --------
    >>> import surefair as sf
    >>> data = sf.datasets.SyntheticDI(seed=1).sample(20_000)
    >>> clf = sf.FairClassifier(n_replicates=0, random_state=0).fit(data.X, data.y, sensitive_features=data.sensitive)
    >>> theta = sf.theory.optimum(clf, data.X, data.y)
    >>> bool(np.abs(theta - np.append(clf.coef_, clf.intercept_)).max() < 0.1)
    True
    """
    fit, rows = clf._population(X, y, sample_weight)
    return fit.back(_best(fit, _objective(fit, rows)).theta)


def optima(clf: FairClassifier, X: Any, y: Any, *, sample_weight: Any = None) -> list[Optimum]:
    """All local optima found of a classifier's own problem when (X, y) is the whole population, best first.

    Without a penalty the problem is convex, and there is one optimum. With a penalty, the solver starts from the
    optimum of the loss alone, from 0, from where the learner itself started (the optimum on D', or 0), and from random
    points of the size of the first.

    Parameters
    ----------
    clf, X, y, sample_weight
        As in ``optimum``.

    Returns
    -------
    list of Optimum
        Named tuples (theta, value, reached).

    Examples
    --------
    >>> import surefair as sf
    >>> data = sf.datasets.SyntheticDM(seed=1).sample(5_000)
    >>> clf = sf.FairClassifier("false_positive_rate", penalty=20.0, n_replicates=0, random_state=0)
    >>> found = sf.theory.optima(clf.fit(data.X, data.y, sensitive_features=data.sensitive), data.X, data.y)
    >>> len(found), found[0].reached
    (1, True)
    """
    fit, rows = clf._population(X, y, sample_weight)
    found = _optima(_objective(fit, rows), fit.learner.form)
    return [one._replace(theta=fit.back(one.theta)) for one in found]


def asymptotic_covariance(clf: FairClassifier, X: Any, y: Any, *, sample_weight: Any = None) -> FloatArray:
    """Covariance of √n(θ̄ - θ*) in the limit of many rows n, when (X, y) is the population that they are drawn from.

    Given the constraint set, as everything here. Which faces hold θ* is seen from θ* itself. Where a face only touches
    it, with multiplier 0, the limit law is not normal: a warning, ``BoundaryConstraint``, says so, and the law returned
    is that without the face. Of several local optima (a warning, ``LocalOptima``), θ* is here the one nearest to the
    fit: that is where the learner goes.

    A penalty has kinks, where margins on D' are 0, and a stiff one has its optimum on some. To the letter they would be
    all or nothing: ignored where θ* is beside them, and faces that hold it for good where it is on them. The path of a
    learner crosses many of them, and sees the density of D' around the decision boundary instead. So that density is
    estimated, with a kernel of half the width of Silverman's rule. Against simulated fits that is much nearer than to
    leave kinks out, but no more than an approximation: see the docs, "Two covariances", where standard deviations come
    out up to 30 % too small for a penalty of 500.

    Parameters
    ----------
    clf : FairClassifier
        Fitted; it supplies loss, ridge, coordinates and the constraint set D'.
    X : array-like of shape (n_rows, n_features), data frame or sparse matrix
    y : array-like of shape (n_rows,)
    sample_weight : array-like of shape (n_rows,), optional
        Shares of the population: a row of weight 2 stands for two.

    Returns
    -------
    ndarray of shape (n_features + 1, n_features + 1)
        Features, then the intercept (if the classifier fits one).

    Examples
    --------
    >>> import surefair as sf
    >>> data = sf.datasets.SyntheticDI(seed=1).sample(20_000)
    >>> clf = sf.FairClassifier(random_state=0).fit(data.X, data.y, sensitive_features=data.sensitive)
    >>> covariance = sf.theory.asymptotic_covariance(clf, data.X, data.y)
    >>> spread = np.sqrt(np.diag(covariance) / 19_000)
    >>> bool(np.allclose(clf.coef_replicates_.std(axis=0), spread[:2], rtol=0.25))
    True
    """
    fit, rows = clf._population(X, y, sample_weight)
    objective = _objective(fit, rows)
    return _in_features(fit, _covariance(objective, fit.learner.form, _best(fit, objective, beside_fit=True).theta))


def paper_covariance(clf: FairClassifier, X: Any, y: Any, *, sample_weight: Any = None) -> FloatArray:
    """Covariance of √n(θ̄ - θ*) as the paper prints it: for reproduction only.

    Under slabs P H† P Σ P H† P; with a penalty H⁻¹(Σ + R₂²∇γ∇γᵀ)H⁻¹, where γ = Σⱼ gⱼ² and H is the Hessian of loss and
    ridge alone; in the features' own coordinates. With correlated features it is off by an order of magnitude (see the
    docs, "Two covariances"). Use ``asymptotic_covariance``.

    Parameters
    ----------
    clf, X, y, sample_weight
        As in ``asymptotic_covariance``.

    Returns
    -------
    ndarray of shape (n_features + 1, n_features + 1)
    """
    fit, rows = clf._population(X, y, sample_weight)
    objective, form = _objective(fit, rows), fit.learner.form
    s, theta = objective.settings, _best(fit, objective, beside_fit=True).theta
    W = np.diag(fit.W) if fit.W.ndim == 1 else fit.W
    V = np.linalg.inv(W)  # from coefficients of the features to the learner's
    hessian, scores = V.T @ objective.hessian(theta) @ V, V.T @ objective.scores(theta) @ V
    if isinstance(form, Slabs):
        basis = _along(form.vectors[_active(s, form, theta)] @ V)
        P = basis @ basis.T
        inverse = P @ np.linalg.pinv(hessian, rcond=1e-10, hermitian=True) @ P
    else:
        g, G, _ = _penalty(form, theta, s.sharpness)
        pull = V.T @ (2.0 * s.effective_penalty * (g @ G))
        inverse, scores = np.linalg.pinv(hessian, rcond=1e-10, hermitian=True), scores + np.outer(pull, pull)
    return np.asarray(inverse @ scores @ inverse)


def sandwich(
    settings: Settings,
    form: Form,
    theta: FloatArray,
    hessian: FloatArray,
    scores: FloatArray,
    *,
    active: NDArray[np.bool_] | None = None,
) -> FloatArray:
    """Limit covariance (PHP)† PΣP (PHP)† of √n(θ̄ - θ*) in the learner's coordinates, from moments at θ.

    Parameters
    ----------
    settings : Settings
    form : Form
        Slabs or penalty, on D'.
    theta : ndarray of shape (D,)
        θ*, or an estimate.
    hessian : ndarray of shape (D, D)
        Hessian of mean loss and ridge; the penalty's is added here.
    scores : ndarray of shape (D, D)
        Covariance over the rows of the loss's gradients.
    active : ndarray of shape (S,), optional
        Slabs that hold θ; by default those on whose faces it lies.

    Returns
    -------
    ndarray of shape (D, D)
    """
    basis, reduced = free_curvature(settings, form, theta, hessian, active=active)
    inverse = basis @ np.linalg.pinv(reduced, rcond=1e-10, hermitian=True) @ basis.T
    return np.asarray(inverse @ scores @ inverse)


def free_curvature(
    settings: Settings,
    form: Form,
    theta: FloatArray,
    hessian: FloatArray,
    *,
    active: NDArray[np.bool_] | None = None,
) -> tuple[FloatArray, FloatArray]:
    """Directions along all faces that hold θ, orthonormal columns (D, F), and the Hessian in them, (F, F).

    The parameters are those of ``sandwich``.
    """
    basis = np.eye(len(theta))
    if isinstance(form, Slabs):
        basis = _along(form.vectors[_active(settings, form, theta) if active is None else active])
    elif form.rows.shape[0] > 0:
        hessian = hessian + _penalty_hessian(settings, form, theta)
    return basis, np.asarray(basis.T @ hessian @ basis)


# -- The gap ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class GapLaw:
    """How the gap of θ̄ on a fixed population varies from one training to another.

    Attributes
    ----------
    mean : float
        The gap of θ*: rate of the first group minus rate of the second.
    sd : float
        Standard deviation of the gap of θ̄ after n rows.
    gaps : ndarray
        Gaps of coefficients drawn from the limit law, with method "sample"; otherwise empty.
    n : int
        Rows trained on.
    metric : str
    method : str
    """

    mean: float
    sd: float
    gaps: FloatArray
    n: int
    metric: str
    method: str


def gap_law(
    clf: FairClassifier,
    X: Any,
    y: Any,
    *,
    sensitive_features: Any,
    n: int,
    metric: str | Criterion | None = None,
    method: str = "delta",
    random_state: int = 0,
    sample_weight: Any = None,
) -> GapLaw:
    """Limit law of the gap between two groups, on the population (X, y), of a model trained on n rows drawn from it.

    The gap is a step function of θ: on a finite population it has no derivative. What stands for it in the delta method
    is the mean derivative under the limit law N(θ*, Σ/n) itself: a decision whose margin has mean m and standard
    deviation s under that law is positive with probability Φ(m/s), and this has one. The same as a density at the
    decision boundary, estimated with a kernel as wide as θ̄ will make the margins vary. Where that derivative vanishes,
    because the groups are alike at the boundary, the gap moves only by what is left out; draws see it.

    Parameters
    ----------
    clf : FairClassifier
        Fitted; it supplies loss, ridge, coordinates and the constraint set D'.
    X, y, sensitive_features
        The population; two groups.
    n : int
        Rows to be trained on.
    metric : str, Criterion or None
        What is compared, one rate by its difference; by default the criterion of the fit.
    method : {"delta", "sample"}
        A standard deviation from the derivative of the gap, or gaps of draws from N(θ*, Σ/n).
    random_state : int
        Seed of the draws.
    sample_weight : array-like of shape (n_rows,), optional
        Shares of the population.

    Returns
    -------
    GapLaw

    Examples
    --------
    >>> import surefair as sf
    >>> data = sf.datasets.SyntheticDI(seed=1).sample(20_000)
    >>> clf = sf.FairClassifier(n_replicates=0, random_state=0).fit(data.X, data.y, sensitive_features=data.sensitive)
    >>> law = sf.theory.gap_law(clf, data.X, data.y, sensitive_features=data.sensitive, n=4_000)
    >>> bool(abs(law.mean) < 0.05 and 0.01 < law.sd < 0.03)
    True
    """
    one_of(method, METHODS, "method")
    if not (isinstance(n, int | np.integer) and n >= 1):
        raise ValueError(f"n must be the number of rows trained on, 1 or larger; received {n!r}.")
    criterion, ratio = get_metric(metric or clf.criterion or "demographic_parity")
    rates = compared_rates(criterion, ratio)
    fit, _ = clf._population(X, y, sample_weight)
    rows, groups = clf._measured(X, y, sensitive_features, sample_weight)
    if ratio or len(rates) != 1 or groups.sizes != (2,):
        received = f"{'ratios' if ratio else 'differences'} of {len(rates)} rate(s) between groups {groups.sizes}"
        raise ValueError(
            f"A gap law is of the difference of one rate between two groups; received {received}. Take one of the "
            "metric's rates (false_positive_rate for equalized_odds, say), and two groups at a time."
        )
    objective = _objective(fit, rows)
    best = _best(fit, objective, beside_fit=True).theta
    theta, spread = fit.back(best), _in_features(fit, _covariance(objective, fit.learner.form, best)) / n
    features, truth = fit.features(rows.X), (rows.y > 0.0).astype(np.int64)

    def gaps_of(models: FloatArray) -> FloatArray:
        found = rates_of(rates, count(models, features, truth, rows.group, groups.sizes, rows.weight))[:, 0]
        return np.asarray(found[:, 0] - found[:, 1])

    gaps = np.zeros(0)
    if method == "sample":
        noise = np.random.default_rng(random_state).normal(size=(len(theta), DRAWS))
        gaps = gaps_of(theta[:, None] + root(spread) @ noise)
        sd = float(gaps.std(ddof=1))
    else:
        slope = _gap_slope(rates[0], theta, spread, features, truth, rows.group[:, 0], rows.weight)
        sd = float(np.sqrt(slope @ spread @ slope))
    return GapLaw(float(gaps_of(theta[:, None])[0]), sd, gaps, int(n), criterion.name, method)


def nearest(found: list[Optimum], theta: FloatArray) -> Optimum:
    """Of several optima the one nearest to coefficients; the best, which comes first, where these diverged."""
    return found[int(np.argmin([np.abs(one.theta - theta).max() for one in found]))]


def root(covariance: FloatArray) -> FloatArray:
    """Matrix R with R Rᵀ = covariance, which may be singular."""
    values, directions = np.linalg.eigh(covariance)
    return np.asarray(directions * np.sqrt(np.maximum(values, 0.0)))


def _gap_slope(
    rate: Rate,
    theta: FloatArray,
    spread: FloatArray,
    X: Any,
    truth: NDArray[np.int64],
    group: NDArray[np.int64],
    weight: FloatArray,
) -> FloatArray:
    """Derivative in θ of the gap, decisions being positive with the probability that N(θ, spread) gives them."""
    X = X.toarray() if is_sparse(X) else X
    margin, s = X @ theta, np.sqrt(np.maximum(np.sum((X @ spread) * X, axis=1), 0.0))
    some = s > 0.0  # the others are decided for certain
    z = np.divide(margin, s, out=np.where(margin > 0.0, np.inf, -np.inf), where=some)
    density = np.divide(np.exp(-(z**2) / 2.0) / np.sqrt(2.0 * np.pi), s, out=np.zeros(len(s)), where=some)
    positive, moved = weight * ndtr(z), (weight * density)[:, None] * X
    table, change = np.zeros((2, 2, 2)), np.zeros((len(theta), 2, 2, 2))  # (…, group, truth, decision)
    for g in (0, 1):
        for t in (0, 1):
            cell = (group == g) & (truth == t)
            table[g, t] = weight[cell].sum() - positive[cell].sum(), positive[cell].sum()
            change[:, g, t, 1] = moved[cell].sum(axis=0)
            change[:, g, t, 0] = -change[:, g, t, 1]
    (above, below), (more_above, more_below) = rate.tally(table), rate.tally(change)
    slope = (more_above - (above / below) * more_below) / below
    return np.asarray(slope[:, 0] - slope[:, 1])


# -- From a population to its moments ---------------------------------------------------------------------------------


def _objective(fit: Fit, rows: Rows) -> _Objective:
    """Mean loss and ridge of a fit's own problem over these rows, in the learner's coordinates."""
    return _Objective.on(fit.learner.settings, fit.moved(rows.X), rows.y, rows.weight)


def _in_features(fit: Fit, covariance: FloatArray) -> FloatArray:
    """W C Wᵀ: the covariance of coefficients of the features."""
    return fit.back(fit.back(covariance).T)


def _best(fit: Fit, objective: _Objective, beside_fit: bool = False) -> Optimum:
    """The best optimum, or the one beside the fit; a warning where there are others, or where it was not reached."""
    found = _optima(objective, fit.learner.form)
    chosen = found[0]
    if len(found) > 1:
        far = max(float(np.abs(fit.back(other.theta - found[0].theta)).max()) for other in found[1:])
        nearest = int(np.argmin([np.abs(fit.alone[:, 0] - fit.back(one.theta)).max() for one in found]))
        chosen = found[nearest] if beside_fit else found[0]
        warnings.warn(
            f"The penalty has {len(found)} local optima, with values from {found[0].value:.6g} to "
            f"{found[-1].value:.6g} and coefficients up to {far:.3g} apart. This fit is nearest to number "
            f"{1 + nearest}; {'that one' if beside_fit else 'the best'} is taken. Look at them all with theory.optima, "
            "or lower the penalty.",
            LocalOptima,
            stacklevel=3,
        )
    if not chosen.reached:
        warnings.warn(
            "The solver stopped before it reached the optimum, at the point returned. The data may be separable or "
            "features of very different size: raise alpha, or scale the features.",
            StoppedEarly,
            stacklevel=3,
        )
    return chosen


def _covariance(objective: _Objective, form: Form, theta: FloatArray) -> FloatArray:
    """Limit covariance in the learner's coordinates, from the moments of the population."""
    scores, active = objective.scores(theta), None
    if isinstance(form, Slabs):
        active, touched = _holding(objective, form, theta, scores)
        if touched:
            warnings.warn(
                f"The optimum touches {touched} slab(s) of tolerance {objective.settings.tolerance:g} that do not hold "
                "it back: in the limit it is on the face half of the time, and the law is not normal. Returned is the "
                "law without the face. Choose a smaller or larger tolerance to be clear of the boundary.",
                BoundaryConstraint,
                stacklevel=3,
            )
    return sandwich(objective.settings, form, theta, objective.hessian(theta), scores, active=active)


def _active(settings: Settings, form: Slabs, theta: FloatArray) -> NDArray[np.bool_]:
    """Slabs on whose face θ lies; with tolerance 0, all."""
    lengths = np.linalg.norm(form.vectors, axis=1)
    near = ON_FACE * settings.tolerance + 0.1 * ON_FACE * lengths * np.linalg.norm(theta)
    on = np.abs(form.vectors @ theta) >= settings.tolerance - near
    return np.asarray((lengths > 0.0) & (on | (settings.tolerance == 0.0)))


def _holding(
    objective: _Objective, form: Slabs, theta: FloatArray, scores: FloatArray
) -> tuple[NDArray[np.bool_], int]:
    """Slabs that hold θ, by their multipliers, and the number of further ones that only touch it.

    A slab without a multiplier of its own whose direction is held anyway, by others, does not count as touching.
    """
    active = _active(objective.settings, form, theta)
    if objective.settings.tolerance == 0.0 or not active.any():
        return active, 0
    units, push, _ = _pushes(objective, form, theta)
    strong = push > NO_PUSH * np.sqrt(np.maximum(np.sum(units @ scores * units, axis=1), 0.0))
    free = _along(units[strong])
    touching = ~strong & (np.linalg.norm(units @ free, axis=1) > 1e-7)
    active[np.flatnonzero(active)[~strong]] = False
    return active, int(touching.sum())


def _pushes(objective: _Objective, form: Slabs, theta: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Outward unit normals of the faces that θ lies on, their multipliers, and the slope that is left."""
    vectors, downhill = form.vectors[_active(objective.settings, form, theta)], -objective.gradient(theta)
    units = np.sign(vectors @ theta)[:, None] * vectors / np.linalg.norm(vectors, axis=1)[:, None]
    if objective.settings.tolerance == 0.0:
        free = _along(vectors)
        return units, np.zeros(len(units)), free @ (free.T @ downhill)
    push = nnls(units.T, downhill)[0] if len(units) else np.zeros(0)
    return units, push, downhill - units.T @ push


# -- The solver -------------------------------------------------------------------------------------------------------


def solve(settings: Settings, form: Form, X: Any, y: FloatArray, weight: FloatArray) -> FloatArray:
    """Solve the learner's problem exactly on given rows, dense or sparse.

    Under slabs the optimum lies on some of their faces: from 0 on, those in the way are kept to, one by one, and let go
    again where the optimum on them pushes inwards.
    A penalty has kinks, and its optimum may lie on some: it is approached through penalties with ever sharper, but
    rounded, kinks, up to the sharpness asked for; from the optimum of the loss alone on.
    """
    objective = _Objective.on(settings, X, y, weight)
    if isinstance(form, Slabs):
        return _on_faces(objective, form.vectors)
    theta = _minimise(objective, np.zeros(objective.X.shape[1]), np.eye(objective.X.shape[1]))
    return _descend(objective, form, theta, theta)[0]


def _optima(objective: _Objective, form: Form) -> list[Optimum]:
    """Distinct local optima from several starts, best first; from one where there is no penalty."""
    if isinstance(form, Slabs):
        theta = _on_faces(objective, form.vectors)
        return [_reached(objective, theta, _pushes(objective, form, theta)[2])]
    D = objective.X.shape[1]
    free = _minimise(objective, np.zeros(D), np.eye(D))
    starts = [free]
    if objective.settings.penalty > 0.0 and form.rows.shape[0] > 0:
        size = np.linalg.norm(free) / np.sqrt(D)
        random = np.random.default_rng(0).normal(scale=size, size=(RANDOM_STARTS, D))
        starts = [free, np.zeros(D), objective.settings.start, *random]
    ends = []
    for start in starts:
        theta, last = _descend(objective, form, start, free)
        ends.append((_reached(last, theta, -last.gradient(theta)), last))
    ends.sort(key=lambda end: (not end[0].reached, end[0].value))
    found = [ends[0][0]]
    for one, last in ends[1:]:
        far = APART * max(np.abs(one.theta).max(), np.abs(found[0].theta).max())
        new = one.reached and all(np.abs(one.theta - other.theta).max() > far for other in found)
        if new and _is_lowest_around(last, one):
            found.append(one)
    return found


def _descend(
    objective: _Objective, form: Penalty, theta: FloatArray, free: FloatArray
) -> tuple[FloatArray, _Objective]:
    """Optimum of a penalised problem from θ on, and its objective with the sharpest kinks, to the scale of ``free``."""
    if form.rows.shape[0] == 0:
        return theta, objective
    form = form._replace(rows=form.rows.toarray()) if is_sparse(form.rows) else form
    scale, last = float(np.std(form.rows @ free)) or 1.0, objective.settings.sharpness or np.inf
    for sharpness in [*(tau / scale for tau in (1e1, 1e2, 1e3, 1e4, 1e5) if tau / scale < last), last]:
        if sharpness < np.inf:
            objective = replace(objective, form=form, sharpness=sharpness)
            theta = _minimise(objective, theta, np.eye(len(theta)))
    return theta, objective


def _reached(objective: _Objective, theta: FloatArray, left: FloatArray) -> Optimum:
    """θ as an optimum: reached where a Newton step down the slope that is left would gain next to nothing."""
    values, directions = np.linalg.eigh(objective.hessian(theta))
    gain = np.sum((left @ directions) ** 2 / np.maximum(np.abs(values), 1e-12)) / 2.0
    value = objective.value(theta)
    return Optimum(theta, value, bool(gain <= LEFT * (1.0 + abs(value))))


def _is_lowest_around(objective: _Objective, one: Optimum) -> bool:
    """Whether steps to all sides lead up: at 0, where they are undefined, soft rates have no slope, nor an optimum."""
    sides = np.random.default_rng(0).normal(size=(SIDES, len(one.theta)))
    sides *= APART / np.linalg.norm(sides, axis=1)[:, None]
    lowest = min(objective.value(one.theta + side) for side in sides)
    return lowest >= one.value - LEFT * (1.0 + abs(one.value))


def _on_faces(objective: _Objective, vectors: FloatArray) -> FloatArray:
    """Optimum under |x̃ᵀθ| ≤ ε: a primal active-set method."""
    lengths = np.linalg.norm(vectors, axis=1)
    some = lengths > 0.0
    units, levels = vectors[some] / lengths[some, None], objective.settings.tolerance / lengths[some]
    start = np.zeros(vectors.shape[1])
    if len(units) and not levels.any():
        return _minimise(objective, start, _along(units))
    free = _minimise(objective, start, np.eye(len(start)))
    if (np.abs(units @ free) <= levels).all():
        return free
    theta, active = start, np.zeros(len(units))  # 0, or the sign of the face that θ lies on
    for _ in range(MAX_ITERATIONS):
        on = np.flatnonzero(active)
        normals = active[on, None] * units[on]
        goal = _minimise(objective, theta, _along(normals) if len(on) else np.eye(len(theta)))
        change = units @ (goal - theta)
        ahead = np.abs(change) > 1e-10 * np.linalg.norm(goal - theta)  # the faces that θ lies on stay where they are
        room = levels - np.sign(change) * (units @ theta)
        share = np.divide(room, np.abs(change), out=np.full(len(units), np.inf), where=ahead).clip(min=0.0)
        if share.min() < 1.0:  # a face is in the way
            theta = theta + share.min() * (goal - theta)
            active[share.argmin()] = np.sign(change[share.argmin()])
            continue
        theta = goal
        push = np.linalg.lstsq(normals.T, -objective.gradient(theta), rcond=1e-10)[0] if len(on) else np.zeros(0)
        if not (push < -1e-9).any():
            break
        active[on[np.argmax(push < -1e-9)]] = 0.0  # the first, not the worst: so that no round of faces is repeated
    return np.asarray(theta + np.linalg.lstsq(normals, levels[on] - normals @ theta, rcond=1e-10)[0])


def _along(normals: FloatArray) -> FloatArray:
    """Orthonormal basis of the directions along all faces, as columns."""
    _, sizes, directions = np.linalg.svd(normals)
    if len(sizes) == 0:
        return np.eye(normals.shape[1])
    return np.asarray(directions[np.count_nonzero(sizes > 1e-10 * sizes[0]) :].T)


@dataclass(frozen=True, eq=False)
class _Objective:
    """Mean loss and ridge over fixed rows, and a penalty with rounded kinks if there is one."""

    settings: Settings
    X: FloatArray
    y: FloatArray
    weight: FloatArray  # of mean 1
    form: Penalty | None = None
    sharpness: float = 1.0  # τ

    @classmethod
    def on(cls, settings: Settings, X: Any, y: FloatArray, weight: FloatArray) -> _Objective:
        """Objective over rows of any weights, dense or sparse, without a penalty."""
        return cls(settings, X.toarray() if is_sparse(X) else X, y, weight / weight.mean())

    def value(self, theta: FloatArray) -> float:
        s = self.settings
        value = (self.weight * s.loss.value(self.X @ theta, self.y)).mean() + s.alpha * (theta @ theta) / 2.0
        return float(
            value
            + (s.effective_penalty * np.sum(_penalty(self.form, theta, self.sharpness)[0] ** 2) if self.form else 0.0)
        )

    def gradient(self, theta: FloatArray) -> FloatArray:
        s = self.settings
        slope = self.weight * s.loss.derivative(self.X @ theta, self.y)
        gradient = slope @ self.X / len(self.X) + s.alpha * theta
        if self.form:
            g, G, _ = _penalty(self.form, theta, self.sharpness)
            gradient = gradient + 2.0 * s.effective_penalty * (g @ G)
        return np.asarray(gradient)

    def hessian(self, theta: FloatArray) -> FloatArray:
        s = self.settings
        hessian = (self.X.T * (self.weight * s.loss.curvature(self.X @ theta, self.y))) @ self.X / len(self.X)
        hessian += (s.alpha + 1e-12) * np.eye(len(theta))  # columns may be exactly dependent when there is no ridge
        if self.form:
            _, G, bend = _penalty(self.form, theta, self.sharpness)
            hessian += 2.0 * s.effective_penalty * (G.T @ G + bend)
        return np.asarray(hessian)

    def scores(self, theta: FloatArray) -> FloatArray:
        """Covariance of the loss's gradients over the rows."""
        slope = self.settings.loss.derivative(self.X @ theta, self.y)
        mean = (self.weight * slope) @ self.X / len(self.X)
        second = (self.X.T * (self.weight * slope**2)) @ self.X / len(self.X)
        return np.asarray(second - np.outer(mean, mean))


def _penalty(form: Penalty, theta: FloatArray, sharpness: float | None) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Terms g (J,), their gradients (J, D), and Σⱼ gⱼ ∇²gⱼ (D, D), by the chain rule from the kinked functions."""
    rows, weights = form.rows, form.weights
    f, side = (found[:, 0] for found in kinked(form, theta[:, None], sharpness))
    f = np.where(np.abs(f) > 1e-150, f, 0.0)  # a denominator that rounding alone keeps from 0, and its square
    g, slopes = form.terms(f)
    F = (weights * side) @ rows  # (L, D)
    curved = -(sharpness or 0.0) * ((g @ slopes) @ weights) * side * (1.0 - side)
    return g, slopes @ F, F.T @ form.bend(f, g) @ F + (rows.T * curved) @ rows


def _penalty_hessian(settings: Settings, form: Penalty, theta: FloatArray) -> FloatArray:
    """Hessian of R₂ Σⱼ gⱼ², its kinks smoothed to the density of margins on D' around 0.

    A logistic kernel of sharpness τ has the density at 0 of a normal one of width 1.6 / τ.
    """
    form = form._replace(rows=form.rows.toarray()) if is_sparse(form.rows) else form
    margin = form.rows @ theta
    middle = float(np.subtract(*np.quantile(margin, [0.75, 0.25]))) / 1.349
    width = 0.5 * 0.9 * (min(float(margin.std()), middle) or float(margin.std())) * len(margin) ** -0.2
    sharpness = min(settings.sharpness or np.inf, 1.6 / width if width > 0.0 else np.inf)
    _, G, bend = _penalty(form, theta, sharpness if sharpness < np.inf else None)
    return np.asarray(2.0 * settings.effective_penalty * (G.T @ G + bend))


def _minimise(objective: _Objective, theta: FloatArray, basis: FloatArray) -> FloatArray:
    """Minimum from θ on in the directions of the basis's columns.

    Loss and ridge are convex: Newton's method, its steps halved until the gradient shrinks and the value does not
    rise, is soon there. Where it is not, and with a penalty, a trust region goes on.
    """
    if basis.shape[1] == 0:
        return theta
    gradient, value = basis.T @ objective.gradient(theta), objective.value(theta)
    length = np.linalg.norm(gradient)
    for _ in range(MAX_NEWTON if objective.form is None else 0):
        if length < GRADIENT:
            return theta
        try:
            step = -basis @ np.linalg.solve(basis.T @ objective.hessian(theta) @ basis, gradient)
        except np.linalg.LinAlgError:
            break
        for share in SHARES:
            after, lower = basis.T @ objective.gradient(theta + share * step), objective.value(theta + share * step)
            shorter = np.linalg.norm(after)
            if shorter < (1.0 - share / 4.0) * length and lower <= value + 1e-12 * abs(value):
                break
        else:
            break
        theta, gradient, length, value = theta + share * step, after, shorter, lower
    found: Any = minimize(  # type: ignore[call-overload]
        lambda v: objective.value(theta + basis @ v),
        np.zeros(basis.shape[1]),
        jac=lambda v: basis.T @ objective.gradient(theta + basis @ v),
        hess=lambda v: basis.T @ objective.hessian(theta + basis @ v) @ basis,
        method="trust-exact",
        options={"gtol": GRADIENT, "maxiter": MAX_ITERATIONS},
    )
    return np.asarray(theta + basis @ found.x)
