"""Pictures of an audit for README and docs: the terminal's table and the top of the report.

python docs/pictures.py

It audits the raw Adult file, and needs it (``surefair data fetch adult``); for the report also Chromium. What cannot be
made anew stays as it is.
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
from surefair.audit.report import write_report
from surefair.cli._auditing import tell
from surefair.datasets._files import here

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
    path = here("adult.data")
    if path is None:
        print("adult.data is not here (surefair data fetch adult): pictures of the audit stay as they are.")
        return
    found = sf.audit(path, "income", "sex", names=NAMES.split(","), drop=["fnlwgt"], margin=0.05)
    console = Console(record=True, width=88, file=io.StringIO(), force_terminal=True)
    tell(found, console, verbose=False)
    picture = console.export_svg(title=COMMAND, unique_id="audit")
    picture = re.sub(r"@font-face \{.*?\}\s*", "", picture, flags=re.DOTALL)  # fonts from elsewhere
    (RESULTS / "audit_terminal.svg").write_text(picture)
    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if browser is None:
        print("No Chromium here: the picture of the report stays as it is.")
        return
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder, "report.html")
        write_report(found, page)
        shot = RESULTS / "audit_report.png"
        options = (*CHROMIUM, f"--user-data-dir={folder}/profile", "--window-size=960,1500", f"--screenshot={shot}")
        subprocess.run([browser, *options, page.as_uri()], check=True, capture_output=True, timeout=120)
    print(f"Written: {RESULTS / 'audit_terminal.svg'}, {shot}")


if __name__ == "__main__":
    main()
