"""The watcher: every row counts once, whatever happens to files and processes."""

import gzip
import json
import os
import resource
import shutil
import sqlite3
import subprocess
import sys
from itertools import pairwise
from select import select

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

import surefair as sf
from surefair.cli import main
from surefair.cli.watch import command
from surefair.monitor import following, watching
from surefair.monitor.following import Changed
from surefair.monitor.watching import Watcher, WatchSettings
from surefair.tables.bad_rows import TooManyBadRows


def decisions(n, seed=0, gap=0.3):
    rng = np.random.default_rng(seed)
    sex = rng.choice(["f", "m"], size=n)
    approved = (rng.random(n) < 0.3 + gap * (sex == "m")).astype(int)
    return pd.DataFrame({"approved": approved, "sex": sex})


def settings(source, **more):
    return WatchSettings(
        **({"source": str(source), "decision": "approved", "sensitive": ("sex",), "margin": 0.1} | more)
    )


def watched(source, folder, **more):
    """Start a watcher, take one step, and return what status.json then says."""
    with Watcher(settings(source, **more), folder) as watcher:
        watcher.step()
    return json.loads((folder / "status.json").read_text())


@pytest.fixture
def log(tmp_path):
    path = tmp_path / "log.csv"
    decisions(3000).to_csv(path, index=False)
    return path


@pytest.fixture
def whole(log, tmp_path):
    """Status of an undisturbed run."""
    return watched(log, tmp_path / "undisturbed")


def test_a_file_that_grows_counts_like_one_that_is_whole(tmp_path, whole):
    text = (tmp_path / "log.csv").read_bytes()
    growing = tmp_path / "other" / "log.csv"
    growing.parent.mkdir()
    rng = np.random.default_rng(1)
    cuts = [0, 5, *sorted(rng.integers(10, len(text), size=12).tolist()), len(text)]  # in the middle of lines, too
    for low, high in pairwise(cuts):
        with growing.open("ab") as file:
            file.write(text[low:high])
        found = watched(growing, tmp_path / "state")
    found["watch"]["source"] = whole["watch"]["source"]
    assert found == whole
    assert found["counts"]["rows"] == 3000
    assert found["path"][0]["rows"] == 64


def test_a_line_counts_when_it_has_its_end(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text("approved,sex\n1,f\n0,m")
    assert watched(path, tmp_path / "state")["counts"]["rows"] == 1
    path.write_text('approved,sex\n1,f\n0,m\n1,"a\nb"\n0,"c')
    assert watched(path, tmp_path / "state")["counts"]["rows"] == 3


def test_small_parts_give_the_same(tmp_path, log, whole, monkeypatch):
    monkeypatch.setattr(following, "PART", 1000)
    assert watched(log, tmp_path / "state") == whole


@pytest.mark.parametrize("broken", ["keep_monitor", "keep_position", "add_bad"])
def test_an_error_in_the_middle_counts_nothing(tmp_path, log, whole, monkeypatch, broken):
    monkeypatch.setattr(following, "PART", 1500)
    calls = []

    def fail(self, *given):
        calls.append(given)
        if len(calls) in (2, 5):
            raise RuntimeError("power cut")
        return getattr(original, broken)(self, *given)

    original = watching.Journal
    spoilt = type("Spoilt", (original,), {broken: fail})
    monkeypatch.setattr(watching, "Journal", spoilt)
    for _ in range(3):
        try:
            found = watched(log, tmp_path / "state")
        except RuntimeError:
            continue
    assert len(calls) > 5
    assert found == whole


@pytest.mark.parametrize("statement", ["INSERT OR REPLACE INTO kept", "COMMIT"])
def test_after_an_error_the_same_watcher_goes_on(tmp_path, log, whole, statement):
    class Full:
        """A database whose disk is full once, at its third such statement."""

        def __init__(self, db):
            self.db = db
            self.calls = 0

        def __getattr__(self, name):
            return getattr(self.db, name)

        def execute(self, text, *given):
            self.calls += text.startswith(statement)
            if self.calls == 3 and text.startswith(statement):
                raise sqlite3.OperationalError("database or disk is full")
            return self.db.execute(text, *given)

    with Watcher(settings(log), tmp_path / "state") as watcher, pytest.MonkeyPatch.context() as patch:
        patch.setattr(following, "PART", 5000)
        watcher.journal.db = Full(watcher.journal.db)
        with pytest.raises(OSError, match="disk is full"):
            watcher.step()
        assert watcher.monitor.n < 3000
        watcher.step()
        assert watcher.monitor.n == 3000
    assert json.loads((tmp_path / "state" / "status.json").read_text()) == whole


@pytest.mark.slow
def test_killed_at_twenty_moments_it_ends_as_if_undisturbed(tmp_path):
    path, state = tmp_path / "log.csv", tmp_path / "state"
    n = 300_000
    decisions(n).assign(id=np.arange(n)).to_csv(path, index=False)
    undisturbed = watched(path, tmp_path / "undisturbed", id="id")
    words = ["watch", str(path), "--decision", "approved", "--sensitive", "sex", "--id", "id", "--margin", "0.1"]
    words += ["--checkpoint", str(state), "--once"]
    rng = np.random.default_rng(2)
    killed = 0
    for _ in range(20):
        process = subprocess.Popen(
            [sys.executable, "-c", "from surefair.cli import main; main()", *words], stdout=subprocess.DEVNULL
        )
        try:
            process.wait(timeout=rng.uniform(0.5, 4.0))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            killed += 1
    assert killed > 5
    assert watched(path, state, id="id") == undisturbed


# -- Files that change ------------------------------------------------------------------------------------------------


def test_a_rotated_file_is_read_to_its_end_and_the_new_one_from_its_beginning(tmp_path, log):
    for name in ("running", "restarted"):
        path = tmp_path / name / "log.csv"
        path.parent.mkdir()
        shutil.copy(log, path)
        state = tmp_path / f"state of {name}"
        with Watcher(settings(path), state) as watcher:
            watcher.step()
            if name == "running":
                _rotate(path)
                watcher.step()
        if name == "restarted":
            _rotate(path)
        found = watched(path, state)
        assert found["counts"]["rows"] == 3000 + 2 + 3
        assert found["rotations"] == 1
        assert watched(path, state) == found


def _rotate(path):
    with path.open("a") as file:
        file.write("1,f\n1,m\n")  # after the last step
    path.rename(path.with_name("log.csv.1"))
    path.write_text("approved,sex\n0,f\n0,m\n0,m\n")


@pytest.mark.parametrize(("last", "bad"), [("1,f", 0), ("1", 1), ('1,"f', 1)])
def test_the_last_line_of_a_rotated_file_counts_without_a_line_end(tmp_path, log, last, bad):
    with Watcher(settings(log), tmp_path / "state") as watcher:
        watcher.step()
        with log.open("a") as file:
            file.write(last)
        watcher.step()
        assert watcher.monitor.n == 3000
        log.rename(tmp_path / "log.csv.1")
        log.write_text("approved,sex\n0,f\n")
        watcher.step()
        status = watcher.status()
        assert sum(status["bad_rows"].values()) == bad
        assert status["counts"]["rows"] == 3002 - bad
        assert status["files"] == [{"name": "log.csv", "rows": 3002}]


def test_while_the_new_file_is_empty_the_old_one_is_followed(tmp_path, log):
    with Watcher(settings(log), tmp_path / "state") as watcher:
        watcher.step()
        log.rename(tmp_path / "log.csv.1")
        log.write_text("")
        watcher.step()
        with (tmp_path / "log.csv.1").open("a") as file:
            file.write("1,f\n")
        watcher.step()
        assert watcher.monitor.n == 3001
        log.write_text("approved,sex\n1,m\n")
        watcher.step()
        assert watcher.monitor.n == 3002


def test_the_old_file_may_be_compressed_and_deleted_while_the_new_one_is_empty(tmp_path, log):
    with Watcher(settings(log), tmp_path / "state") as watcher:
        watcher.step()
        old = log.rename(tmp_path / "log.csv.1")
        log.write_text("")
        watcher.step()
        with old.open("a") as file:
            file.write("1,f\n")
        (tmp_path / "log.csv.1.gz").write_bytes(gzip.compress(old.read_bytes()))
        old.unlink()
        log.write_text("approved,sex\n1,m\n")
        watcher.step()
        assert watcher.monitor.n == 3002
        assert watcher.status()["rotations"] == 1
        watcher.step()
        assert watcher.monitor.n == 3002


def test_a_file_without_rows_may_be_rotated(tmp_path, log):
    log.write_text("approved,sex\n")
    with Watcher(settings(log), tmp_path / "state") as watcher:
        watcher.step()
        _rotate(log)
        watcher.step()
        assert watcher.monitor.n == 5


def test_a_copy_counts_once(tmp_path, log, whole):
    shutil.copy(log, tmp_path / "copy.csv")
    (tmp_path / "copy.csv").replace(log)
    with Watcher(settings(log), tmp_path / "undisturbed") as watcher:
        watcher.step()
        watcher.step()
        assert watcher.status() == whole


def test_a_file_that_shrinks_is_refused(tmp_path, log, whole):
    state = tmp_path / "undisturbed"
    os.truncate(log, 1000)
    with pytest.raises(Changed, match="has shrunk from at least"):
        watched(log, state)
    assert json.loads((state / "status.json").read_text()) == whole


def test_a_file_that_was_rewritten_or_replaced_is_refused(tmp_path, log, whole):
    state = tmp_path / "undisturbed"
    content = log.read_bytes()
    with log.open("r+b") as file:
        file.seek(20)
        file.write(b"0")
    text = log.read_bytes()
    if text != content:
        with pytest.raises(Changed, match="was changed in its first"):
            watched(log, state)
    other = tmp_path / "new.csv"
    decisions(5000, seed=9).to_csv(other, index=False)
    other.replace(log)
    with pytest.raises(Changed, match="was replaced while nobody watched"):
        watched(log, state)
    other.write_bytes(content + b"1,f\n")  # a copy, with one more row
    other.replace(log)
    found = watched(log, state)
    assert found["counts"]["rows"] == whole["counts"]["rows"] + 1
    assert found["rotations"] == 0


def test_files_that_drop_into_a_folder(tmp_path):
    folder, state = tmp_path / "in", tmp_path / "state"
    folder.mkdir()
    rows = decisions(4000)
    rows[:1000].to_csv(folder / "a.csv", index=False)
    assert watched(folder, state)["counts"]["rows"] == 1000
    rows[1000:3000].to_parquet(folder / "b.parquet")
    (folder / ".hidden.csv").write_text("x")
    content = (folder / "b.parquet").read_bytes()
    (folder / "c.parquet").write_bytes(content[:1000])  # half written
    assert watched(folder, state)["counts"]["rows"] == 3000
    rows[3000:].to_parquet(folder / "c.parquet")
    found = watched(folder, state)
    assert found["counts"]["rows"] == 4000
    assert [one["name"] for one in found["files"]] == ["a.csv", "b.parquet", "c.parquet"]
    together = tmp_path / "together.csv"
    rows.to_csv(together, index=False)
    assert watched(together, tmp_path / "other")["interval"] == found["interval"]
    (folder / "b.parquet").unlink()  # what was counted may go
    assert watched(folder, state) == found
    rows[:10].to_parquet(folder / "c.parquet")
    with pytest.raises(Changed, match=r"c.parquet was changed after 1,000 of its rows"):
        watched(folder, state)


@pytest.mark.parametrize("runs_on", [True, False])
def test_files_that_are_renamed_in_a_folder_count_once(tmp_path, runs_on):
    folder, state = tmp_path / "in", tmp_path / "state"
    folder.mkdir()
    rows = decisions(1000)
    rows[:200].to_csv(folder / "log.csv", index=False)
    rows[200:500].to_csv(folder / "log.1.csv", index=False)
    rows[500:600].to_parquet(folder / "a.parquet")
    with Watcher(settings(folder), state) as watcher:
        watcher.step()
        if runs_on:
            _rename_in(folder, rows)
            watcher.step()
    if not runs_on:
        _rename_in(folder, rows)
    found = watched(folder, state)
    assert found["counts"]["rows"] == 1000
    assert {one["name"]: one["rows"] for one in found["files"]} == {
        "done.parquet": 100, "log.1.csv": 250, "log.2.csv": 300, "log.csv": 350
    }  # fmt: skip


def _rename_in(folder, rows):
    """Rotate files, of which one has grown before; then one has a new content under a known name."""
    rows[600:650].to_csv(folder / "log.csv", index=False, header=False, mode="a")
    (folder / "log.1.csv").rename(folder / "log.2.csv")
    (folder / "log.csv").rename(folder / "log.1.csv")
    (folder / "a.parquet").rename(folder / "done.parquet")
    rows[650:].to_csv(folder / "log.csv", index=False)


def test_a_new_file_with_the_inode_of_a_deleted_one_counts(tmp_path):
    folder, state = tmp_path / "in", tmp_path / "state"
    folder.mkdir()
    decisions(200).to_csv(folder / "a.csv", index=False)
    watched(folder, state)
    (folder / "a.csv").rename(folder / "b.csv")
    decisions(300, seed=1).to_csv(folder / "b.csv", index=False)  # the same inode, other rows
    assert watched(folder, state)["counts"]["rows"] == 500


def test_parquet_is_continued_in_the_middle(tmp_path, monkeypatch):
    path = tmp_path / "log.parquet"
    decisions(3000).to_parquet(path)
    whole = watched(path, tmp_path / "undisturbed")
    monkeypatch.setattr(following, "PART", 16 * 700)
    with Watcher(settings(path), tmp_path / "state") as watcher:
        watcher.step(stop=lambda: True)
        assert watcher.monitor.n == 700
    assert watched(path, tmp_path / "state") == whole


# -- Ids --------------------------------------------------------------------------------------------------------------


def late(n=1200):
    """Decisions with ids, whose labels come 300 rows later."""
    rows = decisions(n).assign(id=[f"case {i}" for i in range(n)], repaid="")
    labels = pd.DataFrame({"approved": "", "sex": "", "id": rows["id"], "repaid": np.arange(n) % 2})
    order = np.argsort(np.r_[np.arange(n), np.arange(n) + 300.5], kind="stable")
    return pd.concat([rows.astype(str), labels.astype(str)]).iloc[order]


LATE = {"label": "repaid", "id": "id", "metric": "true_positive_rate"}


def test_labels_join_their_decisions_by_id(tmp_path, monkeypatch):
    path = tmp_path / "log.csv"
    late().to_csv(path, index=False)
    found = watched(path, tmp_path / "state", **LATE)
    assert found["counts"]["rows"] == 1200
    assert found["labels"] == {
        "matched": 1200, "expired": 0, "unknown": 0, "repeated": 0, "conflicting": 0, "waiting": 0
    }  # fmt: skip
    monkeypatch.setattr(following, "PART", 500)
    assert watched(path, tmp_path / "parts", **LATE) == found


@pytest.mark.parametrize("part", [100, 1 << 20])
def test_what_comes_again_contradicts_or_is_late_is_counted(tmp_path, monkeypatch, part):
    monkeypatch.setattr(following, "PART", part)
    path = tmp_path / "log.csv"
    path.write_text(
        "approved,sex,id,repaid\n"
        "1,f,1,\n0,m,2,\n1,m,3,1\n"
        "1,f,1,\n"  # again
        "1,m,2,\n"  # 2 with another decision
        ",,1,1\n,,1,1\n,,1,0\n"  # a label, again, and another one
        ",,99,1\n"  # of an unknown decision
        "1,f,,1\n"  # without an id
        "1,f,4,\n1,f,5,\n1,f,6,\n1,f,7,\n"
        ",,2,0\n"  # 2 was forgotten
        "1,m,2,1\n"  # a new decision under the same id
    )
    found = watched(path, tmp_path / "state", window=4, **LATE)
    assert found["labels"] == {
        "matched": 1, "expired": 2, "unknown": 2, "repeated": 2, "conflicting": 2, "waiting": 3
    }  # fmt: skip
    assert found["counts"]["rows"] == 3
    assert found["bad_rows"] == {"no id": 1}
    metrics = (tmp_path / "state" / "metrics.prom").read_text()
    assert "# TYPE surefair_labels_waiting gauge" in metrics  # it can fall, so it is no counter
    assert f'surefair_labels_waiting{{source="{path}"}} 3' in metrics
    assert 'fate="waiting"' not in metrics


@pytest.mark.parametrize("part", [20, 1 << 20])
def test_a_decision_that_comes_again_with_another_label_is_a_contradiction(tmp_path, monkeypatch, part):
    monkeypatch.setattr(following, "PART", part)
    path = tmp_path / "log.csv"
    path.write_text("approved,sex,id,repaid\n1,f,1,0\n1,m,2,1\n1,f,1,1\n1,f,1,0\n1,m,2,0\n1,m,2,\n")
    found = watched(path, tmp_path / "state", **LATE)
    assert found["counts"]["rows"] == 2
    assert (found["labels"]["repeated"], found["labels"]["conflicting"]) == (2, 2)
    found = watched(path, tmp_path / "no labels", **(LATE | {"metric": "demographic_parity"}))
    assert (found["labels"]["repeated"], found["labels"]["conflicting"]) == (4, 0)


def test_rows_that_come_twice_count_once(tmp_path, log):
    rows = pd.read_csv(log).assign(id=range(3000))
    rows.to_csv(log, index=False)
    once = watched(log, tmp_path / "once", id="id")
    pd.concat([rows[:1700], rows[900:]]).to_csv(log, index=False)
    twice = watched(log, tmp_path / "twice", id="id")
    assert twice["labels"].pop("repeated") == 800
    assert once["labels"].pop("repeated") == 0
    assert twice["files"][0].pop("rows") == once["files"][0].pop("rows") + 800
    assert twice == once


# -- Refusals ---------------------------------------------------------------------------------------------------------


def test_rows_that_cannot_be_used_are_counted_up_to_a_limit(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text("approved,sex\n1,f\n,m\n2,m\n0,m\n1,?\nmaybe,f\n1,f,9\n")
    found = watched(path, tmp_path / "state", positive="1")
    assert found["counts"]["rows"] == 2
    assert found["bad_rows"] == {
        "a decision that is neither '1' nor '2'": 2, "no decision": 1, "no group": 1, "too many fields": 1
    }  # fmt: skip
    with pytest.raises(TooManyBadRows, match="5 rows cannot be used, and the limit is 4"):
        watched(path, tmp_path / "other", positive="1", max_bad_rows=4)
    assert watched(path, tmp_path / "other", positive="1", max_bad_rows=5)["counts"]["rows"] == 2


@pytest.mark.parametrize(("negative", "positive"), [("0", "1"), ("-1", "1"), ("1", "2"), ("no", "yes"), ("1", "yes")])
def test_the_positive_value_is_that_of_an_audit_or_must_be_named(tmp_path, negative, positive):
    path = tmp_path / "log.csv"
    path.write_text("approved,sex\n" + f"{negative},f\n{positive},m\n" * 200)
    audited = sf.audit(path, decision="approved", sensitive="sex", margin=0.1, n_replicates=50)
    assert audited.model()["positive"] == positive
    if positive != "1":
        with pytest.raises(ValueError, match=r"is not the second value in sorted order\. Say which value is positive"):
            watched(path, tmp_path / "state")
    found = watched(path, tmp_path / "state", positive=None if positive == "1" else positive)
    assert found["watch"]["positive"] == positive
    assert {one["group"]: one["rate"] for one in found["interval"]["by_group"]} == {"f": 0.0, "m": 1.0}


def test_two_positive_words_are_refused(tmp_path, log):
    words = [str(log), "--decision", "approved", "--sensitive", "sex", "--margin", "0.1", "--positive", "1"]
    found = CliRunner().invoke(command, [*words, "--positive", "yes", "--checkpoint", str(tmp_path / "state")])
    assert found.exit_code == 2
    assert "watch takes one --positive" in found.output


def test_two_watchers_do_not_share_a_folder(tmp_path, log):
    with Watcher(settings(log), tmp_path / "state"), pytest.raises(OSError, match="Another watcher is writing to"):
        watched(log, tmp_path / "state")


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"margin": 0.2}, "was made with margin=0.1; received 0.2"),
        ({"metric": "true_positive_rate"}, "needs labels"),
        ({"sensitive": ()}, "at least one sensitive column"),
        ({"decision": "sex"}, "one thing only"),
        ({"sensitive": ("gender",)}, "was made with sensitive"),
    ],
)
def test_settings_are_checked(tmp_path, log, whole, changed, message):
    with pytest.raises(ValueError, match=message):
        watched(log, tmp_path / "undisturbed", **changed)


def test_missing_files_and_columns_are_named(tmp_path, log):
    with pytest.raises(FileNotFoundError, match="no file or folder"):
        watched(tmp_path / "none.csv", tmp_path / "state")
    with pytest.raises(ValueError, match=r"log.csv has no column 'gender'; it has 'approved', 'sex'"):
        watched(log, tmp_path / "state", sensitive=("gender",))
    assert watched(log, tmp_path / "state")["counts"]["rows"] == 3000  # nothing was counted, so settings may change


def test_a_damaged_checkpoint_is_refused(tmp_path, log, whole):
    (tmp_path / "undisturbed" / "watch.sqlite").write_bytes(b"not a database" * 100)
    with pytest.raises(ValueError, match="cannot be used"):
        watched(log, tmp_path / "undisturbed")


def test_a_full_disk_loses_nothing(tmp_path, log, whole):
    script = (
        "import resource, sys; from surefair.cli import main; "
        "resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, resource.RLIM_INFINITY)); main()"
    )
    words = ["watch", str(log), "--decision", "approved", "--sensitive", "sex", "--margin", "0.1", "--once"]
    words += ["--checkpoint", str(tmp_path / "state")]
    ended = subprocess.run([sys.executable, "-c", script, *words], capture_output=True, text=True, check=False)
    assert ended.returncode in (1, 3), ended.stderr
    assert "Traceback" not in ended.stderr
    assert watched(log, tmp_path / "state") == whole
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] == resource.RLIM_INFINITY


# -- The command ------------------------------------------------------------------------------------------------------


def run(*words, **options):
    return CliRunner().invoke(main, ["watch", *map(str, words)], **options)


def test_exit_codes_and_alarms(tmp_path, log):
    told = tmp_path / "told.json"
    common = (log, "--decision", "approved", "--sensitive", "sex", "--once")
    found = run(
        *common, "--margin", 0.1, "--run-length", 10, "--checkpoint", tmp_path / "a", "--on-alarm", f"tee {told}"
    )
    assert found.exit_code == 3
    assert "violates margin" in found.output
    assert "Alarm. Update" in found.output
    assert json.loads(told.read_text())["first"] == "m"
    assert run(*common, "--margin", 0.6, "--checkpoint", tmp_path / "b").exit_code == 0
    assert run(*common, "--margin", 0.3, "--checkpoint", tmp_path / "c").exit_code == 4
    assert run(*common, "--margin", 0.25, "--run-length", 1.1, "--checkpoint", tmp_path / "d").exit_code == 5
    wrong = run(*common, "--margin", 7, "--checkpoint", tmp_path / "e")
    assert wrong.exit_code == 1
    assert "margin must lie strictly between 0 and 1" in wrong.output
    assert run(log).exit_code == 2


def test_standard_input(tmp_path, log, whole):
    words = ["watch", "-", "--decision", "approved", "--sensitive", "sex", "--margin", "0.1"]
    words += ["--checkpoint", str(tmp_path / "state")]
    ended = subprocess.run(
        [sys.executable, "-c", "from surefair.cli import main; main()", *words],
        input=log.read_bytes().rstrip(b"\n"), capture_output=True, check=False,
    )  # fmt: skip
    assert ended.returncode == 3, ended.stderr
    found = json.loads((tmp_path / "state" / "status.json").read_text())
    assert found["interval"] == whole["interval"]
    assert found["files"] == [{"name": "standard input", "rows": 3000}]


def test_alarms_are_passed_on_while_standard_input_is_open(tmp_path, monkeypatch):
    reading, writing = os.pipe()
    rows = decisions(6000, gap=0.6).to_csv(index=False).encode().splitlines(keepends=True)
    told = []

    def tell(alarm, status):
        assert watcher.journal.kept("told", 0) == len(told)  # written down one by one
        told.append(len(pieces))
        written = json.loads((tmp_path / "state" / "status.json").read_text())
        assert written["counts"]["alarms"] >= len(told)

    pieces = [b"".join(rows[low : low + 2000]) for low in range(0, len(rows), 2000)]

    def stop():
        """Write the next piece whenever the watcher asks whether to stop while it waits."""
        if not select([reading], [], [], 0)[0] and pieces:
            os.write(writing, pieces.pop(0))
            if not pieces:
                os.close(writing)
        return False

    asked = settings("-", run_length=10, update_rows=100)
    with os.fdopen(reading) as stream, Watcher(asked, tmp_path / "state", tell) as watcher:
        monkeypatch.setattr(watching.sys, "stdin", stream)
        watcher.step(stop)
        assert watcher.monitor.counts["alarms"] == len(told) > 3
    assert told[0] > 0  # the stream has not ended


def test_names_from_data_are_escaped(tmp_path):
    path = tmp_path / "log.csv"
    rows = decisions(500)
    rows["sex"] = rows["sex"].map({"f": "<script>alert(1)</script>", "m": 'x"y\x1b[2J'})
    rows.to_csv(path, index=False)
    watched(path, tmp_path / "state")
    page = (tmp_path / "state" / "status.html").read_text()
    assert "<script>alert" not in page
    assert "&lt;script&gt;" in page
    assert "\x1b" not in page
    assert 'http-equiv="refresh"' in page
    metrics = (tmp_path / "state" / "metrics.prom").read_text()
    assert 'surefair_verdict{source="' in metrics
    assert metrics.endswith("\n")


def test_the_page_before_anything_is_there(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text("approved,sex\n")
    found = watched(path, tmp_path / "state")
    assert found["verdict"] == "not enough evidence"
    assert "too few decisions yet" in (tmp_path / "state" / "status.html").read_text()
