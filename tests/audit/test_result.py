"""An Audit is the same after a trip through JSON, follows its schema, and answers questions."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pandas as pd
import pytest

from surefair.audit import report
from surefair.audit.result import Audit
from surefair.audit.settings import AuditSettings

CHECK = jsonschema.Draft202012Validator(Audit.schema())
DIAGNOSTIC = {
    "name": "SmallEvaluationSet", "message": "few <rows>.", "advice": "Pass more.",
    "command_line_advice": "Use more.", "statistic": 12.0, "threshold": None, "forbids_verdict": False,
}  # fmt: skip


def interval(metric: str, source: str, estimate: float | None) -> dict[str, Any]:
    low, high = (None, None) if estimate is None else (estimate / 2, estimate * 2)
    pair = {"first": "f", "second": "m", "gap": estimate, "low": low, "high": high}
    rate = {"group": "f", "n": 30, "rate": 0.5, "low": 0.3, "high": 0.7}
    return {
        "metric": metric, "source": source, "method": "percentile", "confidence_level": 0.95, "estimate": estimate,
        "low": low, "high": high, "gap": estimate, "gap_low": low, "gap_high": high, "pair": ["f", "m"],
        "column": "sex", "rate": "selection_rate", "n": 60, "n_training": 100, "spread_training": 0.1,
        "spread_evaluation": 0.1, "reason": "", "sentence": "A sentence.", "diagnostics": [DIAGNOSTIC],
        "by_group": [rate, rate | {"group": "m"}], "by_pair": [pair],
    }  # fmt: skip


def model(name: str) -> dict[str, Any]:
    limits = {"estimate": 0.8, "low": 0.7, "high": 0.9}
    metrics = {"demographic_parity": 0.12, "equalized_odds": None}
    joint = {"confidence_level": 0.95, "low": 0.06, "high": 0.24}
    verdict = {"metric": "demographic_parity", "margin": 0.1, "verdict": "not enough evidence", "joint": joint}
    return {
        "name": name, "criterion": None, "constant": False, "positive": None, "threshold": None, "notes": [],
        "rows": {"decided": 60, "labelled": 60}, "accuracy": limits,
        "intervals": [
            interval(metric, source, value) for metric, value in metrics.items() for source in ("total", "training")
        ],
        "coefficients": [limits | {"feature": "age", "excludes_zero": True}],
        "verdicts": [verdict | {"reason": "", "rows_needed": {"training": None, "evaluation": 10.0, "times": 2.0}}],
        "diagnostics": [DIAGNOSTIC],
    }  # fmt: skip


@pytest.fixture
def audit() -> Audit:
    look = {"model": "constrained", "metric": "demographic_parity", "source": "total", "rows": 50}
    settings = AuditSettings(label="high", sensitive="sex", margin=0.1).to_dict() | {"labels": ["0", "1"]}
    return Audit(
        kind="training", sentence="Groups differ by <12> points.", verdict="not enough evidence", complete=True,
        settings=settings,
        data={"name": "a.csv", "kind": "csv", "files": [{"name": "a.csv", "size": 3, "sha256": "5b" * 32}]},
        rows={"read": 160, "training": 100, "evaluation": 60, "bad": [], "folds": 5, "labelled": 60},
        columns=[{"name": "age", "role": "number", "features": 1, "missing": 0, "unseen": 0, "note": ""}],
        groups=[
            {"column": "sex", "group": "f", "training": 50, "constrained": True, "evaluation": 30, "base_rate": 0.5,
             "compared": True, "note": ""}
        ],
        models=[model("constrained"), model("unconstrained")],
        price={"estimate": 0.0, "low": -0.1, "high": 0.1},
        path=[look | {"estimate": 0.1, "low": 0.0, "high": 0.2}],
        assumptions=[
            {"name": "SmallEvaluationSet", "assumes": "Rows abound.", "held": False, "diagnostics": [DIAGNOSTIC]}
        ],
        versions={"surefair": "0"},
    )  # fmt: skip


# -- JSON --------------------------------------------------------------------------------------------------------------


def test_json_follows_the_schema_and_comes_back_equal(audit: Audit, tmp_path: Path) -> None:
    CHECK.validate(audit.to_dict())
    audit.to_json(tmp_path / "a.json")
    assert Audit.from_json(tmp_path / "a.json") == audit
    assert Audit.from_dict(deepcopy(audit.to_dict())) == audit
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]


def test_the_schema_is_a_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(Audit.schema())


@pytest.mark.parametrize(
    "change",
    [
        lambda found: found.pop("sentence"),
        lambda found: found.update(extra=1),
        lambda found: found.update(verdict="fair"),
        lambda found: found["rows"].update(read=-1),
        lambda found: found["rows"].update(read="many"),
        lambda found: found["rows"].update(constraint=20),  # as in version 2
        lambda found: found["rows"].update(set_aside=0),
        lambda found: found["groups"][0].update(constraint=10),
        lambda found: found["models"].pop(),
        lambda found: found["models"][0].update(name="other"),
        lambda found: found["models"][0].update(warnings=[]),
        lambda found: found["models"][0]["diagnostics"].append("SmallEvaluationSet: few rows"),
        lambda found: found["models"][0]["diagnostics"][0].pop("advice"),
        lambda found: found["models"][0]["diagnostics"][0].pop("command_line_advice"),
        lambda found: found["models"][0]["intervals"][0].pop("low"),
        lambda found: found["models"][0]["intervals"][0].pop("diagnostics"),
        lambda found: found["models"][0]["intervals"][0].update(source="other"),
        lambda found: found["assumptions"][0].pop("diagnostics"),
        lambda found: found["data"]["files"][0].update(sha256="abc"),
        lambda found: found["columns"][0].update(role="other"),
        lambda found: found["price"].update(low=None),
        lambda found: found["settings"].pop("labels"),
        lambda found: found.update(version=2),
    ],
)
def test_the_schema_refuses_a_broken_audit(audit: Audit, change: Callable[[dict[str, Any]], Any]) -> None:
    found = deepcopy(audit.to_dict())
    change(found)
    assert not CHECK.is_valid(found)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "is not JSON"),
        ("not json", "is not JSON"),
        ("[]", "it holds a list"),
        ("{}", "its format must be 'surefair.Audit'; received None"),
        ('{"format": "surefair.FairClassifier"}', "received 'surefair.FairClassifier'"),
        ('{"format": "surefair.Audit", "version": 3}', "reads audits of version 4; received version 3. Run the audit"),
        ('{"format": "surefair.Audit", "version": 4}', "is incomplete: it has no assumptions, columns"),
    ],
)
def test_a_file_that_is_not_an_audit_is_refused_by_name(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "a.json").write_text(content)
    with pytest.raises(ValueError, match=re.escape(message)) as raised:
        Audit.from_json(tmp_path / "a.json")
    assert "a.json" in str(raised.value)


def test_an_unknown_field_is_refused(audit: Audit) -> None:
    with pytest.raises(ValueError, match="An audit has no extra"):
        Audit.from_dict(audit.to_dict() | {"extra": 1})


def test_nan_is_never_written(audit: Audit, tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    audit.to_json(path)
    before = path.read_bytes()
    with pytest.raises(ValueError, match="not JSON compliant"):
        replace(audit, price={"estimate": float("nan")}).to_json(path)
    assert path.read_bytes() == before


# -- HTML --------------------------------------------------------------------------------------------------------------


def test_html_is_written_whole(audit: Audit, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    audit.to_html(path)
    assert path.read_bytes() == report.render(audit.to_dict()).encode()
    assert [one.name for one in tmp_path.iterdir()] == ["report.html"]


def test_the_report_is_the_same_after_json(audit: Audit) -> None:
    again = Audit.from_dict(json.loads(json.dumps(audit.to_dict())))
    assert report.render(again.to_dict()) == report.render(audit.to_dict())


def test_a_notebook_shows_a_summary(audit: Audit) -> None:
    html = audit._repr_html_()
    assert "Groups differ by &lt;12&gt; points." in html
    assert "Verdict: not enough evidence" in html
    assert html.count("<td>12.00 (6.00 to 24.00)</td>") == 2
    assert html.count("<td>not defined</td>") == 2
    assert "Assumption not met: Rows abound." in html
    assert "<script" not in html
    assert "partial" not in html
    assert "partial audit" in replace(audit, complete=False)._repr_html_()
    assert "no margin was given" in replace(audit, verdict=None)._repr_html_()


# -- Questions ---------------------------------------------------------------------------------------------------------


def test_an_audit_gives_its_models_and_intervals(audit: Audit) -> None:
    assert audit.model()["name"] == "constrained"
    assert audit.model("unconstrained") == audit.models[1]
    assert audit.interval() == audit.models[0]["intervals"][0]
    assert audit.interval("equalized_odds", "training", "unconstrained") == audit.models[1]["intervals"][3]


def test_an_unknown_name_is_an_error_that_suggests_a_known_one(audit: Audit) -> None:
    with pytest.raises(ValueError, match=r"Unknown model: 'constraint'\. Did you mean 'constrained'"):
        audit.model("constraint")
    with pytest.raises(ValueError, match=r"Unknown metric: 'demographic_partiy'\. Did you mean 'demographic_parity'"):
        audit.interval("demographic_partiy")
    with pytest.raises(ValueError, match=r"Unknown source: 'totl'\. Did you mean 'total'"):
        audit.interval(source="totl")


def test_the_frame_has_a_row_for_each_model_metric_and_source(audit: Audit) -> None:
    frame = audit.to_frame()
    assert isinstance(frame, pd.DataFrame)
    assert len(frame) == 8
    assert set(frame["model"]) == {"constrained", "unconstrained"}
    assert list(frame["first"]) == ["f"] * 8


def test_text_and_repr(audit: Audit) -> None:
    assert str(audit) == "Groups differ by <12> points.\nAssumption not met: Rows abound."
    assert repr(audit) == "<Audit of a.csv, 160 rows: not enough evidence>"


# -- Settings ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"sensitive": ()}, "Name at least one sensitive column"),
        ({"criterion": "demografic_parity"}, "Did you mean 'demographic_parity'"),
        ({"metric": ["parity"]}, "Unknown metric: 'parity'"),
        ({"metric": ["error_rate", "error_rate_ratio"], "margin": 0.1}, "cannot apply to differences and ratios"),
        ({"features": ["age"], "drop": ["age"]}, "'age' is in features and in drop"),
        ({"margin": 1.0}, "margin must lie strictly between 0 and 1"),
        ({"margin": "0.1"}, "margin must lie strictly between 0 and 1"),
        ({"shard_rows": True}, "shard_rows must be None or a whole number, 1 or larger; received True"),
        ({"n_replicates": 0}, "n_replicates must be a whole number, 2 or larger; received 0"),
        ({"n_replicates": 1}, "n_replicates must be a whole number, 2 or larger; received 1"),
        ({"random_state": None}, "random_state must be a whole number, from 0 to 4,294,967,295; received None"),
        ({"random_state": -1}, "random_state must be a whole number, from 0 to .* received -1"),
        ({"random_state": 2**32}, "random_state must be a whole number, from 0 to .* received 4294967296"),
        ({"max_bad_rows": -1}, "max_bad_rows must be a whole number, 0 or larger; received -1"),
        ({"tolerance": -1}, "tolerance must be a number, 0 or larger; received -1"),
        ({"tolerance": 1.0}, "tolerance bounds the gap between two shares of decisions, so it must be less than 1"),
        ({"tolerance": 0.05, "penalty": 2.0}, "received tolerance=0.05 and penalty=2.0. Leave one of them out"),
        ({"penalty": 0.0}, "penalty must be a positive number, or None for a constraint; received 0.0"),
        ({"surrogate": "score"}, "Unknown surrogate: 'score'. Did you mean 'scores'"),
        ({"loss": "hinge"}, "Unknown loss: 'hinge'"),
        ({"weights": "sex"}, "Column 'sex' has two roles"),
        ({"features": ["high"]}, "Column 'high' is the label or the weights"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        AuditSettings(**{"label": "high", "sensitive": "sex"} | settings)


def test_settings_take_numbers_of_numpy() -> None:
    settings = AuditSettings(label="high", sensitive="sex", n_replicates=np.int64(50), random_state=np.uint8(3))
    assert json.loads(json.dumps(settings.to_dict()))["n_replicates"] == 50
    assert settings.random_state == 3


def test_settings_take_one_name_or_several() -> None:
    one = AuditSettings(label="high", sensitive="sex", metric="error_rate", drop="id", positive=1)
    several = AuditSettings(label="high", sensitive=["sex"], metric=["error_rate"] * 2, drop=["id"], positive="1")
    assert one == several
    assert one.judged == ("error_rate",)
    assert one.measured[0] == "error_rate"
    assert len(one.measured) == len(set(one.measured))
    assert AuditSettings(**one.to_dict()) == one
