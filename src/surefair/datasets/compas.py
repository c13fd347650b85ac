"""COMPAS: is a defendant charged again within two years? From Broward County, Florida, 2013 and 2014.

ProPublica (2016), with the rows and the five attributes that Zafar et al. (2017) use. Of 7,214 rows, 6,907 have a
screening date, ProPublica's analysis uses 6,172 of those, and 5,278 of those belong to two races:

================  =====  ========  ======
race               rows  positive    rate
================  =====  ========  ======
African-American  3,175     1,661   .5231
Caucasian         2,103       822   .3909
================  =====  ========  ======
"""

from __future__ import annotations

import os

import pandas as pd

from surefair.datasets.dataset import About, Dataset, standardise
from surefair.datasets.files import find
from surefair.rows import as_column

STAGES = (
    "days_b_screening_arrest.notna()",
    "days_b_screening_arrest.between(-30, 30) and is_recid != -1 and c_charge_degree != 'O' and score_text.notna()",
    "race in ('African-American', 'Caucasian')",
)
WORDS = ["age_cat", "race", "sex", "c_charge_degree"]


def load_compas(folder: str | os.PathLike[str] | None = None, race_as_feature: bool = True) -> Dataset:
    """Load COMPAS: charged again within two years, by race.

    Parameters
    ----------
    folder : path, optional
        Folder that holds ``compas-scores-two-years.csv``; by default the folder that ``SUREFAIR_DATA`` names. A
        missing file comes from the cache or is downloaded.
    race_as_feature : bool
        Whether race is also a feature, as in Zafar et al. It is the sensitive attribute in both cases.

    Returns
    -------
    Dataset
        5,278 rows; labels 0 and 1, groups 'African-American' and 'Caucasian'. Features: the standardised number of
        priors, and indicators of age category, race, sex and charge degree. Each attribute lacks its first
        indicator, so that the columns and an intercept are linearly independent. ``sensitive_columns`` holds race
        and sex.

    Examples
    --------
    The loader keeps the rows that pass three stages. The third selects two races:

    >>> frame = pd.DataFrame({"race": ["Caucasian", "Hispanic", "African-American"]})
    >>> frame.query(STAGES[2], engine="python")["race"].tolist()
    ['Caucasian', 'African-American']
    """
    rows = pd.read_csv(find("compas-scores-two-years.csv", folder))
    for stage in STAGES:
        rows = rows.query(stage, engine="python")
    words = [word for word in WORDS if race_as_feature or word != "race"]
    indicators = pd.get_dummies(rows[words], drop_first=True, dtype="float64")
    return Dataset(
        name="compas",
        X=standardise(rows[["priors_count"]]).join(indicators).reset_index(drop=True),
        y=as_column(rows["two_year_recid"], "label"),
        sensitive=as_column(rows["race"], "group"),
        label="two_year_recid",
        sensitive_name="race",
        description="COMPAS (ProPublica 2016, rows of Zafar et al. 2017): charged again within two years.",
        sensitive_columns=rows[["race", "sex"]].reset_index(drop=True),
    )


DATASET = load_compas
ABOUT = About(
    5_278, 6, "two_year_recid", "race", "ProPublica 2016, no licence stated", ("compas-scores-two-years.csv",)
)
