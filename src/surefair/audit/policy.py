"""A policy: settings of audits that are agreed on beforehand, in a file surefair.toml.

    sensitive = ["sex", "race"]
    metric = ["demographic_parity", "true_positive_rate"]
    level = 0.95
    unknown = "show"
    clusters = "person"

    [margin]
    demographic_parity = 0.05
    true_positive_rate = 0.1

Python and the command line read the same file. What a policy says cannot be changed by arguments: whoever wants another
margin changes the policy.
"""

from __future__ import annotations

import hashlib
import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from surefair.names import one_of

KEYS = {
    "sensitive": "sensitive", "metric": "metric", "margin": "margin", "level": "confidence_level",
    "label": "label", "decision": "decision", "score": "score", "threshold": "threshold",
    "threshold_quantile": "threshold_quantile", "positive": "positive", "weights": "weights", "clusters": "clusters",
    "strata": "strata", "unknown": "unknown", "min_share": "min_share", "intersections": "intersections",
    "reference": "reference", "max_bad_rows": "max_bad_rows", "seed": "random_state", "replicates": "n_replicates",
}  # fmt: skip
"""What a policy can say: its keys are the command line's options, and stand for arguments of ``sf.audit``."""

LISTS = ("sensitive", "metric", "decision", "positive", "reference")
TEXTS = (*LISTS, "label", "score", "weights", "clusters", "strata", "unknown")


@dataclass(frozen=True)
class Policy:
    """Settings that are agreed on beforehand.

    Attributes
    ----------
    file, sha256 : str
        Name and checksum of the file.
    values : dict
        What it says, by key.
    """

    file: str
    sha256: str
    values: dict[str, Any]

    def joined_with(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return arguments of ``sf.audit``: those of the policy, and those given that do not contradict it."""
        found = dict(given)
        for key, value in self.values.items():
            name = KEYS[key]
            value = tuple(value) if isinstance(value, list) else value
            if name in given and _listed(given[name]) != _listed(value):
                raise ValueError(
                    f"The policy {self.file!r} says {key} = {value!r}, and {given[name]!r} was passed. Leave it out, "
                    "or change the policy."
                )
            found[name] = value
        return found | {"policy": {"file": self.file, "sha256": self.sha256, "values": self.values}}


def _listed(value: Any) -> Any:
    return [value] if isinstance(value, str) else [*value] if isinstance(value, list | tuple) else value


def read_policy(path: str | os.PathLike[str]) -> Policy:
    """Read a policy from a TOML file, and refuse keys and values that it cannot have.

    Parameters
    ----------
    path : path
    """
    content = Path(path).read_bytes()
    name = Path(path).name
    try:
        values = tomllib.loads(content.decode())
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ValueError(f"The policy {name!r} is not TOML: {error}.") from error
    try:
        for key, value in values.items():
            _check(one_of(key, KEYS, "key"), value)
    except ValueError as error:
        raise ValueError(f"The policy {name!r} cannot be used. {error}") from error
    return Policy(name, hashlib.sha256(content).hexdigest(), values)


def _check(key: str, value: Any) -> None:
    """Refuse a value of the wrong type; its content is checked with the other settings."""
    texts = [value] if isinstance(value, str) else value
    if key in TEXTS:
        fits = isinstance(value, str) or (key in LISTS and isinstance(value, list))
        fits = fits and all(isinstance(one, str) for one in texts)
        wanted = "text, or a list of texts" if key in LISTS else "text"
    elif key == "intersections":
        fits, wanted = isinstance(value, bool), "true or false"
    elif key == "margin":
        numbers = [*value.values()] if isinstance(value, dict) else [value]
        fits, wanted = all(_is_number(one) for one in numbers), "a number, or a table with a number for each metric"
    else:
        fits, wanted = _is_number(value), "a number"
    if not fits:
        raise ValueError(f"{key} must be {wanted}; received {value!r}.")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
