"""Make the pictures for README and docs: the choice of an interval, and an audit in the terminal and as a report.

python docs/pictures.py

The audit needs the raw Adult file (``surefair data fetch adult``) and, for the report, Chromium. If one is missing, its
pictures stay as they are.
"""

from __future__ import annotations

import io
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch
from rich.console import Console

import surefair as sf
from surefair.cli._tables import show
from surefair.datasets.files import find_local

RESULTS = Path(__file__).parent / "results"
NAMES = (
    "age,workclass,fnlwgt,education,education-num,marital-status,occupation,relationship,race,sex,capital-gain,"
    "capital-loss,hours-per-week,native-country,income"
)
COMMAND = "surefair audit adult.data --names age,workclass,… --label income --sensitive sex --drop fnlwgt --margin 0.05"
CHROMIUM = (
    "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update", "--disable-quic", "--force-color-profile=srgb",
)  # fmt: skip


CHOICES = (
    ("Do you compare two models\non the same rows?", "sf.compare", "paired, so far narrower"),
    ("Will you look again and again\nwhile rows come in?", "anytime=True\nsf.FairnessMonitor", "valid at every look"),
    ("Is it about decisions that\na model has already made?", "sf.fairness_interval", "source: evaluation"),
    ("Is your learner something\nother than a linear model?", "sf.BootstrapClassifier", "refits of any learner"),
    ("Are there too few rows\nto hold some out?", "cross_fit_interval", "every row serves twice"),
)
SOURCES = (
    ('"total"', "what unlimited data would show (default)"),
    ('"evaluation"', "this very model, in the population"),
    ('"retraining"', "a model trained again on new rows"),
    ('"training"', "only what training leaves uncertain"),
)
INK = "#1c2733"
LINE = "#8a94a0"  # visible on white and on black
QUESTION = "#dfe9f7"
ANSWER = "#d9f0e3"


def main() -> None:
    """Draw the choice, then audit and draw."""
    draw_choice(RESULTS.parent / "which.svg")
    draw_audit()


def draw_choice(path: Path) -> None:
    """Draw the questions that lead to an interval. Boxes have a light ground of their own, for light and dark pages."""
    with mpl.rc_context({"svg.hashsalt": "surefair", "font.family": "DejaVu Sans"}):
        figure = Figure(figsize=(5.2, 8.3))
        axes = figure.add_axes((0.0, 0.0, 1.0, 1.0))
        axes.set(xlim=(0.0, 5.2), ylim=(8.3, 0.0))
        axes.axis("off")
        for i, (question, name, words) in enumerate(CHOICES):
            top = 0.1 + 1.05 * i
            box(axes, (0.1, top, 2.55, 0.72), QUESTION)
            axes.text(1.375, top + 0.36, question, ha="center", va="center", size=9, color=INK)
            box(axes, (3.15, top, 1.95, 0.72), ANSWER)
            two = "\n" in name
            axes.text(4.125, top + (0.27 if two else 0.26), name, ha="center", va="center", size=8.5, color=INK,
                      family="DejaVu Sans Mono", weight="bold")  # fmt: skip
            axes.text(4.125, top + (0.58 if two else 0.5), words, ha="center", va="center", size=8, color=INK)
            arrow(axes, (2.65, top + 0.36), (3.15, top + 0.36))
            arrow(axes, (1.375, top + 0.72), (1.375, top + 1.05))
            axes.text(2.9, top + 0.27, "yes", ha="center", va="center", size=8, color=LINE, weight="bold")
            axes.text(1.47, top + 0.875, "no", ha="left", va="center", size=8, color=LINE, weight="bold")
        top = 0.1 + 1.05 * len(CHOICES)
        box(axes, (0.1, top, 5.0, 2.75), ANSWER)
        axes.text(0.3, top + 0.3, "FairClassifier.fairness_interval", va="center", size=9.5, color=INK,
                  family="DejaVu Sans Mono", weight="bold")  # fmt: skip
        axes.text(0.3, top + 0.68, "Which uncertainty should it cover?  source=", va="center", size=9, color=INK)
        for i, (name, words) in enumerate(SOURCES):
            y = top + 1.12 + 0.42 * i
            axes.text(0.3, y, name, va="center", size=8.5, color=INK, family="DejaVu Sans Mono", weight="bold")
            axes.text(1.62, y, words, va="center", size=8.5, color=INK)
        figure.savefig(path, format="svg", transparent=True, metadata={"Date": None, "Creator": None})


def box(axes: Axes, place: tuple[float, float, float, float], colour: str) -> None:
    """Draw a box with round corners."""
    x, y, width, height = place
    style = "round,pad=0,rounding_size=0.08"
    axes.add_patch(FancyBboxPatch((x, y), width, height, boxstyle=style, facecolor=colour, edgecolor=LINE, lw=1.0))


def arrow(axes: Axes, start: tuple[float, float], end: tuple[float, float]) -> None:
    """Draw an arrow."""
    style = {"arrowstyle": "-|>", "color": LINE, "lw": 1.2, "shrinkA": 0.0, "shrinkB": 0.0}
    axes.annotate("", end, start, arrowprops=style)


def draw_audit() -> None:
    """Audit Adult and draw."""
    path = find_local("adult.data")
    if path is None:
        print("adult.data was not found; the pictures stay as they are. Run surefair data fetch adult first.")
        return
    found = sf.audit(path, label="income", sensitive="sex", names=NAMES.split(","), drop=["fnlwgt"], margin=0.05)
    console = Console(record=True, width=88, file=io.StringIO(), force_terminal=True)
    show(found, console)
    picture = console.export_svg(title=COMMAND, unique_id="audit")
    picture = re.sub(r"@font-face \{.*?\}\s*", "", picture, flags=re.DOTALL)  # no fonts from the network
    (RESULTS / "audit_terminal.svg").write_text(picture)
    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if browser is None:
        print("Chromium was not found; the picture of the report stays as it is.")
        return
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder, "report.html")
        found.to_html(page)
        shot = RESULTS / "audit_report.png"
        options = (*CHROMIUM, f"--user-data-dir={folder}/profile", "--window-size=960,1080", f"--screenshot={shot}")
        subprocess.run([browser, *options, page.as_uri()], check=True, capture_output=True, timeout=120)
    print(f"Written: {RESULTS / 'audit_terminal.svg'}, {shot}")


if __name__ == "__main__":
    main()
