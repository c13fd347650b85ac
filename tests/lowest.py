"""Print pip constraints that hold every dependency to the lowest version that pyproject.toml allows."""

import tomllib
from pathlib import Path

PROJECT = Path(__file__).parents[1] / "pyproject.toml"


def constraints() -> list[str]:
    """Return one constraint for each dependency, such as "numpy==2.0.*"."""
    found = tomllib.loads(PROJECT.read_text())["project"]["dependencies"]
    return [f"{name}=={version}.*" for name, version in (one.split(">=") for one in found)]


if __name__ == "__main__":
    print("\n".join(constraints()))  # noqa: T201
