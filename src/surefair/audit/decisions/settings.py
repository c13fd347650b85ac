"""Everything that an audit of existing decisions or scores is asked for."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from numbers import Real

import numpy as np
import pyarrow as pa

from surefair.audit.judging import Judging
from surefair.criteria import CRITERIA
from surefair.inference.metric import Metric, ScoreMeasure, any_metric
from surefair.names import one_of
from surefair.score_metrics import SCORE_METRICS
from surefair.tables.reading import Reading, check_columns

UNKNOWN = ("show", "include", "refuse")


@dataclass(frozen=True, kw_only=True)
class DecisionSettings(Judging, Reading):
    """Everything that an audit of existing decisions or scores is asked for.

    Attributes
    ----------
    sensitive : tuple of str
        Columns of the groups.
    decision : tuple of str
        Columns of decisions, each with two values.
    score : str or None
        Column of scores.
    threshold, threshold_quantile : float or None
        A score of at least this much, or of at least this quantile of all scores, is a positive decision; with neither,
        only metrics of scores are measured.
    label : str or None
        Column of the label, with two values; without it only selection rates are measured.
    positive : tuple of str
        The positive decision, and the positive label if that is another word; by default the second in sorted order.
    weights, clusters, strata : str or None
        Columns of sample weights; of what rows belong to, for example a person; and of strata within which groups are
        compared.
    unknown : {"show", "include", "refuse"}
        Whether rows without a group, or whose group is "unknown", are shown, compared as well, or refused.
    min_share : float
        Share of the rows that a group must have to be compared.
    intersections : bool
        Whether to also compare the groups that the sensitive columns form together.
    reference : tuple of str
        Groups with which others are compared, as GROUP or COLUMN=GROUP; by default all pairs are.

    Examples
    --------
    >>> settings = DecisionSettings(decision="hired", label="good", sensitive="sex", margin=0.05)
    >>> settings.judged, len(settings.measured(settings.subjects[0]))
    (('demographic_parity',), 12)
    """

    sensitive: tuple[str, ...]
    decision: tuple[str, ...] = ()
    score: str | None = None
    threshold: float | None = None
    threshold_quantile: float | None = None
    label: str | None = None
    positive: tuple[str, ...] = ()
    weights: str | None = None
    clusters: str | None = None
    strata: str | None = None
    unknown: str = "show"
    min_share: float = 0.0
    intersections: bool = False
    reference: tuple[str, ...] = ()
    n_replicates: int = 2000

    def __post_init__(self) -> None:
        self._as_tuples("sensitive", "decision", "names", "positive", "reference")
        object.__setattr__(self, "positive", tuple(str(word) for word in self.positive or ()))
        self._check_roles()
        self._check_threshold()
        one_of(self.unknown, UNKNOWN, "way to treat unknown groups")
        if not (isinstance(self.min_share, Real) and 0.0 <= float(self.min_share) < 1.0):
            raise ValueError(
                f"min_share must be 0 or more and below 1, for example 0.01 for 1 % of the rows; received "
                f"{self.min_share!r}."
            )
        if self.intersections and len(self.sensitive) < 2:
            raise ValueError("Intersections need two or more sensitive columns. Name another, or leave them out.")
        self._check_judging()
        object.__setattr__(self, "metric", self.judged)  # so that the result says what was judged
        for metric in self.judged:
            self._check_metric(any_metric(metric))

    def _check_roles(self) -> None:
        if not self.sensitive:
            raise ValueError("sensitive is empty. Name at least one sensitive column.")
        single = (self.score, self.label, self.weights, self.clusters, self.strata)
        roles = Counter([*self.sensitive, *self.decision, *(name for name in single if name is not None)])
        if twice := [name for name, n in roles.items() if n > 1]:
            raise ValueError(f"Column {twice[0]!r} has two roles. Name a different column for each.")

    def _check_threshold(self) -> None:
        threshold, quantile = self.threshold, self.threshold_quantile
        for name in ("threshold", "threshold_quantile"):
            if getattr(self, name) is not None and self.score is None:
                raise ValueError(f"{name} turns scores into decisions. Name the column of scores (score, --score).")
        if threshold is not None and quantile is not None:
            raise ValueError("threshold and threshold_quantile are two ways to say the same. Leave one out.")
        if threshold is not None and not (isinstance(threshold, Real) and np.isfinite(float(threshold))):
            raise ValueError(f"threshold must be a finite number, for example 0.5; received {threshold!r}.")
        if quantile is None:
            return
        if not (isinstance(quantile, Real) and 0.0 < float(quantile) < 1.0):
            raise ValueError(
                f"threshold_quantile must lie strictly between 0 and 1, for example 0.8 to select the 20 % of the rows "
                f"with the highest scores; received {quantile!r}."
            )
        if self.clusters or self.strata:
            raise ValueError(
                "With clusters or strata, the threshold must be known before the rows are read. Pass a threshold "
                "(--threshold) in place of threshold_quantile."
            )

    def _check_metric(self, metric: Metric | ScoreMeasure) -> None:
        """Refuse a metric that the named columns cannot give."""
        if isinstance(metric, ScoreMeasure):
            if self.score is None:
                raise ValueError(f"The metric {metric.name!r} looks at scores. Name their column (score, --score).")
            if self.clusters or self.strata:
                raise ValueError(
                    f"The metric {metric.name!r} looks at scores, and takes no clusters and no strata. Leave these "
                    "out, or judge a metric of decisions, such as demographic_parity."
                )
        elif not self.subjects_with_decisions:
            raise ValueError(
                f"The metric {metric.name!r} looks at decisions. Pass a threshold for the scores (threshold, "
                "--threshold), or name a column of decisions (decision, --decision)."
            )
        if metric.needs_labels and self.label is None:
            raise ValueError(
                f"The metric {metric.name!r} needs labels. Name their column (label, --label), or judge "
                "demographic_parity, which needs none."
            )

    @property
    def subjects(self) -> tuple[str, ...]:
        """What is audited: columns of decisions, and of scores."""
        return (*self.decision, *([] if self.score is None else [self.score]))

    @property
    def subjects_with_decisions(self) -> tuple[str, ...]:
        """The subjects that decide: all but scores without a threshold."""
        decides = self.threshold is not None or self.threshold_quantile is not None
        return self.subjects if decides else self.decision

    @property
    def counted(self) -> tuple[str, ...]:
        """The subjects whose decisions are known row by row: all but scores whose threshold depends on all rows."""
        return self.subjects if self.threshold is not None else self.decision

    @property
    def judged(self) -> tuple[str, ...]:
        """Metrics that get a verdict."""
        return self.metric or (("demographic_parity",) if self.subjects_with_decisions else ("scoring_rate",))

    def judged_of(self, subject: str) -> tuple[str, ...]:
        """Metrics that get a verdict about a subject."""
        return tuple(metric for metric in self.judged if self._applies(any_metric(metric), subject))

    def _applies(self, metric: Metric | ScoreMeasure, subject: str) -> bool:
        return subject == self.score if isinstance(metric, ScoreMeasure) else subject in self.subjects_with_decisions

    def measured(self, subject: str) -> tuple[str, ...]:
        """All metrics that are measured of a subject, those with a verdict first."""
        names = [*CRITERIA] if subject in self.subjects_with_decisions else []
        names += [*SCORE_METRICS] if subject == self.score and not (self.clusters or self.strata) else []
        found = [name for name in names if self.label is not None or not any_metric(name).needs_labels]
        judged = self.judged_of(subject)
        return (*judged, *(name for name in found if name not in judged))

    def to_read(self, schema: pa.Schema) -> list[str]:
        """Names of the columns to read, in the order of the data; columns that are not there are refused."""
        named = {"sensitive": self.sensitive, "decision": self.decision}
        named |= {name: (getattr(self, name),) for name in ("score", "label", "weights", "clusters", "strata")}
        check_columns(named, schema)
        needed = {name for names in named.values() for name in names}
        return [name for name in schema.names if name in needed]

    def roles(self) -> dict[str, str]:
        """Role of each column."""
        roles = dict.fromkeys(self.sensitive, "sensitive") | dict.fromkeys(self.decision, "decision")
        single = {getattr(self, name): name for name in ("score", "label", "weights", "clusters", "strata")}
        return roles | {name: role for name, role in single.items() if name is not None}
