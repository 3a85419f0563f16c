"""The equations of a clock fit solved: lags first, each where it belongs, then clocks and waves.

Lags belong to one group or one of its cells, so they are eliminated there: from small groups
together with all that groups have to say (dense_groups.py), from groups of more ranks than
instances rank by rank (thin_groups.py). What is left has some unknowns per clock (clock_system.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING

import numpy as np

from traceweave.arrays import Floats
from traceweave.clocks.clock_system import ClockSystem
from traceweave.clocks.dense_groups import DenseGroups
from traceweave.clocks.equations import Layout, Part

if TYPE_CHECKING:
    from traceweave.clocks.thin_groups import ThinGroup

EXACT = 1e-7
"""Relative error that answers may have where they are found step by step."""
THIN = 64
"""Ranks of a group up to which it is no thin one."""


class Elimination:
    """The equations factored once, for several right-hand sides."""

    def __init__(self, layout: Layout, parts: Sequence[Part], precision: Floats) -> None:
        self.size = layout.size
        self._top = layout.top
        self._groups: list[DenseGroups | ThinGroup] = []
        for _, family in groupby(parts, key=lambda part: part.cell.wave[:2]):
            alike = list(family)
            if is_thin(alike):
                from traceweave.clocks.thin_groups import thin_groups  # imports SciPy

                self._groups += thin_groups(layout, alike, precision)
            else:
                self._groups.append(DenseGroups(layout, alike, precision))
        self._system = ClockSystem(layout, self._groups, precision[: layout.top])

    def solve(self, right: Floats, error: float = EXACT) -> Floats:
        """Return the unknowns, a column per column of `right`, to within a relative `error`."""
        answer = np.array(right)
        top = np.vstack([answer[: self._top], np.zeros((1, answer.shape[1]))])
        for groups in self._groups:
            top -= groups.where.spread(groups.forward(answer))
        top[:-1] = self._system.solve(top[:-1], error)
        top[-1] = 0.0
        answer[: self._top] = top[:-1]
        for groups in self._groups:
            groups.back(answer, groups.where.taken(top))
        return answer


def is_thin(parts: Sequence[Part]) -> bool:
    """Whether groups of one size have more ranks than instances, and many."""
    size = parts[0].cell.ranks.shape[1]
    groups = max(len(part.cell.blocks) for part in parts)
    return bool(size > THIN and sum(len(part.cell.rows) for part in parts) < groups * size)
