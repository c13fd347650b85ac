"""Rows: one type for "some rows", from the moment input is checked to the moment decisions are counted.

>>> import numpy as np
>>> from surefair.rows.columns import as_columns
>>> columns = as_columns({"sex": ["m", "f", "m"]})
>>> groups = Groups.of(columns)
>>> names = Names(("age",), Levels(np.array(["no", "yes"]), "label"), groups)
>>> X = np.array([[25.0], [38.0], [52.0]])
>>> rows = Rows(X, np.array([-1.0, 1.0, 1.0]), groups.codes(columns), np.ones(3), names)
>>> rows.part(slice(0, 2)).group.tolist(), rows.names.groups.labels
([[1], [0]], [('sex', 'f'), ('sex', 'm')])
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import vstack

from surefair.rows.arrays import FloatArray, IntArray, is_sparse, pack_array, unpack_array
from surefair.rows.groups import Groups, Levels
from surefair.storage.checks import array_of


class Names(NamedTuple):
    """What the numbers in some rows mean."""

    features: tuple[str, ...] | None  # None where the columns have no names
    labels: Levels  # the negative and the positive label
    groups: Groups | None  # None where the rows have no groups


@dataclass(frozen=True, eq=False)
class Rows:
    """Some rows, as numbers that are checked and coded, with the names of what the codes mean.

    Attributes
    ----------
    X : ndarray or CSR matrix of shape (n, d)
        Features, float64.
    y : ndarray of shape (n,)
        Labels, -1 or +1.
    group : ndarray of shape (n, columns)
        Code of each row's group in each sensitive column; -1 where none is given.
    weight : ndarray of shape (n,)
        Sample weights.
    names : Names
        Names of features, labels and groups.
    key : ndarray of shape (n,) or None
        Number that rows of one unit (a person, say) share, where rows are split by unit.
    cluster : ndarray of shape (n,) or None
        Number that rows of one cluster share; None where rows are independent.
    """

    X: Any
    y: FloatArray
    group: IntArray
    weight: FloatArray
    names: Names
    key: NDArray[np.uint64] | None = None
    cluster: NDArray[np.uint64] | None = None

    @property
    def n(self) -> int:
        """Number of rows."""
        return len(self.y)

    @property
    def groups(self) -> Groups:
        """The groups that the codes stand for."""
        assert self.names.groups is not None
        return self.names.groups

    @property
    def uneven_weight(self) -> FloatArray | None:
        """Sample weights, or None where all are 1."""
        return None if (self.weight == 1.0).all() else self.weight

    @property
    def truth(self) -> IntArray:
        """Labels as 0 and 1."""
        return (self.y > 0.0).astype(np.int64)

    def part(self, chosen: Any) -> Rows:
        """Return some of the rows: a slice, a mask or positions."""
        arrays = {name: getattr(self, name)[chosen] for name in ("X", "y", "group", "weight", *self._given)}
        return replace(self, **arrays)

    @property
    def _given(self) -> tuple[str, ...]:
        """Which of the numbers that need not be there are."""
        return tuple(name for name in ("key", "cluster") if getattr(self, name) is not None)

    def halves(self, seed: int) -> tuple[Rows, Rows]:
        """Split the rows, or their clusters, at random into two halves."""
        code = np.arange(self.n) if self.cluster is None else np.unique(self.cluster, return_inverse=True)[1]
        n = int(code.max(initial=-1)) + 1
        first = np.zeros(n, dtype=np.bool_)
        first[np.random.default_rng(seed).permutation(n)[: n // 2]] = True
        return self.part(first[code]), self.part(~first[code])

    def copy(self) -> Rows:
        """Return the same rows in new memory."""
        arrays = {name: getattr(self, name).copy() for name in ("X", "y", "group", "weight", *self._given)}
        return replace(self, **arrays)

    def among(self, groups: Groups) -> Rows:
        """Code the groups of the rows by another, larger set of groups."""
        if groups is self.names.groups:
            return self
        group = self.group
        if self.names.groups is not None and self.n:
            new = groups.recode(self.names.groups)
            columns = [np.append(codes, -1)[old] for codes, old in zip(new, group.T, strict=True)]  # -1 stays -1
            group = np.stack(columns, axis=1)
        return replace(self, group=group, names=self.names._replace(groups=groups))

    def known_among(self, groups: Groups) -> IntArray:
        """Codes of the rows' groups among fewer groups, (n, columns); -1 for a group that is not among them."""
        if groups is self.names.groups or not self.n:
            return self.group
        columns = []
        for codes, old, size in zip(self.groups.recode(groups), self.group.T, self.groups.sizes, strict=True):
            known = np.full(size + 1, -1)
            known[codes] = np.arange(len(codes))
            columns.append(known[old])
        return np.stack(columns, axis=1)

    def trimmed(self) -> Rows:
        """Keep only the groups that occur in these rows."""
        groups, group = self.groups.among(self.group)
        return replace(self, group=group, names=self.names._replace(groups=groups))

    def followed_by(self, other: Rows) -> Rows:
        """Append other rows; the groups of both are then known, and features stay dense or sparse as they are here."""
        first = self
        if self.names.groups is not None and other.names.groups is not None:
            groups = self.groups.joined_with(other.groups)
            first, other = self.among(groups), other.among(groups)
        more = other.X.toarray() if is_sparse(other.X) and not is_sparse(self.X) else other.X
        X = vstack([self.X, more], format="csr") if is_sparse(self.X) else np.concatenate([self.X, more])
        both = [name for name in self._given if name in other._given]
        arrays: dict[str, Any] = dict.fromkeys(("key", "cluster"))
        for name in ("y", "group", "weight", *both):
            arrays[name] = np.concatenate([getattr(first, name), getattr(other, name)])
        return replace(first, X=X, **arrays)

    def same_as(self, other: Rows) -> bool:
        """Whether features, labels, group codes, weights and clusters are equal."""
        if is_sparse(self.X) != is_sparse(other.X) or self.X.shape != other.X.shape:
            return False
        same_X = (self.X != other.X).nnz == 0 if is_sparse(self.X) else np.array_equal(self.X, other.X)
        if (self.cluster is None) != (other.cluster is None):
            return False
        names = ("y", "group", "weight", *(() if self.cluster is None else ("cluster",)))
        return bool(same_X) and all(np.array_equal(getattr(self, name), getattr(other, name)) for name in names)

    def pack(self) -> dict[str, NDArray[Any]]:
        """Return the arrays; names are packed elsewhere."""
        named = {name: getattr(self, name) for name in ("y", "group", "weight", *self._given)}
        return pack_array("X", self.X) | named

    @classmethod
    def unpack(cls, arrays: dict[str, NDArray[Any]], names: Names, n_features: int | None = None) -> Rows:
        """Rebuild rows from what ``pack`` returned; arrays that do not fit together are refused."""
        y = array_of(arrays, "y", "float64", (None,))
        X = unpack_array("X", arrays, (len(y), n_features))
        if not (np.abs(y) == 1.0).all():
            raise ValueError("Labels must be -1 or 1.")
        sizes = () if names.groups is None else names.groups.sizes
        group = array_of(arrays, "group", "int64", (len(y), len(sizes)), low=-1)
        if (group >= np.array(sizes, dtype=np.int64)).any():
            raise ValueError("A row has a group that is not among the groups.")
        weight = array_of(arrays, "weight", "float64", y.shape, low=0.0, high=float(np.finfo(np.float64).max))
        key, cluster = (
            array_of(arrays, name, "uint64", y.shape) if name in arrays else None for name in ("key", "cluster")
        )
        return cls(X, y, group, weight, names, key, cluster)
