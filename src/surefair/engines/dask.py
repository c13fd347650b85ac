"""Run work on the workers of a Dask scheduler; data sets are DataFrames and Bags of Arrow batches."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from surefair.engines._workers import (
    TIMEOUT,
    check_reachable,
    ignore_interrupts,
    import_extra,
    is_instance_of,
    n_workers,
)


@contextmanager
def connect(address: str | None, n_jobs: int | None) -> Iterator[Any]:
    """Give a client."""
    distributed = _import("distributed")
    if address is None:
        try:
            client = distributed.Client.current()
        except ValueError:
            pass
        else:
            yield client
            return
        try:
            with ignore_interrupts():
                cluster = distributed.LocalCluster(
                    n_workers=n_workers(n_jobs), threads_per_worker=1, processes=True, dashboard_address=":0"
                )
        except RuntimeError as error:
            raise RuntimeError(
                f"Dask's workers did not start ({error}). In a script, put the work inside "
                "`if __name__ == '__main__':`, or create a distributed.Client first."
            ) from error
        with cluster, distributed.Client(cluster, set_as_default=False) as client:
            yield client
        return
    try:
        check_reachable(address)
        with ThreadPoolExecutor(1) as thread:  # a notebook has an event loop in this one
            thread.submit(asyncio.run, _greet(distributed, address)).result()
        client = distributed.Client(address, timeout=TIMEOUT, set_as_default=False)
    except (OSError, ValueError) as error:  # a TimeoutError is an OSError
        reason = error if str(error) else f"no answer for {TIMEOUT:g} s"
        raise ConnectionError(
            f"No Dask scheduler answers at {address!r} ({reason}). Start one with `dask scheduler`, or correct "
            "the address."
        ) from error
    with client:
        yield client


async def _greet(distributed: Any, address: str) -> None:
    """Exchange greetings with a scheduler; a Client would wait forever for something that listens but never answers."""
    comm = await asyncio.wait_for(distributed.comm.connect(address, timeout=TIMEOUT), TIMEOUT)
    await comm.close()


def run(connection: Any, work: Callable[[Any], Any], tasks: Iterable[Any]) -> Iterator[Any]:
    """Call work on each task; results stay in the workers' memory or on their disks until they are fetched."""
    held = _send(connection, work)
    return _fetch(connection, [connection.submit(_call, held, task, pure=False) for task in tasks])


def owns(data: Any) -> bool:
    """Whether data is a Dask DataFrame or Bag."""
    return is_instance_of(data, ("dask", "dask_expr"), ("DataFrame", "Bag"))


def over(data: Any, work: Callable[[int, Any], bytes], n_jobs: int | None) -> Iterator[bytes]:
    """Call work on each partition; if this process has no client, start a cluster for the duration."""
    delayed = _import("dask").delayed
    with connect(None, n_jobs) as client:
        held = _send(client, work)
        calls = [delayed(_call, pure=False)(held, number, part) for number, part in enumerate(data.to_delayed())]
        yield from _fetch(client, client.compute(calls))


def _send(client: Any, work: Callable[..., Any]) -> Any:
    """Make work a result on the cluster, which goes to each worker once and is rebuilt if a worker is lost."""
    # The work may hold all rows on purpose, so Dask need not warn about its size.
    with _import("dask").config.set({"distributed.admin.large-graph-warning-threshold": "1 TB"}):
        return client.submit(_itself, work, pure=False)


def _fetch(client: Any, futures: list[Any]) -> Iterator[Any]:
    """Yield results in order, and release each one afterwards."""
    futures.reverse()
    try:
        while futures:
            yield futures.pop().result()
    finally:
        if futures:
            client.cancel(futures)


def _itself(work: Any) -> Any:
    return work


def _call(work: Callable[..., Any], *task: Any) -> Any:
    return work(*task)


def _import(module: str) -> Any:
    return import_extra(module, "dask", "dask and distributed")
