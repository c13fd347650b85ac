"""Every display is found, and all follow the same conventions."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest

from surefair import plotting
from surefair.plotting.drawing import Display


def test_every_file_with_a_display_is_registered():
    folder = Path(plotting.__file__).parent
    files = [path.stem for path in folder.glob("*.py") if "\nDISPLAY = " in path.read_text()]
    modules = {display.__module__ for display in plotting.DISPLAYS.values()}
    assert modules == {f"surefair.plotting.{name}" for name in files}
    assert len(plotting.DISPLAYS) == len(files)


@pytest.mark.parametrize("name", plotting.DISPLAYS)
def test_a_display_follows_the_conventions(name):
    display = plotting.DISPLAYS[name]
    assert display.__name__ == name
    assert name.endswith("Display")
    assert issubclass(display, Display)
    assert getattr(plotting, name) is display
    assert name in plotting.__all__
    assert inspect.signature(display.plot).parameters["ax"].default is None
    assert any(
        hasattr(display, maker) for maker in ("from_estimator", "from_predictions", "from_calibration", "from_audit")
    )
