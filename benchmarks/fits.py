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
    rows = [line for work, rates in found.items() for line in compare(work, rates, peers)]
    ours_alone = [costs(work, rates) for work, rates in found.items()]
    show("Speed of FairClassifier.fit relative to its peers, one core", rows)
    show("Speed-up by threads and float32, and cost of all replicates over one fit", ours_alone)
    versions = {peer.NAME: f"{peer.PACKAGE} {version(peer.PACKAGE)}" for peer in peers}
    about = [{"peer": peer.NAME, "version": versions[peer.NAME], "what_it_does": peer.NOTE} for peer in peers]
    keep("fits", rows=rows, costs=ours_alone, peers=about)
    draw({work.name: {k: v for k, v in rates.items() if k not in (BARE, SGD)} for work, rates in found.items()})


if __name__ == "__main__":
    main()
