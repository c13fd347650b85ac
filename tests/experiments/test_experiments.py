"""The paper's experiments: the table, the claims, and the same numbers for the same seed even if a run is stopped."""

import json
import shutil
import warnings
from dataclasses import replace

import numpy as np
import pytest
from click.testing import CliRunner
from scipy.stats import norm

import surefair as sf
from surefair.cli import main
from surefair.experiments import convergence, experiments, rules, run, setups, study, write

RUN = ("synthetic_di_log_loss", "--repetitions", "7", "--jobs", "1", "--quiet")


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Use fewer rows than the paper."""
    monkeypatch.setattr(study, "POPULATION", 5_000)
    monkeypatch.setattr(study, "LOOKS", 4)
    monkeypatch.setattr(study, "DRAWS", 400)
    monkeypatch.setattr(convergence, "REFERENCES", 50)
    table = {name: replace(setup, rows=800, n_replicates=20) for name, setup in setups.TABLE.items()}
    monkeypatch.setattr(study, "TABLE", table)
    ours = setups.OURS | {"rows": 1_000, "n_replicates": 20, "n_evaluation": 500}
    monkeypatch.setitem(setups.PRESETS, "calibrated", replace(setups.PRESETS["calibrated"], sizes=ours))


def reproduce(out, *arguments):
    return CliRunner().invoke(main, ["reproduce", *arguments, "--out", str(out)])


def results(out):
    return json.loads((out / "results.json").read_text())


def test_the_table_is_the_papers():
    printed = {
        "synthetic_di": (0.002, None, 100, 100, 200, 100),
        "adult": (0.00001, None, 200, 1000, 1000, 200),
        "synthetic_dm": (0.0, 500.0, 100, 100, 250, 100),
        "compas": (0.0, 300.0, 200, 400, 250, 200),
    }
    names = ("tolerance", "penalty", "n_replicates", "n_evaluation", "n_constraint", "repetitions")
    found = {name: tuple(getattr(setup, part) for part in names) for name, setup in setups.TABLE.items()}
    assert found == printed
    paper = setups.PRESETS["paper"]
    assert (paper.step_size, paper.multiplier, paper.bands) == (
        sf.PolynomialDecay(0.01, 0.501),
        "uniform",
        {"training": "paper"},
    )


def test_every_figure_of_the_paper_has_an_experiment():
    figures = {f"{data}_{loss}" for data in setups.TABLE for loss in ("log_loss", "squared_error")}
    assert set(experiments()) == figures | {
        f"{data}_{kind}" for data in ("adult", "compas") for kind in ("accuracy", "coefficients")
    } | {"motivation"}
    assert next(iter(experiments())) == "motivation"


@pytest.mark.slow
def test_the_same_seed_gives_the_same_numbers_and_another_others(tmp_path):
    done = reproduce(tmp_path / "a", *RUN)
    assert done.exit_code == 0, done.output
    found = results(tmp_path / "a")
    assert [one["preset"] for one in found["results"]] == ["paper", "calibrated"]
    for kind in ("png", "svg"):
        assert (tmp_path / "a" / f"synthetic_di_log_loss-calibrated.{kind}").stat().st_size > 10_000
    page = (tmp_path / "a" / "RESULTS.md").read_text()
    assert "nan" not in page
    assert "| 95 % intervals contain the values of other repetitions | paper |" in page
    assert page.index("## Claims that do not hold") < page.index("<!-- end of open -->")

    shutil.copytree(tmp_path / "a" / "finished", tmp_path / "b" / "finished")  # a run that was stopped
    for path in (tmp_path / "b").rglob("5-6.json"):
        path.unlink()
    assert reproduce(tmp_path / "b", *RUN).exit_code == 0
    for name in ("results.json", "RESULTS.md", "synthetic_di_log_loss-paper.svg", "synthetic_di_log_loss-paper.png"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()

    assert reproduce(tmp_path / "c", *RUN, "--seed", "1", "--preset", "paper").exit_code == 0
    assert results(tmp_path / "c")["results"][0]["numbers"]["w2"] != found["results"][0]["numbers"]["w2"]

    assert reproduce(tmp_path / "b", "synthetic_dm_squared_error", *RUN[1:], "--preset", "paper").exit_code == 0
    names = [(one["experiment"], one["preset"]) for one in results(tmp_path / "b")["results"]]
    assert names == [
        ("synthetic_di_log_loss", "paper"),
        ("synthetic_di_log_loss", "calibrated"),
        ("synthetic_dm_squared_error", "paper"),
    ]


@pytest.mark.slow
def test_the_number_of_processes_changes_nothing(tmp_path):
    """Repetitions come back in order, whichever process ran them."""
    one = experiments()["synthetic_di_log_loss"]
    found = []
    for jobs in (1, 2):
        result = run.run(one, "paper", 7, 0, tmp_path / str(jobs), jobs, lambda _: None)
        found.append(json.dumps([result.line, result.tables]))
    assert found[0] == found[1]


def test_fits_that_diverge_are_counted_and_no_claim_holds():
    one = experiments()["synthetic_di_log_loss"]
    fixed = study.begin("synthetic_di", "log_loss", setups.PRESETS["paper"], 0)
    outcomes = [one.repeat(fixed, repetition) for repetition in range(6)]
    whole = one.judge(fixed, outcomes)
    assert whole.line["diverged"] == 0
    outcomes[2] = outcomes[2]._replace(gap=np.full(len(fixed.looks), np.nan))
    some = one.judge(fixed, outcomes)
    assert some.line["diverged"] == 1
    assert not any(claim.held for claim in some.claims)
    none = one.judge(fixed, [outcome._replace(gap=np.full(len(fixed.looks), np.nan)) for outcome in outcomes])
    assert (none.claims[0].held, none.tables) == (False, {})


def test_missing_data_are_an_error_before_anything_runs(tmp_path, monkeypatch):
    def nowhere(*_, **__):
        raise FileNotFoundError("The data file 'adult.data' was not found.")

    monkeypatch.setattr("surefair.datasets.load", nowhere)
    done = reproduce(tmp_path, "synthetic_di_log_loss", "adult_log_loss")
    assert done.exit_code == 1
    assert "was not found" in done.output
    assert not any(tmp_path.iterdir())


@pytest.mark.slow
def test_experiments_on_real_data(tmp_path, data_folder, monkeypatch):
    monkeypatch.setenv("SUREFAIR_DATA", str(data_folder))
    names = ("compas_log_loss", "compas_accuracy", "compas_coefficients", "motivation")
    done = reproduce(tmp_path, *names, *RUN[1:])
    assert done.exit_code == 0, done.output
    found = results(tmp_path)["results"]
    assert len(found) == 8
    accuracy = next(one for one in found if (one["experiment"], one["preset"]) == ("compas_accuracy", "calibrated"))
    assert [row["accuracy_zafar"] for row in accuracy["tables"]["models"]] == [0.678, 0.678, 0.659]
    assert all(0.6 < row["accuracy"] < 0.72 for row in accuracy["tables"]["models"])
    assert {(one["whose"], one["held"], one["judged"]) for one in accuracy["claims"]} == {("Zafar", None, False)}
    assert "their gap is -0.01" in accuracy["claims"][-1]["found"]
    first = next(one for one in found if one["experiment"] == "motivation")
    assert {"optimum_gap_evaluation", "optimum_gap_population"} < set(first["numbers"])


@pytest.mark.slow
def test_finished_repetitions_are_not_run_again(tmp_path, monkeypatch):
    assert reproduce(tmp_path, *RUN, "--preset", "paper").exit_code == 0
    before = results(tmp_path)

    def fail(*_):
        raise AssertionError("a finished repetition was run again")

    known = experiments()
    known["synthetic_di_log_loss"] = replace(known["synthetic_di_log_loss"], repeat=fail)
    monkeypatch.setattr("surefair.experiments.experiments", lambda: known)
    assert reproduce(tmp_path, *RUN, "--preset", "paper").exit_code == 0
    assert results(tmp_path) == before


def test_repetitions_of_other_sizes_are_not_used(tmp_path):
    """The sizes are part of the settings of a repetition."""
    fixed = study.begin("synthetic_di", "log_loss", setups.PRESETS["paper"], 0)
    one = experiments()["synthetic_di_log_loss"]
    other = replace(fixed, setup=replace(fixed.setup, rows=400))
    assert run.kept_in(tmp_path, one, fixed) != run.kept_in(tmp_path, one, other)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("motivations",), "Did you mean 'motivation'"),
        (("--jobs", "0"), "'--jobs': must be a number of processes"),
        (("--preset", "ours"), "'paper', 'calibrated', 'both'"),
    ],
)
def test_errors_say_what_is_wrong(tmp_path, arguments, message):
    done = reproduce(tmp_path, *arguments)
    assert done.exit_code == 2
    assert message in " ".join(done.output.split())
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("drop", "error", "held"),
    [(0.3, 0.1, True), (0.2, 0.1, None), (0.0, 0.0, None), (-0.2, 0.1, None), (-0.3, 0.1, False), (0.1, np.nan, None)],
)
def test_a_value_falls_if_it_drops_by_more_than_two_errors(drop, error, held):
    assert rules.falls(drop, error) is held


@pytest.mark.parametrize(
    ("share", "low", "high", "held"),
    [
        (0.93, 0.80, 0.99, True),
        (0.97, 0.97, 0.97, True),
        (0.92, 0.90, 0.94, None),
        (0.98, 0.96, 1.00, None),
        (0.90, 0.80, 1.00, None),
        (0.92, 0.91, 0.929, False),
        (0.98, 0.971, 0.99, False),
        (1.00, 0.98, 1.00, False),
    ],
)
def test_coverage_is_right_wrong_or_undecided(share, low, high, held):
    assert rules.covers(share, low, high) is held


def test_a_share_of_zero_or_one_has_the_error_of_its_exact_limits_and_an_error_of_zero_is_not_shown():
    assert rules.share_error(0.9, 0.03, 100) == 0.03
    for share in (0.0, 1.0):
        assert rules.share_error(share, 0.0, 100) == pytest.approx((1.0 - 0.025**0.01) / 2.0)
    assert [rules.plus(error) for error in (0.012, 0.0, np.nan)] == [" ± 0.012", "", ""]
    assert write._cell({"share": 1.0, "share_error": 0.0}, "share") == "1"


@pytest.mark.parametrize(
    ("w2", "chance", "fall", "held"),
    [
        ((0.3, 0.1), (0.05, 0.05), (0.2, 0.05), True),
        ((0.3, 0.29), (0.05, 0.05), (0.01, 0.05), None),
        ((0.1, 0.3), (0.05, 0.05), (-0.2, 0.05), False),
        ((0.1, 0.1), (0.2, 0.2), (0.0, 0.05), True),
        ((0.1, 0.1), (0.2, 0.05), (0.0, 0.05), None),
    ],
)
def test_the_distance_falls_or_agrees_with_the_law_at_every_look(w2, chance, fall, held):
    looks = [
        {"w2": one, "w2_error": 0.01, "w2_by_chance": limit, "w2_ratio": one / limit}
        for one, limit in zip(w2, chance, strict=True)
    ]
    found = convergence._distance_falls({"w2_fall": fall[0], "w2_fall_error": fall[1]}, looks)
    assert found.held is held
    assert ("agrees with the law from the first look on" in found.found) == all(np.less_equal(w2, chance))
    assert f"{w2[0] / chance[0]:.2g} to {w2[1] / chance[1]:.2g} times" in found.found


def test_a_fall_is_paired_by_repetition():
    """What all repetitions have in common does not add to the error of the difference."""
    level = np.random.default_rng(0).normal(size=30)
    seen = np.stack([level + 1.0, level], axis=1)
    found = convergence.fall("mean", lambda kept, i: float(seen[kept, i].mean()), 30)
    assert found == pytest.approx({"mean_fall": 1.0, "mean_fall_error": 0.0})


@pytest.mark.slow
def test_results_of_other_code_another_seed_or_a_damaged_file_are_dropped(tmp_path):
    again = ("synthetic_di_log_loss", "--repetitions", "3", "--jobs", "1", "--quiet", "--preset", "paper")
    other = ("synthetic_di_squared_error", *again[1:])
    assert reproduce(tmp_path, *again).exit_code == 0
    path = tmp_path / "results.json"
    whole = results(tmp_path)
    for stale in (
        whole | {"seed": 1},
        whole | {"results": [one | {"digest": "other"} for one in whole["results"]]},
    ):
        path.write_text(json.dumps(stale))
        done = reproduce(tmp_path, *other)
        assert "because seed or code differ: synthetic_di_log_loss (paper)." in done.output
        assert [one["experiment"] for one in results(tmp_path)["results"]] == ["synthetic_di_squared_error"]
    path.write_text(json.dumps(whole)[:100])
    done = reproduce(tmp_path, *other)
    assert done.exit_code == 0
    assert "is incomplete or not a file of results: replacing it." in done.output
    assert len(results(tmp_path)["results"]) == 1
    assert "Dropped" not in reproduce(tmp_path, *other).output


def test_a_folder_that_cannot_be_written_is_an_error_before_anything_runs(tmp_path, monkeypatch):
    monkeypatch.setattr(run, "run", lambda *_: pytest.fail("an experiment was run"))
    (tmp_path / "file").touch()
    done = reproduce(tmp_path / "file" / "folder", "motivation")
    assert done.exit_code == 1
    assert done.output.startswith("Error: ")
    assert "file" in done.output


def test_a_repeated_name_runs_once(tmp_path):
    done = reproduce(tmp_path, *RUN[:1], *RUN[:1], "--repetitions", "3", "--jobs", "1", "--quiet", "--preset", "paper")
    assert "1 figures in" in done.output


def test_coverage_and_scores_are_means_over_all_pairs():
    rng = np.random.default_rng(0)
    seen, low = rng.normal(size=9), rng.normal(-1.0, 0.3, 9)
    high, star = low + 2.0, 0.1
    found = convergence.held(seen, low, high, star)
    pairs = [low[i] <= seen[j] <= high[i] for i in range(9) for j in range(9) if i != j]
    assert found["covers_others"] == pytest.approx(np.mean(pairs))
    assert found["covers_optimum"] == pytest.approx(np.mean((low <= star) & (star <= high)))
    scores = [sf.mean_interval_score([seen[j]], low[i], high[i], 0.05) for i in range(9) for j in range(9) if i != j]
    assert found["score"] == pytest.approx(np.mean(scores))
    again = []
    for out in range(9):
        kept = [i for i in range(9) if i != out]
        again.append(np.mean([low[i] <= seen[j] <= high[i] for i in kept for j in kept if i != j]))
    error = np.sqrt(8 / 9 * np.sum((again - np.mean(again)) ** 2))
    assert found["covers_others_error"] == pytest.approx(error)


def test_retraining_intervals_contain_nineteen_of_twenty_other_fits_of_a_normal_law():
    """Two fits differ by √2 standard deviations; an interval of that width around one contains 95 % of the others."""
    seen = np.random.default_rng(0).normal(size=400)
    half = np.sqrt(2.0) * norm.ppf(0.975)
    found = convergence.held(seen, seen - half, seen + half, 0.0)
    assert abs(found["covers_others"] - 0.95) < 4 * found["covers_others_error"] < 0.05


def test_nineteen_of_twenty_samples_from_a_law_are_within_the_reference():
    rng = np.random.default_rng(0)
    law = rng.normal(size=2_000)
    limit = convergence.by_chance(law, rng.normal(size=2_000), 50, seed=0)
    beyond = np.mean([sf.wasserstein2(rng.normal(size=50), law) > limit for _ in range(300)])
    assert 0.005 < beyond < 0.15


def test_the_law_of_a_study_concentrates_at_its_optimum():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fixed = study.begin("synthetic_dm", "squared_error", setups.PRESETS["calibrated"], 0)
    far = fixed.law(10**12)
    np.testing.assert_allclose(far, fixed.gaps(fixed.star[:, None])[0], atol=0.02)
    assert fixed.law(100).std() > fixed.law(1_000).std() > far.std()
