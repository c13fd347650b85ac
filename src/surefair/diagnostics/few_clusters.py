"""Intervals for rows in clusters need enough clusters in every group."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from surefair.diagnostics._diagnostic import Diagnostic, FloatArray, first_few

FEW = 10  # clusters of a group


class FewClusters(Diagnostic):
    """A group has few clusters, so its limits rest on few independent units and are wide."""

    assumes = "There are enough clusters in every group."
    advice = f"Pass rows of more clusters ({FEW} of each group), or merge small groups."
    command_line_advice = "Use rows of more clusters, or merge small groups."


DIAGNOSTIC = FewClusters


def check(clusters: FloatArray, names: Sequence[str], rates: Sequence[str]) -> list[Diagnostic]:
    """Check the number of clusters of each group.

    Parameters
    ----------
    clusters : ndarray of shape (rates, groups)
        Clusters with a row that enters each rate.
    names : sequence of str
        The groups in words.
    rates : sequence of str
        Names of the rates.

    Examples
    --------
    >>> [one.message for one in check(np.array([[40.0, 4.0]]), ["group 'a'", "group 'b'"], ["accuracy"])]
    ["Few clusters enter a rate: group 'b' has 4 in accuracy. Limits use Student's t law, which keeps the confidence \
level but makes them wide."]
    """
    small = [f"{names[g]} has {int(clusters[j, g])} in {rates[j]}" for j, g in np.argwhere(clusters < FEW)]
    if not small:
        return []
    message = f"Few clusters enter a rate: {first_few(small)}."
    message += " Limits use Student's t law, which keeps the confidence level but makes them wide."
    if clusters.min() < 2.0:
        message += " Limits of a group with fewer than two clusters are the whole range."
    return [FewClusters(message, clusters.min(), FEW)]
