"""Arbitrariness: how often two models that are trained on different rows disagree about a person.

If the share q of B replicates decides positively on a row, two of them, picked at random, disagree about it with
probability 2 q (1 - q) B / (B - 1). Replicates differ from each other as models do that are trained on fresh rows, so
the mean over rows estimates how often two fresh models disagree. (To count how often replicates differ from the fit
would give less: the fit lies in the middle of them.)

The estimate is uncertain because of the evaluation rows, and because there are few replicates. It is a U-statistic of
pairs of replicates, whose variance the jackknife estimates. The two variances add, and limits are by Student's t law
with Welch's degrees of freedom, on the scale of logits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit
from scipy.stats import t

from surefair.inference.interval import plain
from surefair.inference.limits import Pairs, single_limits
from surefair.pages.summary import summary
from surefair.rows import FloatArray, Groups, IntArray, make_frame


@dataclass(frozen=True, eq=False, repr=False)
class Arbitrariness:
    """Probability that two models, each trained on as many fresh rows, disagree about a row.

    Attributes
    ----------
    estimate, low, high : float
        The probability over all rows, with its confidence interval.
    by_group : data frame
        One row per group: group, n, estimate, low, high, where the limits hold for each group separately; before them
        column, where columns have names.
    by_pair : data frame
        One row per pair of groups: first, second, gap (difference of their probabilities), low, high, where the limits
        hold for all pairs together.
    n : int
        Evaluation rows.
    n_training : int
        Rows that each model is trained on.
    n_replicates : int
    confidence_level : float
    sentence : str
    """

    estimate: float
    low: float
    high: float
    _by_group: dict[str, list[Any]]
    _by_pair: dict[str, list[Any]]
    _library: str
    n: int
    n_training: int
    n_replicates: int
    confidence_level: float
    sentence: str

    @classmethod
    def of(
        cls, decided: Decided, groups: Groups, library: str, confidence_level: float, n_training: int
    ) -> Arbitrariness:
        """Estimate it from the decisions of replicates.

        Parameters
        ----------
        decided : Decided
        groups : Groups
        library : str
            Data-frame library of the tables.
        confidence_level : float
        n_training : int
        """
        parts = [_Part.of(decided, inside) for inside in decided.members(groups)]
        whole = _Part.of(decided, np.ones(len(decided.weight), dtype=np.bool_))
        by_group = groups.table() | {"n": [part.n for part in parts]}
        ends = [part.limits(confidence_level) for part in parts]
        by_group |= {"estimate": [part.value for part in parts]}
        by_group |= {"low": [low for low, _ in ends], "high": [high for _, high in ends]}
        pairs = Pairs.of(groups, ratio=False)
        level = 1.0 - (1.0 - confidence_level) / max(1, len(pairs.first))
        gaps = [parts[a].minus(parts[b], level) for a, b in zip(pairs.first, pairs.second, strict=True)]
        by_pair = groups.table(pairs.first, "first") | groups.table(pairs.second, "second")
        by_pair |= {name: [gap[i] for gap in gaps] for i, name in enumerate(("gap", "low", "high"))}
        low, high = whole.limits(confidence_level)
        words = _sentence(whole, (low, high), parts, groups, confidence_level, n_training)
        return cls(whole.value, low, high, by_group, by_pair, library, whole.n, n_training,
                   decided.positive.shape[1], confidence_level, words)  # fmt: skip

    def __repr__(self) -> str:
        numbers = f"{self.estimate:.4f} [{self.low:.4f}, {self.high:.4f}]"
        return f"<arbitrariness, {self.confidence_level:.6g}: {numbers}>"

    def __str__(self) -> str:
        return self.sentence

    @property
    def by_group(self) -> Any:
        """One row per group, as a data frame."""
        return make_frame(self._by_group, like=self._library)

    @property
    def by_pair(self) -> Any:
        """One row per pair of groups, as a data frame."""
        return make_frame(self._by_pair, like=self._library)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON; an undefined number becomes None."""
        names = ("estimate", "low", "high", "n", "n_training", "n_replicates", "confidence_level", "sentence")
        found = {name: plain(getattr(self, name)) for name in names}
        for name, table in (("by_group", self._by_group), ("by_pair", self._by_pair)):
            columns = plain(table)
            found[name] = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
        return found

    def to_frame(self) -> Any:
        """Return the table of groups."""
        return self.by_group

    def _repr_html_(self) -> str:
        rows = self.to_dict()["by_group"]
        table = {"all rows": f"{self.estimate:.4f} [{self.low:.4f}, {self.high:.4f}]"}
        for row in rows:
            head = f"{row['column']} = {row['group']}" if "column" in row else str(row["group"])
            shown = (row[name] for name in ("estimate", "low", "high"))
            value, low, high = ("undefined" if one is None else f"{one:.4f}" for one in shown)
            table[head] = f"{value} [{low}, {high}]"
        return summary(self.sentence, table)


class Decided(NamedTuple):
    """Decisions of replicates on evaluation rows."""

    positive: NDArray[np.bool_]  # (n, B)
    codes: IntArray  # (n, columns), group of each row in each sensitive column
    weight: FloatArray  # (n,)

    def members(self, groups: Groups) -> list[NDArray[np.bool_]]:
        """Which rows each group has."""
        return [self.codes[:, column] == code for column, size in enumerate(groups.sizes) for code in range(size)]


class _Part(NamedTuple):
    """How often replicates disagree about some rows."""

    n: int
    value: float  # NaN without rows
    rows: float  # variance because of the rows
    others: FloatArray  # (B,), the value without each replicate
    effective: float  # rows, as many as their weights are worth

    @classmethod
    def of(cls, decided: Decided, inside: NDArray[np.bool_]) -> _Part:
        inside = inside & (decided.weight > 0.0)
        weight, D = decided.weight[inside], decided.positive[inside].astype(np.float64)
        B = D.shape[1]
        if not len(weight):
            return cls(0, np.nan, np.nan, np.full(B, np.nan), 0.0)
        share = weight / weight.sum()
        q = D.mean(axis=1)
        each = 2.0 * q * (1.0 - q) * B / (B - 1)
        value = float(share @ each)
        both = (D * share[:, None]).T @ (1.0 - D)
        apart = (both + both.T).sum(axis=1)  # of each replicate, from all others
        total = apart.sum()
        others = (total - 2.0 * apart) / ((B - 1) * (B - 2)) if B > 2 else np.full(B, np.nan)
        worth = 1.0 / float(share @ share)
        rows = float(share**2 @ (each - value) ** 2) * worth / max(worth - 1.0, 1.0)
        return cls(len(weight), value, rows, others, worth)

    @property
    def replicates(self) -> float:
        """Variance because of the replicates."""
        return _jackknife(self.others)

    def limits(self, confidence_level: float) -> tuple[float, float]:
        """Confidence limits."""
        variance = self.rows + self.replicates
        if not np.isfinite(variance):
            return 0.0, 1.0
        if variance == 0.0 or not 0.0 < self.value < 1.0:  # no row shows how much the others may differ
            counted = self.effective * self.value
            low, high = single_limits(np.array([[counted], [self.effective - counted]]), confidence_level)
            return float(low[0]), float(high[0])
        half = _quantile(confidence_level, self.rows, self.effective - 1.0, self.replicates, len(self.others) - 1.0)
        half *= np.sqrt(variance) / (self.value * (1.0 - self.value))
        centre = logit(self.value)
        return float(expit(centre - half)), float(expit(centre + half))

    def minus(self, other: _Part, confidence_level: float) -> tuple[float, float, float]:
        """Difference from another part, with its limits."""
        gap = self.value - other.value
        rows, replicates = self.rows + other.rows, _jackknife(self.others - other.others)
        if not np.isfinite(rows + replicates):
            return gap, -1.0, 1.0
        freedom = max(min(self.effective, other.effective) - 1.0, 1.0)
        half = _quantile(confidence_level, rows, freedom, replicates, len(self.others) - 1.0)
        half *= np.sqrt(rows + replicates)
        return gap, max(gap - half, -1.0), min(gap + half, 1.0)


def _jackknife(others: FloatArray) -> float:
    """Variance of a statistic, from its values without each replicate."""
    return float((len(others) - 1.0) * np.var(others))


def _quantile(level: float, a: float, freedom_a: float, b: float, freedom_b: float) -> float:
    """Quantile of Student's t law for the sum of two variances, with Welch's degrees of freedom."""
    below = a**2 / max(freedom_a, 1.0) + b**2 / max(freedom_b, 1.0)
    freedom = (a + b) ** 2 / below if below > 0.0 else np.inf
    return float(t.isf((1.0 - level) / 2.0, freedom))


def _sentence(
    whole: _Part, ends: tuple[float, float], parts: list[_Part], groups: Groups, level: float, n_training: int
) -> str:
    """The probability with its limits, and the groups in which it is largest and smallest, in words."""
    words = (
        f"Two models, each trained on {n_training:,} fresh rows, disagree about {100.0 * whole.value:.1f} % of the "
        f"rows ({100.0 * level:.6g} % confidence interval {100.0 * ends[0]:.1f} % to {100.0 * ends[1]:.1f} %)"
    )
    known = [g for g, part in enumerate(parts) if not np.isnan(part.value)]
    most, least = (pick(known, key=lambda g: parts[g].value) for pick in (max, min))
    if most == least:
        return f"{words}."
    shown = (f"{groups.words[g]} ({100.0 * parts[g].value:.1f} %)" for g in (most, least))
    return f"{words}: most in {next(shown)}, least in {next(shown)}."
