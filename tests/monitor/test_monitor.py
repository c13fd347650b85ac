"""FairnessMonitor: updates of any size, late labels, merging, files, and input that is refused."""

import json
from io import BytesIO

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import surefair as sf


def rows(n, seed=0, gap=0.2):
    rng = np.random.default_rng(seed)
    group = rng.choice(["f", "m"], size=n)
    truth = rng.integers(2, size=n)
    decision = (rng.random(n) < 0.3 + gap * (group == "m") + 0.2 * truth).astype(int)
    return group, truth, decision


def monitor(**settings):
    return sf.FairnessMonitor(**({"metric": "true_positive_rate", "margin": 0.1} | settings))


def content(one):
    file = BytesIO()
    one.save(file)
    return file.getvalue()


def test_the_interval_is_that_of_all_rows_at_once():
    group, truth, decision = rows(3000)
    found = monitor()
    for part in np.array_split(np.arange(3000), 11):
        found.update(decision[part], sensitive_features=group[part], y_true=truth[part])
    whole = sf.fairness_interval(
        truth, decision, sensitive_features=group, metric="true_positive_rate", anytime=True, pos_label=1
    )
    assert found.interval() == whole
    assert found.verdict == whole.verdict(0.1)
    assert found.n == 3000
    assert found.n_updates == 11


def test_labels_that_come_later_count_when_they_come():
    group, truth, decision = rows(2000)
    ids = [f"case {i}" for i in range(2000)]
    at_once, later = monitor(), monitor()
    for low in range(0, 2000, 100):
        part = slice(low, low + 100)
        at_once.update(decision[part], sensitive_features=group[part], y_true=truth[part])
        later.update(decision[part], sensitive_features=group[part], ids=ids[part])
        assert later.counts["waiting"] == 100
        later.add_labels(truth[part], ids=ids[part])
    assert later.interval() == at_once.interval()
    assert later.counts["matched"] == 2000
    assert later.counts["waiting"] == 0


def test_updates_of_a_fixed_size_do_not_depend_on_batches():
    group, truth, decision = rows(2000, gap=0.4)
    found = []
    for n_parts in (1, 7, 300):
        one = monitor(update_rows=100, run_length=50)
        for part in np.array_split(np.arange(2000), n_parts):
            one.update(decision[part], sensitive_features=group[part], y_true=truth[part])
        found.append(content(one))
        assert one.n_updates == 20
        assert one.alarms
    assert found[0] == found[1] == found[2]


def late_groups(n=3000):
    """Rows of a stream in which two groups appear late, and two more in a second column."""
    rng = np.random.default_rng(5)
    row = np.arange(n)
    sex = np.where((row > 700) & (rng.random(n) < 0.2), "d", rng.choice(["b", "c"], size=n))
    sex = np.where((row > 1930) & (rng.random(n) < 0.3), "a", sex)
    age = np.where((row > 90) & (rng.random(n) < 0.1), "x", rng.choice(["y", "z"], size=n))
    truth = rng.integers(2, size=n)
    return {"sex": sex, "age": age}, truth, (rng.random(n) < 0.2 + 0.5 * (sex == "a")).astype(int)


def test_batches_do_not_matter_when_groups_appear_late():
    groups, truth, decision = late_groups()
    found = []
    for n_parts in (1, 2, 13, 301):
        one = monitor(metric="equalized_odds", update_rows=150, run_length=50)
        for part in np.array_split(np.arange(len(truth)), n_parts):
            given = {name: column[part] for name, column in groups.items()}
            one.update(decision[part], sensitive_features=given, y_true=truth[part])
        found.append(content(one))
        assert one.alarms
    assert found[0] == found[1] == found[2] == found[3]
    at_once = sf.fairness_interval(
        truth, decision, sensitive_features=groups, metric="equalized_odds", anytime=True, pos_label=1
    )
    assert one.interval().by_pair.equals(at_once.by_pair)


def test_some_labels_may_be_missing():
    group, truth, decision = rows(200)
    label = pd.Series(truth).where(np.arange(200) % 4 > 0)
    found = monitor().update(decision, sensitive_features=group, y_true=label, ids=np.arange(200))
    assert found.n == 150
    assert found.counts["waiting"] == 50
    with pytest.raises(ValueError, match="50 of 200 rows have none"):
        monitor().update(decision, sensitive_features=group, y_true=label)


def test_ids_that_are_unknown_repeated_or_contradictory_are_counted():
    found = monitor(max_waiting=3)
    found.update([1, 0, 1], sensitive_features=["a", "b", "b"], ids=[1, 2, 3])
    found.update([1, 1], sensitive_features=["a", "b"], ids=[1, 2])  # 1 again, and 2 with another decision
    found.add_labels([1, 0, 1], ids=[1, 1, 99])
    assert found.n == 1
    found.update([1, 1], sensitive_features=["a", "a"], ids=[4, 5])  # 2 is the oldest, and expires
    expected = {"matched": 1, "unknown": 2, "repeated": 1, "conflicting": 1, "expired": 1, "waiting": 3}
    assert {name: found.counts[name] for name in expected} == expected
    found.add_labels([1], ids=[2])
    assert found.counts["unknown"] == 3


def test_a_decision_that_comes_again_with_its_label_counts_once():
    found = monitor().update([1, 0], sensitive_features=["a", "b"], ids=[1, 2])
    found.update([1, 0], sensitive_features=["a", "b"], y_true=[1, 1], ids=[1, 2])
    assert found.n == 2
    found.add_labels([1, 1], ids=[1, 2])
    assert found.n == 2
    expected = {"matched": 0, "unknown": 2, "repeated": 2, "conflicting": 0, "waiting": 0}
    assert {name: found.counts[name] for name in expected} == expected
    # In one batch: 3 comes without its label and then with it; 4 comes with another decision, and waits on.
    label = pd.Series([None, None, 1, 1], dtype="Int64")
    found.update([1, 0, 1, 1], sensitive_features=["a", "b", "a", "b"], y_true=label, ids=[3, 4, 3, 4])
    assert found.n == 3
    expected |= {"repeated": 3, "conflicting": 1, "waiting": 1}
    assert {name: found.counts[name] for name in expected} == expected
    found.add_labels([1], ids=[4])
    rates = found.interval().by_group
    assert dict(zip(rates["group"], rates["rate"], strict=True)) == {"a": 1.0, "b": 0.0}
    assert found.n == 4


def test_waiting_decisions_survive_new_groups():
    found = monitor().update([1, 0], sensitive_features=["b", "d"], ids=[1, 2])
    found.update([1, 1], sensitive_features=["a", "c"], ids=[3, 4]).add_labels([1, 1, 1, 1], ids=[1, 2, 3, 4])
    table = found.interval().by_group
    assert dict(zip(table["group"], table["rate"], strict=True)) == {"a": 1.0, "b": 1.0, "c": 1.0, "d": 0.0}


def test_an_error_changes_nothing():
    group, truth, decision = rows(300)
    found = monitor().update(decision, sensitive_features=group, y_true=truth)
    before = content(found)
    for wrong in (
        {"y_pred": [1, 2], "sensitive_features": ["f", "m"], "y_true": [0, 1]},
        {"y_pred": [1, 0], "sensitive_features": ["f", None], "y_true": [0, 1]},
        {"y_pred": [1, 0], "sensitive_features": ["f"], "y_true": [0, 1]},
        {"y_pred": [1, 0], "sensitive_features": ["f", "m"], "y_true": [0, 7]},
        {"y_pred": [1, 0], "sensitive_features": ["x", "m"], "y_true": [0, 1, 1]},
        {"y_pred": ["yes", "no"], "sensitive_features": ["x", "m"], "y_true": ["yes", "no"]},
        {"y_pred": [1, 0], "sensitive_features": {"sex": ["f", "m"], "age": [1, 2]}, "y_true": [0, 1]},
        {"y_pred": [1, 0], "sensitive_features": ["f", "m"], "ids": [1]},
    ):
        with pytest.raises(ValueError):  # noqa: PT011
            found.update(wrong.pop("y_pred"), **wrong)
    with pytest.raises(ValueError):  # noqa: PT011
        found.add_labels([3], ids=[1])
    assert content(found) == before


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"margin": 0.0}, "margin must lie strictly between 0 and 1"),
        ({"run_length": 1}, "run_length must be a number above 1"),
        ({"metric": "auc"}, "looks at scores"),
        ({"confidence_level": 2}, "confidence_level must"),
        ({"max_waiting": -1}, "max_waiting must"),
        ({"update_rows": 0}, "update_rows must"),
    ],
)
def test_settings_are_checked(settings, message):
    with pytest.raises(ValueError, match=message):
        monitor(**settings)


def test_labels_may_be_words():
    found = monitor(metric="demographic_parity", pos_label="yes")
    found.update(["yes", "yes"], sensitive_features=["a", "b"]).update(["no", "yes"], sensitive_features=["a", "b"])
    assert found.interval().gap == -0.5
    with pytest.raises(ValueError, match="pos_label='yes' is the positive one"):
        found.update(["maybe"], sensitive_features=["a"])


def test_before_there_are_groups_to_compare_nothing_is_claimed():
    found = monitor(metric="demographic_parity")
    assert found.verdict == "not enough evidence"
    with pytest.raises(ValueError, match="no decisions yet"):
        found.interval()
    found.update([1, 0, 1], sensitive_features=["a", "a", "a"])
    assert found.verdict == "not enough evidence"
    assert "no two groups" in found.sentence
    assert json.loads(json.dumps(found.to_dict()))["interval"] is None


def test_monitors_merge():
    group, truth, decision = rows(4000)
    parts = [slice(0, 1500), slice(1500, 4000)]
    one, two = (monitor().update(decision[part], sensitive_features=group[part], y_true=truth[part]) for part in parts)
    merged = monitor().merge(one).merge(two)
    whole = monitor().update(decision, sensitive_features=group, y_true=truth)
    assert merged.n == 4000
    assert merged.interval().gap == whole.interval().gap
    assert merged.interval().gap_high == pytest.approx(whole.interval().gap_high, abs=0.01)
    assert merged.n_updates == 2
    with pytest.raises(ValueError, match=r"margin is 0.1 here and 0.2 there"):
        merged.merge(monitor(margin=0.2))


def test_alarms_of_merged_monitors_are_numbered_as_if_one_came_after_the_other():
    group, truth, decision = rows(4000, gap=0.5)
    parts = [slice(0, 1500), slice(1500, 4000)]
    one, two, whole = (monitor(update_rows=100, run_length=50) for _ in range(3))
    for taker, part in ((one, parts[0]), (two, parts[1]), (whole, slice(None))):
        taker.update(decision[part], sensitive_features=group[part], y_true=truth[part])
    numbers = [(alarm.update + 15, alarm.n + 1500) for alarm in two.alarms]
    merged = one.merge(two)
    assert len(numbers) > 1
    assert [(alarm.update, alarm.n) for alarm in merged.alarms[-len(numbers) :]] == numbers
    assert all(alarm.n == 100 * alarm.update for alarm in merged.alarms)


def test_files_hold_everything_and_are_checked(tmp_path):
    group, truth, decision = rows(500)
    found = monitor().update(decision, sensitive_features=group, y_true=truth)
    found.update([1, 0], sensitive_features=["f", "new"], ids=["late", "later"])
    found.save(tmp_path / "monitor.npz")
    again = sf.FairnessMonitor.load(tmp_path / "monitor.npz")
    assert again.to_dict() == found.to_dict()
    for one in (found, again):
        one.add_labels([1], ids=["late"]).update(decision, sensitive_features=group, y_true=truth)
    assert content(again) == content(found)
    assert b"pickle" not in content(found)
    damaged = bytearray((tmp_path / "monitor.npz").read_bytes())
    damaged[len(damaged) // 2] ^= 1
    (tmp_path / "monitor.npz").write_bytes(damaged)
    with pytest.raises(ValueError, match="damaged"):
        sf.FairnessMonitor.load(tmp_path / "monitor.npz")


def test_state_does_not_grow_with_rows():
    group, truth, decision = rows(20_000)
    found = monitor().update(decision[:2000], sensitive_features=group[:2000], y_true=truth[:2000])
    small = len(content(found))
    for low in range(2000, 20_000, 2000):
        part = slice(low, low + 2000)
        found.update(decision[part], sensitive_features=group[part], y_true=truth[part])
    assert len(content(found)) < small + 10_000  # a few alarms, and at most a few more stretches


@pytest.mark.parametrize("make", [pa.table, lambda columns: pa.RecordBatch.from_pydict(columns)])
def test_arrow_tables(make):
    group, truth, decision = rows(400)
    table = make({"d": decision, "sex": group, "y": truth, "old": truth == 1})
    found = monitor().update_arrow(table, decision="d", sensitive=["sex", "old"], label="y")
    plain = monitor().update(decision, sensitive_features={"sex": group, "old": truth == 1}, y_true=truth)
    assert found.interval() == plain.interval()
    with pytest.raises(ValueError, match="no column 'gender'; it has 'd', 'sex'"):
        found.update_arrow(table, decision="d", sensitive="gender", label="y")


def test_results_have_tables_words_and_html():
    group, truth, decision = rows(4000, gap=0.5)
    found = monitor(run_length=10)
    for part in np.array_split(np.arange(4000), 10):
        found.update(decision[part], sensitive_features=pl.Series(group[part].tolist()), y_true=truth[part])
    assert found.counts["alarms"] == len(found.alarms) > 0
    assert isinstance(found.to_frame(), pl.DataFrame)
    assert list(found.to_frame()["first"]) == ["m"] * len(found.alarms)
    assert "violates margin" in repr(found)
    assert "alarms in 10 updates" in found.sentence
    assert "<table>" in found._repr_html_()
    json.dumps(found.to_dict())
