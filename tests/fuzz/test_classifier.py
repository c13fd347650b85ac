"""Random configurations either train, with bit-identical results over batch cuts, or say what is wrong."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_matrix

from surefair import CRITERIA, FairClassifier, PolynomialDecay

classifiers = st.builds(
    FairClassifier,
    criterion=st.sampled_from([*CRITERIA, None]),
    loss=st.sampled_from(["log_loss", "squared_error"]),
    surrogate=st.sampled_from(["decisions", "scores"]),
    tolerance=st.sampled_from([0.0, 1e-3, 0.5]),
    penalty=st.sampled_from([None, None, 1.0, 300.0]),
    alpha=st.sampled_from([0.0, 1e-4, 10.0]),
    step_size=st.sampled_from(["auto", PolynomialDecay(0.1, 0.6)]),
    n_replicates=st.sampled_from([0, 1, 7, 70]),
    multiplier=st.sampled_from(["two_point", "uniform", "exponential", "normal", "poisson"]),
    n_warmup=st.sampled_from([1, 20, 60, 4000]),
    fit_intercept=st.booleans(),
    intersections=st.booleans(),
    sharpness=st.sampled_from([None, 5.0]),
    dtype=st.sampled_from(["float64", "float32"]),
    random_state=st.integers(0, 9),
)


@st.composite
def rows(draw):
    """Draw arguments of ``partial_fit`` for all rows: features, labels, groups and weights."""
    n = draw(st.integers(1, 300))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    X = draw(st.sampled_from([1e-9, 1.0, 1e6])) * rng.normal(size=(n, draw(st.integers(1, 6))))
    X[:, 0] *= draw(st.sampled_from([0.0, 1.0, 1e-6]))
    groups = {name: rng.integers(draw(st.integers(1, 5)), size=n) for name in draw(st.sampled_from(["", "a", "ab"]))}
    weight = draw(st.sampled_from([np.ones(n), rng.exponential(size=n), rng.integers(2, size=n).astype(float)]))
    return {
        "X": csr_matrix(X) if draw(st.booleans()) else X,
        "y": (X[:, -1] + draw(st.sampled_from([0.0, 1.0, 1e9])) * rng.normal(size=n) > 0.0).astype(int),
        "sensitive_features": groups or None,
        "sample_weight": draw(st.sampled_from([None, weight])),
    }


def part(given, low, high):
    """Rows low, …, high - 1."""
    groups = given["sensitive_features"]
    columns = {name: None if given[name] is None else given[name][low:high] for name in ("X", "y", "sample_weight")}
    return columns | {"sensitive_features": groups and {name: group[low:high] for name, group in groups.items()}}


def trained(clf, data, cuts, constraint_set):
    """Train on batches that end at the cuts, and return all that was learnt, or the error."""
    first = {"classes": [0, 1]} | ({"constraint_set": constraint_set} if constraint_set else {})
    try:
        for low, high in pairwise([0, *sorted(cuts), len(data["y"])]):
            clf.partial_fit(**part(data, low, high), **(first if low == 0 else {}))
        return [np.array(found) for found in (clf.coef_, clf.intercept_, *replicates(clf))]
    except ValueError as error:
        return error


def replicates(clf):
    return (clf.coef_replicates_, clf.intercept_replicates_) if clf.n_replicates else ()


def is_finite(arrays):
    return all(np.isfinite(array).all() for array in arrays)


def assert_explains(error):
    message = str(error)
    assert message.endswith((".", "?"))
    assert len(message.split()) > 4


@given(clf=classifiers, data=rows(), given_set=st.none() | rows(), random=st.data())
def test_a_classifier_trains_or_explains(clf, data, given_set, random):
    n = len(data["y"])
    cuts = random.draw(st.sets(st.integers(1, n - 1), max_size=4)) if n > 1 else set()
    constraint_set = given_set and (given_set["X"], given_set["y"], given_set["sensitive_features"])
    with np.errstate(all="ignore"):  # explicit steps on large features diverge
        whole = trained(clf, data, [], constraint_set)
    if clf.step_size != "auto" and not isinstance(whole, ValueError) and not is_finite(whole):
        return
    again = FairClassifier(**clf.get_params())
    pieces = trained(again, data, cuts, constraint_set)
    if isinstance(whole, ValueError):
        assert_explains(whole)
        assert isinstance(pieces, ValueError)
        return
    assert is_finite(whole)
    assert [found.tobytes() for found in pieces] == [found.tobytes() for found in whole]
    question = {name: data[name] for name in ("X", "y", "sensitive_features", "sample_weight")}
    try:
        interval = clf.fairness_interval(**question, source=random.draw(st.sampled_from(["training", "evaluation"])))
    except ValueError as error:
        assert_explains(error)
    else:
        assert 0.0 <= interval.low <= interval.high or np.isnan(interval.estimate)
