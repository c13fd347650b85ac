"""A classifier on disk, as plain arrays and JSON; after ``load`` it goes on to the same bits as if never stopped."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix

from surefair.classifier import FairClassifier
from surefair.criteria import CRITERIA, get_criterion
from surefair.diagnostics import Runs
from surefair.learners import LEARNERS
from surefair.learners.schedules import PolynomialDecay
from surefair.rows.arrays import is_sparse
from surefair.rows.groups import Census, Groups, Levels
from surefair.storage.archive import Arrays, Place, read_archive, write_archive
from surefair.training.model import Rows, assemble

FORMAT = "surefair.FairClassifier"
VERSION = 5


def save(clf: FairClassifier, path: Place) -> None:
    """Write a classifier to a file; at a path, an older file stays as it was until the new one is complete.

    Parameters
    ----------
    clf : FairClassifier
        Unfitted, fitted, or in the middle of a stream.
    path : path or binary file object

    Examples
    --------
    >>> import surefair as sf
    >>> data = sf.datasets.SyntheticDI(seed=0).sample(2_000)
    >>> clf = sf.FairClassifier(random_state=0).fit(data.X, data.y, sensitive_features=data.sensitive)
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     save(clf, folder + "/clf.npz")
    ...     again = load(folder + "/clf.npz")
    >>> bool((again.coef_ == clf.coef_).all())
    True
    """
    if not isinstance(clf, FairClassifier):
        raise TypeError(f"save takes a FairClassifier; received {type(clf).__name__}.")
    write_archive(path, FORMAT, VERSION, *pack(clf))


def load(path: Place) -> FairClassifier:
    """Read a classifier from a file that ``save`` wrote.

    Parameters
    ----------
    path : path or binary file object

    Returns
    -------
    FairClassifier
    """
    return unpack(*read_archive(path, FORMAT, VERSION))


def pack(clf: FairClassifier) -> tuple[dict[str, Any], Arrays]:
    """Take a classifier apart into JSON and arrays."""
    meta: dict[str, Any] = {"params": _params(clf.get_params(deep=False))}
    arrays: Arrays = {}
    if not hasattr(clf, "classes_"):
        return meta, arrays
    meta |= {
        "classes": Levels(clf.classes_, "label").to_json(),
        "groups": None if clf._census is None else clf._census.groups.to_json(),
        "seed": clf.seed_,
        "backend": clf.backend_,
        "n_features_in": clf.n_features_in_,
        "feature_names_in": list(getattr(clf, "feature_names_in_", [])),
    }
    if clf._census is not None:
        arrays |= {f"group_rows_{i}": rows for i, rows in enumerate(clf._census.rows)}
    arrays |= _packed("runs", clf._runs)
    if clf._waiting is not None:
        arrays |= _packed("waiting", clf._waiting)
    if clf._fit is not None:
        fit = clf._fit
        arrays |= _packed("constraint", fit.constraint_set) | _packed("state", fit.state)
        arrays |= _packed("form", fit.learner.form) | {"W": fit.W, "start": fit.learner.settings.start}
        meta["form"] = type(fit.learner.form).__name__
        groups = fit.problem.groups
        meta |= {"begun": _params(fit.problem.params), "begun_groups": None if groups is None else groups.to_json()}
        meta |= {
            "sparse": fit.sparse,
            "weight": fit.weight,
            "shards": fit.shards,
            "schedule": vars(fit.learner.settings.schedule),
        }
    return meta, arrays


def _packed(name: str, fields: Any) -> Arrays:
    """Fields of a NamedTuple as arrays; a sparse matrix as the arrays it is made of."""
    arrays: Arrays = {}
    for field, value in fields._asdict().items():
        if is_sparse(value):
            parts = {"data": value.data, "indices": value.indices, "indptr": value.indptr, "shape": value.shape}
            arrays |= {f"{name}_{field}_{part}": np.asarray(array) for part, array in parts.items()}
        else:
            arrays[f"{name}_{field}"] = np.asarray(value)
    return arrays


def _unpacked(name: str, kind: Any, arrays: Arrays) -> Any:
    """A NamedTuple of the kind given, from its arrays."""

    def field(key: str) -> Any:
        if key in arrays:
            return arrays[key]
        data, indices, indptr, shape = (arrays[f"{key}_{part}"] for part in ("data", "indices", "indptr", "shape"))
        return csr_matrix((data, indices, indptr), shape=tuple(shape.tolist()))

    return kind(*(field(f"{name}_{key}") for key in kind._fields))


def _params(params: dict[str, Any]) -> dict[str, Any]:
    """Constructor parameters as JSON."""
    params = dict(params)
    if params["feature_map"] is not None:
        raise ValueError(
            "A classifier with a feature_map cannot be saved: a file holds no code and no pickle. Transform the rows "
            "beforehand, and save a classifier of the transformed ones."
        )
    if params["criterion"] is not None:
        criterion = get_criterion(params["criterion"])
        if criterion != CRITERIA.get(criterion.name):
            raise ValueError(f"The criterion {criterion.name!r} is an object of your own, which a file cannot hold.")
        params["criterion"] = criterion.name
    if isinstance(params["step_size"], PolynomialDecay):
        params["step_size"] = vars(params["step_size"])
    if params["random_state"] is not None and not isinstance(params["random_state"], int | np.integer):
        params["random_state"] = None  # the seed drawn from it is kept
    return {name: _plain(value) for name, value in params.items()}


def _looked_up(params: dict[str, Any]) -> dict[str, Any]:
    """Constructor parameters from JSON."""
    step_size = params["step_size"]
    params = {"dtype": "float64"} | params  # which older files do not have
    return params | {"step_size": PolynomialDecay(**step_size) if isinstance(step_size, dict) else step_size}


def unpack(meta: dict[str, Any], arrays: Arrays) -> FairClassifier:
    """Put a classifier together again."""
    clf = FairClassifier(**_looked_up(meta["params"]))
    if "classes" not in meta:
        return clf
    clf.classes_ = Levels.from_json(meta["classes"], "label").values
    clf._census = None
    if meta["groups"] is not None:
        groups = Groups.from_json(meta["groups"])
        clf._census = Census(groups, tuple(arrays[f"group_rows_{i}"] for i in range(len(groups.levels))))
    clf._runs, clf._doubts = _unpacked("runs", Runs, arrays), (-1, [])
    clf.seed_, clf.backend_, clf.n_features_in_ = meta["seed"], meta["backend"], meta["n_features_in"]
    if meta["feature_names_in"]:
        clf.feature_names_in_ = np.asarray(meta["feature_names_in"], dtype=object)
    clf._waiting = clf._fit = None
    if "waiting_y" in arrays:
        clf._waiting = _unpacked("waiting", Rows, arrays)
    if "W" in arrays:
        constraint_set = _unpacked("constraint", Rows, arrays)
        form = _unpacked("form", next(kind for kind, _ in LEARNERS if kind.__name__ == meta["form"]), arrays)
        begun_groups = None if meta["begun_groups"] is None else Groups.from_json(meta["begun_groups"])
        problem = replace(clf._problem(_looked_up(meta["begun"])), groups=begun_groups)
        schedule = PolynomialDecay(**meta["schedule"])
        fit = assemble(problem, constraint_set, None, arrays["W"], form, arrays["start"], schedule, meta["sparse"])
        state = _unpacked("state", type(fit.state), arrays)
        shards = meta.get("shards", 1)  # which older files do not have
        clf._fit = fit._replace(state=state._replace(k=int(state.k)), weight=meta["weight"], shards=shards)
    return clf


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value
