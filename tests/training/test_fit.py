from __future__ import annotations

import numpy as np
import pytest

import surefair as sf

X = np.random.default_rng(0).normal(size=(100, 2))
Y = np.arange(100) % 2
Z = np.arange(100) // 2 % 2


@pytest.mark.parametrize("criterion", ["demographic_parity", None])
@pytest.mark.parametrize("more", [{}, {"constraint_set": (X, Y, Z)}], ids=["from the first rows", "given"])
@pytest.mark.parametrize("step_size", ["auto", sf.PolynomialDecay(0.5, 0.6)], ids=["auto", "decay"])
def test_a_fixed_constraint_refuses_single_precision(criterion, step_size, more):
    clf = sf.FairClassifier(criterion, step_size=step_size, dtype="float32")
    with pytest.raises(
        ValueError, match=r"'float32' does not work with a constraint that .* fixes\. Use dtype='float64'"
    ):
        clf.fit(X, Y, sensitive_features=Z, **more)
    assert not hasattr(clf, "classes_")


@pytest.mark.parametrize("dtype", ["float16", "single", np.float32, None])
def test_an_unknown_dtype_is_refused(dtype):
    with pytest.raises(ValueError, match=r"Unknown dtype: .* Known: 'float64', 'float32'"):
        sf.FairClassifier(dtype=dtype).fit(X, Y)
