"""Base rate: truly positive rows are equally frequent in all groups, whatever is decided."""

from surefair.criteria._criterion import Criterion, Rate

CRITERION = Criterion(
    name="base_rate",
    rates=(
        Rate(
            name="base_rate",
            words="share of truly positive rows",
            numerator=((1, 0), (1, 1)),
            denominator=((0, 0), (0, 1), (1, 0), (1, 1)),
        ),
    ),
)
