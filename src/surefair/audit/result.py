"""What an audit is asked for, and what it found: plain values, the same before and after a trip through JSON.

The JSON of what was found is described by ``schema.json`` beside this file; ``VERSION`` counts its incompatible
changes.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from dataclasses import asdict, dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any, Self

from surefair.criteria import CRITERIA
from surefair.inference.interval import check_level, get_metric
from surefair.names import one_of
from surefair.rows.arrays import make_frame
from surefair.storage.atomic import written_whole

FORMAT = "surefair.Audit"
VERSION = 1

WITHIN, VIOLATES, UNDECIDED = "within margin", "violates margin", "not enough evidence"


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What an audit is asked for.

    Attributes
    ----------
    label : str
        Column of the label, of two values.
    sensitive : tuple of str
        Columns of the groups. They are no features, unless ``include_sensitive``.
    criterion : str or None
        What the constrained model is held to.
    metrics : tuple of str
        What the verdict and the path along the stream are about; by default the criterion. All criteria are measured.
    margin : float or None
        The largest acceptable gap; of a ratio the least acceptable.
    positive : str or None
        The positive label; by default the second in sorted order.
    features : tuple of str or None
        Columns to learn from; by default all but those with another role.
    drop : tuple of str
        Columns not to learn from.
    weights : str or None
        Column of sample weights.
    split_by : str or None
        Column whose equal values stay on one side, of training, constraint set and evaluation.
    include_sensitive : bool
        Whether to learn from the sensitive columns, too.
    keep_order : bool
        Whether training takes rows in the order of the data.
    names : tuple of str or None
        Of the columns of a CSV file without a header.
    delimiter, encoding : str
        Of a CSV file.
    max_bad_rows : int
        Rows that cannot be used, beyond which the audit stops.
    confidence_level, loss, tolerance, penalty, alpha, n_replicates, random_state
        As in ``FairClassifier``.
    n_constraint : int or None
        Rows in the constraint set; by default 100 for each feature, from 1,000 to 5,000, and at most a fifth of the
        first rows.
    shard_rows : int or None
        Rows of a shard, at least, where a folder of Parquet files is read in shards; by default it is one stream.
    """

    label: str
    sensitive: tuple[str, ...]
    criterion: str | None = "demographic_parity"
    metrics: tuple[str, ...] = ()
    margin: float | None = None
    positive: str | None = None
    features: tuple[str, ...] | None = None
    drop: tuple[str, ...] = ()
    weights: str | None = None
    split_by: str | None = None
    include_sensitive: bool = False
    keep_order: bool = False
    names: tuple[str, ...] | None = None
    delimiter: str | None = None
    encoding: str = "utf-8"
    max_bad_rows: int = 100
    confidence_level: float = 0.95
    loss: str = "log_loss"
    tolerance: float = 0.0
    penalty: float = 1.0
    alpha: float = 0.01
    n_replicates: int = 200
    n_constraint: int | None = None
    random_state: int = 0
    shard_rows: int | None = None

    def __post_init__(self) -> None:
        for name in ("sensitive", "metrics", "features", "drop", "names"):
            value = getattr(self, name)
            as_tuple = (value,) if isinstance(value, str) else value if value is None else tuple(value)
            object.__setattr__(self, name, as_tuple)
        if not self.sensitive:
            raise ValueError("Name at least one sensitive column.")
        if self.criterion is not None:
            one_of(self.criterion, CRITERIA, "criterion")
        for metric in self.metrics:
            get_metric(metric)
        object.__setattr__(self, "metrics", tuple(dict.fromkeys(self.metrics)))
        if self.margin is not None and len({metric.endswith("_ratio") for metric in self.metrics}) > 1:
            raise ValueError("One margin cannot serve for differences and ratios together. Audit them one by one.")
        if both := [name for name in self.features or () if name in self.drop]:
            raise ValueError(f"Column {both[0]!r} is to be learnt from and to be dropped. Choose one.")
        check_level(self.confidence_level)
        whole = self.shard_rows is None or (isinstance(self.shard_rows, int) and self.shard_rows is not True)
        if not whole or (self.shard_rows is not None and self.shard_rows < 1):
            raise ValueError(f"shard_rows must be None or a whole number, 1 or larger; received {self.shard_rows!r}.")
        if self.margin is not None and not 0.0 < self.margin < 1.0:
            raise ValueError(f"margin must lie strictly between 0 and 1, for example 0.05; received {self.margin!r}.")
        if self.positive is not None:
            object.__setattr__(self, "positive", str(self.positive))
        roles = [self.label, *self.sensitive, *(name for name in (self.weights,) if name)]
        if twice := [name for name, n in Counter(roles).items() if n > 1]:
            raise ValueError(
                f"Column {twice[0]!r} has two roles. Label, sensitive columns and weights are different ones."
            )
        if known := [name for name in self.features or () if name in (self.label, self.weights)]:
            raise ValueError(f"Column {known[0]!r} is the label or the weights, and cannot be learnt from, too.")

    def to_dict(self) -> dict[str, Any]:
        """Plain values only, ready for JSON."""
        return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}

    @property
    def judged(self) -> tuple[str, ...]:
        """Metrics that the verdict is about."""
        return self.metrics or (self.criterion or "demographic_parity",)

    @property
    def measured(self) -> tuple[str, ...]:
        """All metrics, those judged first."""
        return (*self.judged, *(name for name in CRITERIA if name not in self.judged))


@dataclass(frozen=True, repr=False)
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

    def __str__(self) -> str:
        doubts = [f"Does not hold: {one['assumes']}" for one in self.assumptions if not one["held"]]
        return "\n".join([self.sentence, *doubts])

    def __repr__(self) -> str:
        return f"<Audit of {self.data['name']}, {self.rows['read']:,} rows: {self.verdict or 'no margin given'}>"

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
        found: dict[str, Any] = json.loads(files("surefair.audit").joinpath("schema.json").read_text(encoding="utf-8"))
        return found

    def model(self, name: str = "constrained") -> dict[str, Any]:
        """One of the models, by name."""
        return next(model for model in self.models if model["name"] == name)

    def interval(self, metric: str | None = None, source: str = "total", model: str = "constrained") -> dict[str, Any]:
        """Interval of a model's unfairness, as ``Interval.to_dict`` gives it; by default in the metric judged."""
        metric = metric or self.model(model)["intervals"][0]["metric"]
        for found in self.model(model)["intervals"]:
            if (found["metric"], found["source"]) == (metric, source):
                return dict(found)
        known = sorted({found["metric"] for found in self.model(model)["intervals"]})
        raise KeyError(f"No interval of {metric!r}, source {source!r}. Metrics: {', '.join(known)}.")

    def to_frame(self) -> Any:
        """One row for each model, metric and source: unfairness with its interval, and the pair that differs most."""
        rows = [{"model": model["name"]} | found for model in self.models for found in model["intervals"]]
        names = ("model", "metric", "source", "estimate", "low", "high", "gap", "gap_low", "gap_high")
        table = {name: [row[name] for row in rows] for name in names}
        return make_frame(
            table | {name: [str(row["pair"][i]) for row in rows] for i, name in enumerate(("first", "second"))}
        )
