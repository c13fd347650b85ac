"""What the constraint costs: accuracy and rates with and without it, compared with those of Zafar et al.

Their figures are for one half of COMPAS; the demonstration in their repository prints them
(mbilalzafar/fair-classification, disparate_mistreatment/README.md, 2017). There are none for Adult. The exact optimum
of each half shows how much accuracy one pass loses, and how much depends on the choice of the half.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from surefair.experiments.experiment import Claim, Experiment, Result
from surefair.experiments.rules import plus
from surefair.experiments.study import Study, share_right
from surefair.inference.theory import population_optima
from surefair.plotting.drawing import COLOURS, LEGEND, panels
from surefair.rows import FloatArray
from surefair.training.model import Model

PRINTED = 0.0005  # rounding error of their figures, which have three digits
MODELS = ("unconstrained", "unconstrained, exact", "constrained")
ZAFAR: dict[str, dict[str, tuple[float, tuple[float, float]]]] = {
    "compas": {"unconstrained": (0.678, (0.36, 0.18)), "constrained": (0.659, (0.24, 0.25))}
}


class Halves(NamedTuple):
    """Accuracy and rates of each model on the half that was not used for training."""

    accuracy: FloatArray  # (models,)
    rates: FloatArray  # (models, groups)


def repeat(study: Study, repetition: int) -> Halves:
    """Train on a random half and measure on the other."""
    rng = np.random.default_rng([study.seed, 7, repetition])
    order = rng.permutation(study.population.n)
    n = len(order) // 2
    train = study.population.part(order[:n])
    test = study.population.part(order[n:])
    seed = int(rng.integers(2**31))
    accuracy = np.empty(len(MODELS))
    rates = np.empty((len(MODELS), 2))
    for i, name in enumerate(MODELS):
        free = {} if name == "constrained" else {"criterion": None}
        problem = study.problem(seed, n_replicates=0, **free)
        model = Model.of(problem, train.names, train.X.shape[1]).train(train)
        theta = model.coefficients
        if name == "unconstrained, exact":
            theta = population_optima(model.trained, train)[0].theta
        accuracy[i] = share_right(theta, test)
        rates[i] = study.rates(theta[:, None], test)[0]
    return Halves(accuracy, rates)


def judge(study: Study, outcomes: Sequence[Halves]) -> Result:
    """Tabulate the models and compare them with the printed figures."""
    R = len(outcomes)
    accuracy, rates = (np.array([one[i] for one in outcomes]) for i in range(2))
    rows: list[dict[str, Any]] = []
    for i, model in enumerate(MODELS):
        theirs = ZAFAR.get(study.setup.data, {}).get(model.removesuffix(", exact"))
        row: dict[str, Any] = {"model": model, "accuracy": float(accuracy[:, i].mean())}
        row |= {"accuracy_error": float(accuracy[:, i].std(ddof=1) / np.sqrt(R))}
        row |= {f"rate_{name}": float(rates[:, i, g].mean()) for g, name in enumerate(study.groups)}
        row |= {"accuracy_zafar": theirs[0] if theirs else None}
        row |= {f"rate_{name}_zafar": theirs[1][g] if theirs else None for g, name in enumerate(study.groups)}
        rows.append(row)
    claims = [
        compare_with_zafar(row, accuracy[:, i], rates[:, i], study)
        for i, row in enumerate(rows)
        if row["accuracy_zafar"] is not None
    ]
    line = {"repetitions": R, **{f"accuracy_{row['model'].replace(', ', '_')}": row["accuracy"] for row in rows}}
    return Result(line, {"models": rows}, claims, lambda: draw(study, rows, accuracy))


def compare_with_zafar(row: dict[str, Any], accuracy: FloatArray, rates: FloatArray, study: Study) -> Claim:
    """Report their figures for one model next to ours: accuracy of shape (R,), rates of shape (R, 2)."""
    above = float(np.mean(accuracy >= row["accuracy_zafar"] - PRINTED))
    found = f"{row['accuracy']:.3f}{plus(row['accuracy_error'])}; {100.0 * above:.0f} % of random halves reach theirs"
    if row["model"] == "constrained":
        gap = rates[:, 0] - rates[:, 1]
        theirs = [row[f"rate_{name}_zafar"] for name in study.groups]
        error = float(gap.std(ddof=1) / np.sqrt(len(gap)))
        found += (
            f"; their gap is {theirs[0] - theirs[1]:.2f}, ours is {gap.mean():.2f}{plus(error)} on average and "
            f"{np.abs(gap).mean():.2f} in absolute value, so the accuracies are not directly comparable"
        )
    words = f"{row['model']}: accuracy {row['accuracy_zafar']:.3f} on one half"
    return Claim(words, found, None, whose="Zafar", judged=False)


def draw(study: Study, rows: list[dict[str, Any]], accuracy: FloatArray) -> Any:
    """Draw the accuracies on all halves, their means, and those of Zafar et al."""
    figure, ax = panels(1)
    for i, row in enumerate(rows):
        jitter = np.linspace(-0.15, 0.15, len(accuracy))
        ax.plot(accuracy[:, i], i + jitter, "o", color="0.7", markersize=3, label="random halves" if i == 0 else None)
        ax.plot(row["accuracy"], i, "D", color=COLOURS[0], label="mean" if i == 0 else None)
        if row["accuracy_zafar"] is not None:
            ax.plot(
                row["accuracy_zafar"], i, "*", color=COLOURS[1], markersize=12, label="Zafar et al." if i == 0 else None
            )
    ax.set_yticks(range(len(rows)), labels=MODELS)
    ax.set(ylim=(len(rows) - 0.5, -0.5), xlabel="accuracy on the held-out half")
    ax.set_title(f"{study.title}, {study.preset.name} preset", fontsize="medium")
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(**LEGEND)
    return figure


EXPERIMENTS = tuple(
    Experiment(f"{data}_accuracy", f"{title}: accuracy", (6, i), data, "log_loss", 200, Halves, repeat, judge)
    for i, (data, title) in enumerate((("adult", "Adult"), ("compas", "COMPAS")))
)
