"""Audits of files with few rows: exact fits, and cross-fitting."""

import numpy as np
import pandas as pd
import pytest

import surefair as sf
from surefair.audit import run as auditing
from surefair.audit.run import Running
from surefair.audit.settings import AuditSettings

SETTINGS = {"label": "hired", "sensitive": "sex", "tolerance": 0.05, "n_replicates": 60}


def people(n, seed=0):
    """Applicants; years of experience differ between the groups, and a test score does not."""
    rng = np.random.default_rng(seed)
    sex = rng.choice(["f", "m"], n)
    years = rng.gamma(3.0, 2.0, n) + 5.0 * (sex == "m")
    score = rng.normal(50.0, 10.0, n)
    job = rng.choice(["clerk", "cook", "judge"], n, p=[0.6, 0.3, 0.1])
    chance = 1.0 / (1.0 + np.exp(-0.2 * (years - 8.0) - 0.15 * (score - 50.0) - (job == "judge")))
    hired = np.where(rng.random(n) < chance, "yes", "no")
    return pd.DataFrame({"years": years, "score": score, "job": job, "sex": sex, "hired": hired})


def test_every_row_serves_for_training_and_for_evaluation():
    found = sf.audit(people(1_500), margin=0.15, **SETTINGS)
    assert found.rows == {
        "read": 1_500,
        "training": 1_500,
        "evaluation": 1_500,
        "labelled": 1_500,
        "bad": [],
        "folds": 5,
    }
    assert found.verdict == "within margin"
    assert "5 models" in found.interval("demographic_parity")["sentence"]
    assert {group["group"]: group["training"] for group in found.groups} == {
        group["group"]: group["evaluation"] for group in found.groups
    }
    free = found.interval("demographic_parity", model="unconstrained")
    held = found.interval("demographic_parity")
    assert held["estimate"] < 0.1 < free["estimate"]


def test_base_rates_are_those_of_the_labels():
    table = people(1_200)
    rates = table.groupby("sex")["hired"].apply(lambda hired: (hired == "yes").mean())
    for group in sf.audit(table, **SETTINGS).groups:
        assert group["base_rate"] == pytest.approx(rates[group["group"]])


def test_the_coefficients_are_those_of_an_exact_fit_to_all_rows():
    running = Running.begin(people(1_000), AuditSettings(**SETTINGS))
    running.run()
    model = running.models["constrained"]
    rows = running.held
    clf = sf.FairClassifier(tolerance=0.05, n_replicates=0, solver="exact")
    clf.fit(rows.X, rows.truth, sensitive_features=rows.group[:, 0])
    assert model.trained.exact
    np.testing.assert_allclose(model.coefficients, [*clf.coef_[0], *clf.intercept_], atol=1e-6)


@pytest.mark.parametrize("change", [{"clusters": "person"}, {"rows": 1_200}])
def test_rows_are_held_out_where_they_are_many_or_belong_together(change, monkeypatch):
    monkeypatch.setattr(auditing, "MOST_CROSSED", 1_000)
    n = change.get("rows", 900)
    table = people(n).assign(person=np.arange(n) // 2)
    more = {name: value for name, value in change.items() if name != "rows"}
    found = sf.audit(table, drop=["person"], **SETTINGS, **more)
    assert found.rows["folds"] is None
    assert found.rows["training"] + found.rows["evaluation"] == n


def test_a_stopped_audit_of_few_rows_gives_the_same_result_when_resumed(tmp_path):
    table = people(800)
    whole = sf.audit(table, **SETTINGS, checkpoint=tmp_path / "state")
    again = sf.resume(tmp_path / "state", table)
    assert again.to_dict() == whole.to_dict()


def test_the_order_of_rows_does_not_matter_for_the_coefficients():
    table = people(900)
    one = sf.audit(table, **SETTINGS)
    two = sf.audit(table.sample(frac=1.0, random_state=1), **SETTINGS)
    for mine, theirs in zip(one.model()["coefficients"], two.model()["coefficients"], strict=True):
        assert mine["estimate"] == pytest.approx(theirs["estimate"], abs=1e-4)


def test_a_fit_that_forbids_a_verdict_gives_none():
    table = people(1_000)
    table["hired"] = np.where(np.random.default_rng(1).random(1_000) < 0.03, "yes", "no")  # nothing to learn
    found = sf.audit(table, margin=0.5, **SETTINGS)
    assert found.verdict == "not enough evidence"
    assert any(one["name"] == "ConstantDecisions" and not one["held"] for one in found.assumptions)


@pytest.mark.parametrize("column", ["code", "tail"])
def test_unusual_values_do_not_decide_the_fit(column):
    table = people(2_000)
    spoilt = table.copy()
    if column == "code":
        spoilt.loc[:15, "years"] = 99_999.0
    else:
        spoilt.loc[:3, "years"] = [1e6, -1e7, 1e8, 1e5]
    one, two = (sf.audit(data, **SETTINGS) for data in (table, spoilt))
    for model in ("constrained", "unconstrained"):
        gaps = [found.interval("demographic_parity", model=model)["estimate"] for found in (one, two)]
        assert gaps[0] == pytest.approx(gaps[1], abs=0.05)
    note = next(found["note"] for found in two.columns if found["name"] == "years")
    assert ("99999 (16 rows)" if column == "code" else "4 values beyond") in note
