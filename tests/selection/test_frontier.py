"""A frontier: the same models as separate fits, bands that are wider than intervals, the best point, and bad input."""

from __future__ import annotations

import json
from dataclasses import replace

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

import surefair as sf
from surefair.cli import main
from surefair.plotting import FrontierDisplay

pytestmark = pytest.mark.filterwarnings("ignore::surefair.diagnostics.Diagnostic")

DATA = sf.datasets.SyntheticDM(seed=0).sample(1_500)
TEST = sf.datasets.SyntheticDM(seed=1).sample(1_000)
TOLERANCES = [0.05, 0.2, 0.0]


def make(**params):
    return sf.FairClassifier(**{"n_replicates": 40, "random_state": 0} | params)


def run(clf=None, **more):
    return sf.frontier(make() if clf is None else clf, DATA.X, DATA.y, sensitive_features=DATA.sensitive, **more)


@pytest.fixture(scope="module")
def found():
    return run(tolerances=TOLERANCES, evaluation_set=(TEST.X, TEST.y, TEST.sensitive))


def test_points_are_the_models_of_separate_fits(found):
    assert [point.tolerance for point in found.points] == [None, 0.2, 0.05, 0.0]
    for point in found.points:
        alone = make(criterion=None) if point.tolerance is None else make(tolerance=point.tolerance)
        alone.fit(DATA.X, DATA.y, sensitive_features=DATA.sensitive)
        same = found.classifier(point.tolerance)
        assert np.allclose(same.coef_, alone.coef_, rtol=1e-4, atol=1e-5)
        interval = alone.fairness_interval(TEST.X, TEST.y, sensitive_features=TEST.sensitive,
                                           metric="demographic_parity")  # fmt: skip
        assert point.interval.estimate == pytest.approx(interval.estimate, abs=2e-3)
        assert point.accuracy.estimate == pytest.approx(alone.score(TEST.X, TEST.y), abs=2e-3)


def test_bands_are_wider_than_intervals_and_differences_narrower(found):
    free = found.points[0]
    for point in found.points:
        assert point.low <= point.interval.low <= point.interval.estimate <= point.interval.high <= point.high
        assert point.accuracy_band[0] <= point.accuracy.low < point.accuracy.high <= point.accuracy_band[1]
    last = found.points[-1]
    assert last.change.low <= last.change.estimate <= last.change.high < 0.0
    assert last.change.estimate == pytest.approx(last.interval.estimate - free.interval.estimate)
    near = found.points[1]
    assert near.cost.high - near.cost.low < near.accuracy.high - near.accuracy.low


def test_the_best_point_meets_the_margin_and_is_the_most_accurate(found):
    assert found.best(0.99).tolerance is None or found.best(0.99).accuracy.estimate >= found.points[0].accuracy.estimate
    assert found.best(0.001) is None
    margin = found.points[2].high + 1e-6
    best = found.best(margin)
    assert best.high <= margin
    assert all(p.accuracy.estimate <= best.accuracy.estimate for p in found.points if p.high <= margin)


def test_results_are_values(found, tmp_path):
    assert "all 4 models together" in found.sentence
    assert len(found.to_frame()) == 4
    assert "no constraint" in found._repr_html_()
    found.to_json(tmp_path / "frontier.json")
    content = json.loads((tmp_path / "frontier.json").read_text())
    assert content["format"] == "surefair.Frontier"
    assert [one["tolerance"] for one in content["points"]] == [None, 0.2, 0.05, 0.0]
    found.to_html(tmp_path / "frontier.html", margin=0.9)
    page = (tmp_path / "frontier.html").read_text()
    assert "Best model that meets the margin" in page
    assert "http://" not in page.replace("http://www.w3.org", "")
    ax = FrontierDisplay(found).plot(margin=0.5).ax_
    assert ax.get_ylabel() == "accuracy"
    labels = [text.get_text() for text in ax.texts]
    assert sorted(", ".join(labels).split(", ")) == ["0", "0.05", "0.2", "free"]
    one = replace(found, points=[found.points[0], *[found.points[1]._replace(tolerance=t) for t in (0.3, 0.2)]])
    assert [text.get_text() for text in FrontierDisplay(one).plot().ax_.texts] == ["free", "0.3, 0.2"]
    plt.close("all")


def test_rows_are_held_out_and_tolerances_chosen_by_default():
    clf = make()
    found = run(clf)
    assert (found.n_training, found.n) == (1_050, 450)
    tolerances = [point.tolerance for point in found.points[1:]]
    assert len(tolerances) == 6
    assert tolerances == sorted(tolerances, reverse=True)
    assert tolerances[-1] == 0.0
    assert not hasattr(clf, "model_")
    again = run(source="evaluation", tolerances=[0.1])
    assert "these very models" in again.sentence


@pytest.mark.parametrize(
    ("tolerances", "words"),
    [([0.1, 0.1], "0.1 is there 2 times"), ([1.0], "received 1"), ([-0.1], "received -0.1"), ([], "1 to 50"),
     (["a"], "list of numbers"), ([float("nan")], "received nan")],
)  # fmt: skip
def test_bad_tolerances_are_refused(tolerances, words):
    with pytest.raises(ValueError, match=words):
        run(tolerances=tolerances)


def test_classifiers_without_a_path_are_refused():
    for clf in (make(criterion=None), make(penalty=1.0), make(step_size=sf.PolynomialDecay(0.5, 0.6))):
        with pytest.raises(ValueError, match="path of tolerances"):
            run(clf)
    with pytest.raises(ValueError, match="replicates"):
        run(make(n_replicates=0))
    with pytest.raises(TypeError, match="takes a FairClassifier"):
        run(sf.BootstrapClassifier(make()))
    with pytest.raises(ValueError, match="source"):
        run(source="training")


def test_the_command_writes_a_page_and_exits_by_the_margin(tmp_path):
    table = pd.DataFrame(np.asarray(DATA.X), columns=["x1", "x2"]).assign(label=DATA.y, group=DATA.sensitive)
    table.to_csv(tmp_path / "people.csv", index=False)
    common = [str(tmp_path / "people.csv"), "--label", "label", "--sensitive", "group", "--replicates", "40",
              "--tolerances", "0.1,0", "--out", str(tmp_path / "out")]  # fmt: skip
    done = CliRunner().invoke(main, ["frontier", *common, "--margin", "0.9"])
    assert done.exit_code == 0, done.output
    assert "Best: " in done.output
    assert (tmp_path / "out" / "frontier.html").exists()
    assert CliRunner().invoke(main, ["frontier", *common, "--margin", "0.0001", "--quiet"]).exit_code == 4
    bad = CliRunner().invoke(main, ["frontier", *common, "--tolerances", "0.1"])
    assert bad.exit_code == 1
    assert "different numbers" in bad.output


def test_a_constraint_that_changes_nothing_is_reported():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1_200, 2))
    y = (X[:, 0] + rng.normal(size=1_200) > 0.0).astype(int)
    clf = sf.FairClassifier(n_replicates=40, random_state=0)
    with pytest.warns(sf.diagnostics.ChanceConstraint, match="more than chance"):
        found = sf.frontier(clf, X, y, sensitive_features=rng.integers(2, size=1_200), tolerances=[0.05, 0.0])
    assert "ChanceConstraint" in {one.name for one in found.diagnostics}
    assert "more than chance" in str(found.to_dict()["diagnostics"])
