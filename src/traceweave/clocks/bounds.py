"""What causality proves about clocks, whatever the noise: how far each may be off.

No rank can end a collective before the last rank has started it, nor a receive before its send has.
So errors d of corrections obey d_j - d_i <= end_i - start_j for every two ranks of every instance:
difference constraints, whose tightest consequences are shortest paths.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import dijkstra

from traceweave.arrays import Floats, Ints
from traceweave.clocks.matrices import Block

PASSES = 1_000
ROUNDED_NS = 1e-3
"""Shorter by less is no shorter way."""


@dataclass(frozen=True)
class Bounds:
    """How far, ns, each rank's correction may be off against its root's, either way; inf: open."""

    ahead: Floats
    behind: Floats
    moved: Floats
    """What the correction has to be moved by to contradict nothing."""
    slack_ns: float
    """Added to every constraint because without it they contradict each other."""


def bounds_of(blocks: list[Block], root: Ints) -> Bounds:
    """Return the bounds of ranks against their `root`s; the blocks are on the common clock."""
    graph = _room(blocks, len(root))
    slack = _slack(graph)
    count = len(root)
    moved = np.zeros(graph.shape[0])
    if graph.nnz and graph.data.min() < 0:
        loose = graph.copy()
        loose.data = loose.data + slack
        moved = _moved(loose)
    edges = graph.tocoo()
    room = edges.data + slack + moved[edges.row] - moved[edges.col]
    # a way of length 0 is none to SciPy
    tight = csr_matrix((np.maximum(room, ROUNDED_NS), (edges.row, edges.col)), graph.shape)
    roots, place = np.unique(root, return_inverse=True)
    ahead, behind = (
        np.atleast_2d(dijkstra(way, indices=roots))[place, np.arange(count)]
        for way in (tight, tight.T.tocsr())
    )
    return Bounds(ahead, behind, moved[:count], slack)


def _room(blocks: list[Block], count: int) -> csr_matrix:
    """Edges i -> j of end_i - start_j, the least of all instances; in groups of many ranks and few
    instances by way of a node per instance, the moment at which its last rank began."""
    rows: list[Ints] = []
    columns: list[Ints] = []
    rooms: list[Floats] = []
    nodes = count
    for block in blocks:
        wide = block.proves and len(block.ranks) > 2 * len(block.end)
        for one, other, room in _through(block, nodes) if wide else _pairs(block):
            rows.append(one)
            columns.append(other)
            rooms.append(room)
        nodes += len(block.end) * wide
    if not rows:
        return csr_matrix((count, count))
    row, column = np.concatenate(rows), np.concatenate(columns)
    room = np.concatenate(rooms)
    order = np.lexsort((room, column, row))
    row, column, room = row[order], column[order], room[order]
    first = np.r_[True, (np.diff(row) != 0) | (np.diff(column) != 0)] & np.isfinite(room)
    room = np.where(room[first] == 0, ROUNDED_NS, room[first])
    return csr_matrix((room, (row[first], column[first])), (nodes, nodes))


def _pairs(block: Block) -> list[tuple[Ints, Ints, Floats]]:
    size, found = len(block.ranks), []
    if block.proves:
        for column in range(size):
            room = np.fmin.reduce(block.end - block.start[:, [column]], axis=0)
            other = np.arange(size) != column
            found.append((block.ranks[other], np.full(size - 1, block.ranks[column]), room[other]))
    elif block.sends is not None:
        sender, receiver = np.nanargmax(block.sends, axis=1), np.nanargmin(block.sends, axis=1)
        row = np.arange(len(sender))
        room = block.end[row, receiver] - block.start[row, sender]
        found.append((block.ranks[receiver], block.ranks[sender], room))
    return found


def _through(block: Block, first: int) -> list[tuple[Ints, Ints, Floats]]:
    rows, size = block.end.shape
    node = np.repeat(first + np.arange(rows), size)
    rank = np.tile(block.ranks, rows)
    last = np.fmax.reduce(block.start, axis=1)[:, None]
    end, start = ((block.end - last).ravel(), (last - block.start).ravel())
    return [(rank, node, end), (node, rank, start)]


def _slack(graph: csr_matrix) -> float:
    """A constant that removes every contradiction, within a factor of two of the least."""
    if not graph.nnz or graph.data.min() >= 0:
        return 0.0
    both = graph.multiply(graph.T.astype(bool)) + graph.T.multiply(graph.astype(bool))
    slack = max(0.0, -float(both.data.min(initial=0.0)) / 2)
    slack = slack + 1.0 if slack else 0.0
    while True:
        loose = graph.copy()
        loose.data = loose.data + slack
        if _potentials(loose) is not None:
            return slack
        slack = 2 * slack + 1_000.0


def _potentials(graph: csr_matrix) -> Floats | None:
    """Shortest ways to every node from anywhere, at most 0 (Bellman and Ford's); None if a circle
    is shorter than 0, or ways have very many edges."""
    edges = graph.tocsc()
    column = np.flatnonzero(np.diff(edges.indptr))
    value = np.zeros(graph.shape[0])
    for _ in range(min(graph.shape[0], PASSES) + 1):
        ways = np.minimum.reduceat(value[edges.indices] + edges.data, edges.indptr[column])
        found = np.minimum(value[column], ways)
        if (value[column] - found).max(initial=0.0) < ROUNDED_NS:
            return value
        value[column] = found
    return None


def _moved(graph: csr_matrix) -> Floats:
    """Moves, as even as may be, after which no constraint is violated."""
    forth, back = _potentials(graph), _potentials(graph.T.tocsr())
    if forth is None or back is None:
        raise AssertionError("bounds contradict each other after they were loosened")
    return (forth - back) / 2
