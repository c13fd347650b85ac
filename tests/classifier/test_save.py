"""Save and load: training resumes with bit-identical results, and damaged files are refused."""

from __future__ import annotations

import json
import os
import pickle
import re

import numpy as np
import pandas as pd
import polars as pl
import pytest
from batch import draw_batch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone

import surefair as sf
from surefair import CRITERIA, Criterion, FairClassifier, PolynomialDecay
from surefair.classifier import VERSION
from surefair.criteria import SURROGATES, Rate
from surefair.datasets import SyntheticDM
from surefair.learners.multipliers import LAWS
from surefair.losses import LOSSES

STREAM = SyntheticDM(seed=0)
ROWS, TEST = draw_batch(STREAM, 0, 500), draw_batch(STREAM, 10**6, 200)
DECAY = PolynomialDecay(0.5, 0.6, offset=3.0)
CONSTRAINTS = [name for name, criterion in CRITERIA.items() if criterion.can_constrain]
VARIANTS = [(criterion, step_size) for criterion in [*CONSTRAINTS, None] for step_size in ["auto", DECAY]]


def make(criterion="demographic_parity", **parameters):
    return FairClassifier(
        criterion, **{"n_replicates": 10, "solver": "one_pass", "n_warmup": 100, "random_state": 0} | parameters
    )


def feed(clf, rows=ROWS):
    return clf.partial_fit(rows.X, rows.y, sensitive_features=rows.group)


def bits(clf):
    """Everything that was learnt, as bits."""
    arrays = clf.classes_, clf.groups_, clf.coef_, clf.intercept_, clf.coef_replicates_, clf.intercept_replicates_
    return clf.n_rows_, *(None if array is None else (array.dtype.str, array.tolist()) for array in arrays)


def round_trip(clf, path):
    sf.save(clf, path)
    return sf.load(path)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "clf.npz"


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A classifier and the bytes of its file, which is small, so that many kinds of damage can be tried."""
    clf = feed(make(n_replicates=3, n_warmup=30))
    path = tmp_path_factory.mktemp("saved") / "clf.npz"
    sf.save(clf, path)
    return clf, path.read_bytes()


# -- Round trips -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("criterion", "step_size"), VARIANTS)
@pytest.mark.parametrize("stop", [40, 100, 333], ids=["before it begins", "when it begins", "later"])
def test_training_resumes_with_bit_identical_results(path, criterion, step_size, stop):
    clf = round_trip(feed(make(criterion, step_size=step_size), ROWS.part(0, stop)), path)
    assert bits(feed(clf, ROWS.part(stop))) == bits(feed(make(criterion, step_size=step_size)))


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("multiplier", LAWS)
def test_every_loss_and_multiplier_resumes_with_bit_identical_results(path, loss, multiplier):
    parameters = {"loss": loss, "multiplier": multiplier, "fit_intercept": False}
    clf = round_trip(feed(make(**parameters), ROWS.part(0, 200)), path)
    assert bits(feed(clf, ROWS.part(200))) == bits(feed(make(**parameters)))


@pytest.mark.parametrize("criterion", [*CONSTRAINTS, None])
@pytest.mark.parametrize("surrogate", SURROGATES)
def test_every_surrogate_resumes_with_bit_identical_results(path, criterion, surrogate):
    parameters = {"surrogate": surrogate, "tolerance": 0.05, "sharpness": 2.0}
    clf = round_trip(feed(make(criterion, **parameters), ROWS.part(0, 200)), path)
    assert bits(feed(clf, ROWS.part(200))) == bits(feed(make(criterion, **parameters)))


@pytest.mark.parametrize("criterion", [*CONSTRAINTS, None])
def test_a_fit_beside_a_constraint_set_resumes_with_bit_identical_results(path, criterion):
    def begun():
        apart, rows = ROWS.part(0, 100), ROWS.part(100, 200)
        return make(criterion).partial_fit(
            rows.X, rows.y, sensitive_features=rows.group, constraint_set=(apart.X, apart.y, apart.group)
        )

    clf = round_trip(begun(), path)
    assert bits(feed(clf, ROWS.part(200))) == bits(feed(begun(), ROWS.part(200)))


def test_a_restart_after_every_batch_changes_no_bit(path):
    clf = make()
    for low in range(0, 500, 50):
        clf = round_trip(feed(clf, ROWS.part(low, low + 50)), path)
    assert bits(clf) == bits(feed(make()))


def test_a_loaded_classifier_gives_the_same_answers(path):
    clf = feed(make())
    twin = round_trip(clf, path)
    question = {"X": TEST.X, "y": TEST.y, "sensitive_features": TEST.group}
    assert twin.fairness_interval(**question).to_dict() == clf.fairness_interval(**question).to_dict()
    assert twin.coef_interval().equals(clf.coef_interval())
    assert np.array_equal(twin.predict_proba(TEST.X), clf.predict_proba(TEST.X))
    with pytest.raises(ValueError, match="same fit"):
        twin.merge(clf)


@pytest.mark.parametrize(
    "clf",
    [
        FairClassifier(),
        FairClassifier(
            None,
            loss="squared_error",
            penalty=2.0,
            alpha=0.0,
            step_size=DECAY,
            n_replicates=7,
            multiplier="poisson",
            n_warmup=10,
            surrogate="scores",
            fit_intercept=False,
            intersections=True,
            sharpness=5.0,
            dtype="float32",
            random_state=3,
            n_jobs=2,
        ),
        FairClassifier("error_rate", tolerance=np.float64(0.5), n_replicates=np.int64(5), random_state=np.int64(3)),
        FairClassifier(step_size=PolynomialDecay(np.float32(0.5), np.float64(0.75))),
    ],
)
def test_an_unfitted_classifier_keeps_its_parameters(path, clf):
    twin = round_trip(clf, path)
    assert twin.get_params() == clf.get_params()
    assert vars(twin) == twin.get_params()


def test_the_seed_drawn_from_a_random_state_is_kept(path):
    clf = feed(make(random_state=np.random.RandomState(1)), ROWS.part(0, 200))
    assert bits(feed(round_trip(clf, path), ROWS.part(200))) == bits(feed(clf, ROWS.part(200)))


LEVELS = {
    "text": ["ja", "nein"],
    "text in Unicode": ["ä", "日本"],
    "integers": [-(2**62), 7],
    "small integers": np.array([3, 200], dtype=np.uint8),
    "Booleans": [False, True],
    "floats": [0.0, 3.0],
    "single floats": np.array([1.0, 2.0], dtype=np.float32),
    "objects": np.array([3, 4], dtype=object),
}


@pytest.mark.parametrize("kind", LEVELS)
@pytest.mark.parametrize("stop", [40, 200], ids=["before it begins", "later"])
def test_labels_and_groups_keep_their_type(path, kind, stop):
    levels = np.asarray(LEVELS[kind])
    rows = ROWS._replace(y=levels[(ROWS.y > 0).astype(int)], group=levels[ROWS.group])
    clf = round_trip(feed(make(), rows.part(0, stop)), path)
    assert clf.classes_.tolist() == clf.groups_.tolist() == levels.tolist()
    assert bits(feed(clf, rows.part(stop))) == bits(feed(make(), rows))
    assert set(clf.predict(TEST.X).tolist()) <= set(levels.tolist())


@pytest.mark.parametrize("stop", [40, 200], ids=["before it begins", "later"])
def test_each_sensitive_column_keeps_its_type(path, stop):
    def some(low, high=None):
        group, half = ROWS.group[low:high], np.arange(500)[low:high] % 2
        z = {"ä": group, "日本": half == 1, 'a "b"': 0.5 * half, "text": np.array(["no", "yes"])[half]}
        return {"X": ROWS.X[low:high], "y": ROWS.y[low:high], "sensitive_features": z}

    clf = make(tolerance=0.1).partial_fit(**some(0, stop))
    clf = round_trip(clf, path).partial_fit(**some(stop))
    whole = make(tolerance=0.1).partial_fit(**some(0))
    kinds = {name: (groups.dtype.kind, groups.tolist()) for name, groups in clf.groups_.items()}
    assert kinds == {
        "ä": ("i", [0, 1]),
        "日本": ("b", [False, True]),
        'a "b"': ("f", [0.0, 0.5]),
        "text": ("U", ["no", "yes"]),
    }
    assert clf.group_counts_.equals(whole.group_counts_)
    assert clf.coef_replicates_.tolist() == whole.coef_replicates_.tolist()
    assert clf.fairness_interval(**some(0)) == whole.fairness_interval(**some(0))


def test_a_fit_without_groups_is_loaded_without_groups(path):
    clf = round_trip(make(None).partial_fit(ROWS.X, ROWS.y), path)
    assert clf.groups_ is None
    assert bits(clf) == bits(make(None).partial_fit(ROWS.X, ROWS.y))


def test_groups_that_json_cannot_hold_are_refused(path):
    dates = np.array(["2024-01-01", "2025-01-01"], dtype="M8[D]")
    clf = feed(make(), ROWS._replace(group=dates[ROWS.group]))
    with pytest.raises(ValueError, match=r"groups of type datetime64.*cannot be saved\. Use text, numbers or Booleans"):
        sf.save(clf, path)
    assert not path.exists()


@pytest.mark.parametrize("library", [pd.DataFrame, pl.DataFrame])
def test_feature_names_and_library_are_kept(path, library):
    frame = library({"Größe": ROWS.X[:, 0], "x 2": ROWS.X[:, 1]})
    clf = round_trip(make().fit(frame, ROWS.y, sensitive_features=ROWS.group), path)
    assert clf.feature_names_in_.tolist() == ["Größe", "x 2"]
    assert isinstance(clf.coef_interval(), library)
    with pytest.raises(ValueError, match="feature names should match"):
        clf.predict(library({"x 2": [0.0], "Größe": [0.0]}))


# -- The file ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("criterion", [*CONSTRAINTS, None])
@pytest.mark.parametrize("stop", [40, 200], ids=["before it begins", "later"])
def test_a_file_contains_no_code(path, criterion, stop):
    sf.save(feed(make(criterion), ROWS.part(0, stop)), path)
    with np.load(path, allow_pickle=False) as archive:
        assert "meta" in archive.files
        assert not any(archive[name].dtype.hasobject for name in archive.files)
        assert json.loads(archive["meta"].tobytes())["version"] == VERSION


def test_the_path_may_be_text_with_any_ending(tmp_path):
    clf = feed(make())
    sf.save(clf, str(tmp_path / "model.bin"))
    assert os.listdir(tmp_path) == ["model.bin"]
    assert bits(sf.load(str(tmp_path / "model.bin"))) == bits(clf)


@pytest.mark.parametrize("failing", ["numpy.savez", "os.fsync", "os.replace"])
@pytest.mark.parametrize("error", [OSError("no space left on device"), KeyboardInterrupt()])
def test_a_file_is_never_half_written(path, monkeypatch, failing, error):
    clf = feed(make(), ROWS.part(0, 200))
    sf.save(clf, path)

    def fail(*args, **kwargs):
        if failing == "numpy.savez":
            args[0].write(b"half of it")
        raise error

    with monkeypatch.context() as broken:
        broken.setattr(failing, fail)
        with pytest.raises(type(error)):
            sf.save(feed(clf, ROWS.part(200)), path)
    assert os.listdir(path.parent) == [path.name]
    assert sf.load(path).n_rows_ == 200


def test_a_custom_criterion_is_refused_before_anything_is_written(path):
    rate = Rate("mine", "share", ((0, 1),), ((0, 0), (0, 1)))
    mine = Criterion("mine", (rate,), CRITERIA["error_rate"].form)
    for clf in (make(mine), feed(make(mine))):
        with pytest.raises(ValueError, match="'mine'"):
            sf.save(clf, path)
    impostor = Criterion("error_rate", (rate,), CRITERIA["error_rate"].form)
    with pytest.raises(
        ValueError, match="criterion 'error_rate' is not one of surefair's, and a file cannot hold its code"
    ):
        sf.save(make(impostor), path)
    assert os.listdir(path.parent) == []


def test_a_criterion_from_the_registry_is_saved_by_its_name(path):
    for clf in (
        make(CRITERIA["error_rate"]),
        clone(make(CRITERIA["error_rate"])),
    ):  # a grid search clones its estimator
        assert round_trip(clf, path).criterion == "error_rate"


# -- Damage ------------------------------------------------------------------------------------------------------------


def load_damaged(path, content):
    path.write_bytes(content)
    return sf.load(path)


def loaded_or_refused(path, content):
    """Return the classifier, or the error message."""
    try:
        return load_damaged(path, content)
    except ValueError as error:
        return str(error)


@given(data=st.data())
@settings(max_examples=200)
def test_a_flipped_bit_is_noticed_or_harmless(saved, tmp_path_factory, data):
    clf, content = saved
    bit = data.draw(st.integers(0, 8 * len(content) - 1))
    damaged = bytearray(content)
    damaged[bit // 8] ^= 1 << bit % 8
    found = loaded_or_refused(tmp_path_factory.getbasetemp() / "flipped.npz", damaged)
    if isinstance(found, str):
        assert re.search("damaged|not a surefair file", found)
    else:  # the archive stores some things twice, and its dates do not matter
        assert found.get_params() == clf.get_params()
        assert bits(found) == bits(clf)


@pytest.mark.parametrize("what", ["version needed", "flags", "method"])
def test_a_damaged_directory_of_the_archive_is_noticed(saved, path, what):
    offset = {"version needed": 6, "flags": 8, "method": 10}[what]  # in an entry of the archive's directory
    damaged = bytearray(saved[1])
    damaged[damaged.index(b"PK\x01\x02") + offset] ^= 0x81
    with pytest.raises(ValueError, match="damaged"):
        load_damaged(path, damaged)


@given(share=st.floats(0.0, 1.0, exclude_max=True))
def test_a_truncated_file_is_noticed(saved, tmp_path_factory, share):
    content = saved[1]
    with pytest.raises(ValueError, match="not a surefair file, or it is damaged"):
        load_damaged(tmp_path_factory.getbasetemp() / "cut.npz", content[: int(share * len(content))])


def rewritten(content, path, change):
    """Change arrays in the archive, and update their checksums in the directory of the zip file."""
    path.write_bytes(content)
    with np.load(path) as archive:
        arrays = {name: archive[name] for name in archive.files}
    change(arrays)
    np.savez(path, **arrays)
    return path


def in_meta(**changes):
    def change(arrays):
        meta = json.loads(arrays["meta"].tobytes()) | changes
        arrays["meta"] = np.frombuffer(json.dumps(meta).encode(), dtype=np.uint8)

    return change


def in_array(arrays):
    arrays["W"] = arrays["W"] + 1.0


CHANGES = {
    "another format": (in_meta(format="pears"), "format 'pears'"),
    "a later version": (in_meta(version=99), "version 99; this release reads .*, version 12. Read it with the release"),
    "an earlier version": (
        in_meta(version=1),
        "version 1; this release reads .*, version 12. Read it with the release",
    ),
    "another description": (in_meta(seed=1), "its description fails its checksum"),
    "another number": (in_array, "damaged: W fails its checksum"),
    "a lost array": (lambda arrays: arrays.pop("W"), "damaged: W fails its checksum"),
    "no description": (lambda arrays: arrays.pop("meta"), "not a surefair file"),
}


@pytest.mark.parametrize("case", CHANGES)
def test_a_changed_archive_is_refused(saved, path, case):
    change, message = CHANGES[case]
    with pytest.raises(ValueError, match=message):
        sf.load(rewritten(saved[1], path, change))


def test_other_files_are_refused(path):
    contents = [b"", b"some text", pickle.dumps({"a": 1}), b"PK\x03\x04 and more"]
    for content in contents:
        with pytest.raises(ValueError, match="not a surefair file"):
            load_damaged(path, content)


def test_other_numpy_files_are_refused(tmp_path):
    np.save(tmp_path / "array.npy", np.ones(3))
    np.savez(tmp_path / "arrays.npz", a=np.ones(3))
    for name in ("array.npy", "arrays.npz"):
        with pytest.raises(ValueError, match="not a surefair file"):
            sf.load(tmp_path / name)


def test_a_missing_file_or_folder_is_a_file_not_found_error(path):
    with pytest.raises(FileNotFoundError):
        sf.load(path)
    with pytest.raises(FileNotFoundError):
        sf.save(make(), path / "no" / "folder")
