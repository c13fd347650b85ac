"""Compare the speed of FairClassifier.fit with its peers: rows per second, in one run, medians of alternating rounds.

We time the public ``fit`` on one thread, including the multipliers. All contenders run on the same core, except the one
that is named "two threads".

    python benchmarks/fits.py          the core set, in a few minutes
    python benchmarks/fits.py --all    also slower peers
"""

from __future__ import annotations

import argparse
from importlib.metadata import version
from types import ModuleType

import matplotlib as mpl
from peers import PEERS, sgd_classifier
from threadpoolctl import threadpool_limits
from work import RESULTS, WORKS, Call, Data, Work, console, cores, keep, medians, show, shown

import surefair as sf

mpl.use("Agg")
import matplotlib.pyplot as plt

OURS, TWO, SINGLE = "surefair", "surefair, two threads", "surefair, float32"
BARE, SGD = "surefair, no replicates", "one SGDClassifier"
PARITY, RATE, SLAB, PENALTY = (  # works that are compared with each other
    "parity of decisions, d=14, B=200",
    "false-positive rate of decisions, d=14, B=200",
    "slab, d=14, B=200",
    "penalty, 500 rows in D', d=14, B=200",
)
MORE = 1_000_000  # rows of a longer stream
OLD_PENALTY = 170 / 586  # speed of the penalty's former kernel over that of the slab, thousands of rows/s in one run
Rates = dict[str, float]


def ours(work: Work, data: Data, replicates: int, n_jobs: int = 1, dtype: str = "float64") -> Call:
    """Return our fit."""
    clf = sf.FairClassifier(
        work.criterion, n_replicates=replicates, random_state=0, solver="one_pass", n_jobs=n_jobs, dtype=dtype
    )

    def fit() -> object:
        with cores(n_jobs):
            clf.fit(data.X, data.y, sensitive_features=data.z, constraint_set=data.apart)
            return clf.coef_replicates_  # the averages are computed on access

    return fit


def measure(work: Work, peers: list[ModuleType]) -> Rates:
    """Rows per second of every contender that supports this work."""
    data = Data(work)
    contenders = {
        OURS: (ours(work, data, work.replicates), work.rows),
        TWO: (ours(work, data, work.replicates, n_jobs=2), work.rows),
        BARE: (ours(work, data, 0), work.rows),
        SGD: (lambda: sgd_classifier.one_fit(data), work.rows),
    }
    if work.learnt and work.dense:
        contenders[SINGLE] = ours(work, data, work.replicates, dtype="float32"), work.rows
    prepared = {peer.NAME: peer.prepare(work, data) for peer in peers}
    contenders |= {name: contender for name, contender in prepared.items() if contender}
    times = medians({name: call for name, (call, _) in contenders.items()})
    return {name: rows / times[name] for name, (_, rows) in contenders.items()}


def compare(work: Work, rates: Rates, peers: list[ModuleType]) -> list[dict[str, object]]:
    """One line per peer, with the ratio of our speed to theirs."""
    return [
        {
            "work": work.name,
            "peer": peer.NAME,
            "ratio": rates[OURS] / rates[peer.NAME],
            "target": peer.TARGETS.get(work.name),
            "our_rows/s": rates[OURS],
            "their_rows/s": rates[peer.NAME],
        }
        for peer in peers
        if peer.NAME in rates
    ]


def against_fixed() -> list[dict[str, object]]:
    """Compare our speed if the constraint is learnt from all rows with that if it is fixed, in rounds of their own.

    The penalty had a faster kernel, with certificates over the rows of D', when the target was set. Its speed is known
    relative to the slab. A learner that sees all rows begins with a solution on the first of them, so a longer stream
    shows the speed at which it learns from the others.
    """
    works = {work.name: work for work in WORKS if work.name in (PARITY, RATE, SLAB, PENALTY)}
    longer = {name: work._replace(rows=MORE) for name, work in works.items() if name != PENALTY}
    times, more = (
        medians({name: ours(work, Data(work), work.replicates) for name, work in some.items()})
        for some in (works, longer)
    )
    speed = {name: work.rows / times[name] for name, work in works.items()}
    later = {name: (MORE - works[name].rows) / (more[name] - times[name]) for name in longer}
    former = f"the penalty's former kernel, {OLD_PENALTY:.2f} of the slab"
    first, others = f"first {works[SLAB].rows:,}", f"from there to {MORE:,}"
    pairs = [
        (PARITY, SLAB, first, speed[PARITY], speed[SLAB], 0.35),
        (PARITY, SLAB, others, later[PARITY], later[SLAB], None),
        (RATE, former, first, speed[RATE], OLD_PENALTY * speed[SLAB], 2.0),
        (RATE, former, others, later[RATE], OLD_PENALTY * later[SLAB], None),
        (RATE, PENALTY, f"first {works[PENALTY].rows:,}", speed[RATE], speed[PENALTY], None),
    ]
    return [
        {"learnt": learnt, "fixed": fixed, "rows": rows, "ratio": ours / theirs, "target": target,
         "learnt_rows/s": ours, "fixed_rows/s": theirs}
        for learnt, fixed, rows, ours, theirs, target in pairs
    ]  # fmt: skip


def costs(work: Work, rates: Rates) -> dict[str, object]:
    """Speed-up by threads and float32, and cost of replicates over one fit without them, ours and SGDClassifier's."""
    return {
        "work": work.name,
        "two_threads_over_one": rates[TWO] / rates[OURS],
        "float32_over_float64": rates[SINGLE] / rates[OURS] if SINGLE in rates else None,
        "replicates_over_none": rates[BARE] / rates[OURS],
        "replicates_over_one_SGDClassifier": rates[SGD] / rates[OURS],
    }


def draw(found: dict[str, Rates]) -> None:
    """Draw rows per second, one panel per work, ours in another colour, with the ratio of our speed to each peer's."""
    sizes = [len(rates) for rates in found.values()]
    shape = {"figsize": (7.5, 1.0 + 0.34 * sum(sizes)), "height_ratios": sizes, "layout": "constrained", "sharex": True}
    figure, axes = plt.subplots(len(found), **shape)
    colours = {OURS: "#D55E00", TWO: "#E69F00", SINGLE: "#E69F00"}
    for ax, (work, rates) in zip(axes, found.items(), strict=True):
        names = sorted(rates, key=rates.get)
        bars = ax.barh(names, [rates[name] for name in names], color=[colours.get(name, "#56B4E9") for name in names])
        times = {name: f" ({shown(rates[OURS] / rates[name])}x)" for name in names if name not in colours}
        ax.bar_label(bars, [shown(rates[name]) + times.get(name, "") for name in names], padding=4, fontsize=8)
        ax.set_xscale("log")
        ax.set_title(work, loc="left", fontsize=9)
        ax.tick_params(axis="y", length=0, labelsize=8)
        ax.minorticks_off()
        ax.spines[["top", "right"]].set_visible(False)
    axes[-1].set_xlim(1, 40 * max(max(rates.values()) for rates in found.values()))
    axes[-1].set_xlabel("rows per second (in brackets: surefair on one thread is that many times as fast)", fontsize=9)
    figure.savefig(RESULTS / "bench_fits.png", dpi=150)


def main() -> None:
    """Measure, print, save, and draw."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--all", action="store_true", help="also time slower peers")
    everything = parser.parse_args().all
    peers = [peer for peer in PEERS.values() if peer.CORE or everything]
    found = {}
    with cores(1), threadpool_limits(1):
        for work in WORKS:
            with console.status(work.name):
                found[work] = measure(work, peers)
        with console.status("learnt or fixed"):
            learnt = against_fixed()
    rows = [line for work, rates in found.items() for line in compare(work, rates, peers)]
    ours_alone = [costs(work, rates) for work, rates in found.items()]
    show("Speed of FairClassifier.fit relative to its peers, one core", rows)
    show("Speed if the constraint is learnt from all rows over speed if it is fixed, one core", learnt)
    show("Speed-up by threads and float32, and cost of all replicates over one fit", ours_alone)
    versions = {peer.NAME: f"{peer.PACKAGE} {version(peer.PACKAGE)}" for peer in peers}
    about = [{"peer": peer.NAME, "version": versions[peer.NAME], "what_it_does": peer.NOTE} for peer in peers]
    keep("fits", rows=rows, learnt=learnt, costs=ours_alone, peers=about)
    draw({work.name: {k: v for k, v in rates.items() if k not in (BARE, SGD)} for work, rates in found.items()})


if __name__ == "__main__":
    main()
