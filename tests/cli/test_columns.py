"""Commands that read a file take the same options for its columns, and read the file in the same way."""

from __future__ import annotations

import json
from functools import reduce
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pytest
from click.testing import CliRunner

from surefair.cli import main
from surefair.rows import Rows
from surefair.tables.intake import Intake

COLUMNS = ("--label", "high", "--sensitive", "sex")
SHORT = {
    "audit": ("--replicates", "5", "--jobs", "1"),
    "calibrate": ("--replicates", "5", "--jobs", "1", "--rows", "100", "--repetitions", "2", "--quiet"),
}


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with plt.rc_context({"backend": "Agg"}):
        yield tmp_path
    plt.close("all")


@pytest.fixture
def read(here, monkeypatch):
    """Return a function that runs a command on data.csv, and returns the rows read, the intake and the output."""
    before = Intake.rows
    seen = []

    def rows(self, table):
        found = before(self, table)
        seen.append((found, self))
        return found

    monkeypatch.setattr(Intake, "rows", rows)

    def run(command, *options):
        seen.clear()
        result = CliRunner().invoke(main, [command, "data.csv", *COLUMNS, *options, *SHORT[command]])
        assert result.exit_code == 0, result.output
        intake = seen[0][1]  # a calibration also reads the files that it draws
        parts = [part for part, of in seen if of is intake]
        return reduce(Rows.followed_by, parts), intake, " ".join(result.output.split())

    return run


@pytest.fixture
def table(people):
    """Rows with missing values, words, an identifier, and a column of weights."""
    table = people(1500)
    i = np.arange(len(table))
    return table.assign(
        hours=table["hours"].mask(i % 40 == 7), job=table["job"].mask(i % 90 == 3), id=[f"n{k}" for k in i],
        w=1.0 + i % 3,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("options", "features"),
    [
        ((), {"age", "hours", "job", "w"}),
        (("--drop", "w,job"), {"age", "hours"}),
        (("--drop", "w", "--drop", "job"), {"age", "hours"}),
        (("--features", "age,job"), {"age", "job"}),
        (("--weights", "w"), {"age", "hours", "job"}),
        (("--positive", "0"), {"age", "hours", "job", "w"}),
        (("--sensitive", "job"), {"age", "hours", "w"}),
    ],
)
def test_audit_and_calibrate_read_the_same_rows(table, read, options, features):
    """Words become indicators, missing numbers get one too, an identifier is left out."""
    table.to_csv("data.csv", index=False)
    options = (*options, "--max-bad-rows", "200")  # for missing values of the sensitive column
    ours, intake, _ = read("calibrate", *options)
    theirs, known, _ = read("audit", *options)
    assert ours.same_as(theirs)
    assert ours.names.features == theirs.names.features
    assert ours.groups.labels == theirs.groups.labels
    assert intake.labels == known.labels
    assert intake.pack() == known.pack()
    assert {name.split(" ")[0] for name in ours.names.features} == features
    kept = json.loads(Path("calibration/calibration.json").read_text())
    assert kept["settings"]["n_population"] == len(table)


def test_audit_and_calibrate_read_the_same_dialect(table, read):
    table.to_csv("data.csv", index=False)
    expected, _, _ = read("calibrate")
    table = table.replace({"job": {"cook": "Köchin"}})
    table.to_csv("data.csv", index=False, header=False, sep=";", encoding="latin-1")
    options = ("--names", ",".join(table.columns), "--delimiter", ";", "--encoding", "latin-1")
    ours, _, _ = read("calibrate", *options)
    theirs, _, _ = read("audit", *options)
    assert ours.same_as(theirs)
    assert "job = Köchin" in ours.names.features
    assert np.array_equal(ours.y, expected.y)


def test_audit_and_calibrate_count_the_same_bad_rows(table, read):
    lines = table.astype({"age": object}).to_csv(index=False).splitlines()
    lines[30] = "1,2"
    lines[800] = "1,2"
    fields = lines[40].split(",")
    lines[40] = ",".join(["unknown", *fields[1:]])
    Path("data.csv").write_text("\n".join(lines) + "\n")
    ours, intake, output = read("calibrate")
    theirs, known, shown = read("audit")
    assert ours.same_as(theirs)
    assert intake.bad.to_dict() == known.bad.to_dict()
    assert ours.n == len(table) - 3
    for words in (
        "Not used: 2 rows (too few fields); the first: line 31: '1,2'.",
        "Not used: 1 row (column 'age' holds text among numbers); the first: row 39 of those with all fields.",
    ):
        assert words in output
        assert words in shown
    result = CliRunner().invoke(main, ["calibrate", "data.csv", *COLUMNS, "--max-bad-rows", "2"])
    assert result.exit_code == 1
    assert "3 rows cannot be used, and the limit is 2." in result.output


def test_a_file_with_few_rows_cannot_stand_for_a_population(people, here):
    people(9).assign(high=np.arange(9) % 2).to_csv("data.csv", index=False)
    result = CliRunner().invoke(main, ["calibrate", "data.csv", *COLUMNS, "--features", "age"])
    assert result.exit_code == 1
    assert "9 rows are too few to stand for a population" in result.output


@pytest.mark.parametrize("option", [("--drop", "x1"), ("--weights", "x1"), ("--positive", "1"), ("--delimiter", ";")])
def test_options_for_columns_are_refused_with_a_data_set(here, option):
    result = CliRunner().invoke(main, ["calibrate", "--dataset", "synthetic_dm", *option])
    assert result.exit_code == 2
    assert f"Leave out {option[0]}." in " ".join(result.output.replace("│", " ").split())


@pytest.mark.parametrize("command", ["audit", "calibrate"])
def test_the_help_lists_the_options_for_columns(command):
    words = CliRunner().invoke(main, [command, "--help"]).output
    for option in ("label", "sensitive", "positive", "features", "drop", "weights", "names", "delimiter", "encoding"):
        assert f"--{option} " in words
    assert "--max-bad-rows" in words
