"""The result of an audit: plain values, the same before and after a trip through JSON.

``schema.json`` beside this file describes the JSON. ``VERSION`` goes up with every incompatible change.
"""

from __future__ import annotations

import json
import os
from dataclasses import MISSING, asdict, dataclass, field, fields
from importlib.resources import files
from typing import Any, Self

from surefair.audit.about import check_about
from surefair.names import counted, one_of
from surefair.rows import make_frame
from surefair.storage.atomic import written_whole
from surefair.storage.regular import open_regular

FORMAT = "surefair.Audit"
VERSION = 4


@dataclass(frozen=True, repr=False)
class Audit:
    """How differently models treat groups, with confidence intervals.

    The models are two that were trained for the audit, one of them under a constraint; or columns of decisions or
    scores, which other models made. All values are plain: text, numbers, Booleans, and lists and dicts of them. None
    depends on when or how fast the audit ran.

    Attributes
    ----------
    kind : {"training", "decisions"}
        Whether models were trained, or decisions or scores read.
    sentence : str
        The finding, for readers who are not statisticians.
    verdict : str or None
        "within margin", "violates margin" or "not enough evidence"; None if no margin was given.
    complete : bool
        Whether all rows were read; an audit that was stopped covers the rows before.
    settings : dict
        What was asked for.
    data : dict
        Name, kind, and files, each with its size and SHA-256.
    rows : dict
        How many rows were read; how many served for training and for evaluation; and unusable rows by reason.
    columns : list of dict
        How each column was used: its role, its number of features, rows without a value, rows with a value that does
        not occur in the warm-up rows, a note.
    groups : list of dict
        Each group with its rows in training and in evaluation, whether it is constrained, and whether it is compared.
    models : list of dict
        First "constrained", then "unconstrained", or one for each column of decisions or scores: accuracy, intervals by
        metric and source, coefficients, verdicts by metric, diagnostics.
    price : dict or None
        Accuracy that the constraint costs: that of the unconstrained model minus that of the constrained one.
    path : list of dict
        Unfairness and its interval during training.
    assumptions : list of dict
        What the intervals assume, whether it holds, and the diagnostics that say it does not.
    versions : dict
        Versions of the software.
    comparisons : list of dict
        Unfairness of the constrained model minus that of the unconstrained one on the same rows, for each metric with a
        verdict, as ``sf.compare`` finds it: estimate, low, high, verdict, sentence, by_pair. The interval is about
        these two very models. Empty without a criterion.
    """

    kind: str
    sentence: str
    verdict: str | None
    complete: bool
    settings: dict[str, Any]
    data: dict[str, Any]
    rows: dict[str, Any]
    columns: list[dict[str, Any]]
    groups: list[dict[str, Any]]
    models: list[dict[str, Any]]
    price: dict[str, Any] | None
    path: list[dict[str, Any]]
    assumptions: list[dict[str, Any]]
    versions: dict[str, str]
    comparisons: list[dict[str, Any]] = field(default_factory=list)

    def __str__(self) -> str:
        unmet = [f"Assumption not met: {one['assumes']}" for one in self.assumptions if not one["held"]]
        return "\n".join([self.sentence, *unmet])

    def __repr__(self) -> str:
        return (
            f"<Audit of {self.data['name']}, {counted(self.rows['read'], 'row')}: {self.verdict or 'no margin given'}>"
        )

    def _repr_html_(self) -> str:
        """Summary that notebooks show."""
        from surefair.audit.report import render_summary

        return render_summary(self.to_dict())

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON."""
        return {"format": FORMAT, "version": VERSION} | asdict(self)

    def to_json(self, path: str | os.PathLike[str]) -> None:
        """Write the audit to a JSON file; an older file stays as it was until the new one is complete.

        Parameters
        ----------
        path : path
        """
        content = json.dumps(self.to_dict(), indent=1, ensure_ascii=False, allow_nan=False) + "\n"
        with written_whole(path) as file:
            file.write(content.encode())

    def to_html(
        self,
        path: str | os.PathLike[str],
        *,
        title: str | None = None,
        purpose: str | None = None,
        author: str | None = None,
        date: str | None = None,
    ) -> None:
        """Write the audit as a report, one HTML file; an older file stays as it was until the new one is complete.

        Parameters
        ----------
        path : path
        title, purpose, author, date : str, optional
            What heads the report, in place of what the audit was begun with. The date is a day such as "2026-03-31".
        """
        from surefair.audit.report import render  # templates are slow to import, and many audits write no report

        given = check_about({"title": title, "purpose": purpose, "author": author, "date": date})
        page = render(self.to_dict() | {"settings": self.settings | given})
        with written_whole(path) as file:
            file.write(page.encode())

    @classmethod
    def from_dict(cls, found: dict[str, Any]) -> Self:
        """Make an audit from what ``to_dict`` returned.

        Parameters
        ----------
        found : dict

        Returns
        -------
        Audit
        """
        kind = found.get("format")
        if kind != FORMAT:
            raise ValueError(f"This is not an audit: its format must be {FORMAT!r}; received {kind!r}.")
        version = found.get("version")
        if version != VERSION:
            raise ValueError(
                f"This release reads audits of version {VERSION}; received version {version!r}. Run the audit again, "
                "or use the release that wrote it."
            )
        wanted = {one.name for one in fields(cls)}
        values = {name: value for name, value in found.items() if name not in ("format", "version")}
        needed = {one.name for one in fields(cls) if one.default_factory is MISSING}  # others came later
        if missing := sorted(needed - values.keys()):
            raise ValueError(f"The audit is incomplete: it has no {', '.join(missing)}. Run the audit again.")
        if unknown := sorted(values.keys() - wanted):
            raise ValueError(f"An audit has no {', '.join(unknown)}. Remove what was added, or run the audit again.")
        return cls(**values)

    @classmethod
    def from_json(cls, path: str | os.PathLike[str]) -> Self:
        """Read an audit from a file that ``to_json`` wrote.

        Parameters
        ----------
        path : path

        Returns
        -------
        Audit
        """
        name = os.fspath(path)
        with open_regular(path) as file:
            content = file.read()
        try:
            found = json.loads(content)
        except ValueError as error:
            raise ValueError(f"{name!r} is not JSON: {error}. Pass the audit.json that an audit wrote.") from error
        if not isinstance(found, dict):
            raise ValueError(f"{name!r} is not an audit: it holds a {type(found).__name__}, not an object.")
        try:
            return cls.from_dict(found)
        except ValueError as error:
            raise ValueError(f"{name!r} cannot be read. {error}") from error

    @staticmethod
    def schema() -> dict[str, Any]:
        """Return the JSON schema of what ``to_dict`` returns."""
        found: dict[str, Any] = json.loads(files("surefair.audit").joinpath("schema.json").read_text(encoding="utf-8"))
        return found

    def model(self, name: str | None = None) -> AuditedModel:
        """Return one of the models.

        Parameters
        ----------
        name : str, optional
            "constrained", "unconstrained", or a column of decisions or scores; by default the first.

        Returns
        -------
        AuditedModel
            A dict, whose ``to_sklearn`` returns the model itself.
        """
        models = {model["name"]: model for model in self.models}
        return AuditedModel(self.models[0] if name is None else models[one_of(name, models, "model")], self)

    def interval(
        self, metric: str | None = None, source: str | None = None, model: str | None = None
    ) -> dict[str, Any]:
        """Return an interval for a model's unfairness.

        Parameters
        ----------
        metric : str, optional
            By default the first one with a verdict.
        source : str, optional
            By default "total" for models that were trained, and "evaluation" for decisions and scores.
        model : str, optional
            As in ``model``.

        Returns
        -------
        dict
            As ``Interval.to_dict`` returns it.
        """
        found = self.model(model)["intervals"]
        metric = one_of(metric or found[0]["metric"], dict.fromkeys(one["metric"] for one in found), "metric")
        source = source or ("total" if self.kind == "training" else "evaluation")
        one_of(source, dict.fromkeys(one["source"] for one in found), "source")
        return dict(find_interval(self.model(model), metric, source))

    def to_frame(self) -> Any:
        """Return a data frame with one row for each model, metric and source.

        Each row holds the unfairness with its interval, and the gap between the two groups that differ most.
        """
        rows = [{"model": model["name"]} | found for model in self.models for found in model["intervals"]]
        names = ("model", "metric", "source", "estimate", "low", "high", "gap", "gap_low", "gap_high")
        table = {name: [row[name] for row in rows] for name in names}
        table["first"] = [str(row["pair"][0]) for row in rows]
        table["second"] = [str(row["pair"][1]) for row in rows]
        return make_frame(table)


class AuditedModel(dict[str, Any]):
    """What an audit found about a model, as a dict, and the model itself as a scikit-learn estimator."""

    def __init__(self, found: dict[str, Any], audit: Audit) -> None:
        super().__init__(found)
        self._audit = audit

    def to_sklearn(self) -> Any:
        """Return the audited model as a scikit-learn pipeline, which works without surefair.

        It takes data frames with the columns of the data, numbers as numbers and text as text, and missing values as
        NaN or None. Categories that the audit did not see, missing values and values far out in the tails are treated
        as the audit treats them. The last step, a ``LogisticRegression`` (for the squared error, a
        ``RidgeClassifier``), has the coefficients of the columns in their original units.

        Returns
        -------
        Pipeline
            Labels that are whole numbers become ints; others stay text. A CSV file is best read with
            ``pandas.read_csv(path, skipinitialspace=True, na_values="?")``, which reads values as the audit does.

        Examples
        --------
        >>> import pandas as pd
        >>> import surefair as sf
        >>> data = sf.datasets.SyntheticDM(seed=0).sample(500)
        >>> names = [f"x{i}" for i in range(data.X.shape[1])]
        >>> table = pd.DataFrame(data.X, columns=names).assign(label=data.y, group=data.sensitive)
        >>> model = sf.audit(table, label="label", sensitive="group", n_replicates=5).model().to_sklearn()
        >>> [name for name, step in model.steps]
        ['columns', 'linear']
        >>> len(model.predict(table))
        500
        """
        from surefair.audit.export import to_sklearn  # scikit-learn is slow to import

        return to_sklearn(self._audit.settings, self._audit.columns, self)


def find_interval(model: dict[str, Any], metric: str, source: str | None = None) -> dict[str, Any]:
    """Return an interval of a model in an audit; if there is none, one in which nothing is defined.

    Without a source, it is the one by which models are judged: total if they were trained, evaluation otherwise.
    """
    nothing: dict[str, Any] = {"reason": "", "by_group": [], "rate": "", "n": 0}
    nothing |= dict.fromkeys(("estimate", "low", "high"))
    found = {one["source"]: one for one in model["intervals"] if one["metric"] == metric}
    wanted = (source,) if source else ("total", "evaluation")
    return next((found[name] for name in wanted if name in found), nothing)
