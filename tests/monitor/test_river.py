"""River's protocol: a metric and a classifier, one row at a time."""

import doctest

import numpy as np
import pytest

import surefair as sf

river = pytest.importorskip("river", reason="needs river: pip install surefair[river]")

from river import evaluate, metrics  # noqa: E402

from surefair.monitor.river import RiverFairClassifier, Unfairness  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::surefair.diagnostics.Diagnostic")  # fits on few rows


def rows(n, seed=0):
    rng = np.random.default_rng(seed)
    for _ in range(n):
        sex = str(rng.choice(["f", "m"]))
        x = {"income": float(rng.normal() + (sex == "m")), "age": float(rng.normal()), "sex": sex}
        yield x, bool(x["income"] + 0.5 * rng.normal() > 0)


def make():
    return RiverFairClassifier(sf.FairClassifier(n_replicates=20, n_warmup=100, random_state=0), sensitive="sex")


def test_the_examples_run():
    from surefair.monitor import river as module

    assert doctest.testmod(module).failed == 0
    assert sf.monitor.river is module


def test_progressive_validation():
    model = make()
    accuracy = evaluate.progressive_val_score(rows(1500), model, metrics.Accuracy())
    assert accuracy.get() > 0.6  # parity costs accuracy here
    assert model.classifier.n_rows_ == 1500


def test_learning_row_by_row_is_learning_in_batches():
    model = make()
    data = list(rows(600))
    for x, y in data:
        model.learn_one(x, y)
    batches = sf.FairClassifier(n_replicates=20, n_warmup=100, random_state=0)
    for low in range(0, 600, 100):
        part = data[low : low + 100]
        X = np.array([[x["income"], x["age"]] for x, _ in part])
        batches.partial_fit(
            X, np.array([int(y) for _, y in part]), sensitive_features=[x["sex"] for x, _ in part], classes=[0, 1]
        )
    assert np.array_equal(model.classifier.coef_, batches.coef_)


def test_the_metric_is_a_monitor():
    model, metric = make(), Unfairness("true_positive_rate", margin=0.2)
    assert metric.works_with(model)
    seen = []
    for x, y in rows(1500):
        y_pred = model.predict_one(x)
        if y_pred is not None:
            metric.update(y, y_pred, x["sex"])
            seen.append((y, y_pred, x["sex"]))
        model.learn_one(x, y)
    truth, decision, group = map(list, zip(*seen, strict=True))
    whole = sf.fairness_interval(truth, decision, sensitive_features=group, metric="true_positive_rate", anytime=True)
    assert metric.get() == whole.estimate
    assert metric.interval().gap_high == whole.gap_high
    assert not metric.bigger_is_better
    with pytest.raises(NotImplementedError, match="cannot take rows back"):
        metric.revert(True, True)


def test_rows_that_do_not_fit_are_refused():
    model = make()
    model.learn_one({"income": 1.0, "sex": "f"}, True)
    with pytest.raises(ValueError, match="not one of the classes"):
        model.learn_one({"income": 1.0, "sex": "f"}, "yes")
    with pytest.raises(ValueError, match="no group 'sex'"):
        model.learn_one({"income": 1.0}, True)
    with pytest.raises(ValueError, match="no feature 'income'"):
        model.learn_one({"sex": "f"}, True)
