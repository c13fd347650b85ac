"""The picture of a calibration."""

from __future__ import annotations

import numpy as np
import pytest

from surefair import FairClassifier, calibrate
from surefair.inference.sources import SOURCES
from surefair.plotting import CalibrationDisplay


@pytest.fixture(scope="module")
def found(stream):
    rows = stream.rows(0, 2_000)
    clf = FairClassifier(n_replicates=40)
    sizes = {"n_rows": 300, "n_evaluation": 400, "repetitions": 6}
    return calibrate(clf, rows.X, rows.y, sensitive_features=rows.sensitive, **sizes)


def test_the_picture_shows_every_coverage_with_its_interval(found):
    ax = CalibrationDisplay.from_calibration(found).ax_
    dots = np.concatenate([one.lines[0].get_xydata() for one in ax.containers])
    assert dots[np.argsort(dots[:, 1]), 0].tolist() == found.table["coverage"].tolist()
    bars = np.concatenate([part[:, 0] for one in ax.containers for part in one.lines[2][0].get_segments()])
    assert np.sort(bars) == pytest.approx(np.sort(found.table[["coverage_low", "coverage_high"]].to_numpy().ravel()))
    labels = [label.get_text() for label in ax.get_yticklabels()]
    assert labels == [f"gap, {source}" for source in SOURCES] + ["x1", "x2", "intercept"]
    assert "6 repetitions of 300 rows" in ax.get_title()
