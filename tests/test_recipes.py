"""The recipes in the docs do what they say."""

from __future__ import annotations

import re
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.neural_network import MLPClassifier

import surefair as sf

GUIDE = Path(__file__).parents[1] / "docs" / "guide"
RECIPES = "".join((GUIDE / name).read_text(encoding="utf-8") for name in ("ci.md", "learners.md"))


def block(language, containing):
    """The code block of a language with these words."""
    return next(one for one in re.findall(rf"```{language}\n(.*?)```", RECIPES, re.DOTALL) if containing in one)


def predictions(folder, n, gap):
    """A file of predictions of an old model without a gap, and a new one with this gap."""
    rng = np.random.default_rng(0)
    sex, age = rng.choice(["f", "m"], n), rng.choice(["old", "young"], n)
    u = rng.random(n)
    decision = (u < 0.4 + gap * (sex == "m")).astype(int)
    old = (u < 0.4).astype(int)
    pd.DataFrame({"sex": sex, "age": age, "decision": decision, "old": old, "new": decision}).to_csv(
        folder / "predictions.csv", index=False
    )


@pytest.mark.parametrize(
    ("n", "gap", "ends"), [(20_000, 0.0, None), (20_000, 0.2, AssertionError), (200, 0.0, pytest.skip.Exception)]
)
def test_the_pytest_recipe_passes_fails_and_skips(tmp_path, monkeypatch, n, gap, ends):
    predictions(tmp_path, n, gap)
    monkeypatch.chdir(tmp_path)
    recipe = {}
    exec(block("python", "pytest.mark.parametrize"), recipe)
    test = recipe["test_selection_rates_stay_within_the_margin"]
    with nullcontext() if ends is None else pytest.raises(ends, match="unfairness is"):
        test("sex")


def test_the_shell_recipe_stops_a_model_that_is_more_unfair(tmp_path):
    predictions(tmp_path, 5_000, 0.2)
    command = f"{sys.executable} -c 'from surefair.cli import main; main()'"
    script = block("sh", "code=$?").replace("surefair compare", f"{command} compare")
    done = subprocess.run(["sh", "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "The old model is less unfair" in done.stdout
    assert (tmp_path / "comparison" / "comparison.html").exists()


@pytest.mark.filterwarnings("ignore")  # so short a training does not converge
def test_the_last_layer_of_a_frozen_network_is_learnt_at_once_and_as_a_stream():
    body, train, test = (sf.datasets.SyntheticDM(seed=seed).sample(n) for seed, n in ((0, 500), (1, 1_500), (2, 1_000)))
    network = MLPClassifier((4,), max_iter=40, random_state=0).fit(body.X, body.y)
    recipe = {}
    exec(block("python", "HiddenLayer"), recipe)
    X, y, z = np.asarray(train.X), train.y, train.sensitive
    settings = {"tolerance": 0.05, "n_replicates": 20, "n_warmup": 300, "random_state": 0}
    whole = recipe["last_layer"](network, X, y, z, **settings)
    batches = [(X[i : i + 500], y[i : i + 500], z[i : i + 500]) for i in range(0, 1_500, 500)]
    stream = recipe["stream_last_layer"](network, batches, **settings)
    hidden = whole[:-1].transform(test.X)
    plain = 1.0 / (1.0 + np.exp(-(hidden @ network.coefs_[-1] + network.intercepts_[-1])))[:, 0]
    assert np.allclose(plain, network.predict_proba(test.X)[:, 1])
    for pipe in (whole, stream):
        found = pipe[-1].fairness_interval(hidden, test.y, sensitive_features=test.sensitive)
        assert found.estimate < 0.25
        assert pipe.score(test.X, test.y) > 0.6
