"""What starting costs, by structure and not by the clock (for that, benchmarks/startup.py): who imports what, and when.

Each question is asked in a new process, since this one has imported everything already.
"""

from __future__ import annotations

import ast
import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import surefair as sf

PACKAGE = Path(sf.__file__).parent
HEAVY = ("matplotlib", "numba", "pandas", "pyarrow", "scipy", "sklearn")
LOADED = f"import json, sys; print(json.dumps([name for name in {HEAVY} if name in sys.modules]))"


def run(code, source=PACKAGE.parent, **places):
    """What a new process prints that runs the code; it must end well and warn of nothing."""
    unset = {"NUMBA_CACHE_DIR", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "MPLCONFIGDIR"}
    inherited = {name: value for name, value in os.environ.items() if name not in unset}
    environment = {**inherited, "PYTHONPATH": str(source), **{name: str(path) for name, path in places.items()}}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


# -- Who imports what -----------------------------------------------------------------------------------------------


def test_import_brings_none_of_the_heavy_packages():
    assert json.loads(run(f"import surefair; {LOADED}")) == []


def test_help_of_the_command_line_and_of_each_command_brings_none_of_them():
    calls = "for call in ([], *([name] for name in main.commands)): main([*call, '--help'], standalone_mode=False)"
    lines = run(f"from surefair.cli import main\n{calls}\n{LOADED}").splitlines()
    assert sum(line.startswith("Usage:") for line in lines) > 1
    assert json.loads(lines[-1]) == []


def test_a_classifier_brings_nothing_that_a_fit_does_not_need():
    unneeded = ("click", "jinja2", "matplotlib", "pooch", "rich", "surefair.storage.checkpoints", "surefair.datasets")
    code = f"import sys, surefair; surefair.FairClassifier; print(*set({unneeded}) & set(sys.modules))"
    assert run(code).split() == []


# -- The names ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sf.__all__)
def test_each_public_name_is_there_and_listed(name):
    assert getattr(sf, name) is not None
    assert name in dir(sf)


def test_names_are_listed_before_they_are_imported():
    assert {"__version__", *sf.__all__} <= set(run("import surefair; print(*dir(surefair))").split())


def test_each_name_is_found_in_a_new_process_by_a_star():
    names = ("FairClassifier", "datasets", "theory")
    found = run(f"from surefair import *; print({', '.join(f'{name}.__name__' for name in names)})").split()
    assert found == ["FairClassifier", "surefair.datasets", "surefair.inference.theory"]


def test_modules_are_attributes():
    code = "import surefair as sf; print(sf.criteria.Rate.__name__, sf.plotting.IntervalPathDisplay.__name__)"
    assert run(code).split() == ["Rate", "IntervalPathDisplay"]


def test_an_unknown_name_is_an_attribute_error_that_suggests_a_known_one():
    with pytest.raises(AttributeError, match="module 'surefair' has no attribute 'FairClasifier'") as raised:
        sf.FairClasifier
    assert (raised.value.name, raised.value.obj) == ("FairClasifier", sf)  # from these Python makes "Did you mean"
    with pytest.raises(ImportError, match="cannot import name 'FairClasifier' from 'surefair'"):
        from surefair import FairClasifier  # noqa: F401


def test_type_checkers_see_the_names_where_they_are():
    body = ast.parse((PACKAGE / "__init__.py").read_text(encoding="utf-8")).body
    (block,) = [node for node in body if isinstance(node, ast.If) and isinstance(node.test, ast.Name)]
    seen = {alias.name: node.module for node in block.body for alias in node.names}
    assert seen == {**sf._HOME, **{name: home.rpartition(".")[0] for name, home in sf._MODULES.items()}}
    assert set(sf.__all__) <= set(seen)


@pytest.mark.parametrize("name", sf._HOME)
def test_no_module_takes_the_place_of_a_public_name(name):
    """Importing surefair.x sets sf.x to the module: a function sf.x would be there or not, by who came first."""
    assert importlib.util.find_spec(f"surefair.{name}") is None


# -- Homes that cannot be written to ----------------------------------------------------------------------------------

CALL = "from surefair import kernels; print(round(kernels.exponential(1.0), 9), kernels.exponential.stats.cache_path)"


@pytest.fixture
def blocked(tmp_path):
    """A copy of the package whose __pycache__ nobody can write to, not even root, and a folder that nobody can make."""
    shutil.copytree(PACKAGE, tmp_path / "surefair", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "surefair" / "__pycache__").touch()
    return tmp_path, tmp_path / "surefair" / "__pycache__" / "nowhere"


def test_with_no_place_for_the_cache_kernels_compile(blocked):
    source, nowhere = blocked
    places = {"HOME": nowhere, "USERPROFILE": nowhere, "LOCALAPPDATA": nowhere, "NUMBA_CACHE_DIR": nowhere}
    assert run(CALL, source, **places).split() == ["2.718281828", "None"]


def test_an_installation_that_cannot_be_written_to_keeps_kernels_where_it_is_told(blocked, tmp_path_factory):
    source, nowhere = blocked
    kept = tmp_path_factory.mktemp("kept")
    value, where = run(CALL, source, HOME=nowhere, NUMBA_CACHE_DIR=kept).split()
    assert value == "2.718281828"
    assert Path(where).parent == kept
    assert list(Path(where).glob("*.nbc"))


def test_without_a_home_everything_imports_and_help_is_quiet(blocked):
    source, nowhere = blocked
    assert "Usage:" in run("from surefair.cli import main; main(['--help'])", source, HOME=nowhere)
    assert run("from surefair import *; print(FairClassifier())", source, HOME=nowhere) == "FairClassifier()\n"
