"""Audits of any classifier: trained on most rows, judged on the others by intervals that cover training."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner
from sklearn.naive_bayes import GaussianNB

import surefair as sf
from surefair.audit.learner import load_estimator
from surefair.cli import main


def test_the_command_trains_and_audits_an_estimator(tmp_path, people):
    people(1_200).to_csv(tmp_path / "people.csv", index=False)
    common = [str(tmp_path / "people.csv"), "--label", "high", "--sensitive", "sex", "--out", str(tmp_path / "out")]
    done = CliRunner().invoke(
        main,
        ["audit", *common, "--estimator", "sklearn.naive_bayes:GaussianNB", "--replicates", "5", "--margin", "0.9"],
    )
    assert done.exit_code == 0, done.output
    content = json.loads((tmp_path / "out" / "audit.json").read_text())
    (model,) = content["models"]
    assert {one["source"] for one in model["intervals"]} == {"total"}
    assert content["rows"]["training"] + content["rows"]["evaluation"] == 1_200
    assert content["settings"]["estimator"] == "GaussianNB"
    assert "refitted 5 times" in " ".join(model["notes"])
    assert "disagree about" in model["notes"][-1]
    assert "mean gap, in the population" in content["sentence"]
    assert "Positive is" in content["sentence"]
    assert "this learner trains on" in (tmp_path / "out" / "report.html").read_text()
    sf.Audit.from_json(tmp_path / "out" / "audit.json")
    bad = CliRunner().invoke(main, ["audit", *common, "--estimator", "no_such_module:Thing"])
    assert bad.exit_code == 1
    assert "cannot be imported" in bad.output


def test_python_takes_the_estimator_itself(people):
    found = sf.audit(people(800), label="high", sensitive="sex", estimator=GaussianNB(), n_replicates=3, margin=0.001)
    assert found.verdict == "violates margin"
    assert found.rows["training"] > 500


@pytest.mark.parametrize(
    ("place", "words"),
    [("sklearn", "module:object"), ("no_such_module:A", "cannot be imported"), ("sklearn.svm:Nothing", "has no")],
)
def test_estimators_that_do_not_exist_are_refused(place, words):
    with pytest.raises(ValueError, match=words):
        load_estimator(place)


def test_other_ways_to_audit_are_refused_beside_it(people):
    with pytest.raises(ValueError, match="does not go with estimator"):
        sf.audit(people(100), label="high", sensitive="sex", estimator=GaussianNB(), tolerance=0.1)
