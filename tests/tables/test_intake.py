"""From tables to rows: which columns serve for what, which rows are bad, and counts that add."""

from __future__ import annotations

import io
import pickle
from itertools import pairwise

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pipe import Pipe

from surefair.tables.bad_rows import BadRows
from surefair.tables.intake import CHUNK, Columns, Intake, read_all

N = 400


@pytest.fixture(scope="module")
def table():
    """Numbers with missing values, words, two sensitive columns, weights, and persons with several rows."""
    rng = np.random.default_rng(0)
    i = np.arange(N)
    frame = pd.DataFrame({
        "age": rng.normal(size=N).round(3), "job": rng.choice(["clerk", "cook", "judge"], N),
        "sex": rng.choice(["f", "m"], N), "region": rng.choice([1, 2, 10], N), "w": 1.0 + i % 3, "person": i // 2,
        "hired": rng.choice(["no", "yes"], N),
    })  # fmt: skip
    frame["age"] = frame["age"].mask(i % 25 == 3)
    return pa.Table.from_pandas(frame, preserve_index=False)


def columns(**more):
    return Columns(**{"label": "hired", "sensitive": "sex"} | more)


def with_values(table, **values):
    """Replace values of columns, given as {position: value}."""
    for name, changes in values.items():
        new = table[name].to_pylist()
        for position, value in changes.items():
            new[position] = value
        table = table.set_column(table.column_names.index(name), name, pa.array(new))
    return table


def settled(table, limit=100, **more):
    """Intake that is settled on a table."""
    intake = Intake(columns(**more), BadRows(limit), lambda number: f"row {number + 1}")
    intake.settle(table, intake.columns.to_read(table.schema))
    return intake


def bad(intake):
    return {one["reason"]: (one["count"], one["first"]) for one in intake.bad.to_dict()}


# -- Columns -----------------------------------------------------------------------------------------------------------


def test_columns_take_one_name_or_several():
    one = columns(features="age", drop="job", positive=1)
    several = columns(sensitive=["sex"], features=["age"], drop=("job",), positive="1")
    assert one == several
    assert one.sensitive == ("sex",)
    assert one.positive == "1"


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"sensitive": ()}, "sensitive is empty"),
        ({"features": ["age", "job"], "drop": ["job"]}, "'job' is in features and in drop"),
        ({"weights": "sex"}, "'sex' has two roles"),
        ({"sensitive": ["sex", "hired"]}, "'hired' has two roles"),
        ({"features": ["hired"]}, "'hired' is the label or the weights"),
        ({"features": ["w"], "weights": "w"}, "'w' is the label or the weights"),
    ],
)
def test_a_column_has_one_role(more, message):
    with pytest.raises(ValueError, match=message):
        columns(**more)


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({}, ["age", "job", "sex", "region", "w", "person", "hired"]),
        ({"drop": ["job", "w"]}, ["age", "sex", "region", "person", "hired"]),
        ({"features": ["job", "age"]}, ["age", "job", "sex", "hired"]),
        ({"features": ["age"], "weights": "w", "clusters": "person"}, ["age", "sex", "w", "person", "hired"]),
    ],
)
def test_only_needed_columns_are_read_in_the_order_of_the_data(table, more, expected):
    assert columns(**more).to_read(table.schema) == expected


@pytest.mark.parametrize("what", ["label", "sensitive", "features", "drop", "weights", "clusters"])
def test_an_unknown_column_is_an_error_that_suggests_a_known_one(table, what):
    with pytest.raises(ValueError, match=rf"Unknown column for {what}: 'jbo'\. Did you mean 'job'\?"):
        columns(**{what: "jbo"}).to_read(table.schema)


def test_an_unknown_column_suggests_names_if_the_file_seems_to_have_no_header():
    data = io.BytesIO(b"39,clerk,f,no\n50,cook,m,yes\n")
    source = columns().open(data, BadRows(0))
    with pytest.raises(ValueError, match=r"no column 'hired'.*if the file has no header, pass the names.*--names"):
        columns().to_read(source.schema)


@pytest.mark.parametrize("what", ["label", "sensitive", "weights", "clusters"])
def test_a_column_of_lists_can_have_no_role(table, what):
    table = table.append_column("list", pa.array([[i] for i in range(N)]))
    with pytest.raises(ValueError, match=rf"Column 'list' has type list<.*, which cannot be used for {what}\."):
        columns(**{what: "list"}).to_read(table.schema)


def test_dates_can_be_groups_but_not_weights(table):
    table = table.append_column("day", pa.array(np.arange(N) % 2, pa.int32()).cast(pa.date32()))
    assert "day" in columns(sensitive="day").to_read(table.schema)
    with pytest.raises(ValueError, match=r"'day' has type date32.* cannot be used for weights"):
        columns(weights="day").to_read(table.schema)


def test_the_dialect_of_a_csv_file_is_passed_on():
    data = io.BytesIO("39;Köchin\n".encode("latin-1"))
    asked = columns(names=["age", "job"], delimiter=";", encoding="latin-1")
    (read,) = asked.open(data, BadRows(0)).tables(10)
    assert read.to_pydict() == {"age": ["39"], "job": ["Köchin"]}


def test_roles_of_columns():
    asked = columns(sensitive=["sex", "region"], weights="w", clusters="person")
    roles = {"hired": "label", "w": "weights", "person": "clusters", "sex": "sensitive", "region": "sensitive"}
    assert asked.roles() == roles


# -- Features and labels -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({"drop": ["region", "w", "person"]}, {"age", "job"}),
        ({"features": ["job"]}, {"job"}),
        ({"weights": "w", "clusters": "person", "drop": ["region"]}, {"age", "job"}),
        ({"features": ["age"], "include_sensitive": True}, {"age"}),
        ({"drop": ["region", "w", "person"], "include_sensitive": True}, {"age", "job", "sex"}),
    ],
)
def test_columns_with_another_role_are_not_features(table, more, expected):
    assert {name.split(" ")[0] for name in settled(table, **more).encoder.names} == expected


@pytest.mark.parametrize(
    ("values", "positive", "expected"),
    [
        (["no", "yes"], None, ("no", "yes")),
        (["no", "yes"], "no", ("yes", "no")),
        ([10, 9], None, ("9", "10")),
        ([0, 1], "0", ("1", "0")),
        ([0.0, 1.0], "1", ("0", "1")),
        ([True, False], "False", ("true", "false")),
        (["1", "-2"], "1.0", ("-2", "1")),
    ],
)
def test_the_positive_label_is_the_second_in_order_or_the_one_asked_for(table, values, positive, expected):
    label = pa.array([values[i % 2] for i in range(N)])
    table = table.set_column(table.column_names.index("hired"), "hired", label)
    intake = settled(table, positive=positive)
    assert intake.labels == expected
    rows = intake.rows(table)
    assert rows.names.labels.values.tolist() == list(expected)
    words = [str(value).lower() for value in label.to_pylist()]
    positive_words = [word in (expected[1], f"{expected[1]}.0") for word in words]
    assert (rows.y > 0.0).tolist() == positive_words


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (["yes"], r"must have two values; the first 400 rows show 1: 'yes' \(400 rows\)\. If the data are sorted"),
        (["a", "b", "c", "b"], r"show 3: 'a' \(100 rows\), 'b' \(200 rows\), 'c' \(100 rows\)\. Keep or merge two"),
        ([None], "show 0: none"),
    ],
)
def test_a_label_without_two_values_is_refused(table, values, message):
    label = pa.array([values[i % len(values)] for i in range(N)], pa.string())
    with pytest.raises(ValueError, match=message):
        settled(table.set_column(table.column_names.index("hired"), "hired", label))


def test_an_unknown_positive_label_is_refused(table):
    with pytest.raises(ValueError, match=r"Unknown value of the label 'hired': 'yess'\. Did you mean 'yes'"):
        settled(table, positive="yess")


# -- Rows --------------------------------------------------------------------------------------------------------------


def test_rows_hold_features_labels_groups_and_weights(table):
    intake = settled(table, sensitive=["sex", "region"], weights="w", drop=["person"])
    rows = intake.rows(table)
    encoded = intake.encoder.encode(table)
    assert rows.n == N
    assert np.array_equal(rows.X, encoded.X)
    assert rows.names.features == intake.encoder.names
    assert (rows.y > 0.0).tolist() == [value == "yes" for value in table["hired"].to_pylist()]
    assert rows.weight.tolist() == table["w"].to_pylist()
    assert rows.key.tolist() == list(range(N))
    for code, (name, levels) in zip(rows.group.T, rows.groups.levels.items(), strict=True):
        assert levels.values[code].tolist() == [str(value) for value in table[name].to_pylist()]
    assert set(rows.groups.levels["region"].values.tolist()) == {"1", "2", "10"}


def test_rows_of_a_unit_share_a_key_that_depends_only_on_its_value(table):
    rows = settled(table, clusters="person").rows(table)
    assert len(np.unique(rows.key)) == N // 2
    assert np.array_equal(rows.key[0::2], rows.key[1::2])
    text = table.set_column(5, "person", table["person"].cast(pa.string()))
    assert np.array_equal(settled(text, clusters="person").rows(text).key, rows.key)


def test_a_row_is_bad_for_one_reason_even_if_there_are_several(table):
    changed = with_values(
        table, hired={3: None, 4: "perhaps"}, sex={3: None, 9: None}, w={4: -1.0, 9: 2.0, 20: None, 21: np.inf},
        age={30: np.inf}, person={40: None},
    )  # fmt: skip
    intake = settled(table, weights="w", clusters="person")
    rows = intake.rows(changed)
    assert bad(intake) == {
        "column 'age' holds an infinite value": (1, "row 31"), "no label 'hired'": (1, "row 4"),
        "a label 'hired' other than 'no' and 'yes'": (1, "row 5"),
        "no value of the sensitive column 'sex'": (1, "row 10"),
        "a weight 'w' that is missing, negative or infinite": (2, "row 21"),
        "no value of the cluster column 'person'": (1, "row 41"),
    }  # fmt: skip
    assert rows.n == N - 7
    assert intake.read == N
    assert intake.own_bad == intake.bad.total == 7


def test_too_many_bad_rows_are_an_error(table):
    changed = with_values(table, hired={3: None, 4: None})
    settled(table, limit=2).rows(changed)
    with pytest.raises(ValueError, match=r"2 rows cannot be used, and the limit is 1\. no label 'hired': 2"):
        settled(table, limit=1).rows(changed)


def test_missing_and_unseen_values_of_good_rows_are_counted(table):
    changed = with_values(table, job={0: "pope", 1: "pirate", 2: "pope"}, age={0: None}, hired={2: None})
    intake = settled(table)
    intake.rows(changed)
    assert intake.unseen["job"] == 2
    assert intake.missing["age"] == table["age"].null_count + 1


def test_the_place_of_a_bad_row_says_if_the_reader_has_left_out_others(table):
    intake = settled(table)
    intake.bad.add("too few fields", 1, "line 3")
    intake.rows(with_values(table, hired={3: None}))
    assert bad(intake)["no label 'hired'"] == (1, "row 4 of those with all fields")
    assert intake.own_bad == 1


# -- Parts -------------------------------------------------------------------------------------------------------------


@given(cuts=st.sets(st.integers(1, N - 1), max_size=5))
def test_rows_and_counts_do_not_depend_on_how_a_table_is_cut(table, cuts):
    asked = {"sensitive": ["sex", "region"], "weights": "w", "clusters": "person"}
    changed = with_values(table, hired={7: None, 300: None}, job={200: "pope"}, region={100: None})
    whole = settled(table, **asked)
    expected = whole.rows(changed)
    parts = settled(table, **asked)
    edges = [0, *sorted(cuts), N]
    rows = None
    for low, high in pairwise(edges):
        part = parts.rows(changed.slice(low, high - low))
        rows = part if rows is None else rows.followed_by(part)
    rows = rows.among(expected.groups)
    assert rows.same_as(expected)
    assert np.array_equal(rows.key, expected.key)
    assert parts.pack() == whole.pack()


@pytest.mark.parametrize("cut", [1, 150, N - 1])
def test_counts_of_two_parts_add(table, cut):
    changed = with_values(table, hired={7: None, 300: None}, job={200: "pope"})
    whole = settled(table)
    whole.rows(changed)
    first = settled(table)
    first.rows(changed.slice(0, cut))
    second = first.elsewhere(cut, first.place)
    assert second.read == 0
    assert bad(second) == {}
    second.rows(changed.slice(cut))
    total = first.elsewhere(0, first.place)
    for part in (first, second):
        total.add(part.pack())
    assert total.pack() == whole.pack()
    assert total.bad.to_dict() == whole.bad.to_dict()


def test_an_intake_can_be_sent_to_a_worker(table):
    source = columns().open(table, BadRows(100))
    intake = Intake(columns(), BadRows(100), source.place)
    intake.settle(table, columns().to_read(table.schema))
    sent = pickle.loads(pickle.dumps(intake))
    assert sent.rows(table).same_as(intake.rows(table))
    assert sent.pack() == intake.pack()


# -- read_all ----------------------------------------------------------------------------------------------------------


def test_read_all_returns_all_rows_and_what_was_counted(table, tmp_path):
    path = tmp_path / "people.csv"
    lines = table.to_pandas().to_csv(index=False).splitlines()
    lines.insert(9, "1,2")
    lines[40] = lines[40].rpartition(",")[0] + ","
    path.write_text("\n".join(lines) + "\n")
    rows, intake, _ = read_all(path, columns(weights="w"))
    assert rows.n == N - 1
    assert bad(intake) == {
        "too few fields": (1, "line 10: '1,2'"), "no label 'hired'": (1, "row 39 of those with all fields")
    }  # fmt: skip
    assert intake.read == N
    assert intake.missing["age"] == table["age"].null_count
    assert intake.encoder.names == rows.names.features
    with pytest.raises(ValueError, match="2 rows cannot be used, and the limit is 1"):
        read_all(path, columns(weights="w", max_bad_rows=1))


def test_the_first_chunk_of_a_stream_settles_features_for_all_rows(table):
    """A word, and a group, that first appear in a later chunk are not a feature, and are a group."""
    late = with_values(table, job=dict.fromkeys(range(350, N), "pope"), sex={390: "x"})
    rows, intake, _ = read_all(Pipe(late.to_pandas()), columns(), chunk=100)
    first, known, _ = read_all(late.slice(0, 100), columns())
    assert rows.names.features == first.names.features
    assert np.array_equal(rows.X[:100], first.X)
    assert intake.unseen["job"] == 50
    assert known.unseen["job"] == 0
    assert rows.groups.levels["sex"].values.tolist() == ["f", "m", "x"]
    assert rows.groups.levels["sex"].values[rows.group[390, 0]] == "x"
    whole, _, _ = read_all(late, columns())
    assert "job = pope" in whole.names.features
    assert N < CHUNK


# -- Columns that change -----------------------------------------------------------------------------------------------


def late(n=6_000, first=1_000):
    """Columns that change after the first rows, each in its own way, and one of each kind that does not."""
    rng = np.random.default_rng(0)
    i = np.arange(n)
    early = i < first
    x = rng.normal(size=n).round(3)
    word = rng.choice(["a", "b", "c"], n)
    return pd.DataFrame({
        "constant": np.where(early, 0, i % 2), "nearly": (i % np.where(early, 250, 3) == 0).astype(int),
        "missing": np.where(early, np.nan, x), "word": np.where(early, "here", word),
        "scale": np.where(early, 1.0, 1000.0) * x, "gaps": np.where(early | (i % 2 == 0), x, np.nan),
        "new": np.where(early, word, np.where(i % 3 == 0, "d", word)),
        "date": np.where(early, "2024-01-02", np.where(i % 2 == 0, "soon", "2024-03-04")),
        "id": [f"p{j}" if j < first else f"p{j % 5}" for j in i], "number": np.where(early, i, i % 7),
        "double": np.where(early, 2.0 * x, rng.normal(size=n)), "nothing": ["inf"] * first + ["1.5"] * (n - first),
        "x": x, "steady": rng.choice(["a", "b"], n), "zero": 0, "rare": (i % 300 == 0).astype(int),
        "who": [f"q{j}" for j in i],
        "sex": rng.choice(["f", "m"], n), "hired": rng.choice(["no", "yes"], n),
    })  # fmt: skip


STEADY = ["x", "steady", "zero", "rare", "who", "sex", "hired"]


@pytest.mark.parametrize("name", [name for name in late(100, 10) if name not in STEADY])
def test_a_column_of_a_stream_that_changes_after_the_first_chunk_is_found(name):
    _, intake, _ = read_all(Pipe(late()[[*STEADY, name]]), columns(), chunk=1_000)
    (found,) = intake.late_columns()
    assert found.forbids_verdict
    assert f"Columns change along the data: {name!r} " in found.message
    assert "of 6,000 rows" in found.message
    if name == "constant":
        assert "was left out (constant, 0 in the first 1,000 rows), but 2,500 of 6,000 rows contradict" in found.message


def test_columns_that_do_not_change_are_not_found():
    _, intake, _ = read_all(Pipe(late()[STEADY]), columns(), chunk=1_000)
    assert intake.changed["zero"] == 0
    assert intake.late_columns() == []


@pytest.mark.parametrize("form", ["frame", "csv", "file object"])
def test_columns_are_settled_on_rows_from_all_parts_of_data_that_can_be_read_again(form, tmp_path):
    table = late()
    table.to_csv(tmp_path / "late.csv", index=False)
    data = {
        "frame": table, "csv": tmp_path / "late.csv", "file object": io.BytesIO(table.to_csv(index=False).encode())
    }[form]  # fmt: skip
    rows, intake, _ = read_all(data, columns(), chunk=1_000)
    assert intake.late_columns() == []
    assert {"constant", "new = a", "missing", "double"} <= {*rows.names.features}
    assert intake.encoder.left_out["zero"] == "constant, 0 in 1,000 rows drawn from all"
    assert (rows.n, intake.read, intake.bad.total) == (6_000, 6_000, 0)


@pytest.mark.parametrize(("streams", "most"), [(50, 1), pytest.param(500, 5, marks=pytest.mark.slow)])
def test_rows_in_random_order_seldom_look_as_if_columns_change(streams, most):
    """The null model: rows in random order. With columns of all kinds, fewer than 2 % of the streams are reported."""
    rng = np.random.default_rng(0)
    found = 0
    for _ in range(streams):
        n = 2_000
        table = pa.table({
            "rare": (rng.random(n) < 0.0095).astype(int), "tails": rng.standard_t(2, n).round(6),
            "words": rng.zipf(1.5, n).clip(max=90).astype(str),
            "gaps": np.where(rng.random(n) < 0.005, np.nan, rng.normal(size=n)),
            "x": rng.normal(size=n), "hired": rng.choice(["no", "yes"], n), "sex": rng.choice(["f", "m"], n),
        })  # fmt: skip
        intake = Intake(columns(), BadRows(100), str)
        intake.settle(table.slice(0, 500), table.column_names, whole=False)
        intake.rows(table)
        found += len(intake.late_columns())
    assert found <= most, found


def test_read_all_refuses_data_without_rows(tmp_path):
    (tmp_path / "people.csv").write_text("age,sex,hired\n")
    with pytest.raises(ValueError, match="has columns but no rows"):
        read_all(tmp_path / "people.csv", columns())
