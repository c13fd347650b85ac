"""Decisions of both models of an audit on the same evaluation rows, counted together. Counts of two parts add."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from surefair.audit.settings import AuditSettings
from surefair.diagnostics import Diagnostic
from surefair.inference.comparison import compare_counts
from surefair.inference.counts import Counts, count_decisions
from surefair.inference.decisions import Settings
from surefair.inference.metric import get_metric
from surefair.inference.sample import About
from surefair.rows import FloatArray, Groups, Rows

N_REPLICATES = 2000
NAMES = ("the unconstrained model", "the constrained model")
KEPT = ("metric", "names", "estimate", "low", "high", "agreement", "n", "verdict", "rows_needed", "sentence", "by_pair")


class PairedCounts(NamedTuple):
    """Rows of each group, truth, decision of the unconstrained and of the constrained model."""

    groups: Groups
    table: FloatArray  # (3, groups, 2, 2, 2): rows, weights, squared weights

    @classmethod
    def of(cls, rows: Rows, unconstrained: NDArray[np.bool_], constrained: NDArray[np.bool_]) -> PairedCounts:
        """Count decisions of both models."""
        of_b = [
            np.stack(count_decisions(
                constrained[some].astype(np.int64), rows.truth[some], rows.group[some], rows.groups.sizes,
                rows.weight[some],
            ))
            for some in (~unconstrained, unconstrained)
        ]  # fmt: skip
        return cls(rows.groups, np.stack(of_b, axis=-2))

    def __add__(self, other: PairedCounts) -> PairedCounts:  # type: ignore[override]
        groups = self.groups.joined_with(other.groups)
        return PairedCounts(groups, self._among(groups) + other._among(groups))

    def _among(self, groups: Groups) -> FloatArray:
        """The same counts among more groups."""
        places = [low + code for low, code in zip(groups.offsets, groups.recode(self.groups), strict=True)]
        wider = np.zeros((3, sum(groups.sizes), 2, 2, 2))
        wider[:, np.concatenate(places)] = self.table
        return wider

    def compare(self, settings: AuditSettings, diagnostics: Sequence[Diagnostic]) -> list[dict[str, Any]]:
        """Compare the models in each metric with a verdict, given what is wrong with the evaluation rows."""
        counts = Counts(*self.table[:, None])
        how = Settings("percentile", settings.confidence_level, N_REPLICATES, settings.random_state)
        found = []
        for name in settings.judged if settings.criterion else ():
            one = compare_counts(
                counts, None, About(self.groups, []), get_metric(name), how, NAMES,
                labelled=False, diagnostics=diagnostics,
            )  # fmt: skip
            values = one.to_dict()
            found.append({key: values[key] for key in KEPT})
        return found
