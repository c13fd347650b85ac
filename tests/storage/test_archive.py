"""Reading an archive returns exactly what was written, or raises an error."""

from __future__ import annotations

import errno
import os
import tracemalloc
from io import BytesIO
from zipfile import ZIP_DEFLATED, ZipFile

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


def test_an_archive_returns_what_was_written(path):
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
def test_a_truncated_file_is_damaged(path, share):
    whole = path.read_bytes()
    path.write_bytes(whole[: int(share * len(whole))])
    with pytest.raises(Damaged, match="damaged"):
        read_archive(path, "example", 1)


def test_every_changed_byte_of_the_content_is_noticed(path):
    """A byte that goes unnoticed carries no content, such as a date or an attribute in the zip file."""
    whole = path.read_bytes()
    rng = np.random.default_rng(0)
    refused = 0
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


def test_a_changed_array_in_a_valid_zip_file_fails_its_checksum(path):
    with np.load(path) as archive:
        parts = dict(archive)
    parts["numbers"] = parts["numbers"] + 1e-12
    np.savez(path, **parts)
    with pytest.raises(Damaged, match="numbers fails its checksum"):
        read_archive(path, "example", 1)


def test_a_lost_array_fails_its_checksum(path):
    with np.load(path) as archive:
        parts = dict(archive)
    del parts["flags"]
    np.savez(path, **parts)
    with pytest.raises(Damaged, match="flags fails its checksum"):
        read_archive(path, "example", 1)


@pytest.mark.parametrize(("kind", "version"), [("other", 1), ("example", 2)])
def test_another_kind_or_version_is_an_error_but_not_damage(path, kind, version):
    with pytest.raises(ValueError, match="'example', version 1; this release") as caught:
        read_archive(path, kind, version)
    assert not isinstance(caught.value, Damaged)


def test_objects_are_never_written(tmp_path):
    with pytest.raises(ValueError, match="Python objects are not written: x"):
        write_archive(tmp_path / "a.npz", "example", 1, {}, {"x": np.array([{}], dtype=object)})
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_leaves_only_the_old_file(path, monkeypatch):
    def full(_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    before = path.read_bytes()
    monkeypatch.setattr("surefair.storage.atomic.os.fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_archive(path, "example", 1, {}, {"x": np.zeros(3)})
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


def test_a_missing_file_is_not_found(tmp_path):
    with pytest.raises(FileNotFoundError):
        read_archive(tmp_path / "a.npz", "example", 1)


def test_file_objects_can_replace_paths():
    file = BytesIO()
    write_archive(file, "example", 1, {"name": "a"}, {"x": np.arange(3)})
    file.seek(0)
    meta, arrays = read_archive(file, "example", 1)
    assert meta["name"] == "a"
    assert arrays["x"].tolist() == [0, 1, 2]
    with pytest.raises(Damaged, match="'the file' is not a surefair file"):
        read_archive(BytesIO(b"nothing"), "example", 1)


# -- Files that somebody made ------------------------------------------------------------------------------------------


def rewritten(path, **more):
    """Write the members of an archive again, some in another way."""
    with ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    with ZipFile(path, "w", **more) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return members


def test_compressed_members_are_refused(path):
    rewritten(path, compression=ZIP_DEFLATED)
    with pytest.raises(Damaged, match="damaged"):
        read_archive(path, "example", 1)


def test_a_member_that_is_not_listed_is_refused(path):
    with ZipFile(path, "a") as archive:
        archive.writestr("more.npy", archive.read("flags.npy"))
    with pytest.raises(Damaged, match="more fails its checksum"):
        read_archive(path, "example", 1)


@pytest.mark.parametrize("shape", ["(1000000000000,)", "(-1,)", "(2, -3)"])
def test_an_array_that_says_it_is_larger_than_the_file_is_refused_before_memory_is_taken(path, shape):
    members = rewritten(path)
    header = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    with ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, b"\x93NUMPY\x01\x00\x76\x00" + header.encode() if name == "flags.npy" else content)
    tracemalloc.start()
    with pytest.raises(Damaged):
        read_archive(path, "example", 1)
    assert tracemalloc.get_traced_memory()[1] < 10_000_000
    tracemalloc.stop()


@pytest.mark.parametrize("dtype", ["O", "M8[s]", "V8", "c16"])
def test_arrays_of_other_types_than_numbers_and_text_are_refused(path, dtype):
    with np.load(path) as archive:
        parts = dict(archive)
    parts["numbers"] = np.zeros(2, dtype=dtype)
    np.savez(path, **parts)
    with pytest.raises(Damaged):
        read_archive(path, "example", 1)
