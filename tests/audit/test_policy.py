"""A policy: settings that are agreed on beforehand, the same in Python and on the command line."""

from __future__ import annotations

import hashlib

import pytest

import surefair as sf
from surefair.audit.policy import KEYS, read_policy

pytestmark = pytest.mark.filterwarnings("ignore::surefair.diagnostics.Diagnostic")

POLICY = """
sensitive = ["sex"]
metric = ["demographic_parity", "accuracy"]
level = 0.9
unknown = "show"
min_share = 0.01

[margin]
demographic_parity = 0.3
accuracy = 0.2
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "surefair.toml"
    path.write_text(POLICY)
    return path


@pytest.fixture(scope="module")
def table(people):
    return people(3000).assign(decided=lambda t: (t["age"] > 0.5).astype(int))


def test_a_policy_stands_for_arguments(table, file):
    asked = {"decision": "decided", "label": "high", "n_replicates": 100}
    found = sf.audit(table, policy=file, **asked)
    margins = {"demographic_parity": 0.3, "accuracy": 0.2}
    by_hand = sf.audit(
        table, sensitive="sex", metric=[*margins], margin=margins, confidence_level=0.9, min_share=0.01, **asked
    )
    assert found.models == by_hand.models
    assert found.verdict == by_hand.verdict
    echoed = found.settings["policy"]
    assert echoed["file"] == "surefair.toml"
    assert echoed["sha256"] == hashlib.sha256(file.read_bytes()).hexdigest()
    assert echoed["values"]["margin"] == margins


def test_a_policy_serves_training_audits_too(table, tmp_path):
    path = tmp_path / "surefair.toml"
    path.write_text('label = "high"\nsensitive = "sex"\nmargin = 0.2\nreplicates = 20\n')
    found = sf.audit(table.drop(columns="decided"), policy=path)
    assert found.kind == "training"
    assert found.settings["n_replicates"] == 20
    assert found.model()["verdicts"][0]["margin"] == 0.2


def test_the_report_shows_the_policy(table, file, tmp_path):
    sf.audit(table, policy=file, decision="decided", label="high", n_replicates=50).to_html(tmp_path / "a.html")
    page = (tmp_path / "a.html").read_text()
    assert "surefair.toml" in page
    assert hashlib.sha256(file.read_bytes()).hexdigest() in page


def test_arguments_cannot_contradict_a_policy(table, file):
    asked = {"decision": "decided", "label": "high", "policy": file, "n_replicates": 50}
    with pytest.raises(ValueError, match=r"says level = 0\.9, and 0\.99 was passed\. Leave it out, or change"):
        sf.audit(table, confidence_level=0.99, **asked)
    assert sf.audit(table, sensitive="sex", confidence_level=0.9, **asked).verdict


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("metrics = 'accuracy'", r"Unknown key: 'metrics'\. Did you mean 'metric'\?"),
        ("margins = 0.1", r"Did you mean 'margin'\?"),
        ("level = 'high'", r"level must be a number; received 'high'"),
        ("sensitive = [1]", r"sensitive must be text, or a list of texts"),
        ("clusters = ['a']", r"clusters must be text; received"),
        ("intersections = 1", r"intersections must be true or false"),
        ("[margin]\naccuracy = 'x'", r"margin must be a number, or a table"),
        ("margin =", r"is not TOML"),
        ("margin = 7\nsensitive = 'sex'", r"margin must lie strictly between 0 and 1"),
    ],
)
def test_a_policy_with_mistakes_is_refused(table, tmp_path, content, words):
    path = tmp_path / "surefair.toml"
    path.write_text(content)
    with pytest.raises(ValueError, match=words):
        sf.audit(table, policy=path, decision="decided", label="high")


def test_a_metric_has_one_name_in_arguments_options_policy_and_json(table):
    import inspect

    from surefair.cli.audit import command

    assert KEYS["metric"] == "metric"
    assert "metric" in {option.name for option in command.params if "--metric" in option.opts}
    for function in (sf.audit, sf.fairness_interval, sf.joint_intervals, sf.compare, sf.calibrate, sf.FairnessMonitor):
        names = inspect.signature(function).parameters
        assert "metric" in names
        assert "metrics" not in names
    found = sf.audit(table, decision="decided", sensitive="sex", metric="demographic_parity_ratio", margin=0.5)
    assert found.settings["metric"] == ["demographic_parity_ratio"]


def test_every_key_stands_for_an_argument_of_audit(tmp_path):
    import inspect

    assert {*KEYS.values()} <= {*inspect.signature(sf.audit).parameters}
    path = tmp_path / "a.toml"
    path.write_text("margin = 0.1")
    assert read_policy(path).joined_with({"label": "y"}) == {
        "label": "y", "margin": 0.1, "policy": {
            "file": "a.toml", "sha256": hashlib.sha256(b"margin = 0.1").hexdigest(), "values": {"margin": 0.1}}
    }  # fmt: skip
