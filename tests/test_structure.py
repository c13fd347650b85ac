"""The shape of the house: rules about the source tree that import-linter cannot state."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import surefair as sf

PACKAGE = Path(sf.__file__).parent
FILES = sorted(PACKAGE.rglob("*.py"))
MOST_PARAMETERS = 10
# These are called by users, who pass parameters by name.
PUBLIC = {
    "alternative",
    "audit",
    "calibrate",
    "fairness_interval",
    "joint_intervals",
    "compare",
    "threshold_curve",
    "from_estimator",
    "command",
    "__init__",
}


def nodes(path: Path, kind: type) -> Iterator:
    return (node for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, kind))


def package_of(path: Path) -> str:
    """First folder below the package, or the module at its top."""
    inside = path.relative_to(PACKAGE)
    return inside.parts[0] if len(inside.parts) > 1 else inside.stem


def test_only_what_a_newcomer_reads_first_is_at_the_top():
    assert len(list(PACKAGE.glob("*.py"))) <= 7


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_a_file_keeps_to_the_rules(path):
    source = path.read_text(encoding="utf-8")
    for node in nodes(path, ast.ImportFrom):
        parts = (node.module or "").split(".")
        if parts[0] == "surefair" and len(parts) > 1 and parts[1] != package_of(path):
            private = [name for name in (*parts, *(alias.name for alias in node.names)) if name.startswith("_")]
            assert not private, f"line {node.lineno} imports a private name of another package: {private}"
    for node in nodes(path, ast.FunctionDef):
        n = len(node.args.posonlyargs + node.args.args + node.args.kwonlyargs)
        assert n <= MOST_PARAMETERS or node.name in PUBLIC, f"{node.name} takes {n} parameters"
    if package_of(path) != "engines":
        assert "catch_warnings" not in source


def test_there_is_one_type_for_rows():
    rows = [(path.name, node.name) for path in FILES for node in nodes(path, ast.ClassDef) if "Rows" in node.name]
    others = {"BadRows", "TooManyBadRows", "DependentRows", "RepeatedRows", "FewRowsNearBoundary", "RowsNeeded"}
    assert [one for one in rows if one[1] not in others] == [("rows.py", "Rows")]


def test_private_attributes_of_the_classifier_are_read_in_its_file_only():
    private = {node.name for node in nodes(PACKAGE / "classifier.py", ast.FunctionDef) if node.name.startswith("_")}
    private = {name for name in private if not name.startswith("__") and not name.endswith("__")}
    own = {name for path in FILES if path.name != "classifier.py" for node in nodes(path, ast.FunctionDef)
           for name in [node.name]}  # fmt: skip
    for path in FILES:
        if path.name == "classifier.py":
            continue
        used = {node.attr for node in nodes(path, ast.Attribute)}
        assert not used & (private - own), path


def test_every_result_has_a_dict_a_frame_html_and_a_sentence():
    results = (sf.Interval, sf.JointIntervals, sf.Comparison, sf.Plan, sf.Audit, sf.Calibration)
    for result in (*results, sf.Arbitrariness, sf.Frontier, sf.Alternative):
        assert all(hasattr(result, name) for name in ("to_dict", "to_frame", "_repr_html_"))
        assert "sentence" in {*dir(result), *result.__dataclass_fields__}
