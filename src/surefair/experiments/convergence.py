"""Does the unfairness come to its limit law, and do intervals contain it? Eight figures of four panels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from scipy.stats import spearmanr

from surefair.experiments._experiment import Claim, Experiment, Result
from surefair.experiments._study import REFERENCES, Outcome, Study, repeat, shares
from surefair.experiments._table import LOSSES, TABLE, TITLES
from surefair.plotting import COLOURS, LEGEND, draw_band, draw_density, panels
from surefair.scoring import binomial_limits, wasserstein2
from surefair.streams import FloatArray

LEVEL, BOUNDS, TREND = 0.95, (0.93, 0.97), -0.7
BANDS = dict(zip(("training", "retraining"), COLOURS[2:], strict=True))


def judge(study: Study, outcomes: Sequence[Outcome]) -> Result:
    """Distances, coverages and scores at every look, and what they say of the paper's claims."""
    whole = [one for one in outcomes if np.isfinite(one.gap).all()]  # the others diverged
    line: dict[str, Any] = {"repetitions": len(outcomes), "diverged": len(outcomes) - len(whole), **study.told}
    line["warned"] = shares([one.warned for one in outcomes])
    if len(whole) < 3:
        claim = Claim("the algorithm converges", f"{line['diverged']} of {len(outcomes)} fits diverged", False)
        return Result(line, {}, [claim], lambda: panels(1)[0])
    gap = np.array([one.gap for one in whole])
    ends = np.array([(one.low, one.high) for one in whole])  # (R, 2, bands, looks)
    star = float(study.seen(study.gaps(study.star[:, None]))[0])
    laws = [study.law(int(n)) for n in study.looks]
    looks = [look(study, int(n), gap[:, i], ends[..., i], laws[i], star) for i, n in enumerate(study.looks)]
    accuracy = np.array([one.accuracy for one in whole])
    line |= looks[-1] | {"unfairness_of_optimum": abs(star)} | _mean("accuracy", accuracy)
    claims = judged(looks, len(whole), line["diverged"])
    return Result(line, {"looks": looks}, claims, lambda: draw(study, study.seen(gap), ends, laws, looks, star))


def look(study: Study, n: int, gap: FloatArray, ends: FloatArray, law: FloatArray, star: float) -> dict[str, Any]:
    """All numbers after n rows; gaps (R,), limits (R, 2, bands)."""
    seen, unfairness = study.seen(gap), np.abs(gap)
    rng = np.random.default_rng([study.seed, 5])
    again = np.quantile(rng.choice(unfairness, (500, len(gap))), 0.975, axis=1)
    found: dict[str, Any] = {"rows": n} | _mean("unfairness", unfairness)
    found |= {"unfairness_975": float(np.quantile(unfairness, 0.975)), "unfairness_975_error": float(again.std(ddof=1))}
    found |= {
        "w2": wasserstein2(seen, law),
        "w2_error": jackknife(lambda kept: wasserstein2(seen[kept], law), len(seen)),
    }
    found |= {"w2_by_chance": by_chance(law, study.law(n, draw=1), len(seen), study.seed)}
    for j, source in enumerate(study.preset.bands):
        found |= {f"{name}_{source}": value for name, value in held(seen, ends[:, 0, j], ends[:, 1, j], star).items()}
    return found


def _mean(name: str, values: FloatArray) -> dict[str, float]:
    return {name: float(values.mean()), f"{name}_error": float(values.std(ddof=1) / np.sqrt(len(values)))}


def jackknife(statistic: Callable[[Any], float], size: int) -> float:
    """Standard error of a statistic of the repetitions that are kept, from leaving out one at a time."""
    values = np.array([statistic(np.delete(np.arange(size), i)) for i in range(size)])
    return float(np.sqrt((size - 1) / size * np.sum((values - values.mean()) ** 2)))


def by_chance(law: FloatArray, others: FloatArray, size: int, seed: int) -> float:
    """Distance from the law that a sample of this size, of other draws from it, exceeds one time in twenty."""
    rng = np.random.default_rng([seed, 4])
    return float(np.quantile([wasserstein2(rng.choice(others, size), law) for _ in range(REFERENCES)], 0.95))


def held(seen: FloatArray, low: FloatArray, high: FloatArray, star: float) -> dict[str, float]:
    """How often bands contain the optimum's value and, repetition against repetition, that of another fit; and scores.

    Errors of means over pairs of repetitions are by the jackknife.
    """
    R, below, above = len(seen), np.maximum(low[:, None] - seen, 0.0), np.maximum(seen - high[:, None], 0.0)
    scores = (high - low)[:, None] + 2.0 / (1.0 - LEVEL) * (below + above)
    covers = float(np.mean((low <= star) & (star <= high)))
    found = {"covers_optimum": covers, "covers_optimum_error": float(np.sqrt(covers * (1.0 - covers) / R))}
    for name, pairs in (("covers_others", (below + above <= 0.0).astype(float)), ("score", scores)):
        np.fill_diagonal(pairs, 0.0)
        total, own = pairs.sum(), pairs.sum(axis=0) + pairs.sum(axis=1)
        without = (total - own) / ((R - 1) * (R - 2))
        found[name] = float(total / (R * (R - 1)))
        found[f"{name}_error"] = float(np.sqrt((R - 1) / R * np.sum((without - without.mean()) ** 2)))
    return found | _mean("width", high - low)


def judged(looks: list[dict[str, Any]], repetitions: int, diverged: int) -> list[Claim]:
    """What the paper says of such a figure; nothing holds of an algorithm that diverges."""
    last = looks[-1]
    source = "retraining" if "covers_others_retraining" in last else "training"
    share, error = last[f"covers_others_{source}"], last[f"covers_others_error_{source}"]
    hits = round(last["covers_optimum_training"] * repetitions)
    low, high = binomial_limits(hits, repetitions - hits, LEVEL)
    claims = [
        _falls("W2 to the limit law falls along the stream", looks, "w2", "w2_error"),
        Claim(
            "observed and theoretical densities overlap at the end",
            f"W2 {last['w2']:.2g}; of samples of the law itself, 95 % are below {last['w2_by_chance']:.2g}",
            last["w2"] <= last["w2_by_chance"],
        ),
        Claim(
            "intervals of level 95 % contain the values over repetitions",
            f"{100.0 * share:.1f} % ± {100.0 * error:.1f} of other fits (source {source})",
            _within(share - 2.0 * error, share + 2.0 * error),
        ),
        Claim(
            "intervals of level 95 % contain the optimum's",
            f"{100.0 * hits / repetitions:.1f} %, {100.0 * low:.1f} to {100.0 * high:.1f} (source training)",
            _within(float(low), float(high)),
        ),
        _falls("the mean interval score falls along the stream", looks, f"score_{source}", f"score_error_{source}"),
    ]
    return [Claim(one.words, one.found, bool(one.held and not diverged)) for one in claims]


def _within(low: float, high: float) -> bool:
    """Whether a coverage that lies between these may be one of 93 to 97 %."""
    return high >= BOUNDS[0] and low <= BOUNDS[1]


def _falls(words: str, looks: list[dict[str, Any]], name: str, error: str) -> Claim:
    """Whether a number falls along the stream: is lower at the end, and goes down with the rows by rank correlation."""
    values = [one[name] for one in looks]
    trend, first, last = float(spearmanr(range(len(values)), values).statistic), looks[0], looks[-1]
    found = (
        f"{first[name]:.2g} ± {first[error]:.1g} to {last[name]:.2g} ± {last[error]:.1g}, "
        f"rank correlation with rows {trend:.2f}"
    )
    return Claim(words, found, bool(values[-1] < values[0] and trend < TREND))


def draw(
    study: Study,
    seen: FloatArray,
    ends: FloatArray,
    laws: list[FloatArray],
    looks: list[dict[str, Any]],
    star: float,
) -> Any:
    """Four panels: distance, densities, paths in a band, score."""
    figure, axes = panels(4, columns=2)
    (distance, density), (paths, score) = axes
    rows, what = study.looks, "gap" if study.preset.signed else "unfairness"
    theory, observed = COLOURS[0], COLOURS[1]
    distance.plot(rows, [one["w2"] for one in looks], "o-", color=observed, markersize=3, label="observed")
    chance = [one["w2_by_chance"] for one in looks]
    distance.plot(rows, chance, "--", color=theory, label="95 % of samples of the law")
    distance.set(xscale="log", yscale="log", xlabel="rows seen", ylabel="W2 to the limit law", title="(a) distance")
    for i, style in ((int(np.argmin(np.abs(rows - 1_000))), ":"), (len(rows) - 1, "-")):
        width, final = seen[:, i].std() * len(seen) ** -0.2, i == len(rows) - 1
        for values, colour, name in ((seen[:, i], observed, "observed"), (laws[i], theory, "limit law")):
            label = f"{name}, {rows[i]:,} rows"
            draw_density(density, values, colour, style, label, width, final, None if study.preset.signed else 0.0)
    density.plot([], [], "--", color="0.4", linewidth=1.0, label="their 95 % at the end")
    density.set(xlabel=what, ylabel="density", title="(b) densities")
    band = list(study.preset.bands)[-1]
    draw_band(paths, rows, ends[0, 0, -1], ends[0, 1, -1], BANDS[band], f"interval of one fit, {band}")
    for path in seen:
        paths.plot(rows, path, color="0.5", linewidth=0.4, alpha=0.5, zorder=1)
    paths.plot([], [], color="0.5", linewidth=1.0, label="fits")
    paths.axhline(star, color="black", linewidth=1.0, linestyle="--", label="optimum")
    paths.set(xscale="log", xlabel="rows seen", ylabel=what, title="(c) repetitions and one interval")
    for source in study.preset.bands:
        scores = [one[f"score_{source}"] for one in looks]
        score.plot(rows, scores, "o-", color=BANDS[source], markersize=3, label=f"source {source}")
    score.set(xscale="log", yscale="log", xlabel="rows seen", ylabel="mean interval score", title="(d) score")
    for ax in axes.flat:
        ax.legend(fontsize="x-small", **LEGEND)
        ax.spines[["top", "right"]].set_visible(False)
    for ax in (distance, paths, score):
        ax.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    title = f"{study.title}, {study.loss.replace('_', ' ')}: {study.setup.criterion.replace('_', ' ')}"
    figure.suptitle(f"{title}, {study.preset.name} preset")
    return figure


EXPERIMENTS = tuple(
    Experiment(
        name=f"{data}_{loss}",
        title=f"{TITLES[data]}, {loss.replace('_', ' ')}",
        place=(2 + i, j),
        data=data,
        loss=loss,
        repetitions=setup.repetitions,
        outcome=Outcome,
        repeat=repeat,
        judge=judge,
    )
    for i, loss in enumerate(LOSSES)
    for j, (data, setup) in enumerate(TABLE.items())
)
