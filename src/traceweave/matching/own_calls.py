"""Which calls of a stream that several groups may share are of the group that most are of.

What is said of calls does not tell, and the ends of a call that nobody waited for do not either.
But a program repeats itself: a call of another group comes back at equal distances. So a call is of
the group if, whatever the distance, it and its like prove that by themselves.
"""

from __future__ import annotations

import numpy as np

from traceweave.arrays import Flags, Floats
from traceweave.matching.ties import LEAST

ENOUGH = 10.0
"""Logarithm of how many times likelier it must be that LEAST calls are of the group than not."""
LONGEST = 256
"""Calls after which a program is taken to repeat itself at the latest."""


def own_calls(by_call: Floats) -> Flags:
    """Return which calls are proven, from what each says for the group (Tie.by_call): every LEAST
    of them at equal distances that a call is part of say enough.
    """
    count = len(by_call)
    own = np.full(count, count >= LEAST)
    for distance in range(1, min(LONGEST, count // LEAST) + 1):
        turns = -(-count // distance)
        padded = np.full(turns * distance, np.nan)
        padded[:count] = by_call
        own &= _enough(padded.reshape(turns, distance)).ravel()[:count]
    return own


def _enough(table: Floats) -> Flags:
    """Whether all windows of LEAST rows that a value is part of come to enough, column by column;
    a last row that is not full shares the window before it.
    """
    full = table if np.isfinite(table[-1]).all() else table[:-1]
    sums = np.cumsum(np.vstack([np.zeros(table.shape[1]), full]), axis=0)
    enough = sums[LEAST:] - sums[:-LEAST] >= ENOUGH
    found = np.ones(table.shape, dtype=np.bool_)
    for first in range(LEAST):
        found[first : first + len(enough)] &= enough
    found[len(full) :] = found[len(full) - 1]
    return found
