"""What is judged in an audit: metrics, their margins, and the confidence level."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from numbers import Integral, Real
from typing import Any

from surefair.audit.about import NAMES, check_about
from surefair.inference.limits import check_level
from surefair.inference.metric import RATIO, any_metric

Margin = float | Mapping[str, float] | None


@dataclass(frozen=True, kw_only=True)
class Judging:
    """What is judged in an audit, and how sure it must be.

    Attributes
    ----------
    metric : tuple of str
        Metrics that get a verdict; several are judged together.
    margin : float, dict of str to float, or None
        Largest acceptable gap; for ratios, the smallest acceptable ratio. One for all metrics, or one for each by name.
    confidence_level : float
    n_replicates : int
    random_state : int
    shard_rows : int or None
        Smallest number of rows in a shard, to read a folder of Parquet files in shards; by default the folder is read
        as one stream.
    policy : dict or None
        The policy file that these settings come from: its name, its SHA-256, and what it says.
    title, purpose, author, date : str or None
        What heads the report.
    """

    metric: tuple[str, ...] = ()
    margin: Margin = None
    confidence_level: float = 0.95
    n_replicates: int = 200
    random_state: int = 0
    shard_rows: int | None = None
    policy: dict[str, Any] | None = None
    title: str | None = None
    purpose: str | None = None
    author: str | None = None
    date: str | None = None

    def _check_judging(self) -> None:
        """Check metrics, margins and numbers, and keep them as plain values."""
        metrics = (self.metric,) if isinstance(self.metric, str) else tuple(dict.fromkeys(self.metric))
        if not metrics and isinstance(self.margin, Mapping):
            metrics = tuple(self.margin)
        for metric in metrics:
            any_metric(metric)
        object.__setattr__(self, "metric", metrics)
        self._check_margin()
        check_level(self.confidence_level)
        self._check_whole("n_replicates", 2)
        self._check_whole("random_state", 0, 2**32 - 1)
        self._check_whole("max_bad_rows", 0)
        if self.shard_rows is not None:
            self._check_whole("shard_rows", 1, optional=True)
        check_about({name: getattr(self, name) for name in NAMES})

    def _check_margin(self) -> None:
        margin = self.margin
        if isinstance(margin, Mapping):
            for metric in (*margin, *self.judged):
                any_metric(metric)
                if metric not in margin or metric not in self.judged:
                    raise ValueError(
                        f"margin must have one entry for each metric that is judged ({', '.join(self.judged)}); "
                        f"received {', '.join(margin) or 'none'}."
                    )
            object.__setattr__(self, "margin", {metric: margin[metric] for metric in self.judged})
        elif margin is not None and len({metric.endswith(RATIO) for metric in self.judged}) > 1:
            raise ValueError(
                f"One margin cannot apply to differences and ratios; received {', '.join(self.judged)}. Give each "
                f"metric its own margin (margin={{'{self.judged[0]}': ...}}, --margin {self.judged[0]}=...)."
            )
        for value in self.margins.values():
            if not (isinstance(value, Real) and not isinstance(value, bool) and 0.0 < float(value) < 1.0):
                raise ValueError(
                    f"margin must lie strictly between 0 and 1, for example 0.05 for 5 percentage points; "
                    f"received {value!r}."
                )

    def _check_whole(self, name: str, least: int, most: int | None = None, optional: bool = False) -> None:
        """Refuse what is not a whole number within the limits, and keep a Python int, which JSON can hold."""
        value = getattr(self, name)
        whole = isinstance(value, Integral) and not isinstance(value, bool)
        if not (whole and least <= value and (most is None or value <= most)):
            allowed = f"{least} or larger" if most is None else f"from {least} to {most:,}"
            none = "None or " if optional else ""
            raise ValueError(f"{name} must be {none}a whole number, {allowed}; received {value!r}.")
        object.__setattr__(self, name, int(value))

    @property
    def judged(self) -> tuple[str, ...]:
        """Metrics that get a verdict."""
        raise NotImplementedError

    @property
    def margins(self) -> dict[str, float]:
        """Margin of each metric that gets a verdict; empty if no margin was given.

        Examples
        --------
        >>> from surefair.audit.settings import AuditSettings
        >>> AuditSettings(label="income", sensitive="sex", margin=0.05).margins
        {'demographic_parity': 0.05}
        """
        if self.margin is None:
            return {}
        return dict(self.margin) if isinstance(self.margin, Mapping) else dict.fromkeys(self.judged, self.margin)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON."""
        return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}
