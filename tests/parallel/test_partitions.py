"""Partitions of the rows, each fitted where it lies and merged: bit-identical everywhere, with the law of one pass."""

from __future__ import annotations

import warnings
from functools import partial

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from fits import APART, FORMS, N, classifier, on, sample, state_of
from scipy.sparse import csr_matrix

import surefair as sf
from surefair.diagnostics import LateGroup, StartNotForgotten
from surefair.parallel import fit_partitions, fit_shards, shard_seed
from surefair.parallel import partitions as partitions_module
from surefair.tables.intake import Columns, read_all

# -- fit_shards --------------------------------------------------------------------------------------------------------


def partitions(n=3, weighted=False, seed=5):
    X, y, z, w = sample(seed=seed)
    return [(X[i::n], y[i::n], z[i::n], *([w[i::n]] if weighted else [])) for i in range(n)]


def apart(groups=2):
    X, y, z, _ = sample(groups)
    return X[:APART], y[:APART], z[:APART]


def same(part):
    return part


@pytest.mark.slow
@pytest.mark.parametrize("name", ["slab", "penalty", "soft rates"])
def test_shards_are_bit_identical_on_every_joblib_backend(name):
    parts = partitions(weighted=True)
    states = []
    for backend, form in [(None, parts), ("threading", iter(parts)), ("loky", [partial(same, p) for p in parts])]:
        clf = classifier(**FORMS[name])
        with on(backend):
            assert fit_shards(clf, form, constraint_set=apart()) is clf
        states.append(state_of(clf))
    assert states[0] == states[1] == states[2]
    assert clf.n_rows_ == N
    assert clf.get_params() == classifier(**FORMS[name]).get_params()
    assert clf.group_counts_["n"].sum() == N


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "sparse"), [*((name, False) for name in FORMS), ("slab", True), ("several slabs", True)]
)
def test_one_shard_is_a_fit_with_the_seed_of_that_shard(name, sparse):
    params = dict(FORMS[name])
    groups = params.pop("groups", 2)
    X, y, z, w = sample(groups, seed=5)
    A, b, c = apart(groups)
    if sparse:
        X = csr_matrix(X)
        A = csr_matrix(A)
    one = classifier(**params, random_state=shard_seed(3, 0))
    one.fit(X, y, sensitive_features=z, sample_weight=w, constraint_set=(A, b, c))
    found = fit_shards(classifier(**params), [(X, y, z, w)], constraint_set=(A, b, c))
    assert state_of(found) == state_of(one)
    assert np.array_equal(found.coef_replicates_, one.coef_replicates_)


def test_shards_are_merged_in_their_order():
    parts = partitions()
    by_hand = [
        classifier(random_state=shard_seed(3, i)).fit(X, y, sensitive_features=z, constraint_set=apart())
        for i, (X, y, z) in enumerate(parts)
    ]
    expected = by_hand[0].merge(by_hand[1]).merge(by_hand[2])
    assert state_of(fit_shards(classifier(), parts, constraint_set=apart())) == state_of(expected)


def test_every_shard_of_every_classifier_has_another_seed():
    seeds = {shard_seed(state, number) for state in range(20) for number in range(50)}
    assert len(seeds) == 1000
    free = [fit_shards(classifier(random_state=None), partitions(), constraint_set=apart()) for _ in range(2)]
    assert not np.array_equal(free[0].coef_replicates_, free[1].coef_replicates_)
    assert np.array_equal(free[0].coef_, free[1].coef_)


def test_a_partition_without_rows_changes_nothing():
    parts = partitions(2)
    empty = tuple(part[:0] for part in parts[0])
    full, with_empty = (fit_shards(classifier(), p, constraint_set=apart()) for p in (parts, [*parts, empty]))
    assert with_empty.n_rows_ == full.n_rows_
    np.testing.assert_allclose(with_empty.coef_replicates_, full.coef_replicates_, rtol=1e-11, atol=1e-13)


SOURCES = {"slab": sf.datasets.SyntheticDI, "penalty": sf.datasets.SyntheticDM}


def drawn(source, seed, n):
    data = source(seed=seed).sample(n)
    return data.X.to_numpy(), np.asarray(data.y), np.asarray(data.sensitive)


@pytest.mark.parametrize("name", SOURCES)
def test_shards_and_one_pass_have_similar_estimates_and_spreads(name):
    (X, y, z), D, test = (drawn(SOURCES[name], seed, n) for seed, n in enumerate([48_000, 1_000, 2_000]))
    one = classifier(**FORMS[name], n_replicates=200)
    clf = classifier(**FORMS[name], n_replicates=200)
    one.fit(X, y, sensitive_features=z, constraint_set=D)
    with warnings.catch_warnings():
        warnings.simplefilter("error", StartNotForgotten)
        fit_shards(clf, [(X[i::3], y[i::3], z[i::3]) for i in range(3)], constraint_set=D)
    spread, other = (c.coef_replicates_.std(axis=0) for c in (one, clf))
    # Two independent fits would differ by about √2 standard deviations; these have seen the same rows.
    assert (np.abs(clf.coef_ - one.coef_)[0] < spread).all()
    # A standard deviation from 200 replicates has a relative error of 1/√400; this is four times that of a ratio.
    assert (np.abs(np.log(other / spread)) < 4.0 / np.sqrt(200)).all()
    ask = [c.fairness_interval(*test[:2], sensitive_features=test[2]) for c in (one, clf)]
    assert abs(ask[0].estimate - ask[1].estimate) < ask[0].high - ask[0].low


def test_a_warning_says_if_shards_are_too_short_to_forget_their_start(tmp_path):
    # The labels are almost separable, so the flattest direction takes about 100,000 rows.
    X, y, z = drawn(sf.datasets.SyntheticDI, 0, 24_000)
    D = drawn(sf.datasets.SyntheticDI, 1, 1_000)
    one = classifier(**FORMS["penalty"]).fit(X, y, sensitive_features=z, constraint_set=D)
    clf = classifier(**FORMS["penalty"])
    with pytest.warns(StartNotForgotten, match="in merged fits, on more rows in each part"):
        fit_shards(clf, [(X[i::10], y[i::10], z[i::10]) for i in range(10)], constraint_set=D)
    assert (clf.coef_replicates_.std(axis=0) < 0.7 * one.coef_replicates_.std(axis=0)).all()
    sf.save(clf, tmp_path / "clf.npz")
    with pytest.warns(StartNotForgotten):
        sf.load(tmp_path / "clf.npz").coef_interval()


def missing():
    raise FileNotFoundError("part-7.parquet")


@pytest.mark.parametrize("backend", ["threading", "loky"])
def test_an_error_names_its_partition(backend):
    parts = partitions()
    clf = classifier()
    X, y, z = parts[1]
    bad = [parts[0], (np.where(X > 2.0, np.nan, X), y, z), parts[2]]
    with on(backend):
        with pytest.raises(ValueError, match=r"Partition 1: Input X contains NaN"):
            fit_shards(clf, bad, constraint_set=apart())
        with pytest.raises(ValueError, match=r"Partition 2: Rows must come as a tuple .*received tuple of 2 parts"):
            fit_shards(clf, [*parts[:2], (X, y)], constraint_set=apart())
        with pytest.raises(FileNotFoundError) as caught:
            fit_shards(clf, [parts[0], missing], constraint_set=apart())
    assert "It was raised by partition 1." in caught.value.__notes__
    assert not hasattr(clf, "classes_")


def test_errors_about_shards_and_constraint_sets():
    X, y, z = apart()
    with pytest.raises(ValueError, match="There are no partitions"):
        fit_shards(classifier(), [], constraint_set=(X, y, z))
    with pytest.raises(ValueError, match=r"constraint_set must be a tuple .* received 2 parts"):
        fit_shards(classifier(), partitions(), constraint_set=(X, y))
    with pytest.raises(ValueError, match=r"constraint_set: It must have both labels; received only \[1\]"):
        fit_shards(classifier(), partitions(), constraint_set=(X[y == 1], y[y == 1], z[y == 1]))
    with pytest.raises(ValueError, match=r"constraint_set: .*NaN"):
        fit_shards(classifier(), partitions(), constraint_set=(np.full_like(X, np.nan), y, z))


# -- Merging -----------------------------------------------------------------------------------------------------------


def without_rows():
    """Fit with a constraint set and no rows."""
    return fit_shards(classifier(random_state=9), [tuple(part[:0] for part in apart())], constraint_set=apart())


def shard(number):
    X, y, z = partitions()[number]
    return classifier(random_state=number).fit(X, y, sensitive_features=z, constraint_set=apart())


def test_merging_a_fit_without_rows_changes_nothing():
    expected = shard(0)
    for found in (shard(0).merge(without_rows()), without_rows().merge(shard(0))):
        assert found.n_rows_ == expected.n_rows_
        np.testing.assert_allclose(found.coef_, expected.coef_, rtol=1e-12, atol=1e-14)
        np.testing.assert_allclose(found.coef_replicates_, expected.coef_replicates_, rtol=1e-11, atol=1e-13)
        assert found.group_counts_["n"].tolist() == expected.group_counts_["n"].tolist()


# -- fit_partitions ----------------------------------------------------------------------------------------------------


FEATURES = ["a", "b", "c"]
ROLES = {"label": "hired", "sensitive": "sex", "features": FEATURES}


def people(n, seed):
    """Make a table with groups as text and as numbers, words, and weights."""
    rng = np.random.default_rng(seed)
    sex = rng.integers(2, size=n)
    X = rng.normal(size=(n, 3)) + 0.4 * sex[:, None]
    y = X.sum(axis=1) + rng.logistic(size=n) > 0.5
    table = pd.DataFrame(X, columns=FEATURES)
    return table.assign(
        hired=np.where(y, "yes", "no"), sex=np.where(sex == 1, "m", "f"), weight=rng.exponential(size=n)
    )


def by_shards(parts, constraint_set):
    """Fit the same partitions with ``fit_shards``."""
    tuples = [(part[FEATURES], part["hired"], part[["sex"]]) for part in (constraint_set, *parts)]
    return fit_shards(classifier(), tuples[1:], constraint_set=tuples[0])


def write_files(parts, folder):
    """Write Parquet files, and return their paths."""
    for number, part in enumerate(parts):
        part.to_parquet(folder / f"part-{number}.parquet", row_group_size=70)
    return [folder / f"part-{number}.parquet" for number in range(len(parts))]


@pytest.mark.parametrize("n_jobs", [None, 2])
def test_partitions_can_be_frames_batches_paths_or_functions(tmp_path, n_jobs):
    parts = [people(300, seed) for seed in (1, 2, 3)]
    D = people(150, 0)
    tables = [pa.Table.from_pandas(part) for part in parts]
    paths = write_files(parts, tmp_path)
    expected = by_shards(parts, D)
    for data in (
        parts,
        iter(tables),
        [table.combine_chunks().to_batches()[0] for table in tables],
        [table.to_batches(41) for table in tables],
        paths,
        map(str, paths),
        [partial(pd.read_parquet, path) for path in paths],
    ):
        found = fit_partitions(classifier(n_jobs=n_jobs), data, **ROLES, constraint_set=D)
        assert state_of(found) == state_of(expected)


def test_workers_do_not_send_the_constraint_set_back(monkeypatch):
    sizes = []
    send = partitions_module.send

    def measured(*args):
        sent = send(*args)
        sizes.append(len(sent))
        return sent

    monkeypatch.setattr(partitions_module, "send", measured)
    D = people(20_000, 0)
    fit_partitions(classifier(n_replicates=0), [people(300, 1), people(300, 2)], **ROLES, constraint_set=D)
    assert len(sizes) == 2
    assert max(sizes) < 20_000 < D[FEATURES].to_numpy().nbytes


def test_the_error_names_the_file_and_row_of_a_bad_value(tmp_path):
    def fit_with(column, row, value):
        part = people(300, 2)
        part.loc[row - 1, column] = value
        paths = write_files([people(300, 1), part], tmp_path)
        return fit_partitions(classifier(), paths, **asked, constraint_set=people(150, 0))

    asked = {**ROLES, "weights": "weight"}
    for column, row, value, words in [
        ("a", 1, np.nan, "no finite number in 'a'"),
        ("c", 300, np.inf, "no finite number in 'c'"),
        ("hired", 71, "perhaps", "The label column contains undeclared values: 'perhaps'"),
        ("sex", 18, None, r"The 'sex' group column contains NaN or missing values\. Drop"),
        ("weight", 200, -1.0, r"sample_weight is negative: -1\.0"),
    ]:
        with pytest.raises(ValueError, match=rf"^Partition 1, row {row} \(of file part-1.parquet\): {words}"):
            fit_with(column, row, value)


def test_an_error_about_a_whole_column_names_no_row(tmp_path):
    part = people(300, 2)
    D = people(150, 0)
    for wrong, words in [
        (part.drop(columns="b"), "There is no column 'b'; the columns are 'a', 'c', "),
        (part.assign(b="x"), "Column 'b' has type String, and features must be numbers.*surefair audit"),
        (part.assign(sex=1), "The 'sex' group columns have different types"),
        (part.assign(b=np.nan), "Input X contains NaN"),
        (part.to_numpy(), "Rows must come as data frames or Arrow tables; received ndarray"),
    ]:
        with pytest.raises(ValueError, match=f"^Partition 1: {words}"):
            fit_partitions(classifier(), [part, wrong], **ROLES, constraint_set=D)
    (tmp_path / "part.parquet").write_bytes(b"no")
    with pytest.raises(ValueError, match=r"^Partition 0 \(of file part.parquet\): "):
        fit_partitions(classifier(), [tmp_path / "part.parquet"], **ROLES, constraint_set=D)
    with pytest.raises(FileNotFoundError) as caught:
        fit_partitions(classifier(), [tmp_path / "absent.parquet"], **ROLES, constraint_set=D)
    assert caught.value.__notes__ == ["It was raised by partition 0."]


def test_errors_about_partitions_and_constraint_sets():
    part = people(300, 1)
    D = people(150, 0)
    fit = partial(fit_partitions, classifier(), [part], label="hired", sensitive="sex")
    with pytest.raises(ValueError, match="constraint_set: There is no column 'hired'"):
        fit(constraint_set=D.drop(columns="hired"))
    with pytest.raises(ValueError, match="constraint_set: Column 'd' has type String"):
        fit(constraint_set=D.assign(d="x"))
    with pytest.raises(ValueError, match=r"constraint_set: Rows must come as data frames .* received tuple"):
        fit(constraint_set=(1, 2, 3))
    with pytest.raises(ValueError, match="There are no partitions"):
        fit_partitions(classifier(), [], **ROLES, constraint_set=D)


def test_this_process_warns_about_a_late_group_on_a_worker():
    parts = [people(300, 1), people(300, 2)]
    parts[1].loc[5:9, "sex"] = "x"
    with pytest.warns(LateGroup, match="'x' of 'sex' was not in the constraint set") as caught:
        clf = fit_partitions(classifier(n_jobs=2), parts, **ROLES, constraint_set=people(150, 0))
    (late,) = (one for one in caught if one.category is LateGroup)
    assert late.filename == __file__
    assert clf.group_counts_["n"].sum() == 600
    assert "x" in clf.group_counts_["group"].tolist()


# -- fit_partitions that encodes columns -------------------------------------------------------------------------------


def applicants(n, seed):
    """Make a table with words, a column of numbers with missing values, a constant, and an identifier."""
    rng = np.random.default_rng(seed)
    table = people(n, seed)
    table["a"] = table["a"].mask(rng.random(n) < 0.05)
    table["job"] = rng.choice(["clerk", "cook", "judge"], n)
    table["country"] = "here"
    table["id"] = [f"{seed}-{i}" for i in range(n)]
    return table


@pytest.fixture
def D(tmp_path):
    """Path of a CSV file with the constraint set."""
    applicants(400, 0).to_csv(tmp_path / "D.csv", index=False)
    return tmp_path / "D.csv"


ENCODED = {"label": "hired", "sensitive": "sex", "drop": ["weight"]}


def test_with_a_path_as_constraint_set_columns_are_encoded_as_an_audit_does(D):
    """The fit is bit-identical to one of rows that were read and encoded before."""
    parts = [applicants(300, seed) for seed in (1, 2)]
    clf = classifier()
    assert fit_partitions(clf, parts, **ENCODED, constraint_set=D) is clf
    rows, intake = read_all(D, Columns(**ENCODED))
    assert clf.encoder_.names == intake.encoder.names == tuple(clf.feature_names_in_)
    assert {name.split(" ")[0] for name in clf.encoder_.names} == {"a", "b", "c", "job"}
    assert clf.encoder_.left_out == {
        "country": "constant, 'here' in every row", "id": "nearly every row has a different value"
    }  # fmt: skip

    def as_tuple(table, X):
        return pd.DataFrame(X, columns=intake.encoder.names), table["hired"], table[["sex"]]

    tuples = [as_tuple(part, intake.encoder.encode(pa.Table.from_pandas(part)).X) for part in parts]
    expected = fit_shards(classifier(), tuples, constraint_set=as_tuple(pd.read_csv(D), rows.X))
    assert state_of(clf) == state_of(expected)
    assert clf.classes_.tolist() == ["no", "yes"]
    pd.testing.assert_frame_equal(clf.group_counts_, expected.group_counts_)
    new = applicants(50, 9)
    X = clf.encoder_.encode(pa.Table.from_pandas(new)).X
    assert np.isfinite(X).all()
    decisions = clf.predict(pd.DataFrame(X, columns=clf.encoder_.names))
    assert np.mean(decisions == new["hired"]) > 0.6


@pytest.mark.parametrize("n_jobs", [None, 2])
def test_encoded_partitions_can_be_files_of_any_kind_frames_batches_or_functions(D, tmp_path, n_jobs):
    parts = [applicants(300, seed) for seed in (1, 2)]
    paths = write_files(parts, tmp_path)
    for number, part in enumerate(parts):
        part.to_csv(tmp_path / f"part-{number}.csv.gz", index=False)
    expected = fit_partitions(classifier(), parts, **ENCODED, constraint_set=D)
    for data in (
        paths,
        [str(tmp_path / f"part-{number}.csv.gz") for number in range(2)],
        [pa.Table.from_pandas(part) for part in parts],
        [pa.Table.from_pandas(part).to_batches(41) for part in parts],
        [partial(pd.read_parquet, path) for path in paths],
    ):
        found = fit_partitions(classifier(n_jobs=n_jobs), data, **ENCODED, constraint_set=str(D))
        assert state_of(found) == state_of(expected)


def test_encoded_columns_can_be_chosen(D):
    parts = [applicants(300, 1)]
    roles = {"label": "hired", "sensitive": ["sex"], "constraint_set": D}
    clf = fit_partitions(classifier(), parts, **roles, features=["b", "job"], weights="weight", positive="no")
    assert {name.split(" ")[0] for name in clf.encoder_.names} == {"b", "job"}
    assert clf.classes_.tolist() == ["yes", "no"]
    assert clf.model_.fit.weight == pytest.approx(parts[0]["weight"].sum())
    with pytest.raises(ValueError, match=r"Unknown column for drop: 'jbo'\. Did you mean 'job'\?"):
        fit_partitions(classifier(), parts, **roles, drop=["jbo"])


def test_an_encoded_partition_without_rows_changes_nothing(D):
    parts = [applicants(300, seed) for seed in (1, 2)]
    expected = fit_partitions(classifier(), parts, **ENCODED, constraint_set=D)
    batches = pa.Table.from_pandas(parts[1]).to_batches(150)
    with_empty = [parts[0], [batches[0], batches[1].slice(0, 0), batches[1]], parts[0][:0]]
    assert state_of(fit_partitions(classifier(), with_empty, **ENCODED, constraint_set=D)) == state_of(expected)


def test_bad_rows_of_an_encoded_partition_are_counted_up_to_the_limit(D, tmp_path):
    """Those that the reader refuses and those that have no label count together."""
    part = applicants(300, 1)
    part.loc[[17, 120], "hired"] = None
    lines = part.to_csv(index=False).splitlines()
    lines.insert(9, "1,2")
    (tmp_path / "part.csv").write_text("\n".join(lines) + "\n")
    parts = [applicants(300, 2), tmp_path / "part.csv"]
    clf = fit_partitions(classifier(), parts, **ENCODED, constraint_set=D, max_bad_rows=3)
    assert clf.n_rows_ == 600 - 2
    message = r"^Partition 1 \(of file part\.csv\): 3 rows cannot be used, and the limit is 2\. no label 'hired': 2"
    with pytest.raises(ValueError, match=message):
        fit_partitions(classifier(), parts, **ENCODED, constraint_set=D, max_bad_rows=2)
    in_batches = [pa.Table.from_pandas(part).to_batches(100)]
    with pytest.raises(
        ValueError, match=r"^Partition 0: 2 rows cannot be used, and the limit is 1\..* first in row 18"
    ):
        fit_partitions(classifier(), in_batches, **ENCODED, constraint_set=D, max_bad_rows=1)
    with pytest.raises(ValueError, match=r"^Partition 1 .*1 row cannot be used, and the limit is 0"):
        fit_partitions(classifier(), parts, **ENCODED, constraint_set=D)
