"""What a fit or an interval warns of, each a class of its own that can be filtered by name.

>>> import warnings
>>> warnings.filterwarnings("ignore", category=TooFewReplicates)
"""

from __future__ import annotations


class Diagnostic(UserWarning):
    """What a fit or an interval warns of."""


class TooFewReplicates(Diagnostic):
    """Fewer replicates than a quantile of the interval's level needs: use ``method="cheap"``, or more replicates."""
