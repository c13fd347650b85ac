"""What fairness costs: accuracy and rates with and without the constraint, beside those of Zafar et al.

Their figures are of one half of COMPAS, as printed by the demonstration in their repository
(mbilalzafar/fair-classification, disparate_mistreatment/README.md, 2017); none for Adult. The exact optimum of
each half tells what one pass over it loses, and what the choice of the half does.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from surefair.experiments._experiment import Claim, Experiment, Result
from surefair.experiments._rules import plus
from surefair.experiments._study import Study
from surefair.inference.theory import optimum
from surefair.plotting import COLOURS, LEGEND, panels
from surefair.rows.arrays import FloatArray

PRINTED = 0.0005  # what rounding may have added to their figures, printed to three digits
MODELS = ("unconstrained", "unconstrained, exact", "constrained")
ZAFAR: dict[str, dict[str, tuple[float, tuple[float, float]]]] = {
    "compas": {"unconstrained": (0.678, (0.36, 0.18)), "constrained": (0.659, (0.24, 0.25))}
}


class Halves(NamedTuple):
    """Accuracy (models,) and rates of the two groups (models, 2), on the half that was not trained on."""

    accuracy: FloatArray
    rates: FloatArray


def repeat(study: Study, repetition: int) -> Halves:
    """Train on a random half, measure on the other."""
    rng = np.random.default_rng([study.seed, 7, repetition])
    order, n = rng.permutation(len(study.population.y)), len(study.population.y) // 2
    train, test, seed = study.population.part(order[:n]), study.population.part(order[n:]), int(rng.integers(2**31))
    accuracy, rates = np.empty(len(MODELS)), np.empty((len(MODELS), 2))
    for i, model in enumerate(MODELS):
        free = {} if model == "constrained" else {"criterion": None}
        clf = study.classifier(n_replicates=0, random_state=seed, **free)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            clf.fit(train.X, train.y, sensitive_features=train.group)
        theta = np.append(clf.coef_[0], clf.intercept_)
        if model == "unconstrained, exact":
            theta = optimum(clf, train.X, train.y)
        accuracy[i] = np.mean((test.X @ theta[:-1] + theta[-1] > 0.0) == test.y)
        rates[i] = study.rates(theta[:, None], test)[0]
    return Halves(accuracy, rates)


def judge(study: Study, outcomes: Sequence[Halves]) -> Result:
    """A line for each model."""
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
        beside(row, accuracy[:, i], rates[:, i], study)
        for i, row in enumerate(rows)
        if row["accuracy_zafar"] is not None
    ]
    line = {"repetitions": R, **{f"accuracy_{row['model'].replace(', ', '_')}": row["accuracy"] for row in rows}}
    return Result(line, {"models": rows}, claims, lambda: draw(study, rows, accuracy))


def beside(row: dict[str, Any], accuracy: FloatArray, rates: FloatArray, study: Study) -> Claim:
    """Their figures of one model beside accuracies (R,) and rates (R, 2) of our halves; not judged."""
    above = float(np.mean(accuracy >= row["accuracy_zafar"] - PRINTED))
    found = f"{row['accuracy']:.3f}{plus(row['accuracy_error'])}; {100.0 * above:.0f} % of halves at or above theirs"
    if row["model"] == "constrained":
        gap, theirs = rates[:, 0] - rates[:, 1], [row[f"rate_{name}_zafar"] for name in study.groups]
        error = float(gap.std(ddof=1) / np.sqrt(len(gap)))
        found += (
            f"; gap of the rates {theirs[0] - theirs[1]:.2f} in theirs, in ours {gap.mean():.2f}{plus(error)} "
            f"on average and {np.abs(gap).mean():.2f} in size: accuracies compare only among models as fair"
        )
    words = f"{row['model']} accuracy of {row['accuracy_zafar']:.3f} on one half"
    return Claim(words, found, None, whose="Zafar", judged=False)


def draw(study: Study, rows: list[dict[str, Any]], accuracy: FloatArray) -> Any:
    """Accuracies of all halves, their means, and what Zafar et al. print."""
    figure, ax = panels(1)
    for i, row in enumerate(rows):
        jitter = np.linspace(-0.15, 0.15, len(accuracy))
        ax.plot(accuracy[:, i], i + jitter, "o", color="0.7", markersize=3, label="halves" if i == 0 else None)
        ax.plot(row["accuracy"], i, "D", color=COLOURS[0], label="mean" if i == 0 else None)
        if row["accuracy_zafar"] is not None:
            ax.plot(
                row["accuracy_zafar"], i, "*", color=COLOURS[1], markersize=12, label="Zafar et al." if i == 0 else None
            )
    ax.set_yticks(range(len(rows)), labels=MODELS)
    ax.set(ylim=(len(rows) - 0.5, -0.5), xlabel="accuracy on the other half")
    ax.set_title(f"{study.title}, {study.preset.name} preset", fontsize="medium")
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(**LEGEND)
    return figure


EXPERIMENTS = tuple(
    Experiment(f"{data}_accuracy", f"{title}: accuracy", (6, i), data, "log_loss", 200, Halves, repeat, judge)
    for i, (data, title) in enumerate((("adult", "Adult"), ("compas", "COMPAS")))
)
