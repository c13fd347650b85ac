"""Other software that does the same work: one file per peer, and a new file is found automatically.

A peer has

- ``NAME`` and ``NOTE``: its name, and what it does and does not do;
- ``PACKAGE``: the distribution whose version is reported;
- ``CORE``: whether it runs without ``--all``;
- ``TARGETS``: how many times as fast surefair should be, by name of work;
- ``prepare(work, data)``: None if it does not support the work; otherwise a call to time, and its number of rows.
"""

from __future__ import annotations

import importlib
import pkgutil
from types import ModuleType

PEERS: dict[str, ModuleType] = {
    found.name: importlib.import_module(f"{__name__}.{found.name}") for found in pkgutil.iter_modules(__path__)
}
