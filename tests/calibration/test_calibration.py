"""The coverage laboratory tells good intervals from bad ones, and gives the same result for any number of processes."""

from __future__ import annotations

import json

import matplotlib.pyplot as plt
import numpy as np
import polars as pl
import pytest
from scipy.sparse import csr_matrix
from scipy.stats import binom

import surefair as sf
from surefair.calibration import repetitions
from surefair.classifier import declare
from surefair.inference.sources import SOURCES
from surefair.parallel import fit_replicates, fit_shards
from surefair.plotting import CalibrationDisplay

DATA = sf.datasets.SyntheticDI(seed=3).sample(20_000)
SMALL = sf.datasets.SyntheticDI(seed=4).sample(2_000)
PAPER = sf.PolynomialDecay(0.5, 0.6)  # the constraint is then fixed


def classifier(**params):
    return sf.FairClassifier(**{"n_replicates": 60, "solver": "one_pass", "n_warmup": 200} | params)


def calibrate(clf=None, data=SMALL, **more):
    clf = classifier() if clf is None else clf
    settings = {"n_rows": 300, "n_evaluation": 400, "repetitions": 12, "sensitive_features": data.sensitive} | more
    return sf.calibrate(clf, data.X, data.y, **settings)


@pytest.fixture(scope="module")
def found():
    return calibrate()


# -- What is found -----------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("criterion", "data"), [(None, sf.datasets.SyntheticDM), ("demographic_parity", sf.datasets.SyntheticDI)]
)
def test_good_intervals_cover(criterion, data):
    R, data = 100, data(seed=3).sample(20_000)
    clf = classifier(criterion=criterion, n_replicates=200, n_warmup=500)
    table = calibrate(clf, data, n_rows=1_000, n_evaluation=1_000, repetitions=R, n_jobs=2).table
    least = binom.ppf(1e-3 / len(table), R, 0.95) / R  # an exact method falls below it once in a thousand runs
    assert table["coverage"].min() >= least
    assert (table["spread_ratio"] - 1.0).abs().max() < 0.5
    assert (table["undefined"] == 0).all()


@pytest.mark.slow
def test_steps_too_small_to_forget_the_start_are_detected():
    R = 40
    clf = sf.FairClassifier(step_size=sf.PolynomialDecay(0.01, 0.501), n_warmup=500)
    table = calibrate(clf, DATA, n_rows=1_000, repetitions=R).table.set_index("quantity")
    assert table.loc["x1", "coverage_high"] < 0.5
    assert abs(table.loc["x1", "bias"]) > 2.0


def check_truth(found, star):
    """Whether the truths of a result are those of an optimum."""
    assert found.table["source"].tolist() == [*SOURCES, *["training"] * 3]
    assert found.table["kind"].tolist() == ["gap"] * 4 + ["coefficient"] * 3
    truth = found.table.set_index(["quantity", "source"])["truth"]
    assert truth.tolist()[4:] == pytest.approx(star.tolist(), rel=1e-6)
    z = SMALL.sensitive
    positive = SMALL.X.to_numpy() @ star[:2] + star[2] > 0.0
    assert truth["gap", "total"] == pytest.approx(positive[z == 0].mean() - positive[z == 1].mean(), abs=1e-12)
    assert len(set(truth.tolist()[:4])) == 4


def test_each_source_has_its_own_truth(found):
    # A fit of no more rows than the warm-up is the optimum on these rows.
    by_hand = classifier(n_warmup=2_000).fit(SMALL.X, SMALL.y, sensitive_features=SMALL.sensitive)
    check_truth(found, np.append(by_hand.coef_[0], by_hand.intercept_))
    assert found.settings["everything_redrawn"] is True
    assert "12 repetitions of 300 rows, everything drawn anew" in found.sentence


def test_under_a_fixed_constraint_the_truth_is_the_optimum_given_it():
    part = np.random.default_rng(0).integers(0, 2_000, 200)
    X, y, z = SMALL.X.to_numpy(), SMALL.y, SMALL.sensitive
    given = X[part], y[part], z[part]
    found = calibrate(constraint_set=(SMALL.X.iloc[part], *given[1:]))
    by_hand = classifier().fit(X, y, sensitive_features=z, constraint_set=given)
    check_truth(found, sf.theory.optimum(by_hand, X, y))
    assert found.settings["everything_redrawn"] is False
    assert "given one constraint set" in found.sentence


# -- The same result ---------------------------------------------------------------------------------------------------


def test_the_result_does_not_depend_on_the_number_of_processes(found):
    assert calibrate(n_jobs=2).to_dict() == found.to_dict()
    assert calibrate(random_state=1).to_dict()["table"] != found.to_dict()["table"]


def in_two_shards(clf, X, y, *, sensitive_features):
    parts = [slice(0, 200), slice(200, 250), slice(250, None)]
    shards = [(X[part], y[part], {name: z.iloc[part] for name, z in sensitive_features.items()}) for part in parts]
    return fit_shards(clf, shards[1:], warmup=shards[0])


@pytest.mark.filterwarnings("ignore::surefair.diagnostics.Diagnostic")  # fit_shards issues them
def test_two_ways_to_fit_see_the_same_rows(found):
    assert calibrate(fit=fit_replicates).to_dict()["table"] == found.to_dict()["table"]
    other = calibrate(fit=in_two_shards)
    assert other.errors.shape == found.widths.shape == (12, len(found.table))
    apart = other.errors - found.errors
    assert apart.any()
    coefs = found.table["kind"] == "coefficient"
    assert (apart[:, coefs].std(axis=0) < 0.8 * found.errors[:, coefs].std(axis=0)).all()


def test_the_result_does_not_depend_on_the_size_of_chunks(monkeypatch, found):
    monkeypatch.setattr(repetitions, "CHUNK", 1)
    assert calibrate().to_dict() == found.to_dict()


def test_the_classifier_is_not_changed_and_may_be_fitted(found):
    clf = classifier(random_state=5)
    clf.fit(SMALL.X, SMALL.y, sensitive_features=SMALL.sensitive)
    before = clf.coef_.copy()
    assert calibrate(clf).to_dict()["table"] == found.to_dict()["table"]
    assert (clf.coef_ == before).all()


def test_labels_groups_and_frames_of_any_kind_give_the_same_result(found):
    words = np.array(["no", "yes"])[(SMALL.y == 1).astype(int)]
    groups = np.array(["a", "b"])[SMALL.sensitive]
    frame = pl.DataFrame(SMALL.X.to_dict("list"))
    other = sf.calibrate(
        classifier(), frame, words, sensitive_features=groups,
        n_rows=300, n_evaluation=400, repetitions=12,
    )  # fmt: skip
    assert isinstance(other.table, pl.DataFrame)
    assert other.to_dict() == found.to_dict()


def test_under_a_schedule_the_constraint_set_is_drawn_once_or_given():
    found = calibrate(classifier(step_size=PAPER))
    part = np.random.default_rng([0, 0]).integers(0, 2_000, 200)
    given = (SMALL.X.iloc[part], SMALL.y[part], SMALL.sensitive[part])
    for constraint_set in (given, (*given, np.full(200, 1.0))):
        assert calibrate(classifier(step_size=PAPER), constraint_set=constraint_set).to_dict() == found.to_dict()
    assert found.settings["everything_redrawn"] is False


@pytest.mark.filterwarnings("ignore::surefair.diagnostics.RareDecisions")
@pytest.mark.parametrize("fixed", [False, True], ids=["learnt", "fixed"])
def test_a_weight_counts_as_so_many_rows(fixed):
    few = {"n_rows": 300, "n_evaluation": 400, "repetitions": 2}
    many = np.arange(2_000) % 3
    double = np.arange(300) < 100
    D = sf.datasets.SyntheticDI(seed=5).sample(300)
    weighted = few | {"sample_weight": many}
    rows, apart = np.repeat(np.arange(2_000), many), np.repeat(np.arange(300), 1 + double)
    copies = dict(few)
    if fixed:
        weighted["constraint_set"] = (D.X, D.y, D.sensitive, 1 + double)
        copies["constraint_set"] = (D.X.iloc[apart], D.y[apart], D.sensitive[apart])
    found = calibrate(**weighted)
    groups = SMALL.sensitive[rows]
    copied = sf.calibrate(classifier(), SMALL.X.iloc[rows], SMALL.y[rows], sensitive_features=groups, **copies)
    known = found.table["source"].eq("total") | found.table["kind"].eq("coefficient")
    assert found.table["truth"][known].tolist() == pytest.approx(copied.table["truth"][known].tolist(), rel=1e-5)
    assert calibrate(**weighted, fit=fit_replicates).to_dict()["table"] == found.to_dict()["table"]


def test_rows_are_drawn_in_proportion_to_their_weight():
    weight = np.repeat([0.0, 1.0, 3.0], [1_000, 500, 500])
    clf = sf.FairClassifier(n_replicates=2)
    _, _, rows, _ = declare(clf, np.arange(2_000.0)[:, None], SMALL.y, SMALL.sensitive, None, weight)
    drawn = repetitions.draw(rows, 40_000, np.random.default_rng(0))
    counts = np.bincount(drawn.X[:, 0].astype(int), minlength=2_000)
    assert counts[:1_000].sum() == 0
    assert counts[1_500:].sum() == pytest.approx(30_000, abs=400)  # four standard deviations are 346
    assert (drawn.weight == 1.0).all()


def test_a_classifier_may_have_no_intercept():
    clf = classifier(fit_intercept=False)
    table = calibrate(clf, repetitions=4).table
    assert table["quantity"].tolist()[4:] == ["x1", "x2"]
    assert table["coverage"].between(0.0, 1.0).all()


def test_sparse_rows_give_the_coefficients_of_dense_ones():
    clf = classifier()
    more = {"sensitive_features": SMALL.sensitive, "n_rows": 300, "n_evaluation": 400, "repetitions": 4}
    table = sf.calibrate(clf, csr_matrix(SMALL.X.to_numpy()), SMALL.y, **more).table
    assert table["quantity"].tolist()[4:] == ["x0", "x1", "intercept"]
    assert table["coverage"].between(0.0, 1.0).all()


# -- Many groups, several rates, missing ones --------------------------------------------------------------------------


@pytest.mark.parametrize("metric", ["demographic_parity", "demographic_parity_ratio", "equalized_odds"])
def test_of_several_gaps_the_largest_is_compared_with_its_truth(metric):
    groups = {"sex": SMALL.sensitive, "age": np.random.default_rng(0).choice(["old", "mid", "young"], 2_000)}
    clf = classifier(criterion=None, intersections=True)
    table = calibrate(clf, metric=metric, sensitive_features=groups).table
    gaps = table[table["kind"] == "gap"]
    assert (gaps["quantity"] == "unfairness").all()
    assert gaps["coverage"].min() > 0.5
    assert gaps["truth"].between(0.0, 1.0).all()
    assert gaps["spread_ratio"].isna().all()


def test_evaluation_rows_may_lack_a_group():
    rare = np.where(np.arange(2_000) % 200 == 0, "rare", "usual")
    clf = classifier(criterion=None)
    result = calibrate(clf, sensitive_features=rare, n_evaluation=150, repetitions=20)
    gaps = result.table[result.table["kind"] == "gap"]
    assert 0 < gaps["undefined"].iloc[0] < 20  # no such row with probability 0.47
    assert "left out" in result.sentence
    json.dumps(result.to_dict(), allow_nan=False)


def test_the_sentence_says_if_nothing_is_defined():
    rare = np.where(np.arange(2_000) == 0, "rare", "usual")
    clf = classifier(criterion=None)
    result = calibrate(clf, sensitive_features=rare, n_evaluation=2, repetitions=2)
    assert result.table["coverage"].isna().tolist() == [True] * 4 + [False] * 3
    assert "(undefined)" in result.sentence
    assert CalibrationDisplay.from_calibration(result).ax_ is not None
    plt.close("all")


# -- Diagnostics -------------------------------------------------------------------------------------------------------


def test_diagnostics_are_counted_and_not_issued():
    result = calibrate(classifier(n_replicates=10), repetitions=4)
    assert result.warned["TooFewReplicates"] == 1.0
    assert "TooFewReplicates in 100 %" in result.sentence


# -- Refusals ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"repetitions": 1}, "repetitions must be a whole number, 2 or larger; received 1"),
        ({"repetitions": 2.5}, "repetitions must be a whole number"),
        ({"n_rows": 1}, "n_rows must be a whole number, 2 or larger"),
        ({"n_evaluation": 0}, "n_evaluation must be"),
        ({"random_state": None}, "random_state must be a whole number"),
        ({"confidence_level": 95}, "confidence_level must lie"),
        ({"method": "percentil"}, "Did you mean 'percentile'"),
        ({"coef_method": "paper"}, "Unknown method of coefficients"),
        ({"sources": ["trainin"]}, "Did you mean 'training'"),
        ({"sources": []}, "Name at least one"),
        ({"metric": "fairness"}, "Unknown metric"),
        ({"sensitive_features": None}, "sensitive_features is missing"),
        ({"sensitive_features": np.zeros(2_000)}, "a comparison needs two or more"),
        ({"sensitive_features": np.arange(4) % 2}, "inconsistent numbers"),
        ({"constraint_set": (1, 2)}, "constraint_set must be a tuple"),
        ({"constraint_set": ([[1.0, 2.0]], [7], [0])}, "exactly two labels are needed, received 3"),
        ({"constraint_set": (SMALL.X, SMALL.y, SMALL.sensitive + 1)}, "contains undeclared values: 2"),
        ({"constraint_set": (SMALL.X[["x1"]], SMALL.y, SMALL.sensitive)}, "constraint_set: The feature names should"),
        ({"constraint_set": (SMALL.X, SMALL.y, SMALL.sensitive, [1.0])}, "constraint_set: sample_weight has 1 entries"),
        ({"sample_weight": np.zeros(2_000)}, "sample_weight is zero in every row"),
        ({"sample_weight": np.full(2_000, -1.0)}, "sample_weight is negative in row 0"),
    ],
)
def test_invalid_settings_are_refused(more, message):
    with pytest.raises(ValueError, match=message):
        calibrate(**more)


def test_a_group_that_the_constraint_set_lacks_is_refused_and_one_that_is_learnt_may_be_rare():
    rare = np.array([2, *[0, 1] * 999, 0])
    with pytest.raises(ValueError, match="has no row of group 2"):
        calibrate(classifier(step_size=PAPER), sensitive_features=rare)
    found = calibrate(sensitive_features=rare, repetitions=2, n_evaluation=20_000)
    assert found.table["coverage"].notna().all()
    assert found.warned["SmallGroup"] == 1.0


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_features_that_are_not_finite_are_refused(bad):
    X = SMALL.X.copy()
    X.iloc[7, 1] = bad
    apart = (X, SMALL.y, SMALL.sensitive)
    with pytest.raises(ValueError, match=r"(?i)nan|infinity"):
        sf.calibrate(sf.FairClassifier(), X, SMALL.y, sensitive_features=SMALL.sensitive)
    with pytest.raises(ValueError, match=r"(?i)constraint_set: .*(nan|infinity)"):
        calibrate(constraint_set=apart)


def test_a_constraint_set_of_another_width_is_refused():
    X = SMALL.X.to_numpy()
    apart = (X[:, :1], SMALL.y, SMALL.sensitive)
    with pytest.raises(ValueError, match="constraint_set: X has 1 features"):
        sf.calibrate(sf.FairClassifier(), X, SMALL.y, sensitive_features=SMALL.sensitive, constraint_set=apart)


def test_too_few_rows_or_replicates_are_refused():
    with pytest.raises(ValueError, match="9 rows are too few to stand for a population"):
        sf.calibrate(sf.FairClassifier(), np.ones((9, 1)), [0, 1, 0] * 3, sensitive_features=[0, 1, 1] * 3)
    with pytest.raises(ValueError, match="An interval needs replicates"):
        calibrate(sf.FairClassifier(n_replicates=0))
    with pytest.raises(ValueError, match="n_warmup must be a whole number"):
        calibrate(sf.FairClassifier(n_warmup=-1))
    with pytest.raises(TypeError, match="calibrate takes a FairClassifier or a BootstrapClassifier; received str"):
        calibrate("FairClassifier")
