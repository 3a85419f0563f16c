"""A first estimate of every clock: which ranks share collectives, and lines along the best tree of
them.
"""

from __future__ import annotations

import numpy as np

from traceweave.arrays import Floats, Ints
from traceweave.clocks.matrices import Block
from traceweave.matching.coarse_clocks import fit_line


def connect(blocks: list[Block], ranks: int) -> tuple[Ints, Floats]:
    """Component of each rank, and how many instances each two ranks share."""
    shared = np.zeros((ranks, ranks))
    for block in blocks:
        present = np.isfinite(block.end).astype(np.float64)
        shared[np.ix_(block.ranks, block.ranks)] += present.T @ present
    np.fill_diagonal(shared, 0.0)
    if not shared.any():
        return np.arange(ranks), shared
    # slow to import, and a run of one rank has no use for it
    from scipy.sparse import coo_matrix
    from scipy.sparse.csgraph import connected_components

    return np.asarray(connected_components(coo_matrix(shared), directed=False)[1]), shared


def rough_clocks(
    blocks: list[Block], shared: Floats, roots: list[int], middle: Floats
) -> tuple[Floats, Floats]:
    """Offset and drift of every rank by lines through end differences along the tree of the ranks
    that share most.
    """
    ranks = len(shared)
    if not shared.any():
        return np.zeros(ranks), np.zeros(ranks)
    from scipy.sparse import coo_matrix
    from scipy.sparse.csgraph import breadth_first_order, minimum_spanning_tree

    cost = np.where(shared > 0, 1.0 / np.maximum(shared, 1.0), 0.0)
    tree = minimum_spanning_tree(coo_matrix(cost))
    offset, drift = np.zeros(ranks), np.zeros(ranks)
    for root in roots:
        order, parent = breadth_first_order(tree, root, directed=False)
        for rank in order[1:]:
            up = int(parent[rank])
            at, difference = _differences(blocks, int(rank), up)
            line = fit_line(at, difference)
            here = line.offset + line.drift * (middle[rank] - line.at)
            on_parent = middle[rank] + here
            offset[rank] = here + offset[up] + drift[up] * (on_parent - middle[up])
            drift[rank] = line.drift + drift[up]
    return offset, drift


def _differences(blocks: list[Block], rank: int, other: int) -> tuple[Floats, Floats]:
    """Ends of `rank`, and what has to be added to them to meet those of `other`, in time order."""
    at, difference = [], []
    for block in blocks:
        i, j = np.flatnonzero(block.ranks == rank), np.flatnonzero(block.ranks == other)
        if len(i) and len(j):
            mine, theirs = block.end[:, i[0]], block.end[:, j[0]]
            both = np.isfinite(mine) & np.isfinite(theirs)
            at.append(mine[both])
            difference.append(theirs[both] - mine[both])
    ends, found = np.concatenate(at), np.concatenate(difference)
    order = np.argsort(ends, kind="stable")
    return ends[order], found[order]
