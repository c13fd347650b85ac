"""Error rate (the paper's DM by overall misclassification): groups are misjudged equally often."""

from surefair.criteria._criterion import Criterion, SquaredPenalty

CRITERION = Criterion(
    name="error_rate",
    rate="share of wrong decisions",
    numerator=((0, 1), (1, 0)),
    denominator=((0, 0), (0, 1), (1, 0), (1, 1)),
    form=SquaredPenalty,
)
