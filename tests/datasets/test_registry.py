from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

from surefair import datasets
from surefair.cli import main
from surefair.datasets.files import FILES


def test_names_are_the_modules_that_define_a_data_set():
    assert datasets.names() == ("adult", "compas", "german", "synthetic_di", "synthetic_dm")


@pytest.mark.parametrize(
    ("wrong", "hint"), [("adlt", "'adult'"), ("synthetic", "'synthetic_d"), ("Compas", "'compas'")]
)
def test_an_unknown_name_is_refused_with_close_matches(wrong, hint):
    with pytest.raises(ValueError, match=f"Unknown data set: {wrong!r}. Did you mean {hint}"):
        datasets.load(wrong)


def test_an_unknown_name_without_a_close_match_is_refused_with_the_list():
    with pytest.raises(ValueError, match=r"Unknown data set: 'zebra'\. Known: 'adult', 'compas', "):
        datasets.load("zebra")


def test_other_modules_of_the_folder_are_not_data_sets():
    with pytest.raises(ValueError, match="Unknown data set: 'files'"):
        datasets.load("files")


TWO_ROWS = """
import numpy as np, pandas as pd
from surefair.datasets import About, Dataset

def DATASET(scale=1.0):
    X = pd.DataFrame({"a": [0.0, scale]})
    return Dataset("two_rows", X, np.array([0, 1]), np.array([1, 0]), "y", "z", "Two rows.")

ABOUT = About(2, 1, "y", "z", "synthetic")
"""


def test_one_file_adds_a_data_set(tmp_path, monkeypatch):
    (tmp_path / "two_rows.py").write_text(TWO_ROWS)
    monkeypatch.setattr(datasets, "__path__", [*datasets.__path__, str(tmp_path)])
    assert "two_rows" in datasets.names()
    assert datasets.load("two_rows", scale=3.0).X["a"].tolist() == [0.0, 3.0]
    assert datasets.about("two_rows").rows == 2
    listed = CliRunner().invoke(main, ["data", "list"], env={"COLUMNS": "200"})
    assert "two_rows" in listed.output
    fetched = CliRunner().invoke(main, ["data", "fetch", "two_rows"])
    assert fetched.output.strip() == "two_rows: needs no files"


def test_columns_of_different_lengths_are_refused():
    with pytest.raises(ValueError, match="X has 2, y has 3"):
        datasets.Dataset("bad", pd.DataFrame({"a": [0.0, 1.0]}), np.arange(3), np.arange(2), "y", "z", "")


@pytest.mark.parametrize("name", datasets.names())
def test_facts_agree_with_the_loaded_data(name, folder_of):
    facts = datasets.about(name)
    options = {"folder": folder_of(name)} if facts.files else {"n": 20}
    data = datasets.load(name, **options)
    assert (data.X.shape[1], data.label, data.sensitive_name) == (facts.features, facts.label, facts.sensitive)
    assert facts.rows == (len(data) if facts.files else None)
    assert facts.source


def test_each_file_belongs_to_one_data_set():
    assert sorted(file for name in datasets.names() for file in datasets.about(name).files) == sorted(FILES)


def test_facts_about_an_unknown_name_are_refused():
    with pytest.raises(ValueError, match=r"Unknown data set: 'germany'\. Did you mean 'german'"):
        datasets.about("germany")
