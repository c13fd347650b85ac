"""What the learners converge to, and how far from it they stop: the optimum θ* and the limit law of θ̄.

The problem is to minimise ``mean ℓ(θᵀx, y) + κ‖θ‖²/2`` subject to ``|x̃_sᵀθ| ≤ ε`` for all s, or with ``R₂ Σⱼ gⱼ(θ)²``
added. In the limit, √n(θ̄ - θ*) is normal with the covariance of ``sandwich``. Steps that are damped, whitened or
implicit have the same limit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import ndtr

from surefair.criteria import Criterion, Form, Rate, Slabs
from surefair.diagnostics import Diagnostic, LocalOptima, boundary_constraint, issue, stopped_early
from surefair.inference import influence
from surefair.inference.counts import count, rates_of
from surefair.inference.metric import get_metric
from surefair.inference.sandwich import sandwich
from surefair.names import one_of
from surefair.rows import FloatArray, Rows, is_sparse
from surefair.training.coordinates import with_ones
from surefair.training.fit import Fit, task_of
from surefair.training.problem import Problem
from surefair.training.solver import (
    APART,
    Objective,
    Optimum,
    active_slabs,
    directions_along,
    holding_slabs,
    local_optima,
    penalty_terms,
)
from surefair.training.stationary import BETTER, Conditions
from surefair.training.warm_up import Task, coordinates

if TYPE_CHECKING:
    from surefair.classifier import FairClassifier

__all__ = [
    "GapLaw",
    "Optimum",
    "asymptotic_covariance",
    "gap_law",
    "nearest",
    "optima",
    "optimum",
    "paper_covariance",
    "root",
]

DRAWS = 2000  # coefficients drawn from the limit law
METHODS = ("delta", "sample")


def optimum(
    clf: FairClassifier, X: Any, y: Any, *, sensitive_features: Any = None, sample_weight: Any = None
) -> FloatArray:
    """Return θ*, the optimum of a classifier's problem when (X, y) is the whole population.

    A penalty may have several local optima. This function returns the best one found from several starts and warns
    (``LocalOptima``) if there are others; ``optima`` returns all of them.

    Parameters
    ----------
    clf : FairClassifier
        Fitted; it supplies the loss, the ridge, the coordinates and the constraint.
    X : array-like of shape (n_rows, n_features), data frame or sparse matrix
    y : array-like of shape (n_rows,)
    sensitive_features : array-like of shape (n_rows,), data frame or dict of columns
        Required where the constraint is learnt from all rows.
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
    >>> theta = sf.theory.optimum(clf, data.X, data.y, sensitive_features=data.sensitive)
    >>> bool(np.abs(theta - np.append(clf.coef_, clf.intercept_)).max() < 0.1)
    True
    """
    fit, rows = _population(clf, X, y, sensitive_features, sample_weight)
    if fit.is_learnt:
        best, found = best_learnt(population_optima(fit, rows), fit)
        issue(found)
        return best.theta
    best, found = _best(fit, _objective(fit, rows))
    issue(found)
    return fit.to_features(best.theta)


def optima(
    clf: FairClassifier, X: Any, y: Any, *, sensitive_features: Any = None, sample_weight: Any = None
) -> list[Optimum]:
    """Return all local optima found of a classifier's problem when (X, y) is the whole population, best first.

    Where the constraint is learnt from all rows, the solver starts from the optimum of the loss alone, and from the
    same with a shifted intercept. Under a fixed constraint the problem is convex and has one optimum. With a fixed
    penalty, the solver starts from the optimum of the loss alone, from 0, from where the learner itself started (the
    optimum on D', or 0), and from random points of the size of the first.

    Parameters
    ----------
    clf, X, y, sensitive_features, sample_weight
        As in ``optimum``.

    Returns
    -------
    list of Optimum
        Named tuples (theta, value, reached).

    Examples
    --------
    >>> import surefair as sf
    >>> data = sf.datasets.SyntheticDI(seed=1).sample(5_000)
    >>> clf = sf.FairClassifier(tolerance=0.1, n_replicates=0, random_state=0)
    >>> clf = clf.fit(data.X, data.y, sensitive_features=data.sensitive)
    >>> sf.theory.optima(clf, data.X, data.y, sensitive_features=data.sensitive)[0].reached
    True
    """
    return population_optima(*_population(clf, X, y, sensitive_features, sample_weight))


def asymptotic_covariance(
    clf: FairClassifier, X: Any, y: Any, *, sensitive_features: Any = None, sample_weight: Any = None
) -> FloatArray:
    """Covariance of √n(θ̄ - θ*) in the limit of many rows n, when they are drawn from the population (X, y).

    The constraint set is taken as given, as everywhere in this module. θ* itself shows which faces hold it. If a face
    only touches it, with multiplier 0, the limit law is not normal: a warning, ``BoundaryConstraint``, says so, and the
    law returned ignores the face. If there are several local optima (a warning, ``LocalOptima``), θ* is the one nearest
    to the fit, because that is where the learner goes.

    A penalty has kinks, where scores on D' are 0, and a stiff one has its optimum on some of them. Taken literally,
    kinks are all or nothing: ignored if θ* is beside them, and faces that hold it for good if it is on them. The path
    of a learner crosses many of them, so it sees the density of D' around the decision boundary instead. That density
    is estimated with a kernel of half the width of Silverman's rule. Compared with simulated fits this is much better
    than leaving kinks out, but it is an approximation: see "Two covariances" in the docs, where standard deviations
    come out up to 30 % too small for a penalty of 500.

    Parameters
    ----------
    clf : FairClassifier
        Fitted; it supplies the loss, the ridge, the coordinates and the constraint.
    X : array-like of shape (n_rows, n_features), data frame or sparse matrix
    y : array-like of shape (n_rows,)
    sensitive_features : array-like of shape (n_rows,), data frame or dict of columns
        Required where the constraint is learnt from all rows.
    sample_weight : array-like of shape (n_rows,), optional
        Shares of the population: a row of weight 2 stands for two rows.

    Returns
    -------
    ndarray of shape (n_features + 1, n_features + 1)
        Features, then the intercept (if the classifier fits one).

    Examples
    --------
    >>> import surefair as sf
    >>> data = sf.datasets.SyntheticDI(seed=1).sample(20_000)
    >>> clf = sf.FairClassifier(random_state=0).fit(data.X, data.y, sensitive_features=data.sensitive)
    >>> covariance = sf.theory.asymptotic_covariance(clf, data.X, data.y, sensitive_features=data.sensitive)
    >>> spread = np.sqrt(np.diag(covariance) / 19_000)
    >>> bool(np.allclose(clf.coef_replicates_.std(axis=0), spread[:2], rtol=0.25))
    True
    """
    covariance, found = limit_covariance(*_population(clf, X, y, sensitive_features, sample_weight))
    issue(found)
    return covariance


def paper_covariance(
    clf: FairClassifier, X: Any, y: Any, *, sensitive_features: Any = None, sample_weight: Any = None
) -> FloatArray:
    """Covariance of √n(θ̄ - θ*) as the paper prints it, for reproduction only.

    Under slabs P H† P Σ P H† P; with a penalty H⁻¹(Σ + R₂²∇γ∇γᵀ)H⁻¹, where γ = Σⱼ gⱼ² and H is the Hessian of loss and
    ridge alone, in the features' own coordinates. With correlated features it is off by an order of magnitude (see "Two
    covariances" in the docs). Use ``asymptotic_covariance``.

    Parameters
    ----------
    clf, X, y, sensitive_features, sample_weight
        As in ``asymptotic_covariance``.

    Returns
    -------
    ndarray of shape (n_features + 1, n_features + 1)
    """
    covariance, found = printed_covariance(*_population(clf, X, y, sensitive_features, sample_weight))
    issue(found)
    return covariance


# -- The same for a fit and checked rows ------------------------------------------------------------------------------


def population_optima(fit: Fit, rows: Rows) -> list[Optimum]:
    """Return all local optima of a fit's problem when these rows are the population, best first."""
    if fit.is_learnt:
        return learnt_optima(fit.problem, rows, fit.W, fit.learner.form.ridge)
    found = local_optima(_objective(fit, rows), fit.learner.form)
    return [one._replace(theta=fit.to_features(one.theta)) for one in found]


def limit_covariance(fit: Fit, rows: Rows) -> tuple[FloatArray, list[Diagnostic]]:
    """Return what ``asymptotic_covariance`` returns, with diagnostics in place of warnings."""
    if fit.is_learnt:
        _, covariance, found = _learnt_law(fit, rows)
        return covariance, found
    objective = _objective(fit, rows)
    best, found = _best(fit, objective, beside_fit=True)
    covariance, more = _covariance(objective, fit.learner.form, best.theta)
    return fit.covariance_to_features(covariance), found + more


def printed_covariance(fit: Fit, rows: Rows) -> tuple[FloatArray, list[Diagnostic]]:
    """Return what ``paper_covariance`` returns, with diagnostics in place of warnings."""
    if fit.is_learnt:
        raise ValueError(
            "The paper's covariance is that of a constraint that a set of rows fixes; received a fit whose constraint "
            "was learnt from all rows. Pass a constraint_set to fit, or use asymptotic_covariance."
        )
    objective = _objective(fit, rows)
    form = fit.learner.form
    settings = objective.settings
    best, found = _best(fit, objective, beside_fit=True)
    theta = best.theta
    W = np.diag(fit.W) if fit.W.ndim == 1 else fit.W
    V = np.linalg.inv(W)  # from coefficients of the features to the learner's
    hessian, scores = V.T @ objective.hessian(theta) @ V, V.T @ objective.scores(theta) @ V
    if isinstance(form, Slabs):
        basis = directions_along(form.vectors[active_slabs(settings, form, theta)] @ V)
        P = basis @ basis.T
        inverse = P @ np.linalg.pinv(hessian, rcond=1e-10, hermitian=True) @ P
    else:
        g, G, _ = penalty_terms(form, theta, settings.sharpness)
        pull = V.T @ (2.0 * settings.effective_penalty * (g @ G))
        inverse, scores = np.linalg.pinv(hessian, rcond=1e-10, hermitian=True), scores + np.outer(pull, pull)
    return np.asarray(inverse @ scores @ inverse), found


# -- The gap ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class GapLaw:
    """How the gap of θ̄ on a fixed population varies from one training run to another.

    Attributes
    ----------
    mean : float
        The gap of θ*: rate of the first group minus rate of the second.
    sd : float
        Standard deviation of the gap of θ̄ after n rows.
    gaps : ndarray
        Gaps of coefficients drawn from the limit law, with method "sample"; empty with method "delta".
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

    The gap is a step function of θ, so on a finite population it has no derivative. The delta method uses the mean
    derivative under the limit law N(θ*, Σ/n) instead: under that law, a decision whose score has mean m and standard
    deviation s is positive with probability Φ(m/s), which does have a derivative. This amounts to a density at the
    decision boundary, estimated with a kernel as wide as θ̄ will make the scores vary. Where that derivative vanishes,
    because the groups are equal at the boundary, the gap moves only by higher-order terms, which draws show.

    Parameters
    ----------
    clf : FairClassifier
        Fitted; it supplies the loss, the ridge, the coordinates and the constraint.
    X, y, sensitive_features
        The population, with two groups.
    n : int
        Number of training rows.
    metric : str, Criterion or None
        What is compared: the difference of one rate; by default the criterion of the fit.
    method : {"delta", "sample"}
        "delta" gives a standard deviation from the derivative of the gap, "sample" gaps of draws from N(θ*, Σ/n).
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
    >>> bool(abs(law.mean) < 0.05 and 0.005 < law.sd < 0.01)
    True
    """
    one_of(method, METHODS, "method")
    if not (isinstance(n, int | np.integer) and n >= 1):
        raise ValueError(f"n must be the number of training rows, 1 or larger; received {n!r}.")
    measured = get_metric(metric or clf.model_.problem.criterion or "demographic_parity")
    rates = measured.rates
    rows = clf.rows(X, y, sensitive_features=sensitive_features, sample_weight=sample_weight, need_groups=True)
    fit = clf.answer().trained
    sizes = rows.groups.sizes
    if measured.ratio or len(rates) != 1 or sizes != (2,):
        kind = "ratios" if measured.ratio else "differences"
        raise ValueError(
            "A gap law describes the difference of one rate between two groups; received "
            f"{kind} of {len(rates)} rate(s) between groups {sizes}. Use one of the metric's rates (such as "
            "false_positive_rate for equalized_odds), and two groups at a time."
        )
    if fit.is_learnt:
        theta, covariance, found = _learnt_law(fit, rows)
        spread = covariance / n
    else:
        objective = _objective(fit, rows)
        best, found = _best(fit, objective, beside_fit=True)
        covariance, more = _covariance(objective, fit.learner.form, best.theta)
        found = found + more
        theta = fit.to_features(best.theta)
        spread = fit.covariance_to_features(covariance) / n
    issue(found)
    features = fit.features(rows.X)

    def gaps_of(models: FloatArray) -> FloatArray:
        counts = count(models, features, rows.truth, rows.group, sizes, rows.weight)
        by_group = rates_of(rates, counts)[:, 0]
        return np.asarray(by_group[:, 0] - by_group[:, 1])

    gaps = np.zeros(0)
    if method == "sample":
        noise = np.random.default_rng(random_state).normal(size=(len(theta), DRAWS))
        gaps = gaps_of(theta[:, None] + root(spread) @ noise)
        sd = float(gaps.std(ddof=1))
    else:
        slope = _gap_slope(rates[0], theta, spread, features, rows)
        sd = float(np.sqrt(slope @ spread @ slope))
    return GapLaw(float(gaps_of(theta[:, None])[0]), sd, gaps, int(n), measured.name, method)


def nearest(found: list[FloatArray], theta: FloatArray) -> int:
    """Position of the optimum nearest to coefficients; 0, that of the best one, if the coefficients diverged."""
    return int(np.argmin([np.abs(one - theta).max() for one in found]))


def root(covariance: FloatArray) -> FloatArray:
    """Matrix R with R Rᵀ = covariance, which may be singular."""
    values, directions = np.linalg.eigh(covariance)
    return np.asarray(directions * np.sqrt(np.maximum(values, 0.0)))


def _gap_slope(
    rate: Rate,
    theta: FloatArray,
    spread: FloatArray,
    X: Any,
    rows: Rows,
) -> FloatArray:
    """Derivative of the gap in θ, where decisions are positive with the probability that N(θ, spread) gives them."""
    X = X.toarray() if is_sparse(X) else X
    weight = rows.weight
    score = X @ theta
    s = np.sqrt(np.maximum(np.sum((X @ spread) * X, axis=1), 0.0))
    some = s > 0.0  # the decisions on the other rows are certain
    z = np.divide(score, s, out=np.where(score > 0.0, np.inf, -np.inf), where=some)
    density = np.divide(np.exp(-(z**2) / 2.0) / np.sqrt(2.0 * np.pi), s, out=np.zeros(len(s)), where=some)
    positive, moved = weight * ndtr(z), (weight * density)[:, None] * X
    table, change = np.zeros((2, 2, 2)), np.zeros((len(theta), 2, 2, 2))  # (…, group, truth, decision)
    for g in (0, 1):
        for t in (0, 1):
            cell = (rows.group[:, 0] == g) & (rows.truth == t)
            table[g, t] = weight[cell].sum() - positive[cell].sum(), positive[cell].sum()
            change[:, g, t, 1] = moved[cell].sum(axis=0)
            change[:, g, t, 0] = -change[:, g, t, 1]
    (above, below), (more_above, more_below) = rate.tally(table), rate.tally(change)
    slope = (more_above - (above / below) * more_below) / below
    return np.asarray(slope[:, 0] - slope[:, 1])


# -- From a population to its moments ---------------------------------------------------------------------------------


def _population(
    clf: FairClassifier, X: Any, y: Any, sensitive_features: Any, sample_weight: Any
) -> tuple[Fit, Rows]:  # fmt: skip
    """Return the fit, and checked rows that stand for the population."""
    fit = clf.answer().trained
    needed = fit.is_learnt and fit.problem.criterion is not None
    rows = clf.rows(
        X, y, sensitive_features=sensitive_features, sample_weight=sample_weight, need_groups=needed
    )  # fmt: skip
    return fit, rows


# -- A constraint that is learnt from all rows ------------------------------------------------------------------------


def learnt_optima(
    problem: Problem, rows: Rows, W: FloatArray | None = None, ridge: FloatArray | None = None,
    pilots: Sequence[Fit] = (),
) -> list[Optimum]:  # fmt: skip
    """Return all local optima when these rows are the population, best first, as coefficients of the features.

    Without coordinates ``W`` and their ``ridge`` those of the population are used. Fits to some of the rows, the
    ``pilots``, may lead to an optimum that no other start leads to.
    """
    task = task_of(problem, rows)
    conditions, W = _conditions(task, rows, W, ridge)
    ends = conditions.optima(task.tolerance, task.effective_penalty)
    for pilot in pilots:
        start = pilot.optimum._replace(theta=np.asarray(np.linalg.solve(W, pilot.coefficients[:, 0])))
        end = conditions.beside(start, task.tolerance, task.effective_penalty)
        better = end.reached and (not ends[0].reached or end.value < BETTER * ends[0].value)
        ends.insert(0 if better else len(ends), end)
    found: list[Optimum] = []
    for one in ends:
        theta = W @ one.theta
        far = APART * float(np.abs(theta).max(initial=0.0))
        if not found or (one.reached and all(np.abs(theta - other.theta).max() > far for other in found)):
            found.append(Optimum(theta, one.value, one.reached))
    return found


def best_learnt(found: list[Optimum], fit: Fit) -> tuple[Optimum, list[Diagnostic]]:
    """Return the best optimum, with diagnostics if the fit is nearer to another one."""
    closest = nearest([one.theta for one in found], fit.coefficients[:, 0])
    diagnostics: list[Diagnostic] = []
    if closest > 0:
        message = (
            f"The problem has {len(found)} local optima, with values from {found[0].value:.6g} to "
            f"{found[-1].value:.6g}. This fit is nearest to number {1 + closest}; the result is for the best one."
        )
        diagnostics.append(LocalOptima(message, len(found), 1))
    return found[0], diagnostics + stopped_early.check(found[0].reached)


def _learnt_law(fit: Fit, rows: Rows) -> tuple[FloatArray, FloatArray, list[Diagnostic]]:
    """Optimum of the population nearest to a fit, and the covariance of √n(θ - θ*), in units of the features."""
    task = task_of(fit.problem, rows)
    conditions, W = _conditions(task, rows, fit.W, fit.learner.form.ridge)
    ends = conditions.optima(task.tolerance, task.effective_penalty)
    best = ends[nearest([W @ one.theta for one in ends], fit.coefficients[:, 0])]
    moments = influence.moments_of_rows(conditions, best, task.tolerance, task.effective_penalty)
    return W @ best.theta, W @ moments.covariance() @ W.T, stopped_early.check(best.reached)


def _conditions(
    task: Task, rows: Rows, W: FloatArray | None, ridge: FloatArray | None
) -> tuple[Conditions, FloatArray]:
    if W is not None and W.ndim == 1:
        raise ValueError(
            "The optimum under a constraint is computed with dense matrices, for at most 1,000 features; received a "
            f"fit of sparse rows with {len(W):,} features. Reduce the features, for example by TruncatedSVD."
        )
    X = with_ones(rows.X.toarray() if is_sparse(rows.X) else rows.X, task.fit_intercept)
    if W is None or ridge is None:
        W, units = coordinates(X, rows.weight, task.fit_intercept, task.alpha > 0.0)
        ridge = task.ridge(units, X @ W, rows.weight)
    return task.conditions(W, ridge, X @ W, rows.y, rows.group, rows.weight), W


def _objective(fit: Fit, rows: Rows) -> Objective:
    """Mean loss and ridge of a fit's problem over these rows, in the learner's coordinates."""
    return Objective.on(fit.learner.settings, fit.to_learner(rows.X), rows.y, rows.weight)


def _best(fit: Fit, objective: Objective, beside_fit: bool = False) -> tuple[Optimum, list[Diagnostic]]:
    """Return the best optimum, or the one nearest to the fit, with diagnostics if it is not the only one."""
    found = local_optima(objective, fit.learner.form)
    chosen = found[0]
    diagnostics: list[Diagnostic] = []
    if len(found) > 1:
        far = max(float(np.abs(fit.to_features(other.theta - found[0].theta)).max()) for other in found[1:])
        closest = nearest([fit.to_features(one.theta) for one in found], fit.coefficients[:, 0])
        chosen = found[closest] if beside_fit else found[0]
        message = (
            f"The penalty has {len(found)} local optima, with values from {found[0].value:.6g} to "
            f"{found[-1].value:.6g} and coefficients up to {far:.3g} apart. This fit is nearest to number "
            f"{1 + closest}; the result is for {'that one' if beside_fit else 'the best one'}."
        )
        diagnostics.append(LocalOptima(message, len(found), 1))
    return chosen, diagnostics + stopped_early.check(chosen.reached)


def _covariance(objective: Objective, form: Form, theta: FloatArray) -> tuple[FloatArray, list[Diagnostic]]:
    """Limit covariance in the learner's coordinates, from the moments of the population."""
    scores = objective.scores(theta)
    active = None
    found: list[Diagnostic] = []
    if isinstance(form, Slabs):
        active, touched = holding_slabs(objective, form, theta, scores)
        found = boundary_constraint.check_touching(touched, objective.settings.tolerance)
    hessian = objective.hessian(theta)
    return sandwich(objective.settings, form, theta, hessian, scores, active=active), found
