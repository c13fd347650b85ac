"""Score intervals and distributions: mean interval score, Wasserstein distance, coverage.

>>> round(wasserstein2([0.0, 1.0], [2.0, 3.0]), 3), mean_interval_score([0.5, 3.0], 0.0, 2.0, alpha=0.5)
(2.0, 4.0)
"""

from __future__ import annotations

from numbers import Real
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.integrate import quad
from scipy.special import betainccinv, betaincinv
from scipy.stats import norm, rv_continuous

from surefair.rows import FloatArray

__all__ = ["Coverage", "binomial_limits", "coverage", "mean_interval_score", "wasserstein2"]

NODES, WEIGHTS = np.polynomial.legendre.leggauss(12)  # for integrals over one step of a sample's quantile function


def mean_interval_score(samples: ArrayLike, low: ArrayLike, high: ArrayLike, alpha: float) -> float:
    """Return the mean width of intervals plus 2/α times the mean distance of samples outside them. Smaller is better.

    The interval between the α/2 and 1 - α/2 quantiles of the samples' distribution has the smallest expected score.

    Parameters
    ----------
    samples : array-like of shape (R,) or (R, k)
        R samples of k quantities, which the intervals should contain.
    low, high : float or array-like
        Limits, with a shape that broadcasts to that of the samples: one interval, one for each quantity (k,), or one
        for each sample.
    alpha : float
        One minus the confidence level: 0.05 for 95 % intervals.

    Returns
    -------
    float
        Mean over all samples and quantities.

    Examples
    --------
    >>> mean_interval_score([0.0, 1.0, 2.0, 5.0], low=0.0, high=3.0, alpha=0.5)
    5.0
    """
    _check_share(alpha, "alpha", "0.05 for 95 % intervals")
    values = _numbers(samples, "samples")
    low, high = _limits(low, high, values.shape, "samples")
    outside = np.maximum(values - high, 0.0) + np.maximum(low - values, 0.0)
    return float(np.mean(high - low) + 2.0 / alpha * outside.mean())


def wasserstein2(a: ArrayLike, b: Any) -> float:
    """Return the Wasserstein distance W2 between two samples of numbers, or between a sample and a distribution.

    W2 is the root mean squared difference of the quantile functions. It is exact for two samples of any sizes and for
    a normal distribution; for other distributions, quadrature is used on every step of the sample's quantile function.

    Parameters
    ----------
    a : array-like of shape (n,)
    b : array-like of shape (m,) or a frozen continuous distribution of ``scipy.stats``

    Returns
    -------
    float

    Examples
    --------
    >>> round(wasserstein2([1.0, 2.0], [1.0, 2.0, 3.0]), 4)
    0.7071
    >>> from scipy.stats import norm
    >>> round(wasserstein2([-1.0, 1.0], norm(0.0, 1.0)), 4)
    0.6358
    """
    x = np.sort(_sample(a, "a"))
    if hasattr(b, "ppf"):
        return float(np.sqrt(_squared_distance(x, b)))
    y = np.sort(_sample(b, "b"))
    n = len(x)
    m = len(y)
    ends = np.union1d(np.arange(n + 1) * m, np.arange(m + 1) * n)  # ends of the steps of both, times nm
    off = x[ends[:-1] // m] - y[ends[:-1] // n]
    scale = float(np.abs(off).max()) or 1.0  # so that squares do not overflow
    return scale * float(np.sqrt(np.diff(ends) @ (off / scale) ** 2 / (n * m)))


class Coverage(NamedTuple):
    """Share of intervals that contain the truth, with its exact binomial interval (Clopper and Pearson)."""

    share: Any  # a float, or an array with one value for each quantity
    low: Any
    high: Any
    n: int  # number of intervals for each quantity


def coverage(truth: ArrayLike, low: ArrayLike, high: ArrayLike, confidence_level: float = 0.95) -> Coverage:
    """Return the share of independent intervals that contain the truth.

    Parameters
    ----------
    truth : float or array-like
        True value, with a shape that broadcasts to that of the limits.
    low, high : array-like of shape (n,) or (n, ...)
        Limits of n intervals for one or several quantities.
    confidence_level : float
        Confidence level of the interval for the share, not of the intervals that are counted.

    Returns
    -------
    Coverage

    Examples
    --------
    >>> found = coverage(0.0, low=[-1.0, -2.0, 0.5, -1.0], high=[1.0, 0.5, 2.0, 0.0])
    >>> found.share, round(found.low, 3), round(found.high, 3), found.n
    (0.75, 0.194, 0.994, 4)
    """
    _check_share(confidence_level, "confidence_level", "0.95")
    shape = np.shape(low) if np.ndim(low) else np.shape(high)
    if not shape:
        raise ValueError("Coverage needs several intervals; received one. Pass arrays of limits.")
    low, high = _limits(low, high, shape, "limits")
    true = _numbers(truth, "truth")
    try:
        true = np.broadcast_to(true, shape)
    except ValueError:
        raise ValueError(f"truth of shape {true.shape} does not fit limits of shape {shape}.") from None
    n = shape[0]
    covered = ((low <= true) & (true <= high)).sum(axis=0)
    ends = binomial_limits(covered, n - covered, confidence_level)
    found: list[Any] = [x if np.ndim(x) else float(x) for x in (covered / n, *ends)]
    return Coverage(found[0], found[1], found[2], n)


def binomial_limits(
    counted: Any, others: Any, confidence_level: float, half: Any = 0.0
) -> tuple[FloatArray, FloatArray]:
    """Return confidence limits for a share, given how many cases counted towards it and how many did not.

    Parameters
    ----------
    counted, others : array-like
        Numbers of cases. They need not be whole, since rows can have weights.
    confidence_level : float
    half : array-like
        0 for the exact limits of Clopper and Pearson, 0.5 for the limits of Jeffreys.

    Examples
    --------
    >>> low, high = binomial_limits([0, 8], [10, 2], 0.95)
    >>> low.round(3), high.round(3)
    (array([0.   , 0.444]), array([0.308, 0.975]))
    """
    counted = np.asarray(counted, dtype=np.float64)
    others = np.asarray(others, dtype=np.float64)
    tail = (1.0 - confidence_level) / 2.0
    least = np.finfo(np.float64).tiny
    low = betaincinv(np.maximum(counted + half, least), others + 1.0 - half, tail)
    high = betainccinv(counted + 1.0 - half, np.maximum(others + half, least), tail)
    return np.where(counted > 0.0, low, 0.0), np.where(others > 0.0, high, 1.0)


# -- A sample and a distribution --------------------------------------------------------------------------------------


def _squared_distance(x: FloatArray, law: Any) -> float:
    """Return W2² of a sorted sample and a distribution: (x_(i) - Q(u))² integrated over the steps (i-1)/n < u < i/n."""
    if not isinstance(getattr(law, "dist", None), rv_continuous):
        raise ValueError(
            f"b must be a sample or a frozen continuous distribution, such as scipy.stats.norm(0, 1); received {law!r}."
        )
    mean = float(law.mean())
    sd = float(law.std())
    n = len(x)
    if not (np.isfinite(mean) and np.isfinite(sd)):
        raise ValueError(f"The distribution b has no finite variance, so W2 is infinite; received {law.dist.name!r}.")
    if law.dist.name == "norm":
        z = norm.ppf(np.arange(n + 1) / n)
        centre = -n * np.diff(norm.pdf(z))  # mean of the standard normal distribution over each step
        within = max(1.0 - float(np.mean(centre**2)), 0.0)  # its variance about these means
        return float(np.mean((x - mean - sd * centre) ** 2) + sd**2 * within)
    # The quantile function may be infinite where the first step begins and the last one ends.
    edge = 1.0 / n if n > 1 else 0.5
    settings: Any = {"limit": 200, "epsabs": 1e-13 * sd**2, "epsrel": 1e-10}
    first = quad(lambda u: (x[0] - law.ppf(u)) ** 2, 0.0, edge, **settings)[0]
    last = quad(lambda u: (x[-1] - law.isf(u)) ** 2, 0.0, edge, **settings)[0]
    u = (np.arange(1, n - 1)[:, None] + (1.0 + NODES) / 2.0) / n
    inner = ((x[1:-1, None] - law.ppf(u)) ** 2) @ WEIGHTS / (2.0 * n)
    return float(first + last + inner.sum())


# -- Checks -----------------------------------------------------------------------------------------------------------


def _check_share(value: Any, name: str, example: str) -> None:
    if not (isinstance(value, Real) and 0.0 < float(value) < 1.0):
        raise ValueError(f"{name} must lie strictly between 0 and 1, for example {example}; received {value!r}.")


def _numbers(values: Any, name: str) -> FloatArray:
    """Return values as an array of finite numbers, at least one."""
    found = _array(values, name)
    if not np.isfinite(found).all():
        raise ValueError(f"{name} holds {found[~np.isfinite(found)].ravel()[0]}, but only finite values can be scored.")
    return found


def _array(values: Any, name: str) -> FloatArray:
    try:
        found = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"{name} must be numbers; received {type(values).__name__}.") from None
    if found.size == 0:
        raise ValueError(f"{name} is empty. Pass at least one number.")
    return found


def _sample(values: Any, name: str) -> FloatArray:
    found = _numbers(values, name)
    if found.ndim != 1:
        raise ValueError(f"{name} must be a sample of numbers of shape (n,); received shape {found.shape}.")
    return found


def _limits(low: Any, high: Any, shape: tuple[int, ...], what: str) -> tuple[FloatArray, FloatArray]:
    """Return limits in the given shape; they may be infinite, but not NaN or crossed."""
    ends = []
    for values, name in ((low, "low"), (high, "high")):
        end = _array(values, name)
        if np.isnan(end).any():
            raise ValueError(f"{name} holds NaN. Leave out undefined intervals, or make them cover the whole range.")
        try:
            ends.append(np.broadcast_to(end, shape))
        except ValueError:
            raise ValueError(f"{name} of shape {end.shape} does not fit {what} of shape {shape}.") from None
    if (ends[0] > ends[1]).any():
        place = np.argmax(ends[0] > ends[1])
        raise ValueError(f"low is above high: received low={ends[0].flat[place]} and high={ends[1].flat[place]}.")
    return ends[0], ends[1]
