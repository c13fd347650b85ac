"""German: is a loan a good risk? From a bank in Germany.

Hofmann (1994), Statlog, UCI Machine Learning Repository, CC BY 4.0. 1,000 complete rows, in which bad loans are more
frequent than they were among the bank's customers. The published table of codes gives:

=======  ====  ========  ======
sex      rows  positive    rate
=======  ====  ========  ======
female    310       201   .6484
male      690       499   .7232
=======  ====  ========  ======

That table has errors (Grömping 2019, South German credit data). Code A92, which the table calls women, covers married,
divorced or widowed women and also single men. Code A94, which it calls men, covers single women. The words for foreign
workers are swapped. The columns below follow the published table, as the literature does, so that you can compare
results. Use them to try methods, not to draw conclusions about women and men. The features keep their codes, which
these errors do not affect.
"""

from __future__ import annotations

import os

import pandas as pd

from surefair.datasets.dataset import About, Dataset, standardise
from surefair.datasets.files import find
from surefair.rows import as_column

NUMBERS = ["duration", "amount", "installment-rate", "residence", "age", "credits", "dependants"]
COLUMNS = [
    *("checking", "duration", "history", "purpose", "amount", "savings", "employment", "installment-rate"),
    *("personal-status", "debtors", "residence", "property", "age", "plans", "housing", "credits", "job"),
    *("dependants", "telephone", "foreign-worker", "credit"),
]
LABEL = {1: "good", 2: "bad"}
SEX = {"A91": "male", "A92": "female", "A93": "male", "A94": "male", "A95": "female"}
FOREIGN_WORKER = {"A201": "yes", "A202": "no"}
YOUNG = 25
"""Highest age at which the literature calls a customer young."""


def load_german(folder: str | os.PathLike[str] | None = None) -> Dataset:
    """Load German: a good credit risk, by sex.

    Parameters
    ----------
    folder : path, optional
        Folder that holds ``german.data``; by default the folder that ``SUREFAIR_DATA`` names. A missing file comes
        from the cache or is downloaded.

    Returns
    -------
    Dataset
        1,000 rows; labels 'bad' and 'good', groups 'female' and 'male'. Features: 7 standardised numbers and 38
        indicators of codes, without the first code of each attribute. Age and foreign worker are features; sex and
        personal status, which share a code, are not. ``sensitive_columns`` holds sex, age ('above 25', 'up to 25')
        and foreign worker ('yes', 'no') as in the published table.

    Examples
    --------
    >>> [SEX[code] for code in ("A91", "A92", "A93")]
    ['male', 'female', 'male']
    """
    rows = pd.read_csv(find("german.data", folder), sep=" ", names=COLUMNS)
    sex = rows["personal-status"].map(SEX)
    features = rows.drop(columns=["personal-status", "credit"])
    indicators = pd.get_dummies(features.drop(columns=NUMBERS), drop_first=True, dtype="float64")
    young = rows["age"] <= YOUNG
    sensitive = {
        "sex": sex,
        "age": young.map({True: f"up to {YOUNG}", False: f"above {YOUNG}"}),
        "foreign-worker": rows["foreign-worker"].map(FOREIGN_WORKER),
    }
    return Dataset(
        name="german",
        X=standardise(features[NUMBERS]).join(indicators),
        y=as_column(rows["credit"].map(LABEL), "label"),
        sensitive=as_column(sex, "group"),
        label="credit",
        sensitive_name="sex",
        description="German credit (UCI Statlog, Hofmann 1994): a good risk; sex follows the published table of codes.",
        sensitive_columns=pd.DataFrame(sensitive),
    )


DATASET = load_german
ABOUT = About(1_000, len(NUMBERS) + 38, "credit", "sex", "UCI 1994, CC BY 4.0", ("german.data",))
