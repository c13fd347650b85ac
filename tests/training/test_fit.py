from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_matrix

import surefair as sf

X = np.random.default_rng(0).normal(size=(100, 2))
Y = np.arange(100) % 2
Z = np.arange(100) // 2 % 2


DECAY = sf.PolynomialDecay(0.5, 0.6)
APART = {"constraint_set": (X, Y, Z)}
each_fixed = pytest.mark.parametrize(
    ("step_size", "more"), [("auto", APART), (DECAY, APART), (DECAY, {})], ids=["given", "given, decay", "decay"]
)


@each_fixed
@pytest.mark.parametrize("criterion", ["demographic_parity", None])
def test_a_fixed_constraint_refuses_single_precision(criterion, step_size, more):
    clf = sf.FairClassifier(criterion, step_size=step_size, dtype="float32")
    with pytest.raises(ValueError, match=r"fixes, as in the paper, is for double precision; received dtype='float32'"):
        clf.fit(X, Y, sensitive_features=Z, **more)
    assert not hasattr(clf, "classes_")


@each_fixed
@pytest.mark.parametrize("criterion", ["demographic_parity", None])
def test_a_fixed_constraint_refuses_sparse_rows(criterion, step_size, more):
    clf = sf.FairClassifier(criterion, step_size=step_size)
    message = r"as in the paper, is for dense rows; received a sparse matrix of shape \(100, 2\).*X\.toarray\(\)"
    with pytest.raises(ValueError, match=message):
        clf.fit(csr_matrix(X), Y, sensitive_features=Z, **more)
    assert not hasattr(clf, "classes_")


def test_a_constraint_set_may_not_be_sparse_either():
    with pytest.raises(ValueError, match=r"constraint_set: .* is for dense rows"):
        sf.FairClassifier().fit(X, Y, sensitive_features=Z, constraint_set=(csr_matrix(X), Y, Z))


@pytest.mark.parametrize("dtype", ["float16", "single", np.float32, None])
def test_an_unknown_dtype_is_refused(dtype):
    with pytest.raises(ValueError, match=r"Unknown dtype: .* Known: 'float64', 'float32'"):
        sf.FairClassifier(dtype=dtype).fit(X, Y)
