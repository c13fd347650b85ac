"""Everything that a training audit is asked for."""

from __future__ import annotations

from dataclasses import dataclass

from surefair.audit.judging import Judging
from surefair.classifier import FairClassifier
from surefair.criteria import CRITERIA
from surefair.inference.metric import get_metric
from surefair.names import one_of
from surefair.tables.intake import Columns
from surefair.training.parameters import check_parameters


@dataclass(frozen=True, kw_only=True)
class AuditSettings(Judging, Columns):
    """Everything that a training audit is asked for: the columns of the data, and what to train, measure and judge.

    Attributes
    ----------
    criterion : str or None
        Criterion that constrains the first model; also the metric that gets a verdict, if ``metric`` names none. The
        audit measures all criteria.
    keep_order : bool
        Whether training takes rows in the order of the data.
    loss, surrogate, tolerance, penalty, alpha
        As in ``FairClassifier``.

    Examples
    --------
    >>> settings = AuditSettings(label="income", sensitive="sex", margin=0.05)
    >>> settings.judged
    ('demographic_parity',)
    """

    criterion: str | None = "demographic_parity"
    keep_order: bool = False
    loss: str = "log_loss"
    surrogate: str = "decisions"
    tolerance: float = 0.0
    penalty: float | None = None
    alpha: float = 1e-4

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.criterion is not None:
            one_of(self.criterion, CRITERIA, "criterion")
        self._check_judging()
        for metric in self.metric:
            get_metric(metric)
        check_parameters(self.classifier(self.criterion))

    def classifier(self, criterion: str | None) -> FairClassifier:
        """Return an unfitted classifier with these settings."""
        shared = ("loss", "surrogate", "tolerance", "penalty", "alpha", "n_replicates")
        return FairClassifier(criterion, **{name: getattr(self, name) for name in shared})

    @property
    def judged(self) -> tuple[str, ...]:
        """Metrics that get a verdict."""
        return self.metric or (self.criterion or "demographic_parity",)

    @property
    def measured(self) -> tuple[str, ...]:
        """All metrics that are measured, those with a verdict first, then the criteria that can be constraints."""
        others = (name for name, one in CRITERIA.items() if one.can_constrain)
        return (*self.judged, *(name for name in others if name not in self.judged))
