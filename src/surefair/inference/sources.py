"""Sources of uncertainty: what the interval of each source estimates, and how it is computed.

What moves from replicate to replicate decides what an interval covers:

- ``training``: the models of the replicates, on the evaluation rows as they are. Steps leave a bias of the order of
  their size times the variance of the gradients, which is twice as large in replicates: replicates lie as far from the
  fit as the fit lies from the optimum. Mirrored at the fit, for percentiles, they lie around the optimum.
- ``retraining``: the model of a second, independent fit on as many new rows. It has the same bias as this fit, and the
  two differ by √2 times the spread of one, so replicates are not mirrored but stretched by √2 about their mean.
- ``evaluation``: the weights of the evaluation rows, with the model as it is.
- ``total``: both. On a sample, gaps also move from replicate to replicate because the sample has these rows, not
  others, near the boundary. That is noise of the evaluation rows, which reweighting already covers; counted twice it
  would make intervals too wide. So rows are counted in two random halves: a movement that is real in the population
  shows in both halves, and noise shows in one.

Evaluation rows are reweighted as in the Bayesian bootstrap: in every replicate every row gets its own Exp(1) weight.
The weights of the n rows that count towards a group's rate add up to a Gamma(n) number, which is drawn directly, from
the seekable uniform number of (seed, group, replicate), and so do those of the rows that do not count towards it. Both
get half a row extra (Jeffreys' prior), without which a rate of 0 among three rows would claim to be 0 for certain. With
sample weights cᵢ the sum has mean C = Σcᵢ and variance Q = Σcᵢ², and is drawn as Q/C times a Gamma(C²/Q) number.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaincinv, ndtri, stdtrit

from surefair.criteria import Rate
from surefair.inference.cluster_counts import Clustered, count_clusters
from surefair.inference.counts import Counts, count, rates_of, sides
from surefair.learners.multipliers import EVALUATION, row_numbers, uniforms
from surefair.rows import FloatArray, Groups, IntArray, Rows
from surefair.storage.archive import Arrays, select_prefix
from surefair.training.fit import Fit
from surefair.training.model import Model

CLUSTER_REPLICATES = 1000  # in which the clusters of evaluation rows are reweighted
KINDS = 100  # kinds of evaluation rows near the boundary that are kept
LOOKED_AT = 20_000  # evaluation rows among which these are sought


class Source(NamedTuple):
    """A source of uncertainty."""

    estimates: str  # what an interval is for, in words
    training: bool  # whether models differ between replicates
    evaluation: bool  # whether the weights of evaluation rows differ between replicates


SOURCES = {
    "training": Source(
        "the gap, on these evaluation rows, of the model that unlimited training data would give", True, False
    ),
    "retraining": Source(
        "the gap, on these evaluation rows, of a model trained again from scratch on as many new rows", True, False
    ),
    "evaluation": Source("the gap of this very model in the population", False, True),
    "total": Source("the gap you would see with unlimited training and evaluation data", True, True),
}
"""The four sources."""


def replicate_coefficients(source: str, method: str, theta: FloatArray, mirrored: bool = False) -> FloatArray:
    """Coefficients of the models whose decisions are counted: the fit (first), then what stands for its replicates.

    Parameters
    ----------
    source, method : str
    theta : ndarray of shape (D, 1 + B)
        Coefficients of the fit and of its replicates.
    mirrored : bool
        Whether percentiles are those of replicates mirrored at the fit, which removes the bias of its steps. Newton
        steps have none to speak of.
    """
    fit = theta[:, :1]
    replicates = theta[:, 1:]
    if source == "evaluation":
        return fit
    if source == "retraining":
        middle = fit if method == "paper" else replicates.mean(axis=1, keepdims=True)
        return np.hstack([fit, fit + np.sqrt(2.0) * (replicates - middle)])
    if method == "percentile" and mirrored:
        return np.hstack([fit, 2.0 * fit - replicates])  # mirrored
    return theta


def stretched(theta: FloatArray, n_clusters: float | None) -> FloatArray:
    """Coefficients whose replicates are as far from the fit as few training clusters warrant, shape (D, 1 + B).

    Replicates of G clusters vary too little by a factor of √(G / (G - 1)), and normal limits are too narrow by what
    Student's t law with G - 1 degrees of freedom adds; both are taken at 95 %.

    Examples
    --------
    >>> stretched(np.array([[1.0, 2.0]]), 10.0).round(2), stretched(np.array([[1.0, 2.0]]), None)
    (array([[1.  , 2.22]]), array([[1., 2.]]))
    """
    if n_clusters is None:
        return theta
    return np.asarray(theta[:, :1] + cluster_factor(n_clusters) * (theta - theta[:, :1]))


def cluster_factor(n_clusters: float) -> float:
    """By how much replicates of so many clusters vary too little."""
    G = max(n_clusters, 2.0)
    return float(np.sqrt(G / (G - 1.0)) * stdtrit(G - 1.0, 0.975) / ndtri(0.975))


def parts(source: str, method: str, rows: Rows, seed: int) -> tuple[Rows, ...]:
    """Parts of the evaluation rows that are counted separately: two random halves for "total"."""
    return rows.halves(seed) if source == "total" and method != "paper" else (rows,)


# -- Counting ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Tally:
    """Counts of the decisions of a fit and its replicates on evaluation rows, by source. Tallies of two parts add.

    Rows can therefore be counted where they are, on many machines, and only tables of counts travel.

    Attributes
    ----------
    n_rows, fingerprint : int, str
        Rows that the model was trained on, and its fingerprint: a tally belongs to one state of a model.
    method : str
        Method of the intervals.
    groups : Groups
    parts : dict of str to tuple of Counts
        For each source, the counts of the fit and its replicates on each part of the rows.
    near : ndarray of shape (kinds, 2)
        Scores of the kinds of rows next to the decision boundary, and whether replicates disagree about them.
    clustered : Clustered or None
        Decisions of the fit with random weights of whole clusters; None where rows are independent.
    """

    n_rows: int
    fingerprint: str
    method: str
    groups: Groups
    parts: Mapping[str, tuple[Counts, ...]]
    near: FloatArray
    clustered: Clustered | None = None

    @classmethod
    def of(
        cls, model: Model, rows: Rows, sources: Sequence[str], method: str, n_threads: int, fingerprint: bool = False
    ) -> Tally:
        """Count decisions on some rows; the fingerprint of the model is needed only where tallies travel."""
        fit = model.trained
        theta = stretched(fit.theta, model.n_clusters)

        def counted(source: str, part: Rows) -> Counts:
            found = _count(replicate_coefficients(source, method, theta, not fit.is_newton), part, n_threads)
            return Counts(*(np.broadcast_to(table, (theta.shape[1], *table.shape[1:])) for table in found))

        tables = {
            source: tuple(counted(source, part) for part in parts(source, method, rows, model.seed))
            for source in sources
        }
        of_training = any(not SOURCES[source].evaluation for source in sources)
        near = _near_boundary(fit, theta, rows) if fit.is_finite and rows.n > 0 and of_training else np.empty((0, 2))
        clustered = None
        if rows.cluster is not None and any(SOURCES[source].evaluation for source in sources):
            decision = (fit.score(rows.X) > 0.0).astype(np.int64)
            group = rows.group + np.array(rows.groups.offsets)
            cell = (group * 2 + rows.truth[:, None]) * 2 + decision[:, None]
            shape = (1, sum(rows.groups.sizes), 2, 2)
            clustered = count_clusters(cell, shape, rows.cluster, rows.weight, CLUSTER_REPLICATES, model.seed)
        marked = fit.fingerprint if fingerprint else ""
        return cls(fit.n_rows, marked, method, rows.groups, tables, near, clustered)

    def __add__(self, other: Tally) -> Tally:
        mine, theirs = ((tally.fingerprint, tally.method, {*tally.parts}) for tally in (self, other))
        if mine != theirs:
            raise ValueError(
                "Tallies add if they belong to one model, method and set of sources; received "
                f"{self._description} and {other._description}. Count the rows again with the same settings."
            )
        groups = self.groups.joined_with(other.groups)
        one = self._among(groups)
        two = other._among(groups)
        tables = {source: tuple(a + b for a, b in zip(one[source], two[source], strict=True)) for source in self.parts}
        near = np.concatenate([self.near, other.near])
        near = near[_nearest(near[:, 0])]
        if (self.clustered is None) != (other.clustered is None):
            raise ValueError("Tallies add if rows of both are in clusters, or of none. Pass clusters with all rows.")
        clustered = None
        if self.clustered is not None and other.clustered is not None:
            n = sum(groups.sizes)
            clustered = self.clustered.among(self._places(groups), n) + other.clustered.among(other._places(groups), n)
        return Tally(self.n_rows, self.fingerprint, self.method, groups, tables, near, clustered)

    def __radd__(self, other: Any) -> Tally:  # sum() begins with 0
        return self if other == 0 else NotImplemented

    def _among(self, groups: Groups) -> dict[str, tuple[Counts, ...]]:
        """Return the same counts among more groups."""
        if groups is self.groups:
            return dict(self.parts)
        codes = self._places(groups)

        def wider(table: FloatArray) -> FloatArray:
            found = np.zeros((len(table), sum(groups.sizes), 2, 2))
            found[:, codes] = table
            return found

        return {
            source: tuple(Counts(*map(wider, counts)) for counts in tables) for source, tables in self.parts.items()
        }

    def _places(self, groups: Groups) -> IntArray:
        """Places of these groups among more groups."""
        return np.concatenate(
            [low + code for low, code in zip(groups.offsets, groups.recode(self.groups), strict=True)]
        )

    @property
    def _description(self) -> str:
        model = f"model {self.fingerprint[:8]} trained on {self.n_rows:,} rows"
        return f"one of {model} ({self.method}; {', '.join(sorted(self.parts))})"

    def counts(self, source: str) -> Counts:
        """Counts on all rows."""
        if source not in self.parts:
            raise ValueError(
                f"This tally was not counted for source {source!r}, only for {', '.join(self.parts)}. Count the rows "
                "again with that source."
            )
        first, *others = self.parts[source]
        for other in others:
            first = first + other
        return first

    @property
    def of_fit(self) -> Counts:
        """Counts of the decisions of the fit itself: arrays of shape (groups, 2, 2)."""
        return self.counts(next(iter(self.parts))).of(0)

    @property
    def n_near(self) -> int:
        """Kinds of rows near the boundary that replicates disagree about."""
        return int(self.near[:, 1].sum())

    def rates(self, source: str, rates: tuple[Rate, ...], seed: int) -> tuple[FloatArray, FloatArray | None]:
        """Rates in the replicates of a source, shape (B, rates, groups).

        For source "total" it also returns the rates of the replicates before the evaluation rows are reweighted.
        """
        counts = self.counts(source)
        trained = self.trained_rates(source, rates)
        if SOURCES[source].evaluation:
            return reweigh(rates, counts, seed, trained), trained
        return rates_of(rates, counts)[1:], trained

    def trained_rates(self, source: str, rates: tuple[Rate, ...]) -> FloatArray | None:
        """Rates of the replicates before the evaluation rows are reweighted, for source "total"; None for others."""
        if len(halves := self.parts[source]) != 2:
            return None
        counts = self.counts(source)
        return settle(rates_of(rates, counts), np.stack([rates_of(rates, half) for half in halves]), self.groups)

    def pack(self) -> tuple[dict[str, Any], Arrays]:
        """Take the tally apart into JSON and arrays."""
        meta: dict[str, Any] = {"n_rows": self.n_rows, "model": self.fingerprint, "method": self.method}
        meta |= {"groups": self.groups.to_json(), "models": len(self.counts(next(iter(self.parts))).rows)}
        tables = {
            f"{source}/{i}": np.stack([table[:1] if source == "evaluation" else table for table in counts])
            for source, some in self.parts.items()
            for i, counts in enumerate(some)
        }
        if self.clustered is not None:
            tables |= {f"clusters/{name}": array for name, array in self.clustered.pack().items()}
        return meta, tables | {"near": self.near}

    @classmethod
    def unpack(cls, meta: dict[str, Any], arrays: Arrays) -> Tally:
        """Rebuild a tally from what ``pack`` returned."""
        tables: dict[str, tuple[Counts, ...]] = {}
        clustered = select_prefix("clusters", arrays)
        for name in sorted(arrays.keys() - {"near"}):
            source = name.partition("/")[0]
            if source == "clusters":
                continue
            table = np.broadcast_to(arrays[name], (3, meta["models"], *arrays[name].shape[2:]))
            tables[source] = (*tables.get(source, ()), Counts(*table))
        groups = Groups.from_json(meta["groups"])
        clusters = Clustered.unpack(clustered) if clustered else None
        return cls(meta["n_rows"], meta["model"], meta["method"], groups, tables, arrays["near"], clusters)


def _count(theta: FloatArray, rows: Rows, n_threads: int) -> Counts:
    return count(theta, rows.X, rows.truth, rows.group, rows.groups.sizes, rows.uneven_weight, n_threads)


def _near_boundary(fit: Fit, theta: FloatArray, rows: Rows) -> FloatArray:
    """Scores of the kinds of rows next to the boundary, and whether replicates disagree about each: (kinds, 2).

    With very many rows, only the first are looked at.
    """
    X = fit.features(rows.X[:LOOKED_AT])
    score = X @ theta[:, 0]
    near = _nearest(score)
    disagree = ((X[near] @ theta[:, 1:] > 0.0) != (score[near, None] > 0.0)).any(axis=1)
    return np.column_stack([score[near], disagree])


def _nearest(score: FloatArray) -> NDArray[np.intp]:
    """Positions of one row of each kind next to the boundary; rows with the same score are of one kind."""
    top = float(np.abs(score).max(initial=0.0))
    _, kinds = np.unique((score / (top or 1.0)).round(9), return_index=True)
    return kinds[np.argsort(np.abs(score[kinds]))[:KINDS]]


# -- From counts to the rates of replicates ---------------------------------------------------------------------------


def settle(trained: FloatArray, halves: FloatArray, groups: Groups) -> FloatArray:
    """Rates of replicates as they would spread in the population, from rates on all evaluation rows and on two halves.

    The covariance of the two halves over the replicates estimates the variance in the population. The movement of each
    group's rate, relative to the other groups, is scaled to that variance.

    Parameters
    ----------
    trained : ndarray of shape (1 + B, rates, groups)
        Rates of the fit, then of its replicates.
    halves : ndarray of shape (2, 1 + B, rates, groups)
    groups : Groups

    Returns
    -------
    ndarray of shape (B, rates, groups)
    """
    moved = np.concatenate([trained[None], halves])
    moved = moved[:, 1:] - moved[:, :1]
    together = np.empty_like(moved)
    for low, size in zip(groups.offsets, groups.sizes, strict=True):
        column = slice(low, low + size)
        together[..., column] = _mean(moved[..., column], axis=-1)[..., None]
    all_apart, one_apart, other_apart = moved - together
    variance = _mean(all_apart**2, axis=0)
    common = _mean(one_apart * other_apart, axis=0)
    share = np.divide(common, variance, out=np.ones_like(variance), where=(variance > 0.0) & ~np.isnan(common))
    return np.asarray((trained[:1] + together[0] + np.sqrt(share.clip(0.0, 1.0)) * all_apart).clip(0.0, 1.0))


def _mean(values: FloatArray, axis: int) -> FloatArray:
    """Mean of what is defined; NaN where nothing is."""
    known = ~np.isnan(values)
    total = np.where(known, values, 0.0).sum(axis=axis)
    n = known.sum(axis=axis)
    return np.asarray(np.divide(total, n, out=np.full(total.shape, np.nan), where=n > 0))


def reweigh(rates: tuple[Rate, ...], counts: Counts, seed: int, trained: FloatArray | None = None) -> FloatArray:
    """Rates of each replicate with its evaluation rows reweighted.

    Every rate of every group has its own random numbers. This is exact where rates look at different rows, as those of
    equalized odds do. A share of right decisions has the numbers of the share of wrong ones, so that limits of accuracy
    mirror those of the error rate, and limits of the true positive rate those of the false negative rate. Groups of
    different sensitive columns share rows, which is ignored: treating their gaps as independent makes the limits that
    hold for all of them slightly wider than necessary.

    Parameters
    ----------
    rates : tuple of Rate
    counts : Counts of arrays of shape (1 + B, groups, 2, 2)
        Counts of the fit, then of its replicates.
    seed : int
    trained : ndarray of shape (B, rates, groups), optional
        Rates of the replicates, where they are not as counted.

    Returns
    -------
    ndarray of shape (B, rates, groups)
    """
    B = len(counts.rows) - 1
    G = counts.rows.shape[1]
    u = uniforms(seed, row_numbers(0, 2 * G * len(rates)), B + 1, EVALUATION)[:, 1:].reshape(len(rates), G, 2, B)
    u = u[:, _positions(counts.of(0))].transpose(2, 3, 0, 1)  # (counted or not, B, rates, groups)
    right = np.array([all(truth == decision for truth, decision in rate.numerator) for rate in rates])
    u = np.where(right[:, None], u[::-1], u)
    C, Q = sides(rates, counts.of(slice(1, None)))
    some = (C > 0.0) & (Q > 0.0)
    unit = np.divide(Q, C, out=np.zeros_like(C), where=some)
    # half a row weighs as much as the other rows of its side, or of the other side, or 1
    unit = np.where(some, unit, np.where(some[::-1], unit[::-1], 1.0))
    if trained is not None:
        C = np.where(np.isnan(trained), C, C.sum(axis=0) * np.stack([trained, 1.0 - trained]))
    counted, others = unit * gammaincinv(C / unit + 0.5, u)
    return np.asarray(counted / (counted + others))


def _positions(fit: Counts) -> NDArray[np.intp]:
    """Position of each group when sorted by its counts, so that its random numbers do not depend on its name."""
    tables = np.stack(fit, axis=1)
    order = sorted(range(len(tables)), key=lambda group: tables[group].ravel().tolist())
    return np.argsort(order)
