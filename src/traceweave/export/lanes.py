"""Lanes: which slices may share a track.

Perfetto keeps a stack per track: slices on it must nest or follow each other, and an end closes
whatever is on top. Slices that overlap partly therefore go to further lanes of their track, each
of which nests. The rows come in order of (track, start, longest first), batch after batch; only
the slices that are still open are kept from one batch to the next.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.int64]
Lanes = npt.NDArray[np.int32]

MOST_DEEP = 500
"""Slices open at once on a lane; Perfetto drops what is nested deeper than 512."""


@dataclass(frozen=True)
class _Open:
    """Slices of the last track of a batch that end after its last start, in order of start."""

    track: int
    start: Numbers
    end: Numbers
    lane: Lanes


class LaneKeeper:
    """Gives every slice a lane, the first of its track on which it nests."""

    def __init__(self) -> None:
        self._open: _Open | None = None

    def assign(self, track: Numbers, start: Numbers, end: Numbers) -> Lanes:
        """Return the lane of every row of the next batch; 0 is the track itself."""
        kept = self._open
        known = 0
        lane = np.zeros(len(track), dtype=np.int32)
        if kept is not None and len(track) and kept.track == track[0]:
            known = len(kept.start)
            track = np.concatenate([np.full(known, kept.track), track])
            start = np.concatenate([kept.start, start])
            end = np.concatenate([kept.end, end])
            lane = np.concatenate([kept.lane, lane])
        for first, last in _tangled(track, start, end, lane):
            _untangle(start, end, lane, first, last, known)
        if len(track):
            self._open = _still_open(track, start, end, lane)
        return lane[known:]


def _tangled(track: Numbers, start: Numbers, end: Numbers, lane: Lanes) -> list[tuple[int, int]]:
    """Return the ranges of rows, cut where nothing is open, that do not nest on one lane.

    Starts and ends are put in order of time; where everything nests, the begin and the end that
    follow each other at the same depth belong to the same slice. A slice of no length fits
    anywhere and is left out.
    """
    rows = np.flatnonzero(end > start)
    if len(rows) < 2 and not lane.any():
        return []
    row = np.concatenate([rows, rows])
    ends = np.repeat(np.array([False, True]), len(rows))
    at = np.concatenate([start[rows], end[rows]])
    # at one instant ends come before begins, inner ends before outer ones
    order = np.lexsort((np.where(ends, -row, row), ~ends, at, track[row]))
    row, ends = row[order], ends[order]
    depth = np.cumsum(np.where(ends, -1, 1)) + ends
    by_depth = np.argsort(depth, kind="stable")
    pairs = row[by_depth].reshape(-1, 2)
    wrong = pairs[pairs[:, 0] != pairs[:, 1]].reshape(-1)
    suspects = np.concatenate([wrong, row[depth > MOST_DEEP], np.flatnonzero(lane)])
    if not len(suspects):
        return []
    bottom = ~ends & (depth == 1)
    bounds = np.append(row[bottom], len(track))
    hit = np.unique(np.searchsorted(bounds, suspects, side="right"))
    return [(int(bounds[i - 1]), int(bounds[i])) for i in hit]


def _untangle(start: Numbers, end: Numbers, lane: Lanes, first: int, last: int, known: int) -> None:
    """Give the rows from `first` to `last` the first lane that fits; the first `known` have one."""
    stacks: list[list[int]] = []
    starts, ends = start[first:last].tolist(), end[first:last].tolist()
    for row, (begin, finish) in enumerate(zip(starts, ends, strict=True), start=first):
        if row < known:
            chosen = int(lane[row])
        else:
            chosen = next((i for i, s in enumerate(stacks) if _fits(s, begin, finish)), len(stacks))
            lane[row] = chosen
        while len(stacks) <= chosen:
            stacks.append([])
        stacks[chosen].append(finish)


def _fits(stack: list[int], begin: int, finish: int) -> bool:
    while stack and stack[-1] <= begin:
        stack.pop()
    return not stack or (stack[-1] >= finish and len(stack) < MOST_DEEP)


def _still_open(track: Numbers, start: Numbers, end: Numbers, lane: Lanes) -> _Open:
    open_ = np.flatnonzero((track == track[-1]) & (end > start[-1]))
    return _Open(int(track[-1]), start[open_], end[open_], lane[open_])
