"""An audit in shards holds out the same rows as one in a single stream, and is the same on any number of workers."""

from __future__ import annotations

import os
import re
import signal
from dataclasses import replace
from functools import partialmethod

import joblib
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import surefair as sf
from surefair.audit import run as auditing
from surefair.audit import shards, stream
from surefair.audit.run import Running
from surefair.audit.settings import AuditSettings
from surefair.cli import main
from surefair.parallel.shards import pack_models, receive
from surefair.tables.bad_rows import BadRows
from surefair.tables.source import open_source
from surefair.training import problem

N = 9_000
ASKED = {"label": "hired", "sensitive": "sex"}


def people(n=N, seed=0):
    rng = np.random.default_rng(seed)
    sex = rng.choice(["f", "m"], n)
    x = rng.normal(size=(n, 2)) + 0.4 * (sex == "m")[:, None]
    hired = np.where(rng.random(n) < 1.0 / (1.0 + np.exp(-x @ [1.0, -0.5])), "yes", "no")
    job = rng.choice(["clerk", "cook", "judge"], n)
    weight = rng.integers(1, 4, n)
    table = pd.DataFrame({"x0": x[:, 0], "x1": x[:, 1], "job": job, "sex": sex, "weight": weight, "hired": hired})
    return table.assign(number=np.arange(n) / n)


def write(table, folder, files=3, row_group_size=700):
    folder.mkdir(exist_ok=True)
    for i, rows in enumerate(np.array_split(np.arange(len(table)), files)):
        part = pa.Table.from_pandas(table.iloc[rows], preserve_index=False)
        pq.write_table(part, folder / f"part-{i}.parquet", row_group_size=row_group_size)
    return folder


@pytest.fixture(autouse=True)
def streamed(monkeypatch):
    """Train in one pass, as shards do, and hold rows out, however few there are."""
    monkeypatch.setattr(auditing, "MOST_CROSSED", 0)
    monkeypatch.setattr(problem, "MOST_ROWS", 0)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write(people(), tmp_path_factory.mktemp("people") / "data")


@pytest.fixture(scope="module")
def found(folder):
    return sf.audit(folder, **ASKED, margin=0.2, drop=["number", "weight"], shard_rows=2_000)


# -- Where shards are cut ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 700, 2_000, 4_500, 10**9])
def test_every_row_is_in_one_shard_in_its_order(folder, size):
    source = open_source(folder, bad=BadRows(0))
    cut = source.shards(size)
    numbers = [
        np.concatenate([table["number"] for piece in pieces for table in piece.tables(500, ["number"])])
        for pieces in cut
    ]
    np.testing.assert_array_equal(np.concatenate(numbers), np.arange(N) / N)
    assert all(len(rows) >= size for rows in numbers) or len(cut) == 1
    for pieces, rows in zip(cut, numbers, strict=True):
        assert round(rows[0] * N) == pieces[0].before + pieces[0].first


def test_a_row_is_named_by_its_file(folder):
    source = open_source(folder, bad=BadRows(0))
    assert source.place(0) == "part-0.parquet, row 1"
    assert source.place(3_000) == "part-1.parquet, row 1"
    assert source.place(N - 1) == "part-2.parquet, row 3,000"
    (first, *_), *_, (*_, last) = source.shards(2_000)
    assert first.place(17) == source.place(17)
    assert last.place(N - 1) == source.place(N - 1)


def test_columns_that_folders_name_are_read(tmp_path):
    for year in ("2023", "2024"):
        (tmp_path / f"year={year}").mkdir()
        people(60, int(year)).to_parquet(tmp_path / f"year={year}" / "rows.parquet")
    source = open_source(tmp_path, bad=BadRows(0))
    tables = [table for pieces in source.shards(1) for piece in pieces for table in piece.tables(100, ["year", "x0"])]
    assert [set(table["year"].to_pylist()) for table in tables] == [{"2023"}, {"2024"}]
    (alone,) = source.shards(1)[1][0].tables(100, ["year"])
    assert alone.column_names == ["year"]
    assert alone.num_rows == 60


def test_only_parquet_is_cut(tmp_path):
    people(200).to_csv(tmp_path / "rows.csv", index=False)
    with pytest.raises(ValueError, match=r"Only Parquet .* rows.csv is of kind 'csv'. Convert"):
        sf.audit(tmp_path / "rows.csv", **ASKED, shard_rows=100)
    with pytest.raises(ValueError, match="pandas data frame is of kind 'frame'"):
        sf.audit(people(200), **ASKED, shard_rows=100)


# -- Results -----------------------------------------------------------------------------------------------------------


def train(plan, number, pieces):
    """Train on a shard; returns its models and what it counted."""
    return receive(shards.train(plan, shards.Shard(number, pieces)), plan.models)


def coefficients_of(model):
    """Coefficients of a model, intercept last."""
    return model.coefficients.ravel()


@pytest.mark.slow
def test_the_number_of_workers_changes_nothing(folder, found):
    more = sf.audit(folder, **ASKED, margin=0.2, drop=["number", "weight"], shard_rows=2_000, n_jobs=2)
    assert more.to_dict() == found.to_dict()


def test_shards_hold_out_the_same_rows_as_one_stream(folder, found):
    stream = sf.audit(folder, **ASKED, margin=0.2, drop=["number", "weight"])
    assert found.rows == stream.rows
    assert found.groups == stream.groups
    assert found.columns == stream.columns
    assert found.data == stream.data | {"shards": 4}
    assert found.complete
    for name in ("constrained", "unconstrained"):
        one, two = (audit.interval("demographic_parity", "total", name) for audit in (found, stream))
        assert abs(one["estimate"] - two["estimate"]) < two["high"] - two["low"]
        assert [row["n"] for row in one["by_group"]] == [row["n"] for row in two["by_group"]]
    assert found.models[1]["accuracy"]["estimate"] == pytest.approx(stream.models[1]["accuracy"]["estimate"], abs=0.01)


def test_models_are_those_of_the_shards_merged(folder, found):
    """Each shard is trained alone here, from the warm-up rows of the audit."""
    asked = AuditSettings(**ASKED, margin=0.2, drop=["number", "weight"], shard_rows=2_000)
    running = Running.begin(folder, asked)
    plan = running._plan()
    merged = None
    for number, pieces in enumerate(running.source.shards(2_000)):
        models, _ = train(plan, number, pieces)
        one = models["constrained"]
        assert one.n_rows > 1_000
        merged = one if merged is None else merged.merge(one)
    coefficients = [one["estimate"] for one in found.models[0]["coefficients"]]
    np.testing.assert_array_equal(coefficients, coefficients_of(merged))


def test_workers_send_back_neither_rows_nor_the_warm_up_rows(folder):
    running = Running.begin(folder, AuditSettings(**ASKED, drop=["number"], shard_rows=2_000))
    plan = running._plan()
    one, two = (shards.Shard(i, pieces) for i, pieces in enumerate(running.source.shards(2_000)[:2]))
    sent = [shards.train(plan, one), shards.train(plan, two)]
    state = sum(array.nbytes for _, arrays in plan.models.values() for name, array in arrays.items() if "state" in name)
    known = sum(array.nbytes for _, arrays in plan.models.values() for array in arrays.values())
    assert max(map(len, sent)) < 1.5 * state + 160_000  # each model has a sketch of its rows
    assert max(map(len, sent)) < 0.8 * known


@pytest.mark.parametrize("more", [{"weights": "weight"}, {"sensitive": ["sex", "job"]}, {"criterion": None}])
def test_shards_take_weights_several_columns_and_no_criterion(folder, more):
    asked = ASKED | {"drop": ["number"], "random_state": 1} | more
    one, two = (sf.audit(folder, **asked, shard_rows=rows) for rows in (4_000, None))
    assert one.groups == two.groups
    assert one.rows == two.rows
    assert one.price["estimate"] == pytest.approx(two.price["estimate"], abs=0.02)


def with_late_group():
    """People of whom the last 300 form a group that differs from the others."""
    table = people()
    last = table.index[-300:]
    table.loc[last, "sex"] = "x"
    table.loc[last, "x0"] += 1.5
    return table


def test_a_group_that_only_one_shard_has_is_counted_and_constrained(tmp_path, monkeypatch):
    monkeypatch.setattr(auditing, "CHUNK", 3_000)
    found = sf.audit(write(with_late_group(), tmp_path / "data"), **ASKED, drop=["number", "weight"], shard_rows=3_000)
    (x,) = (one for one in found.groups if one["group"] == "x")
    assert x["training"] + x["evaluation"] == 300
    assert x["constrained"]
    assert x["evaluation"] > 40


def test_rows_of_one_person_stay_together_and_share_their_weights(tmp_path, monkeypatch):
    monkeypatch.setattr(auditing, "CHUNK", 3_000)
    table = people().assign(person=np.arange(N) % 3_000)
    folder = write(table, tmp_path / "data")
    asked = ASKED | {"clusters": "person", "margin": 0.5, "drop": ["number", "weight"]}
    one, two = (sf.audit(folder, **asked, shard_rows=rows) for rows in (3_000, None))
    assert one.rows == two.rows
    assert one.rows["training"] + one.rows["evaluation"] == N  # the warm-up rows show every person who is trained on
    assert one.verdict == two.verdict == "within margin"
    assert one.interval()["method"] == two.interval()["method"] == "clusters"
    assert one.interval()["high"] == pytest.approx(two.interval()["high"], abs=0.03)


def test_held_out_rows_are_capped(folder, monkeypatch):
    monkeypatch.setattr("surefair.tables.split.MOST_ROWS", 900)
    found = sf.audit(folder, **ASKED, drop=["number", "weight"], shard_rows=2_000)
    assert 780 < found.rows["evaluation"] < 1_020
    assert found.rows["evaluation"] + found.rows["training"] == N


def test_the_held_out_rows_do_not_depend_on_chunks(folder, found, monkeypatch):
    monkeypatch.setattr(auditing, "CHUNK", 4_000)
    other = sf.audit(folder, **ASKED, margin=0.2, drop=["number", "weight"], shard_rows=2_000)
    assert other.rows["evaluation"] == found.rows["evaluation"]


def test_the_first_rows_need_not_contain_a_held_out_row(folder, monkeypatch):
    """Of 10,000,000,000 rows, say, 100,000 are held out, and half a row of the first 50,000."""
    monkeypatch.setattr(auditing, "CHUNK", 1_000)
    monkeypatch.setattr("surefair.tables.split.MOST_ROWS", 9)
    asked = ASKED | {"drop": ["number", "weight"], "shard_rows": 2_000, "random_state": 3}
    found = sf.audit(folder, **asked)
    assert 0 < found.rows["evaluation"] < 30


def test_a_shard_without_usable_rows_changes_nothing(tmp_path):
    table = people()
    table.loc[2_000:2_999, "hired"] = None
    folder = write(table, tmp_path / "data", files=1, row_group_size=1_000)
    asked = AuditSettings(**ASKED, drop=["number", "weight"], shard_rows=1_000, max_bad_rows=1_000)
    running = Running.begin(folder, asked)
    found = running.run_in_shards()
    plan = Running.begin(folder, asked)._plan()
    merged = None
    for number, pieces in enumerate(running.source.shards(1_000)):
        models, counted = train(plan, number, pieces)
        one = models["constrained"]
        assert (counted["n_rows"] == 0) == (number == 2)
        if counted["n_rows"]:
            merged = one if merged is None else merged.merge(one)
    coefficients = [one["estimate"] for one in found.models[0]["coefficients"]]
    np.testing.assert_array_equal(coefficients, coefficients_of(merged))
    assert found.rows["training"] == merged.n_rows


def test_rows_that_are_all_warm_up_rows_give_the_models_of_one_stream(tmp_path):
    """There are fewer rows than the warm-up takes, so shards have nothing left to train on."""
    folder = write(people(3_000), tmp_path / "data", row_group_size=500)
    one, two = (sf.audit(folder, **ASKED, drop=["number", "weight"], shard_rows=rows) for rows in (500, None))
    assert one.data["shards"] == 6
    assert one.rows == two.rows
    assert one.groups == two.groups
    for mine, theirs in zip(one.models, two.models, strict=True):
        estimates = [[row["estimate"] for row in model["coefficients"]] for model in (mine, theirs)]
        np.testing.assert_allclose(*estimates, rtol=1e-6, atol=1e-6)  # the stream has the rows in another order
        assert mine["accuracy"] == theirs["accuracy"]


def test_workers_that_are_threads_lose_no_diagnostic(tmp_path, monkeypatch):
    """Only the last shard has rows of a third group, and too few of them."""
    monkeypatch.setattr(auditing, "CHUNK", 3_000)
    table = people()
    table.loc[table.index[-30:], "sex"] = "x"
    folder = write(table, tmp_path / "data")
    asked = ASKED | {"drop": ["number", "weight"], "shard_rows": 700}
    expected = sf.audit(folder, **asked).to_dict()
    assert not next(one for one in expected["assumptions"] if one["name"] == "SmallGroup")["held"]
    with joblib.parallel_config(backend="threading", n_jobs=4):
        assert all(sf.audit(folder, **asked).to_dict() == expected for _ in range(4))


@pytest.mark.slow
def test_held_out_rows_are_counted_many_at_a_time(folder):
    """They are split into random halves, and of one row one half would be empty."""
    running = Running.begin(folder, AuditSettings(**ASKED, drop=["number"], shard_rows=4_000))
    plan = replace(running._plan(), chunk=10)
    pieces = running.source.shards(4_000)[0]
    plan = replace(plan, models=pack_models(train(plan, 0, pieces)[0]))
    tally = shards.read_evaluation(shards.evaluate(plan, shards.Shard(0, pieces))).tallies["constrained"]
    one, two = (int(part.rows[0].sum()) for part in tally.parts["total"])
    assert 0.9 < one / two <= 1.0


def test_paths_are_absolute_for_workers_in_another_folder(folder, monkeypatch):
    monkeypatch.chdir(folder.parent)
    source = open_source(folder.name, bad=BadRows(0))
    assert all(path.is_absolute() for path in source.paths)
    assert all(piece.path.is_absolute() for pieces in source.shards(2_000) for piece in pieces)


@pytest.mark.parametrize("work", ["train", "evaluate"])
def test_a_file_that_changes_during_the_audit_is_an_error(tmp_path, monkeypatch, work):
    folder = write(people(), tmp_path / "data")
    before = getattr(shards, work)

    def changing(plan, shard):
        if shard.number == 0:
            write(people(seed=1), folder)
        return before(plan, shard)

    monkeypatch.setattr(shards, work, changing)
    with pytest.raises(ValueError, match=r"part-0\.parquet was changed while it was read"):
        sf.audit(folder, **ASKED, drop=["number"], shard_rows=2_000)


@pytest.mark.parametrize("asked", [1, 6])
def test_an_audit_can_be_stopped_in_either_pass(folder, asked):
    """Four shards make eight steps."""
    times = iter(range(1, 100))
    running = Running.begin(folder, AuditSettings(**ASKED, drop=["number"], shard_rows=2_000))
    with pytest.raises(KeyboardInterrupt):
        running.run_in_shards(stop=lambda: next(times) == asked)
    assert next(times) == asked + 1


# -- Bad data, refusals ------------------------------------------------------------------------------------------------


def test_bad_rows_are_counted_once_and_located_by_file_and_row(tmp_path):
    table = people()
    table.loc[[4, 3_010, 8_999], "hired"] = None
    table.loc[6_500, "x0"] = np.inf
    folder = write(table, tmp_path / "data")
    found = sf.audit(folder, **ASKED, drop=["number", "weight"], shard_rows=2_000)
    bad = {one["reason"]: (one["count"], one["first"]) for one in found.rows["bad"]}
    assert bad["no label 'hired'"] == (3, "part-0.parquet, row 5")
    assert bad["column 'x0' holds an infinite value"] == (1, "part-2.parquet, row 501")
    assert found.rows["read"] == N
    with pytest.raises(ValueError, match=r"2 rows cannot .* infinite value: 1, .* part-2.parquet, row 501|row 5"):
        sf.audit(folder, **ASKED, drop=["number", "weight"], shard_rows=2_000, max_bad_rows=1)


def test_a_damaged_file_is_named(tmp_path):
    folder = write(people(), tmp_path / "data")
    running = Running.begin(folder, AuditSettings(**ASKED, shard_rows=2_000))
    whole = (folder / "part-2.parquet").read_bytes()
    (folder / "part-2.parquet").write_bytes(b"\0" * 20_000 + whole[20_000:])
    with pytest.raises(ValueError, match=r"part-2\.parquet is not a Parquet file, or is cut short"):
        running.run_in_shards()


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"engine": "slurm"}, "slurm"),
        ({"address": "tcp://there"}, "has no address"),
        ({"engine": "dask", "checkpoint": "kept"}, "writes no checkpoints"),
        ({"checkpoint": "kept", "shard_rows": 100}, "writes no checkpoints"),
        ({"shard_rows": 0}, "shard_rows must be"),
    ],
)
def test_combinations_that_do_not_work_are_refused(folder, given, words):
    with pytest.raises(ValueError, match=re.escape(words)):
        sf.audit(folder, **ASKED, **given)


def test_a_cluster_reads_few_and_long_shards(folder, monkeypatch):
    asked = AuditSettings(**ASKED)
    assert Running.begin(folder, asked).settings == asked
    assert Running.begin(folder, asked, in_shards=True).settings == replace(asked, shard_rows=1_000_000)
    monkeypatch.setattr(stream, "SHARD_ROWS", 100)
    few = Running.begin(folder, asked, in_shards=True)
    assert few.settings.shard_rows == 141  # 9,000 rows in 64
    assert len(few.source.shards(few.settings.shard_rows)) <= 64
    assert Running.begin(folder, replace(asked, shard_rows=7), in_shards=True).settings.shard_rows == 7


# -- The command -------------------------------------------------------------------------------------------------------


def test_the_command_reads_in_shards(folder, found, tmp_path):
    args = ["audit", str(folder), "--label", "hired", "--sensitive", "sex", "--margin", "0.2"]
    args += ["--drop", "number,weight"]
    ran = CliRunner().invoke(main, [*args, "--shard-rows", "2000", "--jobs", "2", "--out", str(tmp_path / "out")])
    assert ran.exit_code == {"within margin": 0, "violates margin": 3, "not enough evidence": 4}[found.verdict]
    assert sf.Audit.from_json(tmp_path / "out" / "audit.json").to_dict() == found.to_dict()
    assert "so there is no single path to show" in (tmp_path / "out" / "report.html").read_text()


def test_an_audit_that_was_stopped_in_shards_writes_no_report(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(Running, "run_in_shards", partialmethod(_interrupted, Running.run_in_shards))
    args = ["audit", str(folder), "--label", "hired", "--sensitive", "sex", "--shard-rows", "2000"]
    ran = CliRunner().invoke(main, [*args, "--out", str(tmp_path / "out")])
    assert ran.exit_code == 130
    assert "Stopped without a report." in ran.output
    assert not (tmp_path / "out" / "audit.json").exists()


def _interrupted(running, run, *args, **more):
    return run(running, *args, **more | {"stop": lambda: True})


# -- Workers that die --------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_audit_is_the_same_if_a_worker_of_this_machine_is_killed(folder, found, tmp_path, monkeypatch):
    monkeypatch.setattr(shards, "train", fatal(shards.train, tmp_path / "killed", times=1))
    more = sf.audit(folder, **ASKED, margin=0.2, drop=["number", "weight"], shard_rows=2_000, n_jobs=2)
    assert (tmp_path / "killed").read_text() == "x"
    assert more.to_dict() == found.to_dict()


@pytest.mark.slow
def test_workers_that_always_die_are_an_error_in_one_sentence(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(shards, "train", fatal(shards.train, tmp_path / "killed", times=100))
    args = ["audit", str(folder), "--label", "hired", "--sensitive", "sex", "--shard-rows", "2000", "--jobs", "2"]
    ran = CliRunner().invoke(main, [*args, "--out", str(tmp_path / "out")])
    assert ran.exit_code == 1
    assert "The engine gave up (TerminatedWorkerError" in ran.output
    assert len((tmp_path / "killed").read_text()) == 4


def fatal(work, mark, times):
    """Return work that kills its worker after the second shard, so many times."""

    def killing(plan, shard):
        result = work(plan, shard)
        if shard.number == 1 and (not mark.exists() or len(mark.read_text()) < times):
            with mark.open("a") as file:
                file.write("x")
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    return killing


def test_many_short_shards_give_about_the_model_of_one_stream(tmp_path):
    folder = write(people(), tmp_path / "data", row_group_size=100)
    many, one = (
        sf.audit(folder, **ASKED, margin=0.5, drop=["number", "weight"], **more) for more in ({"shard_rows": 1}, {})
    )
    assert many.data["shards"] == 90
    for mine, theirs in zip(many.model()["coefficients"], one.model()["coefficients"], strict=True):
        assert abs(mine["estimate"] - theirs["estimate"]) < 0.5 * (theirs["high"] - theirs["low"])
