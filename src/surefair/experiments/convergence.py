"""Does the unfairness converge to its limit law, and do intervals contain it? Eight figures of four panels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from surefair.experiments.experiment import Claim, Experiment, Result
from surefair.experiments.rules import LEVEL, covers, falls, plus, share_error
from surefair.experiments.setups import LOSSES, TABLE, TITLES
from surefair.experiments.study import NAMED, REFERENCES, Outcome, Study, repeat, shares
from surefair.inference.scoring import binomial_limits, wasserstein2
from surefair.plotting.drawing import COLOURS, LEGEND, count_rows, draw_band, draw_density, panels
from surefair.rows import FloatArray

BANDS = dict(zip(("training", "retraining"), COLOURS[2:], strict=True))
LAW, OBSERVED = COLOURS[:2]


class Measured(NamedTuple):
    """What R repetitions measured at L looks."""

    gap: FloatArray  # (R, L), signed
    seen: FloatArray  # (R, L), the gap as the preset measures it
    ends: FloatArray  # (R, 2, bands, L), limits of the intervals
    star: float  # gap of θ* as the preset measures it
    laws: list[FloatArray]  # draws from the limit law, one array per look


def judge(study: Study, outcomes: Sequence[Outcome]) -> Result:
    """Compute distances, coverages and scores at every look, and judge the claims."""
    converged = [one for one in outcomes if np.isfinite(one.gap).all()]  # all others diverged
    R = len(converged)
    line: dict[str, Any] = {"repetitions": len(outcomes), "diverged": len(outcomes) - R, **study.about_optimum}
    line |= study.gaps_of_optimum
    line["warned"] = shares([one.warned for one in outcomes])
    if R < 3:
        claim = Claim("the algorithm converges", f"{line['diverged']} of {len(outcomes)} fits diverged", False)
        return Result(line, {}, [claim], lambda: panels(1)[0])
    gap = np.array([one.gap for one in converged])
    measured = Measured(
        gap,
        study.seen(gap),
        np.array([(one.low, one.high) for one in converged]),
        float(study.seen(np.array(line["optimum_gap_evaluation"]))),
        [study.law(int(n)) for n in study.looks],
    )
    looks = [look(study, measured, i) for i in range(len(study.looks))]
    line |= looks[-1] | _mean("accuracy", np.array([one.accuracy for one in converged]))
    line |= _falls(study, measured)
    return Result(line, {"looks": looks}, judged(line, looks, R), lambda: draw(study, measured, looks))


def look(study: Study, measured: Measured, i: int) -> dict[str, Any]:
    """Return all numbers at look i."""
    n = int(study.looks[i])
    seen = measured.seen[:, i]
    law = measured.laws[i]
    unfairness = np.abs(measured.gap[:, i])
    rng = np.random.default_rng([study.seed, 5])
    resampled = np.quantile(rng.choice(unfairness, (500, len(unfairness))), 0.975, axis=1)
    w2 = wasserstein2(seen, law)
    chance = by_chance(law, study.law(n, draw=1), len(seen), study.seed)
    found: dict[str, Any] = {"rows": n} | _mean("unfairness", unfairness)
    found |= {
        "unfairness_975": float(np.quantile(unfairness, 0.975)),
        "unfairness_975_error": float(resampled.std(ddof=1)),
        "w2": w2,
        "w2_error": jackknife(lambda kept: wasserstein2(seen[kept], law), len(seen)),
        "w2_by_chance": chance,
        "w2_ratio": w2 / chance if chance > 0.0 else None,
    }
    for j, source in enumerate(study.preset.bands):
        low, high = measured.ends[:, :, j, i].T
        found |= {f"{name}_{source}": value for name, value in held(seen, low, high, measured.star).items()}
    return found


def _falls(study: Study, measured: Measured) -> dict[str, float]:
    """How much W2 and the scores fall along the stream, with standard errors."""
    seen, ends, laws = measured.seen, measured.ends, measured.laws
    R = len(seen)
    found = fall("w2", lambda kept, i: wasserstein2(seen[kept, i], laws[i]), R)
    for j, source in enumerate(study.preset.bands):

        def score(kept: Any, i: int, j: int = j) -> float:
            pairs = scores(seen[kept, i], ends[kept, 0, j, i], ends[kept, 1, j, i])
            return float(pairs.sum() / (len(kept) * (len(kept) - 1)))

        found |= fall(f"score_{source}", score, R)
    return found


def _mean(name: str, values: FloatArray) -> dict[str, float]:
    return {name: float(values.mean()), f"{name}_error": float(values.std(ddof=1) / np.sqrt(len(values)))}


def jackknife(statistic: Callable[[Any], float], size: int) -> float:
    """Jackknife standard error of a statistic, which takes the numbers of the repetitions to use."""
    values = np.array([statistic(np.delete(np.arange(size), i)) for i in range(size)])
    return float(np.sqrt((size - 1) / size * np.sum((values - values.mean()) ** 2)))


def fall(name: str, statistic: Callable[[Any, int], float], size: int) -> dict[str, float]:
    """How much a statistic falls from the first look to the last, with its jackknife standard error."""

    def drop(kept: Any) -> float:
        return statistic(kept, 0) - statistic(kept, -1)

    return {f"{name}_fall": drop(np.arange(size)), f"{name}_fall_error": jackknife(drop, size)}


def by_chance(law: FloatArray, others: FloatArray, size: int, seed: int) -> float:
    """95th percentile of the distance between the law and samples of this size from it."""
    rng = np.random.default_rng([seed, 4])
    return float(np.quantile([wasserstein2(rng.choice(others, size), law) for _ in range(REFERENCES)], 0.95))


def scores(seen: FloatArray, low: FloatArray, high: FloatArray) -> FloatArray:
    """Score of each repetition's interval for each repetition's value, shape (R, R); 0 for its own value."""
    outside = np.maximum(low[:, None] - seen, 0.0) + np.maximum(seen - high[:, None], 0.0)
    found = (high - low)[:, None] + 2.0 / (1.0 - LEVEL) * outside
    np.fill_diagonal(found, 0.0)
    return np.asarray(found)


def held(seen: FloatArray, low: FloatArray, high: FloatArray, star: float) -> dict[str, float]:
    """How often intervals contain the optimum's value and the values of other repetitions, their score and width.

    Standard errors of means over pairs of repetitions come from the jackknife.
    """
    R = len(seen)
    inside = ((low[:, None] <= seen) & (seen <= high[:, None])).astype(float)
    np.fill_diagonal(inside, 0.0)
    share = float(np.mean((low <= star) & (star <= high)))
    found = {"covers_optimum": share, "covers_optimum_error": float(np.sqrt(share * (1.0 - share) / R))}
    for name, pairs in (("covers_others", inside), ("score", scores(seen, low, high))):
        total = pairs.sum()
        own = pairs.sum(axis=0) + pairs.sum(axis=1)
        without = (total - own) / ((R - 1) * (R - 2))
        found[name] = float(total / (R * (R - 1)))
        found[f"{name}_error"] = float(np.sqrt((R - 1) / R * np.sum((without - without.mean()) ** 2)))
    for name in ("covers_optimum", "covers_others"):
        found[f"{name}_error"] = share_error(found[name], found[f"{name}_error"], R)
    return found | _mean("width", high - low)


def judged(line: dict[str, Any], looks: list[dict[str, Any]], repetitions: int) -> list[Claim]:
    """Judge the claims about a figure; none holds if a fit diverged."""
    last = looks[-1]
    source = "retraining" if "covers_others_retraining" in last else "training"
    share = last[f"covers_others_{source}"]
    error = last[f"covers_others_error_{source}"]
    hits = round(last["covers_optimum_training"] * repetitions)
    low, high = map(float, binomial_limits(hits, repetitions - hits, LEVEL))
    claims = [
        _distance_falls(line, looks),
        *(_overlap(one) for one in looks if one["rows"] == NAMED or one is last),
        Claim(
            "95 % intervals contain the values of other repetitions",
            f"{100.0 * share:.1f} %{plus(100.0 * error)} of other repetitions (source {source})",
            covers(share, share - 2.0 * error, share + 2.0 * error),
        ),
        Claim(
            "95 % intervals contain the value of the optimum",
            f"{100.0 * hits / repetitions:.1f} %, limits {100.0 * low:.1f} to {100.0 * high:.1f} (source training)",
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
    """Judge if W2 falls, or is no larger than chance explains from the first look on."""
    found = _first_to_last(line, looks, "w2", "w2_error")
    ratios = [looks[0]["w2_ratio"], looks[-1]["w2_ratio"]]
    if None not in ratios:
        found += f"; {ratios[0]:.2g} to {ratios[1]:.2g} times the 95th percentile of samples from the law itself"
    held = falls(line["w2_fall"], line["w2_fall_error"])
    if all(one["w2"] <= one["w2_by_chance"] for one in looks):
        found += ": agrees with the law from the first look on"
        held = True
    return Claim("W2 to the limit law falls along the stream", found, held)


def _overlap(look: dict[str, Any]) -> Claim:
    return Claim(
        f"observed and theoretical densities overlap after {look['rows']:,} rows",
        f"W2 {look['w2']:.2g}; 95 % of samples from the law itself are below {look['w2_by_chance']:.2g}",
        look["w2"] <= look["w2_by_chance"],
    )


def _first_to_last(line: dict[str, Any], looks: list[dict[str, Any]], name: str, error: str) -> str:
    """Describe a number at the first look and at the last, and its fall."""
    first, last = (f"{one[name]:.2g}{plus(one[error])}" for one in (looks[0], looks[-1]))
    return f"{first} to {last}, a fall of {line[f'{name}_fall']:.2g}{plus(line[f'{name}_fall_error'])}"


def draw(study: Study, measured: Measured, looks: list[dict[str, Any]]) -> Any:
    """Draw four panels: distance, densities, repetitions with one interval, score."""
    figure, axes = panels(4, columns=2)
    (distance, density), (paths, score) = axes
    _draw_distance(distance, looks)
    _draw_densities(density, study, measured)
    _draw_paths(paths, study, measured)
    _draw_scores(score, study, looks)
    for ax in axes.flat:
        below = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.18), "ncols": 2} if ax is density else {}
        ax.legend(fontsize="x-small", **LEGEND | below)
        ax.spines[["top", "right"]].set_visible(False)
    for ax in (distance, paths, score):
        count_rows(ax)
    title = f"{study.title}, {study.loss.replace('_', ' ')}: {study.setup.criterion.replace('_', ' ')}"
    figure.suptitle(f"{title}, {study.preset.name} preset")
    return figure


def _draw_distance(ax: Any, looks: list[dict[str, Any]]) -> None:
    """Draw W2 to the limit law along the stream."""
    rows = [one["rows"] for one in looks]
    ax.plot(rows, [one["w2"] for one in looks], "o-", color=OBSERVED, markersize=3, label="observed")
    chance = [one["w2_by_chance"] for one in looks]
    ax.plot(rows, chance, "--", color=LAW, label="95th percentile for samples from the law")
    ax.set(yscale="log", ylabel="W2 to the limit law", title="(a) distance")


def _draw_densities(ax: Any, study: Study, measured: Measured) -> None:
    """Draw observed and theoretical densities after the number of rows that the paper names, and at the end."""
    rows = study.looks
    last = len(rows) - 1
    floor = None if study.preset.signed else 0.0
    for i, style in ((int(np.argmin(np.abs(rows - NAMED))), ":"), (last, "-")):
        seen = measured.seen[:, i]
        width = seen.std() * len(seen) ** -0.2
        for values, colour, name in ((seen, OBSERVED, "observed"), (measured.laws[i], LAW, "limit law")):
            draw_density(ax, values, colour, style, f"{name}, {rows[i]:,} rows", width, i == last, floor)
    ax.plot([], [], "--", color="0.4", linewidth=1.0, label="central 95 % at the end")
    ax.set(xlabel=_what(study), ylabel="density", title="(b) densities")


def _draw_paths(ax: Any, study: Study, measured: Measured) -> None:
    """Draw the values of all repetitions, the interval of one of them, and the value of the optimum."""
    source = list(study.preset.bands)[-1]
    low, high = measured.ends[0, :, -1]
    draw_band(ax, study.looks, low, high, BANDS[source], f"{source} interval of one repetition")
    for path in measured.seen:
        ax.plot(study.looks, path, color="0.5", linewidth=0.4, alpha=0.5, zorder=1)
    ax.plot([], [], color="0.5", linewidth=1.0, label="repetitions")
    ax.axhline(measured.star, color="black", linewidth=1.0, linestyle="--", label="optimum")
    ax.set(ylabel=_what(study), title="(c) repetitions and one interval")


def _draw_scores(ax: Any, study: Study, looks: list[dict[str, Any]]) -> None:
    """Draw the mean interval score of each source along the stream."""
    for source in study.preset.bands:
        scores = [one[f"score_{source}"] for one in looks]
        ax.plot(study.looks, scores, "o-", color=BANDS[source], markersize=3, label=f"source {source}")
    ax.set(yscale="log", ylabel="mean interval score", title="(d) score")


def _what(study: Study) -> str:
    return "gap" if study.preset.signed else "unfairness"


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
