"""When a claim held: yes, no, or undecided where chance leaves both open.

>>> falls(0.3, 0.1), falls(-0.3, 0.1), falls(0.1, 0.1)
(True, False, None)
>>> covers(0.96, 0.90, 0.99), covers(0.88, 0.82, 0.92), covers(0.90, 0.85, 0.94)
(True, False, None)
"""

from __future__ import annotations

from surefair.inference.scoring import binomial_limits

LEVEL, BOUNDS = 0.95, (0.93, 0.97)
RULES = """\
- *falls*: from the first look to the last, paired by repetition, more than 2 jackknife errors; no: it rises as much.
- W2 that is never above what 95 % of samples of the law itself are below agrees with the law, and counts as falling.
- *overlap*: W2 is not above what 95 % of samples of the law itself are below; otherwise no. One in twenty is by chance.
- *contain*: the share is 93 to 97 %; no: its limits (2 errors either way, or the exact ones) lie wholly outside.
- A claim that is neither is *undecided*; one that is *reported* is not judged; none holds if a fit diverged."""


def falls(drop: float, error: float) -> bool | None:
    """Whether a number falls, from how much lower it is at the end and the error of that."""
    return True if drop > 2.0 * error else False if drop < -2.0 * error else None


def covers(share: float, low: float, high: float) -> bool | None:
    """Whether intervals of level 95 % contain what they should, from the share that do and its limits."""
    if BOUNDS[0] <= share <= BOUNDS[1]:
        return True
    return False if high < BOUNDS[0] or low > BOUNDS[1] else None


def share_error(share: float, error: float, n: int) -> float:
    """Error of a share; for all or none of n, where it would be 0, half the width of the exact limits."""
    if 0.0 < share < 1.0:
        return error
    low, high = binomial_limits(share * n, (1.0 - share) * n, LEVEL)
    return float(high - low) / 2.0


def answer(held: bool | None, judged: bool) -> str:
    """Whether a claim held, in a word."""
    return {True: "yes", False: "no", None: "undecided"}[held] if judged else "reported"


def plus(error: float) -> str:
    """An error in words; none where it is 0 or undefined."""
    return f" ± {error:.2g}" if error > 0.0 else ""
