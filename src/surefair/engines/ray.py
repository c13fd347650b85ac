"""Run work on a Ray cluster; data sets are Ray Datasets, and their blocks are the partitions."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Any

from surefair.engines._workers import check_reachable, ignore_interrupts, import_extra, is_instance_of, n_workers

AHEAD = 4
"""Tasks submitted at a time for each core of the cluster."""


@contextmanager
def connect(address: str | None, n_jobs: int | None) -> Iterator[Any]:
    """Connect, and give the module ray."""
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
            check_reachable(address)
        if address is None:
            with ignore_interrupts():
                ray.init("local", num_cpus=n_workers(n_jobs), include_dashboard=False, logging_level="error")
        else:
            ray.init(address, logging_level="error")
    except (OSError, RuntimeError, ValueError) as error:
        raise ConnectionError(
            f"No Ray cluster answers at {address!r} ({error}). Start one with `ray start --head`, or correct "
            "the address."
        ) from error
    try:
        yield ray
    finally:
        ray.shutdown()


def run(connection: Any, work: Callable[[Any], Any], tasks: Iterable[Any]) -> Iterator[Any]:
    """Call work on each task, some ahead of the result that is taken."""
    return _fetch(connection, work, ((task,) for task in tasks))


def owns(data: Any) -> bool:
    """Whether data is a Ray Dataset."""
    return is_instance_of(data, ("ray.data",), ("Dataset",))


def over(data: Any, work: Callable[[int, Any], bytes], n_jobs: int | None) -> Iterator[bytes]:
    """Call work on each block."""
    options = data.context.execution_options
    before = options.preserve_order
    options.preserve_order = True  # otherwise blocks come in the order in which they finish
    try:
        # With references, a block's number does not depend on which block finished first, and the block goes straight
        # from its node to the worker without passing through this process.
        blocks = data.to_arrow_refs()
    finally:
        options.preserve_order = before
    return _fetch(_ray(), work, enumerate(blocks))


def _fetch(ray: Any, work: Callable[..., Any], tasks: Iterable[tuple[Any, ...]]) -> Iterator[Any]:
    """Yield results in order, and drop each reference afterwards so that Ray can free the result."""
    # We send bytes because arrays that Ray unpacks are read-only, for which compiled code would be compiled again.
    held = ray.put(ray.cloudpickle.dumps(work))
    call = ray.remote(_call)
    ahead = AHEAD * max(1, int(ray.cluster_resources().get("CPU", 1)))
    waiting = (call.remote(held, *task) for task in tasks)
    refs = deque(islice(waiting, ahead))
    while refs:
        yield ray.get(refs.popleft())
        refs.extend(islice(waiting, 1))


def _call(held: bytes, *task: Any) -> Any:
    return _ray().cloudpickle.loads(held)(*task)


def _ray() -> Any:
    return import_extra("ray", "ray", "ray[data]")
