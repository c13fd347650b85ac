"""Adult: does a person earn more than 50,000 dollars a year? From the 1994 census of the United States.

Becker and Kohavi (1996), UCI Machine Learning Repository, CC BY 4.0. The files have 48,842 rows. The loader drops the
3,620 rows with a missing value and keeps 45,222:

=======  ======  ========  ======
sex        rows  positive    rate
=======  ======  ========  ======
Female   14,695     1,669   .1136
Male     30,527     9,539   .3125
=======  ======  ========  ======
"""

from __future__ import annotations

import os
from typing import Literal, get_args

import pandas as pd

from surefair.datasets.dataset import About, Dataset, standardise
from surefair.datasets.files import find
from surefair.rows import as_column

NUMBERS = ["age", "fnlwgt", "education-num", "capital-gain", "capital-loss", "hours-per-week"]
COLUMNS = [
    *("age", "workclass", "fnlwgt", "education", "education-num"),
    *("marital-status", "occupation", "relationship", "race", "sex"),
    *("capital-gain", "capital-loss", "hours-per-week", "native-country", "income"),
]
Encoding = Literal["ordinal", "onehot"]


def load_adult(folder: str | os.PathLike[str] | None = None, encoding: Encoding = "ordinal") -> Dataset:
    """Load Adult: income above 50,000 dollars, by sex.

    Parameters
    ----------
    folder : path, optional
        Folder that holds ``adult.data`` and ``adult.test``; by default the folder that ``SUREFAIR_DATA`` names.
        Missing files come from the cache or are downloaded.
    encoding : {"ordinal", "onehot"}
        "ordinal" replaces each word by its alphabetical rank and standardises all 13 columns. "onehot" gives 95
        columns: 6 standardised numbers, and an indicator for each word except the first of each attribute. The 95
        columns and an intercept are linearly dependent, because ``education-num`` numbers the levels of ``education``.

    Returns
    -------
    Dataset
        45,222 rows, first those of ``adult.data``; labels '<=50K' and '>50K', groups 'Female' and 'Male'. Sex is not
        a feature. ``sensitive_columns`` holds sex and race.

    Examples
    --------
    >>> load_adult(encoding="one-hot")
    Traceback (most recent call last):
    ValueError: encoding must be 'ordinal' or 'onehot'; received 'one-hot'.
    """
    if encoding not in get_args(Encoding):
        raise ValueError(f"encoding must be 'ordinal' or 'onehot'; received {encoding!r}.")
    raw = _read(folder)
    rows = raw[(raw != "?").all(axis=1)]
    features = rows.drop(columns=["sex", "income"])
    return Dataset(
        name="adult",
        X=_ordinal(features) if encoding == "ordinal" else _onehot(features),
        y=as_column(rows["income"], "label"),
        sensitive=as_column(rows["sex"], "group"),
        label="income",
        sensitive_name="sex",
        description="Adult (UCI, Becker and Kohavi 1996): income above 50,000 dollars, complete rows.",
        sensitive_columns=rows[["sex", "race"]].reset_index(drop=True),
    )


def _read(folder: str | os.PathLike[str] | None) -> pd.DataFrame:
    """Read both files as one table of shape (48842, 15)."""
    # adult.test begins with a comment line, and its labels end with a dot.
    parts = [
        pd.read_csv(find(name, folder), names=COLUMNS, skiprows=comments, skipinitialspace=True, keep_default_na=False)
        for name, comments in (("adult.data", 0), ("adult.test", 1))
    ]
    raw = pd.concat(parts, ignore_index=True)
    return raw.assign(income=raw["income"].str.rstrip("."))


def _ordinal(features: pd.DataFrame) -> pd.DataFrame:
    """Replace words by their alphabetical rank, then standardise every column."""
    words = features.columns.difference(NUMBERS)
    codes = {word: features[word].astype("category").cat.codes for word in words}
    return standardise(features.assign(**codes).astype("float64")).reset_index(drop=True)


def _onehot(features: pd.DataFrame) -> pd.DataFrame:
    """Standardise numbers, and make an indicator for each word except the first of each attribute."""
    numbers = standardise(features[NUMBERS])
    words = pd.get_dummies(features.drop(columns=NUMBERS), drop_first=True, dtype="float64")
    return numbers.join(words).reset_index(drop=True)


DATASET = load_adult
ABOUT = About(45_222, 13, "income", "sex", "UCI 1996, CC BY 4.0", ("adult.data", "adult.test"))
