"""Small things that files get wrong: none changes a number silently, hangs, or ends in a traceback."""

from __future__ import annotations

import io
import os
import time
import warnings
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from click.testing import CliRunner

import surefair as sf
from surefair.cli import main
from surefair.rows import Levels, as_column
from surefair.tables.bad_rows import BadRows
from surefair.tables.encoder import FOLLOWS, Features, _find_independent
from surefair.tables.reading import in_order
from surefair.tables.source import open_source
from surefair.tables.values import as_numbers, as_words


def test_numbers_with_underscores_are_text():
    values, wrong = as_numbers(pa.array(["18_25", "26"]))
    assert wrong.tolist() == [True, False]
    assert np.isnan(values[0])
    assert in_order("18_25")[0] is True
    features = Features.fit(pa.table({"age": ["18_25", "26_40", "41_99"] * 20}))
    assert features.names == ("age = 26_40", "age = 41_99")


@pytest.mark.parametrize("column", [pa.array([0.0, -0.0, 1.0]), pa.array(["0", "-0", "1"])], ids=["numbers", "text"])
def test_both_zeros_are_one_word(column):
    code, words = as_words(column)
    assert words[code].tolist() == ["0", "0", "1"]


def test_nulls_at_the_end_of_a_word_do_not_count():
    assert as_words(pa.array(["a", "a\0", "b"]))[1].tolist() == ["a", "b"]
    assert Levels.of(as_column(["a", "a\0", "b"], "group"), "group").values.tolist() == ["a", "b"]


@pytest.fixture
def literal(people):
    """People some of whom have "(missing)" as the name of their group, label and job."""
    table = people(400)
    words = {"sex": {"f": "(missing)"}, "job": {"cook": "(missing)"}, "high": {0: "(missing)", 1: "yes"}}
    return table.replace(words).assign(job=lambda t: t["job"].where(t.index % 5 > 0, None))


def test_a_value_called_missing_is_a_value(literal, tmp_path):
    literal.to_csv(tmp_path / "people.csv", index=False)
    for data in (literal, tmp_path / "people.csv"):
        found = sf.audit(data, label="high", sensitive="sex", criterion=None, n_replicates=2)
        assert found.settings["labels"] == ["(missing)", "yes"]
        assert [one["group"] for one in found.groups] == ["(missing)", "m"]
        assert found.rows["bad"] == []
        assert next(one["missing"] for one in found.columns if one["name"] == "job") == 80
    features = Features.fit(pa.Table.from_pandas(literal), ["job"]).names
    assert {"job is missing", "job = (missing)"} <= {*features}


@pytest.mark.parametrize("column", ["high", "sex"])
def test_a_label_or_group_called_na_is_explained(people, tmp_path, column):
    table = people(300)
    table[column] = np.where(table["age"] > 0, "NA", "EU")
    table.drop(columns="age").to_csv(tmp_path / "people.csv", index=False)
    with pytest.raises(ValueError, match=r"shows? 1.*words such as 'NA' or 'None' stand for missing values; rename"):
        sf.audit(tmp_path / "people.csv", label="high", sensitive="sex", max_bad_rows=300)
    asked = {"label": "high", "sensitive": "sex", "criterion": None, "n_replicates": 2}
    found = sf.audit(table.drop(columns="age"), **asked)  # in a frame it is a value
    assert "NA" in [*found.settings["labels"], *(one["group"] for one in found.groups)]


@pytest.mark.parametrize("what", ["X", "y", "y as a column", "sensitive_features", "sample_weight"])
def test_masked_values_are_missing(what):
    rng = np.random.default_rng(0)
    data = {"X": rng.normal(size=(60, 2)), "y": np.arange(60) % 2, "sensitive_features": np.arange(60) // 2 % 2}
    data["sample_weight"] = np.ones(60)
    name = what.partition(" ")[0]
    values = data[name][:, None] if what == "y as a column" else data[name]
    mask = np.zeros(values.shape, dtype=bool)
    data[name] = np.ma.array(values, mask=mask)
    clf = sf.FairClassifier(n_replicates=2, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        clf.fit(**data)  # nothing is masked
    mask[3] = True
    data[name] = np.ma.array(values, mask=mask)
    with pytest.raises(ValueError, match="NaN"):
        clf.fit(**data)
    with pytest.raises(ValueError, match="NaN"):
        clf.predict(np.ma.array(np.zeros((4, 2)), mask=np.eye(4, 2)))


def test_a_number_column_names_its_words():
    features = Features.fit(pa.table({"age": [str(i % 50) for i in range(198)] + ["old", "young"]}))
    assert features.columns["age"].note == "2 of the rows that settled it hold words ('old', 'young'), and are not used"


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-8"])
def test_a_byte_order_mark_is_skipped_in_every_encoding(encoding):
    content = "\ufeffage,sex\n25,f\n".encode(encoding)
    assert open_source(io.BytesIO(content), encoding=encoding, bad=BadRows(0)).schema.names == ["age", "sex"]


@pytest.mark.parametrize(
    "opened",
    [lambda path: open_source(path, bad=BadRows(0)), sf.load, sf.Audit.from_json, lambda path: sf.resume(path.parent)],
    ids=["data", "load", "audit.json", "resume"],
)
@pytest.mark.parametrize("name", ["1.npz", "1.csv"])
def test_a_pipe_without_a_writer_does_not_hang(tmp_path, opened, name):
    os.mkfifo(tmp_path / name)
    with pytest.raises(ValueError, match=r"is a pipe or a device|There is no checkpoint|is not a surefair file"):
        opened(tmp_path / name)


def test_a_loop_of_links_is_an_error(tmp_path):
    (tmp_path / "a.csv").symlink_to(tmp_path / "b.csv")
    (tmp_path / "b.csv").symlink_to(tmp_path / "a.csv")
    with pytest.raises(ValueError, match=r"a\.csv' is a link that leads back to itself"):
        sf.audit(tmp_path / "a.csv", label="high", sensitive="sex")


@pytest.mark.parametrize("links", [1, 3])
def test_folders_that_contain_themselves_are_refused(tmp_path, people, links):
    people(100).to_csv(tmp_path / "people.csv", index=False)
    for i in range(links):
        (tmp_path / f"year={i}").symlink_to(tmp_path)
    with pytest.raises(ValueError, match="The folder 'year=0' is a link to a folder above it"):
        open_source(tmp_path, bad=BadRows(0))


def test_closed_standard_input_is_an_error(monkeypatch):
    monkeypatch.setattr("sys.stdin", None)
    with pytest.raises(ValueError, match="Standard input is closed"):
        open_source("-", bad=BadRows(0))


def test_checkpoints_inside_the_data_folder_are_refused(tmp_path, people):
    people(500).to_parquet(tmp_path / "a.parquet")
    with pytest.raises(ValueError, match="is inside the data folder"):
        sf.audit(tmp_path, label="high", sensitive="sex", checkpoint=tmp_path / "state")
    assert not (tmp_path / "state").exists()


@pytest.mark.parametrize("more", [
    ["--label", "high"], ["--decision", "high"], ["--decision", "high", "--shard-rows", "100"],
    ["--label", "high", "--shard-rows", "100"],
])  # fmt: skip
@pytest.mark.parametrize("out", ["data/found", "data"])
def test_results_inside_the_data_folder_are_refused_in_every_mode(tmp_path, people, monkeypatch, more, out):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").mkdir()
    people(500).to_parquet("data/a.parquet")
    result = CliRunner().invoke(main, ["audit", "data", "--sensitive", "sex", *more, "--out", out])
    assert result.exit_code == 1, result.output
    assert "is inside the data folder 'data'" in " ".join(result.output.split())
    assert [one.name for one in Path("data").iterdir()] == ["a.parquet"]


@pytest.mark.parametrize("arguments", [
    ["compare", "data", "--decision-a", "high", "--decision-b", "b"], ["calibrate", "data", "--label", "high"],
])  # fmt: skip
def test_other_results_inside_the_data_folder_are_refused(tmp_path, people, monkeypatch, arguments):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").mkdir()
    people(500).assign(b=1).to_parquet("data/a.parquet")
    result = CliRunner().invoke(main, [*arguments, "--sensitive", "sex", "--out", "data/found"])
    assert result.exit_code == 1, result.output
    assert "is inside the data folder 'data'" in " ".join(result.output.split())


def plainly_independent(X):
    """The same by plain sweeps, one column at a time."""
    C = np.corrcoef(X.T)
    kept = []
    for j in range(len(C)):
        kept.append(bool(C[j, j] > FOLLOWS))
        if kept[-1]:
            C = C - np.outer(C[:, j], C[j]) / C[j, j]
    return kept


def test_features_are_swept_out_in_blocks_as_one_by_one():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 150))
    X[:, 100:] = X[:, :100] @ rng.normal(size=(100, 50)) / 10.0
    X[:, 120:] += rng.normal(size=(400, 30))
    assert _find_independent(X).tolist() == plainly_independent(X)


@pytest.mark.slow
def test_two_thousand_columns_take_seconds():
    X = np.random.default_rng(0).normal(size=(2_500, 2_000))
    start = time.perf_counter()
    assert _find_independent(X).all()
    assert time.perf_counter() - start < 30.0
