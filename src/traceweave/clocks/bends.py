"""What a line lacks of a clock that stepped or wandered: a smooth curve, and steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from traceweave.arrays import Flags, Floats
from traceweave.clocks.matrices import Block


@dataclass(frozen=True)
class Step:
    """A clock was set, nobody knows when between two of its anchors."""

    since: float
    until: float
    height: float
    """ns to be added from then on, besides what was before."""


@dataclass(frozen=True)
class Bend:
    """What is to be added to a clock besides its line; times in ns, of the clock itself or of the
    common one.
    """

    at: Floats = field(default_factory=lambda: np.zeros(1))
    """Knots, ascending."""
    ahead: Floats = field(default_factory=lambda: np.zeros(1))
    """ns at each knot, without steps; the outermost lines go on beyond them."""
    error: float = 0.0
    """Standard error of the curve, ns."""
    steps: tuple[Step, ...] = ()

    @property
    def straight(self) -> bool:
        """Whether it adds nothing."""
        return not self.steps and not self.ahead.any()

    def __call__(self, times: Floats) -> Floats:
        """Return what is to be added at these times, NaN where they are."""
        total = self.curve(times)
        for step in self.steps:
            total = total + step.height * passed(times, step)
        return total

    def unsure(self, times: Floats) -> Flags:
        """Whether nobody knows if a step has been made at these times."""
        unsure = np.zeros(times.shape, dtype=np.bool_)
        for step in self.steps:
            unsure |= passed(times, step) == 0.5
        return unsure

    def curve(self, times: Floats) -> Floats:
        """Return the same without steps."""
        if len(self.at) < 2:
            return np.where(np.isnan(times), np.nan, self.ahead[0])
        slopes = np.diff(self.ahead)[[0, -1]] / np.diff(self.at)[[0, -1]]
        before, after = np.minimum(times - self.at[0], 0), np.maximum(times - self.at[-1], 0)
        inside = np.interp(times, self.at, self.ahead)
        return np.asarray(inside + slopes[0] * before + slopes[1] * after, dtype=np.float64)

    def less(self, other: Bend) -> Bend:
        """Return the difference of two bends over the common clock, whose knots are the same."""
        undone = tuple(replace(step, height=-step.height) for step in other.steps)
        return Bend(
            self.at,
            self.ahead - other.ahead,
            float(np.hypot(self.error, other.error)),
            tuple(sorted(self.steps + undone, key=lambda step: step.since)),
        )


def passed(times: Floats, step: Step) -> Floats:
    """How much of a step has been made at each time: a half while nobody knows; NaN if absent."""
    known = np.where(np.isnan(times), np.nan, 0.5)
    return np.asarray(known + 0.5 * (times >= step.until) - 0.5 * (times <= step.since))


def straightened(blocks: list[Block], bends: Sequence[Bend]) -> list[Block]:
    """Return the blocks with what each rank's bend adds; what lies beside a step proves nothing."""
    result = []
    for block in blocks:
        columns = list(enumerate(block.ranks.tolist()))
        start = np.column_stack([bends[r](block.start[:, c]) for c, r in columns]) + block.start
        early = np.column_stack([bends[r].unsure(block.start[:, c]) for c, r in columns])
        late = np.column_stack([bends[r].unsure(block.end[:, c]) for c, r in columns])
        result.append(
            replace(
                block,
                start=np.where(early, np.nan, start),
                end=block.end + ahead(block, bends),
                unsure=late,
            )
        )
    return result


def ahead(block: Block, bends: Sequence[Bend]) -> Floats:
    """What the bends of a block's ranks add to its ends."""
    return np.column_stack([bends[r](block.end[:, c]) for c, r in enumerate(block.ranks.tolist())])
