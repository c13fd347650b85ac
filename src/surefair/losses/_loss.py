"""What the learners need to know about a loss."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from surefair.rows import FloatArray

Function = Callable[[Any, Any], FloatArray]


@dataclass(frozen=True)
class Loss:
    """A loss of one row, as a function of its score s = θᵀx and its label y = ±1.

    Attributes
    ----------
    name : str
        Name of the loss; also the name of its file.
    code : int
        Number that stands for the loss in the compiled kernels; see ``kernels.py``.
    value, derivative, curvature : callable (score, y) -> ndarray
        The loss and its first two derivatives in the score.
    probability : callable score -> ndarray
        Probability of the positive class at a score.
    majorant : callable score -> ndarray
        Curvature of the parabola that touches the loss at a score, for either label, and lies above it everywhere.
    penalty_factor : float
        How many times a penalty on the decision counts.
    """

    name: str
    code: int
    value: Function
    derivative: Function
    curvature: Function
    probability: Callable[[FloatArray], FloatArray]
    majorant: Callable[[Any], FloatArray]
    penalty_factor: float
