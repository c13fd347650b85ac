"""The result of a calibration: how often intervals contained the truth, as a table, a sentence and JSON."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from typing import Any

import narwhals as nw
import numpy as np

from surefair.inference.interval import plain
from surefair.names import counted
from surefair.pages.summary import summary
from surefair.storage.atomic import written_whole


@dataclass(frozen=True, eq=False, repr=False)
class Calibration:
    """How often intervals contained the truth, over repetitions on a known population.

    Attributes
    ----------
    table : data frame
        One row per quantity, the gap by each source and then each coefficient; for audits, the gap of each model:

        - quantity, kind ("gap" or "coefficient"), source;
        - truth: what the intervals should contain, averaged over the repetitions;
        - coverage: share of the repetitions in which they did, with its exact binomial interval of level 95 %,
          coverage_low to coverage_high, which shows what chance leaves open after so many repetitions;
        - width and score: mean width and mean interval score of the intervals, without those that are open on a side
          (for a ratio whose rate is 0);
        - bias: mean of estimate minus truth, divided by its standard deviation;
        - spread_ratio: bootstrap standard deviation divided by that of estimate minus truth; undefined for the largest
          of several gaps;
        - undefined: repetitions that are left out because gap or interval was undefined.
    settings : dict
        What was repeated, and how often.
    warned : dict of str to float
        Share of the repetitions in which each diagnostic was found, by its name.
    errors, widths : ndarray, shape (repetitions, rows of the table)
        Estimate minus truth, and width of the interval, of each repetition; NaN where undefined. Calls with the same
        population, sizes and ``random_state`` draw the same rows, so two ways to fit them can be compared in pairs.
    """

    table: Any
    settings: dict[str, Any]
    warned: dict[str, float]
    errors: Any = None
    widths: Any = None

    def __repr__(self) -> str:
        return f"<Calibration: {self.settings['repetitions']:,} repetitions of {self.settings['n_rows']:,} rows>"

    def __str__(self) -> str:
        return self.sentence

    def _repr_html_(self) -> str:
        rows = self.to_dict()["table"]
        table = {f"{row['quantity']} ({row['source']})": _coverage(row, self.settings["repetitions"]) for row in rows}
        return summary(self.sentence, table)

    def to_frame(self) -> Any:
        """Return the table."""
        return self.table

    @property
    def sentence(self) -> str:
        """The result in words."""
        return _sentence(self.to_dict()["table"], self.settings, self.warned)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON; an undefined number becomes None."""
        rows = nw.from_native(self.table, eager_only=True).rows(named=True)
        table = [{name: plain(value) for name, value in row.items()} for row in rows]
        words = _sentence(table, self.settings, self.warned)
        return {"sentence": words, "settings": self.settings, "warned": self.warned, "table": table}

    def to_json(self, path: str | os.PathLike[str]) -> None:
        """Write ``to_dict()`` to a file; an older file stays until the new one is complete."""
        text = json.dumps(self.to_dict(), indent=1, allow_nan=False) + "\n"
        with written_whole(path) as file:
            file.write(text.encode())


def _sentence(table: list[dict[str, Any]], settings: dict[str, Any], warned: dict[str, float]) -> str:
    """The result in words."""
    level, times = f"{100.0 * settings['confidence_level']:g} %", settings["repetitions"]
    study = f"{counted(times, 'repetition')} of {settings['n_rows']:,} rows"
    drawn = "everything drawn anew" if settings["everything_redrawn"] else "given one constraint set"
    gaps = [row for row in table if row["kind"] == "gap"]
    first, *others = sorted(gaps, key=lambda row: row["source"] != "total")  # the default comes first
    one = len({row["quantity"] for row in gaps}) == 1
    text = [
        f"Nominal {level} intervals covered the {first['quantity']} {_coverage(first, times)} of the time "
        f"(source {first['source']}, {study}, {drawn}, ± one standard error)"
        + "".join(f"; {'' if one else row['quantity'] + ', '}{row['source']} {_coverage(row, times)}" for row in others)
        + "."
    ]
    coefs = [row for row in table if row["kind"] == "coefficient" and row["coverage"] is not None]
    if coefs:
        least = min(coefs, key=lambda row: row["coverage"])
        mean = 100.0 * float(np.mean([row["coverage"] for row in coefs]))
        text.append(
            f"Coefficients were covered {mean:.1f} % of the time on average; the least often covered is "
            f"{least['quantity']}, {100.0 * least['coverage']:.1f} %."
        )
    undefined = max((row["undefined"] for row in table), default=0)
    if undefined:
        text.append(
            f"Up to {counted(undefined, 'repetition is', 'repetitions are')} left out because something was undefined."
        )
    if settings.get("refused"):
        share = 100.0 * settings["refused"]
        text.append(f"{share:.0f} % of the audits were refused, for example: {settings['refused_because']}")
    if warned:
        listed = ", ".join(f"{name} in {100.0 * share:.0f} %" for name, share in warned.items())
        text.append(f"Diagnostics, by share of the repetitions: {listed}.")
    return " ".join(text)


def _coverage(row: dict[str, Any], repetitions: int) -> str:
    """Write the coverage of a row with its standard error, which is not 0 even if all or none were covered."""
    if row["coverage"] is None:
        return "(undefined)"
    n = repetitions - row["undefined"]
    share = (n * row["coverage"] + 1.0) / (n + 2.0)
    error = np.sqrt(share * (1.0 - share) / n)
    return f"{100.0 * row['coverage']:.1f} % ± {100.0 * error:.1f}"
