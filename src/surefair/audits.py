"""What an audit found: plain values, the same before and after a trip through JSON.

The JSON is described by ``audit.schema.json`` beside this file; ``VERSION`` counts its incompatible changes.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any, Self

from surefair.files import written_whole
from surefair.streams import make_frame

FORMAT = "surefair.Audit"
VERSION = 1

WITHIN, VIOLATES, UNDECIDED = "within margin", "violates margin", "not enough evidence"


@dataclass(frozen=True)
class Audit:
    """How alike two models treat groups, one trained under a constraint and one without, and how certain that is.

    All of it is plain: text, numbers, Booleans, lists and dicts of them. Nothing in it depends on when or how fast the
    audit ran.

    Attributes
    ----------
    sentence : str
        The finding, for people who are no statisticians.
    verdict : str or None
        "within margin", "violates margin" or "not enough evidence", where a margin was given.
    complete : bool
        Whether all rows were read; an audit that was stopped tells of those before.
    settings : dict
        What was asked for.
    data : dict
        Name, kind, and files, each with its size and SHA-256.
    rows : dict
        How many rows were read, and how many served for training, as constraint set D', for evaluation; how many were
        set aside (other rows of those in D', where rows are split by a column); and bad ones by reason.
    columns : list of dict
        What became of each column: its role, its number of features, rows that lack it, rows with a value not seen in
        the warm-up rows, a note.
    groups : list of dict
        Each group with its rows in training and evaluation.
    models : list of dict
        First "constrained", then "unconstrained": accuracy, intervals by metric and source, coefficients, verdicts by
        metric, warnings.
    price : dict
        Accuracy that the constraint costs: that of the unconstrained model minus that of the constrained one.
    path : list of dict
        Unfairness and its interval along the stream.
    assumptions : list of dict
        What intervals rest on, and whether it held.
    versions : dict
        Of the software.
    """

    sentence: str
    verdict: str | None
    complete: bool
    settings: dict[str, Any]
    data: dict[str, Any]
    rows: dict[str, Any]
    columns: list[dict[str, Any]]
    groups: list[dict[str, Any]]
    models: list[dict[str, Any]]
    price: dict[str, Any]
    path: list[dict[str, Any]]
    assumptions: list[dict[str, Any]]
    versions: dict[str, str]

    def to_dict(self) -> dict[str, Any]:
        """Plain values only, ready for JSON."""
        return {"format": FORMAT, "version": VERSION} | asdict(self)

    def to_json(self, path: str | os.PathLike[str]) -> None:
        """Write the audit to a file, whole or not at all."""
        with written_whole(path) as file:
            file.write((json.dumps(self.to_dict(), indent=1, ensure_ascii=False, allow_nan=False) + "\n").encode())

    @classmethod
    def from_dict(cls, found: dict[str, Any]) -> Self:
        """Audit from plain values."""
        found = dict(found)
        kind, version = found.pop("format", None), found.pop("version", None)
        if (kind, version) != (FORMAT, VERSION):
            raise ValueError(
                f"An audit has format {FORMAT!r}, version {VERSION}; received {kind!r}, version {version!r}. "
                "Read it with the release that wrote it."
            )
        return cls(**found)

    @classmethod
    def from_json(cls, path: str | os.PathLike[str]) -> Self:
        """Read an audit from a file that ``to_json`` wrote."""
        try:
            found = json.loads(Path(path).read_bytes())
        except ValueError as error:
            raise ValueError(f"{os.fspath(path)!r} is not the JSON of an audit: {error}.") from error
        return cls.from_dict(found if isinstance(found, dict) else {})

    @staticmethod
    def schema() -> dict[str, Any]:
        """JSON schema of what ``to_dict`` returns."""
        found: dict[str, Any] = json.loads(files("surefair").joinpath("audit.schema.json").read_text(encoding="utf-8"))
        return found

    def model(self, name: str = "constrained") -> dict[str, Any]:
        """One of the models, by name."""
        return next(model for model in self.models if model["name"] == name)

    def interval(self, metric: str, source: str = "total", model: str = "constrained") -> dict[str, Any]:
        """Interval of a model's unfairness, as ``Interval.to_dict`` gives it."""
        for found in self.model(model)["intervals"]:
            if (found["metric"], found["source"]) == (metric, source):
                return dict(found)
        known = sorted({found["metric"] for found in self.model(model)["intervals"]})
        raise KeyError(f"No interval of {metric!r}, source {source!r}. Metrics: {', '.join(known)}.")

    def to_frame(self) -> Any:
        """One row for each model, metric and source: unfairness with its interval, and the pair with the largest gap."""
        rows = [{"model": model["name"]} | found for model in self.models for found in model["intervals"]]
        names = ("model", "metric", "source", "estimate", "low", "high", "gap", "gap_low", "gap_high")
        table = {name: [row[name] for row in rows] for name in names}
        return make_frame(
            table | {name: [str(row["pair"][i]) for row in rows] for i, name in enumerate(("first", "second"))}
        )
