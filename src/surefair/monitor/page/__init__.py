"""The status page of a watcher: what it says, section by section, from the content of status.json."""

from __future__ import annotations

from typing import Any

from markupsafe import Markup

from surefair import __version__
from surefair.pages import svg, text
from surefair.pages.bands import Look, bands
from surefair.pages.page import render_page
from surefair.pages.scale import make_scale

REFRESH = 30
"""Seconds after which a browser loads the page again."""

ABOUT = (
    "How differently decisions treat groups, from all decisions so far. The interval holds at all times together, so "
    "you may look as often as you like. This page reloads itself every {seconds} seconds."
)
BADGES = {"within margin": "within", "violates margin": "violates"}  # classes in the style sheet


def render(status: dict[str, Any]) -> str:
    """Write the status as an HTML page; the same status gives the same bytes."""
    ratio = status["settings"]["metric"].endswith("_ratio")
    values = {
        "status": status, "ratio": ratio, "number": _number(ratio), "chart": chart,
        "level": text.percent(status["settings"]["confidence_level"]),
        "badge": BADGES.get(status["verdict"], "undecided"),
    }  # fmt: skip
    return render_page(
        __name__, values, title="Decisions in", subject=status["watch"]["source"],
        about=ABOUT.format(seconds=REFRESH), version=__version__, refresh=REFRESH,
    )  # fmt: skip


def _number(ratio: bool) -> Any:
    return (lambda value: text.fixed(value, 3)) if ratio else text.points


def chart(status: dict[str, Any]) -> Markup:
    """Draw the interval as decisions came in."""
    ratio = status["settings"]["metric"].endswith("_ratio")
    number = _number(ratio)
    margin = status["settings"]["margin"]
    level = text.percent(status["settings"]["confidence_level"])
    looks = [_look(one, number, level) for one in _path(status)]
    looks = [look for look in looks if look.rows**2 >= looks[0].rows * looks[-1].rows]  # the first bands are very wide
    values = [value for look in looks for value in (look.estimate, look.low, look.high)]
    ends: dict[str, Any] = {"ceiling": 1.0} if ratio else {"floor": 0.0, "times": 100.0}
    return bands(
        [looks], make_scale([*values, margin], **ends), description="Unfairness as decisions came in",
        axis="decisions (logarithmic)", unit="ratio" if ratio else "percentage points",
        margin=(margin, f"margin {number(margin)}"),
    )  # fmt: skip


def _path(status: dict[str, Any]) -> list[dict[str, Any]]:
    """Looks on the way, without those that show nothing, and the present one."""
    path = [one for one in status["path"] if not one["reason"]]
    now = status["interval"]
    if now is not None and not now["reason"] and (not path or path[-1]["rows"] < now["n"]):
        path.append({"rows": now["n"]} | {name: now[name] for name in ("estimate", "low", "high")})
    return path


def _look(one: dict[str, Any], number: Any, level: str) -> Look:
    limits = text.span(number(one["low"]), number(one["high"]))
    tip = svg.tip(f"after {text.whole(one['rows'])} decisions", f"unfairness: {number(one['estimate'])}", limits, level)
    return Look(one["rows"], one["estimate"], one["low"], one["high"], tip)
