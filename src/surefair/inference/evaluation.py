"""Intervals for a model that surefair trained: count its decisions and those of its replicates, then ask."""

from __future__ import annotations

from dataclasses import replace

from surefair.diagnostics import exceeded_tolerance, few_rows_near_boundary
from surefair.diagnostics.step_too_large import DIVERGED
from surefair.inference.checks import decision_diagnostics, training_diagnostics
from surefair.inference.interval import Context, Interval, Question, make_interval
from surefair.inference.sources import SOURCES, Tally
from surefair.training.checks import new_groups
from surefair.training.model import Model


def check_tally(model: Model, tally: Tally) -> None:
    """Refuse a tally that was counted for another model, or that has nothing to compare."""
    if tally.n_rows != model.n_rows:
        raise ValueError(
            f"The tally belongs to a fit of {tally.n_rows:,} rows, and this fit has {model.n_rows:,}. Count the "
            "evaluation rows again."
        )
    if tally.fingerprint != model.trained.fingerprint:
        raise ValueError(f"The tally belongs to another fit of {tally.n_rows:,} rows. Count the evaluation rows again.")
    tally.groups.check_comparable()
    if not tally.of_fit.rows.any():
        raise ValueError("There are no evaluation rows. Count at least one row of each group.")


def model_interval(model: Model, tally: Tally, question: Question, library: str = "pandas") -> Interval:
    """Interval for the unfairness of a model, from the counts of its decisions.

    Parameters
    ----------
    model : Model
    tally : Tally
    question : Question
        Its method must be the tally's.
    library : str
        Data-frame library of the tables.
    """
    fit = model.trained
    source = SOURCES[question.source]
    rates_b, trained = tally.rates(question.source, question.metric.rates, model.seed)
    found = [*training_diagnostics(fit), *model.order_diagnostics()] if source.training else []
    found += [one for one in model.diagnostics if one.forbids_verdict]
    if fit.is_finite:
        found += decision_diagnostics(tally.of_fit, tally.groups.sizes[0])
    if fit.is_finite and not source.evaluation:
        found += few_rows_near_boundary.check(tally.n_near)
    context = Context(
        positive=model.labels.values.tolist()[1],
        n_training=fit.n_rows,
        library=library,
        trouble="" if fit.is_finite else DIVERGED,
        notes=new_groups(tally.groups, model.groups, "not seen in training"),
        diagnostics=tuple(found),
    )
    interval = make_interval(question, tally.counts(question.source).of(0), tally.groups, rates_b, trained, context)
    if model.groups is None or not {*tally.groups.labels} <= {*model.groups.labels}:
        return interval
    return compared_with_tolerance(interval, model)


def compared_with_tolerance(interval: Interval, model: Model) -> Interval:
    """Add a diagnostic if the unfairness, measured as it was constrained, is clearly beyond the tolerance."""
    problem = model.problem
    bounded = model.trained.is_learnt and problem.surrogate == "decisions" and problem.penalty is None
    same = problem.criterion is not None and interval.metric == problem.criterion.name
    if not (bounded and same and SOURCES[interval.source].evaluation):
        return interval
    exceeded = exceeded_tolerance.check(interval.low, problem.tolerance)
    return replace(interval, diagnostics=(*interval.diagnostics, *exceeded))
