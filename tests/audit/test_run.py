"""From a file to an Audit: the same result from every form of the data, with and without stops."""

from __future__ import annotations

import errno
import hashlib
import io
import os
import re
import types
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy

import jsonschema
import numpy as np
import pytest
from forms import FORMS
from pipe import Pipe

import surefair as sf
from surefair.audit import run as auditing
from surefair.audit.result import Audit
from surefair.audit.run import Running
from surefair.audit.settings import AuditSettings
from surefair.diagnostics import SmallGroup
from surefair.tables import split
from surefair.tables.split import side_of

REPLICATES = 20
CHECK = jsonschema.Draft202012Validator(Audit.schema())


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    """Several chunks in few rows; training begins with those of the first."""
    monkeypatch.setattr(auditing, "CHUNK", 1000)


@pytest.fixture
def one_chunk(small_chunks, monkeypatch):
    """All rows in the first chunk, so that both models are the exact solutions on them."""
    monkeypatch.setattr(auditing, "CHUNK", 50_000)


@pytest.fixture(autouse=True)
def held_out(monkeypatch):
    """Hold rows out however few there are; test_small_files.py has cross-fitting."""
    monkeypatch.setattr(auditing, "MOST_CROSSED", 0)


def audit(data, label="high", sensitive="sex", **settings):
    return sf.audit(data, label=label, sensitive=sensitive, **{"n_replicates": REPLICATES} | settings)


def asked(**settings):
    return AuditSettings(**{"label": "high", "sensitive": "sex", "n_replicates": REPLICATES} | settings)


def findings_of(found):
    """Everything but the data, whose names and checksums differ between forms."""
    return {name: value for name, value in found.to_dict().items() if name != "data"}


def unmet(found):
    """Diagnostics by assumption, for assumptions that are not met."""
    return {one["name"]: one["diagnostics"] for one in found.assumptions if not one["held"]}


def stop_after(chunks):
    """Return a function that asks to stop after so many chunks."""
    left = iter([False] * (chunks - 1) + [True])
    return lambda: next(left)


@pytest.fixture(scope="module")
def table(people):
    """Rows with missing values, a constant column, and a word that first appears late."""
    table = people(4300)
    i = np.arange(len(table))
    table["hours"] = table["hours"].mask(i % 50 == 7)
    table["job"] = table["job"].mask(i % 90 == 3).where(i < 3000, "pilot of the moon")
    table["constant"] = 3
    return table


@pytest.fixture(scope="module")
def whole(table):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(auditing, "CHUNK", 1000)
        return audit(table, margin=0.1)


# -- The same result ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", FORMS)
def test_the_same_rows_give_the_same_audit_in_every_form(form, table, whole, tmp_path):
    assert findings_of(audit(FORMS[form](table, tmp_path), margin=0.1)) == findings_of(whole)


@pytest.mark.parametrize("jobs", [2, 3, -1])
def test_threads_change_nothing(jobs, table, whole):
    assert audit(table, margin=0.1, n_jobs=jobs).to_dict() == whole.to_dict()


def written(found, folder, name):
    """Bytes of both files of an audit."""
    found.to_json(folder / f"{name}.json")
    found.to_html(folder / f"{name}.html")
    return (folder / f"{name}.json").read_bytes(), (folder / f"{name}.html").read_bytes()


def test_the_same_input_gives_the_same_bytes(table, whole, tmp_path):
    again = audit(table, margin=0.1)
    assert written(again, tmp_path, "again") == written(whole, tmp_path, "whole")


@pytest.mark.parametrize("jobs", [1, 2])
def test_audits_in_threads_give_the_same_bytes_as_one_after_the_other(people, table, tmp_path, jobs):
    """Each audit also keeps its own diagnostics: those of one would differ if they reached the other."""
    few = people(600, seed=1)
    calls = [
        {"data": table, "margin": 0.1, "n_jobs": jobs},
        {"data": few, "criterion": "equalized_odds", "n_replicates": 5, "n_jobs": jobs},
    ]
    alone = [audit(**call) for call in calls]
    assert alone[0].model()["diagnostics"] != alone[1].model()["diagnostics"]
    with ThreadPoolExecutor(2) as pool:
        together = list(pool.map(lambda call: audit(**call), calls))
    for number, (one, other) in enumerate(zip(together, alone, strict=True)):
        assert written(one, tmp_path, f"together {number}") == written(other, tmp_path, f"alone {number}")


def test_another_seed_gives_another_split(table, whole):
    other = audit(table, margin=0.1, random_state=1)
    assert other.rows["evaluation"] != whole.rows["evaluation"]
    runs = [Running.begin(table, asked(random_state=seed)) for seed in (0, 0, 1)]
    for running in runs:
        running.run()
    first, again, other = ({tuple(row) for row in running.held.X.tolist()} for running in runs)
    assert first == again
    assert 0.1 < len(first & other) / len(first) < 0.4  # about a quarter, by chance


def test_replicates_do_not_change_what_is_estimated(table, whole):
    few = audit(table, margin=0.1, n_replicates=5)
    for model, other in zip(whole.models, few.models, strict=True):
        assert model["accuracy"] == other["accuracy"]
        assert [row["estimate"] for row in model["coefficients"]] == [row["estimate"] for row in other["coefficients"]]


@pytest.mark.usefixtures("one_chunk")
def test_too_few_replicates_give_no_definite_verdict(table):
    found = [audit(table, margin=0.5, tolerance=0.1, n_replicates=n).verdict for n in (2, 38, 39)]
    assert found == ["not enough evidence", "not enough evidence", "within margin"]


@pytest.mark.parametrize("call", [audit, lambda data, **n_jobs: sf.resume("nowhere", data, **n_jobs)])
def test_zero_jobs_are_refused_before_anything_is_read(call):
    with pytest.raises(ValueError, match=r"n_jobs must be .* not 0; received 0"):
        call("nowhere.csv", n_jobs=0)


def test_keep_order_trains_on_other_orders_of_the_same_rows(table):
    """Training shuffles the rows of each chunk unless the order is kept."""
    kept = audit(table, keep_order=True)
    shuffled = audit(table)
    assert kept.rows == shuffled.rows
    assert kept.model()["coefficients"] != shuffled.model()["coefficients"]


def test_the_checksum_of_a_stream_is_that_of_all_its_bytes(people):
    """Also if the stream is longer than what is read to find the header."""
    content = people(45_000).to_csv(index=False).encode()
    assert len(content) > 1 << 20
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(auditing, "CHUNK", 20_000)
        found = audit(io.BytesIO(content), n_replicates=2)
    (file,) = found.data["files"]
    assert (file["size"], file["sha256"]) == (len(content), hashlib.sha256(content).hexdigest())


def test_the_checksum_of_a_file_is_that_of_sha256sum(table, tmp_path):
    path = FORMS["csv"](table, tmp_path)
    (file,) = audit(path, n_replicates=2).data["files"]
    assert file == {
        "name": "a.csv", "size": path.stat().st_size, "sha256": hashlib.sha256(path.read_bytes()).hexdigest()
    }  # fmt: skip


# -- Each row serves once ----------------------------------------------------------------------------------------------


@pytest.fixture
def learnt(monkeypatch):
    """Rows that were trained on, as an audit takes them: the warm-up rows, then the others."""
    seen = []
    begin = Running._begin
    learn = Running._learn

    def watched_begin(self, rows):
        seen.append(rows)
        return begin(self, rows)

    def watched_learn(self, rows):
        seen.append(rows)
        return learn(self, rows)

    monkeypatch.setattr(Running, "_begin", watched_begin)
    monkeypatch.setattr(Running, "_learn", watched_learn)
    return seen


def marks(running, learnt):
    """Values of the feature "mark" of the rows trained on, and of those held out."""
    place = running.intake.encoder.names.index("mark")
    parts = (learnt, [running.held])
    return tuple(np.concatenate([rows.X[:, place] for rows in part]).round(9).tolist() for part in parts)


def adds_up(found):
    """Whether every row that was read is counted exactly once."""
    rows = found.rows
    used = sum(rows[name] for name in ("training", "evaluation"))
    return used + sum(one["count"] for one in rows["bad"]) == rows["read"]


@pytest.mark.parametrize("most", [10**6, 400])
@pytest.mark.parametrize("chunk", [1000, 6000])  # the first is shorter or longer than the warm-up
def test_every_row_serves_exactly_once(people, learnt, monkeypatch, most, chunk):
    monkeypatch.setattr(auditing, "CHUNK", chunk)
    monkeypatch.setattr(split, "MOST_ROWS", most)
    table = people(7000).assign(mark=np.random.default_rng(1).permutation(7000) + 0.5)
    table.loc[[3, 1200, 6999], "high"] = None
    running = Running.begin(table, asked())
    found = running.run()
    assert found.rows["read"] == 7000
    assert found.rows["bad"] == [{"reason": "no label 'high'", "count": 3, "first": "row 4"}]
    assert adds_up(found)
    parts = marks(running, learnt)
    assert [len(part) for part in parts] == [found.rows[name] for name in ("training", "evaluation")]
    assert len(set().union(*parts)) == 6997
    assert running.models["constrained"].first.n == min(learnt[0].n, 4000)
    assert found.rows["evaluation"] == min(most, running.held.n)
    for key in ("training", "evaluation"):
        assert sum(group[key] for group in found.groups) == found.rows[key]


@pytest.mark.parametrize("most", [10**6, 400, 120])
@pytest.mark.parametrize("persons", [2500, 600])
def test_with_clusters_no_cluster_serves_twice(people, learnt, monkeypatch, most, persons):
    monkeypatch.setattr(split, "MOST_ROWS", most)
    number = np.random.default_rng(0).integers(0, persons, 5000)
    table = people(5000).assign(mark=number, person=[f"person {i}" for i in number.tolist()])
    running = Running.begin(table, asked(clusters="person"))
    found = running.run()
    assert adds_up(found)
    trained, held = map(set, marks(running, learnt))
    assert not trained & held
    assert len(trained | held) == len(set(number.tolist()))
    if most < 1000:
        sides = np.concatenate([side_of(rows, running.settings.random_state) for rows in learnt])
        assert sides.min() < split.HELD_OUT  # some rows were held out first, and then went back to training
    assert next(one["role"] for one in found.columns if one["name"] == "person") == "clusters"


def test_the_side_of_a_cluster_depends_only_on_its_value(people):
    """The same persons are held out if the column is a number, if it is text, and if rows come in another order."""
    table = people(3000)
    table["person"] = np.arange(3000) // 3
    runs = {}
    for name, data in (("number", table), ("text", table.astype({"person": str})), ("reversed", table[::-1])):
        running = Running.begin(data, asked(clusters="person", n_replicates=2))
        running.run()
        runs[name] = sorted(set(side_of(running.held, 0).tolist()))
    assert runs["number"] == runs["text"] == runs["reversed"]


@pytest.mark.parametrize("seed", range(6))
def test_too_few_clusters_are_an_error(people, seed):
    table = people(2000).assign(half=lambda t: np.arange(len(t)) % 2)
    with pytest.raises(ValueError, match=r"[Tt]oo few (clusters|values)"):
        audit(table, clusters="half", random_state=seed)


def columns_learnt(found):
    """First words of the names of features, which are those of the columns."""
    return {row["feature"].split(" ")[0] for row in found.model()["coefficients"]}


def test_sensitive_columns_and_labels_are_not_learnt_from(whole):
    assert columns_learnt(whole) == {"age", "hours", "job", "intercept"}


def test_features_can_be_chosen(table):
    assert columns_learnt(audit(table, features=["age"], n_replicates=2)) == {"age", "intercept"}
    assert columns_learnt(audit(table, drop=["job"], n_replicates=2)) == {"age", "hours", "intercept"}
    assert "sex" in columns_learnt(audit(table, include_sensitive=True, n_replicates=2))
    with pytest.raises(ValueError, match="'high' is the label or the weights"):
        audit(table, features=["age", "high"])


# -- Small groups ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("places", [[3, 100, 200, 300, 400], [3, 100, 1200, 2300, 2400], range(5)])
@pytest.mark.parametrize("criterion", ["demographic_parity", "equalized_odds"])
def test_a_group_of_five_rows_is_measured_with_its_counts_but_not_constrained(people, places, criterion):
    table = people(3000)
    table.loc[list(places), "sex"] = "x"
    found = audit(table, criterion=criterion, n_replicates=40)
    groups = {group["group"]: group for group in found.groups}
    assert list(groups) == ["f", "m", "x"]
    small = groups["x"]
    assert not small["constrained"]
    assert small["training"] + small["evaluation"] == 5
    assert groups["f"]["constrained"]
    assert groups["m"]["constrained"]
    assert any("Group 'x' of 'sex'" in one["message"] for one in unmet(found)[SmallGroup.__name__])
    rates = {row["group"]: row for row in found.interval("demographic_parity")["by_group"]}
    if small["evaluation"]:
        assert rates["x"]["n"] == small["evaluation"]
        assert rates["x"]["high"] - rates["x"]["low"] > 0.3


@pytest.mark.usefixtures("one_chunk")
def test_a_small_group_does_not_change_the_constraint_on_the_others(people):
    """The constraint compares the other groups as if there were no small group."""
    table = people(3000)
    other = people(3000)
    other.loc[[5, 1700, 2500], "sex"] = "x"
    with_it = audit(other, tolerance=0.1)
    without = audit(table, tolerance=0.1)
    assert with_it.rows == without.rows
    pairs = zip(with_it.model()["coefficients"], without.model()["coefficients"], strict=True)
    for mine, theirs in pairs:
        assert mine["estimate"] == pytest.approx(theirs["estimate"], abs=0.05)


def test_two_groups_are_not_constrained_if_one_is_small(people):
    table = people(2000)
    table["sex"] = np.where(np.arange(2000) % 200 == 0, "x", "y")
    found = audit(table)
    assert {one["group"]: one["training"] + one["evaluation"] for one in found.groups} == {"x": 10, "y": 1990}
    assert not any(one["constrained"] for one in found.groups)
    assert SmallGroup.__name__ in unmet(found)
    assert found.models[0]["coefficients"] == found.models[1]["coefficients"]


def test_a_group_that_appears_late_is_counted_and_constrained(people):
    table = people(3000)
    table.loc[2000:, "sex"] = "x"
    table.loc[2000:, "age"] += 1.0  # otherwise the rows do not show that decisions could differ
    found = audit(table)
    late = found.groups[-1]
    assert (late["group"], late["constrained"]) == ("x", True)
    assert late["training"] + late["evaluation"] == 1000
    gap, free = (found.interval("demographic_parity", "total", name)["estimate"] for name in auditing.MODELS)
    assert gap < free / 2


def test_a_group_may_be_missing_in_later_chunks(people):
    """The second chunk has one group only, and the last has none of the third group."""
    table = people(3000)
    table.loc[np.arange(0, 1000, 4), "sex"] = "x"
    table.loc[1000:1999, "sex"] = "f"
    found = audit(table)
    assert found.complete
    assert adds_up(found)
    assert {one["group"]: one["training"] + one["evaluation"] for one in found.groups}["x"] == 250


def test_first_rows_with_a_single_group_are_refused(people):
    table = people(3000).sort_values("sex")
    with pytest.raises(ValueError, match=r"'sex' shows 1 group, 'f', in the first 1,000 rows.*shuffle them"):
        audit(table)


@pytest.fixture
def one_label(people):
    """Rows in which group x has only negative labels."""
    table = people(3000)
    table.loc[::5, ["sex", "high"]] = ["x", 0]
    return table


@pytest.mark.usefixtures("one_chunk")
@pytest.mark.parametrize("criterion", ["equalized_odds", "false_negative_rate"])
def test_a_group_with_one_label_does_not_stop_a_constraint_on_the_others(one_label, criterion):
    found = audit(one_label, criterion=criterion)
    groups = {one["group"]: one for one in found.groups}
    assert groups["x"]["training"] + groups["x"]["evaluation"] == 600
    assert groups["f"]["constrained"]
    assert groups["m"]["constrained"]
    assert not groups["x"]["constrained"] or criterion == "equalized_odds"  # which has a rate of negative labels too
    assert any("Group 'x' of 'sex'" in one["message"] for one in unmet(found)[SmallGroup.__name__])
    rates = {row["group"]: row["rate"] for row in found.interval("false_negative_rate")["by_group"]}
    assert rates["x"] is None
    assert None not in (rates["f"], rates["m"])


def test_a_constraint_that_cannot_hold_is_reported(one_label):
    """Every positive decision in group x is wrong, and about half of those in the other groups."""
    found = audit(one_label, criterion="false_discovery_rate", margin=0.3, n_replicates=40)
    assert {"ExceededTolerance", "IneffectiveConstraint"} & unmet(found).keys()
    assert found.verdict != "within margin"


# -- Weights -----------------------------------------------------------------------------------------------------------


def test_weights_of_one_change_nothing_but_the_column(people):
    table = people(2000)
    plain = audit(table)
    weighted = audit(table.assign(w=1.0), weights="w")
    assert plain.models == weighted.models
    assert plain.price == weighted.price
    assert weighted.columns[-1]["role"] == "weights"


def test_rows_of_weight_0_do_not_count(people):
    """Their labels are all wrong, and accuracy stays the same."""
    table = people(4000)
    flip = np.arange(4000) % 4 == 0
    table["w"] = np.where(flip, 0.0, 1.0)
    wrong = table.assign(high=table["high"].where(~flip, 1 - table["high"]))
    found = [audit(data, weights="w").model()["accuracy"] for data in (wrong, table)]
    assert found[0] == pytest.approx(found[1], abs=1e-9)


def test_a_group_whose_rows_have_weight_0_is_counted_and_not_constrained(people):
    table = people(3000)
    table.loc[::5, "sex"] = "x"
    table.loc[::5, "age"] += 2.0
    found = audit(table.assign(w=np.where(table["sex"] == "x", 0.0, 1.0)), weights="w")
    groups = {one["group"]: one for one in found.groups}
    assert groups["x"]["training"] + groups["x"]["evaluation"] == 600
    assert [groups[name]["constrained"] for name in "fmx"] == [True, True, False]
    one = found.interval("demographic_parity")
    assert next(row["rate"] for row in one["by_group"] if row["group"] == "x") is None


# -- Stop and resume ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def damaged_csv(table, tmp_path_factory):
    """A CSV file with rows that cannot be used, early and late, some found by the reader and some by the audit."""
    lines = table.assign(person=np.arange(len(table)) * 7 % 2003).to_csv(index=False).splitlines()
    for place in (17, 1500, 3333, 4200):
        lines.insert(place, "1,2")
    for place in (1800, 3900):
        lines[place] = "1,2,cook,f,7,3,9"
    for place in (50, 2700):
        lines[place] = "abc,2,cook,f,1,3,9"
    lines[3600] = "1,2,cook,,1,3,9"
    path = tmp_path_factory.mktemp("damaged") / "a.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture(scope="module")
def expected(damaged_csv):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(auditing, "CHUNK", 1000)
        patch.setattr(split, "MOST_ROWS", 700)
        return audit(damaged_csv, margin=0.1, positive="1", clusters="person").to_dict()


@pytest.fixture
def capped(monkeypatch):
    monkeypatch.setattr(split, "MOST_ROWS", 700)


RESUMED = {"margin": 0.1, "positive": "1", "clusters": "person"}


def test_bad_rows_are_counted_and_the_first_of_each_kind_is_located(expected):
    found = {one["reason"]: (one["count"], one["first"]) for one in expected["rows"]["bad"]}
    assert found == {
        "too few fields": (4, "line 18: '1,2'"),
        "a label 'high' other than '0' and '1'": (2, "row 1,798 of those with all fields"),
        "column 'age' holds text among numbers": (2, "row 49 of those with all fields"),
        "no value of the sensitive column 'sex'": (1, "row 3,597 of those with all fields"),
    }


@pytest.mark.usefixtures("capped")
@pytest.mark.parametrize("chunks", [1, 2, 3, 4])
def test_an_audit_that_was_stopped_resumes_to_the_same_result(damaged_csv, expected, tmp_path, chunks):
    partial = Running.begin(damaged_csv, asked(**RESUMED)).run(checkpoint=tmp_path, stop=stop_after(chunks))
    assert not partial.complete
    assert partial.sentence.startswith("So far, before all rows were read: ")
    assert adds_up(partial)
    running = Running.restore(tmp_path)
    assert running.chunks == chunks
    found = running.run(checkpoint=tmp_path)
    assert found.complete
    assert found.to_dict() == expected


@pytest.mark.usefixtures("capped")
@pytest.mark.parametrize(("first", "second"), [(1, 1), (2, 1), (1, 3), (3, 1)])
def test_an_audit_that_was_stopped_twice_resumes_to_the_same_result(damaged_csv, expected, tmp_path, first, second):
    Running.begin(damaged_csv, asked(**RESUMED)).run(checkpoint=tmp_path, stop=stop_after(first), n_jobs=2)
    partial = Running.restore(tmp_path).run(checkpoint=tmp_path, stop=stop_after(second))
    assert not partial.complete
    assert sf.resume(tmp_path, n_jobs=3).to_dict() == expected


@pytest.mark.usefixtures("capped")
def test_an_audit_that_was_stopped_after_every_chunk_resumes_to_the_same_result(damaged_csv, expected, tmp_path):
    found = Running.begin(damaged_csv, asked(**RESUMED)).run(checkpoint=tmp_path, stop=lambda: True)
    for jobs in (1, 2, 1, 2):
        assert not found.complete
        found = Running.restore(tmp_path).run(checkpoint=tmp_path, stop=lambda: True, n_jobs=jobs)
    assert found.to_dict() == expected  # a stop after the last chunk does nothing


@pytest.mark.usefixtures("capped")
def test_a_finished_audit_resumes_to_the_same_result(damaged_csv, expected, tmp_path):
    assert audit(damaged_csv, checkpoint=tmp_path, **RESUMED).to_dict() == expected
    for _ in range(2):
        assert sf.resume(tmp_path).to_dict() == expected
        assert [path.name for path in tmp_path.iterdir()] == ["000000005.npz"]


@pytest.mark.usefixtures("capped")
def test_an_audit_resumes_if_its_data_have_moved(damaged_csv, expected, tmp_path):
    moved = tmp_path / "elsewhere" / damaged_csv.name
    moved.parent.mkdir()
    moved.write_bytes(damaged_csv.read_bytes())
    Running.begin(damaged_csv, asked(**RESUMED)).run(checkpoint=tmp_path / "c", stop=stop_after(2))
    assert sf.resume(tmp_path / "c", moved).to_dict() == expected


@pytest.mark.parametrize("form", ["file object", "standard input"])
def test_an_audit_of_a_stream_resumes_if_the_stream_is_passed_again(damaged_csv, tmp_path, monkeypatch, form):
    content = damaged_csv.read_bytes()

    def data():
        if form == "file object":
            return io.BytesIO(content)
        monkeypatch.setattr("sys.stdin", types.SimpleNamespace(buffer=io.BytesIO(content)))
        return "-"

    whole = Running.begin(data(), asked()).run()
    Running.begin(data(), asked()).run(checkpoint=tmp_path, stop=stop_after(2))
    assert Running.restore(tmp_path, data()).run(checkpoint=tmp_path).to_dict() == whole.to_dict()


def test_another_stream_is_refused(damaged_csv, tmp_path, monkeypatch):
    for content in (damaged_csv.read_bytes(), damaged_csv.read_bytes().replace(b"cook", b"chef")):
        monkeypatch.setattr("sys.stdin", types.SimpleNamespace(buffer=io.BytesIO(content)))
        if not list(tmp_path.iterdir()):
            Running.begin("-", asked()).run(checkpoint=tmp_path, stop=stop_after(2))
    with pytest.raises(ValueError, match="The data are not those of the checkpoint"):
        Running.restore(tmp_path)
    with pytest.raises(
        ValueError, match=r"audit of standard input\. Pass the same bytes .* leave out data \(--data\) or"
    ):
        Running.restore(tmp_path, damaged_csv)


@pytest.mark.parametrize("change", ["one byte before the checkpoint", "cut short", "nothing"])
def test_every_byte_of_a_stream_before_the_checkpoint_is_compared(table, tmp_path, monkeypatch, change):
    """Also bytes beyond those that are read to find the header."""
    monkeypatch.setattr("surefair.tables.csv._BLOCK", 1 << 12)
    content = table.to_csv(index=False).encode()
    Running.begin(Pipe(content), asked()).run(checkpoint=tmp_path, stop=stop_after(3))
    changed = bytearray(content)
    place = content.rindex(b"clerk", 0, len(content) // 2)
    if change == "one byte before the checkpoint":
        changed[place : place + 5] = b"Clerk"
    if change == "cut short":
        changed = changed[: content.rindex(b"\n", 0, len(content) // 3) + 1]
    running = Running.restore(tmp_path, Pipe(bytes(changed)))
    if change == "nothing":
        assert running.run().to_dict() == Running.begin(Pipe(content), asked()).run().to_dict()
    else:
        with pytest.raises(ValueError, match="The data are not those of the checkpoint"):
            running.run()


@pytest.mark.parametrize("keep_time", [False, True])
@pytest.mark.parametrize("form", ["csv", "parquet", "folder"])
def test_a_file_that_changes_while_it_is_read_is_refused(table, tmp_path, form, keep_time):
    """One stream, with and without a new time of the last change."""
    path = FORMS[form](table, tmp_path)
    file = path / "1.parquet" if form == "folder" else path
    before = file.stat()

    def change(rows):
        if rows == 3_000:
            content = bytearray(file.read_bytes())
            content[len(content) // 2] ^= 1
            file.write_bytes(content)
            if keep_time:
                os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))

    with pytest.raises(ValueError, match=r"(was|were) changed while"):
        Running.begin(path, asked()).run(checkpoint=tmp_path / "state", progress=change)
    assert not list((tmp_path / "state").glob("*.npz"))


def test_a_data_frame_that_changes_while_it_is_read_is_refused(people):
    frame = people(3_000)
    frame["hours"] = np.arange(3_000) % 97 / 7.0
    view = frame["hours"].array._ndarray

    def change(rows):
        view[10] = 5.0

    running = Running.begin(frame, asked())
    if np.shares_memory(view, running.source._table["hours"].chunk(0).to_numpy()):
        with pytest.raises(ValueError, match="The data were changed while they were read"):
            running.run(progress=change)


def test_an_audit_of_a_data_frame_resumes_if_the_frame_is_passed_again(table, whole, tmp_path):
    Running.begin(table, asked(margin=0.1)).run(checkpoint=tmp_path, stop=stop_after(3))
    with pytest.raises(ValueError, match="Pass the same data again"):
        Running.restore(tmp_path)
    assert Running.restore(tmp_path, table).run().to_dict() == whole.to_dict()
    with pytest.raises(ValueError, match="The data are not those of the checkpoint"):
        Running.restore(tmp_path, table[:-1])


@pytest.mark.parametrize(
    "settings",
    [
        {"sensitive": ["sex", "job"], "criterion": "equalized_odds"},
        {"criterion": None, "metric": "demographic_parity_ratio", "margin": 0.8},
        {"include_sensitive": True, "keep_order": True, "drop": ["job"], "loss": "squared_error"},
        {"features": ["age"], "confidence_level": 0.9, "tolerance": 0.05, "weights": "w"},
        {"surrogate": "scores", "penalty": 3.0, "alpha": 0.01},
    ],
)
def test_every_setting_survives_a_stop(people, tmp_path, settings):
    table = people(3000).assign(w=lambda t: 1.0 + t["age"] ** 2)
    whole = Running.begin(table, asked(**settings)).run()
    Running.begin(table, asked(**settings)).run(checkpoint=tmp_path, stop=stop_after(1))
    assert Running.restore(tmp_path, table).run().to_dict() == whole.to_dict()


def test_looks_along_the_stream_are_a_factor_apart(whole):
    rows = sorted({one["rows"] for one in whole.path})
    assert rows[:3] == [979, 1371, 1920]  # the first 500 and 700 are among the warm-up rows
    assert rows[-1] == whole.rows["training"]
    assert len(whole.path) == 4 * len(rows)  # two models, two sources


def test_checkpoints_are_written_as_often_as_asked_and_two_are_kept(table, tmp_path):
    Running.begin(table, asked(n_replicates=2)).run(checkpoint=tmp_path, every=2000)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["000000004.npz", "000000005.npz"]
    Running.begin(table, asked(n_replicates=2)).run(checkpoint=tmp_path / "b", every=1)
    assert sorted(path.name for path in (tmp_path / "b").iterdir()) == ["000000004.npz", "000000005.npz"]
    Running.begin(table, asked(n_replicates=2)).run(checkpoint=tmp_path / "c", seconds=3600.0)
    assert [path.name for path in (tmp_path / "c").iterdir()] == ["000000005.npz"]
    with pytest.raises(ValueError, match=r"holds the checkpoint of an audit.*sf\.resume \(on the .*surefair resume\)"):
        audit(table, checkpoint=tmp_path)


# -- Damage ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def stopped(damaged_csv, tmp_path, monkeypatch):
    """Folder with the checkpoints after two chunks and after three."""
    monkeypatch.setattr(split, "MOST_ROWS", 700)
    Running.begin(damaged_csv, asked(**RESUMED)).run(checkpoint=tmp_path / "c", every=1, stop=stop_after(3))
    assert sorted(path.name for path in (tmp_path / "c").iterdir()) == ["000000002.npz", "000000003.npz"]
    return tmp_path / "c"


@pytest.mark.parametrize("damage", ["cut short", "changed", "empty"])
def test_if_a_checkpoint_is_damaged_the_previous_one_is_used(stopped, expected, damage):
    newest = stopped / "000000003.npz"
    content = bytearray(newest.read_bytes())
    if damage == "changed":
        content[len(content) // 2] ^= 1
    newest.write_bytes({"cut short": content[:-1000], "changed": content, "empty": b""}[damage])
    running = Running.restore(stopped)
    (note,) = running.notes
    assert re.search("000000003.npz.* damaged.* The previous checkpoint, '000000002.npz', is used instead", note)
    assert running.chunks == 2
    assert running.run(checkpoint=stopped, every=1).to_dict() == expected
    assert Running.restore(stopped).notes == []  # the damaged one was written again, or is gone
    assert Running.restore(stopped).run().to_dict() == expected


@pytest.mark.usefixtures("capped")
def test_resume_warns_of_a_damaged_checkpoint(stopped, expected):
    (stopped / "000000003.npz").write_bytes(b"")
    with pytest.warns(UserWarning, match="The previous checkpoint, '000000002.npz', is used instead"):
        assert sf.resume(stopped).to_dict() == expected


def test_an_audit_cannot_resume_if_all_checkpoints_are_damaged(stopped):
    for path in stopped.iterdir():
        path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(ValueError, match=r"no checkpoint of an audit to resume in.*000000003.*000000002"):
        Running.restore(stopped)


def test_a_folder_without_a_checkpoint_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"no checkpoint of an audit to resume in '.*'\.$"):
        Running.restore(tmp_path)


def test_a_saved_classifier_is_not_a_checkpoint(stopped):
    X = np.random.default_rng(0).normal(size=(60, 2))
    clf = sf.FairClassifier(None, n_replicates=2).fit(X, np.arange(60) % 2)
    sf.save(clf, stopped / "000000009.npz")
    with pytest.raises(ValueError, match=r"this release reads 'surefair.audit-checkpoint'"):
        Running.restore(stopped)


@pytest.mark.parametrize("change", ["a byte", "another row"])
def test_changed_data_are_refused(stopped, damaged_csv, tmp_path, change):
    content = damaged_csv.read_bytes()
    other = tmp_path / damaged_csv.name
    other.write_bytes(content.replace(b"cook", b"chef", 1) if change == "a byte" else content + b"1,2,cook,f,1,3,9\n")
    with pytest.raises(ValueError, match=r"The data are not those of the checkpoint: 'a.csv' of .* bytes"):
        Running.restore(stopped, other)


@pytest.mark.usefixtures("capped")
def test_after_a_full_disk_the_audit_resumes_from_the_previous_checkpoint(damaged_csv, expected, tmp_path, monkeypatch):
    calls = iter(range(100))
    sync = os.fsync

    def full(descriptor):
        if next(calls) >= 2:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        sync(descriptor)

    with monkeypatch.context() as patch:
        patch.setattr("surefair.storage.atomic.os.fsync", full)
        with pytest.raises(
            OSError,
            match=r"after 3,000 rows could not be written.*No space left.*'000000002.npz', is good.* sf\.resume \(on",
        ):
            Running.begin(damaged_csv, asked(**RESUMED)).run(checkpoint=tmp_path, every=1)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["000000001.npz", "000000002.npz"]
    assert Running.restore(tmp_path).run(checkpoint=tmp_path).to_dict() == expected


# -- JSON --------------------------------------------------------------------------------------------------------------

ASKED = {
    "two groups": {},
    "several sensitive columns": {"sensitive": ["sex", "job"], "drop": ["constant"]},
    "ratio": {"metric": ["demographic_parity_ratio"], "margin": 0.8},
    "several metrics": {"metric": ["demographic_parity", "equalized_odds"], "margin": 0.2},
    "no constraint": {"criterion": None, "margin": 0.1},
    "weights": {"weights": "age"},
    "clusters": {"clusters": "hours", "features": ["age"]},
}


@pytest.mark.parametrize("name", ASKED)
def test_json_follows_the_schema_and_comes_back_equal(table, tmp_path, name):
    found = audit(table, n_replicates=5, max_bad_rows=5000, **ASKED[name])
    CHECK.validate(found.to_dict())
    found.to_json(tmp_path / "a.json")
    assert Audit.from_json(tmp_path / "a.json") == found
    assert Audit.from_dict(deepcopy(found.to_dict())) == found


def test_undefined_rates_are_null_in_json(people, tmp_path):
    """A group without a positive label has no false-negative rate: it is null, with a reason, and still listed."""
    table = people(3000)
    table.loc[::20, ["sex", "high"]] = ["x", 0]
    found = audit(table, n_replicates=5)
    CHECK.validate(found.to_dict())
    one = found.interval("false_negative_rate")
    rate = next(row for row in one["by_group"] if row["group"] == "x")
    assert rate["rate"] is None
    assert (rate["low"], rate["high"]) == (0.0, 1.0)
    assert one["reason"]
    found.to_json(tmp_path / "a.json")
    assert Audit.from_json(tmp_path / "a.json") == found
    CHECK.validate(audit(table, metric="false_negative_rate", margin=0.1, n_replicates=5).to_dict())


def test_an_audit_that_was_stopped_follows_the_schema(table):
    found = Running.begin(table, asked(margin=0.1)).run(stop=stop_after(1))
    CHECK.validate(found.to_dict())
    assert not found.complete
