"""One file adds one thing: each is added to a scratch copy of the package, and must be found wherever users look."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import surefair as sf

pytestmark = pytest.mark.slow

DOCS = Path(__file__).parents[1] / "docs"

FILES = {
    "criteria/scratch_rate.py": '''
"""True-negative rate: groups that are truly negative are recognised equally often."""

from surefair.criteria._criterion import Criterion, Rate
from surefair.criteria._forms import SquaredPenalty

RATE = Rate("scratch_rate", "share of negative decisions among the truly negative", ((0, 0),), ((0, 0), (0, 1)))
CRITERION = Criterion(name="scratch_rate", rates=(RATE,), form=SquaredPenalty)
''',
    "criteria/scratch_measure.py": '''
"""Base rate: how often groups are truly positive. It can be measured, but no model can be held to it."""

from surefair.criteria._criterion import Criterion, Rate

RATE = Rate("scratch_measure", "share of truly positive rows", ((1, 0), (1, 1)), ((0, 0), (0, 1), (1, 0), (1, 1)))
CRITERION = Criterion(name="scratch_measure", rates=(RATE,), form=None)
''',
    "score_metrics/scratch_score.py": '''
"""A metric of scores."""

from dataclasses import replace

from surefair.score_metrics.mean_score import METRIC as KNOWN

METRIC = replace(KNOWN, name="scratch_score")
''',
    "losses/scratch_loss.py": '''
"""A loss whose kernel branch is missing."""

from dataclasses import replace

from surefair.losses.log_loss import LOSS as KNOWN

LOSS = replace(KNOWN, name="scratch_loss", code=99)
''',
    "diagnostics/scratch_diagnostic.py": '''
"""A diagnostic."""

from surefair.diagnostics._diagnostic import Diagnostic


class ScratchDiagnostic(Diagnostic):
    """Something to know."""

    assumes = "Scratch copies are not products."
    advice = "Do not worry."
    command_line_advice = "Do not worry."


DIAGNOSTIC = ScratchDiagnostic
''',
    "datasets/scratch_data.py": '''
"""A data set."""

from surefair.datasets.dataset import About
from surefair.datasets.synthetic_di import SyntheticDI

ABOUT = About(None, 2, "y", "z", "made up")


def load_scratch_data(n=100, seed=0):
    """Load it."""
    return SyntheticDI(seed=seed).sample(n)


DATASET = load_scratch_data
''',
    "engines/scratch_engine.py": '''
"""An engine that does its tasks here, one after the other."""

from contextlib import contextmanager


@contextmanager
def connect(address, n_jobs):
    """Give nothing."""
    yield None


def run(connection, work, tasks):
    """Do tasks."""
    return map(work, tasks)


def owns(data):
    """Own nothing."""
    return False


def over(data, work, n_jobs):
    """Never called."""
    raise AssertionError
''',
    "audit/report/sections/97_scratch.html.j2": """
{% set title = "A scratch section" %}
{% set lead = "It was found by its file alone." %}
<p>{{ audit.sentence }}</p>
""",
    "plotting/scratch.py": '''
"""A display."""

from surefair.plotting.drawing import Display


class ScratchDisplay(Display):
    """It draws nothing."""


DISPLAY = ScratchDisplay
''',
    "cli/scratch_command.py": '''
"""A command."""

import click


@click.command("scratch-command")
def command():
    """Do next to nothing."""
    click.echo("done")
''',
}

CHECKS = """
import json, sys, warnings
from pathlib import Path
import numpy as np
import surefair as sf
from click.testing import CliRunner
from surefair.cli import main

assert Path(sf.__file__).is_relative_to(sys.argv[1]), sf.__file__
warnings.simplefilter("ignore")
found = {}
data = sf.datasets.SyntheticDM(seed=0).sample(3_000)
where = dict(sensitive_features=data.sensitive)
help_text = " ".join(CliRunner().invoke(main, ["audit", "--help"]).output.split()).replace("- ", "-")

clf = sf.FairClassifier("scratch_rate", n_replicates=20, random_state=0).fit(data.X, data.y, **where)
interval = clf.fairness_interval(data.X, data.y, **where, metric="scratch_measure")
found["criterion"] = "scratch_rate" in help_text and clf.fairness_interval(data.X, data.y, **where).n == 3_000
refused = ""
try:
    sf.FairClassifier("scratch_measure").fit(data.X, data.y, **where)
except ValueError as error:
    refused = str(error)
found["metric"] = interval.metric == "scratch_measure" and "can be measured but not" in refused

scored = sf.fairness_interval(None, np.linspace(0, 1, 3_000), sensitive_features=data.sensitive, metric="scratch_score")
found["metric of scores"] = scored.rate == "scratch_score"

refused = ""
try:
    sf.FairClassifier(loss="scratch_loss", random_state=0).fit(data.X, data.y, **where)
except ValueError as error:
    refused = str(error)
found["loss"] = "scratch_loss" in help_text and "Unknown code of a loss" in refused

table = data.X.assign(label=data.y, group=data.sensitive)
audit = sf.audit(table, label="label", sensitive="group", criterion="scratch_rate", n_replicates=20, margin=0.5)
measured = {one["metric"] for one in audit.models[0]["intervals"]}
found["criterion"] &= "scratch_rate" in measured and "scratch_measure" not in measured  # unless it is asked for
found["diagnostic"] = (
    "ScratchDiagnostic" in {one["name"] for one in audit.assumptions}
    and sf.diagnostics.ScratchDiagnostic("found").to_dict()["name"] == "ScratchDiagnostic"
)
found["data set"] = (
    len(sf.datasets.load("scratch_data", n=7)) == 7
    and "scratch_data" in CliRunner().invoke(main, ["data", "list"]).output
)
from surefair import engines
with engines.connected("scratch_engine") as run:
    found["engine"] = list(run(abs, [-1, 2])) == [1, 2] and "scratch_engine" in help_text
page = Path(sys.argv[1]) / "report.html"
audit.to_html(page)
found["report section"] = "A scratch section" in page.read_text() and "found by its file alone" in page.read_text()
found["display"] = sf.plotting.DISPLAYS["ScratchDisplay"] is sf.plotting.ScratchDisplay
found["command"] = "scratch-command" in CliRunner().invoke(main, ["--help"]).output
print(json.dumps(found))
"""

API = """
import sys
from pathlib import Path
docs = Path(sys.argv[1])
conf = docs / "conf.py"
exec(compile(conf.read_text(), "conf.py", "exec"), {"__name__": "conf", "__file__": str(conf)})
print((docs / "api" / "index.md").read_text(), (docs / "_generated" / "diagnostics.md").read_text())
"""


@pytest.fixture(scope="module")
def scratch(tmp_path_factory):
    """A copy of the package with one file more of each kind, and a function that runs code in it."""
    folder = tmp_path_factory.mktemp("scratch")
    package = folder / "surefair"
    # Compiled kernels are copied too: numba knows them by the time and the size of their source, which are the same.
    shutil.copytree(Path(sf.__file__).parent, package, ignore=shutil.ignore_patterns("*.pyc"))
    for name, text in FILES.items():
        (package / name).write_text(text.lstrip(), encoding="utf-8")
    docs = folder / "docs"
    docs.mkdir()
    for name in ("conf.py", "tables.py"):
        shutil.copy(DOCS / name, docs)

    def run(code: str, *arguments: Path) -> str:
        inherited = {name: value for name, value in os.environ.items() if name != "NUMBA_CACHE_DIR"}
        environment = {**inherited, "PYTHONPATH": str(folder)}
        command = [sys.executable, "-c", code, *map(str, arguments)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, cwd=folder)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return folder, run


def test_one_of_each_is_found_by_its_file_alone(scratch):
    folder, run = scratch
    found = json.loads(run(CHECKS, folder).splitlines()[-1])
    assert found == dict.fromkeys(found, True)
    assert len(found) == 10


def test_one_of_each_is_on_the_api_page(scratch):
    folder, run = scratch
    page = run(API, folder / "docs")
    names = (
        "scratch_rate", "scratch_measure", "scratch_score", "scratch_loss", "ScratchDiagnostic",
        "scratch_data", "scratch_engine", "ScratchDisplay", "scratch-command",
    )  # fmt: skip
    assert [name for name in names if name not in page] == []
