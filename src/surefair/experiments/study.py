"""The fixed parts of an experiment, one repetition of it, and the limit law to compare with.

The data set is the population; for a synthetic stream, its first 100,000 rows are. D̃ is drawn from it once, and so is
D' in the preset *paper*; in the preset *calibrated* the constraint is learnt from the training rows. A repetition draws
training rows from the population with replacement, trains, and measures the gap and its intervals on D̃ at several looks
along the way.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from surefair import datasets
from surefair.classifier import FairClassifier
from surefair.criteria import get_criterion
from surefair.diagnostics import Diagnostic
from surefair.experiments.setups import TABLE, TITLES, Preset, Setup
from surefair.inference import theory
from surefair.inference.counts import count, rates_of
from surefair.inference.evaluation import model_interval
from surefair.inference.interval import Question
from surefair.inference.metric import Metric
from surefair.inference.sources import Tally
from surefair.rows import FloatArray, Groups, Levels, Names, Rows
from surefair.training.model import Model, Problem
from surefair.training.parameters import check_parameters, draw_seed, problem_of

POPULATION = 100_000  # rows of a synthetic stream
LOOKS = 16  # looks along the stream
NAMED = 1_000  # one more look, after the number of rows that the paper names
EARLIEST = 40  # the first look is after this fraction of the rows: one in so many
DRAWS = 4_000  # draws from the limit law
REFERENCES = 500  # samples of the law that show how far a sample is from it by chance


class Outcome(NamedTuple):
    """What a repetition measured at each look."""

    gap: FloatArray  # (looks,); NaN if the fit or a replicate had diverged
    low: FloatArray  # (bands, looks)
    high: FloatArray  # (bands, looks)
    accuracy: float  # on D̃, at the end
    warned: str  # names of the warnings, joined by spaces


@dataclass(frozen=True, eq=False)
class Study:
    """What stays fixed over the repetitions."""

    setup: Setup
    preset: Preset
    loss: str
    seed: int
    population: Rows
    constraint_set: Rows | None  # D'; None where the constraint is learnt from the training rows
    evaluation: Rows  # D̃
    features: tuple[str, ...]
    groups: tuple[str, ...]
    looks: NDArray[np.int64]  # numbers of rows after which to measure
    star: FloatArray  # θ*
    covariance: FloatArray  # of √n(θ̄ - θ*)
    about_optimum: dict[str, Any]  # number of local optima, and warnings while θ* was computed

    @property
    def title(self) -> str:
        """Name of the data set for people."""
        return TITLES[self.setup.data]

    @property
    def rows(self) -> int:
        """Number of training rows."""
        return self.preset.size(self.setup, "rows")

    def problem(self, random_state: int, **more: Any) -> Problem:
        """Return the problem of the experiment."""
        clf = FairClassifier(**self.preset.params(self.setup, self.loss) | more)
        check_parameters(clf)
        return problem_of(clf, draw_seed(random_state))

    def model(self, random_state: int, **more: Any) -> Model:
        """Return the model of the experiment before its first row."""
        rows = self.population
        model = Model.of(self.problem(random_state, **more), rows.names, rows.X.shape[1])
        return model if self.constraint_set is None else model.begin(self.constraint_set)

    def rates(self, theta: FloatArray, rows: Rows) -> FloatArray:
        """Rates of both groups on some rows for models theta of shape (D, R); the result has shape (R, 2)."""
        counts = count(theta, rows.X, rows.truth, rows.group, (2,))
        return rates_of(get_criterion(self.setup.criterion).rates, counts)[:, 0]

    def gaps(self, theta: FloatArray, rows: Rows | None = None) -> FloatArray:
        """Gaps of models of shape (D, R), by default on D̃; the result has shape (R,)."""
        rates = self.rates(theta, rows or self.evaluation)
        return np.asarray(rates[:, 0] - rates[:, 1])

    @property
    def gaps_of_optimum(self) -> dict[str, float]:
        """Gap of θ* on D̃ and in the population."""
        parts = {"evaluation": self.evaluation, "population": self.population}
        return {f"optimum_gap_{name}": float(self.gaps(self.star[:, None], rows)[0]) for name, rows in parts.items()}

    def seen(self, gap: FloatArray) -> FloatArray:
        """Gap as the preset measures it: signed, or its absolute value."""
        return gap if self.preset.signed else np.abs(gap)

    def law(self, n: int, draw: int = 0) -> FloatArray:
        """Draws from the limit law of the gap after n rows, as the preset measures it.

        Another number ``draw`` gives independent draws.
        """
        root = theory.root(self.covariance / n)
        noise = np.random.default_rng([self.seed, 3, draw]).normal(size=(len(self.star), DRAWS))
        return self.seen(self.gaps(self.star[:, None] + root @ noise))


def begin(data: str, loss: str, preset: Preset, seed: int) -> Study:
    """Load the data, draw D' and D̃, and compute θ* and the covariance of the limit law."""
    setup = TABLE[data]
    loaded = _load(data, seed)
    label = np.unique(loaded.y, return_inverse=True)[1]
    groups, group = np.unique(loaded.sensitive, return_inverse=True)
    features = tuple(map(str, loaded.X.columns))
    names = Names(features, Levels(np.arange(2), "label"), Groups({None: Levels(np.arange(2), "group")}))
    n = len(label)
    population = Rows(loaded.X.to_numpy(), np.where(label == 1, 1.0, -1.0), group[:, None], np.ones(n), names)
    rng = np.random.default_rng([seed, 0])
    drawn = population.part(rng.integers(0, n, preset.size(setup, "n_constraint")))
    constraint_set = drawn if preset.tolerance is None else None
    evaluation = population.part(rng.integers(0, n, preset.size(setup, "n_evaluation")))
    study = Study(
        setup, preset, loss, seed, population, constraint_set, evaluation,
        features=features,
        groups=tuple(map(str, groups)),
        looks=_looks(preset.size(setup, "rows")),
        star=np.zeros(0),
        covariance=np.zeros((0, 0)),
        about_optimum={},
    )  # fmt: skip
    shuffled = population.part(rng.permutation(n))
    pilot = study.model(seed, n_replicates=0).take(shuffled)
    optima = [one.theta for one in theory.population_optima(pilot.trained, shuffled)]
    law = theory.printed_covariance if preset.covariance == "paper_covariance" else theory.limit_covariance
    covariance, found = law(pilot.trained, shuffled)
    about_optimum = {"local_optima": len(optima), "warned_of_optimum": names_of([*pilot.diagnostics, *found])}
    star = optima[theory.nearest(optima, pilot.coefficients)]
    return replace(study, star=star, covariance=covariance, about_optimum=about_optimum)


def _load(data: str, seed: int) -> datasets.Dataset:
    return datasets.load(data, n=POPULATION, seed=seed) if data.startswith("synthetic") else datasets.load(data)


def _looks(n: int) -> NDArray[np.int64]:
    """Numbers of rows after which to measure, up to n."""
    looks = np.geomspace(n / EARLIEST, n, LOOKS).round(-1).astype(np.int64)
    return np.unique(np.append(looks, min(NAMED, n)))


def repeat(study: Study, repetition: int) -> Outcome:
    """Train once and measure at every look."""
    rng = np.random.default_rng([study.seed, 1, repetition])
    rows = study.population.part(rng.integers(0, study.population.n, study.rows))
    model = study.model(int(rng.integers(2**31)))
    held = study.evaluation
    metric = Metric(get_criterion(study.setup.criterion))
    gap = np.empty(len(study.looks))
    ends = np.empty((2, len(study.preset.bands), len(study.looks)))
    before = 0
    diagnostics: list[Diagnostic] = []
    for i, look in enumerate(study.looks):
        model = model.take(rows.part(slice(before, look)))
        before = look
        answer = model.answer()
        for j, (source, method) in enumerate(study.preset.bands.items()):
            tally = Tally.of(answer, held, (source,), method, 1)
            found = model_interval(answer, tally, Question(metric, source, method, 0.95))
            ends[:, j, i] = (found.gap_low, found.gap_high) if study.preset.signed else (found.low, found.high)
            gap[i] = np.nan if found.reason else found.gap
            diagnostics += found.diagnostics
        diagnostics += model.diagnostics
    accuracy = share_right(model.answer().coefficients, held)
    return Outcome(gap, ends[0], ends[1], accuracy, names_of(diagnostics))


def share_right(theta: FloatArray, rows: Rows) -> float:
    """Share of right decisions of a model with an intercept, (D,), on some rows."""
    return float(np.mean((rows.X @ theta[:-1] + theta[-1] > 0.0) == (rows.y > 0.0)))


def names_of(diagnostics: Iterable[Diagnostic]) -> str:
    """Names of the kinds of diagnostics, sorted and joined by spaces."""
    return " ".join(sorted({one.name for one in diagnostics}))


def shares(warned: Sequence[str]) -> dict[str, float]:
    """Share of the repetitions that raised each warning."""
    names = sorted({name for one in warned for name in one.split()})
    return {name: float(np.mean([name in one.split() for one in warned])) for name in names}
