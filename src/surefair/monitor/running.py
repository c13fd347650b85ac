"""What a watcher needs of the operating system: signals that ask it to stop, and commands to run at an alarm."""

from __future__ import annotations

import json
import shlex
import signal
import subprocess
import threading
from typing import Any

from surefair.inference.interval import plain
from surefair.monitor.detector import Alarm

PATIENCE = 60  # seconds that a command may take


class Stop:
    """Note SIGTERM and Ctrl-C, so that the watcher ends between two parts of the data; a second Ctrl-C ends it now."""

    def __init__(self) -> None:
        self._asked = threading.Event()
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Stop:
        for number in (signal.SIGTERM, signal.SIGINT):
            self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, *error: Any) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _note(self, number: int, _frame: Any) -> None:
        if self._asked.is_set() and number == signal.SIGINT:
            raise KeyboardInterrupt
        self._asked.set()

    def is_asked(self) -> bool:
        """Whether somebody asked the watcher to stop."""
        return self._asked.is_set()

    def wait(self, seconds: float) -> None:
        """Wait, or until somebody asks."""
        self._asked.wait(seconds)


def run_command(command: str, alarm: Alarm, status: dict[str, Any]) -> str:
    """Run a command with an alarm as JSON on its standard input; returns what went wrong, or nothing.

    Examples
    --------
    >>> alarm = Alarm(7, 700, "sex", "selection_rate", "m", "f", 10500.0)
    >>> run_command("cat", alarm, {}), run_command("false", alarm, {})
    ('', "The command 'false' ended with exit code 1.")
    """
    told = json.dumps(plain(alarm._asdict()) | {"verdict": status.get("verdict")})
    try:
        done = subprocess.run(
            shlex.split(command), input=told.encode(), timeout=PATIENCE, stdout=subprocess.DEVNULL, check=False
        )
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        return f"The command {command!r} could not be run: {error}."
    return f"The command {command!r} ended with exit code {done.returncode}." if done.returncode else ""
