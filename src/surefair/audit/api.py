"""``sf.audit`` and ``sf.resume``: the two kinds of audit behind one function."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields
from numbers import Integral
from typing import Any

from surefair import engines
from surefair.audit import checkpoint as checkpoints
from surefair.audit.checkpoint import Folder
from surefair.audit.decisions.run import RunningDecisions
from surefair.audit.decisions.settings import DecisionSettings
from surefair.audit.judging import Margin
from surefair.audit.policy import Policy, read_policy
from surefair.audit.result import Audit
from surefair.audit.run import Running
from surefair.audit.settings import AuditSettings
from surefair.audit.stream import Stream
from surefair.names import one_of

Settings = AuditSettings | DecisionSettings


def audit(
    data: Any,
    *,
    sensitive: str | Sequence[str] = (),
    label: str | None = None,
    decision: str | Sequence[str] = (),
    score: str | None = None,
    threshold: float | None = None,
    threshold_quantile: float | None = None,
    criterion: str | None = "demographic_parity",
    metric: str | Sequence[str] = (),
    margin: Margin = None,
    positive: str | Sequence[str] | None = None,
    weights: str | None = None,
    clusters: str | None = None,
    strata: str | None = None,
    unknown: str = "show",
    min_share: float = 0.0,
    intersections: bool = False,
    reference: str | Sequence[str] = (),
    policy: Folder | None = None,
    estimator: Any = None,
    features: Sequence[str] | None = None,
    drop: Sequence[str] = (),
    include_sensitive: bool = False,
    allow_leakage: bool = False,
    keep_order: bool = False,
    names: Sequence[str] | None = None,
    delimiter: str | None = None,
    encoding: str = "utf-8",
    max_bad_rows: int = 100,
    confidence_level: float = 0.95,
    loss: str = "log_loss",
    surrogate: str = "decisions",
    tolerance: float = 0.0,
    penalty: float | None = None,
    alpha: float = 1e-4,
    n_replicates: int | None = None,
    random_state: int = 0,
    shard_rows: int | None = None,
    title: str | None = None,
    purpose: str | None = None,
    author: str | None = None,
    date: str | None = None,
    checkpoint: Folder | None = None,
    n_jobs: int | None = None,
    engine: str = "local",
    address: str | None = None,
) -> Audit:
    """Measure how differently a model treats groups, from a file.

    With ``decision`` or ``score``, the decisions or scores of a model that exists already are audited. Otherwise a
    model with a constraint and one without are trained on the data, and these are audited.

    Parameters
    ----------
    data : path, "-", file object or data frame
        CSV (also compressed), Parquet or Arrow file, or a folder of such files; "-" is standard input.
    sensitive : str or sequence of str
        Columns of the groups.
    label : str
        Column of the label, with two values. Audits of decisions may go without: they then measure selection rates.
    decision : str or sequence of str
        Columns of decisions to audit, each with two values.
    score : str, optional
        Column of scores to audit.
    threshold, threshold_quantile : float, optional
        A score of at least this much, or of at least this quantile of all scores, is a positive decision; with neither,
        only metrics of scores are measured.
    criterion : str or None
        Criterion that constrains the first trained model.
    metric : str or sequence of str
        Metrics that get a verdict, by default the criterion, for decisions demographic parity, and for scores without a
        threshold the scoring rate. Several are judged together. Others are measured.
    margin : float or dict of str to float, optional
        Largest acceptable gap; for ratios, the smallest acceptable ratio. One for all metrics, or one for each.
    positive : str or sequence of str, optional
        The positive label or decision; by default the second in sorted order.
    weights, clusters, strata : str, optional
        Columns of sample weights; of what rows belong to, for example a person with several rows; and, for decisions,
        of strata within which groups are compared. When models are trained, rows of one cluster serve the same purpose.
    unknown : {"show", "include", "refuse"}
        For decisions: whether rows without a group are shown, compared as well, or refused.
    min_share : float
        For decisions: share of the rows that a group must have to be compared.
    intersections : bool
        For decisions: whether to also compare the groups that the sensitive columns form together.
    reference : str or sequence of str
        For decisions: groups with which others are compared, as GROUP or COLUMN=GROUP; by default all pairs are.
    policy : path, optional
        A surefair.toml file with settings that are agreed on beforehand.
    estimator : classifier or str, optional
        A scikit-learn classifier, or its place as "module:object". It is trained on seven tenths of the rows, with
        refits as in ``BootstrapClassifier`` (10, unless ``n_replicates`` says otherwise), and audited on the others.
    features, drop : sequence of str, optional
        Columns to learn from (by default all without another role), and columns not to learn from.
    include_sensitive : bool
        Whether models also learn from the sensitive columns.
    allow_leakage : bool
        Whether models may learn from a column that all but equals the label; otherwise it stops the audit.
    keep_order : bool
        Whether training takes rows in the order of the data.
    names : sequence of str, optional
        Column names of a CSV file without a header.
    delimiter, encoding : str
        Delimiter and encoding of a CSV file.
    max_bad_rows : int
        Rows that cannot be used; more of them stop the audit.
    confidence_level, random_state
        As in ``fairness_interval``.
    loss, surrogate, tolerance, penalty, alpha
        As in ``FairClassifier``.
    n_replicates : int, optional
        By default 200 for models that are trained, and 2,000 for decisions.
    shard_rows : int, optional
        Smallest number of rows in a shard, to read a folder of Parquet files in shards; by default the folder is read
        as one stream.
    title, purpose, author, date : str, optional
        What heads the report. The date is a day such as "2026-03-31"; it is never taken from the clock, so that the
        same data give the same bytes.
    checkpoint : path, optional
        Folder to save the state in, once a minute; ``resume`` continues from there.
    n_jobs : int, optional
        Threads; for shards, workers on this machine.
    engine : {"local", "dask", "ray", "spark"}
        Where shards of a folder of Parquet files are read: in processes of this machine, or on a cluster that sees the
        same files. The result is the same.
    address : str, optional
        Address of the cluster; by default the one that this process is connected to, or else a new one on this machine.

    Returns
    -------
    Audit

    Examples
    --------
    Train two models and audit them:

    >>> import pandas as pd
    >>> import surefair as sf
    >>> data = sf.datasets.SyntheticDI(seed=0).sample(5_000)
    >>> table = pd.DataFrame(data.X, columns=["x1", "x2"]).assign(label=data.y, group=data.sensitive)
    >>> found = sf.audit(table, label="label", sensitive="group", margin=0.2)
    >>> found.verdict
    'within margin'

    Audit decisions that some model has made:

    >>> table["decision"] = table["x1"] > 0.5
    >>> sf.audit(table, decision="decision", sensitive="group", margin=0.2).verdict
    'violates margin'
    """
    given = {name: value for name, value in locals().items() if name not in NOT_SETTINGS}
    asked = settings_of(given, None if policy is None else read_policy(policy))
    check_engine(asked, engine, address, checkpoint)
    _check_jobs(n_jobs)
    if estimator is not None:
        from surefair.audit.learner import audit_learner  # scikit-learn is slow to import

        check_learner(given, engine, checkpoint, policy)
        return audit_learner(data, estimator, given, n_jobs)
    running = begin(data, asked, checkpoint, in_shards=engine != "local")
    if running.settings.shard_rows is None:
        return running.run(checkpoint=checkpoint, n_jobs=n_jobs)
    return running.run_in_shards(engine, address, n_jobs=n_jobs)


NOT_SETTINGS = ("data", "policy", "estimator", "checkpoint", "n_jobs", "engine", "address")
"""Arguments of ``audit`` that do not change what is found."""


DEFAULTS = {one.name: one.default for kind in (AuditSettings, DecisionSettings) for one in fields(kind)}
DEFAULTS["n_replicates"] = None  # it differs between the two


def settings_of(given: Mapping[str, Any], policy: Policy | None = None) -> Settings:
    """Make the settings of an audit of decisions, or of a training audit, from arguments and a policy.

    Parameters
    ----------
    given : mapping of str to value
        Arguments; those that have their default value count as not given.
    policy : Policy, optional
    """
    asked = {name: value for name, value in given.items() if not _is_default(value, DEFAULTS[name])}
    if policy is not None:
        asked = policy.joined_with(asked)
    kind: type[Settings] = DecisionSettings if "decision" in asked or "score" in asked else AuditSettings
    if kind is AuditSettings and "label" not in asked:
        raise ValueError(
            "There is nothing to audit. Name a column of decisions (decision, --decision) or of scores (score, "
            "--score), or the column of the label (label, --label) that models are to be trained on."
        )
    if "sensitive" not in asked:
        raise ValueError("No sensitive column is named. Name at least one (sensitive, --sensitive).")
    known = {one.name for one in fields(kind)}
    for name in asked:
        if name not in known:
            what, other = ("decisions", "training") if kind is DecisionSettings else ("training", "decisions")
            raise ValueError(
                f"{name} (--{name.replace('_', '-')}) is for audits of {other}, and this is an audit of {what}. Leave "
                "it out."
            )
    return kind(**asked)


def _is_default(value: Any, default: Any) -> bool:
    """Whether a value is the default, or says nothing."""
    if value is None:
        return default is None or default is MISSING or not isinstance(default, str)
    if isinstance(value, tuple | list) and not value:
        return True
    return default is not MISSING and type(value) is type(default) and bool(value == default)


def begin(data: Any, settings: Settings, checkpoint: Folder | None = None, *, in_shards: bool = False) -> Stream:
    """Open the data for the kind of audit that the settings ask for."""
    if isinstance(settings, DecisionSettings):
        return RunningDecisions.begin(data, settings, checkpoint, in_shards=in_shards)
    return Running.begin(data, settings, checkpoint, in_shards=in_shards)


def restore(checkpoint: Folder, data: Any = None) -> Stream:
    """Open the data again, with the state of the newest checkpoint of an audit of either kind."""
    kinds = {kind.KIND: kind for kind in (Running, RunningDecisions)}
    path, meta, *_ = checkpoints.read_newest(checkpoint)
    kind = meta.get("kind")
    if kind not in kinds:
        raise ValueError(f"{str(path)!r} is of an unknown kind of audit: {kind!r:.60}. Use another copy.")
    return kinds[kind].restore(checkpoint, data)


def check_engine(settings: Settings, engine: str, address: str | None, checkpoint: Folder | None) -> None:
    """Refuse combinations that do not work."""
    one_of(engine, engines.ENGINES, "engine")
    if engine == "local" and address is not None:
        raise ValueError(f"The engine 'local' is this machine and has no address; received {address!r}. Leave it out.")
    if (engine != "local" or settings.shard_rows is not None) and checkpoint is not None:
        raise ValueError(
            "An audit in shards writes no checkpoints, because an engine repeats lost shards. Leave out checkpoint "
            "(--checkpoint), or read the data as one stream: use the engine 'local' without shard_rows (--shard-rows)."
        )


NOT_OF_LEARNERS = (
    "decision", "score", "threshold", "threshold_quantile", "strata", "min_share", "intersections", "reference", "loss",
    "penalty", "tolerance", "shard_rows",
)  # fmt: skip
"""Settings that an audit of an estimator does not have."""


def check_learner(given: Mapping[str, Any], engine: str, checkpoint: Folder | None, policy: Folder | None) -> None:
    """Refuse settings that an audit of an estimator does not have."""
    named = [name for name in NOT_OF_LEARNERS if given.get(name) and not _is_default(given[name], DEFAULTS[name])]
    named += [] if engine == "local" else ["engine"]
    named += [name for name, value in (("checkpoint", checkpoint), ("policy", policy)) if value is not None]
    if named:
        raise ValueError(
            f"{named[0]} (--{named[0].replace('_', '-')}) does not go with estimator (--estimator), which is trained "
            "on the rows as a whole. Leave one of them out."
        )


def _check_jobs(n_jobs: int | None) -> None:
    if n_jobs is not None and (not isinstance(n_jobs, Integral) or n_jobs == 0):
        raise ValueError(f"n_jobs must be None or a whole number, or -1 for all cores, and not 0; received {n_jobs!r}.")


def resume(checkpoint: Folder, data: Any = None, *, n_jobs: int | None = None) -> Audit:
    """Resume an audit from its newest checkpoint.

    Parameters
    ----------
    checkpoint : path
        Folder in which ``audit`` saved its state.
    data : path, "-", file object or data frame, optional
        The same data again; by default the file that the audit began with.
    n_jobs : int, optional

    Returns
    -------
    Audit
        The same as if the audit had never been stopped.
    """
    _check_jobs(n_jobs)
    running = restore(checkpoint, data)
    for note in running.notes:
        warnings.warn(note, stacklevel=2)
    return running.run(checkpoint=checkpoint, n_jobs=n_jobs)
