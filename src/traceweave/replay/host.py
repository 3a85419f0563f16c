"""What orders the calls of a rank: its threads, waits for the device, and handing over."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from traceweave.arrays import Flags, Ints
from traceweave.replay.rows import ANY_THREAD, NONE, Call, Columns, positions, sorted_by
from traceweave.replay.streams import Records, Streams
from traceweave.replay.unions import Union


@dataclass(frozen=True)
class Threads:
    """The calls of a rank's threads that are nodes of the graph."""

    calls: Columns
    """All calls, sorted by chain and start."""
    kept: Ints
    """Those that are nodes: outermost ones that launch what is recorded, or wait."""
    sort: Ints
    """Sort of each call; COPY too where it returned only when what it copied was there, ROOM where
    it found the queue full, LAUNCH where it freed memory and did not wait."""
    inside: Ints
    """By call: which of `kept` it is or lies in, -1 for none."""

    @property
    def own(self) -> Columns:
        """The calls that are nodes."""
        return {name: column[self.kept] for name, column in self.calls.items()}

    @property
    def waits(self) -> Flags:
        """Whether each of them waits for the device."""
        waits: Flags = self.sort[self.kept] != Call.LAUNCH
        return waits

    @property
    def queued(self) -> Flags:
        """Whether each of them waits for room in a queue, and launches then."""
        queued: Flags = self.sort[self.kept] == Call.ROOM
        return queued

    @property
    def frees(self) -> Flags:
        """Whether each of them frees memory, once the device is done."""
        frees: Flags = self.sort[self.kept] == Call.FREES
        return frees


BEGIN = -2
"""The op_id of what is no call: the beginning of a step on the host."""


def begins_here(steps: Columns) -> bool:
    """Tell whether a rank has one step only, which begins with its range on the host."""
    return len(steps["step"]) == 1 and bool(steps["device_start_ns"] == steps["start_ns"])


def with_begin(calls: Columns, gpu: Columns, steps: Columns) -> Columns:
    """Return the calls with one more, of no length, at the beginning of the only step where that
    begins on the host: what the first thread that launches does until then, it does in the step.
    """
    first = np.flatnonzero(np.isin(calls["op_id"], gpu["launch"]))
    if not begins_here(steps) or not len(first):
        return calls
    thread = calls["chain"] == calls["chain"][first[np.argmin(calls["start_ns"][first])]]
    if np.min(calls["start_ns"][thread]) < steps["start_ns"]:
        return calls
    begin = {
        "op_id": BEGIN, "chain": calls["chain"][thread][0], "sort": Call.LAUNCH,
        "start_ns": steps["start_ns"][0], "end_ns": steps["start_ns"][0], "step": steps["step"][0],
    }  # fmt: skip
    return {
        name: np.append(column, begin.get(name, -1)).astype(column.dtype)
        for name, column in calls.items()
    }


def threads(calls: Columns, streams: Streams, copies: Ints, room: Ints) -> Threads:
    """Choose the calls that are nodes.

    `calls` are sorted by chain and start; `copies` held up their calls, `room` says by op what made
    room for its call.
    """
    sort = _blocking(calls, streams, copies, room)
    is_node = ((sort < Call.WAIT) | np.isin(sort, (Call.ROOM, Call.FREES))) & (
        (sort != Call.LAUNCH) | np.isin(calls["op_id"], streams.gpu["launch"])
    )
    kept = np.flatnonzero(is_node | (calls["op_id"] == BEGIN))
    kept = kept[outermost({name: column[kept] for name, column in calls.items()})]
    if not len(kept):
        return Threads(calls, kept, sort, np.full(len(sort), -1))
    at = np.searchsorted(kept, np.arange(len(sort)), "right") - 1
    around = kept[at]
    lies = (at >= 0) & (calls["chain"][around] == calls["chain"])
    lies &= (around == np.arange(len(sort))) | (calls["start_ns"] < calls["end_ns"][around])
    return Threads(calls, kept, sort, np.where(lies, at, -1))


def outermost(columns: Columns) -> Flags:
    """Return which ranges of each chain lie in no earlier one; sorted by chain and start."""
    chain, start, end = columns["chain"], columns["start_ns"], columns["end_ns"]
    kept = np.ones(len(start), bool)
    edges = np.flatnonzero(np.diff(chain, prepend=np.nan, append=np.nan))
    for begin, stop in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
        until = np.maximum.accumulate(end[begin:stop])
        kept[begin + 1 : stop] = start[begin + 1 : stop] >= until[:-1]
    return kept


def blocking_copies(gpu: Columns, calls: Columns, pageable: Ints) -> Ints:
    """Return the ops that held up the calls that asked for them: these return when the last piece
    is staged, so that more than half of the copy is done. Those that are `pageable` may."""
    call = positions(calls["op_id"], gpu["launch"])
    op = np.flatnonzero((call >= 0) & (gpu["launch"] >= 0))
    op = op[(calls["sort"][call[op]] == Call.COPY) | np.isin(gpu["op_id"][op], pageable)]
    held: Ints = op[gpu["start_ns"][op] + gpu["end_ns"][op] <= 2 * calls["end_ns"][call[op]]]
    return held


def _blocking(calls: Columns, streams: Streams, copies: Ints, room: Ints) -> Ints:
    gpu = streams.gpu
    call = positions(calls["op_id"], gpu["launch"])
    sort = calls["sort"].copy()
    sort[call[copies]] = Call.COPY
    sort[call[(room >= 0) & (call >= 0)]] = Call.ROOM
    frees = np.flatnonzero(sort == Call.FREES)
    op, of = _launched_before(calls, frees, streams)
    ends = np.full(len(sort), NONE)
    np.maximum.at(ends, of, gpu["end_ns"][op])
    sort[frees[ends[frees] > calls["end_ns"][frees]]] = Call.LAUNCH
    return sort


def device_waits(
    found: Threads, records: Records, streams: Streams, let_by: Ints, tolerance: int
) -> tuple[Ints, Ints, int]:
    """Return pairs of an op and which of `kept` waits for it, and how many times contradict.

    `let_by` says by op which one's end let its call return: its own, of a copy, or what made room.
    A call that waits for an event or a stream which no record names waits for what was launched
    last of what was done when it returned.
    """
    calls, sort = found.calls, np.full(len(found.sort), Call.LAUNCH)
    sort[found.kept] = found.sort[found.kept]
    waiting = np.flatnonzero(np.isin(sort, (Call.DEVICE, Call.FREES)))
    pairs = [_launched_before(calls, waiting, streams), _let_return(calls, sort, streams, let_by)]
    named, unnamed = _recorded(calls, sort, records, streams)
    pairs += [named, _last_launched(calls, unnamed, streams)]
    op = np.concatenate([p[0] for p in pairs])
    call = np.concatenate([p[1] for p in pairs])
    fits = streams.gpu["end_ns"][op] <= calls["end_ns"][call] + tolerance
    fits |= sort[call] == Call.COPY
    return op[fits], found.inside[call[fits]], int(np.sum(~fits))


def _launched_before(calls: Columns, waiting: Ints, streams: Streams) -> tuple[Ints, Ints]:
    """Return pairs of the last op of each stream before a call, and the call."""
    ops = [streams.last_before(s, calls["start_ns"][waiting]) for s in range(len(streams.begins))]
    return _pairs(
        np.concatenate([np.empty(0, np.int64), *ops]), np.tile(waiting, len(streams.begins))
    )


def _let_return(calls: Columns, sort: Ints, streams: Streams, let_by: Ints) -> tuple[Ints, Ints]:
    """Return pairs of an op that let a call return, and the call."""
    call = positions(calls["op_id"], streams.gpu["launch"])
    op = np.flatnonzero((call >= 0) & (let_by >= 0))
    op = op[np.isin(sort[call[op]], (Call.COPY, Call.ROOM))]
    return let_by[op], call[op]


def _recorded(
    calls: Columns, sort: Ints, found: Records, streams: Streams
) -> tuple[tuple[Ints, Ints], Ints]:
    """Return what is known of waits for streams and events, and the calls of which nothing is."""
    waiting = (sort == Call.STREAM) | (sort == Call.EVENT)
    of = (found.call >= 0) & np.isin(found.sort, (Call.STREAM, Call.EVENT))
    of &= waiting[found.call]
    call = found.call[of]
    stream = np.where(found.sort[of] == Call.STREAM, found.stream[of], found.source[of])
    marked = np.where(found.sort[of] == Call.STREAM, call, found.recorded[of])
    known = (stream >= 0) & (marked >= 0)
    call, stream, marked = call[known], stream[known], marked[known]
    op = streams.pick(stream, calls["start_ns"][marked], after=False)
    waiting[call] = False
    return _pairs(op, call), np.flatnonzero(waiting)


def _last_launched(calls: Columns, waiting: Ints, streams: Streams) -> tuple[Ints, Ints]:
    if not len(waiting) or not len(streams.begins):
        return _pairs(np.empty(0, np.int64), np.empty(0, np.int64))
    gpu, at = streams.gpu, calls["start_ns"][waiting]
    returned = calls["end_ns"][waiting]
    usual = np.full(len(waiting), -1, np.int64)
    usual_called = np.full(len(waiting), -1, np.int64)
    for stream in range(len(streams.begins)):
        op = streams.last_before(stream, at)
        later = (op >= 0) & (gpu["end_ns"][op] <= returned) & (streams.called[op] > usual_called)
        usual = np.where(later, op, usual)
        usual_called = np.where(later, streams.called[op], usual_called)
    return _pairs(usual, waiting)


def _pairs(op: Ints, call: Ints) -> tuple[Ints, Ints]:
    return op[op >= 0], call[op >= 0]


def handovers(calls: Columns, operators: Columns) -> tuple[Ints, Ints]:
    """Return pairs of calls of different threads, the second of which waited for the first.

    A thread hands over where its calls stop, another's go on, and it runs no operator until these
    are done: forward and backward pass, and back.
    """
    order = np.lexsort((calls["end_ns"], calls["start_ns"]))
    chain = calls["chain"][order]
    switch = np.flatnonzero(chain[1:] != chain[:-1]) + 1
    if not len(switch):
        return np.empty(0, np.int64), np.empty(0, np.int64)
    before, first = order[switch - 1], order[switch]
    last = order[np.append(switch[1:], len(order)) - 1]
    begin, end = calls["start_ns"][first], calls["end_ns"][last]
    own = sorted_by(operators, "chain", "start_ns")
    kept = (calls["end_ns"][before] <= begin) & ~_works(
        own, calls["chain"][before], begin, np.maximum(end, begin)
    )
    return before[kept], first[kept]


def _works(operators: Columns, chain: Ints, begin: Ints, end: Ints) -> Flags:
    """Return whether each thread begins an operator between two moments."""
    found = np.zeros(len(chain), bool)
    chains = operators["chain"]
    for one in np.unique(chain).tolist():
        low, high = np.searchsorted(chains, [one, one + 1])
        starts = operators["start_ns"][low:high]
        mine = chain == one
        first = np.searchsorted(starts, begin[mine], side="left")
        found[mine] = np.searchsorted(starts, end[mine], side="right") > first
    return found


def held(holds: Columns, chain: Ints, begin: Ints, end: Ints) -> tuple[Ints, Ints]:
    """Return for how long between two moments something kept each thread from launching, and what
    did mostly: a place in HOLDS, -1 for nothing."""
    total, by = np.zeros(len(chain), np.int64), np.full(len(chain), -1)
    if not len(holds["sort"]):
        return total, by
    total = _covered(holds, chain, begin, end)
    most = np.zeros(len(chain), np.int64)
    for sort in np.unique(holds["sort"]).tolist():
        own = {name: column[holds["sort"] == sort] for name, column in holds.items()}
        length = _covered(own, chain, begin, end)
        by = np.where(length > most, sort, by)
        most = np.maximum(most, length)
    return total, by


def _covered(ranges: Columns, chain: Ints, begin: Ints, end: Ints) -> Ints:
    """Return for how long between two moments each thread was in one of some ranges."""
    found = np.zeros(len(chain), np.int64)
    anyone = ranges["chain"] == ANY_THREAD
    chains = np.unique(chain) if anyone.any() else np.unique(ranges["chain"])
    for one in chains.tolist():
        mine = chain == one
        own = anyone | (ranges["chain"] == one)
        within = Union(ranges["start_ns"][own], ranges["end_ns"][own])
        found[mine] = within.covered(begin[mine], end[mine])
    return found
