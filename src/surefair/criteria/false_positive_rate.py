"""False-positive rate (the paper's DM by FPR): truly negative rows are accepted equally often in all groups."""

from surefair.criteria._criterion import Criterion, Rate
from surefair.criteria._forms import SquaredPenalty

CRITERION = Criterion(
    name="false_positive_rate",
    rates=(
        Rate(
            name="false_positive_rate",
            words="share of positive decisions among the truly negative",
            numerator=((0, 1),),
            denominator=((0, 0), (0, 1)),
        ),
    ),
    form=SquaredPenalty,
)
