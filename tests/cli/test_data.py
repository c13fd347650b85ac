"""``surefair data``, with small stand-in files; these tests do not use the network."""

from __future__ import annotations

import hashlib

import pooch
import pytest
from click.testing import CliRunner

from surefair import datasets
from surefair.cli import main
from surefair.datasets import files

FILES = tuple(files.FILES)
CONTENT = {name: f"stand-in for {name}\n".encode() for name in FILES}


def run(*arguments):
    return CliRunner().invoke(main, ["data", *arguments], env={"COLUMNS": "200"})


@pytest.fixture(autouse=True)
def asked(tmp_path, monkeypatch) -> list[str]:
    """The addresses that were requested; every download fails."""
    asked = []

    def retrieve(url, *args, **options):
        asked.append(url)
        raise OSError("no network")

    stand_ins = {
        name: file._replace(sha256=hashlib.sha256(CONTENT[name]).hexdigest()) for name, file in files.FILES.items()
    }
    monkeypatch.setattr(files, "FILES", stand_ins)
    monkeypatch.setattr(pooch, "os_cache", lambda project: tmp_path / "cache" / project)
    monkeypatch.setattr(pooch, "retrieve", retrieve)
    monkeypatch.delenv(files.ENVIRONMENT_VARIABLE, raising=False)
    level = pooch.get_logger().level
    yield asked
    pooch.get_logger().setLevel(level)


@pytest.fixture
def cache(tmp_path):
    return tmp_path / "cache" / "surefair"


@pytest.fixture
def named(tmp_path, monkeypatch):
    monkeypatch.setenv(files.ENVIRONMENT_VARIABLE, str(tmp_path / "named"))
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


def test_list_has_a_line_for_each_data_set_and_downloads_nothing(asked):
    result = run("list")
    assert result.exit_code == 0, result.output
    for name in datasets.names():
        facts = datasets.about(name)
        rows = "any" if facts.rows is None else f"{facts.rows:,}"
        where = "not here" if facts.files else "none needed"
        words = (name, rows, facts.features, facts.label, facts.sensitive, where, facts.source)
        assert row(result, name) == " ".join(map(str, words))
    assert not asked


def test_list_says_where_files_are(cache, named, asked):
    put(cache, "adult.data", "german.data")
    put(named, "compas-scores-two-years.csv")
    result = run("list")
    assert " 1 in cache, 1 not here " in row(result, "adult")
    assert " in folder " in row(result, "compas")
    assert " in cache " in row(result, "german")
    assert f"Folder (SUREFAIR_DATA): {named}\n" in result.output
    assert f"Cache: {cache}\n" in result.output
    assert not asked


def test_list_says_that_no_folder_is_set():
    assert "Folder (SUREFAIR_DATA): not set\n" in run("list").output


def test_list_says_which_file_has_unexpected_content(named):
    put(named, "german.data", content=b"something else")
    result = run("list")
    assert result.exit_code == 0, result.output
    assert " unexpected content " in row(result, "german")
    assert f"{named / 'german.data'} has unexpected content" in result.output


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


def test_fetch_downloads_all_files_by_default_and_prints_their_paths(cache, online):
    result = run("fetch")
    assert result.exit_code == 0, result.output
    lines = [f"{name}: {cache / file}" for name in datasets.names() for file in datasets.about(name).files]
    assert lines == [line for line in result.output.splitlines() if "needs no files" not in line]
    assert sorted(path.name for path in cache.iterdir()) == sorted(FILES)


def test_fetch_downloads_the_named_data_sets_once(cache, online, asked):
    assert run("fetch", "german", "german").output == f"german: {cache / 'german.data'}\n"
    assert run("fetch", "german").output == f"german: {cache / 'german.data'}\n"
    assert asked == [files.FILES["german.data"].url]


def test_fetch_does_not_download_files_of_the_named_folder(named, cache, online, asked):
    put(named, "german.data")
    assert run("fetch", "german").output == f"german: {named / 'german.data'}\n"
    assert not asked


def test_fetch_needs_no_files_for_synthetic_rows(asked):
    result = run("fetch", "synthetic_di")
    assert (result.exit_code, result.output) == (0, "synthetic_di: needs no files\n")
    assert not asked


def test_fetch_tries_all_files_and_says_what_to_do_about_failures(cache):
    put(cache, "compas-scores-two-years.csv", "adult.test")
    result = run("fetch")
    assert result.exit_code == 1
    assert f"adult: {cache / 'adult.test'}\n" in result.stdout
    assert f"compas: {cache / 'compas-scores-two-years.csv'}\n" in result.stdout
    for file in ("adult.data", "german.data"):
        assert f"The data file {file!r} was not found" in result.stderr
    assert result.stderr.count("set SUREFAIR_DATA to a folder with these files:") == 1
    advice = result.stderr.partition("set SUREFAIR_DATA")[2]
    assert [file for file in FILES if file in advice] == ["adult.data", "german.data"]


def test_unexpected_content_is_a_failure_with_its_own_advice(named, cache, online):
    put(named, "adult.data", content=b"something else")
    result = run("fetch", "adult", "german")
    assert result.exit_code == 1
    assert f"{named / 'adult.data'} has unexpected content" in result.stderr
    assert "delete it so that surefair downloads the original" in result.stderr
    assert "set SUREFAIR_DATA" not in result.stderr
    assert f"german: {cache / 'german.data'}\n" in result.stdout


def test_an_unknown_name_ends_with_code_2_and_downloads_nothing(online, asked):
    result = run("fetch", "german", "adlt")
    assert result.exit_code == 2
    assert "Unknown data set: 'adlt'. Did you mean 'adult'?" in result.output
    assert not asked


@pytest.mark.parametrize("arguments", [["--help"], ["list", "--help"], ["fetch", "--help"]])
def test_help(arguments):
    result = run(*arguments)
    assert result.exit_code == 0
    assert "Usage:" in result.output
