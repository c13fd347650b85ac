"""The two models of an audit are compared on the same rows, like any two models."""

from __future__ import annotations

import json

import jsonschema
import numpy as np
import pandas as pd
import pytest

import surefair as sf
from surefair.audit.pairs import PairedCounts
from surefair.audit.run import Running
from surefair.audit.settings import AuditSettings
from surefair.rows import Groups, Levels, Names, Rows

pytestmark = pytest.mark.filterwarnings("ignore::surefair.diagnostics.Diagnostic")


def draw(n, seed=0):
    rng = np.random.default_rng(seed)
    table = pd.DataFrame({"x": rng.normal(size=n), "z": rng.normal(size=n), "sex": rng.choice(["f", "m"], n)})
    table["x"] += 0.9 * (table["sex"] == "m")
    table["w"] = rng.integers(1, 4, n)
    table["y"] = (table["x"] + table["z"] + rng.normal(size=n) > 0.6).astype(int)
    return table


@pytest.mark.parametrize("n", [900, 14_000])  # cross-fitted, and with rows held out
def test_an_audit_compares_its_models_as_sf_compare_does(n):
    asked = AuditSettings(label="y", sensitive="sex", weights="w", n_replicates=20, metric=("demographic_parity",))
    running = Running.begin(draw(n), asked)
    audit = running.run()
    (found,) = audit.comparisons
    held = running.held
    if running.crossed:
        tallies = running.evaluation.tallies
        free, constrained = (tallies[name].decision for name in ("unconstrained", "constrained"))
    else:
        free, constrained = (
            (running.models[name].answer().trained.score(held.X) > 0.0).astype(int)
            for name in ("unconstrained", "constrained")
        )
    expected = sf.compare(
        None, free, constrained, sensitive_features=held.group[:, 0], sample_weight=held.weight, pos_label=1
    ).to_dict()
    for name in ("estimate", "low", "high", "agreement", "n"):
        assert found[name] == pytest.approx(expected[name], abs=1e-9), name
    assert found["estimate"] == pytest.approx(
        audit.interval(model="constrained")["estimate"] - audit.interval(model="unconstrained")["estimate"]
    )
    assert found["verdict"] == "the constrained model is less unfair"
    assert "the unfairness of the constrained model minus that of the unconstrained model" in found["sentence"]
    jsonschema.validate(json.loads(json.dumps(audit.to_dict())), sf.Audit.schema())


def test_the_report_shows_what_the_constraint_gains(tmp_path):
    audit = sf.audit(draw(900), label="y", sensitive="sex", n_replicates=20, margin=0.1)
    audit.to_html(tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    assert "what the constraint gains" in page
    assert audit.comparisons[0]["sentence"] in page
    old = audit.to_dict()
    del old["comparisons"]  # as an earlier release wrote it
    assert sf.Audit.from_dict(old).comparisons == []
    sf.Audit.from_dict(old).to_html(tmp_path / "old.html")


def test_what_rules_out_the_verdict_rules_out_this_one_too():
    table = draw(900)
    audit = sf.audit(pd.concat([table, table.head(200)]), label="y", sensitive="sex", n_replicates=20, margin=0.1)
    assert not next(one["held"] for one in audit.assumptions if one["name"] == "DependentRows")
    assert audit.comparisons[0]["verdict"] == "not enough evidence"


def test_without_a_criterion_there_is_nothing_to_compare():
    assert sf.audit(draw(400), label="y", sensitive="sex", criterion=None, n_replicates=5).comparisons == []


def test_counts_of_two_parts_add_whatever_their_groups():
    rng = np.random.default_rng(0)
    group = rng.integers(3, size=60)

    def counted(some, names):
        codes = np.searchsorted(names, group[some])[:, None]
        groups = Groups({"g": Levels(np.array(names), "group")})
        labels = Levels(np.array(["0", "1"]), "label")
        rows = Rows(np.empty((len(some), 0)), y[some], codes, weight[some], Names(None, labels, groups))
        return PairedCounts.of(rows, a[some], b[some])

    y, weight = rng.choice([-1.0, 1.0], 60), rng.random(60)
    a, b = rng.random((2, 60)) < 0.5
    order = np.argsort(group)
    first, second = order[:30], order[30:]
    parts = [counted(some, np.unique(group[some]).tolist()) for some in (first, second)]
    whole = counted(np.arange(60), [0, 1, 2])
    assert np.allclose((parts[0] + parts[1]).table, whole.table)
    cell = whole.table[0, 1, 1, 1, 0]  # group 1, positive, only the unconstrained model accepts
    assert cell == np.sum((group == 1) & (y > 0) & a & ~b)
