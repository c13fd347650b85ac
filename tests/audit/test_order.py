"""Audits say whether rows come in clumps in the data, whatever the order of training."""

import numpy as np
import pandas as pd

import surefair as sf


def people(each):
    """Rows of 1,200 / ``each`` people, who stand together; the rows of one person hardly differ."""
    rng = np.random.default_rng(0)
    person = np.repeat(np.arange(1_200 // each), each)
    sex = rng.choice(["f", "m"], len(np.unique(person)))[person]
    skill = rng.normal(size=len(np.unique(person)))[person]
    hired = (skill + 0.3 * rng.normal(size=1_200) > 0.0).astype(int)
    score = skill + 0.5 * rng.normal(size=1_200)
    return pd.DataFrame({"score": score, "sex": sex, "hired": hired, "person": [f"p{i}" for i in person]})


def unmet(table, **more):
    found = sf.audit(table, label="hired", sensitive="sex", n_replicates=20, **more)
    return {one["name"]: one["diagnostics"][0]["message"] for one in found.assumptions if not one["held"]}


def test_rows_of_one_person_that_stand_together_are_reported():
    message = unmet(people(8), features=["score"])["TimeDependence"]
    assert "groups of 'sex' change" in message
    assert "labels change" in message


def test_independent_rows_and_rows_in_named_clusters_are_not():
    assert "TimeDependence" not in unmet(people(1), features=["score"])
    assert "TimeDependence" not in unmet(people(8), features=["score"], clusters="person")
