"""Ray: tasks on a cluster; Datasets, whose blocks are the partitions."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Any

from surefair.engines._workers import comes_from, deaf, n_workers, needed, reach

AHEAD = 4
"""Tasks under way for each core of the cluster."""


@contextmanager
def connect(address: str | None, n_jobs: int | None) -> Iterator[Any]:
    """Give the module ray, connected."""
    ray = _ray()
    if ray.is_initialized():
        if address is not None and address != ray.get_runtime_context().gcs_address:
            raise ValueError(
                f"This process is connected to the Ray cluster at {ray.get_runtime_context().gcs_address!r}, and can "
                f"have only one; received {address!r}. Call ray.shutdown() first, or leave the address out."
            )
        yield ray
        return
    try:
        if address is not None and ":" in address:
            reach(address)
        if address is None:
            with deaf():
                ray.init("local", num_cpus=n_workers(n_jobs), include_dashboard=False, logging_level="error")
        else:
            ray.init(address, logging_level="error")
    except (OSError, RuntimeError, ValueError) as error:
        raise ConnectionError(
            f"No Ray cluster answers at {address!r} ({error}). Start one with `ray start --head`, or mend the address."
        ) from error
    try:
        yield ray
    finally:
        ray.shutdown()


def run(connection: Any, work: Callable[[Any], Any], tasks: Iterable[Any]) -> Iterator[Any]:
    """Do tasks, some ahead of the one that is asked for."""
    return _fetched(connection, work, ((task,) for task in tasks))


def owns(data: Any) -> bool:
    """Whether data is a Ray Dataset."""
    return comes_from(data, ("ray.data",), ("Dataset",))


def over(data: Any, work: Callable[[int, Any], bytes], n_jobs: int | None) -> Iterator[bytes]:
    """Work on blocks."""
    options = data.context.execution_options
    before, options.preserve_order = options.preserve_order, True  # otherwise blocks come as they are done
    try:
        # Blocks as references: the one way in which each has a number that does not depend on who was first, and in
        # which a block goes from the node that has it to the worker, past this process.
        blocks = data.to_arrow_refs()
    finally:
        options.preserve_order = before
    return _fetched(_ray(), work, enumerate(blocks))


def _fetched(ray: Any, work: Callable[..., Any], tasks: Iterable[tuple[Any, ...]]) -> Iterator[Any]:
    """Results in order; each reference is dropped once its result was handed over, and the store is then free of it."""
    # As bytes: arrays that Ray itself unpacks are read-only, and compiled code would be compiled for them once more.
    held, call = ray.put(ray.cloudpickle.dumps(work)), ray.remote(_call)
    ahead = AHEAD * max(1, int(ray.cluster_resources().get("CPU", 1)))
    waiting = (call.remote(held, *task) for task in tasks)
    refs = deque(islice(waiting, ahead))
    while refs:
        yield ray.get(refs.popleft())
        refs.extend(islice(waiting, 1))


def _call(held: bytes, *task: Any) -> Any:
    return _ray().cloudpickle.loads(held)(*task)


def _ray() -> Any:
    return needed("ray", "ray", "ray[data]")
