"""Every planted violation raises its own warning, which says what to do; clean data raise hardly any."""

import json
import warnings
from collections import Counter

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from scipy.stats import binom, norm

import surefair as sf
from surefair import diagnostics
from surefair.diagnostics import (
    BoundaryConstraint,
    ChanceConstraint,
    CovarianceDisagreement,
    DegenerateReplicates,
    Diagnostic,
    FewRowsNearBoundary,
    PathTooShort,
    Runs,
    SeparableData,
    SmallConstraintSet,
    SmallEvaluationSet,
    StartNotForgotten,
    StepBias,
    StepTooLarge,
    StepTooSmall,
    TimeDependence,
    TooFewReplicates,
)

DI, DM = sf.datasets.SyntheticDI, sf.datasets.SyntheticDM


def found(call):
    """Names of the diagnostics of a call, with their messages, and its value."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        value = call()
    assert all(isinstance(one.message, Diagnostic) for one in caught), [str(one.message) for one in caught]
    return {type(one.message): str(one.message) for one in caught}, value


def fit(data, criterion="demographic_parity", n=4000, seed=0, n_replicates=100, constraint_set=None, **params):
    """A fit of the first rows of a stream."""
    rows = data(seed=seed).sample(n)
    clf = sf.FairClassifier(criterion, n_replicates=n_replicates, random_state=seed, **params)
    return clf.fit(rows.X, rows.y, sensitive_features=rows.sensitive, constraint_set=constraint_set)


def ask(clf, data, n=2000, seed=10_000, **how):
    rows = data(seed=seed).sample(n)
    return clf.fairness_interval(rows.X, rows.y, sensitive_features=rows.sensitive, **how)


# -- Clean data -------------------------------------------------------------------------------------------------------

CLEAN = {
    "parity": (DI, "demographic_parity", "log_loss", 4000),
    "parity, more rows": (DI, "demographic_parity", "log_loss", 8000),
    "parity, squared error": (DI, "demographic_parity", "squared_error", 4000),
    "false positives": (DM, "false_positive_rate", "log_loss", 6000),
    "false negatives, squared error": (DM, "false_negative_rate", "squared_error", 6000),
    "two rates": (DM, "equalized_odds", "log_loss", 6000),
    "free": (DM, None, "log_loss", 5000),
}


def test_clean_data_raise_hardly_any():
    alarms, n = Counter(), 0
    for data, criterion, loss, rows in CLEAN.values():
        for seed in range(20):

            def everything(data=data, criterion=criterion, loss=loss, rows=rows, seed=seed):
                clf = fit(data, criterion, rows, seed, loss=loss)
                clf.coef_interval()
                for source in ("total", "training", "retraining", "evaluation"):
                    ask(clf, data, 2000, 10_000 + seed, source=source)

            names, _ = found(everything)
            alarms.update(kind.__name__ for kind in names)
            alarms["any"] += bool(names)
            n += 1
    assert alarms["any"] <= binom.ppf(0.99, n, 0.05), alarms


# -- Planted: training ------------------------------------------------------------------------------------------------


def test_start_not_forgotten():
    clf = fit(DI, step_size=sf.PolynomialDecay(0.5, 0.501))
    with pytest.warns(StartNotForgotten, match="Train on more rows"):
        clf.coef_interval()
    with pytest.warns(StartNotForgotten):
        interval = ask(clf, DI)
    assert [one.split(":")[0] for one in interval.warnings] == ["StartNotForgotten"]
    assert json.loads(json.dumps(interval.to_dict()))["warnings"] == list(interval.warnings)
    assert not found(lambda: ask(clf, DI, source="evaluation"))[0]  # which is of the model as it is


def test_start_not_forgotten_where_simulations_know_it():
    """Nearly separable rows under a penalty, where averages are off by more than a standard deviation."""
    rows = DI(seed=777).sample(1000)
    apart, fired = (rows.X, rows.y, rows.sensitive), 0
    for seed in range(12):
        _, clf = found(lambda seed=seed: fit(DI, "false_positive_rate", 1000, seed, constraint_set=apart))
        fired += StartNotForgotten in found(clf.coef_interval)[0]
    assert fired >= 8


def test_predicted_bias_is_that_of_simulations():
    """Explicit steps from 0: the predicted bias of the average against its mean over fits, less the optimum."""
    population, steps, n = DI(seed=3).sample(100_000), sf.PolynomialDecay(0.003, 0.501), 4000
    rng, fits = np.random.default_rng(0), []
    X, y = np.asarray(population.X), np.asarray(population.y)
    for _ in range(30):
        i = rng.integers(0, len(y), n)
        clf = sf.FairClassifier(None, "squared_error", step_size=steps, n_replicates=0, alpha=0.0).fit(X[i], y[i])
        fits.append(np.append(clf.coef_, clf.intercept_))
    star = sf.theory.optimum(clf, X, y)
    X = np.column_stack([X, np.ones(len(X))])
    values, vectors = np.linalg.eigh(2.0 * X.T @ X / len(X))
    k = np.arange(clf.n_rows_ + 1.0)
    left = diagnostics.left_of_start(values, k, steps.total(k))
    predicted = vectors @ (left * (vectors.T @ -star))
    off, error = np.mean(fits, axis=0) - star, np.std(fits, axis=0, ddof=1) / np.sqrt(30)
    assert np.abs(predicted).max() > 20 * error.max()
    assert np.all(np.abs(off - predicted) < 4 * error + 0.05 * np.abs(predicted).max())


def test_step_too_small():
    clf = fit(DI, step_size=sf.PolynomialDecay(1e-4, 0.6))
    names, _ = found(clf.coef_interval)
    assert set(names) == {StepTooSmall, StartNotForgotten}
    assert "a larger eta0" in names[StepTooSmall]


def test_step_too_large():
    clf = fit(DM, None, step_size=sf.PolynomialDecay(20.0, 0.501))
    with pytest.warns(StepTooLarge, match=r"Replicates spread .* smaller eta0") as caught:
        clf.coef_interval()
    assert len(caught) == 1
    with pytest.warns(StepTooLarge, match="diverged"):
        clf = fit(DM, None, loss="squared_error", step_size=sf.PolynomialDecay(1e6, 0.501))
    with pytest.warns(StepTooLarge, match="diverged"):
        interval = ask(clf, DM)
    assert (interval.low, interval.high) == (0.0, 1.0)


def test_step_bias():
    """A few rows are far out, and does not follow the line of the others: damped steps hardly see it."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20_000, 2))
    far = rng.random(20_000) < 0.003
    y = np.where(X[:, 0] + rng.normal(size=20_000) > 0.0, 1, -1)
    X[far] *= 30.0
    clf = sf.FairClassifier(None, "squared_error", random_state=0, n_replicates=100)
    with pytest.warns(StepBias, match=r"make up for it.*more rows") as caught:
        clf.fit(X, y).coef_interval()
    assert len(caught) == 1
    assert not found(clf.fit(X[~far], y[~far]).coef_interval)[0]


def test_degenerate_replicates():
    rng = np.random.default_rng(0)
    X, y, group = rng.normal(size=(400, 1)), rng.integers(0, 2, 400), rng.integers(0, 2, 400)
    X[:, 0] += group
    with pytest.warns(DegenerateReplicates, match=r"fix the coefficients of all 1 features at 0.*Raise tolerance"):
        sf.FairClassifier(random_state=0).fit(X, y, sensitive_features=group)
    for seed in range(40):  # as many groups as features leave one free, whatever rounding makes of the rank
        rng = np.random.default_rng(seed)
        X, y, group = rng.normal(size=(1000, 3)), rng.integers(0, 2, 1000), rng.integers(0, 3, 1000)
        X += np.eye(3)[group]
        sf.FairClassifier(n_replicates=2, random_state=0).fit(X, y, sensitive_features=group)
    rows = DI(seed=0).sample(1400)
    apart = rows.X[:1000], rows.y[:1000], rows.sensitive[:1000]
    weight = np.eye(400)[200]
    clf = sf.FairClassifier(random_state=0)
    clf.fit(rows.X[1000:], rows.y[1000:], sensitive_features=rows.sensitive[1000:], constraint_set=apart,
            sample_weight=weight)  # fmt: skip
    with pytest.warns(DegenerateReplicates, match=r"Only 2 of 200 replicates are distinct.*more rows"):
        clf.coef_interval()


def test_degenerate_gap_and_few_rows_near_the_boundary():
    clf = fit(DI, n=20_000)
    names, interval = found(lambda: ask(clf, DI, 60, source="training"))
    assert set(names) == {FewRowsNearBoundary, DegenerateReplicates}
    assert "more evaluation rows" in names[FewRowsNearBoundary]
    assert "Pass more evaluation rows" in names[DegenerateReplicates]
    assert len(interval.warnings) == 2


def test_boundary_constraint():
    rows = DM(seed=777).sample(2000)
    apart, clf = (rows.X, rows.y, rows.sensitive), fit(DM, None, n=20_000, n_replicates=0)
    free = clf.decision_function(rows.X)
    group = np.asarray(rows.sensitive).astype(float)
    touched = float(abs(np.mean((group - group.mean()) * free)))
    with pytest.warns(BoundaryConstraint, match="smaller or larger tolerance"):
        fit(DM, n=20_000, constraint_set=apart, tolerance=touched).coef_interval()
    for times in (0.0, 0.5, 2.0):
        clf = fit(DM, n=20_000, constraint_set=apart, tolerance=times * touched)
        assert not found(clf.coef_interval)[0]


def test_covariance_disagreement():
    clf = fit(DI, step_size=sf.PolynomialDecay(20.0, 0.501), seed=3)
    with pytest.warns(CovarianceDisagreement, match="Train on more rows") as caught:
        clf.coef_interval()
    assert len(caught) == 1
    ones = np.ones(3)
    assert not diagnostics.check_covariance(ones, 1.2 * ones, 200)
    assert diagnostics.check_covariance(ones, 2.0 * ones, 200)
    assert not diagnostics.check_covariance(ones, 2.0 * ones, 5)  # too few to say


def test_path_of_the_average_tells_a_stream_that_drifts():
    """A coefficient that grows along the stream, which neither labels nor groups show; shuffled, rows raise nothing."""
    rng, n = np.random.default_rng(0), 20_000
    X = rng.normal(size=(n, 3))
    margin = X @ [1.0, 0.5, 0.0] + X[:, 0] * np.linspace(-0.5, 0.5, n)
    y, shuffled = rng.random(n) < 1.0 / (1.0 + np.exp(-margin)), rng.permutation(n)
    clf = sf.FairClassifier(None, n_replicates=100, random_state=0)
    with pytest.warns(TimeDependence, match=r"the stream drifts.*Shuffle the rows") as caught:
        clf.fit(X, y).coef_interval()
    assert len(caught) == 1
    with pytest.warns(TimeDependence, match="the stream drifts"):
        clf.fit(X[X[:, 2].argsort()], y[X[:, 2].argsort()]).coef_interval()
    assert not found(clf.fit(X[shuffled], y[shuffled]).coef_interval)[0]


def test_tail_of_the_path_is_that_of_brownian_bridges():
    """Mean squares of random walks tied at both ends, beyond which the check's law leaves 1 % or 0.1 %."""
    walks = np.random.default_rng(0).normal(size=(20_000, 200)).cumsum(axis=1) / np.sqrt(200)
    squares = np.mean((walks - walks[:, -1:] * np.arange(1, 201) / 200) ** 2, axis=1)
    for chance in (0.01, 0.001):
        sd = np.pi / norm.isf(chance / (2.0 * np.sqrt(2.0)))  # of scaling 1
        beyond = np.count_nonzero(np.sqrt(squares) * sd > 1.0)
        low, high = binom.ppf([0.005, 0.995], 20_000, chance)
        assert low <= beyond <= 1.1 * high


def test_random_scaling_says_when_it_is_too_narrow():
    clf = fit(DM, None, n_replicates=0)
    with pytest.warns(PathTooShort, match=r"too narrow as yet.*train on more") as caught:
        clf.coef_interval(method="random_scaling")
    assert not found(lambda: clf.coef_interval(method="plug_in"))[0]
    wanted = int(str(caught[0].message).split("about ")[1].split(" rows")[0].replace(",", ""))
    assert not found(lambda: fit(DM, None, n=int(1.3 * wanted), n_replicates=0).coef_interval(method="random_scaling"))[
        0
    ]


@pytest.mark.parametrize("kind", ["no replicates", "sparse", "float32"])
def test_fits_without_replicates_or_trace_warn_too(kind):
    """Of the start by the sandwich; where the pass keeps no moments, those of the constraint set serve."""
    rows, more, method = DM(seed=0).sample(6000), {"n_replicates": 50}, "normal"
    X = np.asarray(rows.X)
    if kind == "no replicates":
        more, method = {"n_replicates": 0}, "plug_in"
    elif kind == "float32":
        more["dtype"] = "float32"
    else:
        X = csr_matrix(X)
    for step_size, expected in ((sf.PolynomialDecay(1e-5, 0.6), {StepTooSmall, StartNotForgotten}), ("auto", set())):
        clf = sf.FairClassifier(None, "squared_error", step_size=step_size, random_state=0, **more).fit(X, rows.y)
        assert set(found(lambda clf=clf: clf.coef_interval(method=method))[0]) == expected


def test_few_replicates_do_not_raise_the_others():
    """Standard deviations of two replicates are often tiny: their own uncertainty is allowed for."""
    kinds = Counter()
    for seed in range(40):
        clf = fit(DI, n=5000, n_replicates=2, seed=seed)
        kinds.update([*found(lambda clf=clf: clf.coef_interval(method="cheap"))[0]])
    assert sum(kinds.values()) <= binom.ppf(0.99, 40, 0.05)


# -- Planted: data ----------------------------------------------------------------------------------------------------


def test_small_constraint_set():
    rows = DI(seed=0).sample(500)
    with pytest.warns(SmallConstraintSet, match=r"group 1 has \d+; 30 or more.*raise n_constraint") as caught:
        fit(DI, "demographic_parity", 4000, constraint_set=(rows.X[:50], rows.y[:50], rows.sensitive[:50]))
    assert caught[0].filename == __file__
    clf = sf.FairClassifier("false_positive_rate", n_constraint=400, random_state=0, loss="squared_error")
    clf.partial_fit(rows.X[:300], rows.y[:300], sensitive_features=rows.sensitive[:300])
    with pytest.warns(SmallConstraintSet, match="that the criterion looks at, group 1 has"):
        clf.partial_fit(rows.X[300:], rows.y[300:], sensitive_features=rows.sensitive[300:])
    clf.partial_fit(rows.X, rows.y, sensitive_features=rows.sensitive)  # once


def test_small_evaluation_set():
    clf = fit(DI)
    with pytest.warns(SmallEvaluationSet, match="Pass more evaluation rows"):
        ask(clf, DI, 60)
    y, group = [0, 1] * 100, ["a"] * 180 + ["b"] * 20
    with pytest.warns(SmallEvaluationSet, match="group 'b' has 20, 10 of them") as caught:
        interval = sf.fairness_interval(y, y, sensitive_features=group)
    assert caught[0].filename == __file__
    assert interval.warnings[0].startswith("SmallEvaluationSet: ")
    assert interval != sf.fairness_interval(y, y, sensitive_features=["a", "a", "b", "b"] * 50)


def test_separable_data():
    rows = DI(seed=0).sample(4000)
    margin = np.asarray(rows.X) @ [1.0, -1.0]
    told, rare = np.abs(margin) > 0.3, np.random.default_rng(0).random(4000) < 0.01
    for X, y in ((rows.X, rows.y), (rows.X[told], margin[told] > 0.0), (rows.X, rows.X["x1"] > 0.0)):
        for step_size in ("auto", sf.PolynomialDecay(0.5, 0.6)):
            with pytest.warns(SeparableData, match="Raise alpha"):
                sf.FairClassifier(None, step_size=step_size, n_replicates=2, random_state=0).fit(X, y)
        sf.FairClassifier(None, "squared_error", random_state=0).fit(X, y)
    sf.FairClassifier(None, random_state=0).fit(rows.X, rare)  # certain, but not told by the features


def test_chance_constraint():
    """Groups that mean nothing: parity holds already, and a constraint of tolerance 0 only costs accuracy."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4000, 3))
    y, group = X[:, 0] + rng.normal(size=4000) > 0.0, rng.integers(0, 2, 4000)
    for step_size in ("auto", sf.PolynomialDecay(0.5, 0.6)):
        clf = sf.FairClassifier(n_replicates=2, random_state=0, step_size=step_size)
        with pytest.warns(ChanceConstraint, match=r"groups \(p = .*Raise tolerance"):
            clf.fit(X, y, sensitive_features=group)
        X[:, 1] += group
        clf.fit(X, y, sensitive_features=group)
        X[:, 1] -= group
    wide = sf.FairClassifier(tolerance=1.0, n_replicates=2, random_state=0)
    assert not found(lambda: wide.fit(X, y, sensitive_features=group))[0]


def test_too_few_replicates():
    with pytest.warns(TooFewReplicates, match="Use method='cheap'"):
        fit(DI, n_replicates=20).coef_interval()


# -- Planted: order ---------------------------------------------------------------------------------------------------


def stream(n=4000, by=None, seed=0):
    """Rows, of which all but the first thousand are sorted."""
    rows = DI(seed=seed).sample(n)
    X, y, group = np.asarray(rows.X), np.asarray(rows.y), np.asarray(rows.sensitive)
    if by is not None:
        order = np.r_[:1000, 1000 + np.argsort((y if by == "label" else group)[1000:], kind="stable")]
        X, y, group = X[order], y[order], group[order]
    return X, y, group


@pytest.mark.parametrize("by", ["label", "group"])
def test_time_dependence(by):
    X, y, group = stream(by=by)
    words = r"labels change .* times.*shuffle" if by == "label" else r"groups of 'sex' change .* times.*shuffle"
    with pytest.warns(TimeDependence, match=words):
        clf = sf.FairClassifier(random_state=0, n_replicates=50).fit(X, y, sensitive_features={"sex": group})
    names, interval = found(lambda: ask_sex(clf))
    assert TimeDependence in names
    assert any(one.startswith("TimeDependence: ") for one in interval.warnings)


def ask_sex(clf):
    X, y, group = stream(2000, seed=1)
    return clf.fairness_interval(X, y, sensitive_features={"sex": group})


def test_clumps_that_are_short_are_found_and_weak_ones_left_alone():
    rng = np.random.default_rng(0)
    for length, raised in ((1, False), (3, True)):
        label = np.repeat(rng.integers(0, 2, 6000 // length), length)
        runs = Runs.of(0).after(label, np.zeros((6000, 0), dtype=np.int64))
        assert bool(diagnostics.check_order(runs, (), [])) == raised


def test_changes_are_counted_over_batches_saved_and_merged(tmp_path):
    X, y, group = stream(4000)
    whole = sf.FairClassifier(random_state=0, n_replicates=2)
    whole.partial_fit(X, y, sensitive_features=group)
    parts = sf.FairClassifier(random_state=0, n_replicates=2)
    for low in range(0, 4000, 77):
        part = slice(low, low + 77)
        parts.partial_fit(X[part], y[part], sensitive_features=group[part])
        if low == 770:
            sf.save(parts, tmp_path / "clf.npz")
            parts = sf.load(tmp_path / "clf.npz")
    expected = [3999, 3999], [np.count_nonzero(np.diff(y)), np.count_nonzero(np.diff(group))]
    for clf in (whole, parts):
        assert (clf._runs.pairs.tolist(), clf._runs.changes.tolist()) == expected
        assert clf._runs.labels.tolist() == [np.count_nonzero(y < 0), np.count_nonzero(y > 0)]

    apart = X[:1000], y[:1000], group[:1000]
    shards = []
    for part in (slice(1000, 2500), slice(2500, 4000)):
        clf = sf.FairClassifier(random_state=part.start, n_replicates=2)
        shards.append(clf.partial_fit(X[part], y[part], sensitive_features=group[part], constraint_set=apart))
    both = shards[0].merge(shards[1])
    assert both._runs.pairs.tolist() == [2998, 2998]
    assert both._runs.changes[0] == np.count_nonzero(np.diff(y[1000:2500])) + np.count_nonzero(np.diff(y[2500:]))
    assert both._runs.last.tolist() == [-1, -1]


@pytest.mark.filterwarnings("ignore::surefair.diagnostics.SeparableData")
def test_changes_survive_new_groups_and_rows_without_groups():
    X, y, _ = stream(600)
    group = np.array(["m", "n"] * 300)
    clf = sf.FairClassifier(None, random_state=0, n_replicates=2, n_constraint=100)
    clf.partial_fit(X[:200], y[:200], sensitive_features=group[:200])
    late = np.r_[["n", "a", "a"], group[203:400]]  # "n" was the last; "a" comes before it, and moves its code
    clf.partial_fit(X[200:400], y[200:400], sensitive_features=late)
    clf.partial_fit(X[400:], y[400:])
    everything = np.r_[group[:200], late]
    assert clf._runs.pairs.tolist() == [599, 399]
    assert clf._runs.changes[1] == np.count_nonzero(everything[1:] != everything[:-1])
    assert clf._runs.last[1] == -1
