"""What cannot be audited: a clear message, or a counted report, and never a silent loss."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import surefair as sf
from surefair.audit.decisions import run as running

pytestmark = pytest.mark.filterwarnings("ignore::surefair.diagnostics.Diagnostic")

ASKED = {"decision": "hired", "sensitive": "sex", "n_replicates": 50}


def audit(table, **settings):
    return sf.audit(table, **ASKED | settings)


def change(name, value, rows=slice(None)):
    def changed(table):
        table = table.astype({name: object})
        table.loc[rows, name] = value
        return table

    return changed


REFUSED = {
    "three decisions": (change("hired", "maybe", [7]), {}, r"The decision 'hired' must have two values; it has 3 or "
                        r"more: '[01]', '[01]', 'maybe'\. The third is in row 8\. Keep or merge two"),
    "scores as decisions": (lambda t: t, {"decision": "score"}, r"must have two values.*pass them as scores"),
    "three labels": (change("fit", 2, [9]), {"label": "fit"}, r"The label 'fit' must have two values.*row 10"),
    "one decision": (change("hired", 1), {}, r"All rows have the same decision 'hired': '1'\. Say which value"),
    "one label": (change("fit", 0), {"label": "fit"}, r"All rows have the same label 'fit': '0'"),
    "no decision at all": (change("hired", None), {"max_bad_rows": 10**6}, r"no row to count.*400 rows: no decision"),
    "too many without a decision": (change("hired", None, slice(0, 200)), {}, r"201 rows cannot be used.*no decision"),
    "one group": (change("sex", "f"), {}, r"'sex' has fewer than two groups to compare: 'f'\."),
    "an unknown positive value": (lambda t: t, {"positive": "2"}, r"Unknown positive value: '2'.*Known: '0', '1'"),
    "both positive": (lambda t: t, {"positive": ["0", "1"]}, r"Both values of 'hired' are named as positive"),
    "one cluster": (change("person", 1), {"clusters": "person"}, r"All rows are in one cluster"),
    "a column with two roles": (lambda t: t, {"label": "hired"}, r"Column 'hired' has two roles"),
    "an unknown column": (lambda t: t, {"decision": "hird"}, r"Unknown column for decision: 'hird'\. Did you mean"),
    "a threshold without scores": (lambda t: t, {"threshold": 0.5}, r"threshold turns scores into decisions"),
    "a metric without labels": (lambda t: t, {"metric": "accuracy"}, r"'accuracy' needs labels\. Name their column"),
    "a score metric without scores": (lambda t: t, {"metric": "mean_score"}, r"looks at scores\. Name their column"),
    "an unknown metric": (lambda t: t, {"metric": "parity"}, r"Unknown metric: 'parity'"),
    "a margin beyond 1": (lambda t: t, {"margin": 5}, r"margin must lie strictly between 0 and 1"),
    "one margin for two kinds": (lambda t: t, {"metric": ["demographic_parity", "demographic_parity_ratio"],
                                 "margin": 0.1}, r"One margin cannot apply to differences and ratios"),
    "a margin of another metric": (lambda t: t, {"metric": "demographic_parity", "margin": {"accuracy": 0.1}},
                                   r"margin must have one entry for each metric that is judged"),
    "a training option": (lambda t: t, {"loss": "squared_error"}, r"loss \(--loss\) is for audits of training"),
    "weights that are words": (change("w", "heavy"), {"weights": "w"}, r"cannot be used"),
}  # fmt: skip


@pytest.mark.parametrize("chunk", [10**6, 100])
@pytest.mark.parametrize("case", REFUSED)
def test_bad_input_is_refused_with_a_clear_message(case, chunk, decided, monkeypatch, tmp_path):
    monkeypatch.setattr(running, "CHUNK", chunk)
    monkeypatch.setattr(running, "CLUSTER_CHUNK", chunk)
    make, settings, words = REFUSED[case]
    make(decided(400)).to_csv(tmp_path / "a.csv", index=False)
    words = words.replace("201 rows", r"\d+ rows")
    with pytest.raises(ValueError, match=words):
        audit(tmp_path / "a.csv", **settings)


SCORES = {
    "beyond 1": ({"metric": "mean_score"}, 100.0, r"needs scores between 0 and 1; 'score' has"),
    "clusters": ({"metric": "auc", "label": "fit", "clusters": "person"}, 1.0, "takes no clusters"),
    "no threshold": ({"metric": "demographic_parity"}, 1.0, r"looks at decisions\. Pass a threshold"),
    "two thresholds": ({"threshold": 0.5, "threshold_quantile": 0.5}, 1.0, "Leave one out"),
    "a quantile of 2": ({"threshold_quantile": 2}, 1.0, "must lie strictly between 0 and 1"),
    "a quantile with clusters": ({"threshold_quantile": 0.5, "clusters": "person"}, 1.0, "must be known before"),
    "an infinite threshold": ({"threshold": np.inf}, 1.0, "threshold must be a finite number"),
}


@pytest.mark.parametrize("case", SCORES)
def test_scores_that_cannot_serve_are_refused(case, decided):
    settings, times, words = SCORES[case]
    table = decided(400).assign(score=lambda t: t["score"] * times)
    with pytest.raises(ValueError, match=words):
        sf.audit(table, score="score", sensitive="sex", n_replicates=50, **settings)


def test_scores_beyond_1_leave_out_the_metrics_that_need_probabilities(decided, tmp_path):
    table = decided().assign(score=lambda t: 100.0 * t["score"])
    found = sf.audit(table, score="score", label="fit", sensitive="sex", margin=0.05, n_replicates=50)
    assert [one["metric"] for one in found.model()["intervals"]] == ["scoring_rate", "auc"]
    (note,) = (one for one in found.model()["notes"] if "Not measured" in one)
    assert note.startswith("Not measured: calibration, mean_score. Scores must lie between 0 and 1 for that, and these")
    found.to_html(tmp_path / "report.html")
    assert "Not measured: calibration, mean_score." in (tmp_path / "report.html").read_text()


def test_missing_decisions_are_counted_and_left_out_of_their_column_only(decided):
    table = change("hired", None, [3, 4, 9])(decided())
    found = audit(table, decision=["hired", "promoted"])
    assert found.rows["bad"] == [{"reason": "no decision 'hired'", "count": 3, "first": "row 4"}]
    assert [model["rows"]["decided"] for model in found.models] == [2997, 3000]
    assert found.rows["read"] == found.rows["evaluation"] == 3000
    assert next(one for one in found.columns if one["name"] == "hired")["missing"] == 3


def test_evaluation_rows_are_those_with_a_decision(decided):
    table = change("hired", None, slice(0, 50))(decided())
    found = audit(table, label="fit")
    n = len(table) - table["hired"].isna().sum()
    assert n < 3000
    assert found.rows["read"] == 3000
    assert found.rows["evaluation"] == found.rows["labelled"] == n
    assert found.model()["rows"] == {"decided": n, "labelled": n}
    shown = {one["group"]: one["evaluation"] for one in found.groups}
    assert sum(shown.values()) == n
    by_group = found.interval("demographic_parity")["by_group"]
    assert {one["group"]: one["n"] for one in by_group} == shown
    both = audit(table, decision=["hired", "promoted"])
    assert both.rows["evaluation"] == 3000
    assert [model["rows"]["decided"] for model in both.models] == [n, 3000]


def test_scores_that_are_no_numbers_are_counted(decided, tmp_path):
    table = change("score", "high", [5])(change("score", np.inf, [7])(change("score", None, [6])(decided())))
    table.to_csv(tmp_path / "a.csv", index=False)
    found = sf.audit(tmp_path / "a.csv", score="score", threshold=0.5, sensitive="sex", n_replicates=50)
    assert found.rows["bad"] == [{"reason": "no score 'score' that is a finite number", "count": 3, "first": "row 6"}]
    assert found.model()["rows"]["decided"] == 2997


def test_rows_without_a_weight_a_cluster_or_a_stratum_are_counted(decided):
    table = change("job", None, [3])(change("person", None, [4])(change("w", -1.0, [5])(decided())))
    found = audit(table, weights="w", clusters="person", strata="job")
    assert {one["reason"]: one["first"] for one in found.rows["bad"]} == {
        "a weight 'w' that is missing, negative or infinite": "row 6",
        "no value of the cluster column 'person'": "row 5",
        "no value of the column of strata 'job'": "row 4",
    }
    assert found.rows["evaluation"] == 2997


def test_clusters_of_one_row_are_counted_as_independent_rows(decided):
    table = decided().assign(person=range(3000))
    found = audit(table, clusters="person")
    assert found.model()["notes"] == ["Every cluster has one row, so rows count as independent."]
    assert found.interval()["low"] == audit(table).interval()["low"]


def test_strata_with_one_group_add_nothing_and_are_reported(decided):
    table = decided()
    table.loc[table["sex"] == "f", "job"] = "cook"
    found = audit(table, strata="job")
    (note,) = found.model()["notes"]
    assert "1 of them" in note
    assert "only one group and add nothing" in note.replace("adds", "add")
    table["job"] = np.where(table["sex"] == "f", "cook", "clerk")
    none = audit(table, strata="job", margin=0.2)
    assert none.verdict == "not enough evidence"
    assert "no stratum has rows of both" in none.interval()["reason"]


def test_few_rows_of_a_stratum_with_clusters_are_refused(decided):
    with pytest.raises(ValueError, match="10 or more rows in each stratum"):
        audit(decided(120).assign(job=np.arange(120) % 12), strata="job", clusters="person")


def test_decisions_that_are_all_the_same_get_no_verdict(decided):
    found = audit(decided().assign(hired=0), positive="1", margin=0.1)
    assert found.verdict == "not enough evidence"
    assert "All decisions are the same" in found.sentence
    assert found.model()["constant"]


def test_too_many_strata_and_groups_are_refused(decided, monkeypatch):
    from surefair.audit.decisions import axes

    table = decided()
    monkeypatch.setattr(axes, "MOST_CELLS", 3)
    with pytest.raises(ValueError, match=r"2 strata and 2 groups, too many"):
        audit(table, strata="job")
    monkeypatch.setattr(axes, "MOST_CELLS", 100)
    monkeypatch.setattr(axes, "MOST_NUMBERS", 500)
    with pytest.raises(ValueError, match=r"need too much memory for 50 replicates.*--replicates"):
        audit(table, clusters="person")


@pytest.mark.parametrize("more", [{"clusters": "person"}, {"score": "score", "threshold": 0.5}, {"score": "score"}])
def test_chunks_without_a_usable_row_change_nothing(decided, monkeypatch, more):
    """No weight, label or decision among the first rows; the words of groups appear late."""
    table = decided(1000)
    first = table.assign(w=0.0, sex="m", hired=None, fit=None)[:300]
    whole = pd.concat([first, table], ignore_index=True)
    asked = {"label": "fit", "weights": "w", "max_bad_rows": 300} | more
    expected = audit(table, **asked)
    monkeypatch.setattr(running, "CHUNK", 50)
    monkeypatch.setattr(running, "CLUSTER_CHUNK", 50)
    found = audit(whole, **asked)
    assert found.rows["evaluation"] == 1000
    for mine, theirs in zip(found.models, expected.models, strict=True):
        for one, other in zip(mine["intervals"], theirs["intervals"], strict=True):
            for name in ("estimate", "low", "high"):
                assert one[name] == pytest.approx(other[name], abs=1e-12)


def test_decisions_that_are_passed_as_scores_give_no_verdict(decided):
    table = decided()
    table["approved"] = np.where(np.arange(len(table)) % 10 < 7, 1, 0)
    found = sf.audit(table, score="approved", sensitive="sex", margin=0.05)
    assert found.verdict == "not enough evidence"
    (one,) = (one for one in found.assumptions if not one["held"])
    assert one["name"] == "TiedScores"
    assert "pass --decision" in one["diagnostics"][0]["command_line_advice"]


@pytest.mark.parametrize("metric", ["auc", "mean_score", "scoring_rate"])
def test_scores_that_are_all_the_same_give_no_verdict(decided, metric):
    found = sf.audit(
        decided().assign(score=0.5), score="score", label="fit", sensitive="sex", metric=metric, margin=0.2
    )
    assert found.verdict == "not enough evidence"
    assert [one["name"] for one in found.assumptions if not one["held"]] == ["OneDecision"]
    with pytest.warns(sf.diagnostics.OneDecision, match="All scores are the same"):
        alone = sf.fairness_interval(
            [0, 1] * 50, [0.5] * 100, sensitive_features=["a", "a", "b", "b"] * 25, metric=metric
        )
    assert alone.verdict(0.9) == "not enough evidence"


@pytest.mark.parametrize("first", ["below", "at least"])
def test_decisions_may_have_the_words_of_thresholds(decided, first):
    table = decided()
    table["hired"] = np.where(table["hired"] == 1, "at least", "below")
    table = table.sort_values("hired", ascending=first == "at least", ignore_index=True)
    found = sf.audit(table, decision="hired", sensitive="sex", positive="below")
    assert found.models[0]["positive"] == "below"


@pytest.mark.parametrize("positive", [1, np.int64(1), 1.0])
def test_the_positive_value_may_be_a_number(decided, positive):
    assert sf.audit(decided(), decision="hired", sensitive="sex", positive=positive).models[0]["positive"] == "1"


def test_a_gap_that_is_not_defined_is_said_to_be_so(decided):
    table = decided()
    table["job"] = np.where(table["sex"] == "f", "clerk", "cook")
    found = sf.audit(table, decision="hired", sensitive="sex", strata="job")
    assert "how far they are apart cannot be said" in found.sentence
