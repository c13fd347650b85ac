"""Plan: how many rows a verdict needs, before there are any.

The number of rows is the smallest with which simulated samples give the verdict often enough. A sample is a binomial
number of rows that count towards the rate in each group. Its limits are those that an interval would have: Jeffreys'
limits of rates, or exact ones where rows are few, combined for each pair of groups and held together by max-t.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import binom, norm

from surefair.inference.interval import VIOLATES, WITHIN, plain
from surefair.inference.limits import Pairs, check_level, mover, single_limits
from surefair.inference.moves import between
from surefair.pages.summary import summary
from surefair.rows import FloatArray, Groups, Levels, make_frame

SAMPLES = 4000
"""Simulated samples for each number of rows."""

MOST_ROWS = 10**10
"""Rows beyond which no plan is made."""

Numbers = Sequence[float] | Mapping[str, float]


@dataclass(frozen=True, eq=False, repr=False)
class Plan:
    """How many rows a verdict needs.

    Attributes
    ----------
    rows : int or inf
        Rows in all; infinite if no number of rows would be enough.
    verdict : str
        The verdict that is planned for: "within margin" or "violates margin".
    power : float
        Probability of that verdict with so many rows.
    margin : float
    ratio : bool
    confidence_level : float
    by_group : data frame
        One row per group: group, rate, share, and its rows.
    sentence : str
    """

    rows: float
    verdict: str
    power: float
    margin: float
    ratio: bool
    confidence_level: float
    _by_group: dict[str, list[Any]]
    sentence: str

    def __repr__(self) -> str:
        return f"<plan: {self.rows:,} rows for {self.verdict!r} with power {self.power:.3f}>"

    def __str__(self) -> str:
        return self.sentence

    @property
    def by_group(self) -> Any:
        """One row per group, as a data frame."""
        return make_frame(self._by_group)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON; an infinite number becomes None."""
        names = ("rows", "verdict", "power", "margin", "ratio", "confidence_level", "sentence")
        groups = [dict(zip(self._by_group, row, strict=True)) for row in zip(*self._by_group.values(), strict=True)]
        return {name: plain(getattr(self, name)) for name in names} | {"by_group": plain(groups)}

    def to_frame(self) -> Any:
        """Return one row per group: group, rate, share, and its rows."""
        return self.by_group

    def _repr_html_(self) -> str:
        groups = zip(self._by_group["group"], self._by_group["rows"], strict=True)
        return summary(self.sentence, {f"rows of group {name}": f"{rows:,}" for name, rows in groups})


def plan(
    margin: float,
    *,
    rates: Numbers,
    shares: Numbers | None = None,
    ratio: bool = False,
    power: float = 0.8,
    confidence_level: float = 0.95,
) -> Plan:
    """Plan how many rows are needed for a verdict.

    If the rates that you expect differ by less than the margin, the plan is for "within margin", otherwise for
    "violates margin".

    Parameters
    ----------
    margin : float
        The largest acceptable gap; with ``ratio=True``, the smallest acceptable ratio.
    rates : sequence or dict of float
        Rate that you expect in each group, for example of positive decisions.
    shares : sequence or dict of float, optional
        Share of each group among all rows, by default equal. For a rate that looks at some rows only, such as a
        true-positive rate, the share of all rows that enter it; so shares may add up to less than 1.
    ratio : bool
        Whether rates are compared by ratios.
    power : float
        Probability of the verdict.
    confidence_level : float
        That of the interval.

    Returns
    -------
    Plan

    Examples
    --------
    >>> found = plan(0.05, rates=[0.3, 0.3], shares=[0.9, 0.1])
    >>> found.rows, found.verdict
    (9768, 'within margin')
    >>> plan(0.05, rates={"f": 0.3, "m": 0.42}).verdict
    'violates margin'
    """
    design = _Design.of(margin, rates, shares, ratio, power, check_level(confidence_level))
    edge = -math.log(margin) if ratio else float(margin)
    gap = np.max(np.abs(design.pairs.gap(design.pairs.scale(design.rates[None]))))
    verdict = WITHIN if gap < edge else VIOLATES
    rows = _smallest(design, edge, verdict == WITHIN, power) if not math.isclose(gap, edge, rel_tol=1e-9) else math.inf
    reached = design.power(int(rows), edge, verdict == WITHIN) if rows < math.inf else 0.0
    sizes = design.sizes(int(rows)).astype(np.int64).tolist() if rows < math.inf else [math.inf] * len(design.names)
    if rows < math.inf and math.isclose(design.shares.sum(), 1.0):
        rows = sum(sizes)  # rounded in each group
    table = {"group": design.names, "rate": design.rates.tolist(), "share": design.shares.tolist(), "rows": sizes}
    return Plan(
        rows, verdict, reached, float(margin), bool(ratio), float(confidence_level), table,
        _sentence(rows, verdict, reached, float(margin), table),
    )  # fmt: skip


class _Design(NamedTuple):
    """What is planned for."""

    names: list[str]
    rates: FloatArray  # (groups,)
    shares: FloatArray  # (groups,)
    pairs: Pairs
    confidence_level: float  # of all gaps together

    @classmethod
    def of(cls, margin: Any, rates: Any, shares: Any, ratio: bool, power: Any, confidence_level: float) -> _Design:
        """Check what is asked for."""
        _check_share(margin, "margin", "0.05 for a difference or 0.8 for a ratio")
        _check_share(power, "power", "0.8")
        names, values = _numbers(rates, "rates")
        if len(values) < 2:
            raise ValueError(f"rates must have two or more groups; received {len(values)}.")
        parts = np.full(len(values), 1.0 / len(values))
        if shares is not None:
            others, parts = _numbers(shares, "shares")
            if sorted(others) != sorted(names):
                raise ValueError(f"rates and shares must have the same groups; received {names} and {others}.")
            parts = parts[[others.index(name) for name in names]]
        if (values == 0.0).any() and ratio:
            raise ValueError(f"With ratio=True rates must be larger than 0; received {values.tolist()}.")
        if (parts <= 0.0).any() or parts.sum() > 1.0 + 1e-9:
            raise ValueError(
                f"shares must be larger than 0 and add up to at most 1; received {parts.tolist()}, which add up to "
                f"{parts.sum():.6g}."
            )
        if (values == 0.0).all() or (values == 1.0).all():
            raise ValueError(
                f"rates are {values[0]:g} in every group. Decisions that are all the same say nothing, so no number of "
                "rows gives a verdict."
            )
        pairs = Pairs.of(Groups({None: Levels(np.array(names), "group")}), bool(ratio))
        return cls(names, values, parts, pairs, confidence_level)

    def sizes(self, n: int) -> FloatArray:
        """Rows of each group among n."""
        return np.asarray(np.maximum(np.rint(n * self.shares), 1.0))

    def power(self, n: int, edge: float, within: bool) -> float:
        """Share of simulated samples of n rows that give the verdict."""
        size = self.sizes(n)
        # the same uniform numbers for every n, so that the share hardly ever falls as n grows
        u = np.random.default_rng(0).random((SAMPLES, len(size)))
        counted = np.stack([_quantile(*of_group) for of_group in zip(u.T, size, self.rates, strict=True)], axis=1)
        level = _level(self.rates, size, self.pairs, self.confidence_level)
        ends = [np.empty_like(counted), np.empty_like(counted)]
        for g, n_g in enumerate(size):  # few counts differ
            different, code = np.unique(counted[:, g], return_inverse=True)
            found = single_limits(np.stack([different, n_g - different])[:, None], level)
            for end, of_group in zip(ends, found, strict=True):
                end[:, g] = of_group[0, code]
        low, high = mover(self.pairs.scale(counted / size), (ends[0], ends[1]), self.pairs)
        if within:
            return float(np.mean(((low >= -edge) & (high <= edge)).all(axis=1)))
        return float(np.mean(((low > edge) | (high < -edge)).any(axis=1)))


def _level(rates: FloatArray, size: FloatArray, pairs: Pairs, confidence_level: float) -> float:
    """Level of each gap at which all gaps hold together, with so many rows of each group."""
    if len(pairs.first) == 1:
        return confidence_level
    # replicates of an interval have these beta laws, by which a rate of 0 or 1 varies too
    drawn = np.random.default_rng(1).beta(size * rates + 0.5, size * (1.0 - rates) + 0.5, (20_000, 1, len(rates)))
    off = pairs.scale(drawn) - pairs.scale(rates)
    c = float(np.quantile(between(off, pairs).farthest, confidence_level))
    return max(1.0 - 2.0 * float(norm.sf(c)), confidence_level)


def _quantile(u: FloatArray, n: float, rate: float) -> FloatArray:
    """Quantiles of the binomial law; much faster than one by one.

    Examples
    --------
    >>> _quantile(np.array([0.1, 0.5, 0.9]), 4.0, 0.5)
    array([1., 2., 3.])
    """
    middle, reach = n * rate, 10.0 * math.sqrt(n * rate * (1.0 - rate)) + 10.0
    k = np.arange(max(0.0, math.floor(middle - reach)), min(n, math.ceil(middle + reach)) + 1.0)
    return np.asarray(k[np.searchsorted(binom.cdf(k, n, rate), u).clip(max=len(k) - 1)])


def _smallest(design: _Design, edge: float, within: bool, power: float) -> float:
    """Smallest number of rows with this power, to three digits."""
    low, high = 1.0, 2.0
    while design.power(int(high), edge, within) < power:
        low, high = high, 2.0 * high
        if high > MOST_ROWS:
            return math.inf
    while high - low > max(1.0, 1e-3 * high):
        middle = (low + high) / 2.0
        low, high = (low, middle) if design.power(int(middle), edge, within) >= power else (middle, high)
    return int(high)


def _sentence(rows: float, verdict: str, power: float, margin: float, table: dict[str, list[Any]]) -> str:
    """The plan in words."""
    expected = ", ".join(
        f"{rate:g} in group {name!r}" for name, rate in zip(table["group"], table["rate"], strict=True)
    )
    if rows == math.inf:
        return (
            f"With rates of {expected}, no number of rows gives a verdict on the margin {margin:g}: the largest gap is "
            "too close to it."
        )
    by_group = ", ".join(f"{n:,} of group {name!r}" for name, n in zip(table["group"], table["rows"], strict=True))
    return (
        f"{rows:,} rows ({by_group}) give the verdict {verdict!r} with a probability of {100.0 * power:.0f} %, if the "
        f"margin is {margin:g} and rates are {expected}."
    )


def _numbers(values: Any, what: str) -> tuple[list[str], FloatArray]:
    """Names and numbers of the groups."""
    names = [str(name) for name in values] if isinstance(values, Mapping) else None
    try:
        found = np.array([float(one) for one in (values.values() if isinstance(values, Mapping) else values)])
    except (TypeError, ValueError):
        raise ValueError(f"{what} must hold one number for each group; received {values!r}.") from None
    if not ((found >= 0.0) & (found <= 1.0)).all():
        raise ValueError(f"{what} must lie between 0 and 1; received {found.tolist()}.")
    return names or [str(number + 1) for number in range(len(found))], found


def _check_share(value: Any, what: str, example: str) -> None:
    if not (isinstance(value, Real) and 0.0 < float(value) < 1.0):
        raise ValueError(f"{what} must lie strictly between 0 and 1, for example {example}; received {value!r}.")
