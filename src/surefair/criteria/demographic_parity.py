"""Demographic parity (the paper's DI): groups get positive decisions equally often."""

from surefair.criteria._criterion import Criterion, Slab

CRITERION = Criterion(
    name="demographic_parity",
    rate="share of positive decisions",
    numerator=((0, 1), (1, 1)),
    denominator=((0, 0), (0, 1), (1, 0), (1, 1)),
    form=Slab,
)
