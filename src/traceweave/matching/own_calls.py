"""Which calls of a stream that several groups may share are of the group that most are of.

What is said of calls does not tell, and the ends of a call that nobody waited for do not either.
But a program repeats itself: a call of another group comes back at equal distances. So a call is of
the group if, whatever the distance, it and its like prove that by themselves.
"""

from __future__ import annotations

import numpy as np

from traceweave.arrays import Flags, Floats, Ints
from traceweave.matching.ties import LEAST

ENOUGH = 10.0
"""Logarithm of how many times likelier it must be that LEAST calls are of the group than not."""
LONGEST = 256
"""Calls after which a program is taken to repeat itself at the latest."""


def own_calls(by_call: Floats, place: Ints) -> Flags:
    """Return which calls are proven, from what each says for the group (Tie.by_call) and its place
    among all calls of its stream: every LEAST at equal distances that a call is part of say enough,
    and there are such.

    Calls that, with most of their like, clearly are not of the group do not speak for the others.
    """
    place = place - place.min()
    last = int(place.max())
    foreign, judged, doubtful = np.full((3, len(by_call)), False)
    tables = []
    for distance in range(1, min(LONGEST, last // (LEAST - 1)) + 1):
        table = np.full((last // distance + 1, distance), np.nan)
        table.ravel()[place] = by_call
        tables.append(table)
        foreign |= _touched(table, _against(_windows(table))).ravel()[place]
        full = np.asarray(np.isfinite(_windows(table)).all(axis=-1))
        judged |= _touched(table, full).ravel()[place]
    for table in tables:
        others = table.copy()
        others.ravel()[place[foreign]] = np.nan
        doubtful |= _touched(table, _lacking(_windows(table), _windows(others))).ravel()[place]
    return np.asarray(judged & ~foreign & ~doubtful)


def _windows(table: Floats) -> Floats:
    """All runs of LEAST rows, column by column."""
    return np.lib.stride_tricks.sliding_window_view(table, LEAST, axis=0)


def _against(windows: Floats) -> Flags:
    """Whether windows, and most of their calls, clearly speak against the group; one that lacks a
    call says nothing.
    """
    most = (windows < 0).sum(axis=-1) > LEAST / 2
    return np.asarray(most & (windows.sum(axis=-1) <= -ENOUGH))


def _lacking(windows: Floats, others: Floats) -> Flags:
    """Whether windows do not say enough; `others`: without calls of another group, which count if
    they are most of them.
    """
    whole = np.isfinite(windows).all(axis=-1)
    few = np.isnan(others).sum(axis=-1) <= LEAST / 2
    spare = ENOUGH / LEAST
    said = np.where(few, np.nansum(others - spare, axis=-1), (windows - spare).sum(axis=-1))
    return np.asarray(whole & (said < 0))


def _touched(table: Floats, windows: Flags) -> Flags:
    """Which values of a table are in one of some windows."""
    found: Flags = np.zeros(table.shape, dtype=np.bool_)
    for first in range(LEAST):
        found[first : first + len(windows)] |= windows
    return found
