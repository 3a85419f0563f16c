"""Which unknowns of clocks hang together most: those of ranks that small groups tie."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from traceweave.arrays import Ints

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

MOST = 64
"""Clocks of a cluster."""


def cluster_clocks(groups: Sequence[Ints], clocks: int) -> Ints:
    """Return the number of each clock's cluster; `groups` are clocks that hang together, where
    small ones come first.

    What no group ties joins the clocks beside it.
    """
    leader = np.arange(clocks)
    members = [[clock] for clock in range(clocks)]

    def join(found: list[int]) -> None:
        if sum(len(members[one]) for one in found) > MOST:
            return
        first, *others = found
        for other in others:
            leader[members[other]] = first
            members[first] += members[other]
            members[other] = []

    for group in groups:
        if len(group) <= MOST:
            join(np.unique(leader[group]).tolist())
    whole: list[int] = []
    for one in np.unique(leader).tolist():
        if sum(len(members[w]) for w in whole) + len(members[one]) > MOST:
            join(whole)
            whole = []
        whole.append(one)
    join(whole)
    return np.asarray(np.unique(leader, return_inverse=True)[1], dtype=np.int64)


def modes_of(cluster: Ints, offsets: int, moving: Ints, waves: int) -> csr_matrix:
    """Return the unknowns (rows) that each mode moves: per cluster, all offsets and all drifts
    alike; each unknown of a wave alone.

    `cluster` has -1 for waves; `moving` lists the places of drifts.
    """
    from scipy.sparse import csr_matrix  # slow to import, and few runs need it

    count = int(cluster.max(initial=-1)) + 1
    places = np.arange(len(cluster))
    rows = [places[:offsets], moving, places[len(cluster) - waves :]]
    columns = [cluster[:offsets], count + cluster[moving], 2 * count + np.arange(waves)]
    row, column = np.concatenate(rows), np.concatenate(columns)
    used, column = np.unique(column, return_inverse=True)
    return csr_matrix((np.ones(len(row)), (row, column)), (len(cluster), len(used)))
