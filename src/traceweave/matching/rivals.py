"""Ways in which ranks taken for one group may be several."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from traceweave.arrays import Floats, Ints
from traceweave.matching.ties import Bundle

SAMPLE = 400
"""Calls that tell how near ranks are to each other."""


def rivals(whole: Bundle) -> Iterator[list[Ints]]:
    """Ways in which the columns of a bundle, in the order of ranks, may be several groups, as the
    ends themselves suggest; beside those in which groups lie over ranks (job.layouts)."""
    if len(whole.ranks) > 2:
        for members in _clusters(_distances(whole)):
            yield [members, np.setdiff1d(np.arange(len(whole.ranks)), members)]


def _distances(whole: Bundle) -> Floats:
    """How far the ends of every two columns scatter, ns."""
    rows = np.linspace(0, len(whole.end) - 1, min(len(whole.end), SAMPLE)).astype(np.int64)
    end = whole.end[rows]
    apart = np.zeros((end.shape[1],) * 2)
    for column in range(end.shape[1]):
        # neighbours in time, so that slow clocks and waiting groups do not count
        steps = np.abs(np.diff(end - end[:, column : column + 1], axis=0))
        known = np.isfinite(steps).any(axis=0)
        apart[column, known] = np.nanmedian(steps[:, known], axis=0)
        apart[column, ~known] = np.inf
    return np.minimum(apart, apart.T)


def _clusters(distance: Floats) -> Iterator[Ints]:
    """Every column alone, and every larger cluster but the whole, nearest joined first."""
    from scipy.cluster.hierarchy import linkage  # slow to import, and few runs need it

    far = np.nan_to_num(distance[np.triu_indices(len(distance), 1)], posinf=1e18)
    count = len(distance)
    inside = {n: np.array([n]) for n in range(count)}
    yield from inside.values()
    for number, (one, other, _, _) in enumerate(linkage(far, "average")[:-1]):
        inside[count + number] = np.sort(np.r_[inside[int(one)], inside[int(other)]])
        if 2 <= len(inside[count + number]) <= count - 2:
            yield inside[count + number]
