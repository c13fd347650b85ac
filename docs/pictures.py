"""Make the pictures of an audit for README and docs: the table in the terminal and the top of the report.

python docs/pictures.py

This needs the raw Adult file (``surefair data fetch adult``) and, for the report, Chromium. If one is missing, its
pictures stay as they are.
"""

from __future__ import annotations

import io
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

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


def main() -> None:
    """Audit and draw."""
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
        options = (*CHROMIUM, f"--user-data-dir={folder}/profile", "--window-size=960,1500", f"--screenshot={shot}")
        subprocess.run([browser, *options, page.as_uri()], check=True, capture_output=True, timeout=120)
    print(f"Written: {RESULTS / 'audit_terminal.svg'}, {shot}")


if __name__ == "__main__":
    main()
