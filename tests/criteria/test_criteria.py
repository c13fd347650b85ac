from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import surefair as sf
from surefair.criteria import CRITERIA, Criterion, Members, Slabs, SquaredPenalty, check_names, linearise

# -- Rates ----------------------------------------------------------------------------------------------------------

DEFINITIONS = {
    "selection_rate": lambda truth, decision: decision.mean(),
    "false_positive_rate": lambda truth, decision: decision[truth == 0].mean(),
    "false_negative_rate": lambda truth, decision: 1.0 - decision[truth == 1].mean(),
    "true_positive_rate": lambda truth, decision: decision[truth == 1].mean(),
    "false_discovery_rate": lambda truth, decision: 1.0 - truth[decision == 1].mean(),
    "false_omission_rate": lambda truth, decision: truth[decision == 0].mean(),
    "error_rate": lambda truth, decision: np.mean(truth != decision),
    "true_negative_rate": lambda truth, decision: 1.0 - decision[truth == 0].mean(),
    "precision": lambda truth, decision: truth[decision == 1].mean(),
    "accuracy": lambda truth, decision: np.mean(truth == decision),
    "base_rate": lambda truth, decision: truth.mean(),
}
COMPARED = {  # rates that differences compare, and rates that ratios compare if they are not the same
    "demographic_parity": (["selection_rate"], []),
    "false_positive_rate": (["false_positive_rate"], []),
    "false_negative_rate": (["false_negative_rate"], []),
    "false_discovery_rate": (["false_discovery_rate"], []),
    "false_omission_rate": (["false_omission_rate"], []),
    "error_rate": (["error_rate"], []),
    "true_positive_rate": (["true_positive_rate"], []),
    "true_negative_rate": (["true_negative_rate"], []),
    "precision": (["precision"], []),
    "accuracy": (["accuracy"], []),
    "base_rate": (["base_rate"], []),
    "equalized_odds": (["false_positive_rate", "false_negative_rate"], ["false_positive_rate", "true_positive_rate"]),
}


def test_this_file_defines_every_criterion():
    assert set(CRITERIA) == set(COMPARED)


@pytest.mark.parametrize("name", COMPARED)
def test_a_criterion_compares_the_rates_that_its_name_says(name):
    criterion = CRITERIA[name]
    found = tuple([rate.name for rate in rates] for rates in (criterion.rates, criterion.ratio_rates))
    assert found == COMPARED[name]


@pytest.mark.parametrize("name", COMPARED)
def test_rates_equal_their_definitions(name):
    rng = np.random.default_rng(3)
    truth, decision = rng.integers(2, size=(2, 50))
    counts = np.array([[[np.sum((truth == t) & (decision == d)) for d in (0, 1)] for t in (0, 1)]])
    for rate in CRITERIA[name].rates + CRITERIA[name].ratio_rates:
        np.testing.assert_allclose(rate.of(counts), [DEFINITIONS[rate.name](truth, decision)])


# -- Forms ----------------------------------------------------------------------------------------------------------


def penalty_on(seed, m=40, D=3):
    rng = np.random.default_rng(seed)
    X, y, group = rng.normal(size=(m, D)), 2.0 * rng.integers(2, size=m) - 1.0, rng.integers(2, size=m)
    members = Members(group[:, None], (2,), np.ones(m))
    form = SquaredPenalty.on(X, y, members, CRITERIA["error_rate"].rates)
    return form, (X, y, group - group.mean()), rng.normal(size=D)


@given(seed=st.integers(0, 2**32 - 1))
def test_gradient_of_the_penalty_is_the_slope_of_g(seed):
    form, (X, y, z), theta = penalty_on(seed)

    def g(theta):
        return np.mean(z * np.minimum(0.0, y * (X @ theta)))

    (((value,),), gradient) = linearise(form, theta[:, None], None)
    gradient = gradient[0, :, 0]
    assert value == pytest.approx(g(theta), abs=1e-13)
    assert gradient @ theta == pytest.approx(g(theta), abs=1e-13)
    h = 1e-4 * np.abs(form.rows @ theta).min() / np.abs(form.rows).max()  # too short to reach a kink
    slopes = [(g(theta + h * e) - g(theta - h * e)) / (2.0 * h) for e in np.eye(3)]
    np.testing.assert_allclose(gradient, slopes, atol=1e-14 / h)


@pytest.mark.parametrize("name", [name for name, c in CRITERIA.items() if c.form not in (Slabs, None)])
def test_rows_on_a_kink_have_no_gradient(name):
    _, (X, y, z), _ = penalty_on(0)
    form = CRITERIA[name].constrain(X, y, Members((z > 0.0).astype(int)[:, None], (2,), np.ones(len(y))))
    for found in linearise(form, np.zeros((3, 4)), None):
        assert np.array_equal(found, np.zeros_like(found))


@given(seed=st.integers(0, 2**32 - 1))
def test_the_error_of_a_rounded_kink_is_bounded_by_its_sharpness(seed):
    form, _, theta = penalty_on(seed)
    kinked, rounded = (linearise(form, theta[:, None], sharpness)[0] for sharpness in (None, 50.0))
    assert np.abs(kinked - rounded).max() <= np.abs(form.weights).sum() * np.log(2.0) / 50.0


def test_a_slab_measures_the_covariance_of_group_and_score():
    rng = np.random.default_rng(1)
    X, group, theta = rng.normal(size=(50, 3)), rng.integers(2, size=50), rng.normal(size=3)
    slabs = Slabs.on(X, np.ones(50), Members(group[:, None], (2,), np.ones(50)), CRITERIA["demographic_parity"].rates)
    np.testing.assert_allclose(slabs.vectors @ theta, [np.cov(group, X @ theta, ddof=0)[0, 1]])


def test_each_of_three_groups_has_a_slab_and_so_has_each_sensitive_column():
    rng = np.random.default_rng(2)
    X, theta = rng.normal(size=(60, 3)), rng.normal(size=3)
    codes = np.stack([rng.integers(3, size=60), rng.integers(2, size=60)], axis=1)
    slabs = CRITERIA["demographic_parity"].constrain(X, np.ones(60), Members(codes, (3, 2), np.ones(60)))
    memberships = [codes[:, 0] == 0, codes[:, 0] == 1, codes[:, 0] == 2, codes[:, 1]]
    np.testing.assert_allclose(slabs.vectors @ theta, [np.cov(z, X @ theta, ddof=0)[0, 1] for z in memberships])


# -- Measure-only criteria ------------------------------------------------------------------------------------------


def test_a_criterion_without_a_form_can_be_measured_but_not_constrain():
    criterion = replace(CRITERIA["error_rate"], name="mistakes", form=None)
    assert CRITERIA["error_rate"].can_constrain
    assert not criterion.can_constrain
    assert criterion == Criterion("mistakes", criterion.rates)
    members = Members(np.array([[0], [1]]), (2,), np.ones(2))
    words = "'mistakes' can only be measured.*Train with another criterion.*pass metric='mistakes' to fairness_interval"
    with pytest.raises(ValueError, match=words):
        criterion.constrain(np.eye(2), np.array([1.0, -1.0]), members)
    decisions = np.array([0, 1, 1, 0]), np.array([0, 1, 0, 1])
    found = sf.fairness_interval(*decisions, sensitive_features=[0, 0, 1, 1], metric=criterion, random_state=0)
    assert found.gap == -1.0


def test_a_criterion_has_the_name_of_its_file():
    with pytest.raises(ValueError, match=r"The criterion in criteria/accuracy.py is called 'error_rate'. Give both"):
        check_names({"accuracy": CRITERIA["error_rate"]})
    assert list(CRITERIA) == [criterion.name for criterion in CRITERIA.values()]


# -- A new criterion is one new file --------------------------------------------------------------------------------

NEW_CRITERION = '''"""True-negative rate: truly negative rows are rejected equally often in all groups."""

from surefair.criteria._criterion import Criterion, Rate
from surefair.criteria._forms import SquaredPenalty

CRITERION = Criterion(
    name="scratch_rate",
    rates=(
        Rate(
            name="scratch_rate",
            words="share of negative decisions among the truly negative",
            numerator=((0, 0),),
            denominator=((0, 0), (0, 1)),
        ),
    ),
    form=SquaredPenalty,
)
'''

MEASURE_ONLY = NEW_CRITERION.replace("scratch_rate", "scratch_measure").replace("    form=SquaredPenalty,\n", "")

USE = """
import surefair as sf
assert "scratch_rate" in sf.CRITERIA, sf.__file__
data = sf.datasets.SyntheticDM(seed=0).sample(600)
clf = sf.FairClassifier("scratch_rate", random_state=0, n_replicates=20)
clf.fit(data.X, data.y, sensitive_features=data.sensitive)
print(clf.fairness_interval(data.X, data.y, sensitive_features=data.sensitive).gap)
print(clf.fairness_interval(data.X, data.y, sensitive_features=data.sensitive, metric="scratch_measure").gap)
"""


@pytest.fixture(scope="module")
def scratch(tmp_path_factory):
    """A copy of the package, with its compiled code, one new criterion and one that is measure-only."""
    package = tmp_path_factory.mktemp("scratch") / "surefair"
    shutil.copytree(Path(sf.__file__).parent, package)
    (package / "criteria" / "scratch_rate.py").write_text(NEW_CRITERION)
    (package / "criteria" / "scratch_measure.py").write_text(MEASURE_ONLY)
    return package


def run_in(scratch, *args):
    env = os.environ | {"PYTHONPATH": str(scratch.parent)}
    done = subprocess.run([sys.executable, *args], env=env, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_registry_and_the_classifier_find_a_new_file(scratch):
    gap, same = map(float, run_in(scratch, "-c", USE).split())
    data = sf.datasets.SyntheticDM(seed=0).sample(600)
    clf = sf.FairClassifier("false_positive_rate", random_state=0, n_replicates=20)
    clf.fit(data.X, data.y, sensitive_features=data.sensitive)
    mirror = clf.fairness_interval(data.X, data.y, sensitive_features=data.sensitive)
    assert gap == pytest.approx(-mirror.gap)  # a truly negative row is either a true negative or a false positive
    assert same == gap


@pytest.mark.slow
def test_the_laws_find_a_new_file(scratch):
    laws = Path(__file__).parents[1] / "laws"
    laws_of_both = "(scratch_rate or scratch_measure) and (rates or registry)"
    chosen = f"{laws_of_both} or scratch_rate and squared_error and (batches or edge or swapping or merge)"
    out = run_in(scratch, "-m", "pytest", str(laws), "-q", "-p", "no:cacheprovider", "-k", chosen)
    assert "passed" in out
