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
    graph, count = _room(blocks, len(root)), len(root)
    slack, moved = _loosened(graph)
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
    found = [(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0))]
    nodes = count
    for block in blocks:
        wide = block.proves and len(block.ranks) > 2 * len(block.end)
        found += _through(block, nodes) if wide else _pairs(block)
        nodes += len(block.end) * wide
    row, column, room = (np.concatenate(part) for part in zip(*found, strict=True))
    order = np.lexsort((room, column, row))
    row, column, room = row[order], column[order], room[order]
    first = np.isfinite(room) & (np.diff(row * nodes + column, prepend=-1) != 0)
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


def _loosened(graph: csr_matrix) -> tuple[float, Floats]:
    """A constant that removes every contradiction, within a factor of two of the least; and moves,
    as even as may be, after which no constraint is violated."""
    both = graph.multiply(graph.T.astype(bool)) + graph.T.multiply(graph.astype(bool))
    slack = max(0.0, -float(both.data.min(initial=0.0)) / 2)
    slack = slack + 1.0 if slack else 0.0
    while True:
        loose = csr_matrix((graph.data + slack, graph.indices, graph.indptr), graph.shape)
        forth, back = _potentials(loose), _potentials(loose.T.tocsr())
        if forth is not None and back is not None:
            return slack, (forth - back) / 2
        slack = 2 * slack + 1_000.0


def _potentials(graph: csr_matrix) -> Floats | None:
    """Shortest ways to every node from anywhere, at most 0 (Bellman and Ford's; SciPy's goes over
    all edges once per node); None if a circle is shorter than 0, or ways have very many edges."""
    edges = graph.tocsc()
    column = np.flatnonzero(np.diff(edges.indptr))
    value = np.zeros(graph.shape[0])
    for _ in range(min(graph.shape[0], PASSES) + 1 if len(column) else 0):
        ways = np.minimum.reduceat(value[edges.indices] + edges.data, edges.indptr[column])
        found = np.minimum(value[column], ways)
        if (value[column] - found).max() < ROUNDED_NS:
            return value
        value[column] = found
    return None if len(column) else value
