"""Equalized odds: false positives and false negatives are equally frequent in all groups."""

from surefair.criteria import false_negative_rate, false_positive_rate
from surefair.criteria._criterion import Criterion, Rate
from surefair.criteria._forms import SquaredPenalty

TRUE_POSITIVE_RATE = Rate(
    name="true_positive_rate",
    words="share of positive decisions among the truly positive",
    numerator=((1, 1),),
    denominator=((1, 0), (1, 1)),
)

CRITERION = Criterion(
    name="equalized_odds",
    rates=false_positive_rate.CRITERION.rates + false_negative_rate.CRITERION.rates,
    form=SquaredPenalty,
    ratio_rates=(*false_positive_rate.CRITERION.rates, TRUE_POSITIVE_RATE),  # the ratio's usual definition
)
