"""Does the unfairness come to its limit law, and do intervals contain it? Eight figures of four panels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from surefair.experiments._experiment import Claim, Experiment, Result
from surefair.experiments._study import REFERENCES, Outcome, Study, repeat
from surefair.experiments._table import LOSSES, TABLE, TITLES
from surefair.plotting import COLOURS, draw_band, draw_density, panels
from surefair.scoring import mean_interval_score, wasserstein2
from surefair.streams import FloatArray

LEVEL, BOUNDS = 0.95, (0.93, 0.97)


def judge(study: Study, outcomes: Sequence[Outcome]) -> Result:
    """Distances, coverages and scores at every look, and what they say of the paper's claims."""
    seen = study.seen(np.array([one.gap for one in outcomes]))
    ends = np.array([(one.low, one.high) for one in outcomes])  # (R, 2, bands, looks)
    star = float(study.seen(study.gaps(study.star[:, None]))[0])
    laws = [study.law(int(n)) for n in study.looks]
    looks = [
        {
            "rows": int(n),
            "mean": float(seen[:, i].mean()),
            "mean_error": float(seen[:, i].std(ddof=1) / np.sqrt(len(seen))),
            "quantile_975": float(np.quantile(seen[:, i], 0.975)),
            "w2": wasserstein2(seen[:, i], law),
            "w2_by_chance": by_chance(law, len(seen), study.seed),
            **{
                f"{name}_{source}": value
                for j, source in enumerate(study.preset.bands)
                for name, value in held(seen[:, i], ends[:, :, j, i].T, star).items()
            },
        }
        for i, (n, law) in enumerate(zip(study.looks, laws, strict=True))
    ]
    accuracy = np.array([one.accuracy for one in outcomes])
    line = {
        "repetitions": len(outcomes),
        **looks[-1],
        "star": star,
        "accuracy": float(accuracy.mean()),
        "accuracy_error": float(accuracy.std(ddof=1) / np.sqrt(len(accuracy))),
        "warned": _shares([one.warned for one in outcomes]),
    }
    return Result(line, {"looks": looks}, claims(looks), lambda: draw(study, seen, ends, laws, looks, star))


def by_chance(law: FloatArray, size: int, seed: int) -> float:
    """Distance from the law that a sample of this size, drawn from the law itself, exceeds one time in twenty."""
    rng = np.random.default_rng([seed, 4])
    return float(np.quantile([wasserstein2(rng.choice(law, size), law) for _ in range(REFERENCES)], 0.95))


def held(seen: FloatArray, ends: FloatArray, star: float) -> dict[str, float]:
    """How often bands contain the optimum's value and, repetition against repetition, that of another fit; and scores.

    The Monte-Carlo error of the second is by the jackknife over repetitions.
    """
    (low, high), R = ends, len(seen)
    star_held = (low <= star) & (star <= high)
    pairs = (low[:, None] <= seen) & (seen <= high[:, None])
    np.fill_diagonal(pairs, False)
    total, each = pairs.sum(), pairs.sum(axis=0) + pairs.sum(axis=1)
    left_out = (total - each) / ((R - 1) * (R - 2))
    scores = [mean_interval_score(np.delete(seen, i), low[i], high[i], 1.0 - LEVEL) for i in range(R)]
    return {
        "covers_optimum": float(star_held.mean()),
        "covers_others": float(total / (R * (R - 1))),
        "covers_others_error": float(np.sqrt((R - 1) / R * np.sum((left_out - left_out.mean()) ** 2))),
        "score": float(np.mean(scores)),
        "score_error": float(np.std(scores, ddof=1) / np.sqrt(R)),
        "width": float(np.mean(high - low)),
    }


def claims(looks: list[dict[str, Any]]) -> list[Claim]:
    """What the paper says of such a figure."""
    first, last = looks[0], looks[-1]
    source = "retraining" if "covers_others_retraining" in last else "training"
    share, error = last[f"covers_others_{source}"], last[f"covers_others_error_{source}"]
    scores = [look[f"score_{source}"] for look in looks]
    return [
        Claim(
            "W2 to the limit law falls along the stream",
            f"{first['w2']:.2g} to {last['w2']:.2g}",
            last["w2"] < first["w2"],
        ),
        Claim(
            "observed and theoretical densities overlap at the end",
            f"W2 {last['w2']:.2g}; of samples of the law itself, 95 % are below {last['w2_by_chance']:.2g}",
            last["w2"] <= last["w2_by_chance"],
        ),
        Claim(
            "intervals contain the values over repetitions",
            f"{100.0 * share:.1f} % ± {100.0 * error:.1f} of other fits (source {source})",
            bool(share + 2.0 * error >= BOUNDS[0]),
        ),
        Claim(
            "the mean interval score falls along the stream",
            f"{scores[0]:.2g} to {scores[-1]:.2g}",
            scores[-1] < scores[0],
        ),
    ]


def draw(
    study: Study, seen: FloatArray, ends: FloatArray, laws: list[FloatArray], looks: list[dict[str, Any]], star: float
) -> Any:
    """Four panels: distance, densities, paths in a band, score."""
    figure, axes = panels(4, columns=2)
    (distance, density), (paths, score) = axes
    rows, what = study.looks, "gap" if study.preset.signed else "unfairness"
    observed, theory = COLOURS[1], COLOURS[0]
    distance.plot(rows, [look["w2"] for look in looks], "o-", color=observed, markersize=3, label="observed")
    distance.plot(
        rows, [look["w2_by_chance"] for look in looks], "--", color=theory, label="95 % of samples of the law"
    )
    distance.set(xscale="log", yscale="log", xlabel="rows seen", ylabel="W2 to the limit law", title="(a) distance")
    for i, style in ((len(rows) // 2, ":"), (len(rows) - 1, "-")):
        draw_density(density, seen[:, i], observed, style, f"observed, {rows[i]:,} rows", limits=i == len(rows) - 1)
        draw_density(density, laws[i], theory, style, f"limit law, {rows[i]:,} rows", limits=i == len(rows) - 1)
    density.set(xlabel=what, ylabel="density", title="(b) densities and 95 % intervals at the end")
    band = list(study.preset.bands)[-1]
    draw_band(paths, rows, ends[0, 0, -1], ends[0, 1, -1], theory, f"interval of one fit, {band}")
    for path in seen:
        paths.plot(rows, path, color="0.6", linewidth=0.4, alpha=0.6, zorder=1)
    paths.plot([], [], color="0.6", linewidth=1.0, label="fits")
    paths.axhline(star, color="black", linewidth=1.0, linestyle="--", label="optimum")
    paths.set(xscale="log", xlabel="rows seen", ylabel=what, title="(c) repetitions and one interval")
    for colour, source in zip((theory, COLOURS[2]), study.preset.bands, strict=False):
        score.plot(rows, [look[f"score_{source}"] for look in looks], "o-", color=colour, markersize=3, label=source)
    score.set(xscale="log", yscale="log", xlabel="rows seen", ylabel="mean interval score", title="(d) score")
    for ax in axes.flat:
        ax.legend(frameon=False, fontsize="x-small")
        ax.spines[["top", "right"]].set_visible(False)
    for ax in (distance, paths, score):
        ax.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    title = f"{study.title}, {study.loss.replace('_', ' ')}: {study.setup.criterion.replace('_', ' ')}"
    figure.suptitle(f"{title}, {study.preset.name} preset")
    return figure


def _shares(warned: list[str]) -> dict[str, float]:
    """Share of the repetitions in which each warning was raised."""
    names = sorted({name for one in warned for name in one.split()})
    return {name: float(np.mean([name in one.split() for one in warned])) for name in names}


EXPERIMENTS = tuple(
    Experiment(
        f"{data}_{loss}",
        f"{TITLES[data]}, {loss.replace('_', ' ')}",
        (2 + i, j),
        data,
        loss,
        setup.repetitions,
        Outcome,
        repeat,
        judge,
    )
    for i, loss in enumerate(LOSSES)
    for j, (data, setup) in enumerate(TABLE.items())
)
