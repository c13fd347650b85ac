"""The command line: its output, its files and its exit codes."""

from __future__ import annotations

import re

import matplotlib.image
import matplotlib.pyplot as plt
import pytest
from click.testing import CliRunner

import surefair as sf
from surefair.cli import main
from surefair.cli.demo import MODELS
from surefair.inference.sources import SOURCES


def run(*arguments):
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


@pytest.fixture(autouse=True)
def no_window():
    with plt.rc_context({"backend": "Agg"}):
        yield
    plt.close("all")


@pytest.mark.parametrize("flag", ["--help", "-h"])
def test_help_lists_the_commands(flag):
    result = run(flag)
    assert result.exit_code == 0
    assert "How certain are you that the model is fair?" in result.output
    assert "demo" in result.output


def test_help_of_a_command_shows_its_options_with_defaults():
    result = run("demo", "--help")
    assert result.exit_code == 0
    for words in ("--rows", "100000", "--seed", "--out", "--quiet"):
        assert words in result.output


def test_version():
    result = run("--version")
    assert result.exit_code == 0
    assert sf.__version__ in result.output


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    """Result of a short demo, and the folder that it wrote to."""
    folder = tmp_path_factory.mktemp("demo") / "new" / "folder"
    return run("demo", "--rows", 4000, "--out", folder, "--quiet"), folder


def test_demo_prints_an_interval_for_each_classifier_and_source(demo):
    result, _ = demo
    assert result.exit_code == 0, result.output
    rows = [line.split("│") for line in result.output.splitlines() if line.count("│") == 7]
    cells = {(row[1].strip(), row[2].strip()): [float(number) for number in row[3:7]] for row in rows}
    assert set(cells) == {(name, source) for name in MODELS for source in SOURCES}
    for unfairness, low, high, accuracy in cells.values():
        assert 0.0 <= low <= unfairness <= high <= 1.0
        assert 0.5 < accuracy <= 1.0
    free, constrained = MODELS
    assert cells[constrained, "total"][2] < cells[free, "total"][1]


def test_demo_says_what_each_source_estimates(demo):
    result, _ = demo
    words = " ".join(result.output.split())  # undo line wrapping
    assert "after 4,000 rows" in words
    for name, source in SOURCES.items():
        assert f"{name}: {source.estimates}." in words


def test_demo_saves_a_picture(demo):
    result, folder = demo
    (picture,) = folder.iterdir()
    assert str(picture) in result.output
    assert picture.read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
    pixels = matplotlib.image.imread(picture)
    assert min(pixels.shape[:2]) > 300
    assert pixels[..., :3].std() > 0.0  # something is drawn


def test_demo_is_reproducible(demo, tmp_path):
    result, _ = demo
    again = run("demo", "--rows", 4000, "--out", tmp_path, "--quiet")
    assert again.output.split("Picture")[0] == result.output.split("Picture")[0]


def test_demo_trains_on_exactly_the_given_number_of_rows(tmp_path):
    result = run("demo", "--rows", 4100, "--out", tmp_path, "--quiet")
    assert "after 4,100 rows" in result.output


@pytest.mark.parametrize("command", ["audit", "resume", "calibrate", "reproduce"])
def test_the_number_of_jobs_is_explained_in_the_same_words(command):
    words = " ".join(run(command, "--help").output.split())
    assert re.search(r"Number of (threads|processes); -1 for one per core\.", words)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["demo", "--row", "5000"], "No such option"),
        (["demo", "--rows", "10"], "not in the range"),
        (["demo", "--seed", "-1"], "not in the range"),
        (["demo", "--rows", "many"], "not a valid integer"),
        (["dmeo"], "No such command"),
    ],
)
def test_a_bad_command_line_ends_with_code_2(arguments, message):
    result = run(*arguments)
    assert result.exit_code == 2
    assert message in result.output
