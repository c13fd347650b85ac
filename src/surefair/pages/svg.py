"""Elements, shapes and labels of charts.

Charts are plain SVG text, the same bytes everywhere. Lengths are CSS pixels with one decimal. Colours come from the
page's style sheet, which has light, dark and print versions; series differ in shape, too. A reader can point at every
mark, or reach it by keyboard, to see its value.
"""

from __future__ import annotations

from typing import Any
from unicodedata import combining, east_asian_width

from markupsafe import Markup, escape

from surefair.pages.text import fixed, shown

HALF = 400  # width of a chart that stands beside another
WIDE = 820  # width of a chart that stands alone


def element(tag: str, *content: Any, **attributes: Any) -> Markup:
    """Make an element; content and attributes are escaped, and numbers get one decimal.

    Examples
    --------
    >>> print(element("text", "a < b", x=1, class_="label", data_tip='"quoted"'))
    <text x="1.0" class="label" data-tip="&#34;quoted&#34;">a &lt; b</text>
    """
    written = Markup("").join(
        Markup(' {}="{}"').format(name.rstrip("_").replace("_", "-"), _attribute(value))
        for name, value in attributes.items()
        if value is not None
    )
    inner = Markup("").join(escape(shown(part)) for part in content)
    return Markup("<{tag}{written}>{inner}</{tag}>").format(tag=tag, written=written, inner=inner)


def _attribute(value: Any) -> Any:
    return fixed(value, 1).replace("−", "-") if isinstance(value, int | float) else shown(value)


def label(words: str, x: float, y: float, kind: str, anchor: str = "start") -> Markup:
    """Write words at a place; ``kind`` is their class in the style sheet."""
    return element("text", words, x=x, y=y, class_=kind, text_anchor=None if anchor == "start" else anchor)


def line(x1: float, y1: float, x2: float, y2: float, kind: str) -> Markup:
    """Draw a straight line."""
    return element("line", x1=x1, y1=y1, x2=x2, y2=y2, class_=kind)


def dot(series: int, x: float, y: float) -> Markup:
    """Draw an estimate: a diamond for series 1, a disc for the others."""
    if series != 1:
        return element("circle", cx=x, cy=y, r=4, class_="dot")
    corners = " ".join(f"{x + a:.1f},{y + b:.1f}" for a, b in ((-5, 0), (0, -5), (5, 0), (0, 5)))
    return element("polygon", points=corners, class_="dot")


def mark(tip: str, series: int, *shapes: Markup) -> Markup:
    """Group shapes that show ``tip`` when a reader points at them or reaches them by keyboard."""
    title = element("title", tip)
    spoken = {"tabindex": "0", "role": "img", "aria_label": tip, "data_tip": tip}
    return element("g", title, *shapes, class_=f"mark series{series}", **spoken)


def chart(width: float, height: float, description: str, *content: Markup) -> Markup:
    """Put shapes on a canvas; ``description`` is for readers who cannot see it."""
    box = f"0 0 {width:.0f} {height:.0f}"
    kind = "chart wide" if width == WIDE else "chart"
    return element("svg", *content, class_=kind, viewBox=box, role="group", aria_label=description)


def key(series: int) -> Markup:
    """Draw the symbol of a series for a legend."""
    symbol = (line(1, 8, 25, 8, "reach"), dot(series, 13, 8))
    return element("svg", *symbol, class_=f"key series{series}", viewBox="0 0 26 16", aria_hidden="true")


def key_margin() -> Markup:
    """Draw the line of the margin for a legend."""
    return element("svg", line(13, 0, 13, 16, "margin"), class_="key", viewBox="0 0 26 16", aria_hidden="true")


def tip(head: str, number: str, limits: str, level: str, more: str = "") -> str:
    """Write what a mark says: what it is, its estimate, its interval at a confidence level, and anything else."""
    return "\n".join(part for part in (head, number, f"{level} interval: {limits}", more) if part)


def shorten(words: str, room: float) -> str:
    """Cut a label to a width, in units of its font size, and end it with an ellipsis.

    Examples
    --------
    >>> shorten("occupation = Exec-managerial", 9.0)
    'occupation = Ex…'
    """
    words = " ".join(str(words).split())
    if _width(words) <= room:
        return words
    while words and _width(words) > room - 1.0:
        words = words[:-1]
    return words.rstrip() + "…"


def _width(words: str) -> float:
    """Approximate width of a label in units of its font size."""
    return sum(map(_letter_width, words))


def _letter_width(letter: str) -> float:
    if combining(letter):
        return 0.0
    if east_asian_width(letter) in "WF":
        return 1.0
    if letter in "iljtfI.,;:'|!()[] ":
        return 0.32
    if letter in "mwMW@%—":
        return 0.86
    return 0.68 if letter.isupper() or letter > "\u0500" else 0.56
