"""Partitions of the rows, each fitted where it lies and merged: bit-identical everywhere, with the law of one pass."""

from __future__ import annotations

from functools import partial

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from fits import APART, FORMS, PAPER, SOME, N, classifier, n_first, on, sample, state_of
from scipy.sparse import csr_matrix

import surefair as sf
from surefair.classifier import begin
from surefair.diagnostics import LateColumn, LateGroup, SmallGroup, StartNotForgotten
from surefair.parallel import fit_partitions, fit_shards, shard_seed
from surefair.parallel import partitions as partitions_module
from surefair.tables.intake import Columns, read_all
from surefair.training.parameters import draw_seed

# -- fit_shards --------------------------------------------------------------------------------------------------------


def partitions(n=3, weighted=False, seed=5):
    X, y, z, w = sample(seed=seed)
    return [(X[i::n], y[i::n], z[i::n], *([w[i::n]] if weighted else [])) for i in range(n)]


def first(groups=2, n=APART):
    """Warm-up rows."""
    X, y, z, _ = sample(groups)
    return X[:n], y[:n], z[:n]


def same(part):
    return part


@pytest.mark.slow
@pytest.mark.parametrize("name", ["equality", "penalty", "predictive values", "fixed slab", "fixed penalty"])
def test_shards_are_bit_identical_on_every_joblib_backend(name):
    parts = partitions(weighted=True)
    states = []
    for backend, form in [(None, parts), ("threading", iter(parts)), ("loky", [partial(same, p) for p in parts])]:
        clf = classifier(**FORMS[name])
        with on(backend):
            assert fit_shards(clf, form, warmup=first()) is clf
        states.append(state_of(clf))
    assert states[0] == states[1] == states[2]
    assert clf.get_params() == classifier(**FORMS[name]).get_params()


@pytest.mark.parametrize("name", SOME)
def test_warm_up_rows_count_once_unless_they_fix_the_constraint(name):
    params = dict(FORMS[name])
    groups = params.pop("groups", 2)
    X, y, z, _ = sample(groups, seed=5)
    found = fit_shards(classifier(**params), [(X[i::3], y[i::3], z[i::3]) for i in range(3)], warmup=first(groups))
    assert found.n_rows_ == N + (0 if "step_size" in params else APART)
    assert found.model_.fit.weight == found.n_rows_
    expected = np.bincount(z if "step_size" in params else np.concatenate([z, first(groups)[2]]))
    assert found.group_counts_["n"].tolist() == expected.tolist()


def by_hand(params, beginning, part, number):
    """Fit one shard: the warm-up rows, and then its own rows, with its own weights for the replicates."""
    X, y, z = beginning
    clf = classifier(**params).partial_fit(X, y, sensitive_features=z)
    clf.model_ = clf.model_.reseed(draw_seed(shard_seed(3, number)))
    X, y, z, *w = part
    return clf.partial_fit(X, y, sensitive_features=z, sample_weight=w[0] if w else None)


@pytest.mark.slow
@pytest.mark.parametrize("name", FORMS)
def test_one_shard_is_a_fit_with_the_seed_of_that_shard(name):
    params = dict(FORMS[name])
    groups = params.pop("groups", 2)
    part = sample(groups, seed=5)
    warmup = first(groups, APART if "step_size" in params else n_first(groups))
    one = by_hand(params, warmup, part, 0)
    found = fit_shards(classifier(**params), [part], warmup=warmup)
    assert state_of(found) == state_of(one)
    assert np.array_equal(found.coef_replicates_, one.coef_replicates_)


def test_one_shard_of_sparse_rows_is_a_fit_with_the_seed_of_that_shard():
    X, y, z, w = sample(seed=5)
    A, b, c = first()
    one = by_hand({}, (csr_matrix(A), b, c), (csr_matrix(X), y, z, w), 0)
    found = fit_shards(classifier(), [(csr_matrix(X), y, z, w)], warmup=(csr_matrix(A), b, c))
    assert state_of(found) == state_of(one)


@pytest.mark.parametrize("name", ["equality", "fixed slab"])
def test_shards_are_merged_in_their_order(name):
    parts = partitions()
    one, two, three = (by_hand(FORMS[name], first(), part, i) for i, part in enumerate(parts))
    expected = one.merge(two).merge(three)
    assert state_of(fit_shards(classifier(**FORMS[name]), parts, warmup=first())) == state_of(expected)


def test_every_shard_of_every_classifier_has_another_seed():
    seeds = {shard_seed(state, number) for state in range(20) for number in range(50)}
    assert len(seeds) == 1000
    free = [fit_shards(classifier(random_state=None), partitions(), warmup=first()) for _ in range(2)]
    assert not np.array_equal(free[0].coef_replicates_, free[1].coef_replicates_)
    assert np.array_equal(free[0].coef_, free[1].coef_)


def test_a_partition_without_rows_changes_nothing():
    parts = partitions(2)
    empty = tuple(part[:0] for part in parts[0])
    full, with_empty = (fit_shards(classifier(), p, warmup=first()) for p in (parts, [*parts, empty]))
    assert with_empty.n_rows_ == full.n_rows_
    np.testing.assert_allclose(with_empty.coef_replicates_, full.coef_replicates_, rtol=1e-11, atol=1e-13)


SOURCES = {"equality": sf.datasets.SyntheticDI, "error rates": sf.datasets.SyntheticDM}
WITHIN = {"equality": 0.0, "error rates": 0.05}  # equal error rates would leave nothing but constant decisions


def drawn(source, seed, n):
    data = source(seed=seed).sample(n)
    return data.X.to_numpy(), np.asarray(data.y), np.asarray(data.sensitive)


@pytest.mark.parametrize("name", SOURCES)
def test_shards_and_one_pass_have_similar_estimates_and_spreads(name):
    (X, y, z), test = (drawn(SOURCES[name], seed, n) for seed, n in enumerate([52_000, 2_000]))
    params = FORMS[name] | {"tolerance": WITHIN[name], "n_replicates": 200}
    one = classifier(**params, n_warmup=4_000).fit(X, y, sensitive_features=z)
    clf = classifier(**params)
    beginning, *parts = [tuple(column[rows] for column in (X, y, z)) for rows in
                         (slice(4_000), *(slice(4_000 + i, None, 3) for i in range(3)))]  # fmt: skip
    fit_shards(clf, parts, warmup=beginning)
    assert clf.n_rows_ == one.n_rows_
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
    one = classifier(step_size=PAPER, n_warmup=1_000).partial_fit(*D[:2], sensitive_features=D[2])
    one.partial_fit(X, y, sensitive_features=z)
    clf = classifier(step_size=PAPER)
    with pytest.warns(StartNotForgotten, match="in merged fits, on more rows in each part"):
        fit_shards(clf, [(X[i::10], y[i::10], z[i::10]) for i in range(10)], warmup=D)
    assert (np.abs(clf.coef_ - one.coef_)[0] > 3.0 * clf.coef_replicates_.std(axis=0)).all()
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
            fit_shards(clf, bad, warmup=first())
        with pytest.raises(ValueError, match=r"Partition 2: Rows must come as a tuple .*received tuple of 2 parts"):
            fit_shards(clf, [*parts[:2], (X, y)], warmup=first())
        with pytest.raises(FileNotFoundError) as caught:
            fit_shards(clf, [parts[0], missing], warmup=first())
    assert "It was raised by partition 1." in caught.value.__notes__
    assert not hasattr(clf, "classes_")


def test_errors_about_shards_and_warm_up_rows():
    X, y, z = first()
    with pytest.raises(ValueError, match="There are no partitions"):
        fit_shards(classifier(), [], warmup=(X, y, z))
    with pytest.raises(ValueError, match=r"warmup must be a tuple .* received 2 parts"):
        fit_shards(classifier(), partitions(), warmup=(X, y))
    with pytest.raises(ValueError, match=r"warmup: It must have both labels; received only \[1\]"):
        fit_shards(classifier(), partitions(), warmup=(X[y == 1], y[y == 1], z[y == 1]))
    with pytest.raises(ValueError, match=r"warmup: .*NaN"):
        fit_shards(classifier(), partitions(), warmup=(np.full_like(X, np.nan), y, z))


# -- Merging -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("params", [{}, {"step_size": PAPER}], ids=["learnt", "fixed"])
def test_merging_a_fit_without_rows_of_its_own_changes_nothing(params):
    X, y, z, _ = sample(n=4_000)

    def begun():
        return begin(classifier(**params), (X[:1_000], y[:1_000], z[:1_000]))

    def shard():
        clf = begun()
        clf.model_ = clf.model_.reseed(7)
        return clf.partial_fit(X[1_000:], y[1_000:], sensitive_features=z[1_000:])

    expected = shard()
    for found in (shard().merge(begun()), begun().merge(shard())):
        assert found.n_rows_ == expected.n_rows_
        np.testing.assert_allclose(found.coef_, expected.coef_, rtol=1e-11, atol=1e-13)
        np.testing.assert_allclose(found.coef_replicates_, expected.coef_replicates_, rtol=1e-11, atol=1e-13)
        assert found.group_counts_["n"].tolist() == expected.group_counts_["n"].tolist()


# -- fit_partitions ----------------------------------------------------------------------------------------------------


FEATURES = ["a", "b", "c"]
ROLES = {"label": "hired", "sensitive": "sex", "features": FEATURES}


def people(n, seed):
    """Make a table with groups as text and as numbers, words, and weights."""
    rng = np.random.default_rng(seed)
    sex = rng.integers(2, size=n)
    X = rng.normal(size=(n, 3))
    X[:, 0] += 0.8 * sex
    y = X.sum(axis=1) + rng.logistic(size=n) > 0.5
    table = pd.DataFrame(X, columns=FEATURES)
    return table.assign(
        hired=np.where(y, "yes", "no"), sex=np.where(sex == 1, "m", "f"), weight=rng.exponential(size=n)
    )


def by_shards(parts, warmup):
    """Fit the same partitions with ``fit_shards``."""
    tuples = [(part[FEATURES], part["hired"], part[["sex"]]) for part in (warmup, *parts)]
    return fit_shards(classifier(), tuples[1:], warmup=tuples[0])


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
        found = fit_partitions(classifier(n_jobs=n_jobs), data, **ROLES, warmup=D)
        assert state_of(found) == state_of(expected)


def test_workers_do_not_send_the_warm_up_rows_back(monkeypatch):
    sizes = []
    send = partitions_module.send

    def measured(*args, **more):
        sent = send(*args, **more)
        sizes.append(len(sent))
        return sent

    monkeypatch.setattr(partitions_module, "send", measured)
    D = people(20_000, 0)
    fit_partitions(classifier(n_replicates=0), [people(300, 1), people(300, 2)], **ROLES, warmup=D)
    assert len(sizes) == 2
    assert max(sizes) < 60_000 < D[FEATURES].to_numpy().nbytes


def test_the_error_names_the_file_and_row_of_a_bad_value(tmp_path):
    def fit_with(column, row, value):
        part = people(300, 2)
        part.loc[row - 1, column] = value
        paths = write_files([people(300, 1), part], tmp_path)
        return fit_partitions(classifier(), paths, **asked, warmup=people(150, 0))

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
            fit_partitions(classifier(), [part, wrong], **ROLES, warmup=D)
    (tmp_path / "part.parquet").write_bytes(b"no")
    with pytest.raises(ValueError, match=r"^Partition 0 \(of file part.parquet\): "):
        fit_partitions(classifier(), [tmp_path / "part.parquet"], **ROLES, warmup=D)
    with pytest.raises(FileNotFoundError) as caught:
        fit_partitions(classifier(), [tmp_path / "absent.parquet"], **ROLES, warmup=D)
    assert caught.value.__notes__ == ["It was raised by partition 0."]


def test_errors_about_partitions_and_warm_up_rows():
    part = people(300, 1)
    D = people(150, 0)
    fit = partial(fit_partitions, classifier(), [part], label="hired", sensitive="sex")
    with pytest.raises(ValueError, match="warmup: There is no column 'hired'"):
        fit(warmup=D.drop(columns="hired"))
    with pytest.raises(ValueError, match="warmup: Column 'd' has type String"):
        fit(warmup=D.assign(d="x"))
    with pytest.raises(ValueError, match=r"warmup: Rows must come as data frames .* received tuple"):
        fit(warmup=(1, 2, 3))
    with pytest.raises(ValueError, match="There are no partitions"):
        fit_partitions(classifier(), [], **ROLES, warmup=D)


def late_group(n):
    """Two partitions, the second of which has some rows of a further group, which differs from the others."""
    parts = [people(300, 1), people(300, 2)]
    parts[1].loc[: n - 1, "sex"] = "x"
    parts[1].loc[: n - 1, "a"] += 2.0
    return parts


def test_a_late_group_on_a_worker_is_constrained():
    clf = fit_partitions(classifier(n_jobs=2), late_group(100), **ROLES, warmup=people(150, 0))
    counts = clf.group_counts_.set_index("group")[["n", "constrained"]]
    assert counts["n"].sum() == 750
    assert counts.loc["x"].tolist() == [100, True]


@pytest.mark.parametrize(
    ("params", "diagnostic", "words", "n"),
    [
        ({}, SmallGroup, "Group 'x' of 'sex' has fewer than 30 rows that the criterion looks at", 750),
        ({"step_size": PAPER}, LateGroup, "'x' of 'sex' was not in the constraint set", 600),
    ],
    ids=["learnt", "fixed"],
)
def test_this_process_warns_about_a_late_group_on_a_worker_that_is_not_constrained(params, diagnostic, words, n):
    with pytest.warns(diagnostic, match=words) as caught:
        clf = fit_partitions(classifier(n_jobs=2, **params), late_group(5), **ROLES, warmup=people(150, 0))
    (late,) = (one for one in caught if one.category is diagnostic)
    assert late.filename == __file__
    counts = clf.group_counts_.set_index("group")[["n", "constrained"]]
    assert counts["n"].sum() == n
    assert counts.loc["x"].tolist() == [5, False]


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
    """Path of a CSV file with the warm-up rows."""
    applicants(400, 0).to_csv(tmp_path / "D.csv", index=False)
    return tmp_path / "D.csv"


ENCODED = {"label": "hired", "sensitive": "sex", "drop": ["weight"]}


def test_with_a_path_as_warm_up_rows_columns_are_encoded_as_an_audit_does(D):
    """The fit is bit-identical to one of rows that were read and encoded before."""
    parts = [applicants(300, seed) for seed in (1, 2)]
    clf = classifier()
    assert fit_partitions(clf, parts, **ENCODED, warmup=D) is clf
    rows, intake, _ = read_all(D, Columns(**ENCODED))
    assert clf.encoder_.names == intake.encoder.names == tuple(clf.feature_names_in_)
    assert {name.split(" ")[0] for name in clf.encoder_.names} == {"a", "b", "c", "job"}
    assert clf.encoder_.left_out == {
        "country": "constant, 'here' in every row", "id": "nearly every row has a different value"
    }  # fmt: skip

    def as_tuple(table, X):
        return pd.DataFrame(X, columns=intake.encoder.names), table["hired"], table[["sex"]]

    tuples = [as_tuple(part, intake.encoder.encode(pa.Table.from_pandas(part)).X) for part in parts]
    expected = fit_shards(classifier(), tuples, warmup=as_tuple(pd.read_csv(D), rows.X))
    assert state_of(clf) == state_of(expected)
    assert clf.classes_.tolist() == ["no", "yes"]
    pd.testing.assert_frame_equal(clf.group_counts_, expected.group_counts_)
    new = applicants(50, 9)
    X = clf.encoder_.encode(pa.Table.from_pandas(new)).X
    assert np.isfinite(X).all()
    decisions = clf.predict(pd.DataFrame(X, columns=clf.encoder_.names))
    assert np.mean(decisions == new["hired"]) > 0.6


@pytest.mark.parametrize("n_jobs", [None, 2])
def test_a_column_that_is_constant_in_the_warm_up_rows_alone_is_reported(D, n_jobs, tmp_path):
    """Only the warm-up rows are from one country, so the model does not know that there are others."""
    parts = [applicants(300, seed).assign(country=["here", "there", "there"] * 100) for seed in (1, 2)]
    with pytest.warns(LateColumn, match="'country' was left out .* but 400 of 1,000 rows contradict that"):
        clf = fit_partitions(classifier(n_jobs=n_jobs), parts, **ENCODED, warmup=D)
    sf.save(clf, tmp_path / "clf.npz")
    new = applicants(400, 9)
    for one in (clf, sf.load(tmp_path / "clf.npz")):
        X = pd.DataFrame(clf.encoder_.encode(pa.Table.from_pandas(new)).X, columns=clf.encoder_.names)
        interval = one.fairness_interval(X, new["hired"], sensitive_features=new[["sex"]])
        assert "LateColumn" in {found.name for found in interval.diagnostics}
        assert interval.verdict(0.99) == "not enough evidence"
    clf = fit_partitions(classifier(), [applicants(300, 1)], **ENCODED, warmup=D)
    assert not [found for found in clf.model_.diagnostics if isinstance(found, LateColumn)]


@pytest.mark.parametrize("n_jobs", [None, 2])
def test_encoded_partitions_can_be_files_of_any_kind_frames_batches_or_functions(D, tmp_path, n_jobs):
    parts = [applicants(300, seed) for seed in (1, 2)]
    paths = write_files(parts, tmp_path)
    for number, part in enumerate(parts):
        part.to_csv(tmp_path / f"part-{number}.csv.gz", index=False)
    expected = fit_partitions(classifier(), parts, **ENCODED, warmup=D)
    for data in (
        paths,
        [str(tmp_path / f"part-{number}.csv.gz") for number in range(2)],
        [pa.Table.from_pandas(part) for part in parts],
        [pa.Table.from_pandas(part).to_batches(41) for part in parts],
        [partial(pd.read_parquet, path) for path in paths],
    ):
        found = fit_partitions(classifier(n_jobs=n_jobs), data, **ENCODED, warmup=str(D))
        assert state_of(found) == state_of(expected)


def test_encoded_columns_can_be_chosen(D):
    parts = [applicants(300, 1)]
    roles = {"label": "hired", "sensitive": ["sex"], "warmup": D}
    clf = fit_partitions(classifier(), parts, **roles, features=["b", "job"], weights="weight", positive="no")
    assert {name.split(" ")[0] for name in clf.encoder_.names} == {"b", "job"}
    assert clf.classes_.tolist() == ["yes", "no"]
    weights = [*pd.read_csv(D)["weight"], *parts[0]["weight"]]
    assert clf.model_.fit.weight == pytest.approx(sum(weights))
    with pytest.raises(ValueError, match=r"Unknown column for drop: 'jbo'\. Did you mean 'job'\?"):
        fit_partitions(classifier(), parts, **roles, drop=["jbo"])


def test_an_encoded_partition_without_rows_changes_nothing(D):
    parts = [applicants(300, seed) for seed in (1, 2)]
    expected = fit_partitions(classifier(), parts, **ENCODED, warmup=D)
    batches = pa.Table.from_pandas(parts[1]).to_batches(150)
    with_empty = [parts[0], [batches[0], batches[1].slice(0, 0), batches[1]], parts[0][:0]]
    assert state_of(fit_partitions(classifier(), with_empty, **ENCODED, warmup=D)) == state_of(expected)


def test_bad_rows_of_an_encoded_partition_are_counted_up_to_the_limit(D, tmp_path):
    """Those that the reader refuses and those that have no label count together."""
    part = applicants(300, 1)
    part.loc[[17, 120], "hired"] = None
    lines = part.to_csv(index=False).splitlines()
    lines.insert(9, "1,2")
    (tmp_path / "part.csv").write_text("\n".join(lines) + "\n")
    parts = [applicants(300, 2), tmp_path / "part.csv"]
    clf = fit_partitions(classifier(), parts, **ENCODED, warmup=D, max_bad_rows=3)
    assert clf.n_rows_ == 400 + 600 - 2
    message = r"^Partition 1 \(of file part\.csv\): 3 rows cannot be used, and the limit is 2\. no label 'hired': 2"
    with pytest.raises(ValueError, match=message):
        fit_partitions(classifier(), parts, **ENCODED, warmup=D, max_bad_rows=2)
    in_batches = [pa.Table.from_pandas(part).to_batches(100)]
    with pytest.raises(
        ValueError, match=r"^Partition 0: 2 rows cannot be used, and the limit is 1\..* first in row 18"
    ):
        fit_partitions(classifier(), in_batches, **ENCODED, warmup=D, max_bad_rows=1)
    with pytest.raises(ValueError, match=r"^Partition 1 .*1 row cannot be used, and the limit is 0"):
        fit_partitions(classifier(), parts, **ENCODED, warmup=D)
