"""What a data set is: features, a label and a sensitive attribute, with their names."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import pandas as pd

from surefair.rows import Column, same_length


@dataclass(frozen=True, eq=False)
class Dataset:
    """Rows of one data set, ready to fit.

    Attributes
    ----------
    name : str
    X : DataFrame of shape (n_rows, n_features)
        Features, float64, without an intercept column.
    y : ndarray of shape (n_rows,)
        Labels.
    sensitive : ndarray of shape (n_rows,)
        Sensitive attribute of each row.
    label, sensitive_name : str
        Names of these two columns.
    description : str
        One sentence: where the rows come from and how they were prepared.
    sensitive_columns : DataFrame or None
        All sensitive attributes, as words, if the data set has several.

    Examples
    --------
    >>> import numpy as np
    >>> X = pd.DataFrame({"hours": [0.5, -0.5]})
    >>> data = Dataset("toy", X, np.array([0, 1]), np.array(["f", "m"]), "income", "sex", "Two rows.")
    >>> data
    Dataset(name='toy', label='income', sensitive_name='sex', description='Two rows.')
    >>> len(data)
    2
    """

    name: str
    X: pd.DataFrame = field(repr=False)
    y: Column = field(repr=False)
    sensitive: Column = field(repr=False)
    label: str
    sensitive_name: str
    description: str
    sensitive_columns: pd.DataFrame | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        same_length(X=self.X.to_numpy(), y=self.y, sensitive=self.sensitive)

    def __len__(self) -> int:
        return len(self.y)


class About(NamedTuple):
    """Facts about a data set that need no loading; they hold for the loader's defaults.

    Attributes
    ----------
    rows : int or None
        Number of rows; None if the caller chooses it.
    features : int
        Number of features.
    label, sensitive : str
        Names of these two columns.
    source : str
        Where the rows come from, and their licence.
    files : tuple of str
        Files that hold the rows.

    Examples
    --------
    >>> About(2, 1, "income", "sex", "synthetic").files
    ()
    """

    rows: int | None
    features: int
    label: str
    sensitive: str
    source: str
    files: tuple[str, ...] = ()


def standardise(columns: pd.DataFrame) -> pd.DataFrame:
    """Shift and scale columns to mean 0 and standard deviation 1 over these rows.

    Examples
    --------
    >>> standardise(pd.DataFrame({"age": [30, 40, 50, 60]}))["age"].round(4).tolist()
    [-1.3416, -0.4472, 0.4472, 1.3416]
    """
    return (columns - columns.mean()) / columns.std(ddof=0)
