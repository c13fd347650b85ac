"""Hostile names of columns, groups, labels and files reach the terminal byte by byte without doing anything there."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from surefair.audit import run as auditing
from surefair.cli import main

ESC = "\x1b"
HOSTILE = {
    "clear": f"{ESC}[2J{ESC}[H", "title": f"{ESC}]0;mine\x07", "bell": "a\x07b\x08c", "c1": "a\x9b31mb",
    "reversed": "a\u202egab\u202c", "isolate": "a\u2066b\u2069", "mark": "a\u200fb\u061cc", "markup": "[red]a[/red]",
    "link": "[link=http://example.org]a[/link]", "separator": "a\u2028b",
}  # fmt: skip
FORBIDDEN = [*map(chr, [*range(9), *range(11, 32), *range(127, 160), 0x61C, 0x200E, 0x200F, *range(0x2028, 0x202F)])]
FORBIDDEN += ["\u2066", "\u2067", "\u2068", "\u2069"]


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(auditing, "CHUNK", 1000)


def run(*arguments):
    result = CliRunner().invoke(main, [*arguments], env={"COLUMNS": "200"})
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    text = result.stdout_bytes.decode() + result.stderr_bytes.decode()
    assert [char for char in FORBIDDEN if char in text] == []
    return result, text


def people(name, n=600):
    import pandas as pd

    rng = np.random.default_rng(0)
    male = rng.random(n) < 0.5
    age = rng.normal(size=n) + 0.5 * male
    high = np.where(age + rng.normal(size=n) > 0, "yes", f"no{name}")
    return pd.DataFrame(
        {f"age{name}": age, f"sex{name}": np.where(male, f"m{name}", "f"), f"high{name}": high, "k": name}
    )


@pytest.mark.parametrize("kind", HOSTILE)
def test_the_output_of_an_audit_is_safe(kind):
    name = HOSTILE[kind]
    people(name).to_csv("people.csv", index=False)
    asked = ("--label", f"high{name}".strip(), "--sensitive", f"sex{name}".strip(), "--replicates", "5", "--jobs", "1")
    criterion = "demographic_parity" if kind == "reversed" else "none"  # once, for what a constraint adds
    result, text = run("audit", "people.csv", *asked, "--verbose", "--out", f"out{kind}", "--criterion", criterion)
    assert result.exit_code == 0, text
    if kind in ("markup", "link"):
        assert f"age{name}" in text


@pytest.mark.parametrize("kind", HOSTILE)
@pytest.mark.parametrize("command", ["audit", "calibrate", "report", "merge", "resume"])
def test_errors_about_hostile_files_and_columns_are_safe(kind, command):
    name = HOSTILE[kind].replace("/", "_")
    path = Path(f"{name}.csv")
    path.write_text("a,b\n1,2\n")
    Path(f"{name}.json").write_text("{}")
    asked = {
        "audit": [path, "--label", name, "--sensitive", "b"], "calibrate": [path, "--label", name, "--sensitive", "b"],
        "report": [f"{name}.json"], "merge": [path, path, "--out", "x.npz"], "resume": [name],
    }[command]  # fmt: skip
    result, text = run(command, *map(str, asked))
    assert result.exit_code in (1, 2)
    assert "Error" in text


def test_the_output_of_calibrate_is_safe():
    name = "[bold]\u202e" + ESC
    people(name).to_csv("people.csv", index=False)
    result, text = run(
        "calibrate", "people.csv", "--label", f"high{name}", "--sensitive", f"sex{name}", "--replicates", "10",
        "--repetitions", "2", "--jobs", "1", "--quiet", "--rows", "400",
    )  # fmt: skip
    assert result.exit_code == 0, text
