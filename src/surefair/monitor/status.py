"""The status files of a watcher: status.json, status.html and metrics.prom, each written whole."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

from surefair.monitor.page import render
from surefair.storage.atomic import written_whole

VERDICTS = ("within margin", "violates margin", "not enough evidence")


def write_status(status: dict[str, Any], folder: Path) -> None:
    """Write the three files."""
    contents = {
        "status.json": json.dumps(status, indent=1, allow_nan=False) + "\n",
        "status.html": render(status),
        "metrics.prom": as_prometheus(status, time.time()),
    }
    for name, content in contents.items():
        with written_whole(folder / name) as file:
            file.write(content.encode("utf-8", errors="replace"))


def as_prometheus(status: dict[str, Any], now: float) -> str:
    r"""Write the status in the text format of Prometheus, for the textfile collector of its node exporter.

    Examples
    --------
    >>> print(_line("surefair_rows_total", 3, source='a"b'))
    surefair_rows_total{source="a\"b"} 3
    """
    counts, interval, source = status["counts"], status["interval"], status["watch"]["source"]
    lines = [
        *_family("surefair_rows_total", "counter", "Decisions that count.", counts["rows"], source=source),
        *_family("surefair_alarms_total", "counter", "Alarms raised.", counts["alarms"], source=source),
        *_family("surefair_margin", "gauge", "Largest acceptable gap.", status["settings"]["margin"], source=source),
        *_family(
            "surefair_detector_statistic", "gauge", "Statistic of the detector.", status["statistic"], source=source
        ),
        "# HELP surefair_verdict 1 for the present verdict, 0 for the others.",
        "# TYPE surefair_verdict gauge",
        *(_line("surefair_verdict", int(one == status["verdict"]), source=source, verdict=one) for one in VERDICTS),
    ]
    if interval is not None:
        lines += ["# HELP surefair_unfairness Unfairness with its limits.", "# TYPE surefair_unfairness gauge"]
        lines += [
            _line("surefair_unfairness", interval[name], source=source, limit=name)
            for name in ("estimate", "low", "high")
            if interval[name] is not None
        ]
    fates = dict(status["labels"])
    waiting = fates.pop("waiting")
    lines += _family("surefair_labels_waiting", "gauge", "Decisions that wait for a label.", waiting, source=source)
    for name, help_text, found, label in (
        ("surefair_labels_total", "Decisions and labels with ids, by what became of them.", fates, "fate"),
        ("surefair_bad_rows_total", "Rows that cannot be used.", status["bad_rows"], "reason"),
    ):
        lines += [f"# HELP {name} {help_text}", f"# TYPE {name} counter"]
        lines += [_line(name, count, source=source, **{label: key}) for key, count in found.items()]
    lines += _family("surefair_written_timestamp_seconds", "gauge", "When this was written.", now, source=source)
    return "\n".join(lines) + "\n"


def _family(name: str, kind: str, help_text: str, value: float | None, **labels: str) -> list[str]:
    if value is None:
        return []
    return [f"# HELP {name} {help_text}", f"# TYPE {name} {kind}", _line(name, value, **labels)]


def _line(name: str, value: float, **labels: str) -> str:
    escaped = {
        key: str(text).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") for key, text in labels.items()
    }
    inside = ",".join(f'{key}="{text}"' for key, text in escaped.items())
    return f"{name}{{{inside}}} {value}"
