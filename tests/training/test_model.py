"""Model: it packs in every state, never changes, and starts over, merges and answers as its rows say."""

from __future__ import annotations

import json
from dataclasses import FrozenInstanceError, fields, replace
from functools import cache

import numpy as np
import pytest
from scipy.sparse import csr_matrix

import surefair as sf
from surefair.criteria import CRITERIA, Criterion
from surefair.learners.schedules import PolynomialDecay
from surefair.losses import LOSSES
from surefair.rows import Groups, Levels, Names, Rows, as_columns
from surefair.training.model import Model, Problem

N_FIRST = 100
LABELS = Levels(np.array(["no", "yes"]), "label")
DECAY = PolynomialDecay(0.1, 0.6, offset=2.0)
CONSTRAINTS = [name for name, criterion in CRITERIA.items() if criterion.can_constrain]


def make_rows(n=400, seed=0, sparse=False, late=None):
    """Rows of the groups a, b and c; with ``late``, every fifth row belongs to that group."""
    rng = np.random.default_rng(seed)
    z = rng.permutation(np.array(["a", "b", "c"], dtype="U2")[np.arange(n) % 3])
    X = rng.normal(size=(n, 6)) + 0.3 * (z == "b")[:, None]
    y = np.where(X.sum(axis=1) + rng.logistic(size=n) > 0.5, 1.0, -1.0)
    if late is not None:
        z[::5] = late
    columns = as_columns({"race": z})
    groups = Groups.of(columns)
    X = csr_matrix(X * (rng.random(X.shape) < 0.5)) if sparse else X
    return Rows(X, y, groups.codes(columns), rng.exponential(size=n), Names(None, LABELS, groups))


def ungrouped(rows):
    """The same rows without groups."""
    return replace(rows, group=np.empty((rows.n, 0), dtype=np.int64), names=Names(None, LABELS, None))


def fresh(rows, criterion="demographic_parity", seed=0, **parameters):
    """A model before its first row."""
    chosen = {
        "loss": LOSSES["log_loss"],
        "tolerance": 0.01,
        "penalty": None,
        "sharpness": None,
        "alpha": 1e-4,
        "step_size": None,
        "n_replicates": 10,
        "multiplier": "two_point",
        "seed": seed,
        "surrogate": "decisions",
        "solver": "one_pass",
        "n_warmup": N_FIRST,
        "fit_intercept": True,
        "intersections": False,
        "dtype": "float64",
    } | parameters
    problem = Problem(criterion=None if criterion is None else CRITERIA[criterion], **chosen)
    return Model.of(problem, rows.names, rows.X.shape[1])


ROWS = make_rows()
SPARSE = make_rows(sparse=True)
MORE = make_rows(250, seed=1)
LATE = make_rows(60, seed=2, late="aa")  # it sorts between the others
FIRST = make_rows(N_FIRST, seed=3)  # warm-up rows, or a constraint set


def shard(seed, rows=ROWS, **parameters):
    """A model of one shard of rows; all shards have the same warm-up rows."""
    return fresh(rows, **parameters).begin_with(FIRST).reseed(seed).take(rows)


def fixed_shard(seed, rows=ROWS, **parameters):
    """The same, with the warm-up rows as a constraint set."""
    return fresh(rows, seed=seed, **parameters).begin(FIRST).take(rows)


STATES = {
    "before the first row": lambda: fresh(ROWS),
    "waiting": lambda: fresh(ROWS).take(ROWS.part(slice(0, 60))),
    "waiting, sparse": lambda: fresh(SPARSE).take(SPARSE.part(slice(0, 60))),
    "begun": lambda: fresh(ROWS).begin_with(FIRST),
    "begun, fixed": lambda: fresh(ROWS).begin(FIRST),
    "trained": lambda: fresh(ROWS).take(ROWS),
    "trained, sparse": lambda: fresh(SPARSE).take(SPARSE),
    "trained, fixed": lambda: fixed_shard(0),
    "trained on scores": lambda: fresh(ROWS, surrogate="scores").take(ROWS),
    "trained with a penalty": lambda: fresh(ROWS, "equalized_odds", tolerance=0.0, penalty=2.0, sharpness=3.0).take(
        ROWS
    ),
    "trained with a penalty, sparse": lambda: fresh(SPARSE, "false_discovery_rate", tolerance=0.0, penalty=2.0).take(
        SPARSE
    ),
    "trained with a penalty, fixed": lambda: fixed_shard(0, criterion="equalized_odds", penalty=2.0, sharpness=3.0),
    "trained without a criterion": lambda: fresh(ROWS, None, loss=LOSSES["squared_error"]).take(ROWS),
    "trained without groups": lambda: fresh(ungrouped(ROWS), None).take(ungrouped(ROWS)),
    "trained with a schedule": lambda: fresh(ROWS, step_size=DECAY, fit_intercept=False).take(ROWS),
    "trained in single precision": lambda: fresh(ROWS, dtype="float32").take(ROWS),
    "trained with a late group": lambda: fresh(ROWS).take(ROWS).take(LATE),
    "trained with a late group, fixed": lambda: fixed_shard(0).take(LATE),
    "merged": lambda: shard(0).merge(shard(1, MORE)),
    "merged, fixed": lambda: fixed_shard(0).merge(fixed_shard(1, MORE)),
    "reseeded": lambda: shard(0).reseed(5),
    "reseeded, fixed": lambda: fixed_shard(0).reseed(5),
}
made = cache(lambda name: STATES[name]())  # shared by tests that do not compare a model with a new one


@pytest.fixture(scope="module", params=STATES)
def model(request):
    return made(request.param)


def next_rows(model):
    """Rows that the model can take next."""
    return ungrouped(MORE) if model.groups is None else MORE


def bits(model):
    """Everything that a model knows, as text and bits."""
    meta, arrays = model.pack()
    packed = {name: (array.dtype.str, array.shape, array.tobytes()) for name, array in sorted(arrays.items())}
    return json.dumps(meta, sort_keys=True), packed


def rebuilt(model):
    """The model after a trip through JSON and plain arrays."""
    meta, arrays = model.pack()
    assert not any(array.dtype.hasobject for array in arrays.values())
    return Model.unpack(json.loads(json.dumps(meta)), {name: array.copy() for name, array in arrays.items()})


# -- Packing ----------------------------------------------------------------------------------------------------------


def test_packing_keeps_every_bit(model):
    assert bits(rebuilt(model)) == bits(model)


def test_a_rebuilt_model_answers_the_same(model):
    again = rebuilt(model)
    assert again.names.features == model.names.features
    assert again.diagnostics == model.diagnostics
    assert again.order_diagnostics() == model.order_diagnostics()
    assert (again.n_rows, again.seed, again.n_features) == (model.n_rows, model.seed, model.n_features)
    if model.fit is not None:
        assert again.group_counts() == model.group_counts()
        assert again.coefficients.tobytes() == model.coefficients.tobytes()
        assert again.replicates.tobytes() == model.replicates.tobytes()
        assert again.trained.shards == model.trained.shards


def test_a_rebuilt_model_continues_with_bit_identical_results(model):
    rows = next_rows(model)
    assert bits(rebuilt(model).take(rows)) == bits(model.take(rows))


def test_this_file_packs_diagnostics():
    found = {one.name for name in STATES for one in made(name).diagnostics}
    assert {"SmallConstraintSet", "LateGroup", "SmallGroup", "ChanceConstraint"} <= found


# -- A model never changes --------------------------------------------------------------------------------------------


def test_a_model_is_frozen(model):
    for field in fields(Model):
        with pytest.raises(FrozenInstanceError):
            setattr(model, field.name, None)


def test_methods_return_new_models(model):
    before = bits(model)
    rows = next_rows(model)
    others = [model.take(rows), model.train(rows), model.uncounted()]
    if model.fit is not None:
        others += [model.reseed(3), model.merge(model.reseed(3)), model.take(rows).merge(model), others[0].answer()]
    others[0].take(rows)
    assert all(other is not model for other in others)
    assert bits(model) == before


def test_the_caller_may_overwrite_rows_after_the_call():
    waiting = ROWS.part(slice(0, 60)).copy()
    first = FIRST.copy()
    models = [fresh(ROWS).take(waiting), fresh(ROWS).begin_with(first), fresh(ROWS).begin(first)]
    for rows in (waiting, first):
        rows.X[:] = np.nan
        rows.weight[:] = 0.0
    assert [bits(one) for one in models] == [bits(STATES[name]()) for name in ("waiting", "begun", "begun, fixed")]


def too_many_groups():
    columns = as_columns({"race": np.array([f"group {i}" for i in range(150)])})
    groups = Groups.of(columns)
    return replace(ROWS.part(slice(0, 150)), group=groups.codes(columns), names=Names(None, LABELS, groups))


def of_one_group(rows):
    return rows.part(rows.group[:, 0] == 0)


OTHER_NAMES = Names(None, LABELS, Groups({"sex": Levels(np.array(["f", "m", "x"]), "group")}))
ERRORS = {
    "too many groups": ("trained", lambda model: model.take(too_many_groups()), "at most 100 groups can be compared"),
    "too many groups, waiting": ("waiting", lambda model: model.take(too_many_groups()), "at most 100 groups"),
    "a group without rows": (
        "waiting",
        lambda model: model.begin(of_one_group(FIRST)),
        "no row of group 'b' of 'race'",
    ),
    "one label": (
        "before the first row",
        lambda model: model.begin_with(FIRST.part(FIRST.y > 0.0)),
        "rows that have any weight show 1 of the two labels",
    ),
    "no weight": (
        "before the first row",
        lambda model: model.begin_with(replace(FIRST, weight=np.zeros(N_FIRST))),
        "The first 100 rows that have any weight show 0 of the two labels",
    ),
    "other columns": (
        "trained",
        lambda model: model.take(replace(MORE, names=OTHER_NAMES)),
        "must be the columns 'race'",
    ),
    "not begun": ("waiting", lambda model: model.trained, "not enough rows to begin with yet. Take more rows"),
    "merging too early": ("waiting", lambda model: model.merge(shard(0)), "must have begun .* takes 100 rows"),
    "merging with one too early": ("begun", lambda model: model.merge(STATES["waiting"]()), "must have begun"),
    "merging another problem": ("merged", lambda model: model.merge(shard(2, alpha=0.1)), "problems: alpha differ"),
    "merging other warm-up rows": (
        "merged",
        lambda model: model.merge(STATES["trained"]()),
        "problems: warm-up rows differ",
    ),
    "merging itself": ("merged", lambda model: model.merge(model), "would count every row twice"),
}


@pytest.mark.parametrize("case", ERRORS)
def test_an_error_leaves_the_model_unchanged(case):
    state, act, message = ERRORS[case]
    model = STATES[state]()
    before = bits(model)
    with pytest.raises(ValueError, match=message):
        act(model)
    assert bits(model) == before
    assert bits(model.take(MORE)) == bits(STATES[state]().take(MORE))


# -- Training ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rows", [ROWS, SPARSE], ids=["dense", "sparse"])
@pytest.mark.parametrize("criterion", [*CONSTRAINTS, None])
def test_training_on_a_whole_equals_taking_its_parts(rows, criterion):
    whole = fresh(rows, criterion).train(rows)
    parts = fresh(rows, criterion)
    for low, high in [(0, 1), (1, 90), (90, 150), (150, 400)]:
        parts = parts.take(rows.part(slice(low, high)), n_threads=2)
    assert bits(parts) == bits(whole)


@pytest.mark.parametrize("criterion", [*CONSTRAINTS, None])
def test_training_beside_a_constraint_set_equals_taking_parts(criterion):
    apart, rest = ROWS.part(slice(0, 80)), ROWS.part(slice(80, None))
    whole = fresh(ROWS, criterion).train(rest, constraint_set=apart)
    parts = fresh(ROWS, criterion).begin(apart)
    for low, high in [(0, 1), (1, 150), (150, 320)]:
        parts = parts.take(rest.part(slice(low, high)), n_threads=2)
    assert bits(parts) == bits(whole)


def test_a_model_begins_with_the_first_rows_and_counts_them():
    model = fresh(ROWS).train(ROWS)
    assert (model.first.n, model.n_rows, model.n_later) == (150, 400, 250)  # three groups, so three pairs
    assert model.first.same_as(ROWS.part(slice(0, 150)))
    assert model.trained.weight == pytest.approx(ROWS.weight.sum())
    short = fresh(ROWS, n_warmup=30).train(ROWS)  # six features and the intercept need ten rows each
    assert (short.n_first, short.first.n, short.n_rows) == (70, 70, 400)
    long = fresh(ROWS, n_warmup=10**6).train(ROWS)
    assert (long.first.n, long.n_rows, long.n_later) == (400, 400, 0)


def test_many_pairs_of_groups_need_more_warm_up_rows():
    model = fresh(ROWS, "equalized_odds")  # three groups and two rates: six pairs
    assert (model.n_first, model.n_first_of(ROWS)) == (100, 250)
    assert model.train(ROWS).first.n == 250
    assert model.n_first_of(ROWS.part(slice(0, 200))) > 200  # two batches begin with the same rows as one
    parts = model.take(ROWS.part(slice(0, 200)))
    assert parts.fit is None
    assert bits(parts.take(ROWS.part(slice(200, None)))) == bits(model.take(ROWS))


def test_a_group_of_a_few_rows_needs_no_more_warm_up_rows():
    rows = replace(ROWS, group=np.where(np.arange(ROWS.n)[:, None] < 90, 0, ROWS.group))
    assert fresh(rows, "equalized_odds").n_first_of(rows) == 100


def test_under_a_schedule_training_sets_apart_the_first_fifth_at_most():
    model = fresh(ROWS, step_size=DECAY).train(ROWS)
    assert (model.first.n, model.n_rows, model.n_later) == (80, 320, 320)
    assert model.first.same_as(ROWS.part(slice(0, 80)))
    short = fresh(ROWS, step_size=DECAY, n_warmup=30).train(ROWS)
    assert (short.n_first, short.first.n, short.n_rows) == (30, 30, 370)


@pytest.mark.parametrize(("step_size", "n"), [(None, 60), (DECAY, 48)], ids=["auto", "decay"])
def test_until_there_are_enough_rows_to_begin_a_model_of_the_rows_so_far_answers(step_size, n):
    so_far = ROWS.part(slice(0, 60))
    waiting = fresh(ROWS, step_size=step_size).take(so_far)
    answer = waiting.answer()
    assert answer.replicates.tobytes() == fresh(ROWS, step_size=step_size).train(so_far).replicates.tobytes()
    assert (waiting.n_rows, answer.n_rows) == (0, n)


def test_a_model_that_has_begun_answers_itself():
    for state in ("begun", "trained", "trained, fixed"):
        model = STATES[state]()
        assert model.answer() is model
    assert STATES["begun, fixed"]().answer().n_rows == 100  # no row has been trained on, so it learns from the set


def test_groups_are_counted_in_every_state():
    states = ("waiting", "begun", "trained", "trained, fixed", "trained with a late group", "merged", "merged, fixed")
    counts = {name: STATES[name]().group_counts() for name in states}
    assert {name: sum(one["n"] for one in found.values()) for name, found in counts.items()} == {
        "waiting": 60, "begun": 100, "trained": 400, "trained, fixed": 400, "trained with a late group": 460,
        "merged": 750, "merged, fixed": 650,
    }  # fmt: skip
    assert counts["trained with a late group"]["race", "aa"] == {"n": 12, "constrained": False}
    assert STATES["trained without groups"]().group_counts() == {}


def test_a_late_group_is_constrained_once_it_has_enough_rows():
    late = make_rows(400, seed=2, late="aa")
    late.X[late.groups.labels.index(("race", "aa")) == late.group[:, 0]] += 2.0
    few, many, fixed = (
        STATES["trained"]().take(LATE),
        STATES["trained"]().take(late),
        STATES["trained, fixed"]().take(late),
    )
    assert [one.group_counts()["race", "aa"] for one in (few, many, fixed)] == [
        {"n": 12, "constrained": False},
        {"n": 80, "constrained": True},
        {"n": 80, "constrained": False},
    ]
    assert [[one.name for one in model.diagnostics if one.name in ("SmallGroup", "LateGroup")]
            for model in (few, many, fixed)] == [["SmallGroup"], [], ["LateGroup"]]  # fmt: skip


# -- Starting over and merging ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("state", ["trained, fixed", "trained with a penalty, fixed"])
def test_a_reseeded_model_under_a_fixed_constraint_starts_over_with_other_replicates(state):
    model = STATES[state]()
    other = model.reseed(9)
    assert (other.n_rows, other.seed, other.trained.problem.seed) == (0, 9, 9)
    assert other.first.same_as(model.first)
    assert other.trained.W.tobytes() == model.trained.W.tobytes()
    same, another = model.reseed(model.seed).take(ROWS), other.take(ROWS)
    assert same.replicates.tobytes() == model.replicates.tobytes()
    assert another.coefficients.tobytes() == model.coefficients.tobytes()  # random weights move only replicates
    assert not np.isclose(another.replicates, model.replicates).all(axis=0).any()
    assert other.diagnostics == model.reseed(4).diagnostics == model.diagnostics


@pytest.mark.parametrize(
    "parameters", [{}, {"criterion": "equalized_odds", "tolerance": 0.0, "penalty": 2.0}, {"criterion": None}], ids=str
)
@pytest.mark.parametrize("rows", [ROWS, SPARSE], ids=["dense", "sparse"])
def test_a_model_that_is_reseeded_after_its_warm_up_rows_gives_later_rows_other_weights(rows, parameters):
    n = fresh(rows, **parameters).n_first_of(rows)
    begun = fresh(rows, **parameters).begin_with(rows.part(slice(0, n)))
    other = begun.reseed(9)
    assert (other.n_rows, other.seed, other.trained.problem.seed) == (n, 9, 9)
    assert other.replicates.tobytes() == begun.replicates.tobytes()
    assert other.diagnostics == begun.diagnostics
    expected, same, another = (one.take(rows.part(slice(n, None))) for one in (begun, begun.reseed(begun.seed), other))
    assert expected.replicates.tobytes() == fresh(rows, **parameters).train(rows).replicates.tobytes()
    assert same.replicates.tobytes() == expected.replicates.tobytes()
    assert another.coefficients.tobytes() == expected.coefficients.tobytes()  # random weights move only replicates
    assert not np.isclose(another.replicates, expected.replicates).all(axis=0).any()


def test_an_uncounted_model_knows_its_groups_and_counts_from_zero():
    model = STATES["trained with a late group"]()
    uncounted = model.uncounted()
    assert uncounted.groups is model.groups
    assert uncounted.census.counts == [0, 0, 0, 0]
    assert uncounted.runs.labels.tolist() == [0, 0]
    assert uncounted.trained is model.trained
    assert sum(uncounted.take(MORE).census.counts) == MORE.n


def test_a_merged_model_counts_the_rows_of_both_and_warm_up_rows_once():
    one, two = shard(0), shard(1, MORE)
    first = fresh(ROWS).begin_with(FIRST)
    merged = one.merge(two)
    assert merged.census.counts == [
        a + b - c for a, b, c in zip(one.census.counts, two.census.counts, first.census.counts, strict=True)
    ]
    for name in ("pairs", "changes", "labels"):
        mine, theirs, both = (getattr(model.runs, name) for model in (one, two, first))
        assert np.array_equal(getattr(merged.runs, name), mine + theirs - both)
    assert (merged.n_rows, merged.n_later, merged.trained.shards) == (750, 650, 2)
    assert merged.trained.weight == pytest.approx(one.trained.weight + two.trained.weight - FIRST.weight.sum())
    assert merged.seed == one.seed
    assert merged.found == one.found


def test_a_model_merged_under_a_fixed_constraint_counts_the_rows_of_both():
    one, two = fixed_shard(0), fixed_shard(1, MORE)
    merged = one.merge(two)
    assert merged.census.counts == [a + b for a, b in zip(one.census.counts, two.census.counts, strict=True)]
    for name in ("pairs", "changes", "labels"):
        assert np.array_equal(getattr(merged.runs, name), getattr(one.runs, name) + getattr(two.runs, name))
    assert (merged.n_rows, merged.trained.shards) == (650, 2)
    assert merged.trained.weight == one.trained.weight + two.trained.weight
    assert merged.seed == one.seed
    assert merged.found == one.found


@pytest.mark.parametrize(("make", "found"), [(shard, "SmallGroup"), (fixed_shard, "LateGroup")])
def test_a_merged_model_knows_the_late_groups_of_both(make, found):
    one, two = make(0).take(LATE), make(1, MORE).take(make_rows(50, seed=4, late="z"))
    for merged in (one.merge(two), two.merge(one)):
        assert [value for _, value in merged.groups.labels] == ["a", "aa", "b", "c", "z"]
        counts = merged.group_counts()
        assert (counts["race", "aa"]["n"], counts["race", "z"]["n"]) == (12, 10)
        assert not any(counts["race", late]["constrained"] for late in ("aa", "z"))
        (late,) = [one for one in merged.diagnostics if one.name == found]
        assert all(f"'{name}' of 'race'" in late.message for name in ("aa", "z"))


@pytest.mark.parametrize(("make", "n"), [(shard, 910), (fixed_shard, 810)])
def test_a_merged_model_continues_and_merges_again(make, n):
    merged = make(0).merge(make(1, MORE)).take(make_rows(100, seed=5)).merge(make(2, LATE))
    assert (merged.n_rows, merged.trained.shards) == (n, 3)
    assert np.isfinite(merged.replicates).all()


# -- The classifier of a model ----------------------------------------------------------------------------------------

TRAIN = sf.datasets.SyntheticDM(seed=0).sample(800)
TEST = sf.datasets.SyntheticDM(seed=1).sample(300)
PARAMETERS = {
    "defaults": {},
    "a penalty": {"criterion": "error_rate", "penalty": 3.0, "sharpness": 2.0},
    "no criterion": {"criterion": None, "loss": "squared_error", "fit_intercept": False},
    "scores": {"surrogate": "scores", "tolerance": 0.1},
    "a schedule": {"step_size": DECAY, "multiplier": "normal", "tolerance": 0.1},
    "single precision": {"dtype": "float32", "alpha": 0.01, "n_warmup": 90},
}


def feed(clf, low, high):
    part = slice(low, high)
    return clf.partial_fit(TRAIN.X[part], TRAIN.y[part], sensitive_features=TRAIN.sensitive[part])


@pytest.mark.filterwarnings("ignore::surefair.diagnostics.Diagnostic")
@pytest.mark.parametrize("seen", [60, 500], ids=["waiting", "trained"])
@pytest.mark.parametrize("case", PARAMETERS)
def test_a_classifier_made_from_a_model_is_the_same(case, seen):
    parameters = {"n_replicates": 12, "n_warmup": 100} | PARAMETERS[case]
    clf = feed(sf.FairClassifier(**parameters, random_state=0), 0, seen)
    again = sf.FairClassifier.from_model(clf.model_)
    assert again.model_ is clf.model_
    assert again.get_params() == clf.get_params() | {"random_state": None}
    assert again.n_features_in_ == 2
    for _ in range(2):
        assert again.coef_replicates_.tobytes() == clf.coef_replicates_.tobytes()
        assert np.array_equal(again.predict_proba(TEST.X), clf.predict_proba(TEST.X))
        one, other = (
            each.fairness_interval(TEST.X, TEST.y, sensitive_features=TEST.sensitive) for each in (again, clf)
        )
        assert one == other
        feed(again, seen, None)
        feed(clf, seen, None)


@pytest.mark.filterwarnings("ignore::surefair.diagnostics.Diagnostic")
def test_a_classifier_made_from_a_model_keeps_a_custom_criterion():
    mine = Criterion("mine", CRITERIA["error_rate"].rates, CRITERIA["error_rate"].form)
    clf = feed(sf.FairClassifier(mine, n_replicates=12, n_warmup=100, random_state=0), 0, None)
    again = sf.FairClassifier.from_model(clf.model_)
    assert again.criterion == mine
    one, other = (each.fairness_interval(TEST.X, TEST.y, sensitive_features=TEST.sensitive) for each in (again, clf))
    assert one == other
    assert one.metric == "mine"


@pytest.mark.filterwarnings("ignore::surefair.diagnostics.Diagnostic")
def test_a_classifier_made_from_a_model_does_not_share_later_changes():
    clf = feed(sf.FairClassifier(n_replicates=12, n_warmup=100, random_state=0), 0, 400)
    again = sf.FairClassifier.from_model(clf.model_)
    before = clf.coef_replicates_.tobytes()
    feed(again, 400, None)
    assert clf.coef_replicates_.tobytes() == before
    assert (clf.n_rows_, again.n_rows_) == (400, 800)
