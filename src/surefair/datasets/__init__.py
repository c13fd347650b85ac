"""Data sets, one file each.

Every module of this folder without a leading underscore is a data set: the module's name is its name, and the
module's ``DATASET`` is its loader, a function that returns a `Dataset`; its ``ABOUT`` says what is known before.
Adding a data set is adding one file.

>>> names()
('adult', 'compas', 'german', 'synthetic_di', 'synthetic_dm')
>>> data = load("synthetic_dm", n=1000, seed=7)
>>> len(data), round(float(data.X["x1"].mean()), 4)
(1000, 0.7661)
"""

from __future__ import annotations

import importlib
import pkgutil
from types import ModuleType
from typing import Any

from surefair.datasets._dataset import About, Dataset
from surefair.datasets.adult import load_adult
from surefair.datasets.compas import load_compas
from surefair.datasets.german import load_german
from surefair.datasets.synthetic_di import SyntheticDI
from surefair.datasets.synthetic_dm import SyntheticDM
from surefair.names import one_of

__all__ = [
    "About",
    "Dataset",
    "SyntheticDI",
    "SyntheticDM",
    "about",
    "load",
    "load_adult",
    "load_compas",
    "load_german",
    "names",
]


def names() -> tuple[str, ...]:
    """Names of all data sets, sorted.

    Examples
    --------
    >>> "adult" in names()
    True
    """
    return tuple(sorted(m.name for m in pkgutil.iter_modules(__path__) if not m.name.startswith("_")))


def load(name: str, **options: Any) -> Dataset:
    """Load a data set by its name.

    Parameters
    ----------
    name : str
        One of `names`.
    **options
        Passed on to the loader of that data set, such as ``folder`` for files or ``n`` and ``seed`` for
        synthetic rows.

    Returns
    -------
    Dataset

    Examples
    --------
    >>> data = load("synthetic_di", n=3)
    >>> data.X.shape, data.y.tolist(), data.sensitive.tolist()
    ((3, 2), [1, -1, 1], [1, 0, 1])

    >>> load("adults")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ValueError: Unknown data set: 'adults'. Did you mean 'adult'? Known: 'adult', 'compas', ...
    """
    dataset: Dataset = _module(name).DATASET(**options)
    return dataset


def about(name: str) -> About:
    """What is known of a data set without loading it.

    Parameters
    ----------
    name : str
        One of `names`.

    Returns
    -------
    About

    Examples
    --------
    >>> known = about("compas")
    >>> known.rows, known.label, known.files
    (5278, 'two_year_recid', ('compas-scores-two-years.csv',))
    """
    known: About = _module(name).ABOUT
    return known


def _module(name: str) -> ModuleType:
    """Import the module of a data set."""
    return importlib.import_module(f"{__name__}.{one_of(name, names(), 'data set')}")
