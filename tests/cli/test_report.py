"""``surefair report`` writes the same page again from audit.json."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import surefair as sf
from surefair.cli import main


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["report", *map(str, arguments)])


@pytest.fixture
def written(tmp_path: Path) -> Path:
    """An audit.json of almost nothing, which still makes a report."""
    limits = {"estimate": 0.0, "low": 0.0, "high": 0.0}
    model = {"accuracy": limits, "intervals": [], "coefficients": [], "verdicts": [], "diagnostics": []}
    audit = sf.Audit(
        kind="training", sentence="Nothing differs.", verdict=None, complete=True, settings={},
        data={"name": "a", "kind": "csv", "files": []},
        rows={"read": 0, "training": 0, "evaluation": 0, "bad": []}, columns=[],
        groups=[], models=[model | {"name": "constrained"}, model | {"name": "unconstrained"}], price=limits, path=[],
        assumptions=[], versions={},
    )  # fmt: skip
    audit.to_json(tmp_path / "audit.json")
    audit.to_html(tmp_path / "expected.html")
    return tmp_path / "audit.json"


def test_the_report_goes_beside_the_json_file(written: Path) -> None:
    result = run(written)
    assert result.exit_code == 0, result.output
    assert result.output == f"Written: {written.with_name('report.html')}\n"
    assert written.with_name("report.html").read_bytes() == written.with_name("expected.html").read_bytes()


def test_out_names_another_file(written: Path, tmp_path: Path) -> None:
    result = run(written, "--out", tmp_path / "other.html")
    assert result.exit_code == 0, result.output
    assert (tmp_path / "other.html").read_bytes() == written.with_name("expected.html").read_bytes()
    assert not written.with_name("report.html").exists()


def test_errors_are_one_plain_line(written: Path, tmp_path: Path) -> None:
    old = tmp_path / "old.json"
    old.write_text(json.dumps(json.loads(written.read_text()) | {"version": 1}))
    text = tmp_path / "text.json"
    text.write_text("hello")
    for arguments, message in [
        ([tmp_path / "none.json"], "none.json: No such file or directory."),
        ([tmp_path], "Is a directory."),
        ([text], "is not JSON"),
        ([old], "received version 1. Run the audit again"),
        ([written, "--out", tmp_path], "is a folder. Name a file"),
        ([written, "--out", tmp_path / "no" / "report.html"], "to save into does not exist. Create it first."),
    ]:
        result = run(*arguments)
        assert result.exit_code == 1
        assert message in result.output
        assert result.output.startswith("Error: ")
        assert result.output.count("\n") == 1
    assert not (tmp_path / "report.html").exists()


def test_title_purpose_author_and_date_head_the_report(written: Path, tmp_path: Path) -> None:
    given = ["--title", "Loans <i>", "--purpose", "Review", "--author", "A. N. Other", "--date", "2026-03-31"]
    result = run(written, *given, "--out", tmp_path / "other.html")
    assert result.exit_code == 0, result.output
    page = (tmp_path / "other.html").read_text()
    for words in ("Loans &lt;i&gt;", "Review", "A. N. Other", "2026-03-31"):
        assert words in page
    again = run(written, *given, "--out", tmp_path / "again.html")
    assert again.exit_code == 0
    assert (tmp_path / "again.html").read_bytes() == (tmp_path / "other.html").read_bytes()


def test_a_date_that_is_none_is_refused(written: Path) -> None:
    result = run(written, "--date", "yesterday")
    assert result.exit_code == 1
    assert "date must be a day such as 2026-03-31; received 'yesterday'" in " ".join(result.output.split())
    assert not written.with_name("report.html").exists()
