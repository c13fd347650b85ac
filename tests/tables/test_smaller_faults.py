"""Small things that files get wrong: none changes a number silently, hangs, or ends in a traceback."""

from __future__ import annotations

import io
import os
import time

import numpy as np
import pyarrow as pa
import pytest

import surefair as sf
from surefair.tables.bad_rows import BadRows
from surefair.tables.encoder import FOLLOWS, Features, _find_independent
from surefair.tables.intake import in_order
from surefair.tables.source import open_source
from surefair.tables.values import as_numbers, as_words


def test_numbers_with_underscores_are_text():
    values, wrong = as_numbers(pa.array(["18_25", "26"]))
    assert wrong.tolist() == [True, False]
    assert np.isnan(values[0])
    assert in_order("18_25")[0] is True
    features = Features.fit(pa.table({"age": ["18_25", "26_40", "41_99"] * 20}))
    assert features.names == ("age = 26_40", "age = 41_99")


def test_both_zeros_are_one_word_and_trailing_nulls_do_not_count():
    assert as_words(pa.array([0.0, -0.0, 1.0]))[1].tolist() == ["0", "1"]
    assert as_words(pa.array(["a", "a\0", "b"]))[1].tolist() == ["a", "b"]


def test_a_number_column_names_its_words():
    features = Features.fit(pa.table({"age": [str(i % 50) for i in range(198)] + ["old", "young"]}))
    assert features.columns["age"].note == "2 of the rows that settled it hold words ('old', 'young'), and are not used"


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-8"])
def test_a_byte_order_mark_is_skipped_in_every_encoding(encoding):
    content = "\ufeffage,sex\n25,f\n".encode(encoding)
    assert open_source(io.BytesIO(content), encoding=encoding, bad=BadRows(0)).schema.names == ["age", "sex"]


def test_a_pipe_without_a_writer_does_not_hang(tmp_path):
    os.mkfifo(tmp_path / "a.csv")
    with pytest.raises(ValueError, match=r"'a\.csv' is a pipe or a device"):
        open_source(tmp_path / "a.csv", bad=BadRows(0))


def test_a_loop_of_links_is_an_error(tmp_path):
    (tmp_path / "a.csv").symlink_to(tmp_path / "b.csv")
    (tmp_path / "b.csv").symlink_to(tmp_path / "a.csv")
    with pytest.raises(OSError, match=r"a\.csv"):
        open_source(tmp_path / "a.csv", bad=BadRows(0))


def test_closed_standard_input_is_an_error(monkeypatch):
    monkeypatch.setattr("sys.stdin", None)
    with pytest.raises(ValueError, match="Standard input is closed"):
        open_source("-", bad=BadRows(0))


def test_checkpoints_inside_the_data_folder_are_refused(tmp_path, people):
    people(500).to_parquet(tmp_path / "a.parquet")
    with pytest.raises(ValueError, match="is inside the data folder"):
        sf.audit(tmp_path, label="high", sensitive="sex", checkpoint=tmp_path / "state")
    assert not (tmp_path / "state").exists()


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


def test_two_thousand_columns_take_seconds():
    X = np.random.default_rng(0).normal(size=(2_500, 2_000))
    start = time.perf_counter()
    assert _find_independent(X).all()
    assert time.perf_counter() - start < 30.0
