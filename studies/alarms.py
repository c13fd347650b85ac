"""Measure false alarms of audits on clean data, and whether any definite verdict on doubtful data is wrong.

False alarms: the rows of every file are independent and of one law. The table has the share of the files for which an
audit reports columns that change (``LateColumn``), gaps that change (``ChangingGap``), copies (``DependentRows``) or
rows that were trained on twice (``RepeatedRows``). Each should be below 2 %.

Verdicts: every file has copies of rows, gaps that cancel over time, or a column that begins late, and the truth is
known. Audits should give no definite verdict that is wrong.

- copies: 20 copies of 200 people. The unfairness in the population is 2 Φ(0.35) - 1, below the margin.
- drift: the gap is 2 Φ(0.75) - 1 in some parts of the data and its negative in others, so "within margin" is wrong.
- late column: the only column that depends on the group is 0 in the first quarter. The unfairness over all rows,
  3/4 (2 Φ(0.75 / sqrt(3.25)) - 1), is beyond the margin.

    python studies/alarms.py [--clean N] [--doubtful N]
"""

from __future__ import annotations

import argparse
import io
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import results
from scipy.stats import norm

import surefair as sf
from surefair.audit import run as auditing

NAMES = ("LateColumn", "ChangingGap", "DependentRows", "RepeatedRows")
MOST = 0.02
CHUNK = 2_000  # rows read at a time, so that files of a few thousand rows have several chunks
ASKED: dict[str, Any] = {"label": "high", "sensitive": "sex", "criterion": None, "n_jobs": 1, "n_replicates": 60}


class Pipe(io.BytesIO):
    """CSV that can be read only once."""

    def __init__(self, table: pd.DataFrame) -> None:
        super().__init__(table.to_csv(index=False).encode())

    def seekable(self) -> bool:
        """Say that it cannot go back."""
        return False


# -- Clean files ------------------------------------------------------------------------------------------------------


def mixed(rng: np.random.Generator, n: int) -> pd.DataFrame:
    """Numbers with heavy tails and missing values, rare words, and a rare indicator."""
    male = rng.random(n) < 0.5
    age = rng.normal(size=n) + 0.5 * male
    return pd.DataFrame(
        {
            "age": np.where(rng.random(n) < 0.03, np.nan, age).round(3),
            "wealth": rng.standard_t(2, n).round(3),
            "job": rng.zipf(1.6, n).clip(max=80).astype(str),
            "visits": rng.poisson(2.0, n),
            "flag": (rng.random(n) < 0.009).astype(int),
            "sex": np.where(male, "m", "f"),
            "high": (age + rng.normal(size=n) > 0.3).astype(int),
        }
    )


def discrete(rng: np.random.Generator, n: int) -> pd.DataFrame:
    """A few columns with a few values, so that most rows equal others."""
    male = rng.random(n) < 0.5
    age = rng.integers(5, size=n) + male
    return pd.DataFrame(
        {
            "age": age,
            "job": rng.choice(["clerk", "cook", "judge"], n, p=[0.6, 0.3, 0.1]),
            "sex": np.where(male, "m", "f"),
            "high": (age + rng.normal(size=n) > 2.5).astype(int),
        }
    )


CLEAN: dict[str, tuple[Callable[..., pd.DataFrame], int, Callable[[pd.DataFrame], Any]]] = {
    "mixed columns, stream": (mixed, 8_000, Pipe),
    "mixed columns, data frame": (mixed, 8_000, lambda table: table),
    "mixed columns, cross-fitting": (mixed, 1_500, lambda table: table),
    "discrete columns, stream": (discrete, 8_000, Pipe),
    "discrete columns, cross-fitting": (discrete, 1_500, lambda table: table),
}


def alarms(task: tuple[str, int]) -> set[str]:
    """Names of the assumptions that an audit of a clean file finds not met."""
    design, study = task
    draw, n, form = CLEAN[design]
    table = draw(np.random.default_rng([31, [*CLEAN].index(design), study]), n)
    found = sf.audit(form(table), **ASKED, random_state=study)
    return {one["name"] for one in found.assumptions if not one["held"]}


def all_alarms(audits: int, quiet: bool) -> list[dict[str, Any]]:
    """Table of false alarms."""
    lines = []
    for design, (_, n, _) in CLEAN.items():
        found = results.in_parallel(alarms, [(design, study) for study in range(audits)], design, quiet)
        count = Counter(name for names in found for name in names)
        lines.append({"data": design, "rows": n, "audits": audits} | {name: count[name] / audits for name in NAMES})
    return lines


# -- Doubtful files ---------------------------------------------------------------------------------------------------


def copies(rng: np.random.Generator) -> pd.DataFrame:
    """20 copies of 200 people."""
    male = rng.random(200) < 0.5
    age = (rng.normal(size=200) + 0.7 * (male - 0.5)).round(4)
    high = age + rng.normal(size=200) > 0.0
    table = pd.DataFrame({"age": age, "sex": np.where(male, "m", "f"), "high": high.astype(int)})
    return table.iloc[rng.permutation(np.tile(np.arange(200), 20))]


def drift(rng: np.random.Generator) -> pd.DataFrame:
    """Age depends on sex, and the sign of that changes once, or up to four times."""
    n = 6_000
    male = rng.random(n) < 0.5
    sign = 1.0 - 2.0 * (np.arange(n) * (1 + rng.integers(1, 5)) // n % 2)
    age = (rng.normal(size=n) + 1.5 * sign * (male - 0.5)).round(4)
    high = age + rng.normal(size=n) > 0.0
    return pd.DataFrame({"age": age, "sex": np.where(male, "m", "f"), "high": high.astype(int)})


def late(rng: np.random.Generator) -> pd.DataFrame:
    """Only the bonus depends on sex, and it is 0 in the first quarter."""
    n = 8_000
    male = rng.random(n) < 0.5
    age = rng.normal(size=n).round(4)
    bonus = np.where(np.arange(n) < n // 4, 0.0, rng.normal(size=n) + 1.0 * male - 0.5).round(4)
    high = age + 1.5 * bonus + rng.normal(size=n) > 0.0
    return pd.DataFrame({"age": age, "bonus": bonus, "sex": np.where(male, "m", "f"), "high": high.astype(int)})


COPIED = 2.0 * norm.cdf(0.35) - 1.0
LATE = 0.75 * (2.0 * norm.cdf(0.75 / np.sqrt(3.25)) - 1.0)
DOUBTFUL: dict[str, tuple[Callable[..., pd.DataFrame], Callable[[pd.DataFrame], Any], float, str]] = {
    "copies": (copies, lambda table: table, COPIED + 0.03, "violates margin"),
    "drift": (drift, lambda table: table, 0.1, "within margin"),
    "late column, stream": (late, Pipe, LATE - 0.05, "within margin"),
    "late column, data frame": (late, lambda table: table, LATE - 0.05, "within margin"),
}


def verdict(task: tuple[str, int]) -> str:
    """Verdict of one audit of a doubtful file."""
    design, study = task
    draw, form, margin, _ = DOUBTFUL[design]
    table = draw(np.random.default_rng([32, [*DOUBTFUL].index(design), study]))
    return str(sf.audit(form(table), **ASKED, random_state=study, margin=margin).verdict)


def all_verdicts(audits: int, quiet: bool) -> list[dict[str, Any]]:
    """Table of verdicts."""
    lines = []
    for design, (_, _, margin, wrong) in DOUBTFUL.items():
        found = [*results.in_parallel(verdict, [(design, study) for study in range(audits)], design, quiet)]
        definite = sum(one != "not enough evidence" for one in found)
        lines.append(
            {"data": design, "margin": margin, "wrong_verdict": wrong, "audits": audits, "definite": definite}
            | {"wrong": found.count(wrong)}
        )
    return lines


def main() -> None:
    """Run the study and save its results."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--clean", type=int, default=500, help="audits of clean files, for each kind of data")
    parser.add_argument("--doubtful", type=int, default=300, help="audits of doubtful files, for each kind of data")
    parser.add_argument("--quiet", action="store_true")
    args = parser.parse_args()
    auditing.CHUNK = CHUNK
    lines = all_alarms(args.clean, args.quiet)
    verdicts = all_verdicts(args.doubtful, args.quiet)
    settings = {"chunk": CHUNK, "replicates": ASKED["n_replicates"], "confidence_level": 0.95}
    results.keep("alarms", settings, lines, verdicts=verdicts)
    if any(line[name] >= MOST for line in lines for name in NAMES):
        raise SystemExit("Some diagnostics raise a false alarm in 2 % of the audits of clean data, or more.")
    if any(line["wrong"] for line in verdicts):
        raise SystemExit("Some definite verdicts are wrong.")


if __name__ == "__main__":
    main()
