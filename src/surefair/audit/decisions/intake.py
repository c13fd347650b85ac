"""From tables to codes: the group, stratum, label and decision of each row as small integers.

Words get their codes in the order in which they appear, so nothing about the data must be known beforehand. Only
distinct values become words; everything that happens to each row happens in NumPy.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pandas.util import hash_array

from surefair.audit.decisions.axes import Axes
from surefair.audit.decisions.combinations import Coded
from surefair.audit.decisions.settings import DecisionSettings
from surefair.rows import FloatArray
from surefair.tables.bad_rows import BadRows
from surefair.tables.counting import Counting
from surefair.tables.values import MISSING, as_codes, as_numbers, plain_column, weight_unit

MOST_GROUPS = 1_000  # values of a sensitive column
MOST_STRATA = 10_000
NO_GROUP = "(missing)"  # group of the rows without a value
SCORED = ("below", "at least")
"""Decisions by a threshold, in words."""


class Chunk(NamedTuple):
    """Some rows as codes."""

    strata: Coded
    groups: tuple[Coded, ...]
    truth: Coded  # 0 and 1 in the order in which labels appear, and 2 without a label
    decisions: tuple[Coded, ...]  # 0 and 1 in the order in which decisions appear, and 2 without a decision
    weight: FloatArray | None
    key: NDArray[np.uint64] | None  # hash of the cluster
    score: FloatArray | None  # NaN where it cannot be used

    @property
    def n(self) -> int:
        """Number of rows."""
        return len(self.strata.value)


class DecisionIntake(Counting):
    """Turns tables into codes, and counts rows that cannot be used and values that are missing.

    Attributes
    ----------
    settings : DecisionSettings
    words : dict of str to list of str
        Words of each column so far; the place of a word is its code.
    missing : Counter
        Rows without a value, by column.
    zero : Counter
        Rows of weight 0.
    """

    COUNTERS = ("missing", "zero")

    def __init__(self, settings: DecisionSettings, bad: BadRows, place: Callable[[int], str]) -> None:
        self.settings = settings
        self.weight_unit: float | None = None
        super().__init__(bad, place)

    def _forget(self) -> None:
        super()._forget()
        settings = self.settings
        names = (*settings.sensitive, *settings.decision, settings.strata, settings.label)
        self.words: dict[str, list[str]] = {name: [] for name in names if name is not None}
        self.missing: Counter[str] = Counter()
        self.zero: Counter[str] = Counter()

    def know(self, axes: Axes) -> None:
        """Take over the words of a tally, with their codes."""
        settings = self.settings
        known = dict(zip(settings.sensitive, axes.groups, strict=False))
        known |= dict(zip(settings.decision, axes.decisions, strict=False))
        known |= {
            name: words for name, words in ((settings.strata, axes.strata), (settings.label, axes.labels)) if name
        }
        self.words = {name: [*words] for name, words in known.items()}

    def settle_weights(self, table: pa.Table) -> None:
        """Choose the unit of weights from the first rows: only their ratios matter."""
        if self.settings.weights is not None and self.weight_unit is None:
            self.weight_unit = weight_unit(as_numbers(plain_column(table, self.settings.weights))[0])

    def chunk(self, table: pa.Table) -> Chunk:
        """Code the rows of a table; rows that cannot be used are left out and counted."""
        settings = self.settings
        n = table.num_rows
        numbers = self.first + self.read + np.arange(n)
        bad: dict[str, NDArray[np.bool_]] = {}
        weight, key = self._weight(table, bad), self._key(table, bad)
        strata = self._strata(table, bad)
        groups = tuple(self._groups(table, name, numbers) for name in settings.sensitive)
        truth = self._two(table, settings.label, "label", numbers)
        decisions = [self._two(table, name, "decision", numbers) for name in settings.decision]
        score = None
        if settings.score is not None:
            score = as_numbers(plain_column(table, settings.score))[0]
            score[~np.isfinite(score)] = np.nan
            if settings.threshold is not None:
                value = np.where(np.isnan(score), 2, (score >= settings.threshold).astype(np.int64))
                decisions.append(Coded(value, np.arange(3)))
        good = self._count_undecided(decisions, score, numbers)
        if bad:
            usable = self.count_bad(bad, numbers)
            good = usable if good is None else good & usable
        self.read += n
        if weight is not None:
            self.zero[str(settings.weights)] += int(np.count_nonzero(weight == 0.0))
            good = weight > 0.0 if good is None else good & (weight > 0.0)
        if good is None or good.all():
            return Chunk(strata, groups, truth, tuple(decisions), weight, key, score)
        return Chunk(
            strata.part(good), tuple(one.part(good) for one in groups), truth.part(good),
            tuple(one.part(good) for one in decisions),
            None if weight is None else weight[good], None if key is None else key[good],
            None if score is None else score[good],
        )  # fmt: skip

    # -- One column ---------------------------------------------------------------------------------------------------

    def _coded(self, table: pa.Table, name: str, most: int, last: int) -> Coded:
        """Code a column by its words; missing values get the code ``last``."""
        value, place, words = as_codes(_one_array(table, name))
        known = self.words[name]
        codes = {word: code for code, word in enumerate(known)} | {MISSING: last}
        used = words[np.unique(place[np.unique(value)])] if len(words) > 2 else words  # others are in no row
        for word in used.tolist():
            if word not in codes:
                codes[word] = len(known)
                known.append(word)
        if len(known) > most:
            raise ValueError(
                f"Column {name!r} has more than {most:,} different values. Bin numbers or merge rare values, or name "
                "another column."
            )
        of_word = np.array([codes.get(word, last) for word in words.tolist()], dtype=np.int64)
        coded = Coded(value, of_word[place])
        if (words == MISSING).any():
            self.missing[name] += int(np.count_nonzero((words == MISSING)[place][value]))
        return coded

    def _groups(self, table: pa.Table, name: str, numbers: NDArray[np.int64]) -> Coded:
        """Code a sensitive column; a missing value is a group too."""
        before = self.missing[name]
        known = self.words[name]
        coded = self._coded(table, name, MOST_GROUPS, last=-1)
        if self.missing[name] == before:
            return coded
        if self.settings.unknown == "refuse":
            row = int(np.argmax(coded.codes == -1))
            raise ValueError(
                f"The sensitive column {name!r} has no value in {self.place(int(numbers[row]))}, and unknown groups "
                "are refused. Fill it in, or show unknown groups (unknown='show', --unknown show)."
            )
        if NO_GROUP not in known:
            known.append(NO_GROUP)
        return coded._replace(code=np.where(coded.code == -1, known.index(NO_GROUP), coded.code))

    def _two(self, table: pa.Table, name: str | None, what: str, numbers: NDArray[np.int64]) -> Coded:
        """Code a column with two values, 0 and 1 in the order in which they appear; 2 where it has none."""
        if name is None:
            return Coded(np.zeros(table.num_rows, dtype=np.int8), np.array([2]))
        known = self.words[name]
        coded = self._coded(table, name, MOST_GROUPS, last=-1)
        if len(known) > 2:
            row = int(np.argmax(coded.codes >= 2))
            shown = ", ".join(map(repr, known[:5]))
            hint = ""
            if what == "decision" and len(known) > 3 and all(_is_number(word) for word in known):
                hint = " If these are scores, pass them as scores (score, --score)."
            raise ValueError(
                f"The {what} {name!r} must have two values; it has {len(known)} or more: {shown}. The third is in "
                f"{self.place(int(numbers[row]))}. Keep or merge two of them.{hint}"
            )
        return coded._replace(code=np.where(coded.code == -1, 2, coded.code))

    def _strata(self, table: pa.Table, bad: dict[str, NDArray[np.bool_]]) -> Coded:
        name = self.settings.strata
        if name is None:
            return Coded(np.zeros(table.num_rows, dtype=np.int8), np.zeros(1, dtype=np.int64))
        before = self.missing[name]
        coded = self._coded(table, name, MOST_STRATA, last=-1)
        if self.missing[name] > before:
            bad[f"no value of the column of strata {name!r}"] = coded.codes == -1
        return coded

    def _weight(self, table: pa.Table, bad: dict[str, NDArray[np.bool_]]) -> FloatArray | None:
        name = self.settings.weights
        if name is None:
            return None
        self.settle_weights(table)
        weight, _ = as_numbers(plain_column(table, name))
        wrong = ~(np.isfinite(weight) & (weight >= 0.0))
        if wrong.any():
            bad[f"a weight {name!r} that is missing, negative or infinite"] = wrong
        return np.asarray(weight / (self.weight_unit or 1.0))

    def _key(self, table: pa.Table, bad: dict[str, NDArray[np.bool_]]) -> NDArray[np.uint64] | None:
        """Hash of each row's cluster."""
        name = self.settings.clusters
        if name is None:
            return None
        value, place, words = as_codes(_one_array(table, name))
        missing = (words == MISSING)[place][value]
        if missing.any():
            self.missing[name] += int(missing.sum())
            bad[f"no value of the cluster column {name!r}"] = missing
        return np.asarray(hash_array(words, categorize=False)[place][value], dtype=np.uint64)

    def _count_undecided(
        self, decisions: Sequence[Coded], score: FloatArray | None, numbers: NDArray[np.int64]
    ) -> NDArray[np.bool_] | None:
        """Count rows without a decision; if there are several columns, such a row still counts for the others.

        Returns which rows have a decision or a score in some column; None if all have.
        """
        without = []
        for name, coded in zip(self.settings.decision, decisions, strict=False):
            if (coded.code == 2).any():
                without.append(coded.codes == 2)
                self.count_bad({f"no decision {name!r}": without[-1]}, numbers)
        if score is not None and np.isnan(score).any():
            without.append(np.isnan(score))
            self.missing[str(self.settings.score)] += int(without[-1].sum())
            self.count_bad({f"no score {self.settings.score!r} that is a finite number": without[-1]}, numbers)
        if len(without) < len(self.settings.subjects):
            return None
        return np.asarray(~np.logical_and.reduce(without))


def _one_array(table: pa.Table, name: str) -> pa.Array:
    """Return a column as one array, dictionaries as they are."""
    column = table.column(name).combine_chunks()
    column = column if isinstance(column, pa.Array) else pa.concat_arrays(column.chunks)
    if pa.types.is_floating(column.type):  # NaN is missing
        return pc.if_else(pc.is_nan(column), pa.scalar(None, column.type), column)
    return column


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True
