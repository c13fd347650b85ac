"""False-positive rate (the paper's DM by FPR): groups are wrongly accepted equally often."""

from surefair.criteria._criterion import Criterion, SquaredPenalty

CRITERION = Criterion(
    name="false_positive_rate",
    rate="share of positive decisions among the truly negative",
    numerator=((0, 1),),
    denominator=((0, 0), (0, 1)),
    form=SquaredPenalty,
)
