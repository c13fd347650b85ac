"""Calibration of whole audits: the rows of a file are the population, and files that are drawn from it are audited.

Every drawn file goes the way of any other: columns are settled on it, models are trained by the solver that its size
calls for, and rows are held out, or cross-fitted if they are few. Two sources are judged. ``evaluation`` should contain
the gap, in the population, of the very models that were trained; ``total`` that of the model that the population gives.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import reduce
from operator import add
from typing import Any

import numpy as np
import pyarrow as pa

from surefair.audit.run import MODELS, Running
from surefair.audit.settings import AuditSettings
from surefair.calibration.repetitions import Outcome, gap_of, is_signed, of_interval, rates_on, repeat, table
from surefair.calibration.result import Calibration
from surefair.calibration.run import LEAST_ROWS, MOST_REPETITIONS, check_room, check_whole
from surefair.inference.metric import Metric, get_metric
from surefair.inference.theory import learnt_optima
from surefair.names import counted
from surefair.rows import check_some_weight, make_frame
from surefair.tables.intake import read_all
from surefair.training.parameters import draw_seed, problem_of

SOURCES = ("evaluation", "total")


@dataclass(frozen=True, eq=False)
class AuditDesign:
    """What every repetition needs to know.

    Attributes
    ----------
    settings : AuditSettings
        The audit to try; its ``random_state`` is drawn for every repetition.
    population : pyarrow.Table
    metric : Metric
    sizes : tuple of int
        Groups of each sensitive column in the population.
    star : dict of str to float
        Gap in the population of the model which the population gives, by model.
    n_rows : int
        Rows of each file.
    seed : int
    """

    settings: AuditSettings
    population: pa.Table
    metric: Metric
    sizes: tuple[int, ...]
    star: dict[str, float]
    n_rows: int
    seed: int

    @property
    def confidence_level(self) -> float:
        """Confidence level of the intervals."""
        return self.settings.confidence_level

    @property
    def is_signed(self) -> bool:
        """Whether there is one gap, which has a sign; otherwise the unfairness is judged."""
        return is_signed(self.metric, self.sizes)

    def heads(self, names: list[str]) -> list[dict[str, Any]]:
        """What each row of the table is about."""
        what = "gap" if self.is_signed else "unfairness"
        return [
            {"quantity": f"{what} of the {name} model", "kind": "gap", "source": source}
            for name in self.star
            for source in SOURCES
        ]

    def outcome(self, repetition: int) -> Outcome:
        """One repetition: draw a file and audit it."""
        rng = np.random.default_rng([self.seed, 1 + repetition])
        chosen = rng.integers(0, self.population.num_rows, self.n_rows)
        settings = replace(self.settings, random_state=int(rng.integers(0, 2**31)))
        running = Running.begin(self.population.take(pa.array(chosen)), settings)
        try:
            found = running.run()
        except ValueError as error:
            unknown = np.full((len(self.star) * len(SOURCES), 5), np.nan)
            return Outcome(unknown, np.empty((0, 5)), [], frozenset(), refused=str(error))
        gaps = []
        for name in self.star:
            truth = {"evaluation": self._population_gap(running, name), "total": self.star[name]}
            for source in SOURCES:
                interval = found.interval(self.metric.name, source, name)
                gaps.append(of_interval(interval, truth[source], self.is_signed))
        unmet = {one["name"] for one in found.assumptions if not one["held"]}
        unmet -= {"DependentRows"}  # rows that are drawn with replacement have copies
        return Outcome(np.array(gaps), np.empty((0, 5)), [], frozenset(unmet))

    def _population_gap(self, running: Running, name: str) -> float:
        """Gap, in the population, of the very models of an audit."""
        intake = running.intake.elsewhere(0, running.source.place)
        rows = intake.rows(self.population)
        rates = [rates_on(self.metric, model.coefficients[:, None], rows) for model in running.evaluated(name)]
        return float(gap_of(self.metric, np.mean(rates, axis=0), rows.groups.sizes)[0])


def calibrate_audit(
    data: Any, settings: AuditSettings, *, n_rows: int | None = None, repetitions: int = 200, n_jobs: int | None = None,
    progress: bool = True,
) -> Calibration:  # fmt: skip
    """Measure how often the intervals of an audit contain the truth, with the rows of the data as the population.

    Parameters
    ----------
    data : path, "-", file object or data frame
        As in ``audit``. All of it is kept in memory.
    settings : AuditSettings
        The audit to try.
    n_rows : int, optional
        Rows of each drawn file; by default as many as the data have.
    repetitions : int
    n_jobs : int or None
        Processes; -1 for one on every core.
    progress : bool
        Whether to show a progress bar on a terminal.

    Returns
    -------
    Calibration
        For the first metric of the settings, and both models.

    Examples
    --------
    >>> import surefair as sf
    >>> rows = sf.datasets.SyntheticDI(seed=0).sample(5_000)
    >>> data = rows.X.assign(label=rows.y, group=rows.sensitive)
    >>> settings = AuditSettings(label="label", sensitive="group", tolerance=0.05, n_replicates=50)
    >>> found = calibrate_audit(data, settings, n_rows=500, repetitions=4)
    >>> found.table["quantity"].unique().tolist()
    ['gap of the constrained model', 'gap of the unconstrained model']
    """
    check_whole("repetitions", repetitions, 2, MOST_REPETITIONS)
    if n_rows is not None:
        check_whole("n_rows", n_rows, 2)
    metric = get_metric(settings.judged[0])
    rows, intake, population = read_all(data, settings)
    rows.groups.check_comparable()
    check_some_weight(rows.weight, "to draw")
    if rows.n < LEAST_ROWS:
        raise ValueError(
            f"{counted(rows.n, 'row is', 'rows are')} too few to stand for a population. Use {LEAST_ROWS} or more."
        )
    n_rows = population.num_rows if n_rows is None else n_rows
    check_room(n_rows, rows.X.shape[1])
    star = {}
    for name in MODELS if settings.criterion is not None else MODELS[1:]:
        problem = problem_of(settings.classifier(settings.criterion if name == MODELS[0] else None), draw_seed(0))
        theta = learnt_optima(problem, rows)[0].theta
        star[name] = float(gap_of(metric, rates_on(metric, theta[:, None], rows), rows.groups.sizes)[0])
    design = AuditDesign(
        # Columns that are not used were not read, and files that are drawn have bad rows too.
        settings=replace(settings, drop=(), names=None, max_bad_rows=n_rows, shard_rows=None),
        population=population,
        metric=metric,
        sizes=rows.groups.sizes,
        star=star,
        n_rows=n_rows,
        seed=settings.random_state,
    )
    found = reduce(add, repeat(design, repetitions, n_jobs, progress))
    about = {
        "repetitions": repetitions,
        "n_rows": n_rows,
        "n_population": population.num_rows,
        "everything_redrawn": True,
        "confidence_level": settings.confidence_level,
        "metric": metric.name,
        "random_state": settings.random_state,
        "audit": settings.to_dict(),
        "bad": intake.bad.to_dict(),
    }
    if found.refused:
        often = found.refused.most_common(1)[0][0]
        if found.refused.total() == repetitions:
            raise ValueError(f"Every audit of {n_rows:,} rows was refused. {often}")
        about |= {"refused": found.refused.total() / repetitions, "refused_because": often}
    warned = {name: found.warned[name] / repetitions for name in sorted(found.warned)}
    return Calibration(
        table=make_frame(table(design, found, [])),
        settings=about,
        warned=warned,
        errors=found.each[..., 0],
        widths=found.each[..., 1],
    )
