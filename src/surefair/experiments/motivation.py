"""The paper's first figure: how much unfairness varies between repeated trainings of a constrained classifier.

Its first repetitions are those of the figure with the same data and loss.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from surefair.experiments import convergence
from surefair.experiments.experiment import Claim, Experiment, Result
from surefair.experiments.rules import plus
from surefair.experiments.study import Outcome, Study, repeat
from surefair.plotting.drawing import COLOURS, LEGEND, count_rows, panels
from surefair.rows import FloatArray

SHOWN = ("rows", "unfairness", "unfairness_error", "unfairness_975", "unfairness_975_error")
ALSO = (
    *("repetitions", "diverged", "warned", "accuracy", "accuracy_error"),
    *("optimum_gap_evaluation", "optimum_gap_population"),
)


def judge(study: Study, outcomes: Sequence[Outcome]) -> Result:
    """Report the mean and the 97.5 % quantile of the unfairness at every look."""
    whole = convergence.judge(study, outcomes)
    if "looks" not in whole.tables:
        return whole
    looks = [{name: one[name] for name in SHOWN} for one in whole.tables["looks"]]
    line = {name: value for name, value in whole.line.items() if name in (*SHOWN, *ALSO)}
    seen = np.abs([one.gap for one in outcomes])
    return Result(line, {"looks": looks}, [_claim(looks[-1])], lambda: draw(study, seen, looks))


def _claim(last: dict[str, Any]) -> Claim:
    higher = last["unfairness_975"] / last["unfairness"] - 1.0
    found = (
        f"mean {last['unfairness']:.3f}{plus(last['unfairness_error'])}, "
        f"97.5 % quantile {last['unfairness_975']:.3f}{plus(last['unfairness_975_error'])}, "
        f"{100.0 * higher:.0f} % higher; this measures how much fits vary around their mean, not how unfair they are"
    )
    words = "the mean unfairness after training is 0.025, and its 97.5 % quantile is 0.042, 64 % higher"
    return Claim(words, found, None, judged=False)


def draw(study: Study, seen: FloatArray, looks: list[dict[str, Any]]) -> Any:
    """Draw the unfairness of every repetition, its mean and its quantile along the stream."""
    figure, ax = panels(1)
    for path in seen:
        ax.plot(study.looks, path, color="0.6", linewidth=0.4, alpha=0.6)
    ax.plot([], [], color="0.6", linewidth=1.0, label="repetitions")
    curves = (("unfairness", "mean"), ("unfairness_975", "97.5 % quantile"))
    for colour, (name, words) in zip(COLOURS, curves, strict=False):
        ax.plot(study.looks, [one[name] for one in looks], color=colour, linewidth=2.0, label=words)
    count_rows(ax)
    ax.set(ylabel="unfairness (demographic parity difference)", ylim=(0.0, None))
    ax.set_title(f"{study.title}, {study.preset.name} preset", fontsize="medium")
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(**LEGEND)
    return figure


EXPERIMENTS = (
    Experiment(
        name="motivation",
        title="Unfairness over repetitions",
        place=(1,),
        data="synthetic_di",
        loss="log_loss",
        repetitions=200,
        outcome=Outcome,
        repeat=repeat,
        judge=judge,
    ),
)
