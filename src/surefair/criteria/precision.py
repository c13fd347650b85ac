"""Precision: positive decisions are right equally often in all groups."""

from surefair.criteria._criterion import Criterion, Rate

CRITERION = Criterion(
    name="precision",
    rates=(
        Rate(
            name="precision",
            words="share of truly positive among the positive decisions",
            numerator=((1, 1),),
            denominator=((0, 1), (1, 1)),
        ),
    ),
)
