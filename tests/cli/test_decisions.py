"""``surefair audit --decision`` and ``--score``: exit codes, margins, several columns, kills, and wrong usage."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import jsonschema
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import surefair as sf
from surefair.audit.decisions import run as running
from surefair.cli import main

FEW = ("--replicates", "100")  # enough for two columns that share the error
CHUNKED = (
    "from surefair.audit.decisions import run as a; a.CHUNK = 200; import time; take = a.RunningDecisions._take\n"
    "def slow(self, *rest): take(self, *rest); time.sleep(0.02)\n"
    "a.RunningDecisions._take = slow; from surefair.cli import main; main()"
)


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def table(people):
    table = people(6000)
    return table.assign(
        decided=(table["age"] > 0.5).astype(int), coin=np.arange(6000) % 2, score=1.0 / (1.0 + np.exp(-table["age"]))
    )


def run(*arguments, **more):
    """Run the command; an exception that it lets through is a failure."""
    result = CliRunner().invoke(main, ["audit", *map(str, arguments)], **more)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def audit(table, *arguments, code=0):
    table.to_csv("data.csv", index=False)
    result = run("data.csv", "--sensitive", "sex", *FEW, *arguments)
    assert result.exit_code == code, result.output
    found = json.loads(Path("audit/audit.json").read_text())
    jsonschema.validate(found, sf.Audit.schema())
    return found, " ".join(result.output.split())


@pytest.mark.usefixtures("here")
class TestFindings:
    def test_the_exit_code_is_the_verdict(self, table):
        assert audit(table, "--decision", "coin", "--margin", "0.1")[0]["verdict"] == "within margin"
        assert audit(table, "--decision", "decided", "--margin", "0.1", code=3)[0]["verdict"] == "violates margin"
        assert audit(table[:60], "--decision", "coin", "--margin", "0.1", code=4)[0]["verdict"] == "not enough evidence"
        assert audit(table, "--decision", "decided")[0]["verdict"] is None

    def test_the_worst_of_several_columns_counts(self, table):
        found, output = audit(table, "--decision", "coin,decided", "--label", "high", "--margin", "0.1", code=3)
        assert [model["name"] for model in found["models"]] == ["coin", "decided"]
        assert "coin: unfairness, 95 % intervals, 6,000 rows" in output
        assert "Written: audit/report.html" in output
        assert "accuracy of all decisions" in output
        page = Path("audit/report.html").read_text()
        assert "<bdi>coin</bdi>" in page
        assert "<bdi>decided</bdi>" in page

    def test_metrics_have_their_own_margins(self, table):
        asked = ("--decision", "decided", "--label", "high", "--metric", "demographic_parity,accuracy")
        found, output = audit(table, *asked, "--margin", "0.05", "--margin", "demographic_parity=0.5")
        margins = {one["metric"]: one["margin"] for one in found["models"][0]["verdicts"]}
        assert margins == {"demographic_parity": 0.5, "accuracy": 0.05}
        assert found["settings"]["margin"] == margins
        assert "These metrics are judged together" in output
        found, _ = audit(table, "--decision", "decided", "--margin", "demographic_parity_ratio=0.8", code=3)
        assert [one["metric"] for one in found["models"][0]["verdicts"]] == ["demographic_parity_ratio"]

    def test_scores_with_and_without_a_threshold(self, table):
        found, _ = audit(table, "--score", "score", "--label", "high")
        assert [one["metric"] for one in found["models"][0]["intervals"]] == [
            "scoring_rate", "auc", "calibration", "mean_score"
        ]  # fmt: skip
        found, output = audit(table, "--score", "score", "--threshold-quantile", "0.75", "--margin", "0.05", code=3)
        assert "demographic parity" in output
        assert found["models"][0]["rows"] == {"decided": 6000, "labelled": None}
        found, _ = audit(table, "--score", "score", "--threshold", "0.6", "--margin", "0.05", code=3)
        assert found["models"][0]["threshold"] == 0.6

    def test_groups_that_are_not_compared_are_listed(self, table):
        table = table.assign(job=table["job"].where(np.arange(6000) % 10 > 0, None))
        table.to_csv("data.csv", index=False)
        asked = ("--decision", "decided", "--sensitive", "job", "--min-share", "0.06", "--reference", "clerk", *FEW)
        output = " ".join(run("data.csv", *asked).output.split())
        assert "Shown, not compared (unknown): (missing) (600 rows)." in output
        assert "Shown, not compared (less than 6 % of the rows): pilot" in output

    def test_clusters_strata_weights_and_intersections(self, table):
        table = table.assign(person=np.arange(6000) // 3, w=1 + np.arange(6000) % 2)
        found, output = audit(
            table, "--sensitive", "job", "--decision", "decided", "--clusters", "person", "--strata", "coin",
            "--weights", "w", "--intersections", "--min-share", "0.1",
        )  # fmt: skip
        assert "The 6,000 rows are in 2,000 clusters." in output
        assert "Gaps are within 2 strata" in output
        assert {one["column"] for one in found["groups"]} == {"sex", "job", "sex × job"}

    def test_a_policy_is_read(self, table):
        Path("surefair.toml").write_text('sensitive = "sex"\ndecision = "decided"\nmargin = 0.05\nreplicates = 60\n')
        table.to_csv("data.csv", index=False)
        assert run("data.csv", "--policy", "surefair.toml").exit_code == 3
        found = json.loads(Path("audit/audit.json").read_text())
        assert found["settings"]["policy"]["values"]["margin"] == 0.05
        result = run("data.csv", "--policy", "surefair.toml", "--margin", "0.2")
        assert result.exit_code == 1
        assert "The policy 'surefair.toml' says margin = 0.05, and 0.2 was passed" in " ".join(result.output.split())

    def test_quiet_shows_the_verdict_only(self, table):
        assert audit(table, "--decision", "coin", "--margin", "0.1", "--quiet")[1] == "within margin"

    def test_verbose_shows_groups_and_columns(self, table):
        output = audit(table, "--decision", "coin", "--verbose")[1]
        for word in ("Groups", "Columns", "compared", "sensitive", "decision"):
            assert word in output
        assert "constrained" not in output

    def test_standard_input_gives_the_same_findings(self, table):
        found, _ = audit(table, "--decision", "decided", "--label", "high")
        stream = run("-", "--sensitive", "sex", "--decision", "decided", "--label", "high", *FEW,
                     input=Path("data.csv").read_bytes())  # fmt: skip
        assert stream.exit_code == 0, stream.output
        again = json.loads(Path("audit/audit.json").read_text())
        assert {**found, "data": None} == {**again, "data": None}

    def test_shards_give_the_same_bytes_on_any_number_of_workers(self, table):
        Path("many").mkdir()
        for i in range(3):
            part = pa.Table.from_pandas(table[2000 * i : 2000 * (i + 1)], preserve_index=False)
            pq.write_table(part, f"many/{i}.parquet", row_group_size=500)
        asked = ("many", "--sensitive", "sex", "--decision", "decided", "--label", "high", "--shard-rows", "900", *FEW)
        for out, jobs in (("a", 1), ("b", 2)):
            result = run(*asked, "--jobs", jobs, "--out", out)
            assert result.exit_code == 0, result.output
            assert "Rows: 6,000 read in 6 shards; 6,000 counted." in " ".join(result.output.split())
        assert Path("a/audit.json").read_bytes() == Path("b/audit.json").read_bytes()


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["--decision", "decided"], 2, "Missing option '--sensitive'"),
        (["--sensitive", "sex"], 2, "Missing option '--decision' or '--score', or '--label' to train models"),
        (["--decision", "decided", "--sensitive", "sex", "--margin", "many"], 2, "'many' is not a number"),
        (["--decision", "decided", "--sensitive", "sex", "--margin", "auc=x"], 2, "'auc=x' is not a number"),
        (["--decision", "decided", "--sensitive", "sex", "--margin", "1", "--margin", "2"], 2, "second margin"),
        (
            ["--decision", "decided", "--sensitive", "sex", "--margin", "0.1", "--margin", "auc=0.1"],
            2,
            "name the metrics",
        ),
        (
            ["--decision", "decided", "--sensitive", "sex", "--features", "age"],
            1,
            "features (--features) is for audits of",
        ),
        (
            ["--label", "high", "--sensitive", "sex", "--strata", "job"],
            1,
            "strata (--strata) is for audits of decisions",
        ),
        (["--decision", "job", "--sensitive", "sex"], 1, "The decision 'job' must have two values"),
        (["--decision", "decided", "--sensitive", "sex", "--unknown", "drop"], 2, "is not one of"),
    ],
)
def test_wrong_usage_is_one_clear_line(here, table, arguments, code, words):
    table[:200].to_csv("data.csv", index=False)
    result = run("data.csv", *arguments)
    assert result.exit_code == code, result.output
    assert words in " ".join(result.output.split())
    assert not Path("audit/audit.json").exists()


@pytest.mark.parametrize("n_kills", [3, pytest.param(20, marks=pytest.mark.slow)])
def test_an_audit_that_is_killed_resumes_to_the_same_bytes(here, table, n_kills):
    """Kill -9 at several moments, then resume; a checkpoint is written after every chunk."""
    rng = np.random.default_rng(n_kills)
    table.to_csv("data.csv", index=False)
    asked = ["audit", "data.csv", "--decision", "decided,coin", "--label", "high", "--sensitive", "sex,job", *FEW]
    main_ = [sys.executable, "-c", CHUNKED]
    subprocess.run([*main_, *asked, "--out", "whole"], check=True, capture_output=True)
    process = subprocess.Popen(
        [*main_, *asked, "--out", "parts", "--checkpoint", "state", "--every-rows", "1"],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    for kill in range(1, n_kills + 1):
        _wait_for_checkpoint(process, 20 * kill // n_kills)
        time.sleep(rng.uniform(0.0, 0.03))  # the next chunk takes about as long
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert not Path("parts/audit.json").exists()
        process = subprocess.Popen(
            [*main_, "resume", "state", "--out", "parts", "--every-rows", "1"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
    assert process.wait() == 0
    for name in ("audit.json", "report.html"):
        assert Path("parts", name).read_bytes() == Path("whole", name).read_bytes()


def _wait_for_checkpoint(process, number):
    for _ in range(3000):
        if any(int(path.stem) >= number for path in Path("state").glob("[0-9]*.npz")):
            return
        assert process.poll() is None, "it ended before the checkpoint"
        time.sleep(0.01)
    raise AssertionError("there is no checkpoint")


def test_ctrl_c_reports_the_rows_so_far(here, table, monkeypatch):
    monkeypatch.setattr(running, "CHUNK", 1000)
    take = running.RunningDecisions._take

    def interrupted(self, *rest):
        take(self, *rest)
        if self.chunks == 2:
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(running.RunningDecisions, "_take", interrupted)
    found, output = audit(table, "--decision", "decided", "--checkpoint", "state", code=130)
    assert not found["complete"]
    assert found["rows"]["read"] == 2000
    assert "Stopped after 2,000 rows; continue with: surefair resume state" in output
