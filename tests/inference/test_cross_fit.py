"""Cross-fitting: every row serves for training and for evaluation."""

import numpy as np
import pytest
from scipy.stats import binom

import surefair as sf
from surefair.classifier import declare
from surefair.inference.cross_fit import CrossFit, deal, stretch
from surefair.inference.interval import Question
from surefair.inference.metric import get_metric
from surefair.training.parameters import problem_of

pytestmark = pytest.mark.filterwarnings("ignore::surefair.diagnostics.Diagnostic")


def draw(n, rng):
    group = (rng.random(n) < 0.4).astype(int)
    X = rng.normal(size=(n, 4)) + 0.9 * group[:, None] * (np.arange(4) < 2)
    y = (rng.random(n) < 1.0 / (1.0 + np.exp(-X @ np.array([0.6, 0.4, 1.5, -1.2]) + 0.3))).astype(int)
    return X, y, group


def crossed(clf, X, y, group, seed=0, **options):
    rows = declare(clf, X, y, group, None, None)[2]
    return CrossFit.of(problem_of(clf, seed), rows, **options)


def test_folds_are_even_in_every_group_and_label():
    X, y, group = draw(1_003, np.random.default_rng(0))
    rows = declare(sf.FairClassifier(), X, y, group, None, None)[2]
    fold = deal(rows, 5, seed=3)
    for value, label in np.ndindex(2, 2):
        sizes = np.bincount(fold[(group == value) & (y == label)], minlength=5)
        assert np.ptp(sizes) <= 1
    assert not np.array_equal(fold, deal(rows, 5, seed=4))


def test_a_row_is_decided_by_a_model_that_was_not_trained_on_it():
    X, y, group = draw(1_200, np.random.default_rng(1))
    clf = sf.FairClassifier(tolerance=0.1, n_replicates=5, random_state=0)
    found = crossed(clf, X, y, group, n_folds=4)
    fold = deal(found.rows, 4, seed=0)
    for number in range(4):
        mine = fold == number
        alone = sf.FairClassifier(tolerance=0.1, n_replicates=0).fit(
            X[~mine], y[~mine], sensitive_features=group[~mine]
        )
        assert np.array_equal(found.decision[mine], alone.predict(X[mine]))


def test_replicates_weigh_a_row_the_same_in_training_and_evaluation():
    X, y, group = draw(300, np.random.default_rng(2))
    clf = sf.FairClassifier(None, n_replicates=3)
    found = crossed(clf, X, y, group, n_folds=3)
    fold = deal(found.rows, 3, seed=0)
    V = found.models[0].trained.problem.multipliers.draw(0, 300, 4)
    for b in (1, 3):
        positive = np.empty(300)
        for number in range(3):
            mine = fold == number
            weight = np.where(mine, 0.0, V[:, b])
            alone = sf.FairClassifier(None, n_replicates=0).fit(X, y, sample_weight=weight)
            positive[mine] = alone.predict(X[mine])
        for value in (0, 1):
            table = found.tables["total"][b, value].sum(axis=0)
            share = np.average(positive[group == value], weights=V[group == value, b])
            assert table[1] / table.sum() == pytest.approx(share, abs=0.02)


def test_the_classifier_stays_as_it_was():
    X, y, group = draw(800, np.random.default_rng(3))
    clf = sf.FairClassifier(tolerance=0.1, n_replicates=50, random_state=0)
    one = clf.cross_fit_interval(X, y, sensitive_features=group)
    two = clf.cross_fit_interval(X, y, sensitive_features=group)
    assert one.to_dict() == two.to_dict()
    assert not hasattr(clf, "model_")
    assert "5 models" in one.sentence
    assert one.n == 800


@pytest.mark.parametrize("source", ["training", "retraining", "evaluation", "total"])
def test_every_source_and_metric_has_an_interval(source):
    X, y, group = draw(1_500, np.random.default_rng(4))
    groups = group + (X[:, 3] > 0.5)  # three of them
    clf = sf.FairClassifier(tolerance=0.2, n_replicates=40, random_state=0)
    for metric in ("demographic_parity", "equalized_odds", "demographic_parity_ratio"):
        interval = clf.cross_fit_interval(X, y, sensitive_features=groups, source=source, metric=metric)
        assert interval.low <= interval.estimate <= interval.high
        assert interval.source == source


def test_retraining_stretches_ratios_on_the_scale_of_logarithms():
    rng = np.random.default_rng(7)
    middle = np.array([[0.02, 0.5]])
    trained = middle * np.exp(rng.normal(0.0, [0.8, 0.05], size=(500, 1, 2)))
    stretched = stretch(middle, trained, ratio=True)
    assert (stretched > 0.0).all()
    spread = np.log(trained).std(axis=0)
    assert np.allclose(np.log(stretched).std(axis=0), np.sqrt(2.0) * spread)
    assert np.allclose(np.log(stretched).mean(axis=0), np.log(middle))
    trained[0, 0, 0] = 0.0  # a replicate that accepts nobody stays one
    assert stretch(middle, trained, ratio=True)[0, 0, 0] == 0.0
    assert np.isfinite(stretch(np.array([[0.0, 0.5]]), trained, ratio=True)).all()


def test_retraining_of_a_ratio_of_small_rates_has_a_lower_limit_above_0():
    rng = np.random.default_rng(8)
    X, y, group = draw(1_500, rng)
    y = ((X[:, 2] + rng.normal(size=1_500)) > 2.2).astype(int)  # few are positive
    clf = sf.FairClassifier(None, n_replicates=100, random_state=0)
    asked = {"sensitive_features": group, "metric": "demographic_parity_ratio"}
    again = clf.cross_fit_interval(X, y, source="retraining", **asked)
    once = clf.cross_fit_interval(X, y, source="training", **asked)
    assert 0.0 < again.low < again.estimate < again.high < 1.0
    assert again.gap_high - again.gap_low == pytest.approx(np.sqrt(2.0) * (once.gap_high - once.gap_low))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"n_folds": 1}, "n_folds"),
        ({"n_folds": 2.5}, "n_folds"),
        ({"source": "luck"}, "source"),
        ({"sensitive_features": None}, "sensitive_features"),
    ],
)
def test_what_makes_no_sense_is_refused(change, words):
    X, y, group = draw(200, np.random.default_rng(5))
    with pytest.raises(ValueError, match=words):
        sf.FairClassifier().cross_fit_interval(X, y, **{"sensitive_features": group} | change)


def test_too_few_rows_of_a_label_or_group_are_refused():
    X, y, group = draw(200, np.random.default_rng(6))
    few = np.zeros(200, dtype=int)
    few[:3] = 1
    with pytest.raises(ValueError, match="rows of each label; 1 has 3"):
        sf.FairClassifier().cross_fit_interval(X, few, sensitive_features=group)
    with pytest.raises(ValueError, match="1 has 3"):
        sf.FairClassifier().cross_fit_interval(X, y, sensitive_features=few)
    with pytest.raises(ValueError, match="step_size"):
        sf.FairClassifier(step_size=sf.PolynomialDecay(0.1, 0.6)).cross_fit_interval(X, y, sensitive_features=group)
    with pytest.raises(ValueError, match="n_replicates"):
        sf.FairClassifier(n_replicates=1).cross_fit_interval(X, y, sensitive_features=group)


@pytest.mark.slow
@pytest.mark.parametrize("tolerance", [0.05])
def test_intervals_cover_with_everything_redrawn(tolerance):
    repetitions = 150
    X, y, group = draw(200_000, np.random.default_rng(7))
    clf = sf.FairClassifier(tolerance=tolerance, n_replicates=99)
    best = sf.FairClassifier(tolerance=tolerance, n_replicates=0, solver="exact").fit(X, y, sensitive_features=group)

    def gap(theta):
        accepted = X @ theta[:-1] + theta[-1] > 0.0
        return accepted[group == 0].mean() - accepted[group == 1].mean()

    truth = gap(np.append(best.coef_, best.intercept_))
    held = {"evaluation": 0, "total": 0}
    for repetition in range(repetitions):
        rows = np.random.default_rng([8, repetition]).integers(0, len(y), 600)
        found = crossed(clf, X[rows], y[rows], group[rows], seed=repetition)
        true = {"total": truth, "evaluation": np.mean([gap(model.coefficients) for model in found.models])}
        for source in held:
            interval = found.interval(Question(get_metric("demographic_parity"), source, "basic", 0.95))
            held[source] += interval.gap_low <= true[source] <= interval.gap_high
    low, high = binom.ppf([1e-4, 1.0 - 1e-4], repetitions, [0.93, 0.97])
    assert low <= held["total"] <= high + 3  # limits of few rows are exact, and wide
    assert low <= held["evaluation"]


def test_total_says_why_it_is_narrower_than_evaluation():
    X, y, group = draw(1_000, np.random.default_rng(3))
    clf = sf.FairClassifier(tolerance=0.05, n_replicates=99, random_state=0)
    total, evaluation = (
        clf.cross_fit_interval(X, y, sensitive_features=group, source=source) for source in ("total", "evaluation")
    )
    assert total.high - total.low < evaluation.high - evaluation.low
    assert "narrower" in total.sentence
    assert "narrower" not in evaluation.sentence
