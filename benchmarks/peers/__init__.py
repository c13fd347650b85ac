"""Peers: who else does this work. One file per peer; a new file is found by itself.

A peer has

- ``NAME`` and ``NOTE``: what it is called, and what it does and does not do;
- ``PACKAGE``: the distribution whose version is reported;
- ``CORE``: whether it runs without ``--all``;
- ``TARGETS``: by how much surefair should be faster, by name of work;
- ``prepare(work, data)``: None if it does not do that work, otherwise a call to be timed and the rows it takes.
"""

from __future__ import annotations

import importlib
import pkgutil
from types import ModuleType

PEERS: dict[str, ModuleType] = {
    found.name: importlib.import_module(f"{__name__}.{found.name}") for found in pkgutil.iter_modules(__path__)
}
