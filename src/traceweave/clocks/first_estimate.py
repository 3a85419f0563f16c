"""A first estimate of every clock: which ranks share collectives, and lines along the best tree of
them.
"""

from __future__ import annotations

import numpy as np

from traceweave.arrays import Floats, Ints
from traceweave.clocks.matrices import Block, columns_of_ranks
from traceweave.matching.coarse_clocks import fit_line

WIDE = 64
"""Ranks of a group from which on not all pairs are looked at, but each rank beside two that
recorded most, and beside the one before it."""


Tree = list[list[int]]
"""Per rank, those beside it."""


def connect(blocks: list[Block], ranks: int) -> tuple[Ints, Tree]:
    """Component of each rank, by the lowest of its ranks in order, and the trees that connect them
    by pairs that share most instances.
    """
    if not blocks:
        return np.arange(ranks), [[] for _ in range(ranks)]
    pairs = np.unique(np.concatenate([_pairs(block) for block in blocks]), axis=0)
    count = _shared(blocks, pairs, ranks)
    most_first = np.argsort(-count, kind="stable")
    return _spanned(pairs[most_first[count[most_first] > 0]].tolist(), ranks)


def _spanned(pairs: list[list[int]], ranks: int) -> tuple[Ints, Tree]:
    """The component of each rank, and trees of the first pairs that connect them."""
    tree: Tree = [[] for _ in range(ranks)]
    leader = list(range(ranks))

    def lead(rank: int) -> int:
        while leader[rank] != rank:
            leader[rank] = rank = leader[leader[rank]]
        return rank

    for one, other in pairs:
        low, high = sorted((lead(one), lead(other)))
        if low != high:
            leader[high] = low
            tree[one].append(other)
            tree[other].append(one)
    lowest = [lead(rank) for rank in range(ranks)]
    return np.asarray(np.unique(lowest, return_inverse=True)[1]), tree


def _pairs(block: Block) -> Ints:
    """Pairs of a block's ranks, the lower one first, that connect all that are connected."""
    size = len(block.ranks)
    if size <= WIDE:
        columns = np.column_stack(np.triu_indices(size, 1))
    else:
        present = np.isfinite(block.end)
        most = np.argsort(-present.sum(axis=0), kind="stable")[:2]
        every = np.arange(size)
        beside = [np.c_[np.full(size, hub), every] for hub in most]
        # a rank may share nothing with those
        columns = np.concatenate([*beside, np.c_[every[:-1], every[1:]]])
        columns = columns[columns[:, 0] != columns[:, 1]]
    return np.sort(block.ranks[columns], axis=1)


def _shared(blocks: list[Block], pairs: Ints, ranks: int) -> Floats:
    """How many instances each pair shares, over all blocks."""
    count = np.zeros(len(pairs))
    by_first = np.searchsorted(pairs[:, 0], np.arange(ranks + 1))
    column = np.full(ranks, -1)
    for block in blocks:
        column[block.ranks] = np.arange(len(block.ranks))
        edges = [np.arange(by_first[rank], by_first[rank + 1]) for rank in block.ranks]
        mine = np.concatenate(edges)
        mine = mine[column[pairs[mine, 1]] >= 0]
        present = np.isfinite(block.end)
        one, other = column[pairs[mine]].T
        count[mine] += (present[:, one] & present[:, other]).sum(axis=0)
        column[block.ranks] = -1
    return count


def rough_clocks(
    blocks: list[Block], tree: Tree, roots: list[int], middle: Floats
) -> tuple[Floats, Floats]:
    """Offset and drift of every rank by lines through end differences along the tree of the ranks
    that share most.
    """
    ranks = len(middle)
    offset, drift = np.zeros(ranks), np.zeros(ranks)
    columns = [dict(found) for found in columns_of_ranks(blocks, ranks)]
    known = set(roots)
    ahead = list(roots)
    while ahead:
        up = ahead.pop()
        for rank in tree[up]:
            if rank in known:
                continue
            known.add(rank)
            ahead.append(rank)
            at, difference = _differences(blocks, columns[rank], columns[up])
            line = fit_line(at, difference)
            here = line.offset + line.drift * (middle[rank] - line.at)
            on_parent = middle[rank] + here
            offset[rank] = here + offset[up] + drift[up] * (on_parent - middle[up])
            drift[rank] = line.drift + drift[up]
    return offset, drift


def _differences(
    blocks: list[Block], mine: dict[int, int], theirs: dict[int, int]
) -> tuple[Floats, Floats]:
    """Ends of a rank with these columns of blocks, and what has to be added to them to meet those
    of another, in time order."""
    at, difference = [], []
    for number in sorted(mine.keys() & theirs.keys()):
        here, there = (blocks[number].end[:, of[number]] for of in (mine, theirs))
        both = np.isfinite(here) & np.isfinite(there)
        at.append(here[both])
        difference.append(there[both] - here[both])
    ends, found = np.concatenate(at), np.concatenate(difference)
    order = np.argsort(ends, kind="stable")
    return ends[order], found[order]
