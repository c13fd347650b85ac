"""What is imported when, and how the package starts where no folder is writable; benchmarks/startup.py measures times.

Each test starts a new process, because this one has already imported everything.
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
    """Run code in a new process, which must succeed without a warning, and return what it prints."""
    unset = {"NUMBA_CACHE_DIR", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "MPLCONFIGDIR"}
    inherited = {name: value for name, value in os.environ.items() if name not in unset}
    environment = {**inherited, "PYTHONPATH": str(source), **{name: str(path) for name, path in places.items()}}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


# -- Imports -------------------------------------------------------------------------------------------------------


def test_import_surefair_loads_no_heavy_package():
    assert json.loads(run(f"import surefair; {LOADED}")) == []


def test_help_of_every_command_loads_no_heavy_package():
    calls = "for call in ([], *([name] for name in main.commands)): main([*call, '--help'], standalone_mode=False)"
    lines = run(f"from surefair.cli import main\n{calls}\n{LOADED}").splitlines()
    assert sum(line.startswith("Usage:") for line in lines) > 1
    assert json.loads(lines[-1]) == []


@pytest.mark.slow
def test_a_classifier_loads_only_what_a_fit_needs():
    unneeded = ("click", "jinja2", "matplotlib", "pooch", "rich", "surefair.audit", "surefair.datasets")
    code = f"import sys, surefair; surefair.FairClassifier; print(*set({unneeded}) & set(sys.modules))"
    assert run(code).split() == []


# -- Public names ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sf.__all__)
def test_each_public_name_exists_and_is_listed(name):
    assert getattr(sf, name) is not None
    assert name in dir(sf)


def test_names_are_listed_before_they_are_imported():
    assert {"__version__", *sf.__all__} <= set(run("import surefair; print(*dir(surefair))").split())


def test_import_star_finds_functions_classes_and_modules():
    names = ("FairClassifier", "datasets", "theory")
    found = run(f"from surefair import *; print({', '.join(f'{name}.__name__' for name in names)})").split()
    assert found == ["FairClassifier", "surefair.datasets", "surefair.inference.theory"]


def test_modules_are_attributes():
    code = "import surefair as sf; print(sf.criteria.Rate.__name__, sf.plotting.IntervalPathDisplay.__name__)"
    assert run(code).split() == ["Rate", "IntervalPathDisplay"]


def test_an_unknown_name_is_an_attribute_error_that_suggests_a_known_one():
    with pytest.raises(AttributeError, match="module 'surefair' has no attribute 'FairClasifier'") as raised:
        sf.FairClasifier
    assert (raised.value.name, raised.value.obj) == ("FairClasifier", sf)  # Python turns these into "Did you mean"
    with pytest.raises(ImportError, match="cannot import name 'FairClasifier' from 'surefair'"):
        from surefair import FairClasifier  # noqa: F401


def test_type_checkers_see_the_same_names():
    body = ast.parse((PACKAGE / "__init__.py").read_text(encoding="utf-8")).body
    (block,) = [node for node in body if isinstance(node, ast.If) and isinstance(node.test, ast.Name)]
    seen = {alias.name: node.module for node in block.body for alias in node.names}
    assert seen == {**sf._HOME, **{name: home.rpartition(".")[0] for name, home in sf._MODULES.items()}}
    assert set(sf.__all__) <= set(seen)


@pytest.mark.slow
def test_importing_a_folder_does_not_hide_the_function_of_the_same_name():
    """Python sets ``surefair.audit`` to the folder when it imports ``surefair.audit.result``, for example."""
    folders = [name for name in sf._HOME if importlib.util.find_spec(f"surefair.{name}") is not None]
    assert folders == ["audit"]
    code = (
        "import surefair as sf; from surefair.audit.result import Audit; print(callable(sf.audit), sf.Audit is Audit)"
    )
    assert run(code).split() == ["True", "True"]
    assert run(f"import surefair as sf; sf.audit; {code}").split() == ["True", "True"]


# -- Folders that are not writable ------------------------------------------------------------------------------------

CALL = "from surefair import kernels; print(round(kernels.exponential(1.0), 9), kernels.exponential.stats.cache_path)"


@pytest.fixture
def blocked(tmp_path):
    """A copy of the package whose __pycache__ is not writable, not even for root, and a folder that cannot be made."""
    shutil.copytree(PACKAGE, tmp_path / "surefair", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "surefair" / "__pycache__").touch()
    return tmp_path, tmp_path / "surefair" / "__pycache__" / "nowhere"


@pytest.mark.slow
def test_kernels_compile_without_a_writable_cache(blocked):
    source, nowhere = blocked
    places = {"HOME": nowhere, "USERPROFILE": nowhere, "LOCALAPPDATA": nowhere, "NUMBA_CACHE_DIR": nowhere}
    assert run(CALL, source, **places).split() == ["2.718281828", "None"]


@pytest.mark.slow
def test_an_installation_that_is_not_writable_keeps_kernels_in_numba_cache_dir(blocked, tmp_path_factory):
    source, nowhere = blocked
    kept = tmp_path_factory.mktemp("kept")
    value, where = run(CALL, source, HOME=nowhere, NUMBA_CACHE_DIR=kept).split()
    assert value == "2.718281828"
    assert Path(where).parent == kept
    assert list(Path(where).glob("*.nbc"))


@pytest.mark.slow
def test_without_a_home_imports_and_help_do_not_warn(blocked):
    source, nowhere = blocked
    assert "Usage:" in run("from surefair.cli import main; main(['--help'])", source, HOME=nowhere)
    assert run("from surefair import *; print(FairClassifier())", source, HOME=nowhere) == "FairClassifier()\n"
