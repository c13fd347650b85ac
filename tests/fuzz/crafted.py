"""Archives whose content was changed below the checksums, which are computed anew."""

from __future__ import annotations

import copy
import json

import numpy as np

from surefair.storage.archive import write_archive

VALUES = [None, True, -1, 0, 1, 2**31, 2**63, 1e300, float("nan"), "", "x", "\x1b[2J", [], {}, [0] * 5, "<U1000000000"]
DTYPES = ["float64", "float32", "int64", "int32", "uint64", "uint8", "bool", "<U3", ">f8"]


def read(path):
    """Format, version, JSON and arrays of an archive."""
    with np.load(path) as archive:
        arrays = dict(archive)
    meta = json.loads(arrays.pop("meta").tobytes())
    arrays.pop("meta_sha256")
    meta.pop("sha256")
    return meta.pop("format"), meta.pop("version"), meta, arrays


def places(value, place=()):
    """Every place in JSON."""
    yield place
    if isinstance(value, dict | list):
        for key in value if isinstance(value, dict) else range(len(value)):
            yield from places(value[key], (*place, key))


def changed_json(meta, rng):
    """Change one value of JSON: another one, none, or one more."""
    meta = copy.deepcopy(meta)
    found = [place for place in places(meta) if place]
    *way, last = found[rng.integers(len(found))]
    parent = meta
    for key in way:
        parent = parent[key]
    how = rng.integers(4)
    if how == 0 and isinstance(parent, dict):
        parent[f"{last} more"] = parent[last]
    elif how == 1:
        del parent[last]
    elif how == 2 and isinstance(parent[last], int | float) and not isinstance(parent[last], bool):
        parent[last] = type(parent[last])(parent[last] + rng.choice([-1, 1, 10, 10**6]))
    else:
        parent[last] = VALUES[rng.integers(len(VALUES))]
    return meta


def changed_arrays(arrays, rng):
    """Change one array: its shape, type, values or name, or leave it out."""
    arrays = dict(arrays)
    name = list(arrays)[rng.integers(len(arrays))]
    array = arrays[name]
    how = rng.integers(8)
    if how == 0:
        del arrays[name]
    elif how == 1:
        arrays[f"{name}_more"] = array
    elif how == 2:
        arrays[name] = array.astype(DTYPES[rng.integers(len(DTYPES))])
    elif how == 3:
        arrays[name] = np.concatenate([array, array]) if array.ndim else array.reshape(1)
    elif how == 4:
        arrays[name] = array[..., :-1] if array.ndim and array.shape[-1] else array[None]
    elif how == 5:
        arrays[name] = array.T.copy() if array.ndim > 1 else array[:0] if array.ndim else array[None, None]
    elif array.size and array.dtype.kind in "iuf":
        array = array.copy()
        choice = [np.nan, np.inf, -np.inf, 1e308, -1.0, 1e9, 0.5]
        if array.dtype.kind != "f":
            kind = np.iinfo(array.dtype)
            choice = [
                max(value, kind.min)
                for value in (-1, 0, 1, 999, kind.min, kind.max, kind.max // 2)
                if value <= kind.max
            ]
        array.flat[rng.integers(array.size)] = choice[rng.integers(len(choice))]
        arrays[name] = array
    return arrays


def write_changed(source, target, rng):
    """Write a changed copy of an archive, with the checksums of its new content."""
    kind, version, meta, arrays = read(source)
    for _ in range(1 + rng.integers(2)):
        if rng.random() < 0.4:
            meta = changed_json(meta, rng)
        else:
            arrays = changed_arrays(arrays, rng)
    write_archive(target, kind, version, meta, arrays)
