"""What orders the calls of a rank: its threads, waits for the device, and handing over."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from traceweave.arrays import Flags, Ints
from traceweave.replay.device import CLOCKS_NS
from traceweave.replay.lookups import Union, stretches
from traceweave.replay.rows import ANY_THREAD, Call, Columns, where
from traceweave.replay.streams import Streams


@dataclass(frozen=True)
class Threads:
    """The calls of a rank's threads that are nodes of the graph."""

    calls: Columns
    """All calls, sorted by chain and start."""
    sort: Ints
    """Sort of each call; COPY too where it returned only when what it copied was there, ROOM where
    it found the queue full."""
    kept: Ints
    """Those that are nodes: outermost ones that launch what is recorded, or wait."""
    inside: Ints
    """By call: which of `kept` it is or lies in, -1 for none."""

    @property
    def own(self) -> Columns:
        """The calls that are nodes, their sorts as told here."""
        return where({**self.calls, "sort": self.sort}, self.kept)


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
    call, sort = streams.gpu["call"], calls["sort"].copy()
    sort[call[copies]] = Call.COPY
    sort[call[(room >= 0) & (call >= 0)]] = Call.ROOM
    is_node = np.isin(sort, (*range(Call.DEVICE, Call.WAIT), Call.ROOM, Call.FREES))
    launches = calls["op_id"] == BEGIN
    launches[call[call >= 0]] = True
    kept = np.flatnonzero(is_node | ((sort == Call.LAUNCH) & launches))
    kept = kept[outermost(where(calls, kept))]
    if not len(kept):
        return Threads(calls, sort, kept, np.full(len(sort), -1))
    at = np.searchsorted(kept, np.arange(len(sort)), "right") - 1
    around = kept[at]
    lies = (at >= 0) & (calls["chain"][around] == calls["chain"])
    lies &= (around == np.arange(len(sort))) | (calls["start_ns"] < calls["end_ns"][around])
    return Threads(calls, sort, kept, np.where(lies, at, -1))


def outermost(columns: Columns) -> Flags:
    """Return which ranges of each chain lie in no earlier one; sorted by chain and start."""
    start, end = columns["start_ns"], columns["end_ns"]
    kept = np.ones(len(start), bool)
    for begin, stop in stretches(columns["chain"]):
        until = np.maximum.accumulate(end[begin:stop])
        kept[begin + 1 : stop] = start[begin + 1 : stop] >= until[:-1]
    return kept


def blocking_copies(gpu: Columns, calls: Columns, pageable: Ints) -> Ints:
    """Return the ops that held up the calls that asked for them: these return when the last piece
    is staged, so that more than half of the copy is done. Those that are `pageable` may."""
    op = np.flatnonzero(gpu["call"] >= 0)
    op = op[(calls["sort"][gpu["call"][op]] == Call.COPY) | np.isin(gpu["op_id"][op], pageable)]
    returned = calls["end_ns"][gpu["call"][op]]
    held: Ints = op[gpu["start_ns"][op] + gpu["end_ns"][op] <= 2 * returned]
    return held


def device_waits(
    found: Threads, records: Columns, streams: Streams, let_by: Ints
) -> tuple[Ints, Ints, int]:
    """Return pairs of an op and which of `kept` waits for it, and how many times contradict.

    `let_by` says by op which one's end let its call return: its own, of a copy, or what made room.
    A call that waits for an event or a stream which no record names waits for what was launched
    last of what was done when it returned.
    """
    calls, gpu = found.calls, streams.gpu
    start, returned, sort = calls["start_ns"], calls["end_ns"], np.full(len(found.sort), -1)
    sort[found.kept] = found.sort[found.kept]
    before = _launched_before(
        calls, np.flatnonzero(np.isin(sort, (Call.DEVICE, Call.FREES))), streams
    )
    let = np.flatnonzero((gpu["call"] >= 0) & (let_by >= 0))
    let = let[np.isin(sort[gpu["call"][let]], (Call.COPY, Call.ROOM))]

    waiting = np.isin(sort, (Call.STREAM, Call.EVENT))
    of_stream = records["sort"] == Call.STREAM
    source = np.where(of_stream, records["stream"], records["source"])
    marked = np.where(of_stream, records["call"], records["marked"])
    known = (of_stream | (records["sort"] == Call.EVENT)) & (records["call"] >= 0)
    known &= waiting[records["call"]] & (source >= 0) & (marked >= 0)
    named = records["call"][known]
    last = streams.pick(source[known], start[marked[known]])
    waiting[named] = False
    other = np.flatnonzero(waiting)
    usual = streams.last_of_all(start[other], returned[other])

    op = np.concatenate([before[0], let_by[let], last, usual])
    call = np.concatenate([before[1], gpu["call"][let], named, other])
    op, call = op[op >= 0], call[op >= 0]
    fits = (gpu["end_ns"][op] <= returned[call] + CLOCKS_NS) | (sort[call] == Call.COPY)
    return op[fits], found.inside[call[fits]], int(np.sum(~fits))


def _launched_before(calls: Columns, waiting: Ints, streams: Streams) -> tuple[Ints, Ints]:
    """Return pairs of the last op of each stream before a call, and the call."""
    count = len(streams.ranges)
    ops = [streams.pick(stream, calls["start_ns"][waiting]) for stream in range(count)]
    op, call = np.concatenate([np.empty(0, np.int64), *ops]), np.tile(waiting, count)
    return op[op >= 0], call[op >= 0]


def handovers(calls: Columns) -> tuple[Ints, Ints]:
    """Return pairs of calls of different threads, the second of which waited for the first.

    A thread hands over where its calls stop and another's go on: forward and backward pass, and
    back.
    """
    start, end, chain = (calls[name] for name in ("start_ns", "end_ns", "chain"))
    order = np.lexsort((end, start))
    before, first = order[:-1], order[1:]
    kept = (chain[before] != chain[first]) & (end[before] <= start[first])
    return before[kept], first[kept]


def held(holds: Columns, chain: Ints, begin: Ints, end: Ints) -> tuple[Ints, Ints]:
    """Return for how long between two moments something kept each thread from launching, and what
    did mostly: a place in HOLDS, -1 for nothing."""
    total, by = covered(holds, chain, begin, end), np.full(len(chain), -1)
    most = np.zeros(len(chain), np.int64)
    for sort in np.unique(holds["sort"]).tolist():
        length = covered(where(holds, holds["sort"] == sort), chain, begin, end)
        by = np.where(length > most, sort, by)
        most = np.maximum(most, length)
    return total, by


def covered(ranges: Columns, chain: Ints, since: Ints, until: Ints) -> Ints:
    """Return for how long between two moments each thread was in one of some ranges."""
    found = np.zeros(len(chain), np.int64)
    anyone = ranges["chain"] == ANY_THREAD
    chains = np.unique(chain) if anyone.any() else np.unique(ranges["chain"])
    for one in chains.tolist():
        mine = chain == one
        own = anyone | (ranges["chain"] == one)
        within = Union(ranges["start_ns"][own], ranges["end_ns"][own])
        found[mine] = within.covered(since[mine], until[mine])
    return found
