"""Turn the columns of a table into a matrix of numbers, by rules that are chosen on some rows and then fixed.

These are the settling rows. Every later row is compared with the rules, so that a column which changes is noticed.

- A number is standardised. A missing number counts as the mean; if settling rows miss some, an indicator says so. A
  code such as 99999 for "unknown", repeated and far from all other values, counts as missing. Values far out in the
  tails are clipped, because one of them could otherwise decide the fit.
- A category becomes indicators, without one for its most common value. Rare values share one indicator, and values that
  the settling rows do not have get it too. (If a handful of rows, all with the same label, had an indicator, a huge
  coefficient for it could satisfy a constraint on average scores at no cost and change hardly any decision.)
- A column with very many values is hashed.
- A feature that follows from the features before it is left out, since its coefficient would be arbitrary.

scikit-learn's transformers do the work. For text they see only the distinct values of a column, so a million rows with
ten distinct words cost as much as ten words.

>>> table = pa.table({"age": [20.0, 30.0, 40.0, None] * 10, "job": ["clerk", "cook", "clerk", "judge"] * 10})
>>> features = Features.fit(table)
>>> features.names
('age', 'age is missing', 'job = cook')
>>> features.encode(pa.table({"age": [30.0, None], "job": ["cook", "pilot"]})).X
array([[0., 0., 1.],
       [0., 1., 0.]])
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from sklearn.feature_extraction import FeatureHasher
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from surefair.names import counted
from surefair.rows import FloatArray
from surefair.tables.left_out import Constant, Dates, Identifier, LeftOut, NotFinite, are_dates
from surefair.tables.values import (
    MISSING,
    BoolArray,
    as_numbers,
    as_words,
    is_number,
    is_text,
    plain_column,
    to_number,
)

MOSTLY = 0.95  # share of numbers that makes a text column numeric; its other rows are then bad
RARE = 0.01  # share of the settling rows below which a value gets no indicator
MANY = 100  # distinct values beyond which a column is hashed
BUCKETS = 32  # features of a hashed column
SWEPT = 64  # features that are swept out of all others together
FOLLOWS = 0.01  # share of unexplained variance below which a feature follows from others
UNIQUE = 0.9  # share of distinct values beyond which a column only identifies rows
LEAST = 30  # rows of a column that may number them
DENSE = 3  # whole numbers that differ in every row number the rows if they span at most so many times as many
BULK = (0.005, 0.995)  # quantiles between which a column has the bulk of its values
TAIL = 3.0  # spans of the bulk beyond it where values are clipped
APART = 2.0  # spans of the bulk, at least, that no value crosses on the way to a code
MOST_CODES = 5  # at one end of a column
FEWEST = 10  # distinct values of a column that may have codes: otherwise it is a scale
OTHER = "(other)"


class Encoded(NamedTuple):
    """Features of some rows, and the rows that need a remark."""

    X: FloatArray  # (n_rows, n_features)
    bad: dict[str, BoolArray]  # rows that cannot be used, by reason
    missing: dict[str, BoolArray]  # rows without a value, by column
    unseen: dict[str, BoolArray]  # rows with a category that the settling rows do not have, by column
    changed: dict[str, BoolArray]  # rows that do not fit what the settling rows show, by column


class Drawn(NamedTuple):
    """Where the settling rows come from."""

    n: int  # rows of the data that they stand for
    words: str = "every row"  # in words, after "constant, 0 in ..."

    @property
    def share_of(self) -> str:
        """The same after "all but 0.3 % of ..."."""
        return "the rows" if self.words == "every row" else self.words


class Number:
    """Standardise a column of numbers."""

    role = "number"
    new = 0.0  # share of the rows that may have a new value without a change of the column

    def __init__(self, name: str, column: pa.Array) -> None:
        values, wrong = as_numbers(column)
        missing = np.isnan(values) if wrong is None else np.isnan(values) & ~wrong
        finite = values[np.isfinite(values)]
        self.name = name
        self.codes = find_codes(finite)
        plain = finite[~np.isin(finite, self.codes)]
        self.bounds = tail_bounds(plain)
        self.scaler = StandardScaler().fit(plain.clip(*self.bounds)[:, None])
        self.flagged = bool(missing.any() or len(self.codes))
        coded = " or ".join(["missing"] * bool(missing.any()) + [f"{code:g}" for code in self.codes])
        self.names = (name, f"{name} is {coded}") if self.flagged else (name,)
        words = [] if wrong is None else sorted({*column.filter(pa.array(wrong)).to_pylist()})
        self.note = self._note(finite, plain)
        if wrong is not None and words:
            shown = ", ".join(map(repr, words[:3])) + (", ..." if len(words) > 3 else "")
            rows = f"{int(np.sum(wrong)):,} of the rows that settled it hold words ({shown}), and are not used"
            self.note = "; ".join(part for part in (self.note, rows) if part)

    def _note(self, finite: FloatArray, plain: FloatArray) -> str:
        """What was done about unusual values, in words."""
        shown = [f"{code:g} ({counted(int(np.count_nonzero(finite == code)), 'row')})" for code in self.codes]
        notes = [f"{', '.join(shown)}: far from all other values, so treated as missing"] if shown else []
        low, high = self.bounds
        if n := int(np.count_nonzero((plain < low) | (plain > high))):
            notes.append(f"{counted(n, 'value')} beyond {low:.4g} or {high:.4g} clipped")
        return "; ".join(notes)

    def write(self, column: pa.Array, into: FloatArray, encoded: Encoded) -> None:
        """Fill in the features of some rows, and note the rows that are bad or lack a value."""
        values, wrong = as_numbers(column)
        infinite = np.isinf(values)
        missing = np.isnan(values)
        if wrong is not None:
            encoded.bad[f"column {self.name!r} holds text among numbers"] = wrong
            missing = missing & ~wrong
        if infinite.any():
            encoded.bad[f"column {self.name!r} holds an infinite value"] = infinite
        encoded.missing[self.name] = missing
        coded = np.isin(values, self.codes)
        plain = np.where(infinite | coded, np.nan, values)
        clipped = plain.clip(*self.bounds)
        encoded.changed[self.name] = (clipped != plain) & ~np.isnan(plain)
        if not self.flagged:
            encoded.changed[self.name] |= missing
        scaled = self.scaler.transform(clipped[:, None])[:, 0]
        into[:, 0] = np.where(np.isfinite(scaled), scaled, 0.0)
        if self.flagged:
            into[:, 1] = missing | coded

    def describe(self) -> dict[str, Any]:
        """Return plain values, ready for JSON, from which the same features can be computed."""
        low, high = (end if np.isfinite(end) else None for end in self.bounds)
        scale = {"mean": float(self.scaler.mean_[0]), "scale": float(self.scaler.scale_[0])}
        return scale | {"low": low, "high": high, "codes": self.codes.tolist()}


def find_codes(values: FloatArray) -> FloatArray:
    """Numbers that stand for something else, such as 99999 for "unknown": repeated, and far from all other values.

    At either end of the values there may be a few, with nothing between them and the rest over twice the span of the
    bulk of the values.

    Examples
    --------
    >>> find_codes(np.array([*range(100), 9998.0, 9998.0, 9999.0, 9999.0]))
    array([9998., 9999.])
    >>> find_codes(np.array([*range(100), 9999.0]))
    array([], dtype=float64)
    """
    distinct, count = np.unique(values, return_counts=True)
    found: list[float] = []
    for end, times in ((distinct[::-1], count[::-1]), (distinct, count)):
        for n in range(1, min(MOST_CODES, len(end) - FEWEST) + 1):
            rest = np.repeat(end[n:], times[n:])
            low, high = np.quantile(rest, BULK)
            span = high - low if high > low else np.ptp(rest)
            if times[:n].min() > 1 and times[:n].sum() < len(rest) and abs(end[n - 1] - end[n]) > APART * span:
                found += end[:n].tolist()
                break
    return np.array(sorted(found), dtype=np.float64)


def tail_bounds(values: FloatArray) -> tuple[float, float]:
    """Bounds beyond which values are clipped: three spans of the bulk away from it.

    Examples
    --------
    >>> low, high = tail_bounds(np.arange(1001.0))
    >>> low, high
    (-2965.0, 3965.0)
    """
    low, high = np.quantile(values, BULK)
    if low == high:
        return -np.inf, np.inf
    return float(low - TAIL * (high - low)), float(high + TAIL * (high - low))


class Category:
    """Give the words of a column indicators; rare and unknown words share one."""

    role = "category"
    note = ""

    def __init__(self, name: str, column: pa.Array) -> None:
        code, words = as_words(column)
        share = np.bincount(code) / len(code)
        rare = _count_rare(share)
        kept = max(len(share) - rare, 1)
        # If words are equally common, scikit-learn keeps the last in alphabetical order, and it can drop only a word
        # that it keeps.
        frequent = sorted(range(len(words)), key=lambda i: (share[i], words[i]))[-kept:]
        most_common = max(sorted(frequent), key=lambda i: share[i])
        encoder = OneHotEncoder(
            drop=[words[most_common]], max_categories=kept + 1 if rare else None,
            handle_unknown="infrequent_if_exist", sparse_output=False,
            feature_name_combiner=_feature_name,
        ).fit(words[code][:, None])  # fmt: skip
        known = encoder.categories_[0]
        self.name = name
        self.names = tuple(encoder.get_feature_names_out([name]).tolist())
        self.places = {word: place for place, word in enumerate(known.tolist())}
        # scikit-learn warns whenever it meets an unknown word, so it encodes only the known words, once. The last row
        # of indicators is for all unknown words: they count as rare or, if no word is rare, as the most common one.
        indicators = encoder.transform(known[:, None])
        unknown = np.zeros(len(self.names))
        if rare:
            unknown = indicators[self.places[encoder.infrequent_categories_[0][0]]]
        self.indicators = np.vstack([indicators, unknown])
        self.new = float(np.mean(np.bincount(code)[code] == 1))  # Good and Turing's estimate: words that occur once

    def write(self, column: pa.Array, into: FloatArray, encoded: Encoded) -> None:
        """Fill in the features of some rows, and note the rows whose value is missing or new."""
        code, words = as_words(column)
        place = np.array([self.places.get(word, len(self.places)) for word in words.tolist()], dtype=np.intp)
        missing = words == MISSING
        into[:] = self.indicators[place][code]
        encoded.missing[self.name] = missing[code]
        encoded.unseen[self.name] = ((place == len(self.places)) & ~missing)[code]
        encoded.changed[self.name] = (place == len(self.places))[code]

    def describe(self) -> dict[str, Any]:
        """Return plain values, ready for JSON: the feature of each known word and of all others, None for none."""
        *known, other = (int(row.argmax()) if row.any() else None for row in self.indicators)
        return {"words": dict(zip(self.places, known, strict=True)), "other": other}


def _feature_name(column: str, word: str) -> str:
    """Name of the indicator of a word; rare words share one."""
    if word == MISSING:
        return f"{column} is missing"
    return f"{column} = {OTHER if word == 'infrequent_sklearn' else word}"


def _count_rare(share: FloatArray) -> int:
    """Return how many of the least common words share an indicator: enough for the indicator not to be rare itself."""
    if share.min() >= RARE:
        return 0
    together = np.cumsum(np.sort(share))
    return max(int((share < RARE).sum()), 1 + int((together < RARE).sum()))


class Hashed:
    """Hash a column of many words: each word adds 1 or -1 to one of a few features."""

    role = "hashed"
    note = ""
    new = 0.0

    def __init__(self, name: str) -> None:
        self.name = name
        self.hasher = FeatureHasher(BUCKETS, input_type="string")
        self.names = tuple(f"{name}, hash {i}" for i in range(BUCKETS))

    def write(self, column: pa.Array, into: FloatArray, encoded: Encoded) -> None:
        """Fill in the features of some rows, and note the rows that lack a value."""
        code, words = as_words(column)
        into[:] = self.hasher.transform([[word] for word in words.tolist()]).toarray()[code]
        encoded.missing[self.name] = (words == MISSING)[code]
        encoded.changed[self.name] = np.zeros(len(code), dtype=bool)

    def describe(self) -> dict[str, Any]:
        """Return plain values, ready for JSON."""
        return {"buckets": BUCKETS}


@dataclass(frozen=True, eq=False)
class Features:
    """How each column becomes features.

    Attributes
    ----------
    columns : dict of str to Number, Category or Hashed
    unused : dict of str to LeftOut
        Columns that are not used, and why.
    kept : dict of str to ndarray of bool
        For each column, which of its features do not follow from the features before them.
    others : Followers or None
        How the others follow from them.
    """

    columns: dict[str, Any]
    unused: dict[str, LeftOut]
    kept: dict[str, BoolArray]
    others: Followers | None = None

    @classmethod
    def fit(cls, table: pa.Table, names: Sequence[str] | None = None, drawn: Drawn | None = None) -> Features:
        """Choose an encoding for the named columns from the settling rows, by default all rows there are."""
        columns: dict[str, Any] = {}
        unused: dict[str, LeftOut] = {}
        for name in table.column_names if names is None else names:
            encoding = _choose_encoding(name, plain_column(table, name), drawn or Drawn(table.num_rows))
            if isinstance(encoding, LeftOut):
                unused[name] = encoding
            else:
                columns[name] = encoding
        if not columns:
            why = "; ".join(f"{name!r}: {one.reason}" for name, one in unused.items())
            raise ValueError(f"No column is left to learn from{f' ({why})' if why else ''}. Name some as features.")
        whole = cls(columns, unused, {name: np.ones(len(column.names), bool) for name, column in columns.items()})
        X = whole.encode(table).X
        kept = _find_independent(X)
        if not kept.any():
            constant = ", ".join(map(repr, columns))
            raise ValueError(f"No column is left to learn from: {constant} hardly vary. Name others as features.")
        sizes = np.cumsum([len(column.names) for column in columns.values()])[:-1]
        parts = dict(zip(columns, np.split(kept, sizes), strict=True))
        return replace(whole, kept=parts, others=None if kept.all() else Followers.of(X, kept))

    @property
    def left_out(self) -> dict[str, str]:
        """Columns that are not used, and why."""
        return {name: one.reason for name, one in self.unused.items()}

    @property
    def names(self) -> tuple[str, ...]:
        """Name of each feature."""
        return tuple(
            name
            for key, column in self.columns.items()
            for name, kept in zip(column.names, self.kept[key], strict=True)
            if kept
        )

    def describe(self, name: str) -> dict[str, Any] | None:
        """Return how a column becomes features, ready for JSON; None if it does not.

        ``places`` says where each of its features is among all that are kept, and is None for one that is not.
        """
        if name not in self.columns:
            return None
        before = [*self.columns][: [*self.columns].index(name)]
        first = sum(int(self.kept[key].sum()) for key in before)
        kept = self.kept[name]
        places = [first + int(kept[:i].sum()) if kept[i] else None for i in range(len(kept))]
        found: dict[str, Any] = self.columns[name].describe()
        return {"kind": self.columns[name].role, "places": places} | found

    def encode(self, table: pa.Table) -> Encoded:
        """Compute the features of rows."""
        sizes = [len(column.names) for column in self.columns.values()]
        encoded = Encoded(np.empty((table.num_rows, sum(sizes))), {}, {}, {}, {})
        places = np.split(np.arange(sum(sizes)), np.cumsum(sizes)[:-1])
        for place, (name, column) in zip(places, self.columns.items(), strict=True):
            column.write(plain_column(table, name), encoded.X[:, place[0] : place[-1] + 1], encoded)
        for name, one in self.unused.items():
            encoded.changed[name] = one.contradicts(plain_column(table, name))
        if self.others is None:
            return encoded
        kept = np.concatenate([*self.kept.values()])
        names = [name for name, some in self.kept.items() for _ in range(int((~some).sum()))]
        X = encoded.X[:, kept]
        for name, away in zip(names, self.others.differ(X, encoded.X[:, ~kept]).T, strict=True):
            encoded.changed[name] = encoded.changed[name] | away
        return encoded._replace(X=X)


class Followers(NamedTuple):
    """Features that follow from others: the coefficients with which they do, and their spread in the settling rows."""

    slopes: FloatArray  # (others, followers)
    centre: FloatArray  # (others,)
    at: FloatArray  # (followers,), value where the others are in the centre
    spread: FloatArray  # (followers,)

    @classmethod
    def of(cls, X: FloatArray, kept: BoolArray) -> Followers:
        """Regress the features that follow on those that are kept."""
        centre = X.mean(axis=0)
        Z = X - centre
        slopes = np.linalg.solve(Z[:, kept].T @ Z[:, kept], Z[:, kept].T @ Z[:, ~kept])
        return cls(slopes, centre[kept], centre[~kept], Z[:, ~kept].std(axis=0))

    def differ(self, X: FloatArray, followers: FloatArray) -> BoolArray:
        """Return where features are farther than a standard deviation from where they follow to: (n, followers).

        By Chebyshev's inequality, at most 1 % of the settling rows are.
        """
        away = np.abs(followers - self.at - (X - self.centre) @ self.slopes)
        return np.asarray(away > np.maximum(self.spread, 1e-9))


def _find_independent(X: FloatArray) -> BoolArray:
    """Return which columns do not follow linearly from a constant and the columns before them."""
    Z = X - X.mean(axis=0)
    spread = np.sqrt(np.mean(Z**2, axis=0))
    kept = spread > 0.0
    C = (Z / np.where(kept, spread, 1.0)).T
    C = C @ C.T / C.shape[1]  # correlations; the loop sweeps out the columns that are kept, some at a time
    for low in range(0, len(C), SWEPT):
        high = low + SWEPT
        swept = np.empty((0, len(C)))
        for j in range(low, min(high, len(C))):
            left = C[j] - swept[:, j] @ swept
            kept[j] = kept[j] and left[j] > FOLLOWS
            if kept[j]:
                swept = np.vstack([swept, left / np.sqrt(left[j])])
        C[high:, high:] -= swept[:, high:].T @ swept[:, high:]
    return np.asarray(kept)


# -- The choice of an encoding ----------------------------------------------------------------------------------------


def _choose_encoding(name: str, column: pa.Array, drawn: Drawn) -> Number | Category | Hashed | LeftOut:
    """Return the encoding that suits a column, or the reason why it has none."""
    if column.null_count == len(column):
        return Constant("every value is missing", MISSING)
    if is_text(column.type):
        return _choose_text_encoding(name, column, drawn)
    if is_number(column.type):
        values, _ = as_numbers(column)
        return _reason_against(values, drawn) or Number(name, column)
    return LeftOut(f"of type {column.type}, which is neither a number nor text")


def _reason_against(values: FloatArray, drawn: Drawn) -> LeftOut | None:
    """Return why these numbers, NaN if missing, cannot be a feature, or None if they can."""
    finite = values[np.isfinite(values)]
    if len(finite) == 0:
        return NotFinite("no value is finite")
    with np.errstate(over="ignore"):
        if not np.isfinite(finite.std()):
            return LeftOut("values too large to standardise")
    if np.isnan(values).any():
        return None
    low = float(finite.min())
    high = float(finite.max())
    if low == high:
        return Constant(f"constant, {low:g} in {drawn.words}", low)
    n = len(finite)
    whole = n >= LEAST and high - low < DENSE * max(n, drawn.n) and np.array_equal(finite, finite.round())
    if whole and len(np.unique(finite)) == n:
        return Identifier("numbers the rows: a different whole number in every row", whole=True)
    if ((finite == low) | (finite == high)).all():  # the column is an indicator
        share = np.array([np.mean(finite == low), np.mean(finite == high)])
        if share.min() < RARE:
            usual = (low, high)[share.argmax()]
            return Constant(f"nearly constant, {usual:g} in all but {share.min():.2%} of {drawn.share_of}", usual)
    return None


def _choose_text_encoding(name: str, column: pa.Array, drawn: Drawn) -> Number | Category | Hashed | LeftOut:
    """Return the encoding that suits a column of text, which may hold numbers, or the reason why it has none."""
    values, wrong = as_numbers(column)
    if wrong is None or wrong.sum() <= (1.0 - MOSTLY) * (len(column) - column.null_count):
        right = values if wrong is None else values[~wrong]
        if np.isnan(right).all():
            return Constant("every value is missing", MISSING)
        return _reason_against(right, drawn) or Number(name, column)
    code, words = as_words(column)
    if are_dates(words.tolist()):
        return Dates("dates")
    numbers = [word for word in words.tolist() if to_number(word.replace(",", ".", 1)) is not None]
    commas = [word for word in numbers if "," in word]
    if commas and len(numbers) > MOSTLY * len(words):
        raise ValueError(
            f"Column {name!r} seems to hold numbers with decimal commas, such as {commas[0]!r}. Write them with "
            "decimal points, or leave the column out (drop, --drop)."
        )
    if len(words) == 1:
        return Constant(f"constant, {words[0]!r} in {drawn.words}", words[0])
    share = np.bincount(code) / len(code)
    if share.max() > 1.0 - RARE:
        usual = words[share.argmax()]
        shown = "missing" if usual == MISSING else repr(usual)
        return Constant(f"nearly constant, {shown} in all but {1.0 - share.max():.2%} of {drawn.share_of}", usual)
    if len(words) <= MANY:
        return Category(name, column)
    several = len(words) <= UNIQUE * len(code)
    return Hashed(name) if several else Identifier("nearly every row has a different value")
