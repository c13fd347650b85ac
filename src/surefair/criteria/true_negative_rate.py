"""True-negative rate: truly negative rows are rejected equally often in all groups."""

from surefair.criteria._criterion import Criterion, Rate

CRITERION = Criterion(
    name="true_negative_rate",
    rates=(
        Rate(
            name="true_negative_rate",
            words="share of negative decisions among the truly negative",
            numerator=((0, 0),),
            denominator=((0, 0), (0, 1)),
        ),
    ),
)
