"""Messages that others may have as well: beside a pair that was never found, two of its neighbours
meet by chance, in turn and at the right time.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from traceweave.arrays import Floats, Ints
from traceweave.matching.calls import RECV, SEND, UNKNOWN, Calls
from traceweave.matching.common_time import CommonTime
from traceweave.matching.turns import Turns

NEAR_NS = 100_000
"""A message that ends so near to another, and has no other side, may be it: clocks that few calls
tie are not known better."""
SIDES = {SEND: RECV, RECV: SEND, UNKNOWN: UNKNOWN}


def rivalled(calls: Calls, index: Ints, instance: Ints, time: CommonTime) -> Ints:
    """Return the instances among the messages at `index` of which either side may belong to a rank
    that lies as far off as others do, since a message of that rank ends then which has no other
    side. A side that its own trace names is beyond doubt.
    """
    far = {high - low for low, high in Turns.of(calls, index, instance).pairs()}
    sides = {
        (rank, op): index[(calls.rank[index] == rank) & (calls.op[index] == op)]
        for rank in np.unique(calls.rank[index]).tolist()
        for op in SIDES
    }
    ends = {side: _ends(calls, mine, side[0], time) for side, mine in sides.items()}
    found: list[Ints] = [np.zeros(0, dtype=np.int64)]
    for (rank, op), mine in sides.items():
        met = (instance[mine] >= 0) & (calls.peer[mine] < 0)
        for other in _at(rank, far):
            theirs = sides.get((other, SIDES[op]))
            if theirs is not None and time.tied(rank, other):
                free = (instance[theirs] < 0) & np.isin(calls.peer[theirs], (-1, rank))
                alone = ends[other, SIDES[op]][free]
                near = _nearest(ends[rank, op][met], alone) <= NEAR_NS
                found.append(instance[mine[met]][near])
    return np.unique(np.concatenate(found))


def _at(rank: int, far: set[int]) -> Iterator[int]:
    """The ranks so far off."""
    for distance in far:
        yield rank - distance
        yield rank + distance


def _ends(calls: Calls, mine: Ints, rank: int, time: CommonTime) -> Floats:
    return time.shown(rank, calls.take(mine)).end.astype(np.float64)


def _nearest(times: Floats, others: Floats) -> Floats:
    """How far the nearest of the others is from each time."""
    others = np.concatenate([[-np.inf], np.sort(others), [np.inf]])
    after = np.searchsorted(others, times)
    return np.minimum(others[after] - times, times - others[after - 1])
