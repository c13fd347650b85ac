"""Metrics are looked up by name, and know whether they need labels."""

from __future__ import annotations

import pytest

from surefair.criteria import CRITERIA
from surefair.inference.metric import Metric, get_metric, metric_names


def test_a_metric_is_a_name_or_a_criterion():
    criterion = CRITERIA["error_rate"]
    assert get_metric(criterion) == get_metric("error_rate") == Metric(criterion, ratio=False)
    assert get_metric("error_rate_ratio") == Metric(criterion, ratio=True)
    assert get_metric(Metric(criterion, ratio=True)).name == "error_rate_ratio"
    with pytest.raises(ValueError, match=r"Did you mean 'error_rate_ratio'.*'error_rate', .*'equalized_odds_ratio'"):
        get_metric("error_rates_ratio")


@pytest.mark.parametrize("name", metric_names())
def test_only_demographic_parity_needs_no_labels(name):
    assert get_metric(name).needs_labels == (not name.startswith("demographic_parity"))
