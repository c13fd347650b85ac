"""surefair merge: one file from the fits of several shards."""

from __future__ import annotations

import pytest
from click.testing import CliRunner
from fits import APART, classifier, sample, state_of

import surefair as sf
from surefair.cli import main

pytestmark = pytest.mark.filterwarnings("ignore::surefair.diagnostics.Diagnostic")  # fits on few rows


def shard(number, **params):
    """Fit a third of the rows."""
    D = tuple(part[:APART] for part in sample()[:3])
    X, y, z = (part[number::3] for part in sample(seed=5)[:3])
    return classifier(random_state=number, **params).fit(X, y, sensitive_features=z, constraint_set=D)


def run(*arguments):
    return CliRunner().invoke(main, ["merge", *map(str, arguments)])


@pytest.fixture
def files(tmp_path):
    for i in range(3):
        sf.save(shard(i), tmp_path / f"{i}.npz")
    return [tmp_path / f"{i}.npz" for i in range(3)]


def test_merge_writes_the_merged_fit(files, tmp_path):
    done = run(*files, "--out", tmp_path / "all.npz")
    assert (done.exit_code, done.output) == (0, f"Merged 3 fits of 700 rows: {tmp_path / 'all.npz'}\n")
    assert state_of(sf.load(tmp_path / "all.npz")) == state_of(shard(0).merge(shard(1)).merge(shard(2)))


def test_files_that_cannot_be_merged_are_named(files, tmp_path):
    out = tmp_path / "all.npz"
    (tmp_path / "no.npz").write_bytes(b"no")
    sf.save(shard(0, alpha=0.5), tmp_path / "other.npz")
    sf.save(classifier(), tmp_path / "unfitted.npz")
    for arguments, code, words in [
        (files[:1], 2, "Merging takes two files or more"),
        ([files[0], tmp_path / "no.npz"], 1, "no.npz' is not a surefair file"),
        ([files[0], files[0]], 1, "count every row twice"),
        ([files[0], tmp_path / "other.npz"], 1, "other.npz: The fits are of different problems: alpha differ"),
        ([files[0], tmp_path / "unfitted.npz"], 1, "unfitted.npz: This FairClassifier instance is not fitted yet"),
        ([files[0], tmp_path / "absent.npz"], 2, "does not exist"),
    ]:
        done = run(*arguments, "--out", out)
        assert done.exit_code == code
        assert words in " ".join(done.output.split())
    assert not out.exists()
