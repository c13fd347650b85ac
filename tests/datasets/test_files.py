"""Finding data files, with small stand-ins; these tests do not use the network."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pooch
import pytest

from surefair.datasets import files

NAME = "toy.csv"
CONTENT = b"a,b\n1,2\n"
FILE = files.DataFile(hashlib.sha256(CONTENT).hexdigest(), "https://example.invalid/toy.csv")


class Offline:
    """A stand-in for the network that refuses every request and records it."""

    def __init__(self):
        self.asked = []

    def retrieve(self, url, *args, **options):
        self.asked.append(url)
        raise OSError("no network")


@pytest.fixture
def cache(tmp_path, monkeypatch) -> Path:
    monkeypatch.setattr(pooch, "os_cache", lambda project: tmp_path / "cache" / project)
    return tmp_path / "cache" / "surefair"


@pytest.fixture(autouse=True)
def offline(monkeypatch, cache) -> Offline:
    offline = Offline()
    monkeypatch.setattr(pooch, "retrieve", offline.retrieve)
    monkeypatch.setattr(files, "FILES", {NAME: FILE})
    monkeypatch.delenv(files.ENVIRONMENT_VARIABLE, raising=False)
    return offline


def put(folder: Path, content: bytes = CONTENT) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / NAME).write_bytes(content)
    return folder


def test_the_named_folder_comes_first(tmp_path, cache, offline):
    named = put(tmp_path / "named")
    put(cache)
    assert files.find(NAME, named) == named / NAME
    assert not offline.asked


def test_the_environment_names_a_folder(tmp_path, cache, monkeypatch):
    monkeypatch.setenv("SUREFAIR_DATA", str(put(tmp_path / "environment")))
    put(cache)
    assert files.find(NAME) == tmp_path / "environment" / NAME


def test_the_argument_takes_precedence_over_the_environment(tmp_path, monkeypatch):
    monkeypatch.setenv("SUREFAIR_DATA", str(put(tmp_path / "environment")))
    assert files.find(NAME, put(tmp_path / "argument")) == tmp_path / "argument" / NAME


def test_a_file_that_is_not_in_the_folder_comes_from_the_cache(tmp_path, cache, offline):
    put(cache)
    assert files.find(NAME, tmp_path) == cache / NAME
    assert not offline.asked


def test_unexpected_content_in_the_named_folder_is_an_error(tmp_path, cache, offline):
    put(cache)
    with pytest.raises(ValueError, match=f"unexpected content.*expected {FILE.sha256}.*delete it"):
        files.find(NAME, put(tmp_path / "named", b"something else"))
    assert not offline.asked


def test_the_original_is_downloaded_into_the_cache_and_checked(cache, monkeypatch):
    def retrieve(url, known_hash, fname, path, downloader):
        assert (url, known_hash) == (FILE.url, f"sha256:{FILE.sha256}")
        assert downloader.kwargs["timeout"] == 10
        return str(put(path) / fname)

    monkeypatch.setattr(pooch, "retrieve", retrieve)
    assert files.find(NAME).read_bytes() == CONTENT
    assert (cache / NAME).is_file()


def test_a_damaged_file_in_the_cache_is_downloaded_again(cache, monkeypatch):
    put(cache, b"half a fi")
    monkeypatch.setattr(pooch, "retrieve", lambda *args, fname, path, downloader: str(put(path) / fname))
    assert files.find(NAME).read_bytes() == CONTENT


def test_when_nothing_works_one_error_lists_every_place_and_what_to_do(tmp_path, cache):
    with pytest.raises(FileNotFoundError) as caught:
        files.find(NAME, tmp_path / "absent")
    message = str(caught.value)
    for part in (
        "'toy.csv' was not found",
        str(tmp_path / "absent"),
        str(cache),
        "no network",
        "Run `make data`",
        "set SUREFAIR_DATA to a folder with these files",
        FILE.sha256,
        FILE.url,
    ):
        assert part in message


def test_the_error_says_that_no_folder_is_set():
    with pytest.raises(FileNotFoundError, match="not set"):
        files.find(NAME)


# -- Without downloads -----------------------------------------------------------------------------------------------


def test_a_missing_file_is_not_local_and_not_requested(offline):
    assert files.find_local(NAME) is None
    assert not offline.asked


def test_the_named_folder_comes_before_the_cache(tmp_path, cache, monkeypatch, offline):
    put(cache)
    assert files.find_local(NAME) == cache / NAME
    monkeypatch.setenv("SUREFAIR_DATA", str(put(tmp_path / "environment")))
    assert files.find_local(NAME) == tmp_path / "environment" / NAME
    assert not offline.asked


def test_a_damaged_file_in_the_cache_is_not_local(cache):
    put(cache, b"half a fi")
    assert files.find_local(NAME) is None


def test_unexpected_content_is_an_error_without_downloads_too(tmp_path, monkeypatch):
    monkeypatch.setenv("SUREFAIR_DATA", str(put(tmp_path, b"something else")))
    with pytest.raises(ValueError, match="unexpected content"):
        files.find_local(NAME)
