"""An audit of decisions: the numbers of the library and of others, from every form of the data, with stops or not."""

from __future__ import annotations

from functools import cache

import fairlearn.metrics as fm
import jsonschema
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from forms import FORMS, write_folder
from sklearn import metrics as sm

import surefair as sf
from surefair.audit.api import begin, restore
from surefair.audit.decisions import run as running
from surefair.audit.decisions.settings import DecisionSettings
from surefair.audit.result import Audit

pytestmark = pytest.mark.filterwarnings("ignore::surefair.diagnostics.Diagnostic")

CHECK = jsonschema.Draft202012Validator(Audit.schema())
SENSITIVE = ["sex", "race"]


@pytest.fixture(params=[10**6, 701], ids=["one chunk", "many chunks"])
def chunks(request, monkeypatch):
    monkeypatch.setattr(running, "CHUNK", request.param)
    monkeypatch.setattr(running, "CLUSTER_CHUNK", request.param)


def audit(data, **settings):
    """Audit, and check that JSON and the page can be made of the result."""
    found = sf.audit(data, **{"n_replicates": 200} | settings)
    CHECK.validate(found.to_dict())
    assert sf.Audit.from_dict(found.to_dict()).to_dict() == found.to_dict()
    assert found.sentence[:20] in found._repr_html_().replace("&#39;", "'")
    return found


def same(found, interval, model=None):
    """Whether an audit has this interval of the library, up to rounding."""
    one, other = found.interval(interval.metric, model=model), interval.to_dict()
    for name in ("estimate", "low", "high", "gap", "gap_low", "gap_high", "n"):
        assert one[name] == pytest.approx(other[name], abs=1e-12), (interval.metric, name)
    for name in ("by_group", "by_pair"):
        for mine, theirs in zip(one[name], other[name], strict=True):
            assert {key: mine[key] for key in theirs} == pytest.approx(theirs, abs=1e-12)


# -- The same numbers --------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("chunks")
@pytest.mark.parametrize("how", [[], ["w"], ["person"], ["job"], ["w", "person"], ["w", "job"], ["w", "person", "job"]])
def test_the_numbers_are_those_of_fairness_interval(decided, how):
    table = decided()
    roles = {"w": ("weights", "sample_weight"), "person": ("clusters", "clusters"), "job": ("strata", "strata")}
    found = audit(table, decision="hired", label="fit", sensitive=SENSITIVE, **{roles[name][0]: name for name in how})
    for metric in ("demographic_parity", "equalized_odds", "precision", "base_rate"):
        asked = {roles[name][1]: table[name] for name in how} | {"n_replicates": 200, "metric": metric}
        same(found, sf.fairness_interval(table["fit"], table["hired"], sensitive_features=table[SENSITIVE], **asked))


@pytest.mark.usefixtures("chunks")
@pytest.mark.parametrize("weights", [None, "w"])
def test_scores_have_the_numbers_of_fairness_interval(decided, weights):
    table = decided()
    more = {} if weights is None else {"sample_weight": table[weights]}
    found = audit(table, score="score", threshold=0.5, label="fit", sensitive=SENSITIVE, weights=weights)
    asked = {"sensitive_features": table[SENSITIVE], "n_replicates": 200} | more
    for metric in ("mean_score", "scoring_rate", "auc", "calibration"):
        same(found, sf.fairness_interval(table["fit"], table["score"], metric=metric, **asked))
    for metric in ("demographic_parity", "accuracy"):
        same(found, sf.fairness_interval(table["fit"], table["score"], metric=metric, threshold=0.5, **asked))


@pytest.mark.usefixtures("chunks")
def test_several_metrics_have_the_limits_of_joint_intervals(decided):
    table = decided()
    margins = {"demographic_parity": 0.05, "accuracy": 0.05, "true_positive_rate": 0.1, "demographic_parity_ratio": 0.8}
    found = audit(table, decision="hired", label="fit", sensitive="sex", margin=margins)
    asked = {"sensitive_features": table["sex"], "n_replicates": 200}
    joint = sf.joint_intervals(table["fit"], table["hired"], metric=[*margins], **asked)
    verdicts = {one["metric"]: one["verdict"] for one in found.model()["verdicts"]}
    assert verdicts == joint.verdicts(margins)
    assert found.verdict == joint.verdict(margins)
    for one, wide in zip(found.model()["verdicts"], joint.joint, strict=True):
        assert one["margin"] == margins[one["metric"]]
        assert one["joint"]["low"] == pytest.approx(wide.low, abs=1e-12)
        assert one["joint"]["confidence_level"] == pytest.approx(wide.confidence_level, abs=1e-12)
        assert wide.confidence_level > 0.95


def test_score_metrics_judged_together_share_the_error(decided):
    asked = {"score": "score", "label": "fit", "sensitive": "sex", "metric": ["auc", "mean_score"], "margin": 0.2}
    found = audit(decided(), **asked)
    levels = [one["joint"]["confidence_level"] for one in found.model()["verdicts"]]
    assert levels == pytest.approx([0.975, 0.975])


THEIRS = {
    "demographic_parity": fm.selection_rate, "true_positive_rate": fm.true_positive_rate,
    "false_positive_rate": fm.false_positive_rate, "true_negative_rate": fm.true_negative_rate,
    "false_negative_rate": fm.false_negative_rate, "accuracy": sm.accuracy_score, "precision": sm.precision_score,
}  # fmt: skip


@pytest.mark.parametrize("weights", [None, "w"])
@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_points_equal_those_of_fairlearn_and_scikit_learn(decided, tmp_path, form, weights):
    table = decided()
    table.loc[::50, "race"] = None
    path = tmp_path / f"a.{form}"
    getattr(table, f"to_{form}")(path, index=False)
    found = audit(
        path, decision="hired", label="fit", sensitive=SENSITIVE, weights=weights, unknown="include", intersections=True
    )
    columns = table[SENSITIVE].fillna("(missing)").assign(**{"sex × race": lambda t: t["sex"] + " × " + t["race"]})
    for metric, function in THEIRS.items():
        one = found.interval(metric)
        worst = 0.0
        for column in columns:
            more = {} if weights is None else {"sample_params": {"sample_weight": table[weights]}}
            frame = fm.MetricFrame(
                metrics=function, y_true=table["fit"], y_pred=table["hired"], sensitive_features=columns[column], **more
            )
            rates = {row["group"]: row["rate"] for row in one["by_group"] if row["column"] == column}
            assert rates == pytest.approx(frame.by_group.to_dict(), abs=1e-12)
            worst = max(worst, frame.difference("between_groups"))
        assert one["estimate"] == pytest.approx(worst, abs=1e-12)


def test_auc_and_mean_score_equal_those_of_scikit_learn_within_their_stated_error(decided):
    table = decided()
    found = audit(table, score="score", label="fit", sensitive="sex")
    for sex, part in table.groupby("sex"):
        area, mean = (
            next(row for row in found.interval(metric)["by_group"] if row["group"] == sex)
            for metric in ("auc", "mean_score")
        )
        assert mean["rate"] == pytest.approx(part["score"].mean(), abs=1e-12)
        assert abs(area["rate"] - sm.roc_auc_score(part["fit"], part["score"])) <= area["resolution"] + 1e-12
        assert area["resolution"] < 1e-3


def test_a_quantile_of_the_scores_is_a_threshold(decided):
    table = decided()
    asked = {"score": "score", "label": "fit", "sensitive": "sex"}
    found = audit(table, threshold_quantile=0.8, **asked)
    threshold = found.model()["threshold"]
    assert np.mean(table["score"] >= threshold) == pytest.approx(0.2, abs=0.01)
    for metric in ("demographic_parity", "true_positive_rate"):
        more = {"sensitive_features": table["sex"], "threshold": threshold, "n_replicates": 200, "metric": metric}
        same(found, sf.fairness_interval(table["fit"], table["score"], **more))
    assert "The threshold is" in " ".join(found.model()["notes"])


# -- The same result ---------------------------------------------------------------------------------------------------


ASKED = {
    "decision": ["hired", "promoted"], "score": "score", "label": "fit", "sensitive": SENSITIVE, "margin": 0.1,
    "intersections": True, "min_share": 0.02, "n_replicates": 20,
}  # fmt: skip
WAYS = {"plain": {}, "weights": {"weights": "w"}, "clusters": {"clusters": "person", "score": None}}


def findings_of(found):
    """Everything but the data, whose names and checksums differ between forms."""
    return {name: value for name, value in found.to_dict().items() if name != "data"}


@pytest.fixture(scope="module")
def table(decided):
    table = decided()
    table.loc[3::40, "race"] = None
    table["fit"] = table["fit"].astype(object).where(np.arange(len(table)) % 30 != 4, None)
    table["promoted"] = table["promoted"].where(np.arange(len(table)) % 500 != 5, None)
    return table


@pytest.fixture(scope="module")
def expected(table):
    """A function that returns the findings of an Arrow table, in one chunk."""
    return cache(lambda way: findings_of(audit(pa.Table.from_pandas(table, preserve_index=False), **ASKED | WAYS[way])))


# Every form of the table is audited by itself, and then with weights or with clusters, in turn.
FORMS_AND_WAYS = [(form, way) for i, form in enumerate(FORMS) for way in ("plain", ("weights", "clusters")[i % 2])]


@pytest.mark.parametrize(("form", "way"), FORMS_AND_WAYS)
def test_the_same_rows_give_the_same_audit_in_every_form(form, way, table, expected, tmp_path, monkeypatch):
    whole = expected(way)
    monkeypatch.setattr(running, "CHUNK", 1000)
    monkeypatch.setattr(running, "CLUSTER_CHUNK", 1000)
    found = findings_of(audit(FORMS[form](table, tmp_path), **ASKED | WAYS[way]))
    if form == "folder":  # it names the file too
        found["rows"]["bad"][0]["first"] = found["rows"]["bad"][0]["first"].removeprefix("0.parquet, ")
    assert found == whole


def test_chunks_change_nothing(table, monkeypatch):
    found = []
    for chunk in (37, 1000, 10**6):
        monkeypatch.setattr(running, "CHUNK", chunk)
        found.append(audit(table, **ASKED).to_dict())
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize("way", ["plain", "clusters"])
def test_shards_add_up_to_the_same_findings(table, tmp_path, way):
    folder = write_folder(pa.Table.from_pandas(table, preserve_index=False), tmp_path / "many")
    asked = ASKED | WAYS[way]
    whole = findings_of(audit(folder, **asked))
    for n_jobs in (1, 2):
        found = audit(folder, **asked, shard_rows=500, n_jobs=n_jobs)
        assert found.data["shards"] > 1
        parts = findings_of(found)
        bad, other = parts["rows"].pop("bad"), whole["rows"].get("bad")
        assert [one["count"] for one in bad] == [one["count"] for one in other]
        parts["settings"]["shard_rows"] = None
        assert parts == whole | {"rows": {k: v for k, v in whole["rows"].items() if k != "bad"}}


def test_the_order_of_rows_changes_nothing_but_rounding(decided):
    table = decided()
    mixed = table.sample(frac=1.0, random_state=0)
    asked = {"decision": "hired", "label": "fit", "sensitive": SENSITIVE, "margin": 0.1, "clusters": "person"}
    first, second = audit(table, **asked), audit(mixed, **asked)
    assert first.groups == second.groups
    same(first, sf.fairness_interval(mixed["fit"], mixed["hired"], sensitive_features=mixed[SENSITIVE],
                                     clusters=mixed["person"], n_replicates=200))  # fmt: skip
    assert first.verdict == second.verdict


# -- Stops -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("stops", [1, 3])
def test_a_resumed_audit_is_the_audit_that_never_stopped(table, tmp_path, monkeypatch, way, stops):
    monkeypatch.setattr(running, "CHUNK", 500)
    monkeypatch.setattr(running, "CLUSTER_CHUNK", 500)
    path = FORMS["csv"](table, tmp_path)
    asked = ASKED | WAYS[way]
    whole = sf.audit(path, **asked).to_dict()
    left = iter([False] * (stops - 1) + [True])
    settings = DecisionSettings(**{name: value for name, value in asked.items() if value is not None})
    partial = begin(path, settings, tmp_path / "state").run(checkpoint=tmp_path / "state", stop=lambda: next(left))
    assert not partial.complete
    assert partial.sentence.startswith("So far, before all rows were read: ")
    assert restore(tmp_path / "state").n_read == 500 * stops
    assert sf.resume(tmp_path / "state").to_dict() == whole


def test_a_checkpoint_of_other_columns_is_refused(table, tmp_path, monkeypatch):
    monkeypatch.setattr(running, "CHUNK", 500)
    path = FORMS["csv"](table, tmp_path)
    settings = DecisionSettings(decision=["hired"], sensitive=["sex"])
    begin(path, settings, tmp_path / "state").run(checkpoint=tmp_path / "state", stop=lambda: True)
    (tmp_path / "a.csv").write_text("other,sex\n1,f\n")
    with pytest.raises(ValueError, match=r"no column|Unknown column"):
        sf.resume(tmp_path / "state")


# -- What is said ------------------------------------------------------------------------------------------------------


def test_without_labels_only_selection_rates_are_measured(decided):
    found = audit(decided(), decision="hired", sensitive="sex", margin=0.05)
    assert [one["metric"] for one in found.model()["intervals"]] == ["demographic_parity"]
    assert found.model()["accuracy"] is None
    assert found.verdict == "violates margin"
    assert "15.9 percentage points apart" in found.sentence


def test_the_worst_verdict_counts(decided):
    table = decided(20_000)
    found = audit(table, decision=["promoted", "hired"], sensitive="sex", margin=0.05)
    assert [model["verdicts"][0]["verdict"] for model in found.models] == ["within margin", "violates margin"]
    assert found.verdict == "violates margin"
    assert found.model("promoted")["positive"] == "yes"


def test_columns_of_decisions_share_the_error(decided):
    table = decided()
    (alone, *_) = audit(table, decision="hired", sensitive="sex", margin=0.05).model()["verdicts"]
    both = audit(table, decision=["hired", "promoted"], sensitive="sex", margin=0.05)
    for model in both.models:
        assert model["verdicts"][0]["joint"]["confidence_level"] >= 0.975
    assert both.model("hired")["verdicts"][0]["joint"]["low"] < alone["joint"]["low"]


def test_rows_without_a_label_count_for_selection_rates_only(decided):
    table = decided()
    table["fit"] = table["fit"].astype(object).where(np.arange(len(table)) % 10 != 0, None)
    found = audit(table, decision="hired", label="fit", sensitive="sex", metric=["demographic_parity", "accuracy"],
                  margin=0.3)  # fmt: skip
    some = table.dropna(subset="fit")
    assert found.rows["labelled"] == len(some) == 2700
    assert found.model()["rows"] == {"decided": 3000, "labelled": 2700}
    assert any("300 rows have no label" in note for note in found.model()["notes"])
    more = {"n_replicates": 200, "metric": "accuracy"}
    same(found, sf.fairness_interval(some["fit"].astype(int), some["hired"], sensitive_features=some["sex"], **more))
    rates = {row["group"]: row["rate"] for row in found.interval("demographic_parity")["by_group"]}
    assert rates == pytest.approx(table.groupby("sex")["hired"].mean().to_dict(), abs=1e-12)


def test_words_of_labels_and_decisions_may_differ(decided):
    table = decided()
    renamed = table.assign(
        hired=np.where(table["hired"] == 1, "approve", "deny"), fit=np.where(table["fit"], "ok", "bad")
    )
    found = audit(renamed, decision="hired", label="fit", sensitive="sex", positive=["approve", "ok"])
    same(found, sf.fairness_interval(table["fit"], table["hired"], sensitive_features=table["sex"], n_replicates=200,
                                     metric="true_positive_rate"))  # fmt: skip
    assert found.settings["labels"] == ["bad", "ok"]
    assert "Positive is hired = 'approve'" in found.sentence


def test_the_sentence_names_what_is_positive_and_decisions_against_the_labels_are_noted(decided):
    table = decided()
    found = audit(table.assign(hired=1 - table["hired"]), decision="hired", label="fit", sensitive="sex")
    assert "The positive label is fit = '1'." in found.sentence
    assert any("of the decisions agree with the labels" in note for note in found.model()["notes"])
    right = audit(table, decision="hired", label="fit", sensitive="sex")
    assert not any("agree with the labels" in note for note in right.model()["notes"])


def test_the_sentence_says_that_groups_are_compared_within_strata(decided):
    found = audit(decided(), decision="hired", sensitive="sex", strata="job")
    assert "Groups are compared within 'job', so this is not the difference of the shares." in found.sentence


def test_rows_needed_are_those_for_the_limits_that_decide(decided):
    table = decided()
    metrics = ["demographic_parity", "true_positive_rate", "false_positive_rate", "accuracy"]
    more = {"decision": "hired", "label": "fit", "sensitive": "sex", "metric": metrics}
    (first, *_) = audit(table, **more, margin=0.5).model()["verdicts"]
    alone = audit(table, **more).interval("demographic_parity")["low"]
    margin = (alone + first["joint"]["low"]) / 2.0  # violated by itself, but not with all four together
    (first, *_) = audit(table, **more, margin=margin).model()["verdicts"]
    assert first["verdict"] == "not enough evidence"
    assert first["rows_needed"]["evaluation"] > 0


def test_weights_of_zero_are_left_out_and_counted(decided):
    table = decided()
    table.loc[::3, "w"] = 0.0
    found = audit(table, decision="hired", sensitive="sex", weights="w")
    assert found.rows["evaluation"] == 2000
    assert found.model()["notes"] == ["1,000 of 3,000 rows have the weight 0 and are left out."]
    same(found, sf.fairness_interval(None, table["hired"], sensitive_features=table["sex"], sample_weight=table["w"],
                                     n_replicates=200))  # fmt: skip


def test_huge_and_equal_weights_are_harmless(decided):
    table = decided()
    plain = audit(table, decision="hired", sensitive="sex").interval()
    for weight in (0.1, 1e200, 3e-170):
        found = audit(table.assign(w=weight), decision="hired", sensitive="sex", weights="w").interval()
        assert found == plain


def test_clusters_make_intervals_wider_and_a_verdict_possible(decided):
    """Each row four times: rows of one person."""
    table = decided(2000).assign(person=range(2000))
    copies = pd.concat([table] * 4)
    alone = audit(table, decision="hired", sensitive="sex", margin=0.05)
    naive = audit(copies, decision="hired", sensitive="sex", margin=0.05)
    found = audit(copies, decision="hired", sensitive="sex", margin=0.05, clusters="person")
    width = [one.interval()["high"] - one.interval()["low"] for one in (alone, naive, found)]
    assert width[1] < 0.6 * width[0]
    assert width[2] == pytest.approx(width[0], rel=0.15)
    assert found.verdict == "violates margin"
    assert found.model()["notes"] == ["The 8,000 rows are in 2,000 clusters."]
    assert found.model()["accuracy"] is None


def test_accuracy_knows_of_clusters(decided):
    table = decided(2000).assign(person=range(2000))
    copies = pd.concat([table] * 4)
    asked = {"decision": "hired", "label": "fit", "sensitive": "sex"}
    found = [audit(table, **asked), audit(copies, **asked, clusters="person")]
    first, second = (one.model()["accuracy"] for one in found)
    assert first["estimate"] == second["estimate"] == np.mean(table["fit"] == table["hired"])
    assert second["high"] - second["low"] == pytest.approx(first["high"] - first["low"], rel=0.15)
