"""False-discovery rate (the paper's DM by FDR): positive decisions are wrong equally often in all groups."""

from surefair.criteria._criterion import Criterion, Rate
from surefair.criteria._forms import SoftRatePenalty

CRITERION = Criterion(
    name="false_discovery_rate",
    rates=(
        Rate(
            name="false_discovery_rate",
            words="share of truly negative among the positive decisions",
            numerator=((0, 1),),
            denominator=((0, 1), (1, 1)),
        ),
    ),
    form=SoftRatePenalty,
)
