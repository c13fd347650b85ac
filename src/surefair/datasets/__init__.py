"""Data sets, one file each.

To add a data set, add one module to this folder, named after the data set. It defines ``DATASET``, a function that
loads the rows and returns a `Dataset`, and ``ABOUT``, the facts that need no loading. Modules without these two names
are not data sets.

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

from surefair.datasets.adult import load_adult
from surefair.datasets.compas import load_compas
from surefair.datasets.dataset import About, Dataset
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
    """Return the names of all data sets, sorted.

    Examples
    --------
    >>> "adult" in names()
    True
    """
    return tuple(_modules())


def load(name: str, **options: Any) -> Dataset:
    """Load a data set by name.

    Parameters
    ----------
    name : str
        One of `names`.
    **options
        Options of that data set's loader, such as ``folder`` for data files, or ``n`` and ``seed`` for synthetic
        rows.

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
    data: Dataset = _module(name).DATASET(**options)
    return data


def about(name: str) -> About:
    """Return facts about a data set without loading it.

    Parameters
    ----------
    name : str
        One of `names`.

    Returns
    -------
    About

    Examples
    --------
    >>> facts = about("compas")
    >>> facts.rows, facts.label, facts.files
    (5278, 'two_year_recid', ('compas-scores-two-years.csv',))
    """
    facts: About = _module(name).ABOUT
    return facts


def _module(name: str) -> ModuleType:
    """Return the module that defines a data set."""
    modules = _modules()
    return modules[one_of(name, modules, "data set")]


def _modules() -> dict[str, ModuleType]:
    """Import every module of this folder, and return those that define a data set, by name."""
    found = sorted(module.name for module in pkgutil.iter_modules(__path__))
    modules = {name: importlib.import_module(f"{__name__}.{name}") for name in found}
    return {name: module for name, module in modules.items() if hasattr(module, "DATASET") and hasattr(module, "ABOUT")}
