"""Absurd options and folders that take no files are refused before any work; SIGTERM stops like Ctrl-C."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import surefair as sf
from surefair.cli import main

ASKED = ("--label", "high", "--sensitive", "sex", "--jobs", "1")


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch, people):
    monkeypatch.chdir(tmp_path)
    people(700).to_csv("data.csv", index=False)


def refused(*arguments):
    result = CliRunner().invoke(main, ["audit", "data.csv", *ASKED, *arguments])
    assert result.exit_code in (1, 2), result.output
    assert isinstance(result.exception, SystemExit)
    return " ".join(result.output.split())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("--replicates", "100000000"),
            "n_replicates must be 1,000,000 or less; received 100,000,000, which would need",
        ),
        (("--tolerance", "nan"), "tolerance must be a number, 0 or larger; received nan"),
        (("--alpha", "nan"), "alpha must be a number"),
        (("--alpha", "inf"), "alpha must be a number"),
        (("--penalty", "nan"), "penalty must be a positive number"),
        (("--margin", "nan"), "margin must lie strictly between 0 and 1"),
        (("--level", "nan"), "nan"),
        (("--every-seconds", "nan"), "must be a number; received nan"),
    ],
    ids=str,
)
def test_absurd_options_are_refused_with_a_reason(arguments, message):
    assert message in refused(*arguments)
    assert not Path("audit/audit.json").exists()


def test_a_name_that_a_folder_has_is_refused_before_any_work():
    Path("out/report.html").mkdir(parents=True)
    assert "report.html' is a folder, and a file of that name is to be written" in refused("--out", "out")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_without_permission_is_refused_before_any_work():
    Path("out").mkdir(mode=0o500)
    assert "Nothing can be written to the folder 'out'" in refused("--out", "out")


@pytest.mark.parametrize("factor", [1e300, 1e-300, 2.0**500])
def test_only_ratios_of_weights_matter(people, factor):
    table = people(700).assign(w=lambda t: 1.0 + (t["age"] > 0))
    asked = {"label": "high", "sensitive": "sex", "weights": "w", "criterion": None, "n_replicates": 5}
    one, two = sf.audit(table, **asked), sf.audit(table.assign(w=table["w"] * factor), **asked)
    for name in ("estimate", "low", "high"):
        np.testing.assert_allclose(two.interval()[name], one.interval()[name], atol=1e-9)


@pytest.mark.slow
def test_sigterm_writes_a_report_of_the_rows_so_far(people, tmp_path):
    people(40_000).to_csv("data.csv", index=False)
    code = (
        "import os, signal; from surefair.audit import run as a; a.CHUNK = 5000; take = a.Running._take\n"
        "def taken(self, *args):\n"
        " take(self, *args); os.kill(os.getpid(), signal.SIGTERM) if self.chunks == 2 else None\n"
        "a.Running._take = taken; from surefair.cli import main; main()"
    )
    run = subprocess.run(
        [sys.executable, "-c", code, "audit", "data.csv", *ASKED, "--replicates", "10", "--checkpoint", "state"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert run.returncode == 130, run.stderr
    assert "continue with: surefair resume state" in run.stdout
    assert Path("audit/report.html").exists()
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
