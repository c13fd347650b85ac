"""The audited model as a scikit-learn pipeline decides like the audited model."""

from __future__ import annotations

import pickle
import subprocess
import sys
import textwrap

import numpy as np
import pandas as pd
import pytest
from sklearn.pipeline import Pipeline

import surefair as sf
from surefair.audit.run import Running
from surefair.audit.settings import AuditSettings
from surefair.tables.bad_rows import BadRows


def draw(n=2_500, seed=0):
    """Numbers with missing values, codes and far tails; words that are common, rare and missing; many words."""
    rng = np.random.default_rng(seed)
    table = pd.DataFrame({
        "age": rng.normal(40.0, 12.0, n).round(1), "wage": rng.lognormal(3.0, 1.0, n).round(2),
        "job": rng.choice(["clerk", "cook", "judge", "rare"], n, p=[0.5, 0.3, 0.195, 0.005]),
        "town": rng.choice([f"t{i}" for i in range(140)], n), "member": rng.choice(["true", "false"], n),
        "sex": rng.choice(["f", "m"], n),
    })  # fmt: skip
    table["months"] = 12.0 * table["age"]  # follows from age
    score = 0.06 * (table["age"] - 40.0) + 1.0 * (table["job"] == "judge") + 0.8 * (table["sex"] == "m") - 0.3
    table["y"] = np.where(rng.random(n) < 1.0 / (1.0 + np.exp(-score)), "yes", "no")
    table.loc[rng.choice(n, 90, False), ["age", "months"]] = np.nan
    table.loc[rng.choice(n, 50, False), "wage"] = 99999.0
    table.loc[rng.choice(n, 40, False), "wage"] = np.nan
    table.loc[3, "wage"] = 8_000.0
    table.loc[rng.choice(n, 70, False), "job"] = None
    table.loc[rng.choice(n, 30, False), "town"] = None
    return table


def unseen(table):
    """The same columns with values that the audit has not met."""
    changed = table.copy()
    changed.loc[::7, "job"] = "astronaut"
    changed.loc[::11, "town"] = "nowhere"
    changed.loc[::5, "wage"] = 1e9
    changed.loc[::13, "age"] = np.nan
    changed.loc[::17, "sex"] = "x"
    return changed


def decided(running, name, path):
    """Scores and decisions of the audited model on a file."""
    bad = BadRows(0)
    source = running.settings.open(path, bad)
    (table,) = source.tables(10**6, running.read)
    X = running.intake.encoder.encode(table).X
    score = running.models[name].answer().trained.score(X)
    return score, np.asarray(running.intake.labels)[(score > 0.0).astype(int)]


def read(path):
    kinds = {"skipinitialspace": True, "na_values": "?"}
    return pd.read_csv(path, **kinds) if path.suffix == ".csv" else pd.read_parquet(path)


@pytest.mark.parametrize("kind", ["csv", "parquet"])
@pytest.mark.parametrize("loss", ["log_loss", "squared_error"])
def test_decisions_are_those_of_the_audited_model(tmp_path, kind, loss):
    def write(table, name):
        path = tmp_path / f"{name}.{kind}"
        table.to_csv(path, index=False) if kind == "csv" else table.to_parquet(path)
        return path

    path = write(draw(), "data")
    asked = AuditSettings(label="y", sensitive="sex", n_replicates=5, include_sensitive=True, loss=loss)
    running = Running.begin(str(path), asked)
    running.run().to_json(tmp_path / "audit.json")
    audit = sf.Audit.from_json(tmp_path / "audit.json")
    roles = {one["name"]: (one["role"], one["features"]) for one in audit.columns}
    assert roles["wage"] == ("number", 2)
    assert roles["town"][0] == "hashed"
    assert roles["months"][1] == 0
    other = write(unseen(draw()), "other")
    for name in ("constrained", "unconstrained"):
        model = audit.model(name).to_sklearn()
        assert isinstance(model, Pipeline)
        for file in (path, other):
            score, decision = decided(running, name, str(file))
            found = model.decision_function(read(file))
            assert np.allclose(found, score, rtol=1e-9, atol=1e-9)
            assert np.array_equal(model.predict(read(file)), decision)


def test_coefficients_are_in_original_units(tmp_path):
    table = draw()
    audit = sf.audit(table, label="y", sensitive="sex", features=["age", "wage"], n_replicates=5)
    model = audit.model().to_sklearn()
    one = pd.DataFrame({"age": [30.0, 31.0], "wage": [20.0, 20.0]})
    before, after = model.decision_function(one)
    assert after - before == pytest.approx(model[-1].coef_[0, 0])
    assert model[-1].classes_.tolist() == ["no", "yes"]


def test_the_pipeline_works_in_a_process_without_surefair(tmp_path):
    table = draw(800).assign(y=lambda rows: (rows["y"] == "yes").astype(int))
    model = sf.audit(table, label="y", sensitive="sex", n_replicates=5).model().to_sklearn()
    assert model.predict(table).dtype.kind == "i"
    (tmp_path / "model.pickle").write_bytes(pickle.dumps(model))
    table.to_pickle(tmp_path / "table.pickle")
    code = """
        import pickle, sys
        import pandas as pd
        model = pickle.load(open("model.pickle", "rb"))
        print(int(model.predict(pd.read_pickle("table.pickle")).sum()))
        assert not [name for name in sys.modules if name.startswith("surefair")]
    """
    done = subprocess.run(
        [sys.executable, "-W", "ignore::ResourceWarning", "-c", textwrap.dedent(code)], cwd=tmp_path, env={"PATH": ""},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert int(done.stdout) == model.predict(table).sum()


def test_a_model_of_an_audit_is_still_a_dict():
    audit = sf.audit(draw(400), label="y", sensitive="sex", n_replicates=5)
    model = audit.model("unconstrained")
    assert model == audit.models[1]
    assert {**model}["name"] == "unconstrained"
    with pytest.raises(ValueError, match="model"):
        audit.model("best")


def test_an_audit_without_encodings_is_refused():
    found = sf.audit(draw(400), label="y", sensitive="sex", n_replicates=5).to_dict()
    for one in found["columns"]:
        del one["encoding"]
    old = sf.Audit.from_dict(found)
    with pytest.raises(ValueError, match="earlier release wrote it"):
        old.model().to_sklearn()


def test_a_frame_without_a_column_is_refused_by_name():
    table = draw(400)
    model = sf.audit(table, label="y", sensitive="sex", n_replicates=5).model().to_sklearn()
    with pytest.raises(ValueError, match="job"):
        model.predict(table.drop(columns="job"))
