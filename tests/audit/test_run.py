"""From a file to an Audit: the same from every form of the data, whole or with stops, and each row on one side."""

from __future__ import annotations

import errno
import hashlib
import io
import os
import types
from copy import deepcopy

import jsonschema
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest

import surefair as sf
from surefair.audit import run as auditing
from surefair.audit.report import write_report
from surefair.audit.result import Audit, Settings
from surefair.audit.run import Running
from surefair.diagnostics import SmallConstraintSet
from surefair.tables import split as splitting

REPLICATES = 20
CHECK = jsonschema.Draft202012Validator(Audit.schema())


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    monkeypatch.setattr(auditing, "CHUNK", 1000)


def audit(data, label="high", sensitive="sex", **settings):
    return sf.audit(data, label, sensitive, **{"n_replicates": REPLICATES} | settings)


def asked(**settings):
    return Settings(**{"label": "high", "sensitive": "sex", "n_replicates": REPLICATES} | settings)


def findings_of(found):
    """All but the data, whose names and checksums tell what was read."""
    return {name: value for name, value in found.to_dict().items() if name != "data"}


def after(chunks):
    """Stop after so many chunks."""
    left = iter([False] * (chunks - 1) + [True])
    return lambda: next(left)


@pytest.fixture(scope="module")
def table(people):
    """Rows with a gap here and there, a constant, and words that first appear later."""
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


# -- The same from every form ------------------------------------------------------------------------------------------


def write_folder(table, path):
    path.mkdir()
    for i, start in enumerate([0, 1700, 1701]):
        stop = [1700, 1701, None][i]
        pq.write_table(table.slice(start, None if stop is None else stop - start), path / f"{i}.parquet")
    return path


FORMS = {
    "csv": lambda t, folder: (t.to_csv(folder / "a.csv", index=False), folder / "a.csv")[1],
    "csv.gz": lambda t, folder: (t.to_csv(folder / "a.csv.gz", index=False), folder / "a.csv.gz")[1],
    "parquet": lambda t, folder: (t.to_parquet(folder / "a.parquet", row_group_size=777), folder / "a.parquet")[1],
    "feather": lambda t, folder: (feather.write_feather(t, folder / "a.feather"), folder / "a.feather")[1],
    "folder": lambda t, folder: write_folder(pa.Table.from_pandas(t, preserve_index=False), folder / "many"),
    "pandas": lambda t, folder: t.set_index(np.arange(len(t))[::-1]),
    "polars": lambda t, folder: pl.from_pandas(t),
    "pyarrow": lambda t, folder: pa.Table.from_pandas(t, preserve_index=False),
    "categories": lambda t, folder: t.astype({"sex": "category", "job": "category"}),
    "file object": lambda t, folder: io.BytesIO(t.to_csv(index=False).encode()),
}


@pytest.mark.parametrize("form", FORMS)
def test_the_same_rows_give_the_same_audit_in_every_form(form, table, whole, tmp_path):
    assert findings_of(audit(FORMS[form](table, tmp_path), margin=0.1)) == findings_of(whole)


@pytest.mark.parametrize("jobs", [2, 3, -1])
def test_threads_change_nothing(jobs, table, whole):
    assert audit(table, margin=0.1, n_jobs=jobs).to_dict() == whole.to_dict()


def test_the_same_input_gives_the_same_bytes(table, whole, tmp_path):
    for name, found in (("a", whole), ("b", audit(table, margin=0.1))):
        found.to_json(tmp_path / f"{name}.json")
        write_report(found, tmp_path / f"{name}.html")
    for kind in ("json", "html"):
        assert (tmp_path / f"a.{kind}").read_bytes() == (tmp_path / f"b.{kind}").read_bytes()


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


def test_the_order_of_rows_matters_only_where_it_is_kept(table):
    """Training shuffles within chunks: by seed, so that keep_order is another path."""
    kept, shuffled = audit(table, keep_order=True), audit(table)
    assert kept.rows == shuffled.rows
    assert kept.model()["coefficients"] != shuffled.model()["coefficients"]


def test_the_checksum_of_a_stream_is_that_of_all_its_bytes(people):
    """Also where it is longer than what is read to find the header."""
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


# -- Each row on one side ----------------------------------------------------------------------------------------------


@pytest.fixture
def learnt(monkeypatch):
    """All rows that were trained on, beside those of the constraint set."""
    seen = types.SimpleNamespace(trained=[], apart=[])
    learn, choose = Running._learn, auditing.constraint_rows

    def watched(self, rows):
        seen.trained.append(rows)
        return learn(self, rows)

    def chosen(rows, *more):
        found = choose(rows, *more)
        seen.apart.append(rows.part(found[0]))
        return found

    monkeypatch.setattr(Running, "_learn", watched)
    monkeypatch.setattr(auditing, "constraint_rows", chosen)
    return seen


def marks(running, learnt):
    """Values of the feature "mark" of the rows trained on, of those in the constraint set, and of those held out."""
    place = running.intake.features.names.index("mark")
    parts = (learnt.trained, learnt.apart, [running.held])
    return tuple(np.concatenate([rows.X[:, place] for rows in part]).round(9).tolist() for part in parts)


def adds_up(found):
    rows = found.rows
    used = sum(rows[name] for name in ("training", "constraint", "evaluation", "set_aside"))
    return used + sum(one["count"] for one in rows["bad"]) == rows["read"]


@pytest.mark.parametrize("most", [10**6, 400])
def test_every_row_is_on_exactly_one_side(people, learnt, monkeypatch, most):
    monkeypatch.setattr(splitting, "MOST_ROWS", most)
    table = people(5000).assign(mark=np.arange(5000.0))
    table.loc[[3, 1200, 4999], "high"] = None
    running = Running.begin(table, asked())
    found = running.run()
    assert found.rows["read"] == 5000
    assert found.rows["bad"] == [{"reason": "no label 'high'", "count": 3, "first": "row 4"}]
    assert adds_up(found)
    parts = marks(running, learnt)
    assert [len(part) for part in parts] == [found.rows[name] for name in ("training", "constraint", "evaluation")]
    assert len(set().union(*parts)) == 4997  # no row twice, none missing
    assert found.rows["evaluation"] == min(most, running.held.n)
    for key in ("training", "constraint", "evaluation"):
        assert sum(group[key] for group in found.groups) == found.rows[key]


@pytest.mark.parametrize("most", [10**6, 400, 120])
@pytest.mark.parametrize("persons", [2500, 600])
def test_with_split_by_no_value_is_on_two_sides(people, learnt, monkeypatch, most, persons):
    monkeypatch.setattr(splitting, "MOST_ROWS", most)
    number = np.random.default_rng(0).integers(0, persons, 5000)
    table = people(5000).assign(mark=number, person=[f"person {i}" for i in number.tolist()])
    table.loc[table["person"].isin(["person 5", "person 17"]), "sex"] = "x"  # too few for a constraint
    table.loc[::333, "sex"] = "x"
    running = Running.begin(table, asked(split_by="person"))
    found = running.run()
    assert adds_up(found)
    trained, apart, held = map(set, marks(running, learnt))
    assert not trained & held
    assert not trained & apart
    assert not apart & held
    assert len(trained | apart | held) == len(set(number.tolist()))
    assert found.rows["set_aside"] > 0
    if most < 1000:
        assert min(rows.side.min() for rows in learnt.trained) < splitting.HELD_OUT  # some went back to training
    assert next(one["role"] for one in found.columns if one["name"] == "person") == "split"


def test_the_split_by_a_column_follows_from_its_values_alone(people):
    """As a number, as text, in another order: the same persons are held out."""
    table = people(3000)
    table["person"] = np.arange(3000) // 3
    runs = {}
    for name, data in (("number", table), ("text", table.astype({"person": str})), ("reversed", table[::-1])):
        running = Running.begin(data, asked(split_by="person", n_replicates=2))
        running.run()
        runs[name] = sorted(set(running.held.side.tolist()))
    assert runs["number"] == runs["text"] == runs["reversed"]


@pytest.mark.parametrize("seed", range(6))
def test_too_few_values_to_split_by_are_an_error_whichever_side_they_fall_on(people, seed):
    table = people(2000).assign(half=lambda t: np.arange(len(t)) % 2)
    with pytest.raises(ValueError, match="too few values"):
        audit(table, split_by="half", random_state=seed)


def test_sensitive_columns_and_labels_are_not_learnt_from(whole):
    features = {row["feature"].split(" ")[0] for row in whole.model()["coefficients"]}
    assert features == {"age", "hours", "job", "intercept"}


def test_what_to_learn_from_can_be_told(table):
    names = lambda found: {row["feature"].split(" ")[0] for row in found.model()["coefficients"]}  # noqa: E731
    assert names(audit(table, features=["age"], n_replicates=2)) == {"age", "intercept"}
    assert names(audit(table, drop=["job"], n_replicates=2)) == {"age", "hours", "intercept"}
    assert "sex" in names(audit(table, include_sensitive=True, n_replicates=2))
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
    assert (small["constrained"], small["constraint"]) == (False, 0)
    assert small["training"] + small["evaluation"] == 5
    assert groups["f"]["constrained"]
    assert groups["m"]["constrained"]
    (doubt,) = (one for one in found.assumptions if one["name"] == SmallConstraintSet.__name__)
    assert not doubt["held"]
    assert any("Group 'x' of 'sex'" in message for message in doubt["messages"])
    rates = {row["group"]: row for row in found.interval("demographic_parity")["by_group"]}
    if small["evaluation"]:
        assert rates["x"]["n"] == small["evaluation"]
        assert rates["x"]["high"] - rates["x"]["low"] > 0.3


def test_a_small_group_does_not_change_whom_the_constraint_compares(people):
    """The other groups are held to each other, as without the small group: which row is in it matters to none."""
    table, other = people(3000), people(3000)
    other.loc[[5, 1700, 2500], "sex"] = "x"
    with_it, without = audit(other), audit(table)
    assert with_it.rows == without.rows
    pairs = zip(with_it.model()["coefficients"], without.model()["coefficients"], strict=True)
    for mine, theirs in pairs:
        assert mine["estimate"] == pytest.approx(theirs["estimate"], abs=0.05)


def test_two_groups_of_which_one_is_small_cannot_be_constrained(people):
    table = people(2000)
    table["sex"] = np.where(np.arange(2000) % 200 == 0, "x", "y")
    with pytest.raises(ValueError, match=r"too few rows for a constraint on 'sex'.*leave the criterion out"):
        audit(table)
    found = audit(table, criterion=None)
    assert {
        group["group"]: group["training"] + group["evaluation"] + group["constraint"] for group in found.groups
    } == {
        "x": 10,
        "y": 1990,
    }


def test_a_group_that_appears_late_is_counted_and_not_constrained(people):
    table = people(3000)
    table.loc[2500:, "sex"] = "x"
    found = audit(table)
    late = found.groups[-1]
    assert (late["group"], late["constrained"], late["constraint"]) == ("x", False, 0)
    assert late["training"] + late["evaluation"] == 500


# -- Weights -----------------------------------------------------------------------------------------------------------


def test_weights_of_one_change_nothing_but_the_column(people):
    table = people(2000)
    plain, weighted = audit(table), audit(table.assign(w=1.0), weights="w")
    assert plain.models == weighted.models
    assert plain.price == weighted.price
    assert weighted.columns[-1]["role"] == "weights"


def test_rows_of_weight_0_do_not_count(people):
    """Those of weight 0 are all wrong; accuracy does not know of them."""
    table = people(4000)
    flip = np.arange(4000) % 4 == 0
    table["w"] = np.where(flip, 0.0, 1.0)
    wrong = table.assign(high=table["high"].where(~flip, 1 - table["high"]))
    right = table
    found = [audit(data, weights="w").model()["accuracy"] for data in (wrong, right)]
    assert found[0] == pytest.approx(found[1], abs=1e-9)


# -- Stopping and going on ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def damaged_csv(table, tmp_path_factory):
    """A CSV file with rows that cannot be used, early and late, for reasons of the reader and of the audit."""
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
        patch.setattr(splitting, "MOST_ROWS", 700)
        return audit(damaged_csv, margin=0.1, positive="1", split_by="person").to_dict()


@pytest.fixture
def capped(monkeypatch):
    monkeypatch.setattr(splitting, "MOST_ROWS", 700)


RESUMED = {"margin": 0.1, "positive": "1", "split_by": "person"}


def test_bad_rows_are_counted_with_their_first_place(expected):
    found = {one["reason"]: (one["count"], one["first"]) for one in expected["rows"]["bad"]}
    assert found == {
        "too few fields": (4, "line 18: '1,2'"),
        "a label 'high' other than '0' and '1'": (2, "row 1,798 of those with all fields"),
        "column 'age' holds text among numbers": (2, "row 49 of those with all fields"),
        "no value of the sensitive column 'sex'": (1, "row 3,597 of those with all fields"),
    }


@pytest.mark.usefixtures("capped")
@pytest.mark.parametrize("chunks", [1, 2, 3, 4])
def test_an_audit_that_was_stopped_goes_on_to_the_same_result(damaged_csv, expected, tmp_path, chunks):
    partial = Running.begin(damaged_csv, asked(**RESUMED)).run(checkpoint=tmp_path, stop=after(chunks))
    assert not partial.complete
    assert partial.sentence.startswith("So far, with not all rows read: ")
    assert adds_up(partial)
    running = Running.restore(tmp_path)
    assert running.chunks == chunks
    found = running.run(checkpoint=tmp_path)
    assert found.complete
    assert found.to_dict() == expected


@pytest.mark.usefixtures("capped")
@pytest.mark.parametrize(("first", "second"), [(1, 1), (2, 1), (1, 3), (3, 1)])
def test_two_stops(damaged_csv, expected, tmp_path, first, second):
    Running.begin(damaged_csv, asked(**RESUMED)).run(checkpoint=tmp_path, stop=after(first), n_jobs=2)
    partial = Running.restore(tmp_path).run(checkpoint=tmp_path, stop=after(second))
    assert not partial.complete
    assert sf.auditing.resume(tmp_path, n_jobs=3).to_dict() == expected


@pytest.mark.usefixtures("capped")
def test_a_stop_after_every_chunk(damaged_csv, expected, tmp_path):
    found = Running.begin(damaged_csv, asked(**RESUMED)).run(checkpoint=tmp_path, stop=lambda: True)
    for jobs in (1, 2, 1, 2):
        assert not found.complete
        found = Running.restore(tmp_path).run(checkpoint=tmp_path, stop=lambda: True, n_jobs=jobs)
    assert found.to_dict() == expected  # stopped after the last chunk, which is the end


@pytest.mark.usefixtures("capped")
def test_a_finished_audit_resumes_to_the_same_result(damaged_csv, expected, tmp_path):
    assert audit(damaged_csv, checkpoint=tmp_path, **RESUMED).to_dict() == expected
    for _ in range(2):
        assert sf.auditing.resume(tmp_path).to_dict() == expected
        assert [path.name for path in tmp_path.iterdir()] == ["000000005.npz"]


@pytest.mark.usefixtures("capped")
def test_data_that_have_moved(damaged_csv, expected, tmp_path):
    moved = tmp_path / "elsewhere" / damaged_csv.name
    moved.parent.mkdir()
    moved.write_bytes(damaged_csv.read_bytes())
    Running.begin(damaged_csv, asked(**RESUMED)).run(checkpoint=tmp_path / "c", stop=after(2))
    assert sf.auditing.resume(tmp_path / "c", moved).to_dict() == expected


@pytest.mark.parametrize("form", ["file object", "standard input"])
def test_a_stream_that_is_passed_again(damaged_csv, tmp_path, monkeypatch, form):
    content = damaged_csv.read_bytes()

    def data():
        if form == "file object":
            return io.BytesIO(content)
        monkeypatch.setattr("sys.stdin", types.SimpleNamespace(buffer=io.BytesIO(content)))
        return "-"

    whole = Running.begin(data(), asked()).run()
    Running.begin(data(), asked()).run(checkpoint=tmp_path, stop=after(2))
    assert Running.restore(tmp_path, data()).run(checkpoint=tmp_path).to_dict() == whole.to_dict()


def test_another_stream_is_refused(damaged_csv, tmp_path, monkeypatch):
    for content in (damaged_csv.read_bytes(), damaged_csv.read_bytes().replace(b"cook", b"chef")):
        monkeypatch.setattr("sys.stdin", types.SimpleNamespace(buffer=io.BytesIO(content)))
        if not list(tmp_path.iterdir()):
            Running.begin("-", asked()).run(checkpoint=tmp_path, stop=after(2))
    with pytest.raises(ValueError, match="The data are not those of the checkpoint"):
        Running.restore(tmp_path)


def test_a_data_frame_that_is_passed_again(table, whole, tmp_path):
    Running.begin(table, asked(margin=0.1)).run(checkpoint=tmp_path, stop=after(3))
    with pytest.raises(ValueError, match="Pass the same data again"):
        Running.restore(tmp_path)
    assert Running.restore(tmp_path, table).run().to_dict() == whole.to_dict()
    with pytest.raises(ValueError, match="The data are not those of the checkpoint"):
        Running.restore(tmp_path, table[:-1])


@pytest.mark.parametrize(
    "settings",
    [
        {"sensitive": ["sex", "job"], "criterion": "equalized_odds"},
        {"criterion": None, "metrics": "demographic_parity_ratio", "margin": 0.8},
        {"include_sensitive": True, "keep_order": True, "drop": ["job"], "loss": "squared_error"},
        {"features": ["age"], "confidence_level": 0.9, "n_constraint": 77, "weights": "w"},
    ],
)
def test_every_setting_survives_a_stop(people, tmp_path, settings):
    table = people(3000).assign(w=lambda t: 1.0 + t["age"] ** 2)
    whole = Running.begin(table, asked(**settings)).run()
    Running.begin(table, asked(**settings)).run(checkpoint=tmp_path, stop=after(1))
    assert Running.restore(tmp_path, table).run().to_dict() == whole.to_dict()


def test_looks_along_the_stream_are_the_same_with_stops(whole):
    rows = sorted({one["rows"] for one in whole.path})
    assert rows[:3] == [500, 700, 979]
    assert rows[-1] == whole.rows["training"]
    assert len(whole.path) == 4 * len(rows)  # two models, two sources


def test_checkpoints_come_as_often_as_asked_and_two_are_kept(table, tmp_path):
    Running.begin(table, asked(n_replicates=2)).run(checkpoint=tmp_path, every=2000)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["000000004.npz", "000000005.npz"]
    Running.begin(table, asked(n_replicates=2)).run(checkpoint=tmp_path / "b", every=1)
    assert sorted(path.name for path in (tmp_path / "b").iterdir()) == ["000000004.npz", "000000005.npz"]
    Running.begin(table, asked(n_replicates=2)).run(checkpoint=tmp_path / "c", seconds=3600.0)
    assert [path.name for path in (tmp_path / "c").iterdir()] == ["000000005.npz"]
    with pytest.raises(ValueError, match=r"holds the checkpoint of an audit.*surefair resume"):
        audit(table, checkpoint=tmp_path)


# -- Damage ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def stopped(damaged_csv, tmp_path, monkeypatch):
    """Folder with the checkpoints after two chunks and after three."""
    monkeypatch.setattr(splitting, "MOST_ROWS", 700)
    Running.begin(damaged_csv, asked(**RESUMED)).run(checkpoint=tmp_path / "c", every=1, stop=after(3))
    assert sorted(path.name for path in (tmp_path / "c").iterdir()) == ["000000002.npz", "000000003.npz"]
    return tmp_path / "c"


@pytest.mark.parametrize("damage", ["cut short", "changed", "empty"])
def test_a_damaged_checkpoint_is_refused_and_the_one_before_is_used(stopped, expected, damage):
    newest = stopped / "000000003.npz"
    content = bytearray(newest.read_bytes())
    if damage == "changed":
        content[len(content) // 2] ^= 1
    newest.write_bytes({"cut short": content[:-1000], "changed": content, "empty": b""}[damage])
    with pytest.warns(
        UserWarning, match="000000003.npz.* damaged.* The checkpoint before it, '000000002.npz', is used"
    ):
        running = Running.restore(stopped)
    assert running.chunks == 2
    assert running.run(checkpoint=stopped, every=1).to_dict() == expected
    assert Running.restore(stopped).run().to_dict() == expected  # the damaged one was written again, or is gone


def test_with_all_checkpoints_damaged_there_is_no_going_on(stopped):
    for path in stopped.iterdir():
        path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(ValueError, match=r"no checkpoint of an audit to go on from.*000000003.*000000002"):
        Running.restore(stopped)


def test_a_folder_without_a_checkpoint(tmp_path):
    with pytest.raises(ValueError, match=r"no checkpoint of an audit to go on from in '.*'\.$"):
        Running.restore(tmp_path)


def test_a_checkpoint_of_something_else_is_refused(people, stopped):
    clf = sf.FairClassifier(n_replicates=2).fit(np.random.default_rng(0).normal(size=(60, 2)), np.arange(60) % 2)
    sf.save(clf, stopped / "000000009.npz")
    with pytest.raises(ValueError, match=r"this release reads 'surefair.audit-checkpoint'"):
        Running.restore(stopped)


@pytest.mark.parametrize("change", ["a byte", "a row more"])
def test_changed_data_are_refused(stopped, damaged_csv, tmp_path, change):
    content = damaged_csv.read_bytes()
    other = tmp_path / damaged_csv.name
    other.write_bytes(content.replace(b"cook", b"chef", 1) if change == "a byte" else content + b"1,2,cook,f,1,3,9\n")
    with pytest.raises(ValueError, match=r"The data are not those of the checkpoint: 'a.csv' of .* bytes"):
        Running.restore(stopped, other)


@pytest.mark.usefixtures("capped")
def test_a_full_disk_stops_with_a_message_and_the_checkpoint_before_is_good(
    damaged_csv, expected, tmp_path, monkeypatch
):
    calls, sync = iter(range(100)), os.fsync

    def full(descriptor):
        if next(calls) >= 2:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        sync(descriptor)

    with monkeypatch.context() as patch:
        patch.setattr("surefair.storage.atomic.os.fsync", full)
        with pytest.raises(
            OSError, match=r"after 3,000 rows could not be written.*No space left.*'000000002.npz', is good"
        ):
            Running.begin(damaged_csv, asked(**RESUMED)).run(checkpoint=tmp_path, every=1)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["000000001.npz", "000000002.npz"]
    assert Running.restore(tmp_path).run(checkpoint=tmp_path).to_dict() == expected


# -- JSON --------------------------------------------------------------------------------------------------------------

ASKED = {
    "two groups": {},
    "several sensitive columns": {"sensitive": ["sex", "job"], "drop": ["constant"]},
    "ratio": {"metrics": ["demographic_parity_ratio"], "margin": 0.8},
    "several metrics": {"metrics": ["demographic_parity", "equalized_odds"], "margin": 0.2},
    "no constraint": {"criterion": None, "margin": 0.1},
    "weights": {"weights": "age"},
    "split": {"split_by": "hours", "features": ["age"]},
}


@pytest.mark.parametrize("name", ASKED)
def test_json_follows_the_schema_and_comes_back_equal(table, tmp_path, name):
    found = audit(table, n_replicates=5, max_bad_rows=5000, **ASKED[name])
    CHECK.validate(found.to_dict())
    found.to_json(tmp_path / "a.json")
    assert Audit.from_json(tmp_path / "a.json") == found
    assert Audit.from_dict(deepcopy(found.to_dict())) == found


def test_json_of_undefined_rates(people, tmp_path):
    """A group without a positive label has no false-negative rate: null, with a reason, and not left out."""
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
    CHECK.validate(audit(table, metrics="false_negative_rate", margin=0.1, n_replicates=5).to_dict())


def test_json_of_an_audit_that_was_stopped(table):
    found = Running.begin(table, asked(margin=0.1)).run(stop=after(1))
    CHECK.validate(found.to_dict())
    assert not found.complete


@pytest.mark.parametrize(
    "breaks",
    [
        lambda found: found.pop("sentence"),
        lambda found: found.update(extra=1),
        lambda found: found.update(verdict="fair"),
        lambda found: found["rows"].update(read=-1),
        lambda found: found["rows"].update(read="many"),
        lambda found: found["models"].pop(),
        lambda found: found["models"][0].update(name="other"),
        lambda found: found["models"][0]["intervals"][0].pop("low"),
        lambda found: found["models"][0]["intervals"][0].update(source="other"),
        lambda found: found["data"]["files"][0].update(sha256="abc"),
        lambda found: found["columns"][0].update(role="other"),
        lambda found: found["price"].update(low=None),
        lambda found: found["settings"].pop("labels"),
        lambda found: found.update(version=2),
    ],
)
def test_the_schema_refuses_what_is_broken(whole, breaks):
    found = deepcopy(whole.to_dict())
    assert CHECK.is_valid(found)
    breaks(found)
    assert not CHECK.is_valid(found)


def test_the_schema_is_one():
    jsonschema.Draft202012Validator.check_schema(Audit.schema())


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"format": "surefair.Audit", "version": 2}', "not json"])
def test_other_json_is_refused(tmp_path, content):
    (tmp_path / "a.json").write_text(content)
    with pytest.raises(ValueError, match=r"is not the JSON of an audit|An audit has format"):
        Audit.from_json(tmp_path / "a.json")


def test_questions_to_an_audit(whole):
    assert whole.interval("demographic_parity")["source"] == "total"
    with pytest.raises(KeyError, match=r"Metrics: .*demographic_parity"):
        whole.interval("demographic_partiy")
    frame = whole.to_frame()
    assert len(frame) == sum(len(model["intervals"]) for model in whole.models)
    assert set(frame["model"]) == {"constrained", "unconstrained"}
    assert isinstance(frame, pd.DataFrame)
