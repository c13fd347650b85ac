"""What an experiment is, and what comes out of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from surefair.experiments._study import Study


@dataclass(frozen=True)
class Claim:
    """A claim, what was found, whether it held (None if undecided), and whose it is: paper, ours or Zafar.

    One that is not judged is only reported.
    """

    words: str
    found: str
    held: bool | None
    whose: str = "paper"
    judged: bool = True


@dataclass(frozen=True)
class Result:
    """What came out of an experiment: a line, tables of lines by title, claims, and how to draw it."""

    line: dict[str, Any]
    tables: dict[str, list[dict[str, Any]]]
    claims: list[Claim]
    draw: Callable[[], Any]


@dataclass(frozen=True)
class Experiment:
    """One figure.

    Attributes
    ----------
    name, title : str
    place : tuple of int
        Where in the paper.
    data, loss : str
    repetitions : int
        As in the paper.
    outcome : type
        Named tuple that a repetition returns.
    repeat : callable
        One repetition: of a study and a number, a named tuple of numbers, arrays and text.
    judge : callable
        Of a study and all repetitions, the result.
    """

    name: str
    title: str
    place: tuple[int, ...]
    data: str
    loss: str
    repetitions: int
    outcome: type[Any]
    repeat: Callable[[Study, int], Any]
    judge: Callable[[Study, Sequence[Any]], Result]
