"""Check names that users type, and suggest a close match for an unknown one."""

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
