"""Thresholds: rates and gaps between groups at every threshold of a score, with bands that hold for all of them.

Rows are counted by group, truth, and the thresholds between which their score lies. A replicate has one random weight
per cell of that table, so neighbouring thresholds move together in it, as they do in new data. The bands are at the
same multiple of the spread at every threshold, and that multiple is large enough for all rates, or all gaps, to stay
within them in 95 % of the replicates (max-t). They are at least as wide as those made of Jeffreys' limits of the two
rates at that multiple, or of exact ones where rows are few. So whoever picks a threshold after a look at the curve may
still trust the band there.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import norm

from surefair.criteria import Criterion
from surefair.inference.counts import Counts, effective_sides, rates_of
from surefair.inference.interval import UNDECIDED, VIOLATES, WITHIN, plain
from surefair.inference.limits import Pairs, check_level, fold, gap_limits, single_limits
from surefair.inference.metric import Metric, get_metric
from surefair.inference.moves import normal_tables, rate_moves
from surefair.inference.sample import Input, check_numbers, decide, relative_weight
from surefair.inference.scores import as_scores
from surefair.pages.summary import summary
from surefair.rows import FloatArray, Groups, as_columns, library_of, make_frame, same_length

N_THRESHOLDS = 49
"""Thresholds by default: so many quantiles of the scores."""

MOST_THRESHOLDS = 1000


@dataclass(frozen=True, eq=False, repr=False)
class ThresholdCurve:
    """Unfairness of the decisions that each threshold of a score gives.

    Attributes
    ----------
    thresholds : list of float
        A score of at least the threshold is a positive decision.
    by_group : data frame
        One row per threshold, rate and group: threshold, column (where columns have names), metric (where there are
        several rates), group, n, rate, low, high. The limits hold for all of these rates together.
    by_pair : data frame
        One row per threshold, rate and pair of groups: the signed gap, low, high. The limits hold for all of these
        gaps together; for a ratio, gaps are logarithms.
    metric : str
    confidence_level : float
    n : int
        Evaluation rows.
    sentence : str

    Examples
    --------
    >>> import surefair as sf
    >>> rng = np.random.default_rng(0)
    >>> group = rng.choice(["a", "b"], 2_000)
    >>> score = rng.random(2_000) ** np.where(group == "a", 1.0, 1.5)
    >>> curve = sf.threshold_curve(None, score, sensitive_features=group, thresholds=[0.25, 0.5, 0.75])
    >>> curve.to_frame()[["threshold", "estimate", "low", "high"]].round(3)
       threshold  estimate    low   high
    0       0.25     0.154  0.104  0.203
    1       0.50     0.105  0.053  0.157
    2       0.75     0.075  0.032  0.119
    >>> curve.verdicts(0.2)
    ['not enough evidence', 'within margin', 'within margin']
    """

    thresholds: list[float]
    _table: dict[str, list[Any]]
    _by_group: dict[str, list[Any]]
    _by_pair: dict[str, list[Any]]
    _library: str
    metric: str
    confidence_level: float
    n: int
    sentence: str

    def __repr__(self) -> str:
        return f"<{self.metric} at {len(self.thresholds)} thresholds, {self.confidence_level:.6g}, {self.n:,} rows>"

    def __str__(self) -> str:
        return self.sentence

    @property
    def by_group(self) -> Any:
        """One row per threshold, rate and group, as a data frame."""
        return make_frame(self._by_group, like=self._library)

    @property
    def by_pair(self) -> Any:
        """One row per threshold, rate and pair of groups, as a data frame."""
        return make_frame(self._by_pair, like=self._library)

    def verdicts(self, margin: float) -> list[str]:
        """Verdict at each threshold; all of them hold together at the confidence level.

        Parameters
        ----------
        margin : float
            The largest acceptable gap; for a ratio, the smallest acceptable ratio.

        Returns
        -------
        list of {"within margin", "violates margin", "not enough evidence"}
        """
        if not (isinstance(margin, Real) and 0.0 < float(margin) < 1.0):
            raise ValueError(f"margin must lie strictly between 0 and 1, for example 0.05; received {margin!r}.")
        ends = zip(self._table["low"], self._table["high"], strict=True)
        if self.metric.endswith("_ratio"):
            return [WITHIN if low >= margin else VIOLATES if high < margin else UNDECIDED for low, high in ends]
        return [WITHIN if high <= margin else VIOLATES if low > margin else UNDECIDED for low, high in ends]

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON; an undefined or infinite number becomes None."""
        names = ("metric", "confidence_level", "n", "sentence", "thresholds")
        tables = {"curve": self._table, "by_group": self._by_group, "by_pair": self._by_pair}
        return {name: plain(getattr(self, name)) for name in names} | {
            name: [plain(dict(zip(table, row, strict=True))) for row in zip(*table.values(), strict=True)]
            for name, table in tables.items()
        }

    def to_frame(self) -> Any:
        """Return one row per threshold: threshold, unfairness with limits, and the two groups that differ most."""
        return make_frame(self._table, like=self._library)

    def _repr_html_(self) -> str:
        rows = zip(*self._table.values(), strict=True)
        return summary(
            self.sentence, {f"{row[0]:.4g}": f"{row[1]:.4f} [{row[2]:.4f}, {row[3]:.4f}]" for row in rows}
        )  # fmt: skip


def threshold_curve(
    y_true: Any,
    y_score: Any,
    *,
    sensitive_features: Any,
    metric: str | Criterion = "demographic_parity",
    thresholds: Sequence[float] | None = None,
    pos_label: Any = None,
    sample_weight: Any = None,
    intersections: bool = False,
    confidence_level: float = 0.95,
    n_replicates: int = 2000,
    random_state: int = 0,
) -> ThresholdCurve:
    """Measure how differently groups are treated at every threshold of a score.

    Parameters
    ----------
    y_true : array-like of shape (n_rows,) or None
        Labels, two values of any type; None if the metric needs no labels.
    y_score : array-like of shape (n_rows,)
        Scores: numbers, larger for rows that are more likely to get a positive decision.
    sensitive_features, metric, pos_label, sample_weight, intersections
        As in ``fairness_interval``.
    thresholds : sequence of float, optional
        By default 49 quantiles of the scores, from 2 % to 98 %.
    confidence_level, n_replicates, random_state
        As in ``fairness_interval``.

    Returns
    -------
    ThresholdCurve
        Its bands hold for all these thresholds together, so you may choose one after you have seen them.

    Examples
    --------
    >>> curve = threshold_curve(None, [0.1, 0.4, 0.6, 0.9] * 50, sensitive_features=["a", "a", "b", "b"] * 50,
    ...                         thresholds=[0.5])
    >>> curve.verdicts(0.3)
    ['violates margin']
    """
    measured = get_metric(metric)
    check_level(confidence_level)
    check_numbers(n_replicates, random_state)
    given = Input(sensitive_features, intersections, sample_weight, pos_label=pos_label)
    counted = _Counted.of(y_true, y_score, thresholds, measured, given)
    bands = _bands(counted, measured, confidence_level, n_replicates, random_state)
    return _curve(counted, bands, measured, confidence_level, library_of(_like(sensitive_features)))


class _Counted(NamedTuple):
    """Rows by group, truth and bin; bin j holds the scores from threshold j - 1 on and below threshold j."""

    counts: Counts  # arrays of shape (groups, 2, thresholds + 1)
    thresholds: FloatArray
    groups: Groups

    @classmethod
    def of(cls, y_true: Any, y_score: Any, thresholds: Any, metric: Metric, given: Input) -> _Counted:
        """Check rows and thresholds, and count."""
        if y_true is None and metric.needs_labels:
            raise ValueError(
                f"y_true is None, and the metric {metric.name!r} needs labels. Pass the labels, or use "
                "metric='demographic_parity', which needs none."
            )
        score = as_scores(y_score, "y_score must hold numbers")
        columns = as_columns(given.sensitive_features, given.intersections)
        truth = np.zeros(len(score), dtype=np.int64)
        if y_true is not None:
            truth = decide(y_true, [y_true], "", given.pos_label, None).truth
        first = next(iter(columns.values()))
        n = same_length(y_true=truth, y_score=score, sensitive_features=first.code)
        groups = Groups.of(columns).check_comparable()
        weight = relative_weight(given.sample_weight, n)
        at = _thresholds(thresholds, score)
        cell = (2 * (groups.codes(columns) + np.array(groups.offsets)) + truth[:, None]) * (len(at) + 1)
        cell += np.searchsorted(at, score, side="right")[:, None]
        shape = (sum(groups.sizes), 2, len(at) + 1)
        some = np.repeat(weight, cell.shape[1])
        kinds = (some > 0.0, some, some**2)
        tables = (np.bincount(cell.ravel(), kind, minlength=int(np.prod(shape))) for kind in kinds)
        counts = Counts(*(np.asarray(table, dtype=np.float64).reshape(shape) for table in tables))
        return cls(counts, at, groups)

    def decided(self, tables: FloatArray) -> FloatArray:
        """Counts by decision at each threshold, shape (thresholds, ..., groups, 2, 2)."""
        below = np.cumsum(tables, axis=-1)
        negative = below[..., :-1]
        both = np.stack([negative, below[..., -1:] - negative], axis=-1)  # (..., groups, 2, thresholds, decision)
        return np.moveaxis(both, -2, 0)


class _Bands(NamedTuple):
    """Rates and gaps of all thresholds with limits; first axes are thresholds and rates."""

    n: FloatArray  # (thresholds, rates, groups)
    rate: FloatArray
    low: FloatArray
    high: FloatArray
    gap: FloatArray  # (thresholds, rates, pairs)
    gap_low: FloatArray
    gap_high: FloatArray


def _bands(counted: _Counted, metric: Metric, level: float, n_replicates: int, seed: int) -> _Bands:
    """Rates and gaps at every threshold, with limits that hold together."""
    rates = metric.rates
    pairs = Pairs.of(counted.groups, metric.ratio)
    counts = Counts(*(counted.decided(table) for table in counted.counts))
    measured = rates_of(rates, counts)  # (thresholds, rates, groups)
    shape = measured.shape
    tables = counted.decided(normal_tables(counted.counts, n_replicates, seed))
    off = np.stack([rate_moves(rates, counts.of(j), tables[j]) for j in range(len(tables))], axis=1)
    flat = (shape[0] * shape[1], shape[2])
    measured, off = measured.reshape(flat), off.reshape(-1, *flat)
    effective = effective_sides(rates, counts).reshape(2, *flat)
    moved = measured + off
    if metric.ratio:  # the same movement on the scale of logarithms, which keeps rates above 0
        part = np.divide(off, measured, out=np.zeros_like(off), where=np.nan_to_num(measured) > 0.0)
        moved = measured * np.exp(part)
    gaps = gap_limits(measured, moved, pairs, effective, level, "normal")
    top = np.inf if metric.ratio else 1.0
    low, high = np.where(gaps.sure, gaps.low, -top), np.where(gaps.sure, gaps.high, top)
    rate_low, rate_high = _rate_bands(measured, off, effective, level)
    n = np.stack([rate.tally(counts.rows)[1] for rate in rates], axis=1)
    of_pairs = (*shape[:2], len(pairs.first))
    return _Bands(
        n=n, rate=measured.reshape(shape), low=rate_low.reshape(shape), high=rate_high.reshape(shape),
        gap=gaps.gap.reshape(of_pairs), gap_low=low.reshape(of_pairs), gap_high=high.reshape(of_pairs),
    )  # fmt: skip


def _rate_bands(
    measured: FloatArray, off: FloatArray, effective: FloatArray, level: float
) -> tuple[FloatArray, FloatArray]:
    """Limits of all rates that hold together, shape (rates, groups); [0, 1] where a rate is undefined."""
    spread = np.sqrt(np.mean(off**2, axis=0))
    far = np.divide(np.abs(off), spread, out=np.zeros_like(off), where=np.nan_to_num(spread) > 0.0)
    c = float(np.quantile(far.max(axis=(1, 2)), level, method="weibull"))
    c = max(c, float(norm.isf((1.0 - level) / 2.0)))
    exact_low, exact_high = single_limits(effective, 1.0 - 2.0 * float(norm.sf(c)))
    low = np.fmin(measured - c * spread, exact_low).clip(0.0, 1.0)
    high = np.fmax(measured + c * spread, exact_high).clip(0.0, 1.0)
    undefined = np.isnan(measured)
    return np.where(undefined, 0.0, low), np.where(undefined, 1.0, high)


def _curve(counted: _Counted, bands: _Bands, metric: Metric, level: float, library: str) -> ThresholdCurve:
    """Tables and a sentence."""
    groups, at = counted.groups, counted.thresholds.tolist()
    pairs = Pairs.of(groups, metric.ratio)
    table: dict[str, list[Any]] = {name: [] for name in ("threshold", "estimate", "low", "high", "first", "second")}
    names = groups.table(pairs.first, "first") | groups.table(pairs.second, "second")
    for j, t in enumerate(at):
        unfair, best = _largest(bands.gap[j], bands.gap_low[j], bands.gap_high[j], metric.ratio)
        row = (t, *unfair, names["first"][best], names["second"][best])
        for name, value in zip(table, row, strict=True):
            table[name].append(value)
    by_group = _long(at, metric, groups.table(), {"n": bands.n.astype(np.int64), "rate": bands.rate,
                                                  "low": bands.low, "high": bands.high})  # fmt: skip
    by_pair = _long(at, metric, names, {"gap": bands.gap, "low": bands.gap_low, "high": bands.gap_high})
    n = int(counted.counts.rows[: groups.sizes[0]].sum())
    words = _sentence(table, metric, level, n)
    return ThresholdCurve(at, table, by_group, by_pair, library, metric.name, float(level), n, words)


def _largest(gap: FloatArray, low: FloatArray, high: FloatArray, ratio: bool) -> tuple[list[float], int]:
    """Unfairness at one threshold with its limits, and the pair that differs most, from arrays (rates, pairs)."""
    known = np.where(np.isnan(gap), -1.0, np.abs(gap))
    best = int(np.argmax(known.max(axis=0)))
    size = float(np.abs(gap[int(np.argmax(known[:, best])), best]))
    folded = [fold(*ends) for ends in zip(low.ravel().tolist(), high.ravel().tolist(), strict=True)]
    least, most = (max(ends) for ends in zip(*folded, strict=True))
    return ([math.exp(-size), math.exp(-most), math.exp(-least)] if ratio else [size, least, most]), best


def _long(
    at: list[float], metric: Metric, names: dict[str, list[Any]], numbers: dict[str, Any]
) -> dict[str, list[Any]]:
    """Tidy columns of arrays (thresholds, rates, rows)."""
    rates = [rate.name for rate in metric.rates]
    n = len(next(iter(names.values())))
    table: dict[str, list[Any]] = {"threshold": [t for t in at for _ in range(len(rates) * n)]}
    if len(rates) > 1:
        table["metric"] = [rate for _ in at for rate in rates for _ in range(n)]
    table |= {name: values * (len(rates) * len(at)) for name, values in names.items()}
    return table | {name: values.ravel().tolist() for name, values in numbers.items()}


def _sentence(table: dict[str, list[Any]], metric: Metric, level: float, n: int) -> str:
    """Say where the unfairness is largest, in words."""
    known = [j for j, value in enumerate(table["estimate"]) if not math.isnan(value)]
    what = "smallest ratio" if metric.ratio else "largest unfairness"
    head = (
        f"Over {len(table['threshold'])} thresholds from {table['threshold'][0]:.4g} to {table['threshold'][-1]:.4g}, "
    )
    if not known:
        return f"{head}{metric.name} is defined nowhere on the {n:,} rows."
    worst = (min if metric.ratio else max)(known, key=lambda j: table["estimate"][j])
    t, estimate, low, high, first, second = (values[worst] for values in table.values())
    return (
        f"{head}the {what} in {metric.name} is {estimate:.3f} at {t:.4g}, between groups {first!r} and {second!r} "
        f"({low:.3f} to {high:.3f}). The bands hold for all thresholds together with {100.0 * level:.6g} % confidence, "
        f"on {n:,} rows."
    )


def _thresholds(thresholds: Any, score: FloatArray) -> FloatArray:
    """Thresholds in increasing order, each once."""
    if thresholds is None:
        return np.unique(np.quantile(score, np.linspace(0.02, 0.98, N_THRESHOLDS), method="inverted_cdf"))
    try:
        found = np.unique(np.asarray([float(one) for one in thresholds]))
    except (TypeError, ValueError):
        raise ValueError(f"thresholds must be a list of numbers; received {thresholds!r}.") from None
    if not 1 <= len(found) <= MOST_THRESHOLDS or not np.isfinite(found).all():
        raise ValueError(
            f"thresholds must be 1 to {MOST_THRESHOLDS:,} finite numbers; received {len(found):,}"
            f"{'' if np.isfinite(found).all() else ', some of which are not finite'}."
        )
    return found


def _like(sensitive_features: Any) -> Any:
    """What says which data-frame library results should be in."""
    return next(iter(sensitive_features.values())) if isinstance(sensitive_features, dict) else sensitive_features
