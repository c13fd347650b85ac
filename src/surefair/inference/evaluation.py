"""Intervals for a model that surefair trained: count its decisions and those of its replicates, then ask."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from surefair.diagnostics import ChanceConstraint, exceeded_tolerance, few_clusters, few_rows_near_boundary
from surefair.diagnostics.step_too_large import DIVERGED
from surefair.inference.asymptotic import asymptotic_interval
from surefair.inference.checks import decision_diagnostics, training_diagnostics
from surefair.inference.clusters import cluster_estimates
from surefair.inference.interval import Context, Interval, Question, interval_of, make_interval
from surefair.inference.limits import Pairs
from surefair.inference.sources import SOURCES, Tally
from surefair.inference.stretches import Stretches
from surefair.names import counted
from surefair.rows import Groups, Rows
from surefair.training.checks import new_groups
from surefair.training.model import Model


def check_tally(model: Model, tally: Tally) -> None:
    """Refuse a tally that was counted for another model, or that has nothing to compare."""
    if tally.n_rows != model.n_rows:
        raise ValueError(
            f"The tally belongs to a fit of {counted(tally.n_rows, 'row')}, and this fit has {model.n_rows:,}. Count "
            "the evaluation rows again."
        )
    if tally.fingerprint != model.trained.fingerprint:
        raise ValueError(
            f"The tally belongs to another fit of {counted(tally.n_rows, 'row')}. Count the evaluation rows again."
        )
    tally.groups.check_comparable()
    if not tally.of_fit.rows.any():
        raise ValueError("There are no evaluation rows. Count at least one row of each group.")


def model_interval(
    model: Model, tally: Tally, question: Question, library: str = "pandas", anytime: bool = False
) -> Interval:
    """Interval for the unfairness of a model, from the counts of its decisions.

    Parameters
    ----------
    model : Model
    tally : Tally
    question : Question
        Its method must be the tally's.
    library : str
        Data-frame library of the tables.
    anytime : bool
        Whether the interval must hold at all looks while the model trains, for source "training" or "total".
    """
    context = _context(model, tally, question.source, library)
    if tally.clustered is not None and SOURCES[question.source].evaluation:
        interval = _clustered_interval(tally, question, context)
        return _beside_tolerance(interval, model, tally.groups)
    rates_b, trained = tally.rates(question.source, question.metric.rates, model.seed)
    make = asymptotic_interval if anytime else make_interval
    interval = make(question, tally.counts(question.source).of(0), tally.groups, rates_b, trained, context)
    return _beside_tolerance(interval, model, tally.groups)


def _clustered_interval(tally: Tally, question: Question, context: Context) -> Interval:
    """Interval from evaluation rows in clusters; its limits use Student's t law."""
    assert tally.clustered is not None
    groups, metric = tally.groups, question.metric
    trained = tally.trained_rates(question.source, metric.rates)
    pairs = Pairs.of(groups, metric.ratio)
    found = tally.clustered.pooled
    estimates = cluster_estimates(metric.rates, found, pairs, question.confidence_level, trained)
    clusters = estimates.by_group["clusters"][:, groups.compared]
    few = few_clusters.check(clusters, groups.compared_words, metric.rate_names)
    n = int(found.counts.rows[: groups.sizes[0]].sum())
    context = context._replace(diagnostics=(*context.diagnostics, *few))
    return interval_of(question._replace(method="clusters"), estimates, groups, n, context)


def anytime_interval(model: Model, rows: Rows, question: Question, n_threads: int, library: str = "pandas") -> Interval:
    """Interval for the unfairness of a model that holds at all times, however often it is asked for.

    It is exact for source "evaluation", where the model stays the same and rows come in the order given, and
    approximate for a model in training.

    Parameters
    ----------
    model : Model
    rows : Rows
        Evaluation rows; for source "evaluation", without weights.
    question : Question
    n_threads : int
    library : str
        Data-frame library of the tables.
    """
    if question.source == "retraining":
        raise ValueError(
            "There is no anytime interval for source='retraining': the model trained again on as many rows is another "
            "one at every look. Ask for source='total', 'training' or 'evaluation'."
        )
    tally = Tally.of(model, rows, (question.source,), question.method, n_threads)
    if question.source != "evaluation":
        return model_interval(model, tally, question, library, anytime=True)
    decision = (model.trained.score(rows.X) > 0.0).astype(np.int64)
    stretches = Stretches.of(question.metric.rates, rows.groups).add(rows.group, rows.truth, decision)
    interval = stretches.interval(question, _context(model, tally, question.source, library))
    return _beside_tolerance(interval, model, tally.groups)


def _context(model: Model, tally: Tally, asked: str, library: str) -> Context:
    """What else to say about the model, and what was found about it, for one of the sources."""
    fit = model.trained
    source = SOURCES[asked]
    found = [*training_diagnostics(fit), *model.order_diagnostics()] if source.training else []
    # What more rows would constrain does not matter for the gap of this very model.
    known = [one for one in model.diagnostics if source.training or not isinstance(one, ChanceConstraint)]
    found += [one for one in known if one.forbids_verdict]
    if fit.is_finite:
        found += decision_diagnostics(tally.of_fit, tally.groups.sizes[0])
    if fit.is_finite and not source.evaluation:
        found += few_rows_near_boundary.check(tally.n_near)
    fixed = source.training and not fit.is_learnt and model.problem.criterion is not None
    return Context(
        estimates=f"{source.estimates}, given the constraint set" if fixed else "",
        positive=model.labels.values.tolist()[1],
        n_training=fit.n_rows,
        library=library,
        trouble="" if fit.is_finite else DIVERGED,
        notes=new_groups(tally.groups, model.groups, "not seen in training"),
        diagnostics=tuple(found),
    )


def _beside_tolerance(interval: Interval, model: Model, groups: Groups) -> Interval:
    """Compare the unfairness with the tolerance if all groups were there in training."""
    if model.groups is None or not {*groups.labels} <= {*model.groups.labels}:
        return interval
    return compared_with_tolerance(interval, model)


def compared_with_tolerance(interval: Interval, model: Model) -> Interval:
    """Add a diagnostic if the unfairness, measured as it was constrained, is clearly beyond the tolerance."""
    problem = model.problem
    bounded = model.trained.is_learnt and problem.surrogate == "decisions" and problem.penalty is None
    same = problem.criterion is not None and interval.metric == problem.criterion.name
    if not (bounded and same and SOURCES[interval.source].evaluation):
        return interval
    exceeded = exceeded_tolerance.check(interval.low, model.trained.tolerance)
    return replace(interval, diagnostics=(*interval.diagnostics, *exceeded))
