"""Accuracy: right decisions are equally frequent in all groups."""

from surefair.criteria._criterion import Criterion, Rate

CRITERION = Criterion(
    name="accuracy",
    rates=(
        Rate(
            name="accuracy",
            words="share of right decisions",
            numerator=((0, 0), (1, 1)),
            denominator=((0, 0), (0, 1), (1, 0), (1, 1)),
        ),
    ),
)
