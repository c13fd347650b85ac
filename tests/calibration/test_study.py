"""The script studies/calibration.py judges coverages and resumes where it was interrupted."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import SimpleNamespace

import matplotlib.pyplot as plt
import pytest

import surefair as sf
from surefair.inference.sources import SOURCES


@pytest.fixture
def study(monkeypatch):
    folder = Path(__file__).parents[2] / "studies"
    monkeypatch.syspath_prepend(folder)
    spec = importlib.util.spec_from_file_location("calibration_study", folder / "calibration.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def outcome(coverage, source="total", warned=None, undefined=0):
    names = [(one, "gap") for one in SOURCES] + [("training", "coefficient")]
    rows = [{"source": one, "kind": kind, "quantity": "x1", "coverage": 0.95, "undefined": 0} for one, kind in names]
    next(row for row in rows if row["source"] == source).update(coverage=coverage, undefined=undefined)
    return {"table": rows, "settings": {"repetitions": 1_000}, "warned": warned or {}}


def problem(data, n):
    return data, "demographic_parity", 0.0, "log_loss", n


@pytest.mark.parametrize(
    ("data", "n", "coverage", "verdict"),
    [
        ("Adult", 20_000, 0.95, "holds"),
        ("Adult", 20_000, 0.92, "holds"),  # within chance of 93 %
        ("Adult", 20_000, 0.88, "FAILS"),
        ("Adult", 20_000, 0.998, "FAILS"),
        ("COMPAS", 20_000, 0.998, "holds"),  # its gap moves in jumps
        ("COMPAS", 20_000, 0.88, "FAILS"),
        ("Adult", 4_000, 0.998, "holds"),
        ("Adult", 4_000, 0.88, "FAILS"),
        ("Adult", 1_000, 0.5, "not judged"),
    ],
)
def test_a_coverage_fails_only_if_chance_cannot_explain_it(study, data, n, coverage, verdict):
    row = study.summary(outcome(coverage), problem(data, n), 1.0 - 0.05 / 500)
    assert row["verdict"] == verdict
    side = "below" if coverage < 0.95 else "above"
    assert row["out_of_bounds"] == (f"total {side}" if verdict == "FAILS" else "")
    assert row["total"] == coverage


def test_a_bad_coverage_is_excused_if_a_diagnostic_warned_at_least_half_of_the_time(study):
    for warned, verdict in (
        ({"StartNotForgotten": 0.6}, "warned of"),
        ({"StartNotForgotten": 0.4}, "FAILS"),
        ({"TooFewReplicates": 1.0}, "FAILS"),
        ({"RuntimeWarning": 1.0}, "FAILS"),
        ({"SmallEvaluationSet": 1.0}, "FAILS"),  # exact limits cannot cover too rarely
    ):
        assert study.summary(outcome(0.5, warned=warned), problem("Adult", 20_000), 0.9999)["verdict"] == verdict
    for diagnostic, source, verdict in (
        ("SmallEvaluationSet", "total", "warned of"),
        ("SmallEvaluationSet", "training", "FAILS"),
        ("FewRowsNearBoundary", "training", "warned of"),
        ("StartNotForgotten", "evaluation", "FAILS"),
    ):
        found = outcome(0.999, source, {diagnostic: 1.0})
        assert study.summary(found, problem("Adult", 20_000), 0.9999)["verdict"] == verdict
    nothing = outcome(None, undefined=1_000)
    assert study.summary(nothing, problem("Adult", 20_000), 0.9999)["verdict"] == "FAILS"


@pytest.mark.parametrize(
    ("coverages", "verdict", "out_of_bounds"),
    [
        ([0.95] * 40, "holds", ""),
        ([0.85] + [0.95] * 39, "holds", ""),  # few of them may be covered too rarely
        ([0.85] * 4 + [0.95] * 36, "FAILS", "single coefficients below"),
        ([0.905] * 40, "FAILS", "coefficients below"),
        ([0.995] * 40, "FAILS", "coefficients above"),
    ],
)
def test_coefficients_are_judged_by_their_mean_and_by_the_share_that_fails(study, coverages, verdict, out_of_bounds):
    found = outcome(0.95)
    found["table"] = [row for row in found["table"] if row["kind"] == "gap"]
    found["table"] += [{"kind": "coefficient", "quantity": f"x{i}", "coverage": one} for i, one in enumerate(coverages)]
    row = study.summary(found, problem("Adult", 20_000), 0.9999)
    assert (row["verdict"], row["out_of_bounds"]) == (verdict, out_of_bounds)


def test_the_study_resumes_where_it_was_interrupted(study, monkeypatch, tmp_path):
    monkeypatch.setattr(study, "FINISHED", tmp_path / "build" / "found.jsonl")
    monkeypatch.setitem(study.DATA, "synthetic DM", lambda: sf.datasets.SyntheticDM(seed=4).sample(2_000))
    args = SimpleNamespace(surrogate="decisions", repetitions=2, replicates=200, jobs=1, quiet=True, finished=False)
    small = problem("synthetic DM", 200)
    first = study.measure(*small, args)
    with study.FINISHED.open("a") as file:
        file.write('{"problem": {"data"')  # an interruption
    monkeypatch.setattr(sf, "calibrate", None)
    assert study.measure(*small, args) == first
    args.finished = True
    assert study.measure(*small, args) == first
    assert study.measure(*problem("synthetic DM", 300), args) is None
    row = {"data": "synthetic DM", "criterion": "demographic_parity", "tolerance": 0.0, "loss": "log_loss"}
    row["rows"] = 200
    row |= study.summary(first, small, 0.999)
    assert "not judged" in study.line(row)
    assert study.widths(first)["width_total"] > 0.0
    assert len(study.draw([row]).axes) == 1
    plt.close("all")
