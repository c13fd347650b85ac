"""Error rate (the paper's DM by overall misclassification): wrong decisions are equally frequent in all groups."""

from surefair.criteria._criterion import Criterion, Rate
from surefair.criteria._forms import SquaredPenalty

CRITERION = Criterion(
    name="error_rate",
    rates=(
        Rate(
            name="error_rate",
            words="share of wrong decisions",
            numerator=((0, 1), (1, 0)),
            denominator=((0, 0), (0, 1), (1, 0), (1, 1)),
        ),
    ),
    form=SquaredPenalty,
)
