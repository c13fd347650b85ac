"""``surefair data``, on small stand-in files; nothing here reaches the network."""

from __future__ import annotations

import hashlib
import subprocess
from types import SimpleNamespace

import pooch
import pytest
from click.testing import CliRunner

from surefair import datasets
from surefair.cli import main
from surefair.datasets import _files

FILES = tuple(_files.FILES)
CONTENT = {name: f"stand-in for {name}\n".encode() for name in FILES}


def run(*arguments):
    return CliRunner().invoke(main, ["data", *arguments], env={"COLUMNS": "200"})


@pytest.fixture(autouse=True)
def asked(tmp_path, monkeypatch) -> list[str]:
    """What the network was asked for; it refuses everything."""
    asked = []

    def retrieve(url, *args, **options):
        asked.append(url)
        raise OSError("no network")

    def pip(command, **options):
        asked.append(command)
        return SimpleNamespace(returncode=1, stderr="ERROR: no package index\n")

    sources = {
        name: source._replace(sha256=hashlib.sha256(CONTENT[name]).hexdigest()) for name, source in _files.FILES.items()
    }
    monkeypatch.setattr(_files, "FILES", sources)
    monkeypatch.setattr(pooch, "os_cache", lambda project: tmp_path / "cache" / project)
    monkeypatch.setattr(pooch, "retrieve", retrieve)
    monkeypatch.setattr(subprocess, "run", pip)
    monkeypatch.delenv(_files.ENVIRONMENT_VARIABLE, raising=False)
    level = pooch.get_logger().level
    yield asked
    pooch.get_logger().setLevel(level)


@pytest.fixture
def cache(tmp_path):
    return tmp_path / "cache" / "surefair"


@pytest.fixture
def named(tmp_path, monkeypatch):
    monkeypatch.setenv(_files.ENVIRONMENT_VARIABLE, str(tmp_path / "named"))
    return tmp_path / "named"


def put(folder, *names, content=None):
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / name).write_bytes(content or CONTENT[name])


def row(result, name):
    """The line of a data set in the table."""
    (line,) = [line for line in result.output.splitlines() if line.split()[:1] == [name]]
    return " ".join(line.split())


# -- list -----------------------------------------------------------------------------------------------------------


def test_list_has_a_line_for_each_data_set_and_fetches_nothing(asked):
    result = run("list")
    assert result.exit_code == 0, result.output
    for name in datasets.names():
        known = datasets.about(name)
        rows = "any" if known.rows is None else f"{known.rows:,}"
        files = "not yet fetched" if known.files else "none needed"
        words = (name, rows, known.features, known.label, known.sensitive, files, known.source)
        assert row(result, name) == " ".join(map(str, words))
    assert not asked


def test_list_says_where_files_are(cache, named, asked):
    put(cache, "adult.data", "german.data")
    put(named, "compas-scores-two-years.csv")
    result = run("list")
    assert " 1 cached, 1 not yet fetched " in row(result, "adult")
    assert " in folder " in row(result, "compas")
    assert " cached " in row(result, "german")
    assert f"Folder (SUREFAIR_DATA): {named}\n" in result.output
    assert f"Cache: {cache}\n" in result.output
    assert not asked


def test_list_says_that_no_folder_was_named():
    assert "Folder (SUREFAIR_DATA): none was named\n" in run("list").output


def test_list_says_which_file_is_not_the_expected_one(named):
    put(named, "german.data", content=b"something else")
    result = run("list")
    assert result.exit_code == 0, result.output
    assert " not as expected " in row(result, "german")
    assert f"{named / 'german.data'} is not the expected file" in result.output


def test_list_fits_a_narrow_terminal():
    result = CliRunner().invoke(main, ["data", "list"], env={"COLUMNS": "80"})
    for name in datasets.names():
        assert datasets.about(name).label in row(result, name)


# -- fetch ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def online(monkeypatch, asked):
    """A network that has every file."""

    def retrieve(url, known_hash, fname, path, downloader):
        asked.append(url)
        put(path, fname)

    monkeypatch.setattr(pooch, "retrieve", retrieve)


def test_fetch_takes_all_by_default_and_says_where_each_is(cache, online):
    result = run("fetch")
    assert result.exit_code == 0, result.output
    lines = [f"{name}: {cache / file}" for name in datasets.names() for file in datasets.about(name).files]
    assert lines == [line for line in result.output.splitlines() if "no file needed" not in line]
    assert sorted(path.name for path in cache.iterdir()) == sorted(FILES)


def test_fetch_takes_what_it_was_told_and_nothing_twice(cache, online, asked):
    assert run("fetch", "german", "german").output == f"german: {cache / 'german.data'}\n"
    assert run("fetch", "german").output == f"german: {cache / 'german.data'}\n"
    assert asked == [_files.FILES["german.data"].url]


def test_fetch_leaves_files_of_the_named_folder_alone(named, cache, online, asked):
    put(named, "german.data")
    assert run("fetch", "german").output == f"german: {named / 'german.data'}\n"
    assert not asked


def test_fetch_needs_no_file_for_synthetic_rows(asked):
    result = run("fetch", "synthetic_di")
    assert (result.exit_code, result.output) == (0, "synthetic_di: no file needed\n")
    assert not asked


def test_a_failure_names_the_file_and_what_to_do_and_the_others_are_still_tried(cache):
    put(cache, "compas-scores-two-years.csv", "adult.test")
    result = run("fetch")
    assert result.exit_code == 1
    assert f"adult: {cache / 'adult.test'}\n" in result.stdout
    assert f"compas: {cache / 'compas-scores-two-years.csv'}\n" in result.stdout
    for file in ("adult.data", "german.data"):
        assert f"The data file {file!r} was not found" in result.stderr
    assert result.stderr.count("Set SUREFAIR_DATA to a folder that holds these files:") == 1
    remedy = result.stderr.partition("Set SUREFAIR_DATA")[2]
    assert [file for file in FILES if file in remedy] == ["adult.data", "german.data"]


def test_a_file_with_another_content_is_a_failure_with_its_own_remedy(named, cache, online):
    put(named, "adult.data", content=b"something else")
    result = run("fetch", "adult", "german")
    assert result.exit_code == 1
    assert f"{named / 'adult.data'} is not the expected file" in result.stderr
    assert "remove it to have it fetched" in result.stderr
    assert "Set SUREFAIR_DATA" not in result.stderr
    assert f"german: {cache / 'german.data'}\n" in result.stdout


def test_an_unknown_name_ends_with_code_2_before_anything_is_fetched(online, asked):
    result = run("fetch", "german", "adlt")
    assert result.exit_code == 2
    assert "Unknown data set: 'adlt'. Did you mean 'adult'?" in result.output
    assert not asked


@pytest.mark.parametrize("arguments", [["--help"], ["list", "--help"], ["fetch", "--help"]])
def test_help(arguments):
    result = run(*arguments)
    assert result.exit_code == 0
    assert "Usage:" in result.output
