"""Malformed files and random options: an audit ends with a known exit code and one clear line, never a traceback."""

from __future__ import annotations

import os

import numpy as np
import pytest
from click.testing import CliRunner

from surefair.cli import main

FEW = 5
CASES = int(os.environ.get("SUREFAIR_FUZZ", "200"))
CODES = (0, 1, 2, 3, 4)
PIECES = [b",", b'"', b"\n", b"\r", b"\0", b"\xff", b"NA", b"inf", b"1e999", b"-", b";", b"\x1b[2J", b"\xef\xbb\xbf"]
VALUES = [
    "nan",
    "inf",
    "-1",
    "0",
    "1",
    "1e-300",
    "1e300",
    "",
    "x",
    "sex",
    "high",
    "age",
    "100000000",
    "\x1b[2J",
    "none",
]
OPTIONS = [
    "label",
    "sensitive",
    "positive",
    "features",
    "drop",
    "weights",
    "names",
    "delimiter",
    "encoding",
    "max-bad-rows",
    "criterion",
    "loss",
    "surrogate",
    "tolerance",
    "penalty",
    "alpha",
    "level",
    "seed",
    "metric",
    "margin",
    "split-by",
    "shard-rows",
    "every-rows",
    "every-seconds",
    "engine",
    "out",
]
PLAIN = ("--criterion", "none", "--replicates", "2", "--jobs", "1", "--quiet")


def content(rng, n=90):
    lines = [b"age,job,sex,high"]
    for _ in range(n):
        age, job = round(rng.normal(), 3), rng.choice(["clerk", "cook"])
        lines.append(f"{age},{job},{rng.choice(['f', 'm'])},{int(age + rng.normal() > 0)}".encode())
    return b"\n".join(lines) + b"\n"


def damaged(whole, rng):
    """Change, insert, remove or repeat bytes at random places."""
    for _ in range(rng.integers(1, 6)):
        at, to = sorted(rng.integers(len(whole) + 1, size=2).tolist())
        to = min(to, at + 40)
        piece = PIECES[rng.integers(len(PIECES))] * int(rng.choice([1, 1, 1, 50]))
        whole = [
            whole[:at] + piece + whole[at:], whole[:at] + piece + whole[to:], whole[:at] + whole[to:],
            whole[:to] + whole[at:], whole[: max(at, 1)],
        ][rng.integers(5)]  # fmt: skip
    return whole


def run(*arguments):
    result = CliRunner().invoke(main, ["audit", *arguments])
    assert result.exception is None or isinstance(result.exception, SystemExit), (arguments, result.exc_info)
    assert result.exit_code in CODES, (arguments, result.output)
    if result.exit_code in (1, 2):
        assert "Error: " in result.output, (arguments, result.output)
    assert "\x1b" not in result.output


def try_file(path, seed):
    rng = np.random.default_rng([7, seed])
    path.write_bytes(damaged(content(rng), rng))
    run(str(path), "--label", "high", "--sensitive", "sex", *PLAIN, "--out", str(path.parent / "out"))


def try_options(path, seed):
    rng = np.random.default_rng([8, seed])
    path.write_bytes(content(rng))
    asked = {"--label": "high", "--sensitive": "sex"}
    for _ in range(rng.integers(1, 4)):
        value = VALUES[rng.integers(len(VALUES))]
        option = f"--{OPTIONS[rng.integers(len(OPTIONS))]}"
        asked[option] = str(path.parent / "out2") if option == "--out" else value
    run(str(path), *PLAIN, *(part for pair in asked.items() for part in pair))


@pytest.fixture
def path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path / "data.csv"


pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.mark.parametrize("attempt", [try_file, try_options])
def test_a_few_cases_end_with_a_known_exit_code(path, attempt):
    for seed in range(FEW):
        attempt(path, seed)


@pytest.mark.slow
@pytest.mark.parametrize("attempt", [try_file, try_options])
def test_many_cases_end_with_a_known_exit_code(path, attempt):
    for seed in range(CASES):
        attempt(path, seed)
