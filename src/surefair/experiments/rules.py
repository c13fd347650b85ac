"""Rules that decide if a claim held: yes, no, or undecided if chance could explain either.

>>> falls(0.3, 0.1), falls(-0.3, 0.1), falls(0.1, 0.1)
(True, False, None)
>>> covers(0.96, 0.90, 0.99), covers(0.88, 0.82, 0.92), covers(0.90, 0.85, 0.94)
(True, False, None)
"""

from __future__ import annotations

from surefair.inference.scoring import binomial_limits

LEVEL = 0.95
BOUNDS = (0.93, 0.97)
RULES = """\
- *falls*: the value at the last look is below that at the first by more than 2 jackknife standard errors, paired by
  repetition. *No* means that it is above by as much.
- A W2 that never exceeds the 95th percentile of samples from the law itself agrees with the law and counts as falling.
- *overlap*: W2 does not exceed the 95th percentile of samples from the law itself. One in twenty fails by chance.
- *contain*: the share is 93 to 97 %. *No* means that its limits (2 standard errors either way, or the exact limits) lie
  entirely outside that range.
- A claim that is neither yes nor no is *undecided*. A claim marked *reported* is not judged. No claim holds if a
  fit diverged."""


def falls(drop: float, error: float) -> bool | None:
    """Decide if a value falls, from its drop and the standard error of the drop."""
    if drop > 2.0 * error:
        return True
    return False if drop < -2.0 * error else None


def covers(share: float, low: float, high: float) -> bool | None:
    """Decide if 95 % intervals have the right coverage, from the observed share and its limits."""
    if BOUNDS[0] <= share <= BOUNDS[1]:
        return True
    return False if high < BOUNDS[0] or low > BOUNDS[1] else None


def share_error(share: float, error: float, n: int) -> float:
    """Standard error of a share; if the share is 0 or 1, half the width of its exact limits for n cases."""
    if 0.0 < share < 1.0:
        return error
    low, high = binomial_limits(share * n, (1.0 - share) * n, LEVEL)
    return float(high - low) / 2.0


def answer(held: bool | None, judged: bool) -> str:
    """Return the verdict on a claim as a word."""
    return {True: "yes", False: "no", None: "undecided"}[held] if judged else "reported"


def plus(error: float) -> str:
    """Return an error as text; empty if it is 0 or undefined."""
    return f" ± {error:.2g}" if error > 0.0 else ""
