"""The command ``surefair calibrate``."""

from __future__ import annotations

import json

import matplotlib.pyplot as plt
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import surefair as sf
from surefair.cli import main

SMALL = sf.datasets.SyntheticDM(seed=4).sample(2_000)


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
def test_it_calibrates_on_a_file(table, tmp_path, kind):
    path, out = tmp_path / f"people.{kind}", tmp_path / "new" / "folder"
    table.to_csv(path, index=False) if kind == "csv" else table.to_parquet(path)
    columns = ("--label", "hired", "--sensitive", "sex")
    result = run(
        path, *columns, "--rows", 300, "--repetitions", 2, "--replicates", 10, "--jobs", 1, "--out", out, "--quiet"
    )
    assert result.exit_code == 0, result.output
    kept = json.loads((out / "calibration.json").read_text())
    assert " ".join(kept["sentence"].split()) in " ".join(result.output.split())
    assert [(row["quantity"], row["source"]) for row in kept["table"]] == [
        (f"gap of the {model} model", source)
        for model in ("constrained", "unconstrained")
        for source in ("evaluation", "total")
    ]
    assert (out / "calibration.png").read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
    assert all(str(out / name) in result.output for name in ("calibration.json", "calibration.png"))


def test_a_file_goes_the_way_of_an_audit(table, tmp_path):
    path = tmp_path / "people.csv"
    table.to_csv(path, index=False)
    few = ("--rows", 300, "--repetitions", 2, "--replicates", 10, "--jobs", 1, "--out", tmp_path, "--quiet")
    result = run(path, "--label", "hired", "--sensitive", "sex", "--tolerance", 0.05, *few)
    assert result.exit_code == 0, result.output
    kept = json.loads((tmp_path / "calibration.json").read_text())
    assert kept["settings"]["audit"]["tolerance"] == 0.05
    leak = table.assign(paid=table["hired"].map({"yes": "full", "no": "none"}))
    leak.to_csv(path, index=False)
    result = run(path, "--label", "hired", "--sensitive", "sex", *few)
    assert result.exit_code == 1
    assert "--allow-leakage" in result.output


def test_it_calibrates_on_a_data_set(tmp_path):
    more = ("--rows", 200, "--repetitions", 2, "--jobs", 1, "--out", tmp_path, "--quiet", "--criterion", "error_rate")
    result = run("--dataset", "synthetic_dm", *more)
    assert result.exit_code == 0, result.output
    assert "Error rate: coverage of 95 % intervals" in result.output


def test_every_option_reaches_the_calibration(tmp_path):
    asked = {
        "criterion": "none", "metric": "equalized_odds", "loss": "squared_error", "penalty": 2.0,
        "alpha": 0.001, "replicates": 30, "surrogate": "scores", "rows": 200, "evaluation-rows": 300, "level": 0.9,
        "method": "basic", "repetitions": 3, "seed": 5, "jobs": 1, "out": tmp_path,
    }  # fmt: skip
    result = run("--dataset", "synthetic_dm", "--quiet", *(f"--{name}={value}" for name, value in asked.items()))
    assert result.exit_code == 0, result.output
    kept = json.loads((tmp_path / "calibration.json").read_text())["settings"]
    expected = {
        "repetitions": 3, "n_rows": 200, "n_evaluation": 300, "everything_redrawn": True, "confidence_level": 0.9,
        "metric": "equalized_odds", "method": "basic", "random_state": 5,
    }  # fmt: skip
    assert kept | expected == kept
    fitted = {"criterion": None, "loss": "squared_error", "penalty": 2.0, "alpha": 0.001}
    assert kept["classifier"] | fitted | {"n_replicates": 30, "surrogate": "scores"} == kept["classifier"]


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ((), 2, "Name either a file, or a data set"),
        (("--dataset", "adults"), 1, "Did you mean 'adult'"),
        (("--dataset", "synthetic_di", "--label", "y"), 2, "are for a file"),
        (("FILE",), 2, "--label and --sensitive"),
        (("FILE", "--label", "hired", "--sensitive", "sex", "--method", "basic"), 2, "--method is for a data set"),
        (("FILE", "--label", "hired", "--sensitive", "race"), 1, "Unknown column for sensitive: 'race'"),
        (("FILE", "--label", "hired", "--sensitive", "sex", "--criterion", "parity"), 2, "Unknown criterion"),
        (("--dataset", "synthetic_dm", "--tolerance", 0.1, "--penalty", 2), 1, "Leave one of them out"),
        (("--dataset", "synthetic_dm", "--tolerance", 1), 1, "must be less than 1; received 1.0"),
        (("FILE", "--label", "job", "--sensitive", "sex"), 1, "The label 'job' must have two values"),
        (
            ("FILE", "--label", "hired", "--sensitive", "sex", "--rows", 10**12),
            1,
            "GiB in each repetition, and at most 8",
        ),
        (("--dataset", "synthetic_dm", "--rows", 10**12), 1, "GiB in each repetition, and at most 8 are allowed"),
        (("--dataset", "synthetic_dm", "--repetitions", 10**12), 1, "repetitions must be 1,000,000 or less"),
        (("nowhere.csv", "--label", "y", "--sensitive", "z"), 1, "There is no file 'nowhere.csv'"),
    ],
)
def test_errors_say_what_is_wrong(table, tmp_path, arguments, code, message):
    path = tmp_path / "people.csv"
    table.to_csv(path, index=False)
    result = run(*(path if word == "FILE" else word for word in arguments), "--out", tmp_path)
    assert result.exit_code == code, result.output
    assert message in " ".join(result.output.split())


def test_nested_columns_are_left_out_or_refused(table, tmp_path):
    path = tmp_path / "people.parquet"
    nested = pa.array([[1, 2]] * len(table))
    pq.write_table(pa.Table.from_pandas(table).append_column("list", nested), path)
    more = ("--repetitions", 2, "--replicates", 5, "--rows", 200, "--jobs", 1, "--quiet", "--out", tmp_path)
    result = run(path, "--label", "hired", "--sensitive", "sex", "--criterion", "none", *more)
    assert result.exit_code == 0, result.output
    result = run(path, "--label", "list", "--sensitive", "sex", *more)
    assert result.exit_code == 1
    assert "Column 'list' has type list<element: int64>, which cannot be used for label" in result.output
