"""An audit of any scikit-learn classifier: it is trained on most rows of a file, with refits, and measured on the rest.

The held-out rows, with the decisions of the model, go the way of any other decisions. Their intervals are then replaced
by those of source ``total``, which also cover how the model would differ had it been trained on other rows.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pyarrow as pa

from surefair.audit.decisions.findings import CHECKED as OF_DECISIONS
from surefair.audit.decisions.run import RunningDecisions
from surefair.audit.decisions.settings import DecisionSettings
from surefair.audit.findings import assumptions, compared_words, judge, margin_words, overall
from surefair.audit.judging import Judging
from surefair.audit.result import Audit
from surefair.bootstrap import BootstrapClassifier, fit_copy, keyword_of
from surefair.inference.interval import Question
from surefair.inference.metric import get_metric
from surefair.inference.refits import ESTIMATES, Refits
from surefair.inference.sample import Input
from surefair.rows import Rows
from surefair.tables.intake import Columns, read_all
from surefair.tables.split import side_of

HELD_OUT = 0.3  # share of the rows, or of the clusters
N_REPLICATES = 10  # refits, by default
CHECKED = (*OF_DECISIONS, "FailedRefits", "LowCoverage", "NoSampleWeight", "UninformativeModel")
"""Diagnostics that such an audit looks for."""


def load_estimator(place: str) -> Any:
    """Import an estimator, given as module:object; a class, or a function without arguments, is called.

    Examples
    --------
    >>> load_estimator("sklearn.naive_bayes:GaussianNB")
    GaussianNB()
    """
    module, _, name = place.partition(":")
    if not module or not name:
        raise ValueError(f"Name the estimator as module:object, for example sklearn.svm:SVC; received {place!r}.")
    here = os.getcwd()
    sys.path.insert(0, here)  # a file in the current folder can be named like any other module
    try:
        found: Any = importlib.import_module(module)
    except ImportError as error:
        raise ValueError(f"The module of the estimator {place!r} cannot be imported: {error}.") from error
    finally:
        sys.path.remove(here)
    for part in name.split("."):
        if not hasattr(found, part):
            raise ValueError(f"The module {module!r} has no {name!r}. Check the name after the colon.")
        found = getattr(found, part)
    return found if hasattr(found, "fit") and not isinstance(found, type) else found()


def audit_learner(data: Any, estimator: Any, given: Mapping[str, Any], n_jobs: int | None = None) -> Audit:
    """Train a classifier with refits on most rows, and audit it on the others.

    Parameters
    ----------
    data : path, "-", file object or data frame
    estimator : str or classifier
        A classifier, or its place as module:object.
    given : mapping
        Settings of the columns and of judging, by name, as in ``sf.audit``.
    n_jobs : int, optional
        Refits that run in parallel.
    """
    learner = load_estimator(estimator) if isinstance(estimator, str) else estimator
    name = type(learner).__name__
    asked = Columns(**_some(given, Columns))
    judging = {key: value for key, value in _some(given, Judging).items() if key != "n_replicates"}
    n_replicates = given.get("n_replicates") or N_REPLICATES
    seed = int(given.get("random_state") or 0)
    clf = BootstrapClassifier(learner, n_replicates=n_replicates, random_state=seed, n_jobs=n_jobs)
    rows, intake, _ = read_all(data, asked)
    rows = rows.trimmed()
    rows.groups.check_comparable()
    held = side_of(rows, seed) < HELD_OUT
    train, test = rows.part(~held), rows.part(held)
    takes = keyword_of(learner, "sensitive_features") is not None
    clf = fit_copy(
        clf, train.X, _labels(train), _sensitive(train) if takes else None,
        None if train.uneven_weight is None else train.weight, train.key if asked.clusters else None,
    )  # fmt: skip
    subject = f"decision of {name}"
    table = _sensitive(test) | {asked.label: _labels(test), subject: clf.predict(test.X).astype(str)}
    extra = {"weights": test.weight if asked.weights else None, "clusters": test.key if asked.clusters else None}
    table |= {key: values for key, values in extra.items() if values is not None}
    settings = DecisionSettings(
        sensitive=asked.sensitive, label=asked.label, decision=(subject,), positive=(str(intake.labels[1]),),
        weights="weights" if asked.weights else None, clusters="clusters" if asked.clusters else None, **judging,
    )  # fmt: skip
    found = RunningDecisions.begin(pa.table({key: pa.array(values) for key, values in table.items()}), settings).run()
    keys = test.key if asked.clusters else None
    input_ = Input(_sensitive(test), sample_weight=test.weight if asked.weights else None, clusters=keys)
    refits = clf.refits(test.X, _labels(test), input_, get_metric("accuracy"))
    about = {"name": name, "settings": settings, "n": intake.n_rows, "training": train.n}
    return _concluded(found, refits, about | {"bad": intake.bad.to_dict()})


def _some(given: Mapping[str, Any], kind: Any) -> dict[str, Any]:
    """Those of the settings that a class knows, unless they say nothing."""
    known = {one.name for one in fields(kind)}
    return {name: value for name, value in given.items() if name in known and value is not None}


def _labels(rows: Rows) -> Any:
    return rows.names.labels.values[rows.truth].astype(str)


def _sensitive(rows: Rows) -> dict[Any, Any]:
    return {
        name: np.asarray(levels.values).astype(str)[codes]
        for codes, (name, levels) in zip(rows.group.T, rows.groups.levels.items(), strict=True)
    }


def _concluded(found: Audit, refits: Refits, about: dict[str, Any]) -> Audit:
    """Replace the intervals of decisions by those that cover training as well, and judge by them."""
    settings: DecisionSettings = about["settings"]
    level = settings.confidence_level
    model = dict(found.models[0])
    names = [one["metric"] for one in model["intervals"]]

    def ask(metric: str, source: str, confidence_level: float = level) -> Any:
        return refits.interval(Question(get_metric(metric), source, "auto", confidence_level))

    intervals = {name: ask(name, "total") for name in names}
    judged = settings.judged
    verdicts = []
    for metric, margin in settings.margins.items():
        wide = ask(metric, "total", 1.0 - (1.0 - level) / len(judged))
        verdicts.append(judge(intervals[metric], wide, margin))
    diagnostics = {one: None for interval in intervals.values() for one in interval.diagnostics}
    first = intervals[judged[0]].to_dict()
    again = ask(judged[0], "retraining")
    notes = (
        f"Trained on {about['training']:,} rows, and refitted {refits.n} times.",
        f"If it were trained again on as many new rows, the unfairness on these rows would be between {again.low:.3f} "
        f"and {again.high:.3f}.",
        refits.arbitrariness(level).sentence,
    )
    model |= {
        "intervals": [one.to_dict() for one in intervals.values()],
        "verdicts": verdicts,
        "notes": [*model["notes"], *notes],
        "diagnostics": [one.to_dict() for one in sorted(diagnostics, key=lambda one: (one.name, one.message))],
    }
    sentence = f"The decisions of {about['name']}, trained on {about['training']:,} rows, have "
    sentence += f"{compared_words(first, level)}. The interval is for "
    sentence += ESTIMATES["total"].format(n=f"{about['training']:,}") + "."
    sentence += f" Positive is {settings.label} = {model['positive']!r}."
    if verdicts:
        sentence += f" {margin_words(verdicts[0])}"
    verdict = overall(one["verdict"] for one in verdicts) if verdicts else None
    return replace(
        found, models=[model], verdict=verdict, sentence=sentence,
        settings=found.settings | {"estimator": about["name"]},
        rows=found.rows | {"read": about["n"], "training": about["training"], "bad": about["bad"]},
        assumptions=assumptions(diagnostics, CHECKED),
    )  # fmt: skip
