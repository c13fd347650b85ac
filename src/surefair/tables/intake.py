"""From tables to rows: features, labels, groups and weights, with everything met on the way counted.

Some rows settle which columns become which features: where the data can be read again, rows drawn over all of them,
otherwise those of the first table. The first table settles which labels there are. Every row is compared with what was
settled. Counts of two parts of the data add.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from surefair.diagnostics import Diagnostic, late_column
from surefair.names import counted, one_of
from surefair.rows import CodedColumn, Groups, IntArray, Levels, Names, Rows
from surefair.tables import telltales
from surefair.tables.bad_rows import BadRows
from surefair.tables.counting import Counting
from surefair.tables.encoder import Drawn, Features
from surefair.tables.reading import Reading, check_columns, in_order, is_same_word
from surefair.tables.source import DataSource, Sample
from surefair.tables.values import MISSING, as_numbers, as_words, plain_column, weight_unit

CHUNK = 50_000  # rows read at a time; so many settle the columns

HINT = "In a CSV file, words such as 'NA' or 'None' stand for missing values; rename a value that is called like that."
COUNTERS = ("missing", "unseen", "changed")


@dataclass(frozen=True, kw_only=True)
class Columns(Reading):
    """Which columns of a table serve for what, and how it is read.

    Attributes
    ----------
    label : str
        Column of the label, with two values.
    sensitive : tuple of str
        Columns of the groups. They are not features unless ``include_sensitive``.
    positive : str or None
        The positive label; by default the second in sorted order.
    features : tuple of str or None
        Columns to learn from; by default all columns without another role.
    drop : tuple of str
        Columns not to learn from.
    weights : str or None
        Column of sample weights.
    clusters : str or None
        Column with the person, or other unit, that each row belongs to; rows of one cluster serve the same purpose.
    include_sensitive : bool
        Whether the sensitive columns are features too.
    allow_leakage : bool
        Whether a feature may all but equal the label.
    """

    label: str
    sensitive: tuple[str, ...]
    positive: str | None = None
    features: tuple[str, ...] | None = None
    drop: tuple[str, ...] = ()
    weights: str | None = None
    clusters: str | None = None
    include_sensitive: bool = False
    allow_leakage: bool = False

    def __post_init__(self) -> None:
        self._as_tuples("sensitive", "features", "drop", "names")
        if isinstance(self.positive, tuple | list):
            if len(self.positive) > 1:
                raise ValueError(f"A label has one positive value; received {', '.join(map(repr, self.positive))}.")
            object.__setattr__(self, "positive", next(iter(self.positive), None))
        if self.positive is not None:
            object.__setattr__(self, "positive", str(self.positive))
        self._check_roles()

    def _check_roles(self) -> None:
        if not self.sensitive:
            raise ValueError("sensitive is empty. Name at least one sensitive column.")
        features = self.features or ()
        if both := [name for name in features if name in self.drop]:
            raise ValueError(f"Column {both[0]!r} is in features and in drop. Remove it from one of them.")
        roles = Counter([self.label, *self.sensitive, *([self.weights] if self.weights else [])])
        if twice := [name for name, n in roles.items() if n > 1]:
            raise ValueError(
                f"Column {twice[0]!r} has two roles. Name different columns as the label, as sensitive and as weights."
            )
        if taken := [name for name in features if name in (self.label, self.weights)]:
            raise ValueError(f"Column {taken[0]!r} is the label or the weights. Remove it from features.")

    def to_read(self, schema: pa.Schema) -> list[str]:
        """Names of the columns to read, in the order of the data; columns that are not there are refused."""
        known = schema.names
        named = {
            "label": (self.label,), "sensitive": self.sensitive, "features": self.features or (),
            "drop": self.drop, "weights": (self.weights,), "clusters": (self.clusters,),
        }  # fmt: skip
        check_columns(named, schema, free=("features", "drop"))
        needed = {name for what, names in named.items() if what != "drop" for name in names}
        if self.features is None:
            needed |= {*known} - {*self.drop}
        return [name for name in known if name in needed]

    def roles(self) -> dict[str | None, str]:
        """Role of each column that is not a feature."""
        roles = {self.label: "label", self.weights: "weights", self.clusters: "clusters"}
        return roles | dict.fromkeys(self.sensitive, "sensitive")


class Intake(Counting):
    """Turns tables into rows, and counts bad rows, missing values and unseen values.

    Attributes
    ----------
    columns : Columns
    encoder : Features or None
        None before the first table.
    notes : dict of str to str
        What to know about columns, by column.
    labels : tuple of str
        The negative and the positive one.
    first, read : int
        Number, in the whole data, of the first row that comes here, and how many have come.
    bad : BadRows
    own : set of str
        Reasons for bad rows that were found here, not by the reader.
    missing, unseen, changed : Counter
        Rows without a value, rows with a category that the settling rows do not have, and rows that do not fit what the
        settling rows show, by column.
    weight_unit : float
        Weights are divided by it: only their ratios matter.
    settling : tuple of int and Counter
        Number of the settling rows, and how many of them do not fit, by column.
    place : callable
        Describes the place of a row, given its number in the whole data.
    """

    COUNTERS = COUNTERS

    def __init__(self, columns: Columns, bad: BadRows, place: Callable[[int], str]) -> None:
        self.columns = columns
        self.encoder: Features | None = None
        self.notes: dict[str, str] = {}
        self.labels: tuple[str, ...] = ()
        self.settling: tuple[int, Counter[str]] = 0, Counter()
        self.weight_unit = 1.0
        super().__init__(bad, place)

    def _forget(self) -> None:
        super()._forget()
        self.missing: Counter[str] = Counter()
        self.unseen: Counter[str] = Counter()
        self.changed: Counter[str] = Counter()

    def settle(self, table: pa.Table, read: Sequence[str], sample: Sample | None = None, whole: bool = True) -> None:
        """Settle labels on the first table, which has these columns, and features on it or on a sample of all rows.

        ``whole`` if there are no other rows than those of the table.
        """
        columns = self.columns
        code, words = as_words(plain_column(table, columns.label))
        count = Counter(words[code].tolist())
        found = sorted((word for word in count if word != MISSING), key=in_order)
        if len(found) != 2:
            shown = ", ".join(f"{word!r} ({counted(count[word], 'row')})" for word in found[:10])
            some = counted(table.num_rows, "row shows", "rows show")
            hint = "Keep or merge two of them." if len(found) > 2 else "If the data are sorted by it, shuffle them."
            if len(found) < 2 and count[MISSING]:
                hint += f" {counted(count[MISSING], 'row has', 'rows have')} no label. {HINT}"
            raise ValueError(
                f"The label {columns.label!r} must have two values; the first {some} "
                f"{len(found)}: {shown or 'none'}{' and more' if len(found) > 10 else ''}. {hint}"
            )
        if columns.positive is not None:
            meant = [word for word in found if is_same_word(word, columns.positive)] or [columns.positive]
            one_of(meant[0], found, f"value of the label {columns.label!r}")
            found = sorted(found, key=lambda word: word == meant[0])
        self.labels = tuple(found)
        taken = {columns.label, columns.weights, columns.clusters}
        taken |= set() if columns.include_sensitive else {*columns.sensitive}
        n = table.num_rows
        drawn = Drawn(n) if whole else Drawn(n, f"the first {n:,} rows")
        if sample is not None:
            table = sample.table
            drawn = Drawn(sample.n_rows, f"{table.num_rows:,} rows drawn from all")
        self.encoder = Features.fit(table, columns.features or [name for name in read if name not in taken], drawn)
        self.settling = table.num_rows, _count(self.encoder.encode(table).changed)
        self._look_for_telltales(table)
        if columns.weights is not None:
            self.weight_unit = weight_unit(as_numbers(plain_column(table, columns.weights))[0])

    def _look_for_telltales(self, table: pa.Table) -> None:
        """Refuse features that all but equal the label, and note those that all but equal a group."""
        assert self.encoder is not None
        label = self.columns.label
        used = {}
        for name, feature in self.encoder.columns.items():
            if feature.role != "hashed":
                column = plain_column(table, name)
                used[name] = pa.array(as_numbers(column)[0]) if feature.role == "number" else column
        code, words = as_words(plain_column(table, label))
        labelled = np.isin(words, self.labels)[code]
        target = (words == self.labels[1])[code][labelled]
        found = telltales.leaks({name: column.filter(pa.array(labelled)) for name, column in used.items()}, target)
        if found and not self.columns.allow_leakage:
            name, share = max(found.items(), key=lambda one: one[1])
            raise ValueError(
                f"Column {name!r} all but equals the label {label!r}: it alone tells the two labels apart in "
                f"{100.0 * share:.1f} % of all pairs of rows. If it is known only after the decision, leave it out "
                f"(drop=[{name!r}], --drop {name}). If not, allow it (allow_leakage=True, --allow-leakage)."
            )
        self.notes = dict.fromkeys(found, f"all but equals the label {label!r}")
        for column in self.columns.sensitive:
            code, words = as_words(plain_column(table, column))
            others = {name: values for name, values in used.items() if name != column}
            for name, (group, _) in telltales.proxies(others, words[code]).items():
                self.notes[name] = f"all but equals the group {group!r} of {column!r}, and can stand for it"

    def rows(self, table: pa.Table) -> Rows:
        """Turn a table into rows; rows that cannot be used are counted, each under the first reason found."""
        assert self.encoder is not None
        columns = self.columns
        n = table.num_rows
        no, yes = self.labels
        encoded = self.encoder.encode(table)
        bad = dict(encoded.bad)
        numbers = self.first + self.read + np.arange(n)

        def column(name: str, reason: str) -> tuple[NDArray[np.intp], NDArray[Any]]:
            code, words = as_words(plain_column(table, name))
            bad[reason] = (words == MISSING)[code]
            return code, words

        code, words = column(columns.label, f"no label {columns.label!r}")
        known = np.array([word in (no, yes, MISSING) for word in words.tolist()], dtype=bool)
        bad[f"a label {columns.label!r} other than {no!r} and {yes!r}"] = ~known[code]
        y = np.where((words == yes)[code], 1.0, -1.0)
        sensitive = {name: column(name, f"no value of the sensitive column {name!r}") for name in columns.sensitive}
        weight = np.ones(n)
        key = numbers.astype(np.uint64)
        cluster = None
        if columns.weights is not None:
            weight, _ = as_numbers(plain_column(table, columns.weights))
            weight = weight / self.weight_unit
            bad[f"a weight {columns.weights!r} that is missing, negative or infinite"] = ~(
                np.isfinite(weight) & (weight >= 0.0)
            )
        if columns.clusters is not None:
            code, words = column(columns.clusters, f"no value of the cluster column {columns.clusters!r}")
            key = cluster = pd.util.hash_array(words, categorize=False)[code]
        good = self.count_bad(bad, numbers)
        for tally, found in ((self.missing, encoded.missing), (self.unseen, encoded.unseen)):
            tally.update({name: int((rows & good).sum()) for name, rows in found.items()})
        self.changed.update(_count(encoded.changed))
        self.read += n
        groups, group = _code_groups({name: (code[good], words) for name, (code, words) in sensitive.items()})
        names = Names(self.encoder.names, Levels(np.array(self.labels, dtype=np.str_), "label"), groups)
        cluster = None if cluster is None else cluster[good]
        return Rows(encoded.X[good], y[good], group, weight[good], names, key[good], cluster)

    @property
    def feature_places(self) -> list[IntArray]:
        """Positions of the features of each column."""
        assert self.encoder is not None
        sizes = [int(kept.sum()) for kept in self.encoder.kept.values()]
        return [part for part in np.split(np.arange(sum(sizes)), np.cumsum(sizes)[:-1]) if len(part)]

    def late_columns(self) -> list[Diagnostic]:
        """Check whether rows fit what was settled about the columns."""
        encoder = self.encoder
        assert encoder is not None
        n, settling = self.settling
        columns = []
        for name in self.changed:
            used = encoder.columns.get(name)
            words = _changed_words(name, None if used is None else used.role, encoder.left_out.get(name, ""))
            new = 0.0 if used is None else used.new
            columns.append(late_column.Column(words, settling[name], self.changed[name], new))
        return late_column.check(columns, n, self.read)


def _changed_words(name: str, role: str | None, reason: str) -> str:
    """Say in words what was settled about a column, and that so many of so many rows do not fit it."""
    shown = repr(name).replace("{", "{{").replace("}", "}}")
    if role == "number":
        return f"{shown} has no value, or one beyond those of the rows that settled its scale, in {{}} of {{}} rows"
    if role is not None:
        return f"{shown} has values that the rows which settled its categories do not have, in {{}} of {{}} rows"
    reason = reason.replace("{", "{{").replace("}", "}}")
    return f"{shown} was left out ({reason}), but {{}} of {{}} rows contradict that"


def _count(rows: dict[str, NDArray[np.bool_]]) -> Counter[str]:
    """Number of rows, by column."""
    return Counter({name: int(some.sum()) for name, some in rows.items()})


def settled_tables(
    source: DataSource, intake: Intake, read: Sequence[str], chunk: int
) -> Iterator[tuple[pa.Table, bool]]:  # fmt: skip
    """Yield tables, each with whether it is the last, after the first has settled the intake."""
    for number, (table, is_last) in enumerate(with_last(source.tables(chunk, read))):
        if number == 0:
            intake.settle(table, read, None if is_last else source.sample(chunk, read), is_last)
        yield table, is_last


def with_last(tables: Iterable[pa.Table]) -> Iterator[tuple[pa.Table, bool]]:
    """Yield tables, each with whether it is the last."""
    before = None
    for table in tables:
        if before is not None:
            yield before, False
        before = table
    if before is not None:
        yield before, True


def read_all(data: Any, columns: Columns, chunk: int = CHUNK) -> tuple[Rows, Intake, pa.Table]:
    """Read all rows of data into memory, with columns settled as in an audit; also as the table that they were."""
    bad = BadRows(columns.max_bad_rows)
    source = columns.open(data, bad)
    read = columns.to_read(source.schema)
    intake = Intake(columns, bad, source.place)
    tables = [table for table, _ in settled_tables(source, intake, read, chunk)]
    return reduce(Rows.followed_by, map(intake.rows, tables)), intake, pa.concat_tables(tables)


def _code_groups(sensitive: dict[str, tuple[NDArray[np.intp], NDArray[Any]]]) -> tuple[Groups, IntArray]:
    """Code the groups of each column, given the positions of the rows' words and the words."""
    coded: dict[str | None, CodedColumn] = {}
    for name, (code, words) in sensitive.items():
        present, positions = np.unique(code, return_inverse=True)
        coded[name] = CodedColumn(words[present].astype(np.str_), positions)
    groups = Groups.of(coded)
    return groups, groups.codes(coded)
