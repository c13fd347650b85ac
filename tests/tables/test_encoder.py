"""Columns become numbers by rules that are chosen on the warm-up rows and then stay fixed."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest

from surefair.tables.encoder import BUCKETS, MISSING, RARE, Features, as_numbers, as_words, plain_column

RNG = np.random.default_rng(0)


def words(**counts):
    """Return a shuffled column that has each word as often as its count says."""
    column = np.repeat([*counts], [*counts.values()])
    return np.random.default_rng(1).permutation(column).tolist()


def fit(**columns):
    return Features.fit(pa.table(columns))


def encode(features, **columns):
    return features.encode(pa.table(columns))


# -- Numbers -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("as_text", [False, True], ids=["numbers", "text of numbers"])
def test_a_number_is_standardised_by_the_warm_up_rows(as_text):
    values = RNG.normal(50.0, 12.0, 500)
    features = fit(age=list(map(repr, values.tolist())) if as_text else values)
    assert features.names == ("age",)
    X = encode(features, age=values).X
    np.testing.assert_allclose([X.mean(), X.std()], [0.0, 1.0], atol=1e-12)
    np.testing.assert_allclose(encode(features, age=[150.0]).X, (150.0 - values.mean()) / values.std())


def test_decimal_commas_are_refused_and_named():
    with pytest.raises(ValueError, match="Column 'x' seems to hold numbers with decimal commas, such as '0,5'"):
        fit(x=[f"{i},5" for i in range(100)])


def test_distinct_numbers_beside_a_frequent_word_are_not_decimal_commas():
    features = fit(x=[*(f"{i}.5" for i in range(100)), *["unknown"] * 50], y=words(a=75, b=75))
    assert features.columns["x"].role == "hashed"


@pytest.mark.parametrize("kind", [pa.int8(), pa.uint64(), pa.float16(), pa.float32(), pa.decimal128(22, 2), pa.bool_()])
def test_every_numeric_type_is_a_number(kind):
    values = np.arange(100) % 2
    column = pa.array(values).cast(kind) if kind != pa.float16() else pa.array(values.astype(np.float16))
    features = fit(x=column)
    assert features.columns["x"].role == "number"
    np.testing.assert_allclose(encode(features, x=column).X[:, 0], 2.0 * values - 1.0)


def test_a_missing_number_counts_as_the_mean_and_has_an_indicator_if_warm_up_rows_miss_some():
    values = RNG.normal(size=200)
    features = fit(x=values, y=np.where(np.arange(200) % 4 == 0, np.nan, values**2))
    assert features.names == ("x", "y", "y is missing")
    found = encode(features, x=[None, 0.0], y=[None, 1.0])
    assert found.X[0].tolist() == [0.0, 0.0, 1.0]
    assert found.X[1, 2] == 0.0
    assert found.missing["x"].tolist() == found.missing["y"].tolist() == [True, False]
    assert found.bad == {}


@pytest.mark.parametrize("value", [np.inf, -np.inf])
def test_an_infinite_number_makes_a_row_bad(value):
    values = np.r_[RNG.normal(size=200), value]
    features = fit(x=values)
    for column in (values, [value, 1.0]):
        found = encode(features, x=column)
        assert found.bad["column 'x' holds an infinite value"].tolist() == np.isinf(column).tolist()
        assert np.isfinite(found.X).all()
        assert not found.missing["x"].any()
    np.testing.assert_allclose(encode(features, x=values[:-1]).X.std(), 1.0)  # only finite values set the scale


def test_text_among_numbers_makes_a_row_bad():
    column = [str(i % 37) for i in range(200)]
    clean, mixed = fit(x=column), fit(x=[*column[:-2], "many", "few"])
    assert clean.names == mixed.names == ("x",)  # bad rows need no indicator
    for features in (clean, mixed):
        found = encode(features, x=["1", "many", None, "2"])
        assert found.bad["column 'x' holds text among numbers"].tolist() == [False, True, False, False]
        assert found.missing["x"].tolist() == [False, False, True, False]


def test_a_column_with_many_words_among_numbers_is_a_category():
    assert fit(x=["1", "2"] * 96 + ["many"] * 8).columns["x"].role == "number"
    assert fit(x=["1", "2"] * 90 + ["many"] * 20).columns["x"].role == "category"


# -- Categories --------------------------------------------------------------------------------------------------------


def test_a_category_has_an_indicator_for_each_value_except_the_most_common():
    column = words(clerk=50, cook=30, judge=20)
    features = fit(job=column)
    assert features.names == ("job = cook", "job = judge")
    expected = [[word == "cook", word == "judge"] for word in column]
    assert encode(features, job=column).X.tolist() == np.array(expected, dtype=float).tolist()


def test_rare_and_new_values_share_an_indicator():
    column = words(a=700, b=270, r1=6, r2=6, r3=6, r4=6, r5=6)
    features = fit(x=column)
    assert features.names == ("x = b", "x = (other)")
    found = encode(features, x=["a", "b", "r1", "r5", "never seen", None])
    assert found.X.tolist() == [[0, 0], [1, 0], [0, 1], [0, 1], [0, 1], [0, 1]]
    assert found.unseen["x"].tolist() == [False, False, False, False, True, False]
    assert found.missing["x"].tolist() == [False, False, False, False, False, True]


def test_a_rare_value_shares_its_indicator_with_the_next_rarest():
    """The shared indicator would otherwise be rare itself."""
    features = fit(x=words(a=800, b=150, c=48, r=2))
    assert features.names == ("x = b", "x = (other)")
    assert encode(features, x=["c", "r", "b"]).X.tolist() == [[0, 1], [0, 1], [1, 0]]


@pytest.mark.parametrize("order", [["a", "b"], ["b", "a"]], ids="".join)
def test_two_equally_common_values_with_a_rare_one(order):
    features = fit(x=[word for word in order for _ in range(498)] + ["r"] * 4)
    assert features.names == ("x = (other)",)
    assert encode(features, x=["a", "b", "r"]).X.tolist() == [[1.0], [0.0], [1.0]]


def test_no_indicator_is_rare_with_many_values():
    sizes = {f"v{i:02d}": 1 + i**2 // 4 for i in range(60)}
    column = words(**sizes)
    features = fit(x=column)
    assert encode(features, x=column).X.mean(axis=0).min() >= RARE


def test_no_indicator_is_rare_with_two_values():
    features = fit(x=words(a=998, b=2), y=RNG.normal(size=1000))
    assert encode(features, x=["b"], y=[0.0]).X.shape == (1, 1)


def test_new_values_count_as_the_most_common_if_there_is_no_shared_indicator():
    features = fit(x=words(a=60, b=40))
    found = encode(features, x=["a", "pilot"])
    assert found.X.tolist() == [[0.0], [0.0]]
    assert found.unseen["x"].tolist() == [False, True]


def test_a_missing_word_has_an_indicator_if_warm_up_rows_miss_some():
    features = fit(x=[*words(a=60, b=40), *[None] * 20])
    assert features.names == ("x is missing", "x = b")
    found = encode(features, x=[None, "b"])
    assert found.X.tolist() == [[1.0, 0.0], [0.0, 1.0]]
    assert found.missing["x"].tolist() == [True, False]
    assert not found.unseen["x"].any()


@pytest.mark.parametrize("kind", [pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string())])
def test_the_encoding_does_not_depend_on_the_type_of_text(kind):
    column = words(a=60, b=40)
    plain, other = fit(x=column), fit(x=pa.array(column).cast(kind))
    assert plain.names == other.names
    assert np.array_equal(encode(plain, x=column).X, encode(other, x=pa.array(column).cast(kind)).X)


# -- Hashes ------------------------------------------------------------------------------------------------------------

MANY = [f"w{i % 150}" for i in range(600)]


def test_a_column_with_many_values_is_hashed_into_signs():
    features = fit(x=MANY)
    assert features.columns["x"].role == "hashed"
    X = features.columns["x"].hasher.transform([[word] for word in MANY]).toarray()
    assert X.shape == (600, BUCKETS)
    assert (np.abs(X).sum(axis=1) == 1.0).all()
    kept = features.kept["x"]
    assert np.array_equal(encode(features, x=MANY).X, X[:, kept])
    assert features.names == tuple(f"x, hash {i}" for i in np.flatnonzero(kept))


def test_a_hash_is_the_same_in_a_process_with_another_hash_seed():
    code = (
        "import pyarrow as pa; from surefair.tables.encoder import Features; "
        "many = [f'w{i % 150}' for i in range(600)];"
        "print(Features.fit(pa.table({'x': many})).encode(pa.table({'x': ['w1', 'w77', 'new']})).X.tolist())"
    )
    found = encode(fit(x=MANY), x=["w1", "w77", "new"]).X.tolist()
    run = subprocess.run(
        [sys.executable, "-c", code], env={"PYTHONHASHSEED": "7", "PYTHONPATH": ":".join(sys.path)},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert run.stdout.strip() == str(found)


# -- Columns that are left out -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("column", "reason"),
    [
        ([5] * 100, "constant, 5 in every row"),
        (["5"] * 100, "constant, 5 in every row"),
        (["5"] * 99 + ["many"], "constant, 5 in every row"),
        (["yes"] * 100, "constant, 'yes' in every row"),
        ([None] * 100, "every value is missing"),
        ([np.inf] * 100, "no value is finite"),
        ([1.0] * 99 + [1e300], "values too large to standardise"),
        (["inf"] * 99 + ["many"], "no value is finite"),
        ([f"id{i}" for i in range(101)], "nearly every row has a different value"),
        (pa.array(range(100), pa.int32()).cast(pa.date32()), "of type date32[day], which is neither a number nor text"),
        (pa.array(range(100)).cast(pa.timestamp("s")), "of type timestamp[s], which is neither a number nor text"),
        (pa.array(range(100), pa.duration("s")), "of type duration[s], which is neither a number nor text"),
        ([[1, 2]] * 100, "of type list<item: int64>, which is neither a number nor text"),
        ([{"a": 1}] * 100, "of type struct<a: int64>, which is neither a number nor text"),
        ([b"a", b"b"] * 50, "of type binary, which is neither a number nor text"),
        (pa.array([b"a", b"b"] * 50, pa.large_binary()), "of type large_binary, which is neither a number nor text"),
        (pa.array([b"a", b"b"] * 50, pa.binary(1)), "of type fixed_size_binary[1], which is neither a number nor text"),
        (pa.array([b"\xff", b"b"] * 50).dictionary_encode(), "of type binary, which is neither a number nor text"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_a_useless_column_is_left_out_with_the_reason(column, reason):
    n = len(column)
    features = Features.fit(pa.table({"x": np.arange(n) % 7.0, "useless": column}))
    assert features.names == ("x",)
    assert features.left_out == {"useless": reason}
    assert features.encode(pa.table({"x": [3.0], "useless": column[:1]})).bad == {}


def test_the_error_gives_every_reason_if_no_column_is_left():
    with pytest.raises(ValueError, match=r"No column is left to learn from \('a': constant, 5 .*; 'b': every value"):
        fit(a=[5] * 50, b=[None] * 50)


def test_columns_that_hardly_vary_are_an_error():
    with pytest.raises(ValueError, match="No column is left to learn from: 'a' hardly vary"):
        fit(a=[1e-300, -1e-300] * 50)  # the variance underflows to 0


def test_features_that_follow_from_earlier_ones_are_left_out():
    x, z = RNG.normal(size=(2, 500))
    job = np.where(x > 0, "cook", "clerk")
    features = fit(x=x, twice=3.0 - 2.0 * x, z=z, sum=x + z, job=job, same=np.where(x > 0, "A", "B"))
    assert features.names == ("x", "z", "job = cook" if (job == "clerk").mean() > 0.5 else "job = clerk")
    assert [name for name, kept in features.kept.items() if not kept.any()] == ["twice", "sum", "same"]
    assert encode(features, x=x, twice=x, z=z, sum=x, job=job, same=job).X.shape == (500, 3)


def test_a_feature_is_left_out_if_it_nearly_follows_from_others():
    x, noise = np.random.default_rng(3).normal(size=(2, 5000))
    assert fit(x=x, y=x + 0.05 * noise).names == ("x",)
    assert fit(x=x, y=x + 0.2 * noise).names == ("x", "y")


def test_only_the_named_columns_are_used_in_the_order_given():
    table = pa.table({"a": RNG.normal(size=50), "b": RNG.normal(size=50), "c": RNG.normal(size=50)})
    assert Features.fit(table, ["c", "a"]).names == ("c", "a")


# -- Only the warm-up rows count ---------------------------------------------------------------------------------------


def mixed_table(n, seed):
    rng = np.random.default_rng(seed)
    return pa.table({
        "x": np.where(rng.random(n) < 0.1, np.nan, rng.normal(size=n)),
        "text": [["1", "2.5", "NAN", "3"][i] for i in rng.integers(0, 4, n)],
        "job": rng.choice(["clerk", "cook", "judge", "r1", "r2"], n, p=[0.5, 0.3, 0.19, 0.005, 0.005]),
        "many": [f"w{i}" for i in rng.integers(0, 150, n)],
    })  # fmt: skip


def test_the_encoding_of_a_row_does_not_depend_on_other_rows():
    features, later = Features.fit(mixed_table(1000, 0)), mixed_table(300, 1)
    strange = pa.table({"x": [np.inf], "text": ["words"], "job": ["pilot"], "many": ["new"]})
    whole = features.encode(later)
    around = features.encode(pa.concat_tables([strange, later, strange], promote_options="permissive"))
    assert np.array_equal(around.X[1:-1], whole.X)
    for name in ("x", "text", "job", "many"):
        assert np.array_equal(around.missing[name][1:-1], whole.missing[name])
    assert [bad[1:-1].any() for bad in around.bad.values()] == [False, False]
    pieces = [features.encode(later.slice(start, 1)).X for start in range(300)]
    assert np.array_equal(np.concatenate(pieces), whole.X)


def test_encode_does_not_change_the_features():
    features, first, later = Features.fit(mixed_table(1000, 0)), mixed_table(100, 1), mixed_table(100, 2)
    before = features.encode(first).X
    features.encode(later)
    assert np.array_equal(features.encode(first).X, before)
    again = Features.fit(mixed_table(1000, 0))
    assert again.names == features.names
    assert np.array_equal(again.encode(first).X, before)


# -- Words and numbers of a column -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        (["a", None, "b", "a"], ["a", MISSING, "b", "a"]),
        ([1, None, 0], ["1", MISSING, "0"]),
        ([1.0, float("nan"), None, 0.5], ["1", MISSING, MISSING, "0.5"]),
        ([True, None, False], ["true", MISSING, "false"]),
        (pa.array(["a", None, "b"]).dictionary_encode(), ["a", MISSING, "b"]),
    ],
)
def test_as_words_names_every_value(column, expected):
    code, found = as_words(plain_column(pa.table({"x": column}), "x"))
    assert found[code].tolist() == expected
    assert len(set(found.tolist())) == len(found)


@pytest.mark.parametrize("extra", [[], ["words"]], ids=["alone", "among words"])
def test_text_for_nan_is_missing_and_not_wrong(extra):
    values, wrong = as_numbers(pa.array(["1.5", "NAN", None, "-2e3", *extra]))
    assert values[[0, 3]].tolist() == [1.5, -2000.0]
    assert np.isnan(values[[1, 2]]).all()
    if extra:
        assert wrong.tolist() == [False, False, False, False, True]
    else:
        assert wrong is None
