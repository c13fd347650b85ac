"""Equalized odds: false positives and false negatives are equally frequent in all groups."""

from surefair.criteria import false_negative_rate, false_positive_rate, true_positive_rate
from surefair.criteria._criterion import Criterion
from surefair.criteria._forms import SquaredPenalty

CRITERION = Criterion(
    name="equalized_odds",
    rates=false_positive_rate.CRITERION.rates + false_negative_rate.CRITERION.rates,
    form=SquaredPenalty,
    ratio_rates=false_positive_rate.CRITERION.rates + true_positive_rate.CRITERION.rates,  # its usual definition
)
