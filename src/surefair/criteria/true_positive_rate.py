"""True-positive rate (equal opportunity): truly positive rows are accepted equally often in all groups."""

from surefair.criteria._criterion import Criterion, Rate

CRITERION = Criterion(
    name="true_positive_rate",
    rates=(
        Rate(
            name="true_positive_rate",
            words="share of positive decisions among the truly positive",
            numerator=((1, 1),),
            denominator=((1, 0), (1, 1)),
        ),
    ),
)
