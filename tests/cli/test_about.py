"""``surefair audit`` and ``resume`` put title, purpose, author and date at the head of the report."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

from surefair.cli import main

GIVEN = ("--title", "Loans", "--purpose", "Review", "--author", "A. N. Other", "--date", "2026-03-31")
ASKED = ("data.csv", "--label", "y", "--sensitive", "sex", "--replicates", 5, "--quiet")


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"x": rng.normal(size=400), "sex": rng.choice(["f", "m"], 400)})
    table["y"] = (table["x"] + rng.normal(size=400) > 0.0).astype(int)
    table.to_csv("data.csv", index=False)


def run(*arguments):
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def head(folder):
    return Path(folder, "report.html").read_text().split('<section id="summary"')[0]


def test_the_heading_is_in_json_and_report_and_the_same_after_resume():
    result = run("audit", *ASKED, *GIVEN, "--checkpoint", "state", "--out", "one")
    assert result.exit_code == 0, result.output
    settings = json.loads(Path("one/audit.json").read_text())["settings"]
    assert [settings[name] for name in ("title", "purpose", "author", "date")] == list(GIVEN[1::2])
    for words in GIVEN[1::2]:
        assert words in head("one")
    assert run("resume", "state", "--quiet", "--out", "two").exit_code == 0
    for name in ("audit.json", "report.html"):
        assert Path("one", name).read_bytes() == Path("two", name).read_bytes()


def test_without_a_heading_there_is_no_date():
    assert run("audit", *ASKED, "--out", "plain").exit_code == 0
    assert "Date" not in head("plain")
    assert "Fairness audit of" in head("plain")


@pytest.mark.parametrize(("option", "value"), [("--date", "1.2.2026"), ("--title", " ")])
def test_a_heading_that_makes_no_sense_is_refused_before_any_work(option, value):
    result = run("audit", *ASKED, option, value, "--out", "never")
    assert result.exit_code == 1
    assert f"{option[2:]} must be" in result.output
    assert not Path("never").exists()
