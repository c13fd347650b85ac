"""Calibration of whole audits."""

import numpy as np
import pandas as pd
import pytest

import surefair as sf
from surefair.audit.settings import AuditSettings
from surefair.calibration import calibrate_audit

pytestmark = pytest.mark.filterwarnings("ignore::surefair.diagnostics.Diagnostic")
SETTINGS = {"label": "hired", "sensitive": "sex", "tolerance": 0.05, "n_replicates": 60}


def people(n, seed=0):
    """A table with a number, a column of words, a missing value here and there, and two groups."""
    rng = np.random.default_rng(seed)
    sex = rng.choice(["f", "m"], n)
    score = rng.normal(size=n) + 0.6 * (sex == "m")
    job = rng.choice(["clerk", "cook", "judge"], n)
    z = 1.2 * score + 0.8 * (job == "judge") - 0.5
    hired = np.where(rng.random(n) < 1.0 / (1.0 + np.exp(-z)), "yes", "no")
    score[rng.random(n) < 0.03] = np.nan
    return pd.DataFrame({"score": score, "job": job, "sex": sex, "hired": hired})


def test_truth_is_what_an_audit_of_the_population_finds():
    table = people(4_000)
    found = calibrate_audit(table, AuditSettings(**SETTINGS), n_rows=400, repetitions=2, n_jobs=1)
    rows = {(row["quantity"], row["source"]): row for row in found.to_dict()["table"]}
    audited = sf.audit(table, **SETTINGS)
    for model in ("constrained", "unconstrained"):
        truth = rows[f"gap of the {model} model", "total"]["truth"]
        assert truth == pytest.approx(audited.interval("demographic_parity", "evaluation", model)["gap"], abs=0.02)
    assert found.settings["audit"]["tolerance"] == 0.05
    assert "of the unconstrained model, evaluation" in found.sentence


def test_processes_change_nothing():
    table = people(1_000)
    one, two = (
        calibrate_audit(table, AuditSettings(**SETTINGS), n_rows=200, repetitions=3, n_jobs=n_jobs) for n_jobs in (1, 2)
    )
    assert one.to_dict() == two.to_dict()


def test_audits_that_are_refused_are_counted_with_the_reason():
    table = people(1_000).assign(sex=np.where(np.arange(1_000) < 25, "m", "f"))  # five in 200 rows, on average
    found = calibrate_audit(table, AuditSettings(**SETTINGS), n_rows=200, repetitions=6, n_jobs=1)
    assert 0.0 < found.settings["refused"] < 1.0
    assert found.to_dict()["table"][0]["undefined"] == round(6 * found.settings["refused"])
    assert "of the audits were refused, for example: Cross-fitting in 5 folds needs" in found.sentence
    few = table.assign(sex=np.where(np.arange(1_000) < 4, "m", "f"))
    with pytest.raises(ValueError, match=r"Every audit of 200 rows was refused\. "):
        calibrate_audit(few, AuditSettings(**SETTINGS), n_rows=200, repetitions=2, n_jobs=1)


@pytest.mark.slow
def test_intervals_of_small_audits_cover_the_truth():
    found = calibrate_audit(people(20_000), AuditSettings(**SETTINGS), n_rows=1_000, repetitions=40, n_jobs=2)
    for row in found.to_dict()["table"]:
        assert row["coverage_high"] > 0.95, row  # 95 % limits of the share of 40
