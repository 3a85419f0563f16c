"""The job whose ranks were recorded, and the ways in which groups may lie over its ranks: they are
the axes of a mesh.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from traceweave.arrays import Ints


@dataclass(frozen=True)
class Job:
    """What is known of the ranks of the job."""

    ranks: tuple[int, ...]
    """Those that were recorded, ascending."""
    size: int | None

    @property
    def recorded(self) -> int:
        """How many ranks were recorded."""
        return len(self.ranks)

    @property
    def complete(self) -> bool:
        """Every rank was recorded, as far as known."""
        return self.size is None or self.recorded >= self.size

    @property
    def lacks(self) -> int:
        """How many ranks were not recorded, as far as known."""
        return 0 if self.complete else (self.size or 0) - self.recorded

    @property
    def everyone(self) -> Sequence[int]:
        """All ranks of the job, as far as known, ascending."""
        if self.size is None or self.ranks[-1] >= self.size:
            return self.ranks
        return range(self.size)

    def group_of(self, ranks: list[int]) -> list[int] | None:
        """Return the smallest of the groups that divide a job evenly, at equal distances and the
        others beside them, of which `ranks`, ascending, are all that was recorded, and most of it;
        None if they are of none.
        """
        everyone, recorded = self.everyone, set(self.ranks)
        for members in range(len(ranks), min(2 * len(ranks), len(everyone) + 1)):
            for distance in range(1, len(everyone) // members + 1):
                if len(everyone) % (members * distance) == 0:
                    for group in _side_by_side(everyone, members, distance):
                        if [rank for rank in group if rank in recorded] == ranks:
                            return group
        return None

    def beside(self, group: list[int]) -> list[list[int]]:
        """Return the other groups of the layout that a group of two ranks or more is of."""
        first, second = (self.everyone.index(rank) for rank in group[:2])
        every = _side_by_side(self.everyone, len(group), second - first)
        return [other for other in every if other != group]

    def layouts(self, ranks: list[int]) -> Iterator[tuple[list[Ints], list[bool]]]:
        """Ways in which `ranks`, ascending, may be several groups, by their places in that list,
        and whether each of these was recorded whole.
        """
        group = np.array(self.group_of(ranks) or self.everyone)
        for parts in layouts(len(group)):
            recorded = [np.flatnonzero(np.isin(ranks, group[part])) for part in parts]
            whole = [bool(np.isin(group[part], self.ranks).all()) for part in parts]
            kept = [number for number, own in enumerate(recorded) if len(own)]
            if len(kept) > 1:
                yield [recorded[number] for number in kept], [whole[number] for number in kept]

    @property
    def pair(self) -> bool:
        """There are two ranks: whatever one of them does together, it does with the other."""
        return self.size == 2 and self.recorded == 2


def layouts(members: int) -> Iterator[list[Ints]]:
    """Ways in which groups lie over `members` ranks in their order: each by itself, neighbours
    together, and ranks at equal distances."""
    for size in range(1, members // 2 + 1):
        if members % size == 0:
            for distance in (1, members // size)[:size]:
                yield [np.array(g) for g in _side_by_side(range(members), size, distance)]


def _side_by_side(ranks: Sequence[int], members: int, distance: int) -> list[list[int]]:
    """All ranks in groups of so many members at equal distances."""
    block = members * distance
    return [
        [*ranks[first : first + block : distance]]
        for begin in range(0, len(ranks), block)
        for first in range(begin, begin + distance)
    ]
