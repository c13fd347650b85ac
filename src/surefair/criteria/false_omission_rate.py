"""False-omission rate (the paper's DM by FOR): negative decisions are wrong equally often in all groups."""

from surefair.criteria._criterion import Criterion, Rate
from surefair.criteria._forms import SoftRatePenalty

CRITERION = Criterion(
    name="false_omission_rate",
    rates=(
        Rate(
            name="false_omission_rate",
            words="share of truly positive among the negative decisions",
            numerator=((1, 0),),
            denominator=((0, 0), (1, 0)),
        ),
    ),
    form=SoftRatePenalty,
)
