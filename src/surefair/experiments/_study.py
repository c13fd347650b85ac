"""One experiment: what is held fixed over its repetitions, one repetition, and the limit law beside them.

The data set is the population, of a synthetic stream many of its rows; D' and D̃ are drawn from it once. A repetition
draws rows from it with replacement, trains, and looks at the gap and its intervals on D̃ along the way.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from surefair import datasets
from surefair.classifier import FairClassifier
from surefair.criteria import get_criterion
from surefair.experiments._table import TABLE, TITLES, Preset, Setup
from surefair.inference import theory
from surefair.inference.counts import count
from surefair.inference.interval import rates_of
from surefair.rows.arrays import FloatArray

POPULATION = 100_000  # rows of a synthetic stream
LOOKS, NAMED = 16, 1_000  # looks along the stream, and one that the paper names
EARLIEST = 40  # the first look is after one of so many rows
DRAWS = 4_000  # from the limit law
REFERENCES = 500  # samples of the law, to see how far one is from it by chance


class Rows(NamedTuple):
    """Features, labels 0 or 1, and groups 0 or 1."""

    X: FloatArray
    y: NDArray[np.int64]
    group: NDArray[np.int64]

    def part(self, rows: Any) -> Rows:
        """Some of the rows."""
        return Rows._make(column[rows] for column in self)


class Outcome(NamedTuple):
    """What a repetition saw at each look."""

    gap: FloatArray  # (looks,); NaN where the fit or a replicate had diverged
    low: FloatArray  # (bands, looks)
    high: FloatArray  # (bands, looks)
    accuracy: float  # on D̃, at the end
    warned: str  # names of what was warned of, joined by spaces


@dataclass(frozen=True, eq=False)
class Study:
    """What is held fixed."""

    setup: Setup
    preset: Preset
    loss: str
    seed: int
    population: Rows
    constraint_set: Rows  # D'
    evaluation: Rows  # D̃
    features: tuple[str, ...]
    groups: tuple[str, ...]
    looks: NDArray[np.int64]  # numbers of rows after which to look
    star: FloatArray  # θ*
    covariance: FloatArray  # of √n(θ̄ - θ*)
    told: dict[str, Any]  # of θ*: number of local optima, and what was warned of

    @property
    def title(self) -> str:
        """The data set, in words."""
        return TITLES[self.setup.data]

    @property
    def rows(self) -> int:
        """Rows trained on."""
        return self.preset.size(self.setup, "rows")

    def classifier(self, **more: Any) -> FairClassifier:
        """Classifier of the experiment, before its first row."""
        return FairClassifier(**self.preset.params(self.setup, self.loss) | more)

    def rates(self, theta: FloatArray, rows: Rows) -> FloatArray:
        """Rates of both groups of models (D, R) on rows, shape (R, 2)."""
        counts = count(theta, rows.X, rows.y, rows.group[:, None], (2,))
        return rates_of(get_criterion(self.setup.criterion).rates, counts)[:, 0]

    def gaps(self, theta: FloatArray, rows: Rows | None = None) -> FloatArray:
        """Gap of models (D, R) on D̃ or on other rows, shape (R,)."""
        rates = self.rates(theta, rows or self.evaluation)
        return np.asarray(rates[:, 0] - rates[:, 1])

    @property
    def gaps_of_optimum(self) -> dict[str, float]:
        """Gap of θ* on D̃, and in the population."""
        parts = {"evaluation": self.evaluation, "population": self.population}
        return {f"optimum_gap_{name}": float(self.gaps(self.star[:, None], rows)[0]) for name, rows in parts.items()}

    def seen(self, gap: FloatArray) -> FloatArray:
        """Gap as the preset looks at it: signed, or its absolute value."""
        return gap if self.preset.signed else np.abs(gap)

    def law(self, n: int, draw: int = 0) -> FloatArray:
        """Draws from the limit law of what is seen after n rows; others for another number ``draw``."""
        root = theory.root(self.covariance / n)
        noise = np.random.default_rng([self.seed, 3, draw]).normal(size=(len(self.star), DRAWS))
        return self.seen(self.gaps(self.star[:, None] + root @ noise))


def begin(data: str, loss: str, preset: Preset, seed: int) -> Study:
    """Load the data, draw D' and D̃, solve for θ*, and work out the limit law."""
    setup, found = TABLE[data], _load(data, seed)
    names, groups = tuple(map(str, found.X.columns)), tuple(map(str, np.unique(found.sensitive)))
    population = Rows(
        found.X.to_numpy(), *(np.unique(column, return_inverse=True)[1] for column in (found.y, found.sensitive))
    )
    draw = np.random.default_rng([seed, 0])
    sizes = (preset.size(setup, name) for name in ("n_constraint", "n_evaluation"))
    apart, held = (population.part(draw.integers(0, len(population.y), n)) for n in sizes)
    n = preset.size(setup, "rows")
    looks = np.geomspace(n / EARLIEST, n, LOOKS).round(-1).astype(np.int64)
    looks = np.unique(np.append(looks, min(NAMED, n)))
    fixed = setup, preset, loss, seed, population, apart, held, names, groups, looks
    study = Study(*fixed, star=np.zeros(0), covariance=np.zeros((0, 0)), told={})
    shuffled = population.part(draw.permutation(len(population.y)))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        pilot = trained(study.classifier(n_replicates=0, random_state=seed), study, shuffled)
        optima = theory.optima(pilot, shuffled.X, shuffled.y)
        fitted = np.append(pilot.coef_[0], pilot.intercept_)
        covariance = getattr(theory, preset.covariance)(pilot, shuffled.X, shuffled.y)
    told = {"local_optima": len(optima), "warned_of_optimum": names_of(caught)}
    return replace(study, star=theory.nearest(optima, fitted).theta, covariance=covariance, told=told)


def repeat(study: Study, repetition: int) -> Outcome:
    """Train once more, and look."""
    rng = np.random.default_rng([study.seed, 1, repetition])
    rows = study.population.part(rng.integers(0, len(study.population.y), study.rows))
    clf, held, before = study.classifier(random_state=int(rng.integers(2**31))), study.evaluation, 0
    gap, ends = np.empty(len(study.looks)), np.empty((2, len(study.preset.bands), len(study.looks)))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for i, look in enumerate(study.looks):
            trained(clf, study, rows.part(slice(before, look)))
            before = look
            for j, (source, method) in enumerate(study.preset.bands.items()):
                found = clf.fairness_interval(
                    held.X, held.y, sensitive_features=held.group, source=source, method=method
                )
                ends[:, j, i] = (found.gap_low, found.gap_high) if study.preset.signed else (found.low, found.high)
                gap[i] = np.nan if found.reason else found.gap
        accuracy = float(clf.score(held.X, held.y))
    return Outcome(gap, ends[0], ends[1], accuracy, names_of(caught))


def trained(clf: FairClassifier, study: Study, rows: Rows) -> FairClassifier:
    """The classifier after some more rows."""
    apart = study.constraint_set
    first = {} if hasattr(clf, "classes_") else {"constraint_set": (apart.X, apart.y, apart.group), "classes": [0, 1]}
    return clf.partial_fit(rows.X, rows.y, sensitive_features=rows.group, **first)


def shares(warned: Sequence[str]) -> dict[str, float]:
    """Share of the repetitions in which each warning was raised."""
    names = sorted({name for one in warned for name in one.split()})
    return {name: float(np.mean([name in one.split() for one in warned])) for name in names}


def names_of(caught: list[warnings.WarningMessage]) -> str:
    """Names of what was warned of, joined by spaces."""
    return " ".join(sorted({one.category.__name__ for one in caught}))


def _load(data: str, seed: int) -> datasets.Dataset:
    return datasets.load(data, n=POPULATION, seed=seed) if data.startswith("synthetic") else datasets.load(data)
