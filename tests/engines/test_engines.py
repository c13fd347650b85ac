"""Every engine yields results in order and one at a time, reruns tasks of dead workers, and passes errors on."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import tracemalloc
from pathlib import Path

import pytest

from surefair import engines

MB = 1 << 20


def done(engine, work, tasks, **asked):
    with engines.connected(engine, **asked) as run:
        return list(run(work, tasks))


@pytest.fixture(params=["local", "dask", "ray", "spark"])
def any_engine(request):
    if request.param != "local":
        request.getfixturevalue(request.param)
    return request.param


def test_each_file_of_the_folder_is_an_engine():
    assert sorted(engines.ENGINES) == ["dask", "local", "ray", "spark"]
    with pytest.raises(ValueError, match=r"Unknown engine: 'dusk'. Did you mean 'dask'\?"):
        engines.get_engine("dusk")


def test_optional_packages_are_imported_only_when_used():
    code = (
        "import sys; from surefair import engines; [engines.get_engine(e).owns([]) for e in engines.ENGINES]; "
        "print({'dask', 'distributed', 'ray', 'pyspark'} & set(sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "set()\n"


def test_results_come_in_the_order_of_the_tasks(any_engine):
    def work(task):
        time.sleep(0.5 if task == 0 else 0.0)
        return str(task).encode()

    assert done(any_engine, work, range(8)) == [str(task).encode() for task in range(8)]
    assert done(any_engine, work, []) == []


def test_errors_of_workers_are_raised_unchanged(any_engine):
    def work(task):
        if task == 1:
            error = ValueError("The second task is bad.")
            error.add_note("It was raised by task 1.")
            raise error
        if task == 3:
            Path("/no/such/file").read_bytes()
        return b""

    with pytest.raises(ValueError, match="The second task is bad") as caught:
        done(any_engine, work, range(4))
    assert (type(caught.value), str(caught.value)) == (ValueError, "The second task is bad.")
    assert caught.value.__notes__ == ["It was raised by task 1."]
    assert "in work" in str(caught.value.__cause__)
    with pytest.raises(FileNotFoundError, match="No such file or directory: '/no/such/file'"):
        done(any_engine, work, [0, 3])
    assert done(any_engine, work, [0, 2]) == [b"", b""]  # the engine still works


def test_tasks_of_a_dead_worker_run_again(engine, tmp_path):
    def work(task):
        if task == 2 and not (tmp_path / "died").exists():
            (tmp_path / "died").touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return str(task).encode()

    assert done(engine, work, range(5)) == [str(task).encode() for task in range(5)]
    assert (tmp_path / "died").exists()


def test_the_driver_holds_one_result_at_a_time(engine):
    def work(task):
        return bytes([task]) * MB

    with engines.connected(engine) as run:
        assert [result[0] for result in run(work, range(2))] == [0, 1]  # imports must not count
        tracemalloc.start()
        try:
            seen = sum(len(result) for result in run(work, range(40)))
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert seen == 40 * MB
    assert peak < 10 * MB


def test_results_come_in_the_order_of_the_partitions(dataset, people):
    def work(number, frames):
        time.sleep(0.3 if number == 0 else 0.0)
        frames = [frames] if hasattr(frames, "columns") and hasattr(frames, "shape") else list(frames)
        return f"{number}: {sum(len(frame) for frame in frames)}".encode()

    data = dataset([people(n, 0) for n in (5, 3, 4)])
    assert list(engines.over(data, work)) == [b"0: 5", b"1: 3", b"2: 4"]


def test_a_data_set_belongs_to_exactly_one_engine(dataset, people, request):
    data = dataset([people(5, 0)])
    found = [name for name in engines.ENGINES if name != "local" and engines.get_engine(name).owns(data)]
    assert found == [request.node.callspec.params["dataset"].split()[0]]


def test_other_data_are_an_error(people):
    for wrong in (people(5, 0), "part.parquet", 3, {"a": people(5, 0)}):
        with pytest.raises(ValueError, match=f"data must be a Dask DataFrame .*; received {type(wrong).__name__}"):
            list(engines.over(wrong, lambda number, frames: b""))


# -- Connections ------------------------------------------------------------------------------------------------------


def test_an_existing_connection_is_used_and_stays_open(engine):
    for _ in range(2):
        assert done(engine, os.getpid, []) == []
        assert os.getpid() not in done(engine, lambda task: os.getpid(), range(2))


def test_an_address_selects_the_cluster(dask, ray, spark):
    addresses = {
        "dask": dask.scheduler.address,
        "ray": ray.get_runtime_context().gcs_address,
        "spark": spark.sparkContext.master,
    }
    for engine, address in addresses.items():
        assert done(engine, abs, [-1, 2], address=address) == [1, 2]


def test_an_unreachable_scheduler_of_dask_is_an_error(dask, monkeypatch):
    monkeypatch.setattr("surefair.engines.dask.TIMEOUT", 1.0)
    with pytest.raises(ConnectionError, match=r"No Dask scheduler answers at 'tcp://127.0.0.1:9'"):
        done("dask", abs, [1], address="tcp://127.0.0.1:9")


def test_an_address_that_listens_and_never_answers_is_an_error(dask, monkeypatch):
    monkeypatch.setattr("surefair.engines.dask.TIMEOUT", 1.0)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"tcp://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(ConnectionError, match=rf"No Dask scheduler answers at '{address}' \(no answer for 1 s\)"):
            done("dask", abs, [1], address=address)


def test_a_second_address_is_an_error(ray, spark):
    for engine in ("ray", "spark"):
        with pytest.raises(ValueError, match="only one; received 'else:1'"):
            done(engine, abs, [1], address="else:1")
    with pytest.raises(ValueError, match="'local' takes no address"):
        done("local", abs, [1], address="else:1")


ALONE = """
from surefair import engines
with engines.connected({engine!r}, n_jobs=1) as run:
    print(list(run(abs, [-1, 2])))
"""


@pytest.mark.parametrize("engine", ["dask", "ray", "spark"])
def test_a_cluster_is_started_if_there_is_none(engine, tmp_path, request):
    request.getfixturevalue(engine)  # skips the test if the package is missing
    script = tmp_path / "alone.py"
    script.write_text(f"if __name__ == '__main__':\n    exec({ALONE.format(engine=engine)!r})\n")
    found = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=120)
    assert found.stdout.splitlines()[-1:] == ["[1, 2]"], found.stderr[-2000:]


def test_an_unreachable_cluster_of_ray_is_an_error():
    pytest.importorskip("ray", reason="ray is not installed: make test-distributed")
    code = ALONE.replace("n_jobs=1", "address='127.0.0.1:9'").format(engine="ray")
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert "ConnectionError: No Ray cluster answers at '127.0.0.1:9'" in found.stderr


@pytest.mark.parametrize(
    ("engine", "words"), [("dask", "dask and distributed"), ("ray", r"ray\[data\]"), ("spark", "pyspark")]
)
def test_a_missing_package_is_named_with_the_command_to_install_it(engine, words, monkeypatch):
    for module in ("dask", "distributed", "ray", "pyspark", "pyspark.sql"):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(
        ValueError, match=rf"The engine '{engine}' needs {words}\. Run: pip install 'surefair\[{engine}\]'"
    ):
        done(engine, abs, [1])


def test_workers_may_join_and_leave(dask):
    import distributed

    def work(task):
        time.sleep(0.1)
        return task

    with (
        distributed.LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=":0") as cluster,
        engines.connected("dask", cluster.scheduler_address) as run,
    ):
        results, found = run(work, range(30)), []
        for result in results:
            found.append(result)
            if result in (2, 12):
                cluster.scale(2 if result == 2 else 1)
    assert found == list(range(30))
