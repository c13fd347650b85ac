"""Numbers and names as a page prints them."""

from __future__ import annotations

import re
from typing import Any

from markupsafe import Markup

UNDEFINED = "not defined"

_INVISIBLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufeff\ufffe\uffff]"
)
"""Control characters, characters that reverse the direction of what follows, and halves of characters."""


def shown(value: Any) -> Any:
    """Prepare a value for a page: None becomes words, and invisible characters become a visible one.

    Examples
    --------
    >>> shown(None), shown("caf" + chr(0x202E) + "e")
    ('not defined', 'caf�e')
    """
    if value is None:
        return UNDEFINED
    if isinstance(value, Markup) or not isinstance(value, str):
        return value
    return _INVISIBLE.sub("\ufffd", value)


def fixed(value: float | None, digits: int) -> str:
    """Write a number with a fixed number of digits after the point; zero has no sign.

    Examples
    --------
    >>> fixed(-0.00001, 3), fixed(-1.25, 2), fixed(None, 2)
    ('0.000', '−1.25', 'not defined')
    """
    if value is None:
        return UNDEFINED
    text = f"{value:.{digits}f}"
    if not float(text):
        text = f"{0:.{digits}f}"
    return text.replace("-", "−")


def points(value: float | None) -> str:
    """Write a share, or a difference between shares, in hundredths.

    Examples
    --------
    >>> points(0.0512)
    '5.12'
    """
    return fixed(None if value is None else 100.0 * value, 2)


def percent(share: float) -> str:
    """Write a share as a percentage, with as many digits as it has.

    Examples
    --------
    >>> percent(0.95), percent(0.995)
    ('95%', '99.5%')
    """
    return f"{100.0 * share:g}%"


def whole(value: float | None, none: str = UNDEFINED) -> str:
    """Write a count, with commas between thousands.

    Examples
    --------
    >>> whole(32561), whole(None, "none")
    ('32,561', 'none')
    """
    return none if value is None else f"{value:,.0f}"


def span(low: str, high: str) -> str:
    """Write the two limits of an interval.

    Examples
    --------
    >>> span("2.41", "7.02")
    '2.41 to 7.02'
    """
    return UNDEFINED if low == high == UNDEFINED else f"{low} to {high}"


def setting(value: Any) -> str:
    """Write the value of a setting.

    Examples
    --------
    >>> setting(["sex", "race"]), setting(None), setting([]), setting(True), setting(0.05)
    ('sex, race', 'not given', 'none', 'yes', '0.05')
    """
    if value is None:
        return "not given"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict):
        return "; ".join(f"{name}: {setting(one)}" for name, one in value.items()) or "none"
    if isinstance(value, list | tuple):
        return ", ".join(map(setting, value)) or "none"
    return f"{value:g}" if isinstance(value, float) else str(value)


def words(name: str) -> str:
    """Turn a name from the code into words.

    Examples
    --------
    >>> words("false_positive_rate")
    'False positive rate'
    """
    return name.replace("_", " ").capitalize()
