"""``surefair audit`` and ``resume``: output, files, exit codes, and what happens with bad data, kills, full disks."""

from __future__ import annotations

import json
import os
import resource
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

from surefair import CRITERIA
from surefair.audit import run as auditing
from surefair.audit.result import Audit
from surefair.cli import main
from surefair.losses import LOSSES
from surefair.tables.bad_rows import BadRows
from surefair.tables.source import open_source

CHUNKED = "from surefair.audit import run as a; a.CHUNK = 1000; from surefair.cli import main; main()"
ASKED = ("--label", "high", "--sensitive", "sex", "--replicates", "40", "--jobs", "1")


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    monkeypatch.setattr(auditing, "CHUNK", 1000)


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*arguments, **more):
    """Run a command; an exception that it lets through is a failure."""
    result = CliRunner().invoke(main, [str(argument) for argument in arguments], **more)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    assert "Traceback" not in result.output
    return result


def save(table, name="data.csv"):
    """Write a table to the current folder."""
    if name.endswith(".parquet"):
        pq.write_table(table if isinstance(table, pa.Table) else pa.Table.from_pandas(table), name)
    else:
        table.to_csv(name, index=False)
    return name


def audit(data, *arguments, expected=0, replicates=5):
    """Audit a table or file, and read what was written."""
    name = data if isinstance(data, str) else save(data)
    result = run("audit", name, *ASKED, "--replicates", replicates, *arguments)
    assert result.exit_code == expected, result.output
    found = json.loads(Path("audit/audit.json").read_text())
    jsonschema.validate(found, Audit.schema())
    return found, " ".join(result.output.split())


def refused(data, *arguments, code=1, asked=ASKED):
    """Return the error about data or options that cannot be used; nothing is written."""
    name = data if isinstance(data, str) else save(data)
    result = run("audit", name, *asked, *arguments)
    assert result.exit_code == code, result.output
    assert not Path("audit/audit.json").exists()
    assert not Path("audit/report.html").exists()
    assert result.output.strip()
    return " ".join(result.output.split())


def bad(found):
    return {one["reason"]: (one["count"], one["first"]) for one in found["rows"]["bad"]}


def column(found, name):
    return next(one for one in found["columns"] if one["name"] == name)


# -- Findings ----------------------------------------------------------------------------------------------------------


def test_an_audit_writes_json_and_a_report_and_shows_its_findings(here, people):
    found, output = audit(people(3000))
    assert found["complete"]
    assert found["sentence"] in output
    assert "Rows: 3,000 read; " in output
    assert "demographic parity" in output
    assert "Written: audit/audit.json Written: audit/report.html" in output
    assert Path("audit/report.html").read_text().startswith("<!DOCTYPE html>")
    assert found["data"]["files"][0]["size"] == Path("data.csv").stat().st_size


def test_quiet_shows_less_and_verbose_shows_more(here, people):
    quiet = audit(people(2000), "--quiet")[1]
    assert quiet == ""
    assert audit("data.csv", "--quiet", "--margin", "0.1", expected=4)[1] == "not enough evidence"
    verbose = audit("data.csv", "--verbose")[1]
    for word in ("Groups", "Columns", "age", "category"):
        assert word in verbose
    assert "encoding" not in verbose


def test_the_same_input_and_seed_give_the_same_bytes(here, people):
    save(people(3000))
    for out, seed, jobs in (("a", 0, 1), ("b", 0, 2), ("c", 1, 1)):
        run("audit", "data.csv", *ASKED, "--out", out, "--seed", seed, "--jobs", jobs)
    for name in ("audit.json", "report.html"):
        first, again, other = (Path(out, name).read_bytes() for out in "abc")
        assert first == again
        assert first != other


def test_an_audit_reads_standard_input(here, people):
    content = people(2000).to_csv(index=False)
    result = run("audit", "-", *ASKED, "--quiet", input=content)
    assert result.exit_code == 0, result.output
    found = json.loads(Path("audit/audit.json").read_text())
    assert found["data"]["name"] == "standard input"
    assert found["data"]["files"][0]["size"] == len(content)
    assert found["rows"]["read"] == 2000


def test_options_reach_the_audit(here, people):
    table = people(2500).assign(w=1.5, person=lambda t: np.arange(len(t)) // 2)
    table.to_csv("data.csv", index=False, header=False, sep=";", encoding="latin-1")
    found, _ = audit(
        "data.csv", "--names", "age,hours,job,sex,high,w,person", "--delimiter", ";", "--encoding", "latin-1",
        "--criterion", "equalized_odds", "--metric", "error_rate", "--metric", "equalized_odds", "--margin", "0.9",
        "--positive", "0", "--features", "age,hours", "--features", "job", "--weights", "w", "--clusters", "person",
        "--level", "0.9", "--alpha", "0.02", "--surrogate", "scores", "--tolerance", "0.01", "--seed", "3",
        "--keep-order", expected=4,
    )  # fmt: skip
    settings = found["settings"]
    assert settings["labels"] == ["1", "0"]
    assert settings["metric"] == ["error_rate", "equalized_odds"]
    assert settings["features"] == ["age", "hours", "job"]
    assert (settings["confidence_level"], settings["alpha"], settings["penalty"]) == (0.9, 0.02, None)
    assert (settings["surrogate"], settings["tolerance"]) == ("scores", 0.01)
    assert (settings["random_state"], settings["keep_order"], settings["margin"]) == (3, True, 0.9)
    assert [column(found, name)["role"] for name in ("w", "person", "job")] == ["weights", "clusters", "category"]
    assert found["models"][0]["criterion"] == "equalized_odds"
    assert {one["method"] for one in found["models"][0]["intervals"] if one["source"] == "total"} == {"clusters"}


@pytest.mark.parametrize("command", ["audit", "calibrate"])
def test_the_help_names_every_criterion_and_loss(command):
    words = " ".join(run(command, "--help").output.split())
    assert f"Criterion to enforce: {', '.join(sorted(CRITERIA))}; or none." in words
    assert f"Loss: {' or '.join(sorted(LOSSES))}." in words


# -- Exit codes --------------------------------------------------------------------------------------------------------


def test_a_penalty_reaches_the_audit(here, people):
    found, _ = audit(people(2000), "--penalty", "3")
    assert (found["settings"]["penalty"], found["settings"]["surrogate"]) == (3.0, "decisions")


def test_the_exit_code_is_the_verdict(here, people, monkeypatch):
    monkeypatch.setattr(auditing, "CHUNK", 50_000)  # with few warm-up rows there is no definite verdict
    save(people(4000))
    for criterion, margin, code, verdict in (
        ("demographic_parity", None, 0, None),
        ("demographic_parity", 0.5, 0, "within margin"),
        ("none", 0.05, 3, "violates margin"),
        ("none", 0.27, 4, "not enough evidence"),
    ):
        more = () if margin is None else ("--margin", margin)
        more = (*more, "--tolerance", 0.1) if criterion != "none" else more  # equality would leave little to learn
        found, output = audit("data.csv", "--criterion", criterion, *more, expected=code, replicates=40)
        assert found["verdict"] == verdict
        assert output.endswith("report.html")
        assert verdict is None or verdict in output


def test_help_documents_the_exit_codes():
    result = run("audit", "--help")
    words = " ".join(result.output.split())
    assert result.exit_code == 0
    for part in (
        "0 within the margin, or no margin given", "3 violates the margin", "4 not enough evidence", "1 an error",
        "2 wrong usage", "130 stopped by Ctrl-C",
    ):  # fmt: skip
        assert part in words
    assert "Exit codes are those of surefair audit" in " ".join(run("resume", "--help").output.split())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["audit"], "Missing argument 'DATA'"),
        (["audit", "data.csv", "--sensitive", "sex"], "Missing option '--decision' or '--score', or '--label'"),
        (["audit", "data.csv", "--label", "high"], "Missing option '--sensitive'"),
        (["audit", "data.csv", *ASKED, "--margin", "much"], "'much' is not a number"),
        (["audit", "data.csv", *ASKED, "--jobs", "0"], "'--jobs': must be a number of threads, or -1 for"),
        (["audit", "data.csv", *ASKED, "--replicates", "1"], "not in the range"),
        (["audit", "data.csv", *ASKED, "--max-bad-rows", "-1"], "not in the range"),
        (["audit", "data.csv", *ASKED, "--every-rows", "0"], "not in the range"),
        (["audit", "data.csv", *ASKED, "--every-seconds", "-3"], "not in the range"),
        (["audit", "data.csv", *ASKED, "--level", "95"], "'--level': 95.0 is not in the range 0.0<x<1.0"),
        (
            ["audit", "data.csv", *ASKED, "--criterion", "None"],
            "Unknown criterion: 'None'. Did you mean 'none'? Known: ",
        ),
        (["audit", "data.csv", *ASKED, "--criterion", "demografic_parity"], "Did you mean 'demographic_parity'"),
        (["audit", "data.csv", *ASKED, "--surrogate", "score"], "'score' is not one of 'decisions', 'scores'"),
        (["audit", "data.csv", *ASKED, "--constraint-rows", "100"], "No such option '--constraint-rows'"),
        (["audit", "data.csv", *ASKED, "--out", "data.csv"], "is a file"),
        (["resume", "nowhere"], "does not exist"),
    ],
)
def test_wrong_usage_ends_with_code_2(here, people, arguments, message):
    save(people(300))
    result = run(*arguments)
    assert result.exit_code == 2
    assert message in " ".join(result.output.split())


# -- Bad settings ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--margin", "0"], "between 0 and 1, for example 0.05 for 5 percentage points; received 0.0."),
        (["--margin", "1"], "margin must lie strictly between 0 and 1"),
        (["--margin", "5"], "margin must lie strictly between 0 and 1"),
        (["--margin", "nan"], "margin must lie strictly between 0 and 1"),
        (["--metric", "eror_rate"], "'eror_rate'. Did you mean 'error_rate'?"),
        (["--loss", "logloss"], "Unknown loss: 'logloss'. Did you mean 'log_loss'?"),
        (["--label", "sex"], "Column 'sex' has two roles."),
        (["--label", "hihg"], "Unknown column for label: 'hihg'. Did you mean 'high'?"),
        (["--sensitive", "sexx"], "Unknown column for sensitive: 'sexx'. Did you mean 'sex'?"),
        (["--features", "agee"], "Unknown column for features: 'agee'. Did you mean 'age'?"),
        (["--drop", "agee"], "Unknown column for drop: 'agee'. Did you mean 'age'?"),
        (["--weights", "ages"], "Unknown column for weights: 'ages'. Did you mean 'age'?"),
        (["--clusters", "ages"], "Unknown column for clusters: 'ages'. Did you mean 'age'?"),
        (["--features", "age,high"], "Column 'high' is the label or the weights"),
        (["--weights", "sex"], "Column 'sex' has two roles."),
        (["--positive", "yes"], "Unknown value of the label 'high': 'yes'. Known: '0', '1'."),
        (["--names", "a,b"], "names has 2 column names"),
        (["--delimiter", "::"], "The delimiter must be one ASCII character"),
        (["--encoding", "utf8000"], "Unknown encoding: 'utf8000'"),
        (["--alpha", "-1"], "alpha must be a number, 0 or larger"),
        (["--tolerance", "1"], "between two shares of decisions, so it must be less than 1; received 1.0."),
        (["--penalty", "0"], "penalty must be a positive number, or None for a constraint; received 0.0."),
        (["--tolerance", "0.05", "--penalty", "2"], "received tolerance=0.05 and penalty=2.0. Leave one of them out."),
    ],
)
def test_a_setting_that_makes_no_sense_is_refused(here, people, arguments, message):
    assert message in refused(people(400), *arguments)


@pytest.mark.parametrize("arguments", [("--alpha", "-1"), ("--label", "hihg"), ("--tolerance", "-1")])
def test_a_refused_audit_leaves_no_folder(here, people, arguments):
    refused(people(400), *arguments)
    assert not Path("audit").exists()
    assert run("resume", here, "--out", "audit").exit_code == 1  # there is no checkpoint
    assert not Path("audit").exists()


# -- Bad data ----------------------------------------------------------------------------------------------------------


def test_for_a_missing_file_a_similar_name_is_suggested(here, people):
    save(people(100), "people.csv")
    assert "There is no file 'peple.csv'. Did you mean 'people.csv'?" in refused("peple.csv")


def test_an_empty_file_is_refused(here):
    Path("data.csv").touch()
    assert "data.csv is empty" in refused("data.csv")


def test_a_file_with_only_a_header_is_refused(here):
    Path("data.csv").write_text("age,sex,high\n")
    assert "data.csv has columns but no rows" in refused("data.csv")


def test_an_unknown_suffix_is_refused(here, people):
    people(100).to_csv("data.xyz")
    assert "The suffix of 'data.xyz' does not say what kind of file it is" in refused("data.xyz")


def test_a_label_with_one_value_is_refused(here, people):
    words = refused(people(2000).assign(high=1))
    assert "The label 'high' must have two values; the first 1,000 rows show 1: '1' (1,000 rows)." in words
    assert "shuffle" in words


def test_a_label_with_three_values_is_refused(here, people):
    table = people(2000)
    table.loc[:10, "high"] = 2
    words = refused(table)
    assert "must have two values; the first 1,000 rows show 3: '0' (" in words
    assert "'2' (11 rows). Keep or merge two of them." in words


def test_a_third_value_of_the_label_that_appears_later_makes_bad_rows(here, people):
    table = people(3000)
    table.loc[[1500, 2100, 2101], "high"] = 2
    found, output = audit(table)
    assert bad(found) == {"a label 'high' other than '0' and '1'": (3, "row 1,501")}
    assert "Not used: 3 rows (a label 'high' other than '0' and '1'); the first: row 1,501." in output


def test_an_empty_label_column_is_refused(here, people):
    assert "the first 1,000 rows show 0: none" in refused(people(2000).assign(high=None))


def test_a_single_group_is_refused(here, people):
    words = refused(people(2000).assign(sex="f"))
    assert "The sensitive column 'sex' shows 1 group, 'f', in the first 1,000 rows" in words


def test_an_empty_sensitive_column_is_refused(here, people):
    words = refused(people(2000).assign(sex=None), "--max-bad-rows", 5000)
    assert "The sensitive column 'sex' shows 0 group" in words


def test_missing_labels_and_groups_are_counted(here, people):
    table = people(3000).astype({"high": object})
    table.loc[[7, 2000], "high"] = None
    table.loc[[9, 10, 2999], "sex"] = None
    found, _ = audit(table)
    assert bad(found) == {"no label 'high'": (2, "row 8"), "no value of the sensitive column 'sex'": (3, "row 10")}
    assert found["rows"]["read"] == 3000


def test_rows_with_too_few_fields_are_counted_and_the_first_is_located(here, people):
    lines = people(2500).to_csv(index=False).splitlines()
    lines[30] = "1,2"
    lines[2000] = "1,2,3"
    lines[2100] = lines[2100] + ",more"
    Path("data.csv").write_text("\n".join(lines))
    found, output = audit("data.csv")
    assert bad(found) == {
        "too few fields": (2, "line 31: '1,2'"), "too many fields": (1, f"line 2101: {lines[2100]!r}")
    }  # fmt: skip
    assert found["rows"]["read"] == 2500
    assert "Not used: 2 rows (too few fields); the first: line 31: '1,2'." in output


def test_too_many_bad_rows_stop_the_audit_with_a_list(here, people):
    lines = people(2500).to_csv(index=False).splitlines()
    lines[30] = "1,2"
    lines[40] = "5,5,clerk,,1"
    lines[2000] = "1,2"
    Path("data.csv").write_text("\n".join(lines))
    assert audit("data.csv", "--max-bad-rows", 3)[0]["complete"]
    Path("audit/audit.json").unlink()
    Path("audit/report.html").unlink()
    words = refused("data.csv", "--max-bad-rows", 2)
    assert "3 rows cannot be used, and the limit is 2." in words
    assert "no value of the sensitive column 'sex': 1, the first in row 39" in words
    assert "too few fields: 2, the first in line 31: '1,2'" in words
    assert "--max-bad-rows" in words


@pytest.mark.parametrize("place", [40, 1900])
def test_text_among_numbers_makes_a_bad_row(here, people, place):
    table = people(2000).astype({"age": object})
    table.loc[place, "age"] = "unknown"
    found, _ = audit(table)
    assert bad(found) == {"column 'age' holds text among numbers": (1, f"row {place + 1:,}")}
    assert column(found, "age")["role"] == "number"


@pytest.mark.parametrize("place", [40, 1900])
@pytest.mark.parametrize("kind", ["data.csv", "data.parquet"])
def test_an_infinite_value_makes_a_bad_row(here, people, place, kind):
    table = people(2000)
    table.loc[place, "age"] = -np.inf
    found, _ = audit(save(table, kind))
    assert bad(found) == {"column 'age' holds an infinite value": (1, f"row {place + 1:,}")}


def test_a_wrong_encoding_is_refused_with_a_suggestion(here, people):
    table = people(1500).replace({"job": {"cook": "Köchin"}})
    table.to_csv("data.csv", index=False, encoding="latin-1")
    words = refused("data.csv")
    assert "data.csv is not in the encoding 'utf-8': byte 0xf6 in line " in words
    assert "--encoding latin-1" in words
    found, _ = audit("data.csv", "--encoding", "latin-1")
    assert any(row["feature"] == "job = Köchin" for row in found["models"][0]["coefficients"])


def test_a_last_line_that_is_cut_short_is_a_bad_row(here, people):
    Path("data.csv").write_text(people(2000).to_csv(index=False).rstrip()[:-4])
    found, _ = audit("data.csv")
    ((reason, (count, first)),) = bad(found).items()
    assert (reason, count) == ("too few fields", 1)
    assert first.startswith("line 2001: ")


def test_a_quoted_field_that_does_not_end_is_refused(here, people):
    Path("data.csv").write_text(people(500).to_csv(index=False) + '1,2,"coo')
    assert "data.csv has a quoted field that begins in line 502 and does not end" in refused("data.csv")


def test_a_parquet_file_that_is_cut_short_is_refused(here, people):
    save(people(500), "data.parquet")
    Path("data.parquet").write_bytes(Path("data.parquet").read_bytes()[:-100])
    assert "data.parquet is not a Parquet file, or is cut short" in refused("data.parquet")


def test_a_constant_column_is_left_out_with_the_reason(here, people):
    found, _ = audit(people(1500).assign(country="US", year=2024, empty=None))
    assert column(found, "country")["note"] == "constant, 'US' in 1,000 rows drawn from all"
    assert column(found, "year")["note"] == "constant, 2024 in 1,000 rows drawn from all"
    assert column(found, "empty")["note"] == "every value is missing"
    assert {column(found, name)["role"] for name in ("country", "year", "empty")} == {"left out"}


def test_data_without_a_column_that_varies_are_refused(here, people):
    words = refused(people(1500).assign(age=1, hours=2, job="cook"))
    assert "No column is left to learn from ('age': constant, 1 in 1,000 rows drawn from all; 'hours': c" in words


def test_text_does_not_make_a_constant_column_vary(here, people):
    table = people(1500)[["sex", "high"]].assign(z="5")
    table.loc[::100, "z"] = "unknown"
    assert "No column is left to learn from ('z': constant, 5 in 1,000 rows drawn from all)" in refused(table)


def test_data_without_a_feature_are_refused(here, people):
    assert "No column is left to learn from. Name some as features." in refused(people(500)[["sex", "high"]])


@pytest.mark.parametrize("rows", [30, 45])
def test_a_file_with_few_rows_is_refused(here, people, rows):
    assert "There are too few rows" in refused(people(rows))


def test_a_file_with_hardly_enough_rows_serves_twice_and_gives_no_definite_verdict(here, people):
    found, output = audit(people(150), "--margin", "0.9", expected=4, replicates=40)
    assert found["rows"] == {"read": 150, "training": 150, "evaluation": 150, "bad": [], "folds": 5, "labelled": 150}
    assert found["models"][0]["intervals"][0]["high"] < 0.9
    assert "Assumption not met: The solver reaches the optimum" in output


def test_a_file_with_one_row_is_refused(here, people):
    assert "The label 'high' must have two values; the first 1 row shows 1" in refused(people(1))


def test_a_group_of_five_rows_is_measured_and_reported(here, people):
    table = people(3000)
    table.loc[[20, 21, 900, 1500, 2800], "sex"] = "x"
    found, output = audit(table, "--verbose")
    small = next(one for one in found["groups"] if one["group"] == "x")
    assert small["training"] + small["evaluation"] == 5
    assert not small["constrained"]
    assert "Assumption not met: Every group has enough rows to be constrained." in output
    assert "Group 'x' of 'sex' has" in output


def test_invalid_weights_make_bad_rows(here, people):
    table = people(2500).assign(w=1.0).astype({"w": object})
    table.loc[[3, 1500], "w"] = -1
    table.loc[2000, "w"] = None
    table.loc[2001, "w"] = "heavy"
    found, _ = audit(table, "--weights", "w")
    assert bad(found) == {"a weight 'w' that is missing, negative or infinite": (4, "row 4")}


def test_every_kind_of_missing_value_in_parquet_is_counted(here, people):
    """None, NaN and null all count as missing; in label and group they make bad rows."""
    table = people(3000)
    missing = np.arange(3000) % 100 == 5
    columns = {
        "age": pa.array(table["age"].where(~missing)),
        "hours": pa.array(table["hours"].where(~missing), from_pandas=True),
        "job": pa.array(table["job"].astype(object).where(~missing, None)),
        "sex": pa.array(np.where(np.arange(3000) == 10, np.nan, table["sex"] == "m")),
        "high": pa.array(np.where(np.isin(np.arange(3000), [1, 1200]), np.nan, table["high"])),
    }
    assert columns["age"].null_count == 0 or columns["hours"].null_count == 30
    found, _ = audit(save(pa.table(columns), "data.parquet"))
    assert [column(found, name)["missing"] for name in ("age", "hours", "job")] == [30, 30, 30]
    assert [one["group"] for one in found["groups"]] == ["0", "1"]
    assert found["settings"]["labels"] == ["0", "1"]
    assert bad(found) == {"no label 'high'": (2, "row 2"), "no value of the sensitive column 'sex'": (1, "row 11")}


def test_columns_that_are_neither_numbers_nor_text_are_left_out(here, people):
    table = pa.Table.from_pandas(people(1500))
    days = np.arange(1500) % 50
    for name, values in {
        "date": pa.array(days, pa.int32()).cast(pa.date32()), "time": pa.array(days).cast(pa.timestamp("us", "UTC")),
        "list": pa.array([[i] for i in days.tolist()]), "struct": pa.array([{"a": i} for i in days.tolist()]),
        "bytes": pa.array([b"%02d" % i for i in days.tolist()], pa.binary(2)),
    }.items():  # fmt: skip
        table = table.append_column(name, values)
    found, _ = audit(save(table, "data.parquet"))
    for name in ("date", "time", "list", "struct", "bytes"):
        assert column(found, name)["role"] == "left out"
        assert column(found, name)["note"].endswith("which is neither a number nor text")


@pytest.mark.parametrize("option", ["--label", "--sensitive", "--weights", "--clusters"])
def test_a_nested_column_cannot_have_a_role(here, people, option):
    table = pa.Table.from_pandas(people(1000)).append_column("list", pa.array([[i % 2] for i in range(1000)]))
    words = refused(save(table, "data.parquet"), option, "list")
    assert "Column 'list' has type list<" in words
    assert f"which cannot be used for {option[2:].replace('-', '_')}" in words


def test_values_not_seen_in_the_settling_rows_are_counted(here, people):
    table = people(3000)
    drawn = open_source(table.assign(number=range(3000)), bad=BadRows(0)).sample(1000, ["number"]).table["number"]
    table.loc[sorted({*range(3000)} - {*drawn.to_pylist()})[-3:], "job"] = ["pope", "pirate", "pope"]
    found, _ = audit(table)
    assert column(found, "job") | {"encoding": None} == {
        "name": "job", "role": "category", "features": 3, "missing": 0, "unseen": 3, "note": "", "encoding": None
    }  # fmt: skip


def test_a_column_with_many_values_is_hashed_and_an_identifier_is_left_out(here, people):
    table = people(2000)
    table["town"] = [f"town {i % 200}" for i in range(2000)]
    table["id"] = [f"person {i}" for i in range(2000)]
    found, _ = audit(table)
    assert column(found, "town")["role"] == "hashed"
    assert 20 < column(found, "town")["features"] <= 32
    assert column(found, "id")["role"] == "left out"
    assert column(found, "id")["note"] == "nearly every row has a different value"


@pytest.mark.parametrize(
    "name", ["annual income", "[bold]sex[/bold]", "sex [red]", "[/]", "😀", ":smile:", "a\\[b]", "sexe féminin", "{x}"]
)
def test_names_are_shown_as_they_are(here, people, name):
    table = people(2000).rename(columns={"sex": name, "age": f"{name} 2"})
    table[name] = table[name].replace({"m": f"[red]{name}"})
    save(table)
    result = run(
        "audit", "data.csv", "--label", "high", "--sensitive", name, "--replicates", "5", "--verbose",
        env={"COLUMNS": "500"},
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    found = json.loads(Path("audit/audit.json").read_text())
    assert found["groups"][0]["column"] == name
    assert {one["group"] for one in found["groups"]} == {"f", f"[red]{name}"}
    output = " ".join(result.output.split())
    for group in ("f", f"[red]{name}"):
        assert f"in group {group!r}" in output
    assert f"of {name!r}: " in output
    assert f"│ {name} 2 │ number" in output  # the table of columns
    assert f"│ {name} │ [red]{name} │" in output  # the table of groups


def test_a_folder_that_cannot_be_made_is_an_error(here, people):
    Path("file").touch()
    result = run("audit", save(people(500)), *ASKED, "--out", "file/below")
    assert result.exit_code in (1, 2)
    assert "file" in result.output


# -- Checkpoints -------------------------------------------------------------------------------------------------------


def test_an_audit_resumes_from_a_checkpoint_and_never_overwrites_one(here, people):
    save(people(3000))
    assert run("audit", "data.csv", *ASKED, "--checkpoint", "state", "--every-rows", 1).exit_code == 0
    first = Path("audit/audit.json").read_bytes()
    again = run("audit", "data.csv", *ASKED, "--checkpoint", "state")
    assert again.exit_code == 1
    assert (
        "'state' holds the checkpoint of an audit. Continue it with sf.resume (on the command line: surefair resume)"
        in again.output
    )
    newest = max(Path("state").iterdir())
    newest.write_bytes(newest.read_bytes()[:-200])
    resumed = run("resume", "state", "--out", "resumed", "--jobs", 1)
    assert resumed.exit_code == 0, resumed.output
    assert "The previous checkpoint, '000000002.npz', is used instead." in resumed.output
    assert Path("resumed/audit.json").read_bytes() == first
    assert Path("resumed/report.html").read_bytes() == Path("audit/report.html").read_bytes()
    for path in Path("state").iterdir():
        path.write_bytes(b"")
    lost = run("resume", "state")
    assert lost.exit_code == 1
    assert "There is no checkpoint of an audit to resume in 'state'" in lost.output


def test_changed_data_are_refused(here, people):
    save(people(3000))
    run("audit", "data.csv", *ASKED, "--checkpoint", "state", "--every-rows", 1)
    save(people(3001))
    result = run("resume", "state")
    assert result.exit_code == 1
    assert "The data are not those of the checkpoint: 'data.csv' of " in result.output
    Path("data.csv").unlink()
    assert "There is no file" in run("resume", "state").output


def test_after_an_error_resume_gives_the_same_error(here, people):
    """The limit of bad rows is exceeded late; the resumed audit exceeds it again, and counts no row twice."""
    table = people(3000)
    table.loc[[100, 1100, 2100, 2200], "high"] = None
    save(table)
    arguments = ("--max-bad-rows", 3, "--checkpoint", "state", "--every-rows", 1)
    first = run("audit", "data.csv", *ASKED, *arguments)
    again = run("resume", "state")
    assert first.exit_code == again.exit_code == 1
    assert "4 rows cannot be used, and the limit is 3" in first.output
    assert again.output == first.output


# -- Kills, Ctrl-C and full disks, in other processes ------------------------------------------------------------------


def start(folder, *arguments, code=CHUNKED, **more):
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    return subprocess.Popen(
        [sys.executable, "-c", code, *map(str, arguments)],
        cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **more,
    )  # fmt: skip


def finished(process):
    output, _ = process.communicate(timeout=120)
    return process.returncode, output


@pytest.fixture(scope="module")
def long_audit(people, tmp_path_factory):
    """Folder with data of many chunks, what an audit without a stop wrote, and how long it took."""
    folder = tmp_path_factory.mktemp("long")
    lines = people(20_000).to_csv(index=False).splitlines()
    for place in (100, 10_000, 19_000):
        lines.insert(place, "1,2")
        lines[place + 50] = "1,2,cook,f,"
    (folder / "data.csv").write_text("\n".join(lines))
    begun = time.monotonic()
    code, output = finished(start(folder, "audit", "data.csv", *ASKED, "--quiet"))
    assert code == 0, output
    return folder, (folder / "audit/audit.json").read_bytes(), time.monotonic() - begun


AT_ONCE = ("--every-rows", "1", "--quiet")


def names(folder):
    return {path.name for path in folder.iterdir()} if folder.exists() else set()


@pytest.mark.parametrize("n_kills", [2, pytest.param(20, marks=pytest.mark.slow)])
def test_an_audit_that_is_killed_at_random_moments_resumes_to_the_same_bytes(long_audit, tmp_path, n_kills):
    """Some kills come while the program starts, most within a few chunks of the first checkpoint."""
    folder, expected, seconds = long_audit
    rng = np.random.default_rng(0)
    kills = 0
    completed = 0
    places = set()
    state = tmp_path / "state0"
    out = tmp_path / "out"
    while kills < n_kills or not completed:
        if any(state.glob("[0-9]*.npz")):
            process = start(folder, "resume", state, "--out", out, "--jobs", 1, *AT_ONCE)
        else:
            asked = (*ASKED, "--out", out, "--checkpoint", state)
            process = start(folder, "audit", "data.csv", *asked, *AT_ONCE)
        if kills < n_kills:
            before = names(state)
            early = rng.random() < 0.2
            moment = rng.uniform(0.0, 0.3)
            if early:
                time.sleep((0.3 + moment) * seconds)
            while not early and names(state) == before and process.poll() is None:
                time.sleep(0.001)
            try:
                process.communicate(timeout=0.001 if early else moment / 4)
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGKILL)
                process.communicate()
                kills += 1
                places.add(max((path.name for path in state.glob("[0-9]*.npz")), default=""))
                continue
        code, output = finished(process) if process.stdout and not process.stdout.closed else (process.returncode, "")
        assert code == 0, output
        assert (out / "audit.json").read_bytes() == expected
        assert not [name for name in names(state) if name.startswith(".")]  # no partial files
        completed += 1
        state = tmp_path / f"state{completed}"  # for a new audit
    assert len(places) >= n_kills // 4


@pytest.mark.slow
def test_ctrl_c_writes_a_report_of_the_rows_so_far_and_a_checkpoint(long_audit, tmp_path):
    folder, expected, _ = long_audit
    state = tmp_path / "state"
    out = tmp_path / "out"
    asked = (*ASKED, "--out", out, "--checkpoint", state)
    process = start(folder, "audit", "data.csv", *asked, *AT_ONCE)
    while not any(state.glob("[0-9]*.npz")):
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    code, output = finished(process)
    assert code == 130, output
    assert "Stopping after this chunk" in output
    assert f"surefair resume {state}" in output
    assert "Traceback" not in output
    partial = json.loads((out / "audit.json").read_text())
    jsonschema.validate(partial, Audit.schema())
    assert not partial["complete"]
    assert partial["sentence"].startswith("So far, before all rows were read: ")
    assert 0 < partial["rows"]["training"] < json.loads(expected)["rows"]["training"]
    assert (out / "report.html").exists()
    code, output = finished(start(folder, "resume", state, "--out", out, "--jobs", 2, "--quiet"))
    assert code == 0, output
    assert (out / "audit.json").read_bytes() == expected


@pytest.mark.slow
def test_ctrl_c_without_a_checkpoint_says_that_the_audit_cannot_be_resumed(long_audit, tmp_path):
    folder, _, _ = long_audit
    code = CHUNKED.replace("from surefair.cli", "take = a.Running._take; a.Running._take = shown; from surefair.cli")
    code = f"def shown(self, *table): print('a chunk', flush=True); take(self, *table)\n{code}"
    process = start(folder, "audit", "data.csv", *ASKED, "--out", tmp_path / "out", code=code)
    assert process.stdout.readline() == "a chunk\n"
    process.send_signal(signal.SIGINT)
    code, output = finished(process)
    assert code == 130, output
    assert "without --checkpoint it cannot be resumed" in output
    assert not json.loads((tmp_path / "out/audit.json").read_text())["complete"]


def test_a_full_disk_ends_with_code_1_and_leaves_no_partial_file(long_audit, tmp_path):
    """Files larger than a few bytes cannot be written, as on a full disk."""
    folder, _, _ = long_audit

    def no_room():
        resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))

    asked = (*ASKED, "--out", tmp_path / "out", "--checkpoint", tmp_path / "state", *AT_ONCE)
    code, output = finished(start(folder, "audit", "data.csv", *asked, preexec_fn=no_room))
    assert code == 1, output
    assert "The checkpoint after 1,000 rows could not be written" in output
    assert "There is no previous one. Make room" in output
    assert "Traceback" not in output
    assert list((tmp_path / "state").iterdir()) == []


def test_a_disk_that_fills_up_leaves_the_previous_checkpoint(here, people, monkeypatch):
    save(people(4000))
    assert run("audit", "data.csv", *ASKED, "--out", "whole").exit_code == 0
    calls = iter(range(100))
    sync = os.fsync

    def full(descriptor):
        if next(calls) >= 2:
            raise OSError(28, os.strerror(28))
        sync(descriptor)

    with monkeypatch.context() as patch:
        patch.setattr("surefair.storage.atomic.os.fsync", full)
        result = run("audit", "data.csv", *ASKED, "--checkpoint", "state", "--every-rows", 1)
    assert result.exit_code == 1
    words = " ".join(result.output.split())
    assert "The checkpoint after 3,000 rows could not be written to 'state': No space left on device." in words
    assert "The previous one, '000000002.npz', is good" in words
    assert sorted(path.name for path in Path("state").iterdir()) == ["000000001.npz", "000000002.npz"]
    assert run("resume", "state").exit_code == 0
    assert Path("audit/audit.json").read_bytes() == Path("whole/audit.json").read_bytes()
