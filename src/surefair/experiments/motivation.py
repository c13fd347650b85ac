"""The paper's first figure: how much the unfairness of a fair classifier varies from one training to the next.

Its first repetitions are those of the figure of the same data and loss.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from surefair.experiments import convergence
from surefair.experiments._experiment import Claim, Experiment, Result
from surefair.experiments._rules import plus
from surefair.experiments._study import Outcome, Study, repeat
from surefair.plotting import COLOURS, LEGEND, panels
from surefair.rows.arrays import FloatArray

SHOWN = ("rows", "unfairness", "unfairness_error", "unfairness_975", "unfairness_975_error")
ALSO = (
    *("repetitions", "diverged", "warned", "accuracy", "accuracy_error"),
    *("optimum_gap_evaluation", "optimum_gap_population"),
)


def judge(study: Study, outcomes: Sequence[Outcome]) -> Result:
    """Mean and 97.5 % quantile of the unfairness at every look."""
    whole = convergence.judge(study, outcomes)
    if "looks" not in whole.tables:
        return whole
    looks = [{name: one[name] for name in SHOWN} for one in whole.tables["looks"]]
    last = looks[-1]
    more = last["unfairness_975"] / last["unfairness"] - 1.0
    found = (
        f"mean {last['unfairness']:.3f}{plus(last['unfairness_error'])}, "
        f"97.5 % quantile {last['unfairness_975']:.3f}{plus(last['unfairness_975_error'])}: "
        f"{100.0 * more:.0f} % above, which tells how much fits vary beside their mean, not how fair they are"
    )
    words = "the mean unfairness after training is 0.025, its 97.5 % quantile 0.042: 64 % above"
    claims = [Claim(words, found, None, judged=False)]
    line = {name: value for name, value in whole.line.items() if name in (*SHOWN, *ALSO)}
    seen = np.abs([one.gap for one in outcomes])
    return Result(line, {"looks": looks}, claims, lambda: draw(study, seen, looks))


def draw(study: Study, seen: FloatArray, looks: list[dict[str, Any]]) -> Any:
    """Paths of the unfairness, their mean and their quantile."""
    figure, ax = panels(1)
    for path in seen:
        ax.plot(study.looks, path, color="0.6", linewidth=0.4, alpha=0.6)
    ax.plot([], [], color="0.6", linewidth=1.0, label="fits")
    for colour, name, words in zip(
        COLOURS, ("unfairness", "unfairness_975"), ("mean", "97.5 % quantile"), strict=False
    ):
        ax.plot(study.looks, [one[name] for one in looks], color=colour, linewidth=2.0, label=words)
    ax.set(xscale="log", xlabel="rows seen", ylabel="unfairness (demographic parity difference)", ylim=(0.0, None))
    ax.set_title(f"{study.title}, {study.preset.name} preset", fontsize="medium")
    ax.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
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
