"""What a diagnostic is: a warning that carries its numbers, its advice, and whether it rules out a verdict."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtri

from surefair.names import one_of

FloatArray = NDArray[np.float64]

SELDOM = 0.001
"""How often a standard deviation estimated from replicates may be off by chance before a diagnostic says so."""


class Diagnostic(UserWarning):
    """Something that makes a fit or an interval less trustworthy, found by a check.

    Diagnostics are values: training and inference return them, results keep them, and only the public functions issue
    them as warnings, so that each can be filtered by its class.

    Parameters
    ----------
    message : str
        What was found, as a sentence.
    statistic, threshold : float, optional
        The number that was looked at, and the value that it should not cross.
    forbids_verdict : bool, optional
        Whether a definite verdict is ruled out; by default what the class says.

    Attributes
    ----------
    assumes : str
        The assumption that does not hold, as a sentence; empty where it is not about intervals.
    advice, command_line_advice : str
        What to do about it, in Python and on the command line.
    """

    assumes: ClassVar[str] = ""
    advice: ClassVar[str] = ""
    command_line_advice: ClassVar[str] = ""
    forbids_verdict: bool = False

    def __init__(
        self,
        message: str,
        statistic: float | None = None,
        threshold: float | None = None,
        forbids_verdict: bool | None = None,
    ) -> None:
        super().__init__(f"{message} {self.advice}".rstrip())
        self.message = message
        self.statistic = None if statistic is None else float(statistic)
        self.threshold = None if threshold is None else float(threshold)
        if forbids_verdict is not None:
            self.forbids_verdict = forbids_verdict

    @property
    def name(self) -> str:
        """Name of the class."""
        return type(self).__name__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Diagnostic) and self.to_dict() == other.to_dict()

    def __hash__(self) -> int:
        return hash((self.name, self.message))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.message, self.statistic, self.threshold, self.forbids_verdict)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON; numbers that JSON cannot hold become None."""
        return {
            "name": self.name,
            "message": self.message,
            "advice": self.advice,
            "command_line_advice": self.command_line_advice,
            "statistic": _finite(self.statistic),
            "threshold": _finite(self.threshold),
            "forbids_verdict": self.forbids_verdict,
        }

    @staticmethod
    def from_dict(found: dict[str, Any]) -> Diagnostic:
        """Rebuild a diagnostic from what ``to_dict`` returned."""
        kinds = {kind.__name__: kind for kind in Diagnostic.__subclasses__()}
        kind = kinds[one_of(found["name"], kinds, "diagnostic")]
        return kind(*(found[name] for name in ("message", "statistic", "threshold", "forbids_verdict")))


def _finite(value: float | None) -> float | None:
    return value if value is not None and np.isfinite(value) else None


def upper_limit(sd: FloatArray, n_replicates: int, probability: float = 0.95) -> FloatArray:
    """Upper limit of a standard deviation, given its estimate from so many replicates.

    Examples
    --------
    >>> [round(float(upper_limit(np.array(1.0), n)), 2) for n in (2, 20, 200)]
    [15.95, 1.37, 1.09]
    """
    return np.asarray(sd * np.sqrt((n_replicates - 1.0) / chdtri(n_replicates - 1.0, probability)))


def ratio(a: FloatArray, b: FloatArray) -> FloatArray:
    """Divide; 0 where there is nothing to divide by."""
    return np.divide(a, b, out=np.zeros_like(a), where=b > 0.0)


def first_few(found: list[str], most: int = 3) -> str:
    """Join the first few entries into a phrase."""
    more = f" (and {len(found) - most} more)" if len(found) > most else ""
    return ", ".join(found[:most]) + more
