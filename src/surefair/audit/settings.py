"""Everything that an audit is asked for."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from numbers import Integral, Real
from typing import Any

from surefair.audit.about import NAMES, check_about
from surefair.classifier import FairClassifier, check_parameters
from surefair.criteria import CRITERIA
from surefair.inference.limits import check_level
from surefair.inference.metric import get_metric
from surefair.names import one_of
from surefair.tables.intake import Columns


@dataclass(frozen=True, kw_only=True)
class AuditSettings(Columns):
    """Everything that an audit is asked for: the columns of the data, and what to train and measure.

    Attributes
    ----------
    criterion : str or None
        Criterion that constrains the first model.
    metrics : tuple of str
        Metrics that get a verdict and are followed during training; by default the criterion. The audit measures all
        criteria.
    margin : float or None
        Largest acceptable gap; for ratios, the smallest acceptable ratio.
    keep_order : bool
        Whether training takes rows in the order of the data.
    confidence_level, loss, surrogate, tolerance, penalty, alpha, n_replicates, random_state
        As in ``FairClassifier``.
    shard_rows : int or None
        Smallest number of rows in a shard, to read a folder of Parquet files in shards; by default the folder is read
        as one stream.
    title, purpose, author, date : str or None
        What heads the report.

    Examples
    --------
    >>> settings = AuditSettings(label="income", sensitive="sex", margin=0.05)
    >>> settings.judged
    ('demographic_parity',)
    """

    criterion: str | None = "demographic_parity"
    metrics: tuple[str, ...] = ()
    margin: float | None = None
    keep_order: bool = False
    confidence_level: float = 0.95
    loss: str = "log_loss"
    surrogate: str = "decisions"
    tolerance: float = 0.0
    penalty: float | None = None
    alpha: float = 1e-4
    n_replicates: int = 200
    random_state: int = 0
    shard_rows: int | None = None
    title: str | None = None
    purpose: str | None = None
    author: str | None = None
    date: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        metrics = (self.metrics,) if isinstance(self.metrics, str) else self.metrics
        object.__setattr__(self, "metrics", tuple(dict.fromkeys(metrics)))
        self._check_metrics()
        self._check_numbers()
        check_about({name: getattr(self, name) for name in NAMES})

    def _check_metrics(self) -> None:
        if self.criterion is not None:
            one_of(self.criterion, CRITERIA, "criterion")
        for metric in self.metrics:
            get_metric(metric)
        if self.margin is not None and len({metric.endswith("_ratio") for metric in self.metrics}) > 1:
            raise ValueError(
                f"One margin cannot apply to differences and ratios; received {', '.join(self.metrics)}. Audit them "
                "separately, each with its own margin."
            )

    def _check_numbers(self) -> None:
        check_level(self.confidence_level)
        if self.margin is not None and not (isinstance(self.margin, Real) and 0.0 < self.margin < 1.0):
            raise ValueError(
                f"margin must lie strictly between 0 and 1, for example 0.05 for 5 percentage points; "
                f"received {self.margin!r}."
            )
        self._check_whole("n_replicates", 2)
        self._check_whole("random_state", 0, 2**32 - 1)
        self._check_whole("max_bad_rows", 0)
        if self.shard_rows is not None:
            self._check_whole("shard_rows", 1, optional=True)
        check_parameters(self.classifier(self.criterion))

    def _check_whole(self, name: str, least: int, most: int | None = None, optional: bool = False) -> None:
        """Refuse what is not a whole number within the limits, and keep a Python int, which JSON can hold."""
        value = getattr(self, name)
        whole = isinstance(value, Integral) and not isinstance(value, bool)
        if not (whole and least <= value and (most is None or value <= most)):
            allowed = f"{least} or larger" if most is None else f"from {least} to {most:,}"
            none = "None or " if optional else ""
            raise ValueError(f"{name} must be {none}a whole number, {allowed}; received {value!r}.")
        object.__setattr__(self, name, int(value))

    def classifier(self, criterion: str | None) -> FairClassifier:
        """Return an unfitted classifier with these settings."""
        shared = ("loss", "surrogate", "tolerance", "penalty", "alpha", "n_replicates")
        return FairClassifier(criterion, **{name: getattr(self, name) for name in shared})

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON."""
        return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}

    @property
    def judged(self) -> tuple[str, ...]:
        """Metrics that get a verdict."""
        return self.metrics or (self.criterion or "demographic_parity",)

    @property
    def measured(self) -> tuple[str, ...]:
        """All metrics that are measured, those with a verdict first, then the criteria that can be constraints."""
        others = (name for name, one in CRITERIA.items() if one.can_constrain)
        return (*self.judged, *(name for name in others if name not in self.judged))
