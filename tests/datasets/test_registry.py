from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from surefair import datasets
from surefair.datasets import _files


def test_names_are_the_modules_of_the_folder():
    assert datasets.names() == ("adult", "compas", "german", "synthetic_di", "synthetic_dm")


@pytest.mark.parametrize(
    ("wrong", "hint"), [("adlt", "'adult'"), ("synthetic", "'synthetic_d"), ("Compas", "'compas'")]
)
def test_an_unknown_name_is_refused_with_close_matches(wrong, hint):
    with pytest.raises(ValueError, match=f"Unknown data set: {wrong!r}. Did you mean {hint}"):
        datasets.load(wrong)


def test_a_name_like_no_other_is_refused_with_the_list():
    with pytest.raises(ValueError, match=r"Unknown data set: 'zebra'\. Known: 'adult', 'compas', "):
        datasets.load("zebra")


def test_private_modules_are_not_data_sets():
    with pytest.raises(ValueError, match="Unknown data set: '_files'"):
        datasets.load("_files")


def test_adding_a_data_set_is_adding_one_file(tmp_path, monkeypatch):
    (tmp_path / "two_rows.py").write_text(
        "import numpy as np, pandas as pd\n"
        "from surefair.datasets import Dataset\n"
        "def DATASET(scale=1.0):\n"
        "    X = pd.DataFrame({'a': [0.0, scale]})\n"
        "    return Dataset('two_rows', X, np.array([0, 1]), np.array([1, 0]), 'y', 'z', 'Two rows.')\n"
    )
    monkeypatch.setattr(datasets, "__path__", [*datasets.__path__, str(tmp_path)])
    assert "two_rows" in datasets.names()
    assert datasets.load("two_rows", scale=3.0).X["a"].tolist() == [0.0, 3.0]


def test_columns_of_a_data_set_have_one_length():
    with pytest.raises(ValueError, match="X has 2, y has 3"):
        datasets.Dataset("bad", pd.DataFrame({"a": [0.0, 1.0]}), np.arange(3), np.arange(2), "y", "z", "")


@pytest.mark.parametrize("name", datasets.names())
def test_what_is_known_before_is_what_is_loaded(name, folder_of):
    known = datasets.about(name)
    data = datasets.load(name, **({"folder": folder_of(name)} if known.files else {"n": 20}))
    assert (data.X.shape[1], data.label, data.sensitive_name) == (known.features, known.label, known.sensitive)
    assert known.rows == (len(data) if known.files else None)
    assert known.source


def test_each_file_belongs_to_one_data_set():
    assert sorted(file for name in datasets.names() for file in datasets.about(name).files) == sorted(_files.FILES)


def test_nothing_is_known_of_an_unknown_name():
    with pytest.raises(ValueError, match=r"Unknown data set: 'germany'\. Did you mean 'german'"):
        datasets.about("germany")
