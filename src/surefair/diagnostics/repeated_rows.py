"""Each row should be fed once."""

from __future__ import annotations

from scipy.special import gammaincinv

from surefair.diagnostics._diagnostic import SELDOM, Diagnostic

MOST = 0.1  # copies of a row, on average, beyond those of independent rows; intervals are then 5 % too narrow
REPEATED = 0.1  # share of the distinct rows that came more than once
SLACK = 1.5  # times the pairs of equal rows that the first rows allow for


class RepeatedRows(Diagnostic):
    """Rows were fed more than once, for example in several passes, so intervals are too narrow."""

    assumes = "No row is trained on twice."
    advice = "Feed every row once; fit all rows together with fit() where one pass is not enough."
    command_line_advice = "Remove rows that repeat others."
    forbids_verdict = True


DIAGNOSTIC = RepeatedRows


def check(pairs: float, repeated: float, n: int, first_pairs: float, n_first: int) -> list[Diagnostic]:
    """Check whether rows repeat more often than the first rows repeat each other.

    The null model: rows are independent and of one law, so two rows are equal with one probability, whether both are
    among the first rows or not. The number of equal pairs among the first rows gives an upper limit of it, at level
    0.001 of a Poisson law, times 1.5. It must not explain the pairs among all rows, and a tenth of the distinct rows
    must repeat: a few very common rows are no sign of a second pass. With 4,000 first rows and none of them equal, a
    second pass is found up to some 700,000 rows, and a tenth pass up to six million.

    Parameters
    ----------
    pairs, repeated : float
        Pairs of equal rows, and the share of the distinct rows that came more than once.
    n : int
        Rows.
    first_pairs : float
        Pairs of equal rows among the first rows.
    n_first : int
        Number of the first rows, which came once.

    Examples
    --------
    >>> [round(one.statistic, 2) for one in check(10_000.0, 1.0, 20_000, 0.0, 4_000)]  # two passes over 10,000 rows
    [0.97]
    >>> check(10_000.0, 1.0, 20_000, 400.0, 4_000)  # the first rows are as often equal
    []
    """
    if n <= n_first or n_first < 2:
        return []
    limit = float(gammaincinv(first_pairs + 1.0, 1.0 - SELDOM)) / (n_first * (n_first - 1.0) / 2.0)
    copies = 2.0 * (pairs - SLACK * limit * n * (n - 1.0) / 2.0) / n
    if copies <= MOST or repeated < REPEATED:
        return []
    message = "Rows came more than once, for example in several passes over the same data, so intervals are too narrow."
    return [RepeatedRows(message, copies, MOST)]
