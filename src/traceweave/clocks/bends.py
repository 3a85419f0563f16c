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
    """ns to be added from then on, besides what was before; 0 where it may have been others that
    were set."""


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
    cluster: int = 0
    """Clocks of one number were found to bend alike."""

    @property
    def unsure(self) -> float:
        """By how much the curve may be wrong, ns."""
        return 3 * self.error

    @property
    def straight(self) -> bool:
        """Whether it adds nothing."""
        return not any(step.height for step in self.steps) and not self.ahead.any()

    def __call__(self, times: Floats) -> Floats:
        """Return what is to be added at these times, NaN where they are."""
        total = self.curve(times)
        for step in self.steps:
            total = total + step.height * passed(times, step)
        return total

    def doubt(self, times: Floats) -> tuple[Floats, Floats]:
        """Return by how much too much and too little that may be where clocks were set, ns.

        However often, and by however much: what lies between two anchors of a clock does so on the
        common one.
        """
        back, on, half = (np.zeros(times.shape) for _ in range(3))
        for step in self.steps:
            open_ = passed(times, step) == 0.5
            back = np.where(open_, np.maximum(back, times - step.since), back)
            on = np.where(open_, np.maximum(on, step.until - times), on)
            half += np.where(open_, step.height / 2, 0.0)
        return np.maximum(back + half, 0.0), np.maximum(on + half, 0.0)

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
    """Return the blocks with what each rank's bend adds, and how far that is in doubt: beside a
    step, and where a call begins between two anchors.
    """
    anchors = _anchors(blocks, len(bends))
    result = []
    for block in blocks:
        columns = [(block.start[:, c], block.end[:, c], r) for c, r in enumerate(block.ranks)]
        start = np.column_stack([start + bends[r](start) for start, _, r in columns])
        early = np.column_stack([start + _least(bends[r], start, anchors[r])
                                 for start, _, r in columns])  # fmt: skip
        late = np.column_stack([bends[r].doubt(end)[1] for _, end, r in columns])
        end = block.end + ahead(block, bends)
        result.append(replace(block, start=start, end=end, doubt=(start - early, late)))
    return result


def _anchors(blocks: list[Block], ranks: int) -> list[Floats]:
    """The ends of every rank, ascending."""
    found: list[list[Floats]] = [[np.empty(0)] for _ in range(ranks)]
    for block in blocks:
        for column, rank in enumerate(block.ranks.tolist()):
            end = block.end[:, column]
            found[rank].append(end[np.isfinite(end)])
    return [np.sort(np.concatenate(ends)) for ends in found]


def _least(bend: Bend, times: Floats, anchors: Floats) -> Floats:
    """The least that a bend may add at these times, being known at anchors only."""
    if bend.straight:
        return bend(times) - bend.doubt(times)[0]
    after = np.searchsorted(anchors, times)
    before, after = (np.clip(n, 0, len(anchors) - 1) for n in (after - 1, after))
    near = [bend(t) - bend.doubt(t)[0] for t in (times, anchors[before], anchors[after])]
    return np.asarray(np.min(near, axis=0))


def ahead(block: Block, bends: Sequence[Bend]) -> Floats:
    """What the bends of a block's ranks add to its ends."""
    return np.column_stack([bends[r](block.end[:, c]) for c, r in enumerate(block.ranks.tolist())])
