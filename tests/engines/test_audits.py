"""An audit is the same on every engine, also if a worker dies, and errors name the bad row."""

from __future__ import annotations

import os
import signal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import surefair as sf
from surefair.audit import shards
from surefair.cli import main

ASKED = {"label": "hired", "sensitive": ["sex", "region"], "weights": "weight", "shard_rows": 1_500, "margin": 0.3}


def written(table, folder):
    folder.mkdir()
    for i, rows in enumerate(np.array_split(np.arange(len(table)), 3)):
        part = pa.Table.from_pandas(table.iloc[rows], preserve_index=False)
        pq.write_table(part, folder / f"part-{i}.parquet", row_group_size=500)
    return folder


@pytest.fixture(scope="module")
def folder(people, tmp_path_factory):
    return written(people(6_000, 0), tmp_path_factory.mktemp("audits") / "people")


@pytest.fixture(scope="module")
def found(folder):
    return sf.audit(folder, **ASKED)


def test_the_audit_is_the_same_on_every_engine(engine, folder, found):
    assert len(found.data["files"]) == 3
    assert sf.audit(folder, **ASKED, engine=engine).to_dict() == found.to_dict()


@pytest.mark.parametrize("more", [{}, {"weights": "weight"}, {"clusters": "weight", "strata": "region"}])
def test_decisions_are_counted_the_same_on_every_engine(engine, folder, more):
    sensitive = ["sex"] if "strata" in more else ["sex", "region"]
    asked = {"decision": "hired", "sensitive": sensitive, "shard_rows": 1_500, "margin": 0.3, "n_replicates": 50} | more
    expected = sf.audit(folder, **asked)
    assert expected.data["shards"] > 1
    assert sf.audit(folder, **asked, engine=engine).to_dict() == expected.to_dict()


def test_the_command_line_chooses_the_engine(engine, folder, found, tmp_path):
    args = ["audit", str(folder), "--label", "hired", "--sensitive", "sex,region", "--weights", "weight"]
    args += ["--shard-rows", "1500", "--margin", "0.3", "--engine", engine, "--out", str(tmp_path), "--quiet"]
    ran = CliRunner().invoke(main, args)
    assert ran.exit_code in (0, 3, 4), ran.output
    assert sf.Audit.from_json(tmp_path / "audit.json").to_dict() == found.to_dict()


@pytest.mark.parametrize("work", ["train", "evaluate"])
def test_the_audit_is_the_same_if_a_worker_is_killed(engine, folder, found, tmp_path, monkeypatch, work):
    monkeypatch.setattr(shards, work, fatal(getattr(shards, work), tmp_path / "killed"))
    again = sf.audit(folder, **ASKED, engine=engine)
    assert (tmp_path / "killed").exists()
    assert again.to_dict() == found.to_dict()


def fatal(work, mark):
    """Return work that kills its worker once, after it has finished the second shard."""

    def killing(plan, shard):
        result = work(plan, shard)
        if shard.number == 1 and not mark.exists():
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    return killing


def test_the_error_names_the_file_of_a_bad_row(engine, people, tmp_path):
    table = people(6_000, 0)
    table.loc[5_017, "hired"] = None
    folder = written(table, tmp_path / "people")
    with pytest.raises(ValueError, match=r"1 row cannot be used.* part-2\.parquet, row 1,018"):
        sf.audit(folder, **ASKED, engine=engine, max_bad_rows=0)
