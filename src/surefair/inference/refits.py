"""Refits: a learner trained again with random weights, as often as one can afford, and what its spread says.

A learner that can only be fitted as a whole is fitted once, and then B times with random weights. Few refits, ten for
example, are enough for intervals by Student's t law (the cheap bootstrap of Lam). Let g be the gap of the fit and g_b
those of the refits, all on the same rows.

- If refits differ only because of the data, g_b - g has the law of g - μ, where μ is the mean gap of such models, and
  the two are independent. The limits of μ are g ± t_B s, with s² the mean of (g_b - g)².
- If they also differ because of random numbers inside the learner (its seed), g itself has this noise. The mean of the
  refits has less of it: the limits are mean(g_b) ± t_{B-1} s √(1 + 1/B), with s the standard deviation of the g_b. They
  are wider than necessary by the share of seed noise in s.
- For a model that is trained again (``retraining``), √(1 + 1/B) becomes √(2 + 1/B), and 1 becomes √2.
- For ``total``, evaluation rows move the gap too. Distances of the limits from the gap, by training and by evaluation,
  add up as squares. What training contributes is what both halves of the evaluation rows show; see ``sources``.

Many refits give percentiles, as replicates do. Trees and networks change with the number of rows without end, so what
unlimited rows would give cannot be estimated: μ is the mean gap of models that are trained on this number of rows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t

from surefair.diagnostics import Diagnostic
from surefair.inference.arbitrariness import Arbitrariness, Decided
from surefair.inference.checks import decision_diagnostics
from surefair.inference.counts import Counts, count_decisions, rates_of
from surefair.inference.cross_fit import stretch
from surefair.inference.decisions import Evidence
from surefair.inference.interval import Context, Estimates, Interval, Question, interval_of, make_interval
from surefair.inference.limits import Gaps, Pairs, is_far
from surefair.inference.sample import Sample
from surefair.inference.sources import SOURCES, Tally
from surefair.rows import FloatArray

MANY = 100
"""Refits from which on percentiles are the default."""

METHODS = ("auto", "cheap", "percentile")

N_DRAWS = 2000
"""Draws of the evaluation rows, whatever the number of refits."""

ESTIMATES = {
    "training": "the mean gap, on these evaluation rows, of the models that this learner trains on {n} rows",
    "retraining": "the gap, on these evaluation rows, of a model trained again from scratch on {n} new rows",
    "evaluation": SOURCES["evaluation"].estimates,
    "total": "the mean gap, in the population, of the models that this learner trains on {n} rows",
}
"""What an interval of each source is for, in words."""


class Trained(NamedTuple):
    """What is known about a fit and its refits beside their decisions."""

    n_rows: int  # rows trained on
    n_units: int  # independent units among them: rows, or clusters
    seeded: bool  # whether refits differ by random numbers of the learner, too
    seed: int
    diagnostics: tuple[Diagnostic, ...] = ()


@dataclass(frozen=True, eq=False)
class Refits:
    """Decisions of a fit and its refits on evaluation rows.

    Attributes
    ----------
    sample : Sample
        Evaluation rows with the decisions of the fit, and then of each refit.
    trained : Trained
    """

    sample: Sample
    trained: Trained

    @property
    def n(self) -> int:
        """Number of refits."""
        return len(self.sample.decisions) - 1

    def interval(self, question: Question) -> Interval:
        """Answer a question; its method may be "auto"."""
        source = SOURCES[question.source]
        clustered = self.sample.keys is not None
        if question.method == "auto":
            many = self.n >= MANY and not (clustered and source.evaluation)
            question = question._replace(method="percentile" if many else "cheap")
        elif question.method == "percentile" and clustered and question.source == "total":
            raise ValueError("With clusters among the evaluation rows, use method='cheap', or leave method out.")
        if question.source == "evaluation":
            return self._evaluated(question)
        if self.n < 2:
            nothing = rates_of(question.metric.rates, self.counts)[:1]
            context = self._context(question.source)._replace(trouble=f"{self.n} refits succeeded, and two are needed")
            return make_interval(question, self.counts.of(0), self.sample.about.groups, nothing, context=context)
        return self._percentiles(question) if question.method == "percentile" else self._by_t(question)

    def arbitrariness(self, confidence_level: float) -> Arbitrariness:
        """Estimate how often two fresh models disagree about a row."""
        sample = self.sample
        decided = Decided(np.stack(sample.decisions[1:], axis=1) > 0, sample.codes, sample.weight)
        about = sample.about
        return Arbitrariness.of(decided, about.groups, about.library, confidence_level, self.trained.n_rows)

    def _context(self, source: str) -> Context:
        about = self.sample.about
        found = [*self.trained.diagnostics] if SOURCES[source].training else []
        found += decision_diagnostics(self.counts.of(0), about.groups.sizes[0])
        return Context(
            positive=about.positive,
            n_training=self.trained.n_rows,
            library=about.library,
            notes=". ".join(about.notes),
            diagnostics=tuple(found),
            estimates=ESTIMATES[source].format(n=f"{self.trained.n_rows:,}"),
        )

    # -- Counts -------------------------------------------------------------------------------------------------------

    @cached_property
    def counts(self) -> Counts:
        """Counts of the fit and its refits, arrays of shape (1 + B, groups, 2, 2)."""
        return self._count(np.ones(len(self.sample.truth), dtype=np.bool_))

    @cached_property
    def halves(self) -> tuple[Counts, Counts]:
        """The same on two random halves of the rows."""
        n = len(self.sample.truth)
        first = np.zeros(n, dtype=np.bool_)
        first[np.random.default_rng(self.trained.seed).permutation(n)[: n // 2]] = True
        return self._count(first), self._count(~first)

    def _count(self, some: NDArray[np.bool_]) -> Counts:
        sample = self.sample
        weight = None if (sample.weight == 1.0).all() else sample.weight[some]
        sizes = sample.about.groups.sizes
        tables = [count_decisions(one[some], sample.truth[some], sample.codes[some], sizes, weight)
                  for one in sample.decisions]  # fmt: skip
        return Counts(*(np.stack(kind) for kind in zip(*tables, strict=True)))

    # -- Limits -------------------------------------------------------------------------------------------------------

    def _evaluated(self, question: Question) -> Interval:
        """Interval of source "evaluation", from the decisions of the fit alone."""
        alone = replace(self.sample, decisions=self.sample.decisions[:1])
        clusters = alone.clustered(N_DRAWS, self.trained.seed)
        counts = alone.counts if clusters is None else clusters.counts
        evidence = Evidence(alone.about, counts, clusters, N_DRAWS, self.trained.seed)
        found = evidence.interval(question._replace(source="evaluation", method="percentile"))
        context = self._context("evaluation")
        diagnostics = tuple(dict.fromkeys((*context.diagnostics, *found.diagnostics)))
        return replace(found, n_training=self.trained.n_rows, diagnostics=diagnostics)

    def _tally(self, source: str) -> Tally:
        parts = self.halves if source == "total" else (self.counts,)
        groups = self.sample.about.groups
        return Tally(self.trained.n_rows, "", "percentile", groups, {source: parts}, np.empty((0, 2)))

    def _percentiles(self, question: Question) -> Interval:
        """Interval by percentiles, as those of a model with replicates."""
        rates, source = question.metric.rates, question.source
        rates_b, trained = self._tally(source).rates(source, rates, self.trained.seed)
        if source == "retraining":
            rates_b = stretch(rates_of(rates, self.counts.of(0)), rates_b, question.metric.ratio)
        groups = self.sample.about.groups
        return make_interval(question, self.counts.of(0), groups, rates_b, trained, self._context(source))

    def _by_t(self, question: Question) -> Interval:
        """Interval by Student's t law."""
        metric, source = question.metric, question.source
        groups = self.sample.about.groups
        pairs = Pairs.of(groups, metric.ratio)
        measured = rates_of(metric.rates, self.counts)  # (1 + B, rates, groups)
        moved = measured
        if source == "total":
            _, settled = self._tally(source).rates(source, metric.rates, self.trained.seed)
            assert settled is not None
            moved = np.concatenate([measured[:1], settled])
        level = question.confidence_level
        rate = self._limits(moved, source, level)
        gap_here = pairs.gap(pairs.scale(measured[0]))
        each = 1.0 - (1.0 - level) / gap_here.size  # Bonferroni
        gap = self._limits(pairs.gap(pairs.scale(moved)), source, each)
        ends = _Ends(rate.low, rate.high), _Ends(gap.low, gap.high)
        spread_evaluation = np.zeros_like(gap_here)
        context = self._context(source)
        if source == "total":
            found = self._evaluated(question)
            context = context._replace(diagnostics=tuple(dict.fromkeys((*context.diagnostics, *found.diagnostics))))
            by_group = _Ends.of(found._by_group, measured[0].shape)
            by_pair = _Ends.of(found._by_pair, gap_here.shape)
            spread_evaluation = np.array(found._by_pair["spread_evaluation"]).reshape(gap_here.shape)
            ends = ends[0].and_also(by_group, measured[0]), ends[1].and_also(by_pair, gap_here)
        low, high = (end.clip(0.0, 1.0) for end in ends[0])
        sure = ~np.isnan(gap_here) & ~np.isnan(gap.spread) & ~is_far(gap_here) & ~is_far(gap.spread)
        gaps = Gaps(pairs.finish(gap_here), pairs.finish(ends[1].low), pairs.finish(ends[1].high), sure)
        n = np.stack([one.tally(self.counts.of(0).rows)[1] for one in metric.rates]).astype(np.int64)
        known = ~np.isnan(measured[0])
        estimates = Estimates(n, measured[0], np.where(known, low, 0.0), np.where(known, high, 1.0), gaps,
                              gap.spread, spread_evaluation)  # fmt: skip
        return interval_of(question, estimates, groups, len(self.sample.truth), context)

    def _limits(self, values: FloatArray, source: str, level: float) -> _Limits:
        """Limits by training alone, from values of the fit and its refits along the first axis."""
        fit, refits = values[0], values[1:]
        B = len(refits)
        if self.trained.seeded:
            centre, freedom = refits.mean(axis=0), B - 1
            variance = refits.var(axis=0, ddof=1) * ((2.0 if source == "retraining" else 1.0) + 1.0 / B)
        else:
            centre, freedom = fit, B
            variance = np.mean((refits - fit) ** 2, axis=0) * (2.0 if source == "retraining" else 1.0)
        n = self.trained.n_units
        spread = np.sqrt(variance * n / max(n - 1.0, 1.0))  # few clusters differ less than others would
        half = float(t.isf((1.0 - level) / 2.0, freedom)) * spread
        return _Limits(np.fmin(centre - half, fit), np.fmax(centre + half, fit), spread)


class _Limits(NamedTuple):
    """Limits by training alone, and the spread behind them."""

    low: FloatArray
    high: FloatArray
    spread: FloatArray


class _Ends(NamedTuple):
    """Lower and upper limits."""

    low: FloatArray
    high: FloatArray

    @classmethod
    def of(cls, table: dict[str, list[float]], shape: tuple[int, ...]) -> _Ends:
        """Limits in a table of an interval."""
        return cls(*(np.array(table[name], dtype=np.float64).reshape(shape) for name in ("low", "high")))

    def and_also(self, other: _Ends, value: FloatArray) -> _Ends:
        """Limits by two independent sources: distances from the value add up as squares."""
        with np.errstate(invalid="ignore"):
            low = value - np.hypot(value - self.low, value - other.low)
            high = value + np.hypot(self.high - value, other.high - value)
        return _Ends(low, high)
