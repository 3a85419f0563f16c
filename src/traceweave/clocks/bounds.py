"""What causality proves about clock offsets, without any assumption about noise.

No rank can end a collective before the last rank has started it: start_i + o_i <= end_j + o_j for
every two ranks i, j of an instance. So o_i - o_j <= min over instances of (end_j - start_i), a
system of difference constraints; shortest paths give the tightest bound on every pair, also of
ranks that share no group.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from traceweave.arrays import Floats
from traceweave.clocks.matrices import Block
from traceweave.clocks.orderings import Orderings


@dataclass(frozen=True)
class Bounds:
    """upper[i, j] is the largest o_i - o_j that causality allows, ns; inf if nothing bounds it."""

    upper: Floats
    slack_ns: float
    """Added to every constraint because without it they contradict each other."""

    def interval(self, reference: int) -> tuple[Floats, Floats]:
        """Lowest and highest possible offset of every rank when that of `reference` is 0."""
        return -self.upper[reference], self.upper[:, reference]

    def against(self, rank: int, root: int) -> tuple[float, float]:
        """Return the largest o_rank - o_root and o_root - o_rank."""
        return float(self.upper[rank, root]), float(self.upper[root, rank])

    def within(self, members: list[int]) -> Floats:
        """Return the bounds between some ranks."""
        return np.asarray(self.upper[np.ix_(members, members)])

    def moved(self, order: list[int]) -> Floats:
        """Return corrections of 0 moved, in `order`, as little as needed to obey every bound."""
        return self.clamp(np.zeros(len(self.upper)), order)

    def clamp(self, offset: Floats, order: list[int]) -> Floats:
        """Return the offsets moved, in `order`, as little as needed to obey every bound."""
        clamped = offset.copy()
        done: list[int] = []
        for rank in order:
            if done:
                high = float(np.min(clamped[done] + self.upper[rank, done]))
                low = float(np.max(clamped[done] - self.upper[done, rank]))
                clamped[rank] = min(max(clamped[rank], low), high)
            done.append(rank)
        return clamped


def pairwise(blocks: list[Block], ranks: int) -> Floats:
    """Direct bounds on o_i - o_j from the instances that i and j share; inf if they share none."""
    upper = np.full((ranks, ranks), np.inf)
    for block in blocks:
        end, start = block.late, block.early
        if block.proves:
            for column, rank in enumerate(block.ranks):
                room = end - start[:, column : column + 1]
                best = np.fmin.reduce(room, axis=0, initial=np.inf)
                upper[rank, block.ranks] = np.minimum(upper[rank, block.ranks], best)
        elif block.sends is not None:
            _messages(block, block.sends).tighten(upper)
    np.fill_diagonal(upper, 0.0)
    return upper


def _messages(block: Block, sends: Floats) -> Orderings:
    """A receive cannot end before its send has started; nothing holds the other way round."""
    sender, receiver = np.nanargmax(sends, axis=1), np.nanargmin(sends, axis=1)
    row = np.arange(len(sender))
    return Orderings(
        block.ranks[sender],
        block.early[row, sender],
        block.ranks[receiver],
        block.late[row, receiver],
    )


def close(direct: Floats, slack: float | None = None) -> Bounds:
    """Propagate direct bounds through chains of ranks, widened by `slack` or the least that makes
    them consistent.
    """
    slack = _least_slack(direct) if slack is None else slack
    widened = direct + np.where(np.eye(len(direct), dtype=bool), 0.0, slack)
    upper, _ = _shortest_paths(widened)
    return Bounds(upper, slack)


def _least_slack(direct: Floats) -> float:
    """The least constant that removes every contradiction, to within 1 ns; 0 without
    contradictions.
    """
    if _shortest_paths(direct)[1]:
        return 0.0
    high = 1.0
    off_diagonal = np.where(np.eye(len(direct), dtype=bool), 0.0, 1.0)
    while not _shortest_paths(direct + high * off_diagonal)[1]:
        high *= 4
    low = 0.0 if high == 1.0 else high / 4
    while high - low > 1.0:
        middle = (low + high) / 2
        if _shortest_paths(direct + middle * off_diagonal)[1]:
            high = middle
        else:
            low = middle
    return float(np.ceil(high))


def _shortest_paths(direct: Floats) -> tuple[Floats, bool]:
    """Floyd-Warshall; the second value tells whether the constraints are free of contradiction."""
    paths = direct.copy()
    for k in range(len(paths)):
        np.minimum(paths, paths[:, k : k + 1] + paths[k], out=paths)
        if paths.diagonal().min() < 0:
            return paths, False
    return paths, True
