"""Shards of rows: every worker trains on its own rows, and the models are merged in the order of the shards.

The average of fits on disjoint shards has the same limit law as one pass over all rows, not the same bits. The warm-up
rows and everything that is chosen on them (coordinates, start) are settled once, on the driver, and sent along, because
linear algebra may round differently elsewhere. What a worker sends back is small: only arrays that changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from io import BytesIO
from typing import Any

import numpy as np

from surefair.rows import Rows
from surefair.storage.archive import Arrays, add_prefix, dump_archive, read_archive, select_changed, select_prefix
from surefair.training.model import Model
from surefair.training.parameters import draw_seed

FORMAT, VERSION = "surefair.shard", 6

Packed = dict[str, tuple[dict[str, Any], Arrays]]
"""Models by name, each taken apart into JSON and arrays."""


def shard_seed(random_state: int, number: int) -> int:
    """Return the ``random_state`` of a shard, from that of the classifier and the shard's number, counted from 0.

    >>> shard_seed(0, 0), shard_seed(0, 1)
    (3757552657, 673228719)
    """
    return int(np.random.SeedSequence(random_state, spawn_key=(number,)).generate_state(1)[0])


def pack_models(models: Mapping[str, Model]) -> Packed:
    """Take models apart, to send them to workers."""
    return {name: model.pack() for name, model in models.items()}


def unpack_models(packed: Packed) -> dict[str, Model]:
    """Put models together again."""
    return {name: Model.unpack(*parts) for name, parts in packed.items()}


def train_shard(
    models: Mapping[str, Model], random_state: int, number: int, batches: Iterable[Rows]
) -> dict[str, Model]:
    """Train models on the rows of one shard, with its own weights for the replicates.

    Parameters
    ----------
    models : dict of str to Model
        Models that have taken the warm-up rows and no others.
    random_state : int
    number : int
        Number of the shard.
    batches : iterable of Rows
        The rows of the shard, some at a time; they are read once.
    """
    seed = draw_seed(shard_seed(random_state, number))
    trained = {name: model.reseed(seed) for name, model in models.items()}
    for rows in batches:
        trained = {name: model.take(rows) for name, model in trained.items()}
    return trained


def merge_models(models: Mapping[str, Model] | None, shard: Mapping[str, Model]) -> Mapping[str, Model]:
    """Merge the models of one more shard; one without rows would only change bits by rounding, so it is left out."""
    if models is None or (_n_rows(models) == 0 and _n_rows(shard) > 0):
        return shard
    if _n_rows(shard) == 0:
        return models
    return {name: model.merge(shard[name]) for name, model in models.items()}


def _n_rows(models: Mapping[str, Model]) -> int:
    """Rows besides those that every fit began with."""
    return next(iter(models.values())).n_later


def send(models: Mapping[str, Model], known: Packed, **more: Any) -> bytes:
    """Write models as bytes: only the arrays that differ from those known to both sides, and more plain values."""
    meta: dict[str, Any] = {"models": {}} | more
    arrays: Arrays = {}
    for name, model in models.items():
        meta["models"][name], parts = model.pack()
        arrays |= add_prefix(name, select_changed(parts, known[name][1]))
    return dump_archive(FORMAT, VERSION, meta, arrays)


def receive(sent: bytes, known: Packed) -> tuple[dict[str, Model], dict[str, Any]]:
    """Read what ``send`` wrote: the models, and the other plain values."""
    meta, arrays = read_archive(BytesIO(sent), FORMAT, VERSION)
    models = {
        name: Model.unpack(meta["models"][name], parts | select_prefix(name, arrays))
        for name, (_, parts) in known.items()
    }
    return models, meta
