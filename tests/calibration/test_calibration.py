"""The coverage laboratory finds good intervals good and bad ones bad, whatever the number of processes."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import polars as pl
import pytest
from click.testing import CliRunner
from scipy.sparse import csr_matrix
from scipy.stats import binom
from sklearn.kernel_approximation import RBFSampler

import surefair as sf
from surefair import calibration
from surefair.cli import main
from surefair.parallel.blocks import fit_replicates, fit_shards
from surefair.inference.interval import SOURCES
from surefair.plotting import CalibrationDisplay

DATA = sf.datasets.SyntheticDI(seed=3).sample(20_000)
SMALL = sf.datasets.SyntheticDM(seed=4).sample(2_000)


def calibrate(clf=None, data=SMALL, **more):
    clf = sf.FairClassifier(n_replicates=60, n_constraint=200) if clf is None else clf
    settings = {"n_rows": 300, "n_evaluation": 400, "repetitions": 12, "sensitive_features": data.sensitive} | more
    return sf.calibrate(clf, data.X, data.y, **settings)


@pytest.fixture(scope="module")
def found():
    return calibrate()


# -- What is found ----------------------------------------------------------------------------------------------------


def test_good_intervals_cover():
    R, data = 100, sf.datasets.SyntheticDM(seed=3).sample(20_000)
    clf = sf.FairClassifier(criterion=None, n_constraint=500)
    table = calibrate(clf, data, n_rows=1_000, n_evaluation=1_000, repetitions=R, n_jobs=2).table
    least = binom.ppf(1e-3 / len(table), R, 0.95) / R  # an exact method falls below it once in a thousand runs
    assert table["coverage"].min() >= least
    assert (table["spread_ratio"] - 1.0).abs().max() < 0.5
    assert (table["undefined"] == 0).all()


def test_a_step_that_never_forgets_its_start_is_found_out():
    R = 40
    clf = sf.FairClassifier(step_size=sf.PolynomialDecay(0.01, 0.501), n_constraint=500)
    table = calibrate(clf, DATA, n_rows=1_000, repetitions=R).table.set_index("quantity")
    assert table.loc["x1", "coverage_high"] < 0.5
    assert abs(table.loc["x1", "bias"]) > 2.0


def test_each_source_has_a_truth_of_its_own(found):
    by_hand = sf.FairClassifier(n_replicates=60, n_constraint=200)
    assert found.table["source"].tolist() == [*SOURCES, *["training"] * 3]
    assert found.table["kind"].tolist() == ["gap"] * 4 + ["coefficient"] * 3
    apart = np.random.default_rng([0, 0]).integers(0, 2_000, 200)
    X, y, z = SMALL.X.to_numpy(), SMALL.y, SMALL.sensitive
    by_hand.fit(X, y, sensitive_features=z, constraint_set=(X[apart], y[apart], z[apart]))
    star = sf.theory.optimum(by_hand, X, y)
    truth = found.table.set_index(["quantity", "source"])["truth"]
    assert truth.tolist()[4:] == pytest.approx(star.tolist(), rel=1e-6)
    positive = X @ star[:2] + star[2] > 0.0
    assert truth["gap", "total"] == pytest.approx(positive[z == 0].mean() - positive[z == 1].mean(), abs=1e-12)
    assert len(set(truth.tolist()[:4])) == 4


def test_the_numbers_of_a_row_are_those_of_its_intervals():
    low, high, truth = np.array([0.0, 1.0, -1.0]), np.array([2.0, 2.0, 0.5]), np.array([1.0, 0.5, 0.0])
    numbers = np.column_stack([(low + high) / 2.0, low, high, truth, [0.5, 0.25, 0.5]])
    row = judged(np.vstack([numbers, np.full(5, np.nan)]), 0.9)
    error = (low + high) / 2.0 - truth
    assert row["coverage"] == pytest.approx(2 / 3)
    assert (row["width"], row["undefined"]) == (pytest.approx(4.5 / 3), 1)
    assert row["score"] == pytest.approx(sf.mean_interval_score(truth, low, high, alpha=0.1))
    assert row["bias"] == pytest.approx(error.mean() / error.std(ddof=1))
    assert row["spread_ratio"] == pytest.approx(np.sqrt(np.mean([0.25, 0.0625, 0.25])) / error.std(ddof=1))
    assert judged(np.full((2, 5), np.nan), 0.9)["coverage"] is None
    parts = calibration._added_up(numbers[:1], 0.9) + calibration._added_up(numbers[1:], 0.9)
    assert calibration._judged(parts) == pytest.approx(judged(numbers, 0.9))


def judged(numbers, level):
    return calibration._judged(calibration._added_up(numbers, level))


def test_a_truth_on_a_limit_is_covered():
    numbers = np.array([[0.1, 0.1, 0.1, 0.3 - 0.2, 0.0], [0.1, 0.0, 0.05, 0.1, 0.0]])
    assert judged(numbers, 0.95)["coverage"] == 0.5


# -- The same for everyone --------------------------------------------------------------------------------------------


def test_the_result_does_not_depend_on_the_number_of_processes(found):
    assert calibrate(n_jobs=2).to_dict() == found.to_dict()
    assert calibrate(random_state=1).to_dict()["table"] != found.to_dict()["table"]


def in_two_shards(clf, X, y, *, sensitive_features, constraint_set):
    parts = [slice(0, len(y) // 2), slice(len(y) // 2, None)]
    shards = [(X[part], y[part], {name: z.iloc[part] for name, z in sensitive_features.items()}) for part in parts]
    return fit_shards(clf, shards, constraint_set=constraint_set)


def test_ways_to_fit_are_compared_on_the_same_rows(found):
    assert calibrate(fit=fit_replicates).to_dict() == found.to_dict()
    other = calibrate(fit=in_two_shards)
    assert other.errors.shape == found.widths.shape == (12, len(found.table))
    apart = other.errors - found.errors
    assert apart.any()
    coefs = found.table["kind"] == "coefficient"
    assert (apart[:, coefs].std(axis=0) < 0.8 * found.errors[:, coefs].std(axis=0)).all()


def test_more_repetitions_begin_with_the_same_ones(monkeypatch, found):
    monkeypatch.setattr(calibration, "CHUNK", 1)
    assert calibrate().to_dict() == found.to_dict()


def test_the_classifier_is_not_changed_and_may_be_fitted(found):
    clf = sf.FairClassifier(n_replicates=60, n_constraint=200, random_state=5)
    clf.fit(SMALL.X, SMALL.y, sensitive_features=SMALL.sensitive)
    before = clf.coef_.copy()
    assert calibrate(clf).to_dict()["table"] == found.to_dict()["table"]
    assert (clf.coef_ == before).all()


def test_labels_groups_and_frames_of_any_kind_give_the_same(found):
    words = np.array(["no", "yes"])[(SMALL.y == 1).astype(int)]
    groups = np.array(["a", "b"])[SMALL.sensitive]
    frame = pl.DataFrame(SMALL.X.to_dict("list"))
    other = sf.calibrate(
        sf.FairClassifier(n_replicates=60, n_constraint=200), frame, words, sensitive_features=groups,
        n_rows=300, n_evaluation=400, repetitions=12,
    )  # fmt: skip
    assert isinstance(other.table, pl.DataFrame)
    assert other.to_dict() == found.to_dict()


def test_a_constraint_set_can_be_given(found):
    apart = np.random.default_rng([0, 0]).integers(0, 2_000, 200)
    given = (SMALL.X.iloc[apart], SMALL.y[apart], SMALL.sensitive[apart])
    assert calibrate(constraint_set=given).to_dict() == found.to_dict()


def test_sparse_rows_give_the_coefficients_of_dense_ones():
    clf = sf.FairClassifier(n_replicates=60, n_constraint=200)
    more = {"sensitive_features": SMALL.sensitive, "n_rows": 300, "n_evaluation": 400, "repetitions": 4}
    table = sf.calibrate(clf, csr_matrix(SMALL.X.to_numpy()), SMALL.y, **more).table
    assert table["quantity"].tolist()[4:] == ["x0", "x1", "intercept"]
    assert table["coverage"].between(0.0, 1.0).all()


# -- Many groups, several rates, missing ones -------------------------------------------------------------------------


@pytest.mark.parametrize("metric", ["demographic_parity", "demographic_parity_ratio", "equalized_odds"])
def test_of_several_gaps_the_largest_is_judged(metric):
    groups = {"sex": SMALL.sensitive, "age": np.random.default_rng(0).choice(["old", "mid", "young"], 2_000)}
    clf = sf.FairClassifier(criterion=None, n_replicates=60, n_constraint=200, intersections=True)
    table = calibrate(clf, metric=metric, sensitive_features=groups).table
    gaps = table[table["kind"] == "gap"]
    assert (gaps["quantity"] == "unfairness").all()
    assert gaps["coverage"].min() > 0.5
    assert gaps["truth"].between(0.0, 1.0).all()
    assert gaps["spread_ratio"].isna().all()


def test_a_group_that_evaluation_rows_lack_makes_no_trouble():
    rare = np.where(np.arange(2_000) % 200 == 0, "rare", "usual")
    clf = sf.FairClassifier(criterion=None, n_replicates=60, n_constraint=200)
    result = calibrate(clf, sensitive_features=rare, n_evaluation=150, repetitions=20)
    gaps = result.table[result.table["kind"] == "gap"]
    assert 0 < gaps["undefined"].iloc[0] < 20  # no such row with probability 0.47
    assert "left out" in result.sentence
    json.dumps(result.to_dict(), allow_nan=False)


def test_where_nothing_is_defined_it_says_so():
    rare = np.where(np.arange(2_000) == 0, "rare", "usual")
    clf = sf.FairClassifier(criterion=None, n_replicates=60, n_constraint=200)
    result = calibrate(clf, sensitive_features=rare, n_evaluation=2, repetitions=2)
    assert result.table["coverage"].isna().tolist() == [True] * 4 + [False] * 3
    assert "(undefined)" in result.sentence
    assert CalibrationDisplay.from_calibration(result).ax_ is not None
    plt.close("all")


def test_without_an_intercept_and_with_a_feature_map():
    feature_map = RBFSampler(n_components=4, random_state=0)
    clf = sf.FairClassifier(n_replicates=60, n_constraint=200, fit_intercept=False, feature_map=feature_map)
    table = calibrate(clf, repetitions=4).table
    assert table["quantity"].tolist()[4:] == [f"rbfsampler{i}" for i in range(4)]
    with pytest.raises(ValueError, match="Give it a random_state"):
        calibrate(sf.FairClassifier(feature_map=RBFSampler()))


# -- Words, JSON, warnings, the picture -------------------------------------------------------------------------------


def test_warnings_are_counted_and_not_raised():
    result = calibrate(sf.FairClassifier(n_replicates=10, n_constraint=200), repetitions=4)
    assert result.warned["TooFewReplicates"] == 1.0
    assert "TooFewReplicates in 100 %" in result.sentence


def test_the_sentence_says_how_often():
    table = pd.DataFrame(
        {
            "quantity": ["gap", "gap", "age", "intercept"],
            "kind": ["gap", "gap", "coefficient", "coefficient"],
            "source": ["training", "total", "training", "training"],
            "coverage": [0.951, 0.946, 0.931, 0.949],
            "undefined": [0, 0, 0, 0],
        }
    )
    settings = {"repetitions": 1_000, "n_rows": 4_000, "confidence_level": 0.95}
    result = sf.Calibration(table, settings, {"TooFewReplicates": 0.25})
    assert str(result) == result.sentence == (
        "Nominal 95 % intervals covered the gap 94.6 % ± 0.7 of the time (source total, 1,000 repetitions of 4,000 "
        "rows, ± one standard error); training 95.1 % ± 0.7. Coefficients were covered 94.0 % of the time on "
        "average, least often that of age, 93.1 %. Warnings, of the repetitions: TooFewReplicates in 25 %."
    )  # fmt: skip
    assert repr(result) == "<Calibration: 1,000 repetitions of 4,000 rows>"


def test_json_holds_everything(found, tmp_path):
    path = tmp_path / "calibration.json"
    path.write_text("older")
    found.to_json(path)
    assert json.loads(path.read_text()) == found.to_dict()
    assert list(tmp_path.iterdir()) == [path]
    again = found.to_dict()
    assert again["settings"]["classifier"]["criterion"] == "demographic_parity"
    assert pd.DataFrame(again["table"]).equals(found.table)
    with pytest.raises(FileNotFoundError, match="Make it first"):
        found.to_json(tmp_path / "nowhere" / "calibration.json")


def test_the_picture_shows_every_coverage_with_its_interval(found):
    with plt.rc_context({"backend": "Agg"}):
        ax = CalibrationDisplay.from_calibration(found).ax_
        dots = np.concatenate([one.lines[0].get_xydata() for one in ax.containers])
        assert dots[np.argsort(dots[:, 1]), 0].tolist() == found.table["coverage"].tolist()
        bars = np.concatenate([part[:, 0] for one in ax.containers for part in one.lines[2][0].get_segments()])
        assert np.sort(bars) == pytest.approx(
            np.sort(found.table[["coverage_low", "coverage_high"]].to_numpy().ravel())
        )
        labels = [label.get_text() for label in ax.get_yticklabels()]
        assert labels == [f"gap, {source}" for source in SOURCES] + ["x1", "x2", "intercept"]
        assert "12 repetitions of 300 rows" in ax.get_title()
    plt.close("all")


# -- The study ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def study(monkeypatch):
    folder = Path(__file__).parents[2] / "studies"
    monkeypatch.syspath_prepend(folder)
    spec = importlib.util.spec_from_file_location("calibration_study", folder / "calibration.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def outcome(coverage, source="total", warned=None, undefined=0):
    names = [(one, "gap") for one in SOURCES] + [("training", "coefficient")]
    rows = [{"source": one, "kind": kind, "quantity": "x1", "coverage": 0.95, "undefined": 0} for one, kind in names]
    next(row for row in rows if row["source"] == source).update(coverage=coverage, undefined=undefined)
    return {"table": rows, "settings": {"repetitions": 1_000}, "warned": warned or {}}


@pytest.mark.parametrize(
    ("n", "coverage", "verdict"),
    [
        (20_000, 0.95, "holds"),
        (20_000, 0.92, "holds"),  # within chance of 93 %
        (20_000, 0.88, "FAILS"),
        (20_000, 0.998, "FAILS"),
        (4_000, 0.998, "holds"),
        (4_000, 0.88, "FAILS"),
        (1_000, 0.5, "not judged"),
    ],
)
def test_the_study_judges_by_what_chance_allows(study, n, coverage, verdict):
    row = study.summary(outcome(coverage), n, 1.0 - 0.05 / 500)
    assert row["verdict"] == verdict
    side = "below" if coverage < 0.95 else "above"
    assert row["out_of_bounds"] == (f"total {side}" if verdict == "FAILS" else "")
    assert row["total"] == coverage


def test_the_study_excuses_only_what_a_diagnostic_warns_of_half_the_time(study):
    for warned, verdict in (
        ({"StartNotForgotten": 0.6}, "warned of"),
        ({"StartNotForgotten": 0.4}, "FAILS"),
        ({"TooFewReplicates": 1.0}, "FAILS"),
        ({"RuntimeWarning": 1.0}, "FAILS"),
        ({"SmallEvaluationSet": 1.0}, "FAILS"),  # limits are exact: too rare a coverage is no part of that
    ):
        assert study.summary(outcome(0.5, warned=warned), 20_000, 0.9999)["verdict"] == verdict
    for diagnostic, source, verdict in (
        ("SmallEvaluationSet", "total", "warned of"),
        ("SmallEvaluationSet", "training", "FAILS"),
        ("FewRowsNearBoundary", "training", "warned of"),
        ("StartNotForgotten", "evaluation", "FAILS"),
    ):
        found = outcome(0.999, source, {diagnostic: 1.0})
        assert study.summary(found, 20_000, 0.9999)["verdict"] == verdict
    nothing = outcome(None, undefined=1_000)
    assert study.summary(nothing, 20_000, 0.9999)["verdict"] == "FAILS"


def test_the_study_goes_on_where_it_was(study, monkeypatch, tmp_path):
    monkeypatch.setattr(study, "FINISHED", tmp_path / "build" / "found.jsonl")
    monkeypatch.setitem(study.DATA, "synthetic DM", lambda: SMALL)
    problem = ("synthetic DM", "demographic_parity", "log_loss", 200, 2, 1, True)
    first = study.measure(*problem)
    with study.FINISHED.open("a") as file:
        file.write('{"problem": {"data"')  # an interruption
    monkeypatch.setattr(sf, "calibrate", None)
    assert study.measure(*problem) == first
    row = {"data": "synthetic DM", "criterion": "demographic_parity", "loss": "log_loss", "rows": 200}
    row |= study.summary(first, 200, 0.999)
    assert "not judged" in study.line(row)
    assert study.widths(first)["width_total"] > 0.0
    assert len(study.draw([row]).axes) == 1
    plt.close("all")


# -- Refusals ---------------------------------------------------------------------------------------------------------


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
        ({"sensitive_features": None}, "sensitive_features is needed"),
        ({"sensitive_features": np.zeros(2_000)}, "two or more are needed"),
        ({"sensitive_features": np.arange(4) % 2}, "inconsistent numbers"),
        ({"constraint_set": (1, 2)}, "constraint_set must be a tuple"),
        ({"constraint_set": ([[1.0, 2.0]], [7], [0])}, "never declared before"),
        ({"sensitive_features": np.array([2, *[0, 1] * 999, 0])}, "has no row of group 2"),
    ],
)
def test_what_means_nothing_is_refused(more, message):
    with pytest.raises(ValueError, match=message):
        calibrate(**more)


def test_too_few_rows_or_replicates_are_refused():
    with pytest.raises(ValueError, match="9 rows are too few to stand for a population"):
        sf.calibrate(sf.FairClassifier(), np.ones((9, 1)), [0, 1, 0] * 3, sensitive_features=[0, 1, 1] * 3)
    with pytest.raises(ValueError, match="An interval needs replicates"):
        calibrate(sf.FairClassifier(n_replicates=0))
    with pytest.raises(ValueError, match="n_constraint must be a whole number"):
        calibrate(sf.FairClassifier(n_constraint=-1))
    with pytest.raises(TypeError, match="calibrate takes a FairClassifier; received str"):
        calibrate("FairClassifier")


# -- The command ------------------------------------------------------------------------------------------------------


@pytest.fixture
def table():
    job = np.random.default_rng(0).choice(["clerk", "cook", "smith"], 2_000)
    return SMALL.X.assign(job=job, hired=np.where(SMALL.y == 1, "yes", "no"), sex=np.array(["f", "m"])[SMALL.sensitive])


def run(*arguments):
    with plt.rc_context({"backend": "Agg"}):
        result = CliRunner().invoke(main, ["calibrate", *map(str, arguments)])
    plt.close("all")
    return result


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_the_command_tries_a_file(table, tmp_path, kind):
    path, out = tmp_path / f"people.{kind}", tmp_path / "new" / "folder"
    table.to_csv(path, index=False) if kind == "csv" else table.to_parquet(path)
    columns = ("--label", "hired", "--sensitive", "sex")
    result = run(path, *columns, "--rows", 300, "--repetitions", 4, "--jobs", 1, "--out", out, "--quiet")
    assert result.exit_code == 0, result.output
    kept = json.loads((out / "calibration.json").read_text())
    assert " ".join(kept["sentence"].split()) in " ".join(result.output.split())
    names = [row["quantity"] for row in kept["table"]]
    assert names == ["gap"] * 4 + ["x1", "x2", "job_cook", "job_smith", "intercept"]
    assert (out / "calibration.png").read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
    assert all(str(out / name) in result.output for name in ("calibration.json", "calibration.png"))


def test_the_command_tries_a_data_set(tmp_path):
    more = ("--rows", 200, "--repetitions", 2, "--jobs", 1, "--out", tmp_path, "--quiet", "--criterion", "error_rate")
    result = run("--dataset", "synthetic_dm", *more)
    assert result.exit_code == 0, result.output
    assert "Error rate: coverage of 95 % intervals" in result.output


def test_the_command_passes_its_settings_on(tmp_path):
    asked = {
        "criterion": "none", "metric": "equalized_odds", "loss": "squared_error", "tolerance": 0.01, "penalty": 2.0,
        "alpha": 0.001, "replicates": 30, "constraint-rows": 150, "rows": 200, "evaluation-rows": 300, "level": 0.9,
        "method": "basic", "repetitions": 3, "seed": 5, "jobs": 1, "out": tmp_path,
    }  # fmt: skip
    result = run("--dataset", "synthetic_dm", "--quiet", *(f"--{name}={value}" for name, value in asked.items()))
    assert result.exit_code == 0, result.output
    kept = json.loads((tmp_path / "calibration.json").read_text())["settings"]
    expected = {
        "repetitions": 3, "n_rows": 200, "n_evaluation": 300, "n_constraint": 150, "confidence_level": 0.9,
        "metric": "equalized_odds", "method": "basic", "random_state": 5,
    }  # fmt: skip
    assert kept | expected == kept
    fitted = {"criterion": None, "loss": "squared_error", "tolerance": 0.01, "penalty": 2.0, "alpha": 0.001}
    assert kept["classifier"] | fitted | {"n_replicates": 30} == kept["classifier"]


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ((), 2, "Name a file, or a data set"),
        (("--dataset", "adults"), 1, "Did you mean 'adult'"),
        (("--dataset", "synthetic_di", "--label", "y"), 2, "are for a file"),
        (("FILE",), 2, "--label and --sensitive"),
        (("FILE", "--label", "hired", "--sensitive", "race"), 2, "no column 'race'"),
        (("FILE", "--label", "hired", "--sensitive", "sex", "--criterion", "parity"), 1, "Unknown criterion"),
        (("FILE", "--label", "job", "--sensitive", "sex"), 1, "Exactly two labels are needed"),
        (("GAPS", "--label", "hired", "--sensitive", "sex"), 1, "'x1' has missing values"),
        (("WORDS", "--label", "hired", "--sensitive", "sex"), 1, "holds words, 2000 different ones"),
        (("nowhere.csv", "--label", "y", "--sensitive", "z"), 2, "does not exist"),
    ],
)
def test_the_command_says_what_is_wrong(table, tmp_path, arguments, code, message):
    tables = {
        "FILE": table,
        "GAPS": table.assign(x1=table["x1"].where(table.index > 3)),
        "WORDS": table.assign(name=[f"n{i}" for i in range(2_000)]),
    }
    for name, one in tables.items():
        one.to_csv(tmp_path / f"{name}.csv", index=False)
    result = run(*(tmp_path / f"{word}.csv" if word in tables else word for word in arguments), "--out", tmp_path)
    assert result.exit_code == code, result.output
    assert message in " ".join(result.output.split())
