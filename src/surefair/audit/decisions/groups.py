"""Which groups are shown, which are compared, and with what."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from surefair.audit.decisions.axes import Words
from surefair.audit.decisions.intake import NO_GROUP
from surefair.audit.decisions.settings import DecisionSettings
from surefair.audit.decisions.tally import DecisionTally
from surefair.names import one_of
from surefair.rows import Groups, IntArray, Levels
from surefair.rows.groups import MAX_GROUPS
from surefair.tables.values import says_unknown


@dataclass(frozen=True, eq=False)
class ShownGroups:
    """Groups in sorted order, which of them are compared, and why others are not.

    Attributes
    ----------
    groups : Groups
    order : ndarray
        Position in the tally of each group.
    notes : tuple of str
        Why each group is not compared; empty where it is.
    """

    groups: Groups
    order: IntArray
    notes: tuple[str, ...]

    @classmethod
    def of(cls, tally: DecisionTally, settings: DecisionSettings) -> ShownGroups:
        """Choose the groups to compare."""
        axes = tally.axes
        columns = [*settings.sensitive]
        columns += [" × ".join(columns)] if settings.intersections else []
        rows = tally.census[0].sum(axis=1)
        levels: dict[str | None, Levels] = {}
        order: list[int] = []
        notes: list[str] = []
        pairs: list[tuple[int, int]] = []
        references = Reference.of(settings, dict(zip(columns, axes.groups, strict=True)))
        for column, words, low in zip(columns, axes.groups, axes.offsets, strict=True):
            present = sorted((word, low + i) for i, word in enumerate(words) if rows[low + i] > 0.0)
            total = sum(rows[i] for _, i in present)
            why = [_why_not(word, rows[i] / total, settings) for word, i in present]
            first = len(order)
            compared = [first + i for i, reason in enumerate(why) if not reason]
            _check_comparable(column, [word for word, _ in present], why, settings)
            at = None
            if column in references.places:
                at = first + _place_of(references.places[column], column, [word for word, _ in present], why)
            pairs += [(a, b) for i, a in enumerate(compared) for b in compared[i + 1 :] if at is None or at in (a, b)]
            levels[column] = Levels(np.array([word for word, _ in present], dtype=np.str_), "group")
            order += [i for _, i in present]
            notes += why
        every = not any(notes) and not references.places
        return cls(Groups(levels, None if every else tuple(pairs)), np.array(order), tuple(notes))


class Reference(NamedTuple):
    """The group of each column with which the others are compared."""

    places: dict[str, str]

    @classmethod
    def of(cls, settings: DecisionSettings, groups: dict[str, Words]) -> Reference:
        """Find the groups that are named as GROUP or COLUMN=GROUP."""
        found: dict[str, str] = {}
        for asked in settings.reference:
            column, _, group = asked.partition("=")
            if column in groups and group:
                where = {column: one_of(group, groups[column], f"group of {column!r}")}
            else:
                where = {name: asked for name, words in groups.items() if asked in words}
            if not where:
                one_of(asked, sorted(word for words in groups.values() for word in words), "reference group")
            if len(where) > 1 or {*where} & {*found}:
                raise ValueError(
                    f"The reference {asked!r} does not say which column it belongs to, or the column has another one. "
                    "Name one reference for each column, as COLUMN=GROUP."
                )
            found |= where
        return cls(found)


def is_unknown(group: str) -> bool:
    """Whether a group says that the group is not known.

    Examples
    --------
    >>> [is_unknown(group) for group in ("(missing)", "Unknown", "f × unknown", "f")]
    [True, True, True, False]
    """
    return any(part == NO_GROUP or says_unknown(part) for part in group.split(" × "))


def _why_not(group: str, share: float, settings: DecisionSettings) -> str:
    """Say why a group is not compared; empty where it is."""
    if settings.unknown != "include" and is_unknown(group):
        if settings.unknown == "refuse":
            raise ValueError(
                f"There is a group {group!r}, and unknown groups are refused. Fill it in, or show unknown groups "
                "(unknown='show', --unknown show)."
            )
        return "unknown"
    return f"less than {100.0 * settings.min_share:g} % of the rows" if share < settings.min_share else ""


def _place_of(reference: str, column: str, words: list[str], why: list[str]) -> int:
    """Place of the reference group among the groups of a column; a group that is not compared cannot be one."""
    reason = why[words.index(reference)] if reference in words else "none of its rows counts"
    if reason:
        raise ValueError(
            f"The reference {reference!r} of {column!r} is not compared: {reason}. Name another group, or let this one "
            "in (unknown, min_share)."
        )
    return words.index(reference)


def _check_comparable(column: str, words: list[str], why: list[str], settings: DecisionSettings) -> None:
    """Refuse a sensitive column with fewer than two groups to compare, or with too many."""
    n = sum(not reason for reason in why)
    if n > MAX_GROUPS:
        raise ValueError(
            f"The sensitive column {column!r} has {n} groups, and at most {MAX_GROUPS} can be compared. Bin numbers, "
            "merge rare values, or compare only large groups (min_share, --min-share)."
        )
    if n < 2 and column in settings.sensitive:
        shown = ", ".join(f"{word!r}{reason and f' ({reason})'}" for word, reason in zip(words, why, strict=True))
        raise ValueError(
            f"The sensitive column {column!r} has fewer than two groups to compare: {shown or 'none'}. Name another "
            "column, or let more groups in (unknown, min_share)."
        )
