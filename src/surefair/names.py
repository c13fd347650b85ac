"""Check names that users type, suggest a close match for an unknown one, and name numbers of things."""

from __future__ import annotations

import difflib
import importlib.util
import pkgutil
from collections.abc import Iterable
from typing import Any


def one_of(name: Any, known: Iterable[str], what: str) -> str:
    """Return a known name; for any other, raise an error that lists the known names and suggests the closest.

    Parameters
    ----------
    name : object
        What the user typed.
    known : iterable of str
    what : str
        What the name stands for, as the error message calls it.

    Examples
    --------
    >>> one_of("traning", ["training", "total"], "source")
    Traceback (most recent call last):
    ValueError: Unknown source: 'traning'. Did you mean 'training'? Known: 'training', 'total'.
    """
    known = list(known)
    if isinstance(name, str) and name in known:
        return name
    close = difflib.get_close_matches(str(name), known, n=1)
    hint = f"Did you mean {close[0]!r}? " if close else ""
    raise ValueError(f"Unknown {what}: {name!r}. {hint}Known: {', '.join(map(repr, known))}.")


def file_names(package: str) -> list[str]:
    """Names of the files in a package that do not begin with an underscore; nothing is imported.

    Examples
    --------
    >>> "error_rate" in file_names("surefair.criteria")
    True
    """
    spec = importlib.util.find_spec(package)
    folders = [] if spec is None else spec.submodule_search_locations
    return [found.name for found in pkgutil.iter_modules(folders) if not found.name.startswith("_")]


def counted(n: float, one: str, many: str | None = None) -> str:
    """Write a number of things.

    Parameters
    ----------
    n : number
    one : str
        What there is one of; it may end with a verb.
    many : str, optional
        The same for several; by default with an s.

    Examples
    --------
    >>> counted(1, "row"), counted(2000, "row"), counted(0, "row has", "rows have")
    ('1 row', '2,000 rows', '0 rows have')
    """
    return f"{n:,} {one if n == 1 else many or one + 's'}"
