"""Columns of a table become a matrix of numbers, in ways that are settled on warm-up rows and then stay as they are.

A number is standardised; a missing one counts as the mean, with an indicator beside it where warm-up rows lack some. A
category becomes indicators, the commonest left out; rare values share one, and so do those never seen in the warm-up
rows. (An indicator of a handful of rows, all of one label, would serve to meet a constraint on average scores at no
cost, with a huge coefficient and hardly a decision changed.) A column of very many values is hashed. A feature that
follows from those before it is left out: its coefficient could be anything. scikit-learn's transformers do the work, on
the distinct values of a column where it is one of words, so that a million rows of ten words cost ten words.

>>> table = pa.table({"age": [20.0, 30.0, 40.0, None] * 10, "job": ["clerk", "cook", "clerk", "judge"] * 10})
>>> features = Features.fit(table)
>>> features.names
('age', 'age is missing', 'job = cook')
>>> features.encode(pa.table({"age": [30.0, None], "job": ["cook", "pilot"]})).X
array([[0., 0., 1.],
       [0., 1., 0.]])
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from sklearn.feature_extraction import FeatureHasher
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from surefair.rows.arrays import FloatArray

BoolArray = NDArray[np.bool_]

MOSTLY = 0.95  # of a text column's values must be numbers for it to be one; the others' rows are then bad
RARE = 0.01  # share of the warm-up rows below which there is no indicator
MANY, BUCKETS = 100, 32  # values beyond which a column is hashed, and into how many features
FOLLOWS = 0.01  # share of a feature's variance that others leave, below which it follows from them
UNIQUE = 0.9  # share of the rows with a value of their own, beyond which a column names rows and tells nothing
MISSING, OTHER = "(missing)", "(other)"


class Encoded(NamedTuple):
    """Features of some rows, and what was met on the way."""

    X: FloatArray  # (n_rows, n_features)
    bad: dict[str, BoolArray]  # rows that cannot be used, by reason
    missing: dict[str, BoolArray]  # by column
    unseen: dict[str, BoolArray]  # values of a category that warm-up rows do not have, by column


class Number:
    """A column of numbers, standardised."""

    role = "number"

    def __init__(self, name: str, column: pa.Array) -> None:
        values, wrong = as_numbers(column)
        self.name, self.scaler = name, StandardScaler().fit(values[np.isfinite(values)][:, None])
        self.flagged = bool((np.isnan(values) & ~(False if wrong is None else wrong)).any())
        self.names = (name, f"{name} is missing") if self.flagged else (name,)

    def write(self, column: pa.Array, name: str, into: FloatArray, encoded: Encoded) -> None:
        """Fill in the features of some rows, and note rows that are bad or lack the value."""
        values, wrong = as_numbers(column)
        infinite, missing = np.isinf(values), np.isnan(values)
        if wrong is not None:
            encoded.bad[f"column {name!r} holds text among numbers"] = wrong
            missing = missing & ~wrong
        if infinite.any():
            encoded.bad[f"column {name!r} holds an infinite value"] = infinite
        encoded.missing[name] = missing
        scaled = self.scaler.transform(np.where(infinite, np.nan, values)[:, None])[:, 0]
        into[:, 0] = np.where(np.isfinite(scaled), scaled, 0.0)
        if self.flagged:
            into[:, 1] = missing


class Category:
    """A column of few words, each with an indicator."""

    role = "category"

    def __init__(self, name: str, column: pa.Array) -> None:
        code, words = as_words(column)
        share = np.bincount(code) / len(code)
        tail = np.cumsum(np.sort(share))  # the rare together, with as many more as make a bucket that is not rare
        rare = max(int((share < RARE).sum()), 1 + int((tail < RARE).sum())) if share.min() < RARE else 0
        kept = max(len(share) - rare, 1)
        self.encoder = OneHotEncoder(
            drop=[words[share.argmax()]], max_categories=kept + 1 if rare else None,
            handle_unknown="infrequent_if_exist", sparse_output=False,
            feature_name_combiner=lambda _, value: f"{name} = {OTHER if value == 'infrequent_sklearn' else value}",
        ).fit(words[code][:, None])  # fmt: skip
        self.name, self.known = name, frozenset(self.encoder.categories_[0].tolist())
        self.names = tuple(self.encoder.get_feature_names_out([name]).tolist())

    def write(self, column: pa.Array, name: str, into: FloatArray, encoded: Encoded) -> None:
        """Fill in the features of some rows, and note values that are missing or new."""
        code, words = as_words(column)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of words never seen before: they are counted
            into[:] = self.encoder.transform(words[:, None])[code]
        encoded.missing[name] = (words == MISSING)[code]
        encoded.unseen[name] = np.array([word not in self.known and word != MISSING for word in words.tolist()])[code]


class Hashed:
    """A column of many words, each of which adds 1 or -1 to one of a few features."""

    role = "hashed"

    def __init__(self, name: str, column: pa.Array) -> None:
        self.name, self.hasher = name, FeatureHasher(BUCKETS, input_type="string")
        self.names = tuple(f"{name}, hash {i}" for i in range(BUCKETS))

    def write(self, column: pa.Array, name: str, into: FloatArray, encoded: Encoded) -> None:
        """Fill in the features of some rows, and note missing values."""
        code, words = as_words(column)
        into[:] = self.hasher.transform([[word] for word in words.tolist()]).toarray()[code]
        encoded.missing[name] = (words == MISSING)[code]


@dataclass(frozen=True, eq=False)
class Features:
    """How each column becomes features.

    Attributes
    ----------
    columns : dict of str to Number, Category or Hashed
    left_out : dict of str to str
        Columns that are not used, and why.
    kept : dict of str to ndarray of bool
        Of each column's features, those that do not follow from features before.
    """

    columns: dict[str, Any]
    left_out: dict[str, str]
    kept: dict[str, BoolArray]

    @classmethod
    def fit(cls, table: pa.Table, names: Sequence[str] | None = None) -> Features:
        """Settle on an encoding of the columns named, by the look of warm-up rows."""
        columns: dict[str, Any] = {}
        left_out: dict[str, Any] = {}
        for name in table.column_names if names is None else names:
            found = _encoding(name, plain_column(table, name))
            (left_out if isinstance(found, str) else columns)[name] = found
        if not columns:
            why = "; ".join(f"{name!r}: {reason}" for name, reason in left_out.items())
            raise ValueError(f"No column is left to learn from{f' ({why})' if why else ''}. Name some as features.")
        whole = cls(columns, left_out, {name: np.ones(len(column.names), bool) for name, column in columns.items()})
        sizes = np.cumsum([len(column.names) for column in columns.values()])[:-1]
        kept = np.split(_independent(whole.encode(table).X), sizes)
        if not any(some.any() for some in kept):
            raise ValueError(f"No column is left to learn from: {', '.join(map(repr, columns))} do not vary.")
        return cls(columns, left_out, dict(zip(columns, kept, strict=True)))

    @property
    def names(self) -> tuple[str, ...]:
        """Name of each feature."""
        return tuple(
            name
            for key, column in self.columns.items()
            for name, kept in zip(column.names, self.kept[key], strict=True)
            if kept
        )

    def encode(self, table: pa.Table) -> Encoded:
        """Features of rows."""
        sizes = [len(column.names) for column in self.columns.values()]
        encoded = Encoded(np.empty((table.num_rows, sum(sizes))), {}, {}, {})
        places = np.split(np.arange(sum(sizes)), np.cumsum(sizes)[:-1])
        for place, (name, column) in zip(places, self.columns.items(), strict=True):
            column.write(plain_column(table, name), name, encoded.X[:, place[0] : place[-1] + 1], encoded)
        kept = np.concatenate([*self.kept.values()])
        return encoded if kept.all() else encoded._replace(X=encoded.X[:, kept])


def _independent(X: FloatArray) -> BoolArray:
    """Which columns do not follow, linearly, from those before them and a constant."""
    Z = X - X.mean(axis=0)
    spread = np.sqrt(np.mean(Z**2, axis=0))
    kept, C = spread > 0.0, (Z / np.where(spread > 0.0, spread, 1.0)).T
    C = C @ C.T / C.shape[1]  # correlations, from which those kept are swept out one by one
    for j in range(len(C)):
        kept[j] = kept[j] and C[j, j] > FOLLOWS
        if kept[j]:
            C = C - np.outer(C[:, j], C[j]) / C[j, j]
    return np.asarray(kept)


def _encoding(name: str, column: pa.Array) -> Number | Category | Hashed | str:
    """Encoding of a column by its looks, or why it has none."""
    kind, n = column.type, len(column) - column.null_count
    if n == 0:
        return "every value is missing"
    if not (is_text(kind) or is_number(kind)):
        return f"of type {kind}, which is neither number nor word"
    if not is_text(kind):
        values, _ = as_numbers(column)
        finite = values[np.isfinite(values)]
        if len(finite) == 0:
            return "no value is finite"
        with np.errstate(over="ignore"):
            if not np.isfinite(finite.std()):
                return "values too large to be standardised"
        low, high, whole = finite.min(), finite.max(), not np.isnan(values).any()
        if whole and low < high and ((finite == low) | (finite == high)).all():  # an indicator, whatever its type
            share = np.array([np.mean(finite == low), np.mean(finite == high)])
            if share.min() < RARE:
                return f"nearly constant, {(low, high)[share.argmax()]:g} in all but {share.min():.2%} of the rows"
        constant = low == high and whole
        return f"constant, {finite[0]:g} in every row" if constant else Number(name, column)
    values, wrong = as_numbers(column)
    if wrong is None or wrong.sum() <= (1.0 - MOSTLY) * n:
        found = _encoding(name, pa.array(values if wrong is None else values[~wrong], from_pandas=True))
        return Number(name, column) if isinstance(found, Number) else found
    code, words = as_words(column)
    if _are_dates(words):
        return "dates"
    if np.mean([_number(word.replace(",", ".", 1)) is not None for word in words.tolist()]) > MOSTLY:
        raise ValueError(
            f"Column {name!r} seems to hold numbers with decimal commas, such as {words[0]!r}. Write them with points, "
            "or leave the column out (drop, --drop)."
        )
    if len(words) == 1:
        return f"constant, {words[0]!r} in every row"
    if (share := np.bincount(code) / len(code)).max() > 1.0 - RARE:
        return f"nearly constant, {words[share.argmax()]!r} in all but {1.0 - share.max():.2%} of the rows"
    if len(words) > MANY:
        return "nearly every row has a value of its own" if len(words) > UNIQUE * len(code) else Hashed(name, column)
    return Category(name, column)


def plain_column(table: pa.Table, name: str) -> pa.Array:
    """Column of a table in one piece; words as text whatever their type, also those of a dictionary."""
    column = table.column(name).combine_chunks()
    column = column if isinstance(column, pa.Array) else pa.concat_arrays(column.chunks)
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    return column.cast(pa.string()) if is_text(column.type) and column.type != pa.string() else column


def is_text(kind: pa.DataType) -> bool:
    """Whether a column of this type holds words."""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def is_number(kind: pa.DataType) -> bool:
    """Whether a column of this type holds numbers, or Booleans, which count as such."""
    kinds = pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal, pa.types.is_boolean
    return any(is_one(kind) for is_one in kinds)


def as_numbers(column: pa.Array) -> tuple[FloatArray, BoolArray | None]:
    """Numbers of a column, NaN where missing or not a number, and which are the latter, if any."""
    try:
        numbers = column.cast(pa.float64(), safe=False)
    except pa.ArrowInvalid:
        code, words = as_words(column)
        known = [_number(word) for word in words.tolist()]
        wrong = np.array([number is None for number in known]) & (words != MISSING)
        return np.array([np.nan if number is None else number for number in known])[code], wrong[code]
    return np.array(numbers.to_numpy(zero_copy_only=False)), None


def _are_dates(words: NDArray[Any]) -> bool:
    """Whether all words but the one for missing values are dates, as ISO 8601 writes them."""
    try:
        return len(pa.array([word for word in words if word != MISSING]).cast(pa.timestamp("s"))) > 0
    except pa.ArrowInvalid:
        return False


def _number(word: str) -> float | None:
    try:
        return float(word)
    except ValueError:
        return None


def as_words(column: pa.Array) -> tuple[NDArray[np.intp], NDArray[Any]]:
    """Place of each row's word among the distinct ones, and these; a missing one has a word, too."""
    if pa.types.is_floating(column.type):  # no number is no group
        column = pc.if_else(pc.is_nan(column), pa.scalar(None, column.type), column)
    column = column if is_text(column.type) else column.cast(pa.string())
    found = pc.fill_null(column, MISSING).dictionary_encode()
    return found.indices.to_numpy().astype(np.intp), np.asarray(found.dictionary.to_pylist(), dtype=object)
