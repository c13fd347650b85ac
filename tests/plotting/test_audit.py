"""AuditDisplay: both models of an audit, metric by metric."""

import numpy as np
import pandas as pd
import pytest

import surefair as sf
from surefair.plotting import AuditDisplay


@pytest.fixture(scope="module")
def audit():
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"x": rng.normal(size=600), "sex": rng.choice(["f", "m"], 600)})
    table["y"] = (table["x"] + (table["sex"] == "m") + rng.normal(size=600) > 0.5).astype(int)
    return sf.audit(table, label="y", sensitive="sex", margin=0.1, n_replicates=20)


def test_every_metric_has_a_dot_for_each_model_with_the_numbers_of_the_audit(audit, dots):
    display = AuditDisplay.from_audit(audit)
    names = [label.get_text().replace(" ", "_") for label in display.ax_.get_yticklabels()]
    assert names == list(dict.fromkeys(one["metric"] for one in audit.models[0]["intervals"]))
    lines = [line for line in display.ax_.lines if len(line.get_xdata()) and line.get_linestyle() != "--"]
    found = {(round(dot.get_ydata()[0], 3)): dot.get_xdata()[0] for dot in lines[1::2]}
    for i, model in enumerate(("constrained", "unconstrained")):
        for j, name in enumerate(names):
            assert found[round(j + 0.3 * (i - 0.5), 3)] == audit.interval(name, "total", model)["estimate"]
    words = [text.get_text() for text in display.figure_.legends[0].get_texts()]
    assert words == ["constrained model", "unconstrained model", "margin 0.1"]
    assert audit.verdict in display.ax_.get_title()
    display.figure_.canvas.draw()


def test_ratios_and_undefined_values_are_drawn(audit):
    found = audit.to_dict()
    for model in found["models"]:
        for one in model["intervals"]:
            one["metric"] += "_ratio"
        model["intervals"][3] |= {"estimate": None, "low": None, "high": None}
    display = AuditDisplay(sf.Audit.from_dict(found)).plot()
    assert display.ax_.get_xlim()[1] == 1.0
    assert "smallest ratio" in display.ax_.get_xlabel()


def test_decisions_are_drawn_on_their_lines():
    table = pd.DataFrame({"sex": ["f", "m"] * 100, "hired": [0, 1, 1, 1] * 50})
    audit = sf.audit(table, decision="hired", sensitive="sex", n_replicates=100)
    display = AuditDisplay.from_audit(audit)
    dots = [line for line in display.ax_.lines if len(line.get_xdata()) == 1]
    assert [dot.get_ydata()[0] for dot in dots] == list(range(len(dots)))
    assert dots[0].get_xdata()[0] == audit.interval()["estimate"] == 0.5


def test_an_unknown_source_is_refused(audit):
    with pytest.raises(ValueError, match="source"):
        AuditDisplay.from_audit(audit, source="luck")
