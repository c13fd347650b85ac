"""Losses of one row. Each file without a leading underscore defines one loss, called ``LOSS``; ``LOSSES`` finds it.

To add a loss, add one file here and, in ``kernels.py``, a code and a branch wherever the kernels ask for the loss.

>>> import numpy as np
>>> LOSSES["log_loss"].derivative(np.array([0.0, 2.0]), 1.0)
array([-0.5       , -0.11920292])
"""

from __future__ import annotations

import importlib
import pkgutil

from surefair.losses._loss import Loss

__all__ = ["LOSSES", "Loss", "check_registry"]


def check_registry(found: dict[str, Loss]) -> dict[str, Loss]:
    """Return the losses by file name if each has the name of its file and a code that no other loss has.

    Raises
    ------
    ValueError
        If a loss and its file have different names, or two losses have the same code.
    """
    codes: dict[int, str] = {}
    for name, loss in found.items():
        if loss.name != name:
            raise ValueError(f"The loss in losses/{name}.py is called {loss.name!r}. Give both the same name.")
        if loss.code in codes:
            raise ValueError(
                f"The losses {codes[loss.code]!r} and {name!r} have the same code {loss.code}. Give each its own code "
                "in kernels.py."
            )
        codes[loss.code] = name
    return found


LOSSES: dict[str, Loss] = check_registry(
    {
        found.name: importlib.import_module(f"{__name__}.{found.name}").LOSS
        for found in pkgutil.iter_modules(__path__)
        if not found.name.startswith("_")
    }
)
"""All losses by name."""
