"""Drawing pieces that the displays and the experiments share.

Functions import matplotlib when they draw, because it takes a second and wants a folder that it can write to.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, Self

import narwhals as nw
import numpy as np
from scipy.stats import norm

from surefair.rows import FloatArray
from surefair.storage.atomic import written_whole

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7")  # colour-blind readers can tell them apart (Okabe and Ito)
MARKERS = ("o", "s", "^", "D")
LEGEND: Any = {"framealpha": 0.85, "edgecolor": "none"}  # readable over lines


class Display(ABC):
    """What every display has: ``plot``, and afterwards the axes and figure that it drew on.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    """

    ax_: Any
    figure_: Any

    @abstractmethod
    def plot(self, ax: Any = None) -> Self:
        """Draw on these axes, or on a new figure."""

    def _finish(self, ax: Any) -> Self:
        """Remove the frame's top and right sides and remember the axes."""
        ax.spines[["top", "right"]].set_visible(False)
        self.ax_ = ax
        self.figure_ = ax.figure
        return self


def new_axes(width: float = 7.0, height: float = 4.2) -> Any:
    """Axes of a new figure; sizes are in inches."""
    import matplotlib.pyplot as plt

    return plt.subplots(figsize=(width, height), layout="constrained")[1]


def panels(n: int, columns: int = 1) -> tuple[Any, Any]:
    """Figure with n panels, stacked or in several columns, and its axes."""
    import matplotlib.pyplot as plt

    size = (7.0, 4.2 if n == 1 else 3.2 * n) if columns == 1 else (5.2 * columns, 3.6 * (n // columns))
    return plt.subplots(n // columns, columns, figsize=size, layout="constrained")


def save(figure: Any, path: Path) -> None:
    """Write a figure as PNG and SVG, then close it; equal figures give equal bytes."""
    import matplotlib.pyplot as plt

    with plt.rc_context({"svg.hashsalt": path.name}):
        for kind, options in (("png", {"dpi": 80}), ("svg", {"metadata": {"Date": None}})):
            with written_whole(path.with_name(f"{path.name}.{kind}")) as file:
                figure.savefig(file, format=kind, **options)
    plt.close(figure)


def count_rows(ax: Any) -> None:
    """Make the x axis a logarithmic count of training rows with labels such as 1,000, 2,000 and 5,000."""
    ax.set(xscale="log", xlabel="training rows")
    ax.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    ax.xaxis.set_minor_formatter(lambda value, _: f"{value:,.0f}" if f"{value:.0e}"[0] in "25" else "")


def draw_band(ax: Any, rows: Any, low: Any, high: Any, colour: str, label: str) -> None:
    """Draw lower and upper limits along a stream as a band."""
    ax.fill_between(rows, low, high, color=colour, alpha=0.25, linewidth=0, label=label)


def draw_density(
    ax: Any,
    values: FloatArray,
    colour: str,
    style: str,
    label: str,
    bandwidth: float,
    limits: bool = False,
    floor: float | None = None,
    method: str = "linear",
) -> None:
    """Draw a normal kernel density estimate of some values.

    Parameters
    ----------
    ax : matplotlib Axes
    values : ndarray of shape (n,)
    colour, style, label : str
        Colour, line style and legend entry of the curve.
    bandwidth : float
        Standard deviation of the kernel.
    limits : bool
        Also draw the 2.5 % and 97.5 % quantiles as dashed vertical lines.
    floor : float, optional
        Smallest possible value; the estimate is reflected there.
    method : str
        How NumPy computes the quantiles.
    """
    bandwidth = bandwidth or 1e-6
    at = np.linspace(values.min() - 3.0 * bandwidth, values.max() + 3.0 * bandwidth, 400)
    at = at if floor is None else at[at >= floor]
    curve = norm.pdf(at[:, None], values, bandwidth).mean(axis=1)
    if floor is not None:
        curve += norm.pdf(at[:, None], 2.0 * floor - values, bandwidth).mean(axis=1)
    ax.plot(at, curve, style, color=colour, label=label)
    for end in np.quantile(values, (0.025, 0.975), method=method) if limits else ():  # type: ignore[call-overload]
        ax.axvline(end, color=colour, linewidth=1.0, linestyle="--")


def draw_dot(ax: Any, at: float, low: float, high: float, y: float, colour: str, filled: bool, **more: Any) -> None:
    """Draw a dot on a horizontal line from low to high, at height y."""
    ax.plot([low, high], [y, y], color=colour)
    style = {"linestyle": "", "marker": "o", "markersize": 5, "color": colour} | more
    ax.plot([at], [y], markerfacecolor=colour if filled else "white", **style)


def records(table: Any) -> list[dict[str, Any]]:
    """Rows of a data frame from any library, or of a list, as dictionaries."""
    return table if isinstance(table, list) else nw.from_native(table, eager_only=True).rows(named=True)


def percent(share: float) -> str:
    """Return a share as text.

    Examples
    --------
    >>> percent(0.95), percent(0.995)
    ('95 %', '99.5 %')
    """
    return f"{100.0 * share:g} %"
