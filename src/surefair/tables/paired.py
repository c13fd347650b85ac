"""Decisions of two models about the same rows, from one file or from two that share a key."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from surefair.names import counted, one_of
from surefair.rows import FloatArray
from surefair.tables.bad_rows import BadRows
from surefair.tables.intake import CHUNK
from surefair.tables.positive import Positive, check_positive, two_values
from surefair.tables.reading import in_order
from surefair.tables.source import DataSource, open_source
from surefair.tables.values import MISSING, BoolArray, as_numbers, as_words, plain_column, says_unknown


class Paired(NamedTuple):
    """Rows with the decisions of two models; columns of words are categorical series."""

    decisions: tuple[Any, Any]  # words, or scores if there is a threshold
    sensitive: dict[str, Any]
    label: Any  # of the rows that have one; None without labels
    labelled: BoolArray  # which rows have a label
    weights: FloatArray | None
    clusters: Any  # None where rows are independent
    positive: str | None  # the positive decision
    meaning: str  # a sentence on what is positive in each column, where columns use different words; otherwise empty
    names: tuple[str, str]  # what to call the two models
    data: dict[str, Any]  # files, rows read, rows compared, those with a label, and rows that could not be used

    def only_labelled(self) -> Paired:
        """The rows with a label."""
        if self.labelled.all():
            return self

        def part(column: Any) -> Any:
            if column is None or isinstance(column, np.ndarray):
                return column if column is None else column[self.labelled]
            return column[self.labelled].reset_index(drop=True).cat.remove_unused_categories()

        a, b = map(part, self.decisions)
        sensitive = {name: part(column) for name, column in self.sensitive.items()}
        some = self._replace(decisions=(a, b), sensitive=sensitive, labelled=self.labelled[self.labelled])
        return some._replace(weights=part(self.weights), clusters=part(self.clusters))


@dataclass(frozen=True, kw_only=True)
class PairColumns:
    """Which columns hold the decisions of two models, and what else is known about the rows.

    Attributes
    ----------
    decision_a, decision_b : str
        Columns of the decisions, or of scores if there is a threshold.
    sensitive : tuple of str
        Columns of the groups.
    label, weights, clusters : str or None
        Columns of the true label, of sample weights, and of what rows belong to.
    key : str or None
        Column that says which rows of two files are the same.
    positive : tuple of str
        The positive decision, and the positive label if that is another word; by default the second in sorted order.
    threshold : float or None
        A score of at least this much is a positive decision.
    unknown : {"exclude", "include"}
        Whether rows whose group is called unknown are left out, or compared as a group.
    delimiter, encoding : str
        Delimiter (None for a comma, or a tab in .tsv files) and encoding of a CSV file.
    max_bad_rows : int
        Rows that cannot be used; more of them are an error.
    """

    decision_a: str
    decision_b: str
    sensitive: tuple[str, ...]
    label: str | None = None
    weights: str | None = None
    clusters: str | None = None
    key: str | None = None
    positive: tuple[str, ...] = ()
    threshold: float | None = None
    unknown: str = "exclude"
    delimiter: str | None = None
    encoding: str = "utf-8"
    max_bad_rows: int = 100

    def read(self, first: str, second: str | None = None, *, needs_labels: bool = True) -> Paired:
        """Read one file with the decisions of both models, or two files that are joined by the key.

        Parameters
        ----------
        first, second : path
            With two files, the second has the decisions of model b.
        needs_labels : bool
            Whether rows without a label are of no use.
        """
        self._check(two_files=second is not None)
        bad = BadRows(self.max_bad_rows)
        a = self._open(first, bad)
        if second is None:
            _check_names([self.decision_a, self.decision_b, *self._others], a)
            table = _read(a, [self.decision_a, self.decision_b, *self._others])
            columns = {name: plain_column(table, name) for name in table.column_names}
            decisions = columns[self.decision_a], columns[self.decision_b]
            n: dict[str, Any] = {"read": table.num_rows}
            found = [a]
        else:
            b = self._open(second, bad)
            joined = _join(self, a, b, bad)
            decisions, columns, n = joined.decisions, joined.columns, {"read": joined.n_a, "read_b": joined.n_b}
            found = [a, b]
        place = a.place if second is None else lambda number: f"row {number + 1:,} of those with a key in both files"
        good = self._good(decisions, columns, bad, place, needs_labels)
        unknown = good & self._unknown(columns)
        good &= ~unknown
        zero = good & self._weightless(columns)
        good &= ~zero
        if not good.any() and zero.any():
            raise ValueError(f"No row can be compared: the other {counted(int(zero.sum()), 'row')} have weight 0.")
        if not good.any():
            others = counted(int(unknown.sum()), "row")
            raise ValueError(
                f"No row can be compared: the group is unknown in all of the other {others}. "
                "Compare unknown groups too (--unknown include), or name other columns."
            )
        labelled = good if self.label is None else good & ~_missing(columns[self.label])
        files = [file._asdict() for one in found for file in one.files()]
        n |= {"compared": int(good.sum()), "labelled": None if self.label is None else int(labelled.sum())}
        data = {
            "files": files,
            "rows": n | {"unknown": int(unknown.sum()), "weightless": int(zero.sum()), "bad": bad.to_dict()},
        }
        names = self._names([first, *([] if second is None else [second])])
        return self._rows(decisions, columns, (good, labelled), names, data)

    @property
    def _others(self) -> list[str]:
        """Columns that are not decisions."""
        return [name for name in (*self.sensitive, self.label, self.weights, self.clusters) if name is not None]

    def _check(self, two_files: bool) -> None:
        """Refuse columns that make no sense together."""
        one_of(self.unknown, ("exclude", "include"), "way to treat unknown groups")
        if not self.sensitive:
            raise ValueError("sensitive is empty. Name at least one sensitive column.")
        if two_files and self.key is None:
            raise ValueError("Two files are joined by a key. Name the column that both share (--key).")
        if not two_files and self.key is not None:
            raise ValueError("A key joins two files, and there is only one. Name a second file, or leave out --key.")
        if not two_files and self.decision_a == self.decision_b:
            raise ValueError(
                f"Both decisions are in column {self.decision_a!r}. Name two columns, or two files with a --key."
            )
        roles = Counter([*self._others, *{self.decision_a, self.decision_b}])
        roles.update([] if self.key is None else [self.key])
        if twice := [name for name, n in roles.items() if n > 1]:
            raise ValueError(f"Column {twice[0]!r} has two roles. Name different columns.")

    def _open(self, path: str, bad: BadRows) -> DataSource:
        more = {} if self.delimiter is None else {"delimiter": self.delimiter}
        return open_source(path, encoding=self.encoding, bad=bad, **more)

    def _names(self, paths: list[str]) -> tuple[str, str]:
        """Names of the columns or, if they are the same, of the files."""
        if self.decision_a != self.decision_b:
            return self.decision_a, self.decision_b
        a, b = (Path(path).stem for path in paths)
        return (a, b) if a != b else ("a", "b")

    def _good(
        self,
        decisions: tuple[pa.Array, pa.Array],
        columns: dict[str, pa.Array],
        bad: BadRows,
        place: Any,
        needs_labels: bool,
    ) -> BoolArray:
        """Which rows have everything; the others are counted, each under the first reason found."""
        reasons: dict[str, BoolArray] = {}
        for letter, column in zip("ab", decisions, strict=True):
            if self.threshold is None:
                reasons[f"no decision of model {letter}"] = _missing(column)
            else:
                reasons[f"no finite score of model {letter}"] = ~np.isfinite(as_numbers(column)[0])
        everywhere = ", so left out of every sensitive column" if len(self.sensitive) > 1 else ""
        for name in self.sensitive:
            reasons[f"no value of {name!r}{everywhere}"] = _missing(columns[name])
        for other in (self.label if needs_labels else None, self.clusters):
            if other is not None:
                reasons[f"no value of {other!r}"] = _missing(columns[other])
        if self.weights is not None:
            weight = as_numbers(columns[self.weights])[0]
            reasons[f"a weight {self.weights!r} that is missing, negative or infinite"] = ~(
                np.isfinite(weight) & (weight >= 0.0)
            )
        good = np.ones(len(decisions[0]), dtype=bool)
        for reason, rows in reasons.items():
            if (mine := rows & good).any():
                good &= ~mine
                bad.add(reason, int(mine.sum()), place(int(mine.argmax())))
        if not good.any():
            raise ValueError(f"No row can be compared. {bad}.")
        return good

    def _unknown(self, columns: dict[str, pa.Array]) -> BoolArray:
        """Which rows are left out because a group of theirs is called unknown."""
        found = np.zeros(len(columns[self.sensitive[0]]), dtype=bool)
        for name in self.sensitive if self.unknown == "exclude" else ():
            code, words = as_words(columns[name])
            found |= np.array([says_unknown(word) for word in words], dtype=bool)[code]
        return found

    def _weightless(self, columns: dict[str, pa.Array]) -> BoolArray:
        """Which rows have weight 0."""
        if self.weights is None:
            return np.zeros(len(columns[self.sensitive[0]]), dtype=bool)
        return np.asarray(as_numbers(columns[self.weights])[0] == 0.0)

    def _rows(
        self,
        decisions: tuple[pa.Array, pa.Array],
        columns: dict[str, pa.Array],
        use: tuple[BoolArray, BoolArray],
        names: tuple[str, str],
        data: dict[str, Any],
    ) -> Paired:
        """Good rows, and among them those with a label, as words and numbers."""
        good, labelled = use
        words = {name: _series(columns[name], good) for name in (*self.sensitive, self.clusters) if name}
        label = None if self.label is None or not labelled.any() else _series(columns[self.label], labelled)
        positive, meaning = None, ""
        if self.threshold is None:
            of_a, of_b = (_series(column, good) for column in decisions)
            (of_a, of_b, label), positive, meaning = self._in_same_words((of_a, of_b, label), names)
        else:
            of_a, of_b = (as_numbers(column)[0][good] for column in decisions)
            if label is not None:
                values = self._two(_words(label), str(self.label), "label")
                check_positive(self.positive, [values.words])
                positive = values.words[1]
        return Paired(
            (of_a, of_b), {name: words[name] for name in self.sensitive}, label, labelled[good],
            None if self.weights is None else as_numbers(columns[self.weights])[0][good],
            None if self.clusters is None else words[self.clusters], positive, meaning, names, data,
        )  # fmt: skip

    def _in_same_words(
        self, columns: tuple[Any, Any, Any], names: tuple[str, str]
    ) -> tuple[tuple[Any, Any, Any], str, str]:
        """Write labels in the words of the decisions.

        Columns that together have two values mean the same by them; otherwise each has its own positive value.

        Returns
        -------
        columns : tuple
            Decisions of both models and labels, which may be None.
        positive : str
        meaning : str
            What is positive in each column, where columns use different words.
        """
        a, b, label = columns
        every, decided = _words(a, b, label), _words(a, b)
        values = []
        for column, name in zip(columns, (self.decision_a, self.decision_b, self.label), strict=True):
            if column is not None:
                shared = [every, _words(label)] if column is label else [every, decided, _words(column)]
                words = next((some for some in shared if len(some) <= 2), shared[-1])
                values.append(self._two(words, str(name), "label" if column is label else "decision"))
        check_positive(self.positive, [one.words for one in values])
        common = [" / ".join(dict.fromkeys(both)) for both in zip(values[0].words, values[1].words, strict=True)]
        new = [dict(zip(one.words, common, strict=True)) for one in values]
        same = a.cat.rename_categories(new[0]), b.cat.rename_categories(new[1])
        again = None if label is None else label.cat.rename_categories(new[2])
        meaning = ""
        if len({one.words for one in values}) > 1:
            said = [f"{name} = {one.words[1]!r}" for name, one in zip([*names, self.label], values, strict=False)]
            meaning = f"Positive is {', '.join(said[:-1])} and {said[-1]}."
        return (*same, again), common[1], meaning

    def _two(self, words: list[str], name: str, what: str) -> Positive:
        """The two values of a column; three or more are refused."""
        if len(words) > 2:
            hint = " If decisions are scores, pass a --threshold." if what == "decision" else ""
            raise ValueError(
                f"The {what} {name!r} must have two values; it has {len(words):,}: {_some(words)}. Keep or merge two "
                f"of them.{hint}"
            )
        return two_values(words, self.positive, name, what)


class _Joined(NamedTuple):
    """Rows whose key is in both files."""

    decisions: tuple[pa.Array, pa.Array]
    columns: dict[str, pa.Array]
    n_a: int  # rows read
    n_b: int


def _join(wanted: PairColumns, a: DataSource, b: DataSource, bad: BadRows) -> _Joined:
    """Join two files by their key, and count the rows that only one of them has."""
    key = wanted.key
    assert key is not None
    others = wanted._others
    _check_names([key, wanted.decision_a], a)
    _check_names([key, wanted.decision_b], b)
    _check_names(others, a, b)
    tables = [
        _read(one, [key, decision, *(name for name in others if name in one.schema.names and name != decision)])
        for one, decision in ((a, wanted.decision_a), (b, wanted.decision_b))
    ]
    keyed = [_Keyed.of(table, key, one, bad) for table, one in zip(tables, (a, b), strict=True)]
    for mine, other in (keyed, keyed[::-1]):
        mine.count_alone(other, key, bad)
    both = keyed[1].keys.get_indexer(keyed[0].keys)
    rows = keyed[0].rows[both >= 0], keyed[1].rows[both[both >= 0]]
    if len(rows[0]) == 0:
        raise ValueError(f"No key {key!r} is in both {a.name} and {b.name}. Check that the files are of the same rows.")
    of_a, of_b = (table.take(pa.array(some)) for table, some in zip(tables, rows, strict=True))
    columns = {}
    for name in others:
        found = [plain_column(table, name) for table in (of_a, of_b) if name in table.column_names]
        if len(found) == 2:
            _check_same(name, found, keyed[0].keys[both >= 0], (a.name, b.name))
        columns[name] = found[0]
    decisions = plain_column(of_a, wanted.decision_a), plain_column(of_b, wanted.decision_b)
    return _Joined(decisions, columns, *(table.num_rows for table in tables))


class _Keyed(NamedTuple):
    """Rows of a file that have a key, all different."""

    keys: pd.Index
    rows: NDArray[np.intp]  # their numbers
    source: DataSource

    @classmethod
    def of(cls, table: pa.Table, key: str, source: DataSource, bad: BadRows) -> _Keyed:
        """Count rows without a key, and refuse keys that repeat."""
        code, words = as_words(plain_column(table, key))
        missing = (words == MISSING)[code]
        if missing.any():
            bad.add(f"no key {key!r} in {source.name}", int(missing.sum()), source.place(int(missing.argmax())))
        found = cls(pd.Index(words[code[~missing]], dtype=object), np.flatnonzero(~missing), source)
        again = found.keys.duplicated()
        if again.any():
            n, second = int(again.sum()), int(again.argmax())
            first = int(np.argmax(found.keys == found.keys[second]))
            raise ValueError(
                f"Keys repeat in {source.name}: {counted(n, 'row has', 'rows have')} a {key!r} that an earlier "
                f"row has. The first is {found.keys[second]!r}, in {found.place(first)} and {found.place(second)}. "
                "Which rows belong together is then unclear: remove copies, or name another key."
            )
        return found

    def place(self, position: int) -> str:
        """Describe where a row is, given its position among those with a key."""
        return self.source.place(int(self.rows[position]))

    def count_alone(self, other: _Keyed, key: str, bad: BadRows) -> None:
        """Count the rows whose key the other file does not have."""
        alone = ~self.keys.isin(other.keys)
        if alone.any():
            first = int(np.argmax(alone))
            where = f"{self.place(first)}: {self.keys[first]!r}"
            bad.add(f"a key {key!r} that only {self.source.name} has", int(alone.sum()), where)


def _check_same(name: str, columns: list[pa.Array], keys: pd.Index, files: tuple[str, str]) -> None:
    """Refuse a column that both files have with different values."""
    words = [found[code] for code, found in map(as_words, columns)]
    if (differ := words[0] != words[1]).any():
        row = int(np.argmax(differ))
        raise ValueError(
            f"The files disagree on {name!r} for {counted(int(differ.sum()), 'key')}. The first is {keys[row]!r}: "
            f"{words[0][row]!r} in {files[0]} and {words[1][row]!r} in {files[1]}. Correct one of them, or remove the "
            "column from one."
        )


def _check_names(names: list[str], *sources: DataSource) -> None:
    """Refuse a column that no file has."""
    known = [*dict.fromkeys(name for source in sources for name in source.schema.names)]
    for name in names:
        one_of(name, known, f"column of {' and '.join(source.name for source in sources)}")


def _read(source: DataSource, columns: list[str]) -> pa.Table:
    """All rows of some columns."""
    return pa.concat_tables([*source.tables(CHUNK, columns)])


def _missing(column: pa.Array) -> BoolArray:
    """Which rows have no value."""
    code, words = as_words(column)
    return np.asarray((words == MISSING)[code])


def _series(column: pa.Array, good: BoolArray) -> Any:
    """Words of the good rows, as a categorical series without categories that no row has."""
    code, words = as_words(column)
    return pd.Series(pd.Categorical.from_codes(code[good], pd.Index(words))).cat.remove_unused_categories()


def _words(*columns: Any) -> list[str]:
    """All words of some columns, in order; None is a column without words."""
    words = {word for column in columns if column is not None for word in column.cat.categories}
    return sorted(words, key=in_order)


def _some(values: list[str]) -> str:
    """The first values, in words."""
    return ", ".join(map(repr, values[:5])) + (f" and {len(values) - 5:,} more" if len(values) > 5 else "")
