"""Crafted files are refused with one error that names them, or are harmless: what they hold can be used."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

import surefair as sf
from surefair.audit import run as auditing
from surefair.audit.run import Running
from surefair.audit.settings import AuditSettings

FEW = 6
CASES = int(os.environ.get("SUREFAIR_FUZZ", "200")) // 6 + 1  # of each of six kinds of files
SEED = int(os.environ.get("SUREFAIR_FUZZ_FIRST", "0"))
LEAST_REFUSED = {"audit": 0.25}  # other numbers in held-out rows are still rows; for the others, a half

TRY = textwrap.dedent("""
    import sys, warnings, resource
    import numpy as np
    from pathlib import Path
    import surefair as sf
    from surefair.audit import run as auditing
    from crafted import write_changed

    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    auditing.CHUNK, auditing.MOST_CROSSED = 500, 0
    source, seed, n, what = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
    data = sf.datasets.SyntheticDM(seed=1).sample(200)
    refused = 0
    for case in range(n):
        target = source.with_name("changed") if what == "audit" else source.with_name("changed.npz")
        rng = np.random.default_rng([seed, case])
        print("case", case, flush=True)
        if what == "audit":
            target.mkdir(exist_ok=True)
            write_changed(source, target / "000000001.npz", rng)
        else:
            write_changed(source, target, rng)
        try:
            if what == "audit":
                sf.resume(target, n_jobs=1).to_html(source.with_name("report.html"))
                continue
            clf = sf.load(target)
        except (ValueError, OSError) as error:
            words = str(error)
            assert len(words) < 2000, words
            assert what == "audit" or (type(error) is not OSError and "changed.npz" in words), words
            refused += 1
            continue
        try:
            sf.save(clf, target)
            if what == "sparse":
                from scipy.sparse import csr_matrix
                draw = np.random.default_rng(0)
                X = csr_matrix(draw.random((60, 1200)) * (draw.random((60, 1200)) < 0.02))
                clf.partial_fit(X, np.arange(60) % 2, sensitive_features=np.arange(60) % 3 % 2)
            else:
                clf.partial_fit(data.X, data.y, sensitive_features=data.sensitive)
                clf.fairness_interval(data.X, data.y, sensitive_features=data.sensitive)
                clf.coef_interval()
        except (ValueError, OverflowError, np.linalg.LinAlgError, ZeroDivisionError) as error:
            pass
    print("refused", refused, "peak", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)
""")


def people(n, seed=0):
    rng = np.random.default_rng(seed)
    import pandas as pd

    male = rng.random(n) < 0.5
    age = rng.normal(size=n) + male
    high = age + rng.normal(size=n) > 0.5
    return pd.DataFrame({"age": age, "sex": np.where(male, "m", "f"), "high": high.astype(int)})


def write(folder, what):
    """A file of one kind."""
    path = folder / "clf.npz"
    data = sf.datasets.SyntheticDM(seed=0).sample(400)
    if what == "audit":
        people(1_500).to_csv(folder / "people.csv", index=False)
        asked = AuditSettings(label="high", sensitive="sex", n_replicates=3)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(auditing, "CHUNK", 500)
            patch.setattr(auditing, "MOST_CROSSED", 0)
            stops = iter([False, True, True, True])
            Running.begin(folder / "people.csv", asked).run(checkpoint=folder / "state", stop=lambda: next(stops))
        return max((folder / "state").glob("*.npz"))
    more = {"exact": {"solver": "exact"}, "waiting": {}, "penalty": {"step_size": sf.PolynomialDecay(0.5, 0.6)}}
    parameters = {"n_replicates": 3, "n_warmup": 60, "random_state": 0} | more.get(what, {})
    criterion = "false_positive_rate" if what == "penalty" else "demographic_parity"
    clf = sf.FairClassifier(criterion, **parameters)
    if what == "sparse":
        from scipy.sparse import random as sparse_random

        rng = np.random.default_rng(0)
        X = sparse_random(200, 1200, 0.02, format="csr", random_state=rng)
        clf.partial_fit(X, rng.integers(2, size=200), sensitive_features=rng.integers(2, size=200), classes=[0, 1])
    elif what == "exact":
        clf.fit(data.X, data.y, sensitive_features=data.sensitive)
    else:
        n = 30 if what == "waiting" else 399
        clf.partial_fit(data.X[:n], data.y[:n], sensitive_features=data.sensitive[:n], classes=[-1, 1])
    sf.save(clf, path)
    return path


KINDS = ["newton", "exact", "waiting", "penalty", "sparse", "audit"]


def try_cases(path, what, n, seed=SEED):
    """Try so many crafted files in a process of their own, and return what it prints."""
    here = Path(__file__)
    run = subprocess.run(
        [sys.executable, "-c", TRY, path, str(seed), str(n), what],
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(here.parent), *sys.path])},
        capture_output=True, text=True, timeout=60 + 10 * n, check=False,
    )  # fmt: skip
    assert run.returncode == 0, f"{run.stdout[-300:]}\n{run.stderr[-3000:]}"
    return run.stdout.splitlines()[-1].split()


pytestmark = pytest.mark.filterwarnings("ignore::surefair.diagnostics.Diagnostic", "ignore::RuntimeWarning")


@pytest.mark.parametrize(
    ("what", "n"),
    [("newton", FEW), ("audit", FEW), *(pytest.param(what, CASES, marks=pytest.mark.slow) for what in KINDS)],
)
def test_a_crafted_file_is_refused_or_harmless_and_needs_little_memory(tmp_path, what, n):
    """Memory is compared with that of a process that tries no file."""
    path = write(tmp_path, what)
    _, refused, _, peak = try_cases(path, what, n)
    assert int(refused) >= LEAST_REFUSED.get(what, 0.5) * n
    if n > FEW:
        assert int(peak) - int(try_cases(path, what, 0)[3]) < 200
