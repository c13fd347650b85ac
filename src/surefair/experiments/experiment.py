"""What an experiment and its result are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from surefair.experiments.study import Study


@dataclass(frozen=True)
class Claim:
    """A claim about an experiment, and what the experiment says about it.

    Attributes
    ----------
    words : str
        The claim.
    found : str
        What was found.
    held : bool or None
        Whether the claim held; None if that is undecided.
    whose : str
        Who makes the claim: "paper", "ours" or "Zafar".
    judged : bool
        False if the result is reported without a verdict.
    """

    words: str
    found: str
    held: bool | None
    whose: str = "paper"
    judged: bool = True


@dataclass(frozen=True)
class Result:
    """The result of an experiment: its main numbers, tables by title, claims, and a function that draws it."""

    line: dict[str, Any]
    tables: dict[str, list[dict[str, Any]]]
    claims: list[Claim]
    draw: Callable[[], Any]


@dataclass(frozen=True)
class Experiment:
    """One figure of the paper.

    Attributes
    ----------
    name, title : str
    place : tuple of int
        Position in the paper.
    data, loss : str
    repetitions : int
        How many repetitions the paper has.
    outcome : type
        Named tuple that a repetition returns.
    repeat : callable
        Takes a study and the number of a repetition; returns a named tuple of numbers, arrays and text.
    judge : callable
        Takes a study and all outcomes; returns the result.
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
