"""``surefair plan``: rows needed, by group."""

from __future__ import annotations

import re

import pytest
from click.testing import CliRunner

import surefair as sf
from surefair.cli import main


def run(*arguments):
    return CliRunner().invoke(main, ["plan", *map(str, arguments)])


def test_the_table_shows_the_rows_of_every_group():
    result = run("--margin", 0.1, "--rates", "0.3,0.3", "--shares", "0.9,0.1")
    assert result.exit_code == 0, result.output
    expected = sf.plan(0.1, rates=[0.3, 0.3], shares=[0.9, 0.1])
    rows = [line.split("│") for line in result.output.splitlines() if line.count("│") == 5]
    found = {cells[1].strip(): cells[4].strip() for cells in rows}
    first, second = expected.to_dict()["by_group"]
    assert found == {"1": f"{first['rows']:,}", "2": f"{second['rows']:,}", "all": f"{expected.rows:,}"}
    assert "'within margin'" in result.output


def test_groups_can_have_names_and_shares_may_leave_rows_out():
    result = run("--margin", 0.8, "--ratio", "--rates", "f=0.3,m=0.5", "--shares", "m=0.2, f=0.3", "--power", 0.9)
    assert result.exit_code == 0, result.output
    assert "'violates margin'" in result.output
    assert re.search(r"│ f +│ +0.3 │ +0.3 │", result.output)
    assert re.search(r"│ all +│ +│ +0.5 │", result.output)


def test_a_gap_at_the_margin_has_no_plan_and_its_own_exit_code():
    result = run("--margin", 0.1, "--rates", "0.3,0.4")
    assert result.exit_code == 4
    assert "no number of rows" in " ".join(result.output.split())


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["--rates", "0.3,0.3"], 2, "--margin"),
        (["--margin", 0.1], 2, "--rates"),
        (["--margin", 0.1, "--rates", "0.3;0.4"], 2, "numbers with commas"),
        (["--margin", 0.1, "--rates", "f=0.3,0.4"], 2, "name every group once"),
        (["--margin", 0.1, "--rates", "f=0.3,f=0.4"], 2, "name every group once"),
        (["--margin", 0.1, "--rates", "0.3,1.4"], 1, "between 0 and 1"),
        (["--margin", 0.1, "--rates", "0.3,nan"], 1, "between 0 and 1"),
        (["--margin", 0.1, "--rates", "0.3"], 1, "two or more groups"),
        (["--margin", 1.5, "--rates", "0.3,0.3"], 1, "margin must lie"),
        (["--margin", 0.1, "--rates", "0.3,0.3", "--power", 1], 1, "power must lie"),
        (["--margin", 0.1, "--rates", "0.3,0.3", "--level", 95], 1, "confidence_level must lie"),
        (["--margin", 0.1, "--rates", "0.3,0.3", "--shares", "0.9,0.2"], 1, "at most 1"),
        (["--margin", 0.1, "--rates", "f=0.3,m=0.3", "--shares", "f=0.5,x=0.5"], 1, "same groups"),
        (["--margin", 0.1, "--rates", "0.3,0.3", "--shares", "0.5,0.3,0.2"], 1, "same groups"),
        (["--margin", 0.8, "--ratio", "--rates", "0,0.3"], 1, "larger than 0"),
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_refused_in_one_line(arguments, code, words):
    result = run(*arguments)
    assert result.exit_code == code
    assert words in " ".join(result.output.split())
    assert "Traceback" not in result.output


def test_help_states_the_exit_codes():
    assert "Exit codes: 0" in " ".join(run("--help").output.split())
