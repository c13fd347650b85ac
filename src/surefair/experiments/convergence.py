"""Does the unfairness come to its limit law, and do intervals contain it? Eight figures of four panels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from surefair.experiments._experiment import Claim, Experiment, Result
from surefair.experiments._rules import LEVEL, covers, falls, plus, share_error
from surefair.experiments._study import NAMED, REFERENCES, Outcome, Study, repeat, shares
from surefair.experiments._table import LOSSES, TABLE, TITLES
from surefair.inference.scoring import binomial_limits, wasserstein2
from surefair.plotting import COLOURS, LEGEND, draw_band, draw_density, panels
from surefair.rows.arrays import FloatArray

BANDS = dict(zip(("training", "retraining"), COLOURS[2:], strict=True))


def judge(study: Study, outcomes: Sequence[Outcome]) -> Result:
    """Distances, coverages and scores at every look, and what they say of the paper's claims."""
    whole = [one for one in outcomes if np.isfinite(one.gap).all()]  # the others diverged
    line: dict[str, Any] = {"repetitions": len(outcomes), "diverged": len(outcomes) - len(whole), **study.told}
    line |= study.gaps_of_optimum
    line["warned"] = shares([one.warned for one in outcomes])
    if len(whole) < 3:
        claim = Claim("the algorithm converges", f"{line['diverged']} of {len(outcomes)} fits diverged", False)
        return Result(line, {}, [claim], lambda: panels(1)[0])
    gap = np.array([one.gap for one in whole])
    ends = np.array([(one.low, one.high) for one in whole])  # (R, 2, bands, looks)
    seen, star = study.seen(gap), float(study.seen(np.array(line["optimum_gap_evaluation"])))
    laws = [study.law(int(n)) for n in study.looks]
    looks = [look(study, int(n), gap[:, i], ends[..., i], laws[i], star) for i, n in enumerate(study.looks)]
    accuracy = np.array([one.accuracy for one in whole])
    line |= looks[-1] | _mean("accuracy", accuracy)
    line |= fall("w2", lambda kept, i: wasserstein2(seen[kept, i], laws[i]), len(whole))
    for j, source in enumerate(study.preset.bands):

        def score(kept: Any, i: int, j: int = j) -> float:
            pairs = scores(seen[kept, i], ends[kept, 0, j, i], ends[kept, 1, j, i])
            return float(pairs.sum() / (len(kept) * (len(kept) - 1)))

        line |= fall(f"score_{source}", score, len(whole))
    claims = judged(line, looks, len(whole))
    return Result(line, {"looks": looks}, claims, lambda: draw(study, seen, ends, laws, looks, star))


def look(study: Study, n: int, gap: FloatArray, ends: FloatArray, law: FloatArray, star: float) -> dict[str, Any]:
    """All numbers after n rows; gaps (R,), limits (R, 2, bands)."""
    seen, unfairness = study.seen(gap), np.abs(gap)
    rng = np.random.default_rng([study.seed, 5])
    again = np.quantile(rng.choice(unfairness, (500, len(gap))), 0.975, axis=1)
    found: dict[str, Any] = {"rows": n} | _mean("unfairness", unfairness)
    found |= {"unfairness_975": float(np.quantile(unfairness, 0.975)), "unfairness_975_error": float(again.std(ddof=1))}
    w2, chance = wasserstein2(seen, law), by_chance(law, study.law(n, draw=1), len(seen), study.seed)
    found |= {
        "w2": w2,
        "w2_error": jackknife(lambda kept: wasserstein2(seen[kept], law), len(seen)),
        "w2_by_chance": chance,
        "w2_ratio": w2 / chance if chance > 0.0 else None,
    }
    for j, source in enumerate(study.preset.bands):
        found |= {f"{name}_{source}": value for name, value in held(seen, ends[:, 0, j], ends[:, 1, j], star).items()}
    return found


def _mean(name: str, values: FloatArray) -> dict[str, float]:
    return {name: float(values.mean()), f"{name}_error": float(values.std(ddof=1) / np.sqrt(len(values)))}


def jackknife(statistic: Callable[[Any], float], size: int) -> float:
    """Standard error of a statistic of the repetitions that are kept, from leaving out one at a time."""
    values = np.array([statistic(np.delete(np.arange(size), i)) for i in range(size)])
    return float(np.sqrt((size - 1) / size * np.sum((values - values.mean()) ** 2)))


def fall(name: str, statistic: Callable[[Any, int], float], size: int) -> dict[str, float]:
    """How much lower a statistic of repetitions is at the last look than at the first, and the error of that."""

    def drop(kept: Any) -> float:
        return statistic(kept, 0) - statistic(kept, -1)

    return {f"{name}_fall": drop(np.arange(size)), f"{name}_fall_error": jackknife(drop, size)}


def by_chance(law: FloatArray, others: FloatArray, size: int, seed: int) -> float:
    """Distance from the law that a sample of this size, of other draws from it, exceeds one time in twenty."""
    rng = np.random.default_rng([seed, 4])
    return float(np.quantile([wasserstein2(rng.choice(others, size), law) for _ in range(REFERENCES)], 0.95))


def scores(seen: FloatArray, low: FloatArray, high: FloatArray) -> FloatArray:
    """Score of the band of each repetition for the value of each other one, shape (R, R); 0 for its own."""
    outside = np.maximum(low[:, None] - seen, 0.0) + np.maximum(seen - high[:, None], 0.0)
    found = (high - low)[:, None] + 2.0 / (1.0 - LEVEL) * outside
    np.fill_diagonal(found, 0.0)
    return np.asarray(found)


def held(seen: FloatArray, low: FloatArray, high: FloatArray, star: float) -> dict[str, float]:
    """How often bands contain the optimum's value and, repetition against repetition, that of another fit; and scores.

    Errors of means over pairs of repetitions are by the jackknife.
    """
    R, inside = len(seen), ((low[:, None] <= seen) & (seen <= high[:, None])).astype(float)
    np.fill_diagonal(inside, 0.0)
    share = float(np.mean((low <= star) & (star <= high)))
    found = {"covers_optimum": share, "covers_optimum_error": float(np.sqrt(share * (1.0 - share) / R))}
    for name, pairs in (("covers_others", inside), ("score", scores(seen, low, high))):
        total, own = pairs.sum(), pairs.sum(axis=0) + pairs.sum(axis=1)
        without = (total - own) / ((R - 1) * (R - 2))
        found[name] = float(total / (R * (R - 1)))
        found[f"{name}_error"] = float(np.sqrt((R - 1) / R * np.sum((without - without.mean()) ** 2)))
    for name in ("covers_optimum", "covers_others"):
        found[f"{name}_error"] = share_error(found[name], found[f"{name}_error"], R)
    return found | _mean("width", high - low)


def judged(line: dict[str, Any], looks: list[dict[str, Any]], repetitions: int) -> list[Claim]:
    """What is said of such a figure; nothing holds of an algorithm that diverges."""
    last = looks[-1]
    source = "retraining" if "covers_others_retraining" in last else "training"
    share, error = last[f"covers_others_{source}"], last[f"covers_others_error_{source}"]
    hits = round(last["covers_optimum_training"] * repetitions)
    low, high = map(float, binomial_limits(hits, repetitions - hits, LEVEL))
    claims = [
        _distance_falls(line, looks),
        *(_overlap(one) for one in looks if one["rows"] == NAMED or one is last),
        Claim(
            "intervals of level 95 % contain the values over repetitions",
            f"{100.0 * share:.1f} %{plus(100.0 * error)} of other fits (source {source})",
            covers(share, share - 2.0 * error, share + 2.0 * error),
        ),
        Claim(
            "intervals of level 95 % contain the optimum's",
            f"{100.0 * hits / repetitions:.1f} %, {100.0 * low:.1f} to {100.0 * high:.1f} (source training)",
            covers(hits / repetitions, low, high),
            whose="ours",
        ),
        Claim(
            "the mean interval score falls along the stream",
            f"{_first_to_last(line, looks, f'score_{source}', f'score_error_{source}')} (source {source})",
            falls(line[f"score_{source}_fall"], line[f"score_{source}_fall_error"]),
        ),
    ]
    return [replace(one, held=False) for one in claims] if line["diverged"] else claims


def _distance_falls(line: dict[str, Any], looks: list[dict[str, Any]]) -> Claim:
    """Whether W2 falls, or is from the first look on what chance gives."""
    found, ratios = _first_to_last(line, looks, "w2", "w2_error"), [looks[0]["w2_ratio"], looks[-1]["w2_ratio"]]
    if None not in ratios:
        found += f"; {ratios[0]:.2g} to {ratios[1]:.2g} times what 95 % of samples of the law itself are below"
    held = falls(line["w2_fall"], line["w2_fall_error"])
    if all(one["w2"] <= one["w2_by_chance"] for one in looks):
        found, held = f"{found}: agrees with the law from the first look on", True
    return Claim("W2 to the limit law falls along the stream", found, held)


def _overlap(look: dict[str, Any]) -> Claim:
    return Claim(
        f"observed and theoretical densities overlap after {look['rows']:,} rows",
        f"W2 {look['w2']:.2g}; of samples of the law itself, 95 % are below {look['w2_by_chance']:.2g}",
        look["w2"] <= look["w2_by_chance"],
    )


def _first_to_last(line: dict[str, Any], looks: list[dict[str, Any]], name: str, error: str) -> str:
    """A number at the first look and the last, and its fall, in words."""
    first, last = (f"{one[name]:.2g}{plus(one[error])}" for one in (looks[0], looks[-1]))
    return f"{first} to {last}, a fall of {line[f'{name}_fall']:.2g}{plus(line[f'{name}_fall_error'])}"


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
    for i, style in ((int(np.argmin(np.abs(rows - NAMED))), ":"), (len(rows) - 1, "-")):
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
        below = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.18), "ncols": 2} if ax is density else {}
        ax.legend(fontsize="x-small", **LEGEND | below)
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
