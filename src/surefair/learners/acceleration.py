"""Fixed points of a step, for many columns at once, by Anderson's acceleration.

Newton steps with the Hessian of the fit lead each replicate to its own optimum. They converge slowly, or not at all,
where its weights change the Hessian a lot, which is often so in a few directions only: those of columns that vary in
few rows. From its last steps the acceleration learns how such directions respond (Walker and Ni, 2011).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from surefair.rows import FloatArray, sum_in_order

ROUNDS, PER_NUMBER = 20, 0.2  # steps, at most, and more of them for each number that counts
DEPTH = 6  # steps that are remembered
WORSE = 4.0  # factor by which steps may grow before a column begins again where they were shortest
LOOSE = 30.0  # factor by which the last steps may be longer than is short enough
RIDGE = 1e-12  # of the least squares, relative


def fixed_points(
    step: Callable[[FloatArray], FloatArray], start: FloatArray, n_measured: int, enough: float
) -> tuple[FloatArray, NDArray[np.bool_]]:
    """Find x = step(x) for each column; columns do not influence each other.

    Parameters
    ----------
    step : callable
        Takes and returns an array of shape (N, R).
    start : ndarray of shape (N, R)
    n_measured : int
        Rows of the array that count for the length of a step.
    enough : float
        Length of a step that is short enough.

    Returns
    -------
    found : ndarray of shape (N, R)
        Where there is no fixed point, the point with the shortest step.
    settled : ndarray of shape (R,)
        Whether the last step of each column is short enough, or nearly so.

    Examples
    --------
    >>> slow = np.array([[0.9], [-1.5]])  # plain steps would be slow, or diverge
    >>> found, settled = fixed_points(lambda x: slow * x + 1.0, np.zeros((2, 1)), 2, 1e-8)
    >>> found[:, 0].round(6), settled
    (array([10. ,  0.4]), array([ True]))
    """
    N, R = start.shape
    x = found = start
    settled = np.zeros(R, dtype=bool)
    shortest = np.full(R, np.inf)
    moves, images = np.zeros((DEPTH, n_measured, R)), np.zeros((DEPTH, N, R))  # changes of steps and of their ends
    gram = np.zeros((DEPTH, DEPTH, R))  # products of moves
    begins = np.ones(R, dtype=bool)  # columns without a step to compare with
    before = start, start
    for number in range(ROUNDS + int(PER_NUMBER * n_measured)):
        with np.errstate(over="ignore", invalid="ignore"):  # a column may run away, and begins again then
            end = step(x)
            move = end - x
        length = np.sqrt(sum_in_order(move[:n_measured] ** 2))
        length[~np.isfinite(length)] = np.inf
        better = ~settled & (length < shortest)
        found = np.where(better, end, found)
        shortest = np.where(better, length, shortest)
        settled |= length < enough
        if settled.all():
            break
        place = number % DEPTH
        moves[place] = np.where(begins, 0.0, (move - before[0])[:n_measured])
        images[place] = np.where(begins, 0.0, end - before[1])
        begins = length > WORSE * shortest
        moves[..., begins], images[..., begins], gram[..., begins] = 0.0, 0.0, 0.0
        gram[place] = gram[:, place] = [sum_in_order(moves[place] * one) for one in moves]
        right = np.array([sum_in_order(one * move[:n_measured]) for one in moves])
        before = move, end
        x = np.where(begins | settled, found, end - _mixed(gram, right, images))
    return found, shortest < LOOSE * enough


def _mixed(gram: FloatArray, right: FloatArray, images: FloatArray) -> FloatArray:
    """What to take off the ends of steps so that, by what earlier steps have changed, nothing would move.

    ``gram`` has the products of earlier changes with each other, ``right`` those with the last step.
    """
    each = gram.transpose(2, 0, 1)
    size = np.trace(each, axis1=1, axis2=2)[:, None, None]
    share = np.linalg.solve(each + (RIDGE * size + 1e-300) * np.eye(DEPTH), right.T[..., None])[..., 0]
    return np.asarray(np.sum(share.T[:, None] * images, axis=0))
