"""Malformed files and random options: an audit ends with a known exit code and one clear line, never a traceback."""

from __future__ import annotations

import bz2
import gzip
import os
import shutil
import signal
from contextlib import contextmanager

import numpy as np
import pytest
from click.testing import CliRunner

import surefair as sf
from surefair.cli import main
from surefair.cli._work import EXIT_CODES

FEW = 5
CASES = int(os.environ.get("SUREFAIR_FUZZ", "200"))
FIRST = int(os.environ.get("SUREFAIR_FUZZ_FIRST", "0"))  # number of the first case
CODES = (0, 1, 2, 3, 4)
SECONDS = 60  # for one audit
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


@contextmanager
def limited(seconds):
    """Raise an error if the work takes longer."""

    def stop(*_):
        raise AssertionError(f"no end after {seconds} seconds")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def run(*arguments, out):
    """Run an audit that ends with a known exit code: one clear line, or the code of its verdict."""
    shutil.rmtree(out, ignore_errors=True)
    with limited(SECONDS):
        result = CliRunner().invoke(main, ["audit", *arguments, "--out", str(out)])
    assert result.exception is None or isinstance(result.exception, SystemExit), (arguments, result.exc_info)
    assert result.exit_code in CODES, (arguments, result.output)
    assert "\x1b" not in result.output
    if result.exit_code in (1, 2):
        assert "Error: " in result.output, (arguments, result.output)
        assert not (out / "audit.json").exists(), (arguments, result.output)
        return None
    found = sf.Audit.from_json(out / "audit.json")
    assert EXIT_CODES[found.verdict] == result.exit_code, (arguments, found.verdict)
    assert (out / "report.html").stat().st_size > 0
    return found


def try_file(path, seed):
    rng = np.random.default_rng([7, seed])
    path.write_bytes(damaged(content(rng), rng))
    run(str(path), "--label", "high", "--sensitive", "sex", *PLAIN, out=path.parent / "out")


def try_options(path, seed):
    rng = np.random.default_rng([8, seed])
    path.write_bytes(content(rng))
    asked = {"--label": "high", "--sensitive": "sex"}
    for _ in range(rng.integers(1, 4)):
        asked[f"--{OPTIONS[rng.integers(len(OPTIONS))]}"] = VALUES[rng.integers(len(VALUES))]
    run(str(path), *PLAIN, *(part for pair in asked.items() for part in pair), out=path.parent / "out")


def rewritten(whole, rng):
    """Write the same rows in another way: bytes, suffix and options."""
    lines = whole.decode().splitlines()
    options = []
    mark = rng.choice([",", ";", "\t", "|"])
    if rng.random() < 0.5:
        lines = [",".join(f'"{field}"' for field in line.split(",")) for line in lines]
    if rng.random() < 0.3:
        lines = [line.replace(",", ", ") for line in lines]
    lines = [line.replace(",", mark) for line in lines]
    options += [] if mark == "," else ["--delimiter", mark]
    if rng.random() < 0.3:
        lines = [part for line in lines for part in (line, *[""] * int(rng.integers(2)))]
    text = rng.choice(["\n", "\r\n", "\r"]).join(lines) + rng.choice(["", "\n"])
    encoding = rng.choice(["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "latin-1"])
    options += ["--encoding", "utf-8" if encoding == "utf-8-sig" else str(encoding)]
    suffix = rng.choice([".csv", ".csv.gz", ".csv.bz2", ".txt"])
    pack = {".csv.gz": gzip.compress, ".csv.bz2": bz2.compress}.get(str(suffix), bytes)
    return pack(text.encode(encoding)), str(suffix), options


def try_rewritten(path, seed):
    """The same rows, written in another way, give the same numbers."""
    rng = np.random.default_rng([9, seed])
    whole = content(rng)
    path.write_bytes(whole)
    asked = ("--label", "high", "--sensitive", "sex", *PLAIN)
    expected = run(str(path), *asked, out=path.parent / "out")
    bytes_, suffix, options = rewritten(whole, rng)
    other = path.with_name(f"other{suffix}")
    other.write_bytes(bytes_)
    found = run(str(other), *asked, *options, out=path.parent / "out")
    assert (found is None) == (expected is None), (suffix, options)
    if found is not None:
        assert (found.models, found.groups, found.columns) == (expected.models, expected.groups, expected.columns)


@pytest.fixture
def path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path / "data.csv"


pytestmark = pytest.mark.filterwarnings("ignore")
ATTEMPTS = [try_file, try_options, try_rewritten]


@pytest.mark.parametrize("attempt", ATTEMPTS)
def test_a_few_cases_end_with_a_known_exit_code(path, attempt):
    for seed in range(FEW):
        attempt(path, seed)


@pytest.mark.slow
@pytest.mark.parametrize("attempt", ATTEMPTS)
def test_many_cases_end_with_a_known_exit_code(path, attempt):
    for seed in range(FIRST, FIRST + CASES):
        attempt(path, seed)
