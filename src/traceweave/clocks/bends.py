"""What a line lacks of a clock that stepped or wandered: a smooth curve, and steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from traceweave.arrays import Floats
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

    def earliest(self, times: Floats) -> Floats:
        """Return these times straightened; where a step lies, as if on its earlier side."""
        total = times + self(times)
        for step in self.steps:
            total = total - abs(step.height) / 2 * (passed(times, step) == 0.5)
        return np.asarray(total, dtype=np.float64)

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
    """Return the blocks with what each rank's bend adds; a start beside a step is as early as it
    may be, so that causality asks for no more than it proves.
    """
    return [
        replace(
            block,
            start=np.column_stack(
                [bends[r].earliest(block.start[:, c]) for c, r in enumerate(block.ranks.tolist())]
            ),
            end=block.end + ahead(block, bends),
        )
        for block in blocks
    ]


def ahead(block: Block, bends: Sequence[Bend]) -> Floats:
    """What the bends of a block's ranks add to its ends."""
    return np.column_stack([bends[r](block.end[:, c]) for c, r in enumerate(block.ranks.tolist())])
