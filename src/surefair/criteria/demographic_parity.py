"""Demographic parity (the paper's DI): all groups get positive decisions equally often."""

from surefair.criteria._criterion import Criterion, Rate
from surefair.criteria._forms import Slabs

CRITERION = Criterion(
    name="demographic_parity",
    rates=(
        Rate(
            name="selection_rate",
            words="share of positive decisions",
            numerator=((0, 1), (1, 1)),
            denominator=((0, 0), (0, 1), (1, 0), (1, 1)),
        ),
    ),
    form=Slabs,
)
