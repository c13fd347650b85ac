"""Compare the speed of fits whose constraint is learnt from all rows with that of fits whose constraint is fixed.

Times are medians of alternating rounds on one core.

    python benchmarks/learnt.py
"""

from __future__ import annotations

from fits import ours
from threadpoolctl import threadpool_limits
from work import WORKS, Data, console, cores, keep, medians, show

PARITY, RATE, SLAB, PENALTY = (  # works that are compared with each other
    "parity of decisions, d=14, B=200",
    "false-positive rate of decisions, d=14, B=200",
    "slab, d=14, B=200",
    "penalty, 500 rows in D', d=14, B=200",
)
MORE = 1_000_000  # rows of a longer stream
OLD_PENALTY = 170 / 586  # speed of the penalty's former kernel over that of the slab, thousands of rows/s in one run


def compare() -> list[dict[str, object]]:
    """Compare our speed if the constraint is learnt from all rows with that if it is fixed.

    The penalty had a faster kernel, with certificates over the rows of D', when the target was set. Its speed is known
    relative to the slab. A learner that sees all rows begins with a solution on the first of them, so a longer stream
    shows the speed at which it learns from the others.
    """
    works = {work.name: work for work in WORKS if work.name in (PARITY, RATE, SLAB, PENALTY)}
    longer = {name: Data(work._replace(rows=MORE)) for name, work in works.items() if name != PENALTY}
    begun = {name: longer[name].first(work.rows) if name in longer else Data(work) for name, work in works.items()}
    times, more = (
        medians({name: ours(works[name], data, works[name].replicates) for name, data in some.items()})
        for some in (begun, longer)
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


def main() -> None:
    """Measure, print, and save."""
    with cores(1), threadpool_limits(1), console.status("learnt or fixed"):
        rows = compare()
    show("Speed if the constraint is learnt from all rows over speed if it is fixed, one core", rows)
    keep("learnt", rows=rows)


if __name__ == "__main__":
    main()
