"""Arrays and JSON in one file: what comes back is what went in, or the file is refused."""

from __future__ import annotations

import errno
import os
from io import BytesIO

import numpy as np
import pytest

from surefair.storage.archive import Damaged, read_archive, write_archive

ARRAYS = {
    "numbers": np.arange(12.0).reshape(3, 4),
    "flags": np.array([True, False]),
    "words": np.array(["ja", "nein", "Ω"]),
    "nothing": np.empty((0, 5)),
    "one/two": np.array(7),
    "columns first": np.asfortranarray(np.arange(6).reshape(2, 3)),
    "special": np.array([np.nan, np.inf, -0.0]),
}
META = {"name": "Zoë", "list": [1, 2.5, None], "nested": {"a": [True]}}


@pytest.fixture
def path(tmp_path):
    write_archive(tmp_path / "a.npz", "example", 1, META, ARRAYS)
    return tmp_path / "a.npz"


def test_what_comes_back_is_what_went_in(path):
    meta, arrays = read_archive(path, "example", 1)
    assert {name: meta[name] for name in META} == META
    assert list(arrays) == list(ARRAYS)
    for name, array in ARRAYS.items():
        assert arrays[name].dtype == array.dtype
        assert arrays[name].shape == array.shape
        assert arrays[name].tobytes() == array.tobytes()


def test_the_same_content_gives_the_same_bytes(path):
    again = path.with_name("b.npz")
    write_archive(again, "example", 1, META, ARRAYS)
    assert again.read_bytes() == path.read_bytes()


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9, 0.999])
def test_a_file_that_is_cut_short_is_refused(path, share):
    whole = path.read_bytes()
    path.write_bytes(whole[: int(share * len(whole))])
    with pytest.raises(Damaged, match="damaged"):
        read_archive(path, "example", 1)


def test_no_changed_byte_of_the_content_goes_unnoticed(path):
    """Wherever a byte is changed: the file is refused, or the byte told nothing (a date or an attribute in the zip)."""
    whole, rng, refused = path.read_bytes(), np.random.default_rng(0), 0
    for place in rng.choice(len(whole), 150, replace=False).tolist():
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0x55]) + whole[place + 1 :])
        try:
            meta, arrays = read_archive(path, "example", 1)
        except ValueError:
            refused += 1
            continue
        assert {name: meta[name] for name in META} == META
        assert all(arrays[name].tobytes() == array.tobytes() for name, array in ARRAYS.items())
    assert refused > 50


def test_arrays_swapped_behind_a_good_zip_fail_their_checksums(path):
    with np.load(path) as archive:
        parts = dict(archive)
    parts["numbers"] = parts["numbers"] + 1e-12
    np.savez(path, **parts)
    with pytest.raises(Damaged, match="numbers fails its checksum"):
        read_archive(path, "example", 1)


def test_an_array_that_is_gone_is_missed(path):
    with np.load(path) as archive:
        parts = dict(archive)
    del parts["flags"]
    np.savez(path, **parts)
    with pytest.raises(Damaged, match="flags fails its checksum"):
        read_archive(path, "example", 1)


@pytest.mark.parametrize(("kind", "version"), [("other", 1), ("example", 2)])
def test_another_kind_or_version_is_refused_but_is_not_damage(path, kind, version):
    with pytest.raises(ValueError, match="'example', version 1; this release") as caught:
        read_archive(path, kind, version)
    assert not isinstance(caught.value, Damaged)


def test_objects_are_never_written(tmp_path):
    with pytest.raises(ValueError, match="allow_pickle"):
        write_archive(tmp_path / "a.npz", "example", 1, {}, {"x": np.array([{}], dtype=object)})
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_leaves_the_old_file_and_nothing_else(path, monkeypatch):
    def full(_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    before = path.read_bytes()
    monkeypatch.setattr("surefair.storage.atomic.os.fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_archive(path, "example", 1, {}, {"x": np.zeros(3)})
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


def test_a_missing_file_is_said_to_be_missing(tmp_path):
    with pytest.raises(FileNotFoundError):
        read_archive(tmp_path / "a.npz", "example", 1)


def test_file_objects_serve_as_paths_do():
    file = BytesIO()
    write_archive(file, "example", 1, {"name": "a"}, {"x": np.arange(3)})
    file.seek(0)
    meta, arrays = read_archive(file, "example", 1)
    assert meta["name"] == "a"
    assert arrays["x"].tolist() == [0, 1, 2]
    with pytest.raises(Damaged, match="'the file' is not a surefair file"):
        read_archive(BytesIO(b"nothing"), "example", 1)
