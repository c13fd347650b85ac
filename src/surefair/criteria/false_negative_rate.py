"""False-negative rate (the paper's DM by FNR): truly positive rows are rejected equally often in all groups."""

from surefair.criteria._criterion import Criterion, Rate
from surefair.criteria._forms import SquaredPenalty

CRITERION = Criterion(
    name="false_negative_rate",
    rates=(
        Rate(
            name="false_negative_rate",
            words="share of negative decisions among the truly positive",
            numerator=((1, 0),),
            denominator=((1, 0), (1, 1)),
        ),
    ),
    form=SquaredPenalty,
)
