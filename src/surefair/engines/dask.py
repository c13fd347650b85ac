"""Dask: a scheduler's workers; DataFrames, and Bags of Arrow batches."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from surefair.engines._workers import TIMEOUT, comes_from, deaf, n_workers, needed, reach


@contextmanager
def connect(address: str | None, n_jobs: int | None) -> Iterator[Any]:
    """Give a client."""
    distributed = needed("distributed", "dask", "dask and distributed")
    if address is None:
        try:
            client = distributed.Client.current()
        except ValueError:
            pass
        else:
            yield client
            return
        try:
            with deaf():
                cluster = distributed.LocalCluster(
                    n_workers=n_workers(n_jobs), threads_per_worker=1, processes=True, dashboard_address=":0"
                )
        except RuntimeError as error:
            raise RuntimeError(
                f"Dask's workers did not start ({error}). A script that starts them needs its work inside "
                "`if __name__ == '__main__':`, or a distributed.Client of its own."
            ) from error
        with cluster, distributed.Client(cluster, set_as_default=False) as client:
            yield client
        return
    try:
        reach(address)
        client = distributed.Client(address, timeout=TIMEOUT, set_as_default=False)
    except (OSError, ValueError) as error:  # a TimeoutError is an OSError
        raise ConnectionError(
            f"No Dask scheduler answers at {address!r} ({error}). Start one with `dask scheduler`, or mend the address."
        ) from error
    with client:
        yield client


def run(connection: Any, work: Callable[[Any], Any], tasks: Iterable[Any]) -> Iterator[Any]:
    """Do tasks; results wait on the workers, or on their disks, until they are asked for."""
    held = _held(connection, work)
    return _fetched(connection, [connection.submit(_call, held, task, pure=False) for task in tasks])


def owns(data: Any) -> bool:
    """Whether data is a Dask DataFrame or Bag."""
    return comes_from(data, ("dask", "dask_expr"), ("DataFrame", "Bag"))


def over(data: Any, work: Callable[[int, Any], bytes], n_jobs: int | None) -> Iterator[bytes]:
    """Work on partitions; without a client in this process, on a cluster that lives as long."""
    delayed = needed("dask", "dask", "dask and distributed").delayed
    with connect(None, n_jobs) as client:
        held = _held(client, work)
        calls = [delayed(_call, pure=False)(held, number, part) for number, part in enumerate(data.to_delayed())]
        yield from _fetched(client, client.compute(calls))


def _held(client: Any, work: Callable[..., Any]) -> Any:
    """Work as a result of its own: it is sent to each worker once, and made again where a worker was lost."""
    with needed("dask", "dask", "dask and distributed").config.set(
        {"distributed.admin.large-graph-warning-threshold": "1 TB"}  # it may hold all rows, which is meant
    ):
        return client.submit(_itself, work, pure=False)


def _fetched(client: Any, futures: list[Any]) -> Iterator[Any]:
    """Results in order; each is let go once it was handed over."""
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
