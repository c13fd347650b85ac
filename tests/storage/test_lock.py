"""A folder of checkpoints has one writer."""

from __future__ import annotations

import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import surefair as sf
from surefair.storage.lock import locked


def test_a_second_writer_is_refused_until_the_first_ends(tmp_path):
    with locked(tmp_path), pytest.raises(OSError, match="Another audit is writing to"), locked(tmp_path):
        pass
    with locked(tmp_path):
        assert list(tmp_path.iterdir()) == []


def test_a_killed_process_leaves_no_lock(tmp_path):
    code = (
        "import sys, time; from surefair.storage.lock import locked\n"
        "with locked(sys.argv[1]):\n print('held', flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", code, tmp_path], stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"held\n"
        with pytest.raises(OSError, match="Another audit"), locked(tmp_path):
            pass
        process.kill()
    with locked(tmp_path):
        pass


def test_a_second_audit_with_the_same_checkpoints_is_refused(people, tmp_path):
    from surefair.audit.run import Running
    from surefair.audit.settings import AuditSettings

    asked = AuditSettings(label="high", sensitive="sex", criterion=None, n_replicates=5)
    inside = []

    def again(rows):
        with pytest.raises(OSError, match="Another audit is writing to"):
            Running.begin(people(800), asked).run(checkpoint=tmp_path)
        inside.append(rows)

    Running.begin(people(800), asked).run(checkpoint=tmp_path, progress=again)
    assert inside == [800]


@pytest.mark.filterwarnings("ignore::surefair.diagnostics.Diagnostic")
def test_two_threads_in_one_classifier_lose_no_rows():
    """Every batch is taken, or its caller gets an error."""
    clf = sf.FairClassifier(None, n_replicates=2, n_warmup=50, random_state=0)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4_000, 3))
    y = (X[:, 0] + rng.normal(size=4_000) > 0).astype(int)
    clf.partial_fit(X[:100], y[:100])
    barrier = threading.Barrier(4)

    def feed(i):
        barrier.wait()
        taken = 0
        for low in range(100 + i * 100, 3_900, 400):
            try:
                clf.partial_fit(X[low : low + 100], y[low : low + 100])
                taken += 100
            except RuntimeError:  # another thread was faster
                continue
        return taken

    with ThreadPoolExecutor(4) as pool:
        taken = sum(pool.map(feed, range(4)))
    assert clf.n_rows_ == 100 + taken
