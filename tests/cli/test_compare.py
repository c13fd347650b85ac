"""``surefair compare``: two models from one file, or from two with a key."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

import surefair as sf
from surefair.cli import main

COLUMNS = ("--decision-a", "old", "--decision-b", "new", "--sensitive", "sex")
pytestmark = pytest.mark.filterwarnings("ignore::surefair.diagnostics.Diagnostic")


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    n = 2_000
    sex = np.where(rng.random(n) < 0.5, "f", "m")
    y = (rng.random(n) < 0.4).astype(int)
    old = (rng.random(n) < 0.2 + 0.3 * (sex == "m") + 0.2 * y).astype(int)
    new = np.where(rng.random(n) < 0.3, rng.random(n) < 0.3 + 0.2 * y, old).astype(int)
    names = {"id": [f"k{i}" for i in range(n)], "sex": sex, "y": y, "old": old, "new": new}
    return pd.DataFrame(names | {"weight": rng.integers(1, 4, n), "person": np.arange(n) // 2})


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def run(*arguments):
        return CliRunner().invoke(main, ["compare", *map(str, arguments)])

    return run


def read(folder="comparison"):
    return json.loads(Path(folder, "comparison.json").read_text())


def words(result):
    return " ".join(result.output.split())


def test_one_file_gives_the_numbers_of_python_and_two_files(run, table):
    table.to_csv("all.csv", index=False)
    result = run("all.csv", *COLUMNS, "--label", "y", "--metric", "error_rate")
    assert result.exit_code in (0, 3, 4), result.output
    expected = sf.compare(
        table["y"], table["old"], table["new"], sensitive_features=table[["sex"]], metric="error_rate",
        names=("old", "new"),
    )  # fmt: skip
    written = read()
    assert (written["format"], written["version"]) == ("surefair.Comparison", 1)
    for name in ("estimate", "low", "high", "verdict", "agreement", "n", "by_pair", "accuracy", "rows_needed"):
        assert written[name] == expected.to_dict()[name], name
    assert written["data"]["rows"] == {
        "read": 2000,
        "compared": 2000,
        "labelled": 2000,
        "unknown": 0,
        "weightless": 0,
        "bad": [],
    }
    assert len(written["data"]["files"][0]["sha256"]) == 64
    page = Path("comparison/comparison.html").read_text()
    assert expected.verdict in page
    assert page.count("<svg") >= 4


@pytest.mark.parametrize(
    ("swap", "code", "verdict"), [(False, 0, "new is less unfair"), (True, 3, "new is less unfair")]
)
def test_the_exit_code_says_which_model_is_less_unfair(run, table, swap, code, verdict):
    table.to_parquet("all.parquet")
    a, b = ("new", "old") if swap else ("old", "new")
    result = run("all.parquet", "--decision-a", a, "--decision-b", b, "--sensitive", "sex", "--quiet")
    assert (result.exit_code, result.output) == (code, f"{verdict}\n")


def test_too_little_evidence_has_its_own_exit_code_and_says_how_many_rows_are_missing(run, table):
    table.head(60).to_csv("few.csv", index=False)
    result = run("few.csv", *COLUMNS)
    assert result.exit_code == 4, result.output
    assert "not enough evidence" in result.output
    assert re.search(r"About [\d,]+ more rows would settle it", words(result))


def test_two_files_are_joined_by_their_key_whatever_the_order(run, table):
    table.to_csv("all.csv", index=False)
    table[["id", "sex", "old"]].rename(columns={"old": "decision"}).to_csv("first.csv", index=False)
    second = table[["id", "new"]].rename(columns={"new": "decision"}).sample(frac=1.0, random_state=1)
    second.to_parquet("second.parquet")
    run("all.csv", *COLUMNS, "--out", "one")
    result = run("first.csv", "second.parquet", "--key", "id", "--decision-a", "decision", "--decision-b", "decision",
                 "--sensitive", "sex", "--out", "two")  # fmt: skip
    assert result.exit_code == 0, result.output
    one, two = (read(name) for name in ("one", "two"))
    assert two["names"] == ["first", "second"]
    for name in ("estimate", "low", "high", "n", "agreement", "by_pair"):
        assert one[name] == two[name]


def test_keys_that_only_one_file_has_are_counted(run, table):
    table[["id", "sex", "old"]].iloc[:1_990].to_csv("first.csv", index=False)
    table[["id", "new"]].iloc[3:].assign(id=lambda rows: rows["id"].mask(rows["id"] == "k7")).to_csv(
        "second.csv", index=False
    )
    result = run("first.csv", "second.csv", "--key", "id", *COLUMNS)
    assert result.exit_code == 0, result.output
    rows = read()["data"]["rows"]
    assert (rows["read"], rows["read_b"], rows["compared"]) == (1_990, 1_997, 1_986)
    assert {one["reason"]: one["count"] for one in rows["bad"]} == {
        "a key 'id' that only first.csv has": 4,
        "a key 'id' that only second.csv has": 10,
        "no key 'id' in second.csv": 1,
    }
    assert "Not used: 10 rows (a key 'id' that only second.csv has); the first: row 1,988: 'k1990'" in words(result)
    assert run("first.csv", "second.csv", "--key", "id", *COLUMNS, "--max-bad-rows", 14).exit_code == 1


def test_keys_that_repeat_are_refused_with_both_places(run, table):
    table[["id", "sex", "old"]].to_csv("first.csv", index=False)
    pd.concat([table[["id", "new"]], table[["id", "new"]].iloc[[4]]]).to_csv("second.csv", index=False)
    result = run("first.csv", "second.csv", "--key", "id", *COLUMNS)
    assert result.exit_code == 1
    assert "Keys repeat in second.csv: 1 row has a 'id' that an earlier row has. The first is 'k4', in row 5" in words(
        result
    )
    assert not Path("comparison/comparison.json").exists()


def test_files_that_disagree_about_a_row_are_refused(run, table):
    table[["id", "sex", "old"]].to_csv("first.csv", index=False)
    other = table[["id", "sex", "new"]].copy()
    other.loc[5, "sex"] = "x"
    other.to_csv("second.csv", index=False)
    result = run("first.csv", "second.csv", "--key", "id", *COLUMNS)
    assert result.exit_code == 1
    assert "The files disagree on 'sex' for 1 key. The first is 'k5'" in words(result)


def test_scores_weights_and_clusters_are_those_of_python(run, table):
    rng = np.random.default_rng(3)
    scores = table.assign(old=rng.random(len(table)), new=rng.random(len(table)))
    scores.to_csv("scores.csv", index=False)
    run("scores.csv", *COLUMNS, "--threshold", 0.6, "--weights", "weight", "--clusters", "person")
    written = read()
    expected = sf.compare(
        None, scores["old"], scores["new"], sensitive_features=scores[["sex"]], threshold=0.6,
        sample_weight=scores["weight"], clusters=scores["person"],
    )  # fmt: skip
    assert written["by_pair"] == expected.to_dict()["by_pair"]
    assert (written["low"], written["high"]) == (expected.low, expected.high)


def test_rows_without_a_decision_group_or_label_are_counted(run, table):
    holes = table.astype({"old": "Int64", "new": "Int64", "y": "Int64"})
    holes.loc[[1, 2], "old"] = None
    holes.loc[[2, 3], "new"] = None
    holes.loc[9, "sex"] = None
    holes.loc[11, "y"] = None
    holes.to_csv("holes.csv", index=False)
    result = run("holes.csv", *COLUMNS, "--label", "y", "--metric", "error_rate")
    assert result.exit_code in (0, 3, 4), result.output
    rows = read()["data"]["rows"]
    counts = {one["reason"]: (one["count"], one["first"]) for one in rows["bad"]}
    assert counts == {
        "no decision of model a": (2, "row 2"),
        "no decision of model b": (1, "row 4"),
        "no value of 'sex'": (1, "row 10"),
        "no value of 'y'": (1, "row 12"),
    }
    assert rows["compared"] == rows["labelled"] == 1_995


def test_rows_without_a_label_serve_metrics_that_need_none(run, table):
    holes = table.astype({"y": "Int64"})
    holes.loc[100:899, "y"] = None  # more than may be bad
    holes.to_csv("holes.csv", index=False)
    result = run("holes.csv", *COLUMNS, "--label", "y")
    assert result.exit_code == 0, result.output
    found = read()
    assert found["data"]["rows"] == {
        "read": 2000,
        "compared": 2000,
        "labelled": 1200,
        "unknown": 0,
        "weightless": 0,
        "bad": [],
    }
    assert "1,200 of them have a label; only these count towards accuracy." in words(result)
    assert "from the 1,200 rows with a label" in found["sentence"]
    assert "which alone count towards accuracy: 1,200" in Path("comparison/comparison.html").read_text()
    every = sf.compare(None, table["old"], table["new"], sensitive_features=table["sex"], names=("old", "new"))
    some = holes.dropna().astype({"y": int})
    labelled = sf.compare(some["y"], some["old"], some["new"], sensitive_features=some["sex"], names=("old", "new"))
    assert (found["estimate"], found["low"], found["high"]) == (every.estimate, every.low, every.high)
    assert found["accuracy"]["estimate"] == pytest.approx(labelled.accuracy.estimate, abs=1e-12)


def test_rows_of_an_unknown_group_are_left_out_unless_they_are_asked_for(run, table):
    odd = table.assign(sex=np.where(table.index % 4 == 0, "Unknown ", table["sex"]))
    odd.to_csv("odd.csv", index=False)
    odd[table.index % 4 != 0].to_csv("known.csv", index=False)
    result = run("odd.csv", *COLUMNS)
    assert "Left out because a group is unknown: 500 rows." in words(result)
    found = read()
    assert found["data"]["rows"]["unknown"] == 500
    assert "Rows left out because a group is unknown: 500." in Path("comparison/comparison.html").read_text()
    run("known.csv", *COLUMNS)
    assert [found[name] for name in ("estimate", "low", "high")] == [
        read()[name] for name in ("estimate", "low", "high")
    ]
    run("odd.csv", *COLUMNS, "--unknown", "include")
    assert len(read()["by_pair"]) == 3
    assert read()["data"]["rows"]["unknown"] == 0
    table.assign(sex="unknown").to_csv("none.csv", index=False)
    assert "the group is unknown in all of the other 2,000 rows" in words(run("none.csv", *COLUMNS))


def test_rows_without_a_group_in_one_column_are_said_to_be_left_out_of_all(run, table):
    table.assign(age=np.where(table.index == 7, None, np.where(table.index % 2, "o", "y"))).to_csv("a.csv", index=False)
    result = run("a.csv", "--decision-a", "old", "--decision-b", "new", "--sensitive", "sex,age")
    assert "Not used: 1 row (no value of 'age', so left out of every sensitive column); the first: row 8." in words(
        result
    )


def test_the_same_file_gives_the_same_bytes(run, table):
    table.to_csv("all.csv", index=False)
    for out in ("one", "two"):
        run("all.csv", *COLUMNS, "--out", out)
    for name in ("comparison.json", "comparison.html"):
        assert Path("one", name).read_bytes() == Path("two", name).read_bytes()


def test_names_from_data_are_escaped(run, table):
    table.replace({"sex": {"f": "<script>\x1b[2J"}}).rename(columns={"new": "[red]new"}).to_parquet("all.parquet")
    result = run("all.parquet", "--decision-a", "old", "--decision-b", "[red]new", "--sensitive", "sex")
    assert result.exit_code == 0, result.output
    assert "\x1b[2J" not in result.output
    assert "[red]new" in result.output
    assert "<script>\ufffd" not in Path("comparison/comparison.html").read_text()


@pytest.mark.parametrize(
    ("change", "arguments", "code", "expected"),
    [
        ({}, ["--label", "z"], 1, "z"),
        ({}, ["--metric", "fairness"], 1, "metric"),
        ({}, ["--metric", "error_rate"], 1, "needs labels. Name their column (--label)"),
        ({}, ["--key", "id"], 1, "there is only one"),
        ({}, ["--level", 1], 1, "strictly between 0 and 1"),
        ({}, ["--label", "sex"], 1, "two roles"),
        ({}, ["--label", "person"], 1, "The label 'person' must have two values; it has 1,000: '0', '1', '2'"),
        ({}, ["--decision-b", "old"], 1, "Name two columns"),
        ({}, ["--decision-b", "person"], 1, "decision 'person' must have two values; it has 1,000"),
        ({}, ["--positive", "yes"], 1, "Unknown positive value: 'yes'"),
        ({}, ["--label", "y", "--positive", "1", "--positive", "0"], 1, "are named as positive"),
        ({"y": "yes"}, ["--label", "y"], 1, "All rows have the same label 'y': 'yes'"),
        ({"old": 0, "new": 0}, [], 1, "All rows have the same decision 'old': '0'"),
        ({"sex": "f"}, [], 1, "only 1 group"),
        ({"new": None}, ["--max-bad-rows", 5000], 1, "No row can be compared"),
        ({"new": None}, [], 1, "2,000 rows cannot be used"),
        ({}, ["all.csv", "all.csv"], 2, "Name one file, or two"),
        ({}, ["all.csv"], 1, "joined by a key"),
        ({}, ["missing.csv", "--key", "id"], 1, "missing.csv"),
        ({"weight": -1}, ["--weights", "weight"], 1, "weight 'weight' that is missing, negative or infinite"),
        ({}, ["--threshold", "nan"], 1, "threshold must be a finite number"),
        ({"person": 1}, ["--clusters", "person"], 1, "one cluster"),
    ],
)  # fmt: skip
def test_bad_input_is_refused_in_one_line(run, table, change, arguments, code, expected):
    table.assign(**change).to_csv("all.csv", index=False)
    result = run("all.csv", *COLUMNS, *arguments)
    assert result.exit_code == code, result.output
    assert expected in words(result)
    assert "Traceback" not in result.output
    assert not Path("comparison").exists()


def test_a_refusal_removes_only_the_folders_that_it_made(run, table):
    table.assign(sex="f").to_csv("all.csv", index=False)
    Path("before").mkdir()
    assert run("all.csv", *COLUMNS, "--out", "before").exit_code == 1
    assert Path("before").is_dir()
    assert run("all.csv", *COLUMNS, "--out", "new/newer").exit_code == 1
    assert not Path("new").exists()


@pytest.mark.parametrize(
    ("columns", "positive", "meaning"),
    [
        ({"y": ("no", "yes")}, (), "Positive is old = '1', new = '1' and y = 'yes'."),
        ({"y": ("refused", "granted")}, ("granted",), "Positive is old = '1', new = '1' and y = 'granted'."),
        ({"y": ("bad", "ok"), "old": ("deny", "approve"), "new": ("deny", "approve")}, ("approve",), "y = 'ok'."),
        ({"new": ("deny", "approve")}, ("approve",), "Positive is old = '1', new = 'approve' and y = '1'."),
        ({"y": ("bad", "ok"), "old": ("no", "yes"), "new": ("deny", "approve")}, ("ok", "approve"), "old = 'yes'"),
    ],
)
def test_labels_and_decisions_may_use_different_words(run, table, columns, positive, meaning):
    table.to_csv("all.csv", index=False)
    words_of = {name: np.where(table[name] == 1, words[1], words[0]) for name, words in columns.items()}
    table.assign(**words_of).to_csv("words.csv", index=False)
    more = ("--label", "y", "--metric", "error_rate")
    run("all.csv", *COLUMNS, *more, "--out", "numbers")
    result = run("words.csv", *COLUMNS, *more, *(f"--positive={one}" for one in positive))
    assert result.exit_code in (0, 3, 4), result.output
    assert meaning in words(result)
    same, found = read("numbers"), read()
    for name in ("estimate", "low", "high", "verdict", "n", "accuracy"):
        assert found[name] == same[name], name


def test_scores_may_have_labels_in_words(run, table):
    table.assign(y=np.where(table["y"] == 1, "approve", "deny")).to_csv("words.csv", index=False)
    result = run("words.csv", *COLUMNS, "--label", "y", "--threshold", 0.5, "--positive", "approve")
    assert result.exit_code in (0, 3, 4), result.output
    expected = sf.compare(table["y"], table["old"], table["new"], sensitive_features=table["sex"])
    assert read()["accuracy"]["estimate"] == pytest.approx(expected.accuracy.estimate, abs=1e-12)


def test_keys_of_other_files_are_refused(run, table):
    table[["id", "sex", "old"]].to_csv("first.csv", index=False)
    table.assign(id=lambda rows: "x" + rows["id"])[["id", "new"]].to_csv("second.csv", index=False)
    result = run("first.csv", "second.csv", "--key", "id", *COLUMNS, "--max-bad-rows", 10_000)
    assert result.exit_code == 1
    assert "No key 'id' is in both first.csv and second.csv" in words(result)


def test_help_states_the_exit_codes(run):
    assert "Exit codes: 0 model b is less unfair; 3 model a is less unfair; 4" in words(run("--help"))


def test_rows_of_weight_0_are_left_out_and_counted(run, table):
    weighted = table.assign(weight=np.where(table.index < 300, 0, table["weight"]))
    weighted.to_csv("some.csv", index=False)
    weighted[300:].to_csv("rest.csv", index=False)
    result = run("some.csv", *COLUMNS, "--weights", "weight")
    assert "Left out because they have weight 0: 300 rows." in words(result)
    found = read()
    assert found["data"]["rows"] | {"read": 2000, "compared": 1700, "weightless": 300} == found["data"]["rows"]
    assert "Rows left out because they have weight 0: 300." in Path("comparison/comparison.html").read_text()
    run("rest.csv", *COLUMNS, "--weights", "weight")
    assert [found[name] for name in ("estimate", "low", "high")] == [
        read()[name] for name in ("estimate", "low", "high")
    ]
    table.assign(weight=0).to_csv("none.csv", index=False)
    assert "the other 2,000 rows have weight 0" in words(run("none.csv", *COLUMNS, "--weights", "weight"))


def test_models_that_hardly_ever_agree_make_one_check_what_is_positive(run, table):
    table.assign(new=1 - table["old"]).to_csv("opposite.csv", index=False)
    assert "They agree on 0.0 % of the 2,000 rows: check which decision of each is positive." in words(
        run("opposite.csv", *COLUMNS)
    )
