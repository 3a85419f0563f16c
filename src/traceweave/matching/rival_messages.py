"""Messages that others may have as well: beside a pair that was never found, two of its neighbours
meet by chance, in turn and at the right time; and where a clock steps while nothing ties it, the
message before meets one in place of its own.
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
FEW = 3
"""Messages of a pair in a row that are taken for chance where their clocks say otherwise than
before and after."""


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


def astray(calls: Calls, index: Ints, instance: Ints) -> Ints:
    """Return the instances among the messages at `index` that need two steps of a clock within FEW
    messages of a pair, where a message without another side needs one or none.
    """
    index = index[np.lexsort((calls.rank[index], instance[index]))]
    met, free = index[instance[index] >= 0], index[instance[index] < 0]
    first = np.flatnonzero(np.diff(instance[met]) == 0)
    low, high = met[first], met[first + 1]
    found: list[int] = []
    for pair in np.unique(np.c_[calls.rank[low], calls.rank[high]], axis=0):
        mine = np.flatnonzero((calls.rank[low] == pair[0]) & (calls.rank[high] == pair[1]))
        mine = mine[np.argsort(calls.end[low[mine]])]
        for run, least, most in _strays(calls.end[high[mine]] - calls.end[low[mine]]):
            for here, there in zip(low[mine[run]], high[mine[run]], strict=True):
                after, before = (_alike(calls, free, one) for one in (there, here))
                off = np.r_[after - calls.end[here], calls.end[there] - before]
                if ((least <= off) & (off <= most)).any():
                    found.append(int(instance[here]))
    return np.array(sorted(found), dtype=np.int64)


def _alike(calls: Calls, index: Ints, one: int) -> Ints:
    """The ends of those calls at `index` that might be in the place of `one`."""
    same = (calls.rank[index] == calls.rank[one]) & (calls.op[index] == calls.op[one])
    return np.asarray(calls.end[index[same]])


def _strays(ahead: Ints) -> Iterator[tuple[Ints, int, int]]:
    """Runs of fewer than FEW that lie off those before and after, which are longer, and between
    what those leave room."""
    edges = np.flatnonzero(np.abs(np.diff(ahead)) > NEAR_NS) + 1
    runs = np.split(np.arange(len(ahead)), edges)
    for before, run, after in zip(runs, runs[1:], runs[2:], strict=False):
        if not len(run) < FEW <= min(len(before), len(after)):
            continue
        beside = np.r_[ahead[before[-FEW:]], ahead[after[:FEW]]]
        least, most = int(beside.min()) - NEAR_NS, int(beside.max()) + NEAR_NS
        if ((ahead[run] < least) | (ahead[run] > most)).all():
            yield run, least, most


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
