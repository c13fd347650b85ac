"""The result of a calibration as a sentence, JSON and HTML."""

from __future__ import annotations

import json
from html import unescape

import pandas as pd
import pytest

import surefair as sf


def result(warned=None, redrawn=True, **columns):
    """A result with two gaps and two coefficients."""
    table = {
        "quantity": ["gap", "gap", "age", "intercept"],
        "kind": ["gap", "gap", "coefficient", "coefficient"],
        "source": ["training", "total", "training", "training"],
        "coverage": [0.951, 0.946, 0.931, 0.949],
        "undefined": [0, 0, 0, 0],
    }
    settings = {"repetitions": 1_000, "n_rows": 4_000, "confidence_level": 0.95, "everything_redrawn": redrawn}
    return sf.Calibration(pd.DataFrame(table | columns), settings, warned or {})


def test_the_sentence_says_how_often_intervals_covered():
    found = result({"TooFewReplicates": 0.25})
    assert str(found) == found.sentence == (
        "Nominal 95 % intervals covered the gap 94.6 % ± 0.7 of the time (source total, 1,000 repetitions of 4,000 "
        "rows, everything drawn anew, ± one standard error); training 95.1 % ± 0.7. Coefficients were covered 94.0 % "
        "of the time on average; the least often covered is age, 93.1 %. Diagnostics, by share of the repetitions: "
        "TooFewReplicates in 25 %."
    )  # fmt: skip
    assert repr(found) == "<Calibration: 1,000 repetitions of 4,000 rows>"
    assert "4,000 rows, given one constraint set, ±" in result(redrawn=False).sentence


def test_the_sentence_mentions_repetitions_that_were_left_out():
    found = result(coverage=[None, 0.946, 0.931, 0.949], undefined=[1_000, 3, 0, 0])
    assert "training (undefined)" in found.sentence
    assert "Up to 1,000 repetitions are left out because something was undefined." in found.sentence


def test_notebooks_show_names_as_text_not_as_html():
    name = '<script>alert("1")</script> & <b>age</b>'
    page = result(quantity=["gap", "gap", name, "intercept"])._repr_html_()
    assert name not in page
    assert f"<th>{name} (training)</th>" in unescape(page)
    assert "<td>93.1 % ± 0.8</td>" in page
    assert {tag for tag in ("script", "b") if f"<{tag}>" in page} == set()


def test_json_has_everything(tmp_path):
    path = tmp_path / "calibration.json"
    path.write_text("older")
    found = result()
    found.to_json(path)
    again = json.loads(path.read_text())
    assert again == found.to_dict()
    assert list(tmp_path.iterdir()) == [path]
    assert pd.DataFrame(again["table"]).equals(found.to_frame())
    with pytest.raises(FileNotFoundError, match="Create it first"):
        found.to_json(tmp_path / "nowhere" / "calibration.json")
