"""Data sets, one file each.

Every module of this folder without a leading underscore is a data set: the module's name is its name, and the
module's ``DATASET`` is its loader, a function that returns a `Dataset`. Adding a data set is adding one file.

>>> names()
('adult', 'compas', 'synthetic_di', 'synthetic_dm')
>>> data = load("synthetic_dm", n=1000, seed=7)
>>> len(data), round(float(data.X["x1"].mean()), 4)
(1000, 0.7661)
"""

from __future__ import annotations

import importlib
import pkgutil
from typing import Any

from surefair.datasets._dataset import Dataset
from surefair.datasets.adult import load_adult
from surefair.datasets.compas import load_compas
from surefair.datasets.synthetic_di import SyntheticDI
from surefair.datasets.synthetic_dm import SyntheticDM
from surefair.names import one_of

__all__ = ["Dataset", "SyntheticDI", "SyntheticDM", "load", "load_adult", "load_compas", "names"]


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
    module = importlib.import_module(f"{__name__}.{one_of(name, names(), 'data set')}")
    dataset: Dataset = module.DATASET(**options)
    return dataset
