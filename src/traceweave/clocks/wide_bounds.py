"""What causality proves about the clocks of many ranks: bounds against reference clocks alone.

The same as bounds.py, which has a matrix of all pairs and takes ranks³. Here orders are edges of a
graph: between two ranks, or, in large groups, from a rank to the moment an instance was under way
everywhere and from there to a rank. Shortest paths from the references cost a few passes over the
edges; contradictions are looked for only where an order is violated.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from traceweave.arrays import Floats, Ints
from traceweave.clocks.bounds import Bounds, close, pairwise
from traceweave.clocks.matrices import Block, columns_of_ranks

ROUNDED_NS = 1e-3
"""Shorter by less is no shorter way."""
LOOK = 4
"""Passes after which contradictions are looked for."""
MOST = 1_024
"""Ranks whose conflicts are resolved one after the other."""


@dataclass(frozen=True)
class WideBounds:
    """Bounds of every rank against the root of its component, ns; inf if nothing bounds it."""

    ahead: Floats
    """Largest o_rank - o_root."""
    behind: Floats
    """Largest o_root - o_rank."""
    slack_ns: float
    _blocks: list[Block]
    _of_rank: list[list[tuple[int, int]]]
    """Blocks and columns of each rank."""
    _below: Floats
    _above: Floats

    def against(self, rank: int, root: int) -> tuple[float, float]:
        """Return the largest o_rank - o_root and o_root - o_rank."""
        return float(self.ahead[rank]), float(self.behind[rank])

    def within(self, members: list[int]) -> Floats:
        """Return the bounds between ranks that their own calls prove."""
        return self._among(members, None).upper

    def moved(self, order: list[int]) -> Floats:
        """Return corrections of 0 moved, in `order`, as little as needed to obey every bound.

        Ranks that no order forbids to stay where they are do not take part; if more than MOST do,
        each of them is put as far back as the others ask for.
        """
        involved = (self._below < 0) | (self._above > 0)
        moved = np.zeros(len(involved))
        if involved.sum() > MOST:
            return self._below
        members = [rank for rank in order if involved[rank]]
        if members:
            found = self._among(members, self.slack_ns)
            moved[members] = found.moved(list(range(len(members))))
        return moved

    def _among(self, members: list[int], slack: float | None) -> Bounds:
        """Bounds between some ranks, by their place among them."""
        columns: dict[int, list[tuple[int, int]]] = {}
        for place, rank in enumerate(members):
            for block, column in self._of_rank[rank]:
                columns.setdefault(block, []).append((column, place))
        few = [
            self._blocks[block].of_columns(*np.array(found).T)
            for block, found in columns.items()
            if len(found) > 1
        ]
        return close(pairwise(few, len(members)), slack)


def bound_widely(blocks: list[Block], ranks: int, roots: list[int]) -> WideBounds:
    """Return the bounds of all ranks against the roots of their components."""
    edges = _Edges.of(blocks, ranks)
    slack = edges.least_slack()
    below, above = (edges.shortest(np.zeros(ranks), back, slack) for back in (False, True))
    start = np.full(ranks, np.inf)
    start[roots] = 0.0
    ahead, behind = (edges.shortest(start, back, slack) for back in (False, True))
    if below is None or above is None or ahead is None or behind is None:
        raise AssertionError("bounds contradict each other after they were loosened")
    of_rank = columns_of_ranks(blocks, ranks)
    return WideBounds(ahead, behind, slack, blocks, of_rank, below, -above)


@dataclass(frozen=True)
class _Edges:
    """o_earlier <= o_later + room; nodes are ranks, then instances."""

    earlier: Ints
    later: Ints
    room: Floats
    loosened: Floats
    """1 where slack widens the room."""
    ranks: int
    nodes: int

    @classmethod
    def of(cls, blocks: list[Block], ranks: int) -> _Edges:
        """Return the orders that the blocks prove, in the fewest edges."""
        parts: list[tuple[Ints, Ints, Floats, Floats]] = []
        nodes = ranks
        for block in blocks:
            size, rows = len(block.ranks), len(block.end)
            if not block.proves or size <= 2 * rows:
                parts.append(_pairs(block))
            else:
                parts += _through_instances(block, nodes)
                nodes += rows
        earlier, later, room, loosened = (
            np.concatenate(column) for column in zip(*parts, strict=True)
        )
        kept = np.isfinite(room)
        return cls(earlier[kept], later[kept], room[kept], loosened[kept], ranks, nodes)

    def shortest(self, start: Floats, back: bool, slack: float) -> Floats | None:
        """Return the length of the shortest way from every rank to those that begin with `start`,
        or `back`, from those to it; None if ways round in a circle are ever shorter.
        """
        from_, to = (self.earlier, self.later) if back else (self.later, self.earlier)
        order = np.argsort(to, kind="stable")
        from_, room = from_[order], (self.room + slack * self.loosened)[order]
        at, first = np.unique(to[order], return_index=True)
        values = np.full(self.nodes, np.inf)
        values[: self.ranks] = start
        before = np.full(self.nodes + 1, self.nodes)
        for turn in range(self.nodes + 1):
            ways = values[from_] + room
            found = np.minimum.reduceat(ways, first) if len(first) else ways
            better = found < values[at] - ROUNDED_NS
            if not better.any():
                return values[: self.ranks]
            best = ways == np.repeat(found, np.diff(np.r_[first, len(ways)]))
            which = np.minimum.reduceat(np.where(best, np.arange(len(ways)), len(ways)), first)
            values[at[better]] = found[better]
            before[at[better]] = from_[which[better]]
            if turn % LOOK == LOOK - 1 and _circles(before):
                return None
        return None

    def least_slack(self) -> float:
        """Return the least constant that removes every contradiction, to within 1 ns."""

        def agree(slack: float) -> bool:
            return self.shortest(np.zeros(self.ranks), False, slack) is not None

        if agree(0.0):
            return 0.0
        low, high = 0.0, 1.0
        while not agree(high):
            low, high = high, 4 * high
        while high - low > 1.0:
            middle = (low + high) / 2
            low, high = (low, middle) if agree(middle) else (middle, high)
        return float(np.ceil(high))


def _circles(before: Ints) -> bool:
    """Whether some node comes before itself."""
    end = len(before) - 1
    for _ in range(int(end).bit_length() + 1):
        before = before[before]
    return bool((before != end).any())


def _pairs(block: Block) -> tuple[Ints, Ints, Floats, Floats]:
    """An edge per two ranks of a block."""
    size = len(block.ranks)
    upper = pairwise([block.of_columns(np.arange(size), np.arange(size))], size)
    earlier, later = np.nonzero(~np.eye(size, dtype=np.bool_))
    room = upper[earlier, later]
    return block.ranks[earlier], block.ranks[later], room, np.ones(len(room))


def _through_instances(block: Block, first: int) -> list[tuple[Ints, Ints, Floats, Floats]]:
    """Edges from every rank to its instances, and from those to ranks."""
    rows, size = block.end.shape
    node = np.repeat(first + np.arange(rows), size)
    rank = np.tile(block.ranks, rows)
    # small numbers are more exact
    middle = np.nanmedian(block.end, axis=1, keepdims=True)
    start, end = (
        np.where(np.isnan(room), np.inf, room).ravel()
        for room in (middle - block.early, block.late - middle)
    )
    zeros = np.zeros(len(node))
    return [(rank, node, start, zeros), (node, rank, end, zeros + 1)]
