"""The paper's first figure: how much the unfairness of a fair classifier varies from one training to the next."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from surefair.experiments._experiment import Claim, Experiment, Result
from surefair.experiments._study import Outcome, Study, repeat
from surefair.plotting import COLOURS, panels
from surefair.streams import FloatArray


def judge(study: Study, outcomes: Sequence[Outcome]) -> Result:
    """Mean and 97.5 % quantile of the unfairness at every look."""
    seen = np.abs([one.gap for one in outcomes])
    rng = np.random.default_rng([study.seed, 5])
    looks = []
    for n, values in zip(study.looks, seen.T, strict=True):
        again = np.quantile(rng.choice(values, (500, len(values))), 0.975, axis=1)
        mean, quantile = float(values.mean()), float(np.quantile(values, 0.975))
        looks.append(
            {
                "rows": int(n),
                "mean": mean,
                "mean_error": float(values.std(ddof=1) / np.sqrt(len(values))),
                "quantile_975": quantile,
                "quantile_975_error": float(again.std(ddof=1)),
            }
        )
    last = looks[-1]
    more = last["quantile_975"] / last["mean"] - 1.0
    found = f"mean {last['mean']:.3f} ± {last['mean_error']:.3f}, 97.5 % quantile {last['quantile_975']:.3f}"
    claims = [
        Claim("the mean unfairness after training is 0.025, its 97.5 % quantile 0.042", found, None),
        Claim("the quantile is 64 % above the mean", f"{100.0 * more:.0f} % above", bool(more > 0.5)),
    ]
    accuracy = float(np.mean([one.accuracy for one in outcomes]))
    line = {"repetitions": len(outcomes), **last, "accuracy": accuracy}
    return Result(line, {"looks": looks}, claims, lambda: draw(study, seen, looks))


def draw(study: Study, seen: FloatArray, looks: list[dict[str, Any]]) -> Any:
    """Paths of the unfairness, their mean and their quantile."""
    figure, ax = panels(1)
    for path in seen:
        ax.plot(study.looks, path, color="0.6", linewidth=0.4, alpha=0.6)
    ax.plot([], [], color="0.6", linewidth=1.0, label="fits")
    for colour, name, words in zip(COLOURS, ("mean", "quantile_975"), ("mean", "97.5 % quantile"), strict=False):
        ax.plot(study.looks, [look[name] for look in looks], color=colour, linewidth=2.0, label=words)
    ax.set(xscale="log", xlabel="rows seen", ylabel="unfairness (demographic parity difference)", ylim=(0.0, None))
    ax.set_title(f"{study.title}, {study.preset.name} preset", fontsize="medium")
    ax.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(frameon=False)
    return figure


EXPERIMENTS = (
    Experiment(
        "motivation", "Unfairness over repetitions", (1,), "synthetic_di", "log_loss", 200, Outcome, repeat, judge
    ),
)
