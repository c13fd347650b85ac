"""FairnessMonitor: is the gap beyond the margin, and has it changed? Ask as often as you like while decisions come."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Real
from typing import Any, NamedTuple, Self

import numpy as np
import pandas as pd

from surefair.criteria import Criterion
from surefair.inference.interval import Context, Interval, Question, plain
from surefair.inference.limits import check_level
from surefair.inference.metric import Metric, ScoreMeasure, any_metric
from surefair.inference.stretches import Stretches, check_anytime
from surefair.monitor.detector import Alarm, Detector
from surefair.monitor.waiting import Waiting
from surefair.names import counted
from surefair.pages.summary import summary
from surefair.rows import (
    CodedColumn,
    Column,
    Groups,
    IntArray,
    as_column,
    as_columns,
    library_of,
    make_frame,
    same_length,
)
from surefair.storage.archive import Place, add_prefix, check_same, naming, read_archive, select_prefix, write_archive
from surefair.storage.checks import value_of

FORMAT, VERSION = "surefair.FairnessMonitor", 2


class _State(NamedTuple):
    """Everything that updates change; an update makes a new one, so an error changes nothing."""

    stretches: Stretches
    detector: Detector
    waiting: Waiting
    other: Any  # the label that is not positive, once it has been seen


class FairnessMonitor:
    """Follow the decisions of a model in use.

    Two questions are kept apart. *Is the gap beyond the margin?* ``interval`` and ``verdict`` answer it from all
    decisions so far, by a confidence sequence: you may look after every update, and the probability that the sequence
    is ever wrong is at most one minus the confidence level. This is exact, for any number of rows and whenever a group
    first appears, if the rates of the groups stay the same. *Has the gap changed?* ``alarms`` answers it: as long as
    every gap is within the margin, the average number of updates between two false alarms is at least ``run_length``.
    The rates may change from update to update. Within an update, a gap is the difference between the groups' average
    rates, over the rows of that update. If rates and shares of groups drift together within an update, these averages
    differ even if there is no gap at any moment, so keep updates short compared with such drift.

    ``interval`` and ``verdict`` depend on the rows and their order, not on the batches in which they came, to the last
    bit. Alarms depend on the rows of each update: with ``update_rows`` these do not depend on batches either; without
    it every batch is an update.

    Parameters
    ----------
    metric : str or Criterion
        What is compared between the groups, as in ``fairness_interval``; metrics of scores are not possible.
    margin : float
        The largest acceptable gap; for a ratio, the smallest acceptable one.
    confidence_level : float
    run_length : float
        Least average number of updates between false alarms.
    update_rows : int, optional
        Rows of an update, however many come at once; by default every call of ``update`` is one update.
    pos_label : value
        The positive decision and label; there may be one other value.
    max_waiting : int
        How many decisions may wait for their labels. The oldest expire if there are more.

    Examples
    --------
    >>> monitor = FairnessMonitor(metric="demographic_parity", margin=0.2)
    >>> rng = np.random.default_rng(0)
    >>> for _ in range(20):
    ...     group = rng.choice(["a", "b"], size=100)
    ...     _ = monitor.update(rng.random(100) < np.where(group == "a", 0.5, 0.1), sensitive_features=group)
    >>> monitor.verdict
    'violates margin'
    >>> monitor.interval()
    <demographic_parity, evaluation, 0.95: gap 0.4336 [0.3635, 0.4950], unfairness 0.4336 [0.3635, 0.4950]>
    >>> print(monitor.alarms[0])
    Update 7 (700 rows): the selection_rate of group 'a' is above that of group 'b' by more than the margin
    allows.
    """

    def __init__(
        self,
        metric: str | Criterion = "demographic_parity",
        *,
        margin: float,
        confidence_level: float = 0.95,
        run_length: float = 10_000,
        update_rows: int | None = None,
        pos_label: Any = 1,
        max_waiting: int = 1_000_000,
    ) -> None:
        measured = any_metric(metric)
        check_anytime(score_metric=measured.name if isinstance(measured, ScoreMeasure) else "")
        assert isinstance(measured, Metric)
        _check_numbers(margin, run_length, update_rows, max_waiting)
        self.margin = float(margin)
        self.confidence_level = check_level(confidence_level)
        self.run_length = float(run_length)
        self.update_rows = None if update_rows is None else int(update_rows)
        self.pos_label = pos_label
        self.max_waiting = int(max_waiting)
        self._metric = measured
        self._state: _State | None = None
        self._library = "pandas"

    # -- What came in -------------------------------------------------------------------------------------------------

    def update(self, y_pred: Any, *, sensitive_features: Any, y_true: Any = None, ids: Any = None) -> Self:
        """Take a batch of decisions, in the order in which they were made. An error leaves the monitor as it was.

        Parameters
        ----------
        y_pred : array-like of shape (n_rows,)
            Decisions, with two values.
        sensitive_features : array-like of shape (n_rows,), data frame or dict of columns
            Group of each row, in the same columns every time.
        y_true : array-like of shape (n_rows,), optional
            Labels, with the same two values; missing where a label comes later.
        ids : array-like of shape (n_rows,), optional
            What identifies each decision, for labels that come later by ``add_labels``. An id is known as long as its
            decision waits for its label; a decision that comes again in the meantime counts once.

        Returns
        -------
        self
        """
        decision, other = self._binary(y_pred, "decision", self._other)
        columns = as_columns(sensitive_features)
        codes = next(iter(columns.values())).code
        keys = None if ids is None else _texts(ids)
        n = same_length(y_pred=decision, sensitive_features=codes, ids=keys)
        truth, known, other = self._truth(y_true, n, other)
        if not known.all() and keys is None:
            raise ValueError(
                f"The metric {self._metric.name!r} needs labels, and {n - int(known.sum()):,} of {n:,} rows have none. "
                "Pass y_true, or pass ids now and the labels later to add_labels."
            )
        state = self._among(columns, other)
        group = state.stretches.groups.codes(columns)
        waiting, now = state.waiting, np.arange(n)
        if keys is not None and (waiting.decisions or not known.all()):
            waiting = waiting.copy()
            rows = np.column_stack([group, decision]).tolist()
            now = np.array(waiting.put(keys, map(tuple, rows), known.tolist()), dtype=np.int64)
        moved = state._replace(waiting=waiting)
        self._state = _counted(moved, group[now], truth[now], decision[now], self.update_rows)
        self._library = library_of(
            next(iter(sensitive_features.values())) if isinstance(sensitive_features, dict) else sensitive_features
        )
        return self

    def add_labels(self, y_true: Any, *, ids: Any) -> Self:
        """Take labels of decisions that came before, by id. The decisions count from now on.

        Labels whose id does not wait are counted as unknown.

        Whether and when a label comes must not distort the rates. Within each group, it must not depend on the decision
        for rates among the truly positive or negative (true and false positive and negative rates, equalized odds), not
        on the label for rates among decisions (precision, false discovery and omission rates) and for base rates, and
        on neither for accuracy and error rate. For example, if only accepted applicants for loans ever get a label,
        every group seems to have a true-positive rate of 1, and the gap looks small whatever it is.

        Parameters
        ----------
        y_true : array-like of shape (n_rows,)
        ids : array-like of shape (n_rows,)

        Returns
        -------
        self
        """
        if self._state is None:
            raise ValueError("There are no decisions yet. Pass decisions with ids to update first.")
        truth, other = self._binary(y_true, "label", self._other)
        keys = _texts(ids)
        same_length(y_true=truth, ids=keys)
        waiting = self._state.waiting.copy()
        places, decisions = waiting.take(keys)
        rows = np.array(decisions, dtype=np.int64).reshape(len(places), len(self._state.stretches.groups.sizes) + 1)
        state = self._state._replace(waiting=waiting, other=other)
        self._state = _counted(state, rows[:, :-1], truth[places], rows[:, -1], self.update_rows)
        return self

    def update_arrow(
        self,
        table: Any,
        *,
        decision: str,
        sensitive: str | Sequence[str],
        label: str | None = None,
        ids: str | None = None,
    ) -> Self:
        """Take a batch from an Arrow table or record batch, by the names of its columns.

        Parameters
        ----------
        table : pyarrow.Table or pyarrow.RecordBatch
        decision, label, ids : str
            Names of columns; ``label`` and ``ids`` are optional.
        sensitive : str or sequence of str

        Returns
        -------
        self

        Examples
        --------
        >>> import pyarrow as pa
        >>> batch = pa.table({"decision": [1, 0, 1, 0], "sex": ["f", "f", "m", "m"]})
        >>> FairnessMonitor(margin=0.1).update_arrow(batch, decision="decision", sensitive="sex").n
        4
        """
        names = [sensitive] if isinstance(sensitive, str) else [*sensitive]
        wanted = [decision, *names, *(one for one in (label, ids) if one is not None)]
        if missing := [one for one in wanted if one not in table.schema.names]:
            raise ValueError(
                f"The table has no column {missing[0]!r}; it has {', '.join(map(repr, table.schema.names))}."
            )
        groups = {name: table[name] for name in names}
        return self.update(
            table[decision], sensitive_features=groups, y_true=None if label is None else table[label],
            ids=None if ids is None else table[ids],
        )  # fmt: skip

    def merge(self, other: FairnessMonitor) -> Self:
        """Add what another monitor with the same settings has seen, as if its updates came after these.

        Its alarms keep their groups and statistics; their ``update`` and ``n`` are numbered on from this monitor's. An
        alarm that only both streams together raise has the number of the last update.

        Parameters
        ----------
        other : FairnessMonitor
            It watched other rows.

        Returns
        -------
        self
        """
        mine, theirs = self._settings, other._settings
        if mine != theirs:
            name = next(one for one in mine if mine[one] != theirs[one])
            raise ValueError(
                f"Monitors merge if they have the same settings; {name} is {mine[name]!r} here and {theirs[name]!r} "
                "there."
            )
        if other._state is None or self._state is None:
            self._state = self._state or other._state
            return self
        a, b = self._state, other._state
        if None not in (a.other, b.other) and a.other != b.other:
            raise ValueError(f"The negative label is {a.other!r} here and {b.other!r} there. Convert one of them.")
        stretches = a.stretches.merge(b.stretches)
        codes = [stretches.groups.recode(one.stretches.groups) for one in (a, b)]
        waiting = a.waiting.recoded(codes[0]).merge(b.waiting.recoded(codes[1]))
        detector = a.detector.merge(b.detector, a.stretches.n, b.stretches.n).among(stretches.groups)
        self._state = _State(stretches, detector, waiting, b.other if a.other is None else a.other)
        return self

    def _among(self, columns: dict[str | None, CodedColumn], other: Any) -> _State:
        """State with the groups of these columns."""
        if self._state is None:
            groups = Groups.of(columns).check_few()
            detector = Detector.of(self._metric, self.margin, self.run_length, groups)
            return _State(Stretches.of(self._metric.rates, groups), detector, Waiting(self.max_waiting), other)
        stretches, detector, waiting, _ = self._state
        groups = stretches.groups.joined(columns).check_few()
        if groups is not stretches.groups:
            waiting = waiting.recoded(groups.recode(stretches.groups))
        return _State(stretches.among(groups), detector.among(groups), waiting, other)

    def _truth(self, y_true: Any, n: int, other: Any) -> tuple[IntArray, Any, Any]:
        """Labels as 0 and 1, which of them are known, and the label that is not positive."""
        if not self._metric.needs_labels:
            return np.zeros(n, dtype=np.int64), np.ones(n, dtype=bool), other
        if y_true is None:
            return np.zeros(n, dtype=np.int64), np.zeros(n, dtype=bool), other
        series = pd.Series(y_true.to_pandas() if hasattr(y_true, "to_pandas") else y_true).reset_index(drop=True)
        known = series.notna().to_numpy()
        same_length(y_pred=np.empty(n), y_true=known)
        truth = np.zeros(n, dtype=np.int64)
        if known.any():
            found = series[known].infer_objects()
            whole = found.dtype.kind == "f" and bool(
                (found == found.round()).all()
            )  # a gap turned integers into floats
            truth[known], other = self._binary(found.astype(int) if whole else found, "label", other)
        return truth, known, other

    @property
    def _other(self) -> Any:
        return None if self._state is None else self._state.other

    def _binary(self, values: Any, what: str, other: Any) -> tuple[IntArray, Any]:
        """Decisions or labels as 0 and 1, and the value that is not positive."""
        column: Column = as_column(values, what)
        positive = column == self.pos_label
        found = pd.unique(column[~positive]).tolist() if np.ndim(positive) else column.tolist()
        strange = [one for one in found if other is not None and one != other]
        text = any(isinstance(one, str) != isinstance(self.pos_label, str) for one in found)
        if text or len(found) > 1 or strange:
            shown = ", ".join(map(repr, [*dict.fromkeys([*([] if other is None else [other]), *found])][:5]))
            raise ValueError(
                f"The {what} column must have two values, of which pos_label={self.pos_label!r} is the positive one; "
                f"received, besides, {shown}. Pass pos_label, or merge values."
            )
        return positive.astype(np.int64), found[0] if found and other is None else other

    # -- What it means ------------------------------------------------------------------------------------------------

    def interval(self) -> Interval:
        """Interval for the unfairness from all decisions so far, valid however often you ask for it."""
        if self._state is None:
            raise ValueError("There are no decisions yet. Pass some to update first.")
        groups = self._state.stretches.groups.check_comparable()
        question = Question(self._metric, "evaluation", "percentile", self.confidence_level)
        context = Context(positive=self.pos_label, library=self._library)
        assert groups is self._state.stretches.groups
        return self._state.stretches.interval(question, context)

    @property
    def verdict(self) -> str:
        """Verdict about the margin: "within margin", "violates margin" or "not enough evidence"; valid at all times."""
        if not self.is_comparable:
            return "not enough evidence"
        return self.interval().verdict(self.margin)

    @property
    def alarms(self) -> tuple[Alarm, ...]:
        """Alarms so far: each says that a gap has moved beyond the margin. The latest 1,000 are kept."""
        return () if self._state is None else self._state.detector.alarms

    @property
    def metric(self) -> str:
        """Name of the metric."""
        return self._metric.name

    @property
    def needs_labels(self) -> bool:
        """Whether the metric needs labels."""
        return self._metric.needs_labels

    @property
    def is_comparable(self) -> bool:
        """Whether every sensitive column has shown two groups or more."""
        return self._state is not None and min(self._state.stretches.groups.sizes) > 1

    @property
    def n(self) -> int:
        """Rows that count: decisions, with their labels where the metric needs them."""
        return 0 if self._state is None else self._state.stretches.n

    @property
    def n_updates(self) -> int:
        """Updates so far."""
        return 0 if self._state is None else self._state.detector.n_updates

    @property
    def counts(self) -> dict[str, int]:
        """Rows, updates and alarms, and what became of decisions whose labels come later."""
        waiting = Waiting(0) if self._state is None else self._state.waiting
        alarms = 0 if self._state is None else self._state.detector.n_alarms
        now = {"rows": self.n, "updates": self.n_updates, "alarms": alarms, "waiting": len(waiting.decisions)}
        return now | vars(waiting.fates)

    @property
    def sentence(self) -> str:
        """What the monitor has found, in words."""
        found = f"Verdict at the margin {self.margin:g}: {self.verdict}."
        alarms = self.counts["alarms"]
        raised = f" {counted(alarms, 'alarm')} in {counted(self.n_updates, 'update')}."
        if not self.is_comparable:
            return f"{counted(self.n, 'row')}, and no two groups to compare yet. {found}{raised}"
        return f"{self.interval().sentence} {found}{raised}"

    def to_dict(self) -> dict[str, Any]:
        """Return settings, counts, verdict, interval and alarms as plain values, ready for JSON."""
        return {
            "settings": plain(self._settings), "counts": self.counts, "verdict": self.verdict,
            "interval": self.interval().to_dict() if self.is_comparable else None,
            "statistic": plain(0.0 if self._state is None else self._state.detector.statistic),
            "alarms": [plain(one._asdict()) for one in self.alarms], "sentence": self.sentence,
        }  # fmt: skip

    def to_frame(self) -> Any:
        """Return the alarms, one row each."""
        names = Alarm._fields
        return make_frame({name: [getattr(one, name) for one in self.alarms] for name in names}, like=self._library)

    def __repr__(self) -> str:
        return f"<FairnessMonitor, {self.metric}, margin {self.margin:g}: {counted(self.n, 'row')}, {self.verdict}>"

    def _repr_html_(self) -> str:
        table = {name: f"{count:,}" for name, count in self.counts.items()}
        return summary(self.sentence, table, [str(one) for one in self.alarms[-5:]])

    # -- Files --------------------------------------------------------------------------------------------------------

    @property
    def _settings(self) -> dict[str, Any]:
        names = ("metric", "margin", "confidence_level", "run_length", "update_rows", "pos_label", "max_waiting")
        return {name: getattr(self, name) for name in names}

    def pack(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Take the monitor apart into JSON and arrays."""
        meta: dict[str, Any] = {"settings": plain(self._settings), "library": self._library}
        if self._state is None:
            return meta | {"state": None}, {}
        stretches, detector, waiting, other = self._state
        parts = {
            "stretches": stretches.pack(),
            "detector": detector.pack(),
            "waiting": waiting.pack(len(stretches.groups.sizes)),
        }
        state = {name: part[0] for name, part in parts.items()} | {"other": plain(other)}
        arrays = {key: array for name, part in parts.items() for key, array in add_prefix(name, part[1]).items()}
        return meta | {"state": state}, arrays

    @classmethod
    def unpack(cls, meta: dict[str, Any], arrays: dict[str, Any]) -> FairnessMonitor:
        """Rebuild what ``pack`` returned."""
        monitor = cls(**value_of(meta, "settings", dict))
        monitor._library = value_of(meta, "library", str)
        state = value_of(meta, "state", (dict, type(None)))
        if state is not None:
            found = {name: value_of(state, name, dict) for name in ("stretches", "detector", "waiting")}
            of = {name: select_prefix(name, arrays) for name in found}
            stretches = Stretches.unpack(monitor._metric.rates, found["stretches"], of["stretches"])
            groups = stretches.groups
            detector = Detector.of(monitor._metric, monitor.margin, monitor.run_length, groups)
            detector = detector.unpack(found["detector"], of["detector"])
            waiting = Waiting.unpack(monitor.max_waiting, groups.sizes, found["waiting"], of["waiting"])
            other = value_of(state, "other", (str, int, float, bool, type(None)))
            monitor._state = _State(stretches, detector, waiting, other)
        check_same((meta, arrays), monitor.pack())
        return monitor

    def save(self, path: Place) -> None:
        """Write the monitor to a file, without pickle; an existing file is replaced once the new one is complete."""
        write_archive(path, FORMAT, VERSION, *self.pack())

    @classmethod
    def load(cls, path: Place) -> FairnessMonitor:
        """Read a monitor that ``save`` wrote.

        Examples
        --------
        >>> from io import BytesIO
        >>> file = BytesIO()
        >>> FairnessMonitor(margin=0.1).update([1, 0], sensitive_features=["a", "b"]).save(file)
        >>> FairnessMonitor.load(file).n
        2
        """
        meta, arrays = read_archive(path, FORMAT, VERSION)
        with naming(path):
            return cls.unpack(meta, arrays)


def _check_numbers(margin: Any, run_length: Any, update_rows: Any, max_waiting: Any) -> None:
    if not (isinstance(margin, Real) and 0.0 < float(margin) < 1.0):
        raise ValueError(f"margin must lie strictly between 0 and 1, for example 0.1; received {margin!r}.")
    if not (isinstance(run_length, Real) and 1.0 < float(run_length) < np.inf):
        raise ValueError(f"run_length must be a number above 1, for example 10_000; received {run_length!r}.")
    if update_rows is not None and not (isinstance(update_rows, int | np.integer) and update_rows > 0):
        raise ValueError(f"update_rows must be a whole number, 1 or larger, or None; received {update_rows!r}.")
    if not (isinstance(max_waiting, int | np.integer) and max_waiting >= 0):
        raise ValueError(f"max_waiting must be a whole number, 0 or larger; received {max_waiting!r}.")


def _counted(state: _State, group: IntArray, truth: IntArray, decision: IntArray, update_rows: int | None) -> _State:
    """Count rows, as one update or in updates of so many rows, of which the last may not have ended."""
    before, n = state.stretches.n, len(decision)
    stretches = state.stretches.add(group, truth, decision)
    update = np.zeros(n, dtype=np.int64)
    ends = [before + n]
    if update_rows is not None:
        update = (before + np.arange(n)) // update_rows - before // update_rows
        ends = [*range((before // update_rows + 1) * update_rows, before + n + 1, update_rows)]
    tables = stretches.tables_of(group, truth, decision, update, len(ends) + 1)
    detector = state.detector.update(tables[:-1], ends) if ends else state.detector
    return state._replace(stretches=stretches, detector=detector.gather(tables[-1]))


def _texts(ids: Any) -> list[str]:
    """Ids as text."""
    return [str(one) for one in as_column(ids, "id").tolist()]
