"""Which stream waits for which: from records of the profiler, from the order of calls, from times.

PyTorch lets a stream wait with two calls: cudaEventRecord marks what is on one stream so far, and
cudaStreamWaitEvent holds up what comes on another. Where the profiler recorded which streams and
which event (`cuda_sync` events of Kineto, synchronization and event tables of nsys), that is an
edge. Elsewhere the order of calls tells it: a wait right before a launch on a side stream lets that
stream wait for the main one, any other lets the main stream wait for what was last launched on a
side stream, unless it lies in the operator that asks for a collective: NCCL orders streams of its
own there. What starts right when an op of another stream ends, and not when anything else would
let it, waited for that op; and at the same place of other steps too, if no step contradicts it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from traceweave.arrays import Flags, Ints
from traceweave.replay.rows import COMPUTES, NONE, Call, Columns, positions

PROMPT_NS = 30_000
"""An op that waited for another starts within this time of its end."""

SLOP_NS = 2_000
"""Times of ops of one device are no better than this against each other."""

MOST_SLOP_NS = 200_000
"""The same where ops are stretches of many kernels, taken down by the training loop: by SLOP_NS
alone two published jobs are slowed down by 1.246 and 2.138, not by 1.179 and 1.973."""

IDLE_NS = 3_000
"""An op that starts this much later than all known edges allow waits for something else."""


@dataclass(frozen=True)
class Waits:
    """Edges between ops of streams, by number of the op."""

    source: Ints
    target: Ints

    @classmethod
    def joined(cls, *parts: Waits) -> Waits:
        """Return each edge of the parts once."""
        pairs = np.concatenate([np.stack([p.source, p.target]) for p in parts], axis=1)
        source, target = np.unique(pairs, axis=1)
        return cls(source, target)

    def __len__(self) -> int:
        return len(self.source)


NO_WAITS = Waits(np.empty(0, np.int64), np.empty(0, np.int64))


class Streams:
    """The GPU ops of a rank, sorted by chain and start, and how to find them by time."""

    def __init__(self, gpu: Columns) -> None:
        self.gpu = gpu
        self.chain = gpu["chain"]
        self.begins = np.flatnonzero(np.diff(self.chain, prepend=np.nan))
        self.ends = np.append(self.begins[1:], len(self.chain))
        called = gpu["called"].copy()
        for begin, end in self.ranges():
            called[begin:end] = np.maximum.accumulate(called[begin:end])
        self.called = called
        """When each was launched, or an earlier one of its stream that was launched later."""
        sizes = self.ends - self.begins
        self.main = int(np.argmax(sizes)) if len(sizes) else -1
        """The stream with most ops, by number."""

    @cached_property
    def slop(self) -> int:
        """By how much times may contradict each other, ns: little where ops are short."""
        length = (self.gpu["end_ns"] - self.gpu["start_ns"])[self.gpu["category"] == COMPUTES]
        usual = float(np.median(length)) if len(length) else 0
        return int(np.clip(usual / 500, SLOP_NS, MOST_SLOP_NS))

    def ranges(self) -> Iterator[tuple[int, int]]:
        """Yield first op and end of every stream."""
        yield from zip(self.begins.tolist(), self.ends.tolist(), strict=True)

    def of_ops(self) -> Ints:
        """Return the stream of every op."""
        return np.repeat(np.arange(len(self.begins)), self.ends - self.begins)

    def of_number(self, number: Ints) -> Ints:
        """Return the streams with the numbers that CUDA gave them, -1 for none.

        Of several contexts that with most ops is meant.
        """
        largest_first = np.argsort(self.begins - self.ends, kind="stable")
        known = self.gpu["stream"][self.begins[largest_first]]
        place = positions(known, number)
        return np.where((place >= 0) & (number >= 0), largest_first[place], -1)

    def last_before(self, stream: int, at: Ints) -> Ints:
        """Return the last op of a stream that was launched before each moment, -1 for none."""
        begin, end = int(self.begins[stream]), int(self.ends[stream])
        place = np.searchsorted(self.called[begin:end], at, side="left")
        found = begin + place - 1
        known = (place > 0) & (self.called[np.maximum(found, 0)] > NONE)
        return np.where(known, found, -1)

    def first_after(self, stream: int, at: Ints) -> Ints:
        """Return the first op of a stream that was launched at each moment or later, or -1."""
        begin, end = int(self.begins[stream]), int(self.ends[stream])
        place = np.searchsorted(self.called[begin:end], at, side="left")
        return np.where(begin + place < end, begin + place, -1)

    def pick(self, stream: Ints, at: Ints, after: bool) -> Ints:
        """Return `first_after` or `last_before` for moments each of its own stream, -1: none."""
        found = np.full(len(at), -1, np.int64)
        for one in np.unique(stream[stream >= 0]).tolist():
            mine = stream == one
            find = self.first_after if after else self.last_before
            found[mine] = find(one, at[mine])
        return found


@dataclass(frozen=True)
class Records:
    """What the profiler says of events and waits, by number of the call that it belongs to."""

    call: Ints
    sort: Ints
    stream: Ints
    """That waits, or on which the event was recorded; -1: unknown."""
    source: Ints
    """Stream that is waited for, -1: unknown."""
    recorded: Ints
    """The call that recorded the event, -1: unknown."""


def records(recorded: Columns, calls: Columns, streams: Streams) -> Records:
    """Return the records of a rank."""
    call = positions(calls["correlation"], recorded["correlation"])
    call = np.where(recorded["correlation"] >= 0, call, -1)
    stream = streams.of_number(recorded["stream"])
    source = streams.of_number(recorded["source"])
    at = positions(calls["correlation"], recorded["record"])
    at = np.where(recorded["record"] >= 0, at, -1)
    # nsys: a record and a wait share the event, and the last record before the wait counts
    marks = np.flatnonzero(
        (recorded["sort"] == Call.RECORD) & (recorded["event"] >= 0) & (call >= 0)
    )
    asks = np.flatnonzero((recorded["sort"] != Call.RECORD) & (recorded["event"] >= 0) & (at < 0))
    if len(marks) and len(asks):
        key = np.stack([recorded["event"], np.where(call >= 0, calls["start_ns"][call], NONE)])
        order = marks[np.lexsort(key[::-1, marks])]
        place = _last_not_after(key[:, order], key[:, asks])
        known = place >= 0
        mark = order[place[known]]
        at[asks[known]] = call[mark]
        source[asks[known]] = stream[mark]
    return Records(call, recorded["sort"], stream, source, at)


def _last_not_after(keys: Ints, asked: Ints) -> Ints:
    """Return the last of sorted pairs with the first number of each asked and no larger second."""
    both = np.concatenate([keys, asked], axis=1)
    is_asked = np.arange(both.shape[1]) >= keys.shape[1]
    order = np.lexsort((is_asked, both[1], both[0]))
    latest = np.maximum.accumulate(np.where(is_asked[order], -1, order))
    found = np.empty(both.shape[1], np.int64)
    found[order] = latest
    place = found[keys.shape[1] :]
    fits = (place >= 0) & (keys[0, place] == asked[0])
    return np.where(fits, place, -1)


def recorded_waits(found: Records, calls: Columns, streams: Streams) -> tuple[Waits, Ints]:
    """Return the waits between streams that the profiler recorded, and the calls they cover."""
    known = (found.sort == Call.WAIT) & (found.call >= 0)
    known &= (found.stream >= 0) & (found.source >= 0) & (found.recorded >= 0)
    call, marked = found.call[known], found.recorded[known]
    target = streams.pick(found.stream[known], calls["start_ns"][call], after=True)
    source = streams.pick(found.source[known], calls["start_ns"][marked], after=False)
    pair = (source >= 0) & (target >= 0)
    return Waits(source[pair], target[pair]), call


def order_streams(calls: Columns) -> Flags:
    """Return which calls let a stream wait."""
    found: Flags = np.isin(calls["sort"], (Call.WAIT, Call.INNER))
    return found


def ordered_waits(calls: Columns, covered: Ints, streams: Streams) -> Waits:
    """Return the waits that the order of calls tells, of calls that no record covers."""
    if len(streams.begins) < 2:
        return NO_WAITS
    gpu, at = streams.gpu, calls["start_ns"]
    is_open = order_streams(calls)
    is_open[covered] = False
    waits = np.flatnonzero(is_open)
    launch_call = positions(calls["op_id"], gpu["launch"])
    launched = np.flatnonzero((launch_call >= 0) & (gpu["launch"] >= 0))
    if not len(waits) or not len(launched):
        return NO_WAITS
    main = streams.main
    stream_of = streams.of_ops()
    # what the thread launches next, and whether another wait comes before that
    by_thread = launched[
        np.lexsort((at[launch_call[launched]], calls["chain"][launch_call[launched]]))
    ]
    key = np.stack([calls["chain"][launch_call[by_thread]], at[launch_call[by_thread]]])
    following = _first_after(key, np.stack([calls["chain"][waits], at[waits]]))
    is_last = np.append(
        (following[1:] != following[:-1])
        | (calls["chain"][waits][1:] != calls["chain"][waits][:-1]),
        True,
    )
    next_op = np.where(following >= 0, by_thread[following], -1)
    for_side = is_last & (next_op >= 0) & (stream_of[next_op] != main)
    # that of a side stream
    target = next_op[for_side]
    source = streams.last_before(main, at[waits[for_side]])
    there = source >= 0
    to_side = Waits(source[there], target[there])
    for_main = ~for_side & (calls["sort"][waits] == Call.WAIT)
    return Waits.joined(to_side, _for_main(at[waits[for_main]], streams))


def _for_main(at: Ints, streams: Streams) -> Waits:
    """Return the waits of the main stream for what was last launched on a side stream."""
    target = streams.first_after(streams.main, at)
    at, target = at[target >= 0], target[target >= 0]
    best, best_called = np.full(len(at), -1, np.int64), np.full(len(at), NONE)
    for stream in range(len(streams.begins)):
        if stream == streams.main:
            continue
        source = streams.last_before(stream, at)
        fits = (source >= 0) & (streams.gpu["end_ns"][source] <= streams.gpu["start_ns"][target])
        better = fits & (streams.called[source] > best_called)
        best = np.where(better, source, best)
        best_called = np.where(better, streams.called[source], best_called)
    return Waits(best[best >= 0], target[best >= 0])


def _first_after(keys: Ints, asked: Ints) -> Ints:
    """Return the first of sorted pairs with the first number of each asked and a larger second."""
    place = -_last_not_after(-keys[:, ::-1], -asked) - 1
    return np.where(place == 0, -1, keys.shape[1] + place)


def waits_by_time(streams: Streams, ready: Ints) -> Waits:
    """Return the waits that times show: of ops that began later than `ready`, when another's ended.

    A wait that is seen in one step holds in the others too, unless one contradicts it.
    """
    late = np.flatnonzero((streams.gpu["start_ns"] - ready > IDLE_NS) & (ready > NONE))
    ended = _ended_before(streams, late)
    fits = (ended >= 0) & (_end(streams, ended) > ready[late])
    fits &= streams.gpu["start_ns"][late] - _end(streams, ended) <= PROMPT_NS
    latest = np.argmax(np.where(fits, _end(streams, ended), NONE), axis=0) if len(late) else late
    rows = np.flatnonzero(fits.any(axis=0))
    seen = Waits(ended[latest[rows], rows], late[rows])
    return Waits.joined(seen, _in_all_steps(seen, streams, 0))


def waits_by_place(streams: Streams, ready: Ints) -> Waits:
    """Return the waits that times alone show, where no call is recorded that orders streams.

    Of each stream the op that ended right before another began, and if none did the one that ended
    last: at the same places of at least half of all steps, and contradicted by none by more than
    `slop`.
    """
    start = streams.gpu["start_ns"]
    late = np.flatnonzero(start - ready > IDLE_NS)
    ended = _ended_before(streams, late)
    known = (ended >= 0) & (_end(streams, ended) > ready[late])
    prompt = known & (start[late] - _end(streams, ended) <= PROMPT_NS + streams.slop)
    last = known & (_end(streams, ended) == np.max(_end(streams, ended), axis=0, initial=NONE))
    stream, row = np.nonzero(np.where(prompt.any(axis=0), prompt, last))
    seen = Waits(ended[stream, row], late[row])
    step = streams.gpu["step"]
    steps = len(np.unique(step[step >= 0]))
    return _in_all_steps(seen, streams, steps / 2) if steps > 2 else seen


def _ended_before(streams: Streams, ops: Ints) -> Ints:
    """Return by stream the last op that ended before each of `ops` began; -1: none, or its own."""
    gpu = streams.gpu
    found = np.full((len(streams.begins), len(ops)), -1)
    for stream, (begin, end) in enumerate(streams.ranges()):
        ends = np.maximum.accumulate(gpu["end_ns"][begin:end])
        place = np.searchsorted(ends, gpu["start_ns"][ops] + streams.slop, side="right") - 1
        other = (place >= 0) & ((ops < begin) | (ops >= end))
        found[stream] = np.where(other, begin + place, -1)
    return found


def _end(streams: Streams, ops: Ints) -> Ints:
    return np.where(ops >= 0, streams.gpu["end_ns"][ops], NONE)


def _in_all_steps(seen: Waits, streams: Streams, least: float) -> Waits:
    """Return the waits at the same places of every step that are seen in at least some of them.

    Streams count that have as many ops in every step. A wait that a step contradicts is none.
    """
    gpu = streams.gpu
    step, stream = gpu["step"], streams.of_ops()
    stepped = np.flatnonzero(step >= 0)
    if not len(seen) or not len(stepped):
        return NO_WAITS
    steps, number = np.unique(step[stepped], return_inverse=True)
    cell = stream[stepped] * len(steps) + number
    order = np.lexsort((stepped, cell))
    sizes = np.bincount(cell, minlength=len(streams.begins) * len(steps))
    first = np.cumsum(sizes) - sizes
    member = stepped[order]
    # the place of each op on its stream within its step
    place = np.full(len(step), -1, np.int64)
    place[member] = np.arange(len(order)) - first[cell[order]]
    first, sizes = first.reshape(-1, len(steps)), sizes.reshape(-1, len(steps))
    alike = np.all(sizes == sizes[:, :1], axis=1)

    source, target = seen.source, seen.target
    same = (step[source] == step[target]) & (step[source] >= 0)
    same &= alike[stream[source]] & alike[stream[target]]
    source, target = source[same], target[same]
    places = np.stack([stream[source], place[source], stream[target], place[target]])
    keys, often = np.unique(places, axis=1, return_counts=True)
    keys = keys[:, often >= least]
    sources = member[first[keys[0]].T + keys[1]]
    targets = member[first[keys[2]].T + keys[3]]
    holds = np.all(gpu["end_ns"][sources] <= gpu["start_ns"][targets] + streams.slop, axis=0)
    return Waits(sources[:, holds].ravel(), targets[:, holds].ravel())


def in_time(waits: Waits, gpu: Columns, tolerance: int) -> Flags:
    """Return which waits the times do not contradict: nothing waits for what began after it, so
    that waits never go in a circle, however rough the times.
    """
    begun, begins = gpu["start_ns"][waits.source], gpu["start_ns"][waits.target]
    before = (begun < begins) | ((begun == begins) & (waits.source < waits.target))
    fits: Flags = before & (gpu["end_ns"][waits.source] <= begins + tolerance)
    return fits
