"""Which stream waits for which: from records of the profiler, from the order of calls, from times.

PyTorch lets a stream wait with two calls: cudaEventRecord marks what is on one stream so far, and
cudaStreamWaitEvent holds up what comes on another. Where the profiler recorded which streams and
which event (`cuda_sync` events of Kineto, synchronization and event tables of nsys), that is an
edge. Elsewhere the order of calls tells it: a wait right before a launch on a side stream lets that
stream wait for the main one, any other lets the main stream wait for what was last launched on a
side stream, unless it lies in the operator that asks for a collective: NCCL orders streams of its
own there. What starts right when an op of another stream ends, and not when anything else would
let it, waited for that op; and at the same place of other steps too, if no step contradicts it.
Nothing waits for what was launched after it.

Waits are pairs: two rows, the op that is waited for and the one that waits, by number.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from traceweave.arrays import Flags, Ints
from traceweave.replay.lookups import latest, numbered, places, positions, soonest, stretches
from traceweave.replay.nodes import FAR
from traceweave.replay.rows import COMPUTES, NONE, Call, Columns

PROMPT_NS = 30_000
"""An op that waited for another starts within this time of its end."""

SLOP_NS = 2_000
"""Times of ops of one device are no better than this against each other."""

MOST_SLOP_NS = 200_000
"""The same where ops are stretches of many kernels, taken down by the training loop: by SLOP_NS
alone two published jobs are slowed down by 1.246 and 2.138, not by 1.179 and 1.973."""

IDLE_NS = 3_000
"""An op that starts this much later than all known edges allow waits for something else."""

NO_WAITS = np.empty((2, 0), np.int64)


def each_once(*waits: Ints) -> Ints:
    """Return each pair of some waits once, in order."""
    return np.unique(np.concatenate([NO_WAITS, *waits], axis=1), axis=1)


class Streams:
    """The GPU ops of a rank, sorted by chain and start, and how to find them by time."""

    def __init__(self, gpu: Columns) -> None:
        self.gpu = gpu
        self.ranges = stretches(gpu["chain"])
        """First op and end of every stream."""
        self.called = gpu["called"].copy()
        """When each was launched, or an earlier one of its stream that was launched later."""
        for begin, end in self.ranges:
            np.maximum.accumulate(self.called[begin:end], out=self.called[begin:end])
        sizes = np.array([end - begin for begin, end in self.ranges], np.int64)
        self.of_op = np.repeat(np.arange(len(sizes)), sizes)
        """The stream of every op."""
        self.by_size = np.argsort(-sizes, kind="stable")

    @cached_property
    def slop(self) -> int:
        """By how much times may contradict each other, ns: little where ops are short."""
        length = (self.gpu["end_ns"] - self.gpu["start_ns"])[self.gpu["category"] == COMPUTES]
        usual = float(np.median(length)) if len(length) else 0
        return int(np.clip(usual / 500, SLOP_NS, MOST_SLOP_NS))

    def of_number(self, number: Ints) -> Ints:
        """Return the streams with the numbers that CUDA gave them, -1 for none.

        Of several contexts that with most ops is meant.
        """
        begins = np.array([begin for begin, _ in self.ranges], np.int64)
        place = positions(self.gpu["stream"][begins[self.by_size]], number)
        return np.where((place >= 0) & (number >= 0), np.append(self.by_size, -1)[place], -1)

    def pick(self, stream: Ints | int, at: Ints, after: bool = False) -> Ints:
        """Return the last op of a stream that was launched before each moment, or the first that
        was `after` it or then, -1 for none; of one stream, or each of its own."""
        found, stream = np.full(len(at), -1, np.int64), np.broadcast_to(stream, len(at))
        for one in np.unique(stream[stream >= 0]).tolist():
            (begin, end), mine = self.ranges[one], stream == one
            place = np.searchsorted(self.called[begin:end], at[mine], "left") + begin - (not after)
            there = (place >= begin) & (place < end) & (np.append(self.called, NONE)[place] > NONE)
            found[mine] = np.where(there, place, -1)
        return found

    def last_of_all(self, at: Ints, until: Ints, but: int = -1) -> Ints:
        """Return which op, last of its stream before a moment, was launched last of those that
        ended `until` then; of all streams but one; -1: none."""
        best, called = np.full(len(at), -1, np.int64), np.append(self.called, NONE)
        for stream in range(len(self.ranges)):
            if stream != but:
                op = self.pick(stream, at)
                better = (called[op] > called[best]) & (self.gpu["end_ns"][op] <= until)
                best = np.where(better, op, best)
        return best


def records(recorded: Columns, calls: Columns, streams: Streams) -> Columns:
    """Return what the profiler says of events and waits: the call that it belongs to, the stream
    that waits or on which the event was recorded, the stream that is waited for (source), and the
    call that recorded the event (marked); -1: unknown."""
    of_call = np.where(calls["correlation"] >= 0, calls["correlation"], NONE)
    call = positions(of_call, recorded["correlation"])
    marked = positions(of_call, recorded["record"])
    stream, source = (streams.of_number(recorded[name]) for name in ("stream", "source"))
    # nsys: a record and a wait share the event, and the last record before the wait counts
    marks, has_event = recorded["sort"] == Call.RECORD, recorded["event"] >= 0
    asks = np.flatnonzero(~marks & has_event & (marked < 0))
    marks = np.flatnonzero(marks & has_event & (call >= 0))
    if len(marks) and len(asks):
        event, at = recorded["event"], np.where(call >= 0, calls["start_ns"][call], NONE)
        place = latest(event[marks], at[marks], event[asks], at[asks])
        asks, mark = asks[place >= 0], marks[place[place >= 0]]
        marked[asks], source[asks] = call[mark], stream[mark]
    return {
        "sort": recorded["sort"], "call": call, "stream": stream, "source": source,
        "marked": marked,
    }  # fmt: skip


def told_waits(
    found: Columns, calls: Columns, streams: Streams, tolerance: int
) -> tuple[Ints, int, int]:
    """Return the waits that the profiler recorded, or that the order of other calls tells, how many
    are recorded, and how many more there are that times contradict."""
    known = (found["sort"] == Call.WAIT) & (found["call"] >= 0) & (found["marked"] >= 0)
    known &= (found["stream"] >= 0) & (found["source"] >= 0)
    stream, source, call, marked = (
        found[name][known] for name in ("stream", "source", "call", "marked")
    )
    target = streams.pick(stream, calls["start_ns"][call], after=True)
    source = streams.pick(source, calls["start_ns"][marked])
    recorded = np.stack([source, target])[:, (source >= 0) & (target >= 0)]
    told = each_once(recorded, _ordered(calls, call, streams))
    fits = in_time(told, streams.gpu, tolerance)
    return told[:, fits], recorded.shape[1], int(np.sum(~fits))


def order_streams(calls: Columns) -> Flags:
    """Return which calls let a stream wait."""
    found: Flags = np.isin(calls["sort"], (Call.WAIT, Call.INNER))
    return found


def _ordered(calls: Columns, covered: Ints, streams: Streams) -> Ints:
    """Return the waits that the order of calls tells, of calls that no record covers."""
    gpu, at, chain = streams.gpu, calls["start_ns"], calls["chain"]
    is_open = order_streams(calls)
    is_open[covered] = False
    waits = np.flatnonzero(is_open)
    launched = np.flatnonzero(gpu["call"] >= 0)
    if len(streams.ranges) < 2 or not len(waits) or not len(launched):
        return NO_WAITS
    main, call = int(streams.by_size[0]), gpu["call"][launched]
    # what the thread launches next, and whether another wait comes before that
    following = soonest(chain[call], at[call], chain[waits], at[waits])
    again = (following[1:] == following[:-1]) & (chain[waits[1:]] == chain[waits[:-1]])
    next_op = np.where(following >= 0, launched[following], -1)
    for_side = np.append(~again, True) & (next_op >= 0) & (streams.of_op[next_op] != main)
    source = streams.pick(main, at[waits[for_side]])
    to_side = np.stack([source, next_op[for_side]])[:, source >= 0]
    # the main stream waits for what was last launched on a side stream
    at = at[waits[~for_side & (calls["sort"][waits] == Call.WAIT)]]
    target = streams.pick(main, at, after=True)
    at, target = at[target >= 0], target[target >= 0]
    source = streams.last_of_all(at, gpu["start_ns"][target], but=main)
    return each_once(to_side, np.stack([source, target])[:, source >= 0])


def waits_by_time(streams: Streams, ready: Ints) -> Ints:
    """Return the waits that times show: of ops that began later than `ready`, when another's ended.

    A wait that is seen in one step holds in the others too, unless one contradicts it.
    """
    late = np.flatnonzero((streams.gpu["start_ns"] - ready > IDLE_NS) & (ready > NONE))
    ended, end = _ended_before(streams, late)
    fits = (end > ready[late]) & (streams.gpu["start_ns"][late] - end <= PROMPT_NS)
    rows = np.flatnonzero(fits.any(axis=0))
    if not len(rows):
        return NO_WAITS
    last = np.argmax(np.where(fits, end, NONE), axis=0)[rows]
    seen = np.stack([ended[last, rows], late[rows]])
    return each_once(seen, _in_all_steps(seen, streams, 0))


def waits_by_place(streams: Streams, ready: Ints) -> Ints:
    """Return the waits that times alone show, where no call is recorded that orders streams.

    Of each stream the op that ended right before another began, and if none did the one that ended
    last: at the same places of at least half of all steps, and contradicted by none by more than
    `slop`.
    """
    start = streams.gpu["start_ns"]
    late = np.flatnonzero(start - ready > IDLE_NS)
    ended, end = _ended_before(streams, late)
    known = (ended >= 0) & (end > ready[late])
    prompt = known & (start[late] - end <= PROMPT_NS + streams.slop)
    last = known & (end == np.max(end, axis=0, initial=NONE))
    stream, row = np.nonzero(np.where(prompt.any(axis=0), prompt, last))
    seen = np.stack([ended[stream, row], late[row]])
    step = streams.gpu["step"]
    steps = len(np.unique(step[step >= 0]))
    return _in_all_steps(seen, streams, steps / 2) if steps > 2 else seen


def _ended_before(streams: Streams, ops: Ints) -> tuple[Ints, Ints]:
    """Return by stream the last op that ended before each of `ops` began, of those that were not
    launched later (-1: none, or its own), and when it did."""
    gpu = streams.gpu
    found = np.full((len(streams.ranges), len(ops)), -1)
    called = np.where(streams.called[ops] > NONE, streams.called[ops], FAR)
    for stream, (begin, end) in enumerate(streams.ranges):
        ends = np.maximum.accumulate(gpu["end_ns"][begin:end])
        place = np.searchsorted(ends, gpu["start_ns"][ops] + streams.slop, side="right")
        place = np.minimum(place, np.searchsorted(streams.called[begin:end], called, "right")) - 1
        other = (place >= 0) & ((ops < begin) | (ops >= end))
        found[stream] = np.where(other, begin + place, -1)
    return found, np.where(found >= 0, gpu["end_ns"][found], NONE)


def _in_all_steps(seen: Ints, streams: Streams, least: float) -> Ints:
    """Return the waits at the same places of every step that are seen in at least some of them.

    Streams count that have as many ops in every step. A wait that a step contradicts is none.
    """
    gpu, stream = streams.gpu, streams.of_op
    stepped = np.flatnonzero(gpu["step"] >= 0)
    if not len(seen[0]) or not len(stepped):
        return NO_WAITS
    step = np.full(len(stream), -1)
    step[stepped], steps = numbered(gpu["step"][stepped])
    # the place of each op on its stream within its step, and the op at each place
    place = places(np.arange(len(stream)), stream, step)
    cell = stream[stepped] * steps + step[stepped]
    member = stepped[np.argsort(cell, kind="stable")]
    sizes = np.bincount(cell, minlength=len(streams.ranges) * steps)
    first = (np.cumsum(sizes) - sizes).reshape(-1, steps)
    sizes = sizes.reshape(-1, steps)
    alike = np.all(sizes == sizes[:, :1], axis=1)
    source, target = seen
    same = (step[source] == step[target]) & (step[source] >= 0)
    same &= alike[stream[source]] & alike[stream[target]]
    source, target = seen[:, same]
    keys, often = np.unique(
        np.stack([stream[source], place[source], stream[target], place[target]]),
        axis=1, return_counts=True,
    )  # fmt: skip
    source_stream, source_place, target_stream, target_place = keys[:, often >= least]
    sources = member[first[source_stream].T + source_place]
    targets = member[first[target_stream].T + target_place]
    holds = np.all(gpu["end_ns"][sources] <= gpu["start_ns"][targets] + streams.slop, axis=0)
    called = streams.called[targets]
    holds &= np.all((gpu["called"][sources] <= called) | (called <= NONE), axis=0)
    return np.stack([sources[:, holds].ravel(), targets[:, holds].ravel()])


def in_time(waits: Ints, gpu: Columns, tolerance: int) -> Flags:
    """Return which waits the times do not contradict: nothing waits for what began after it, so
    that waits never go in a circle, however rough the times.
    """
    source, target = waits
    begun, begins = gpu["start_ns"][source], gpu["start_ns"][target]
    before = (begun < begins) | ((begun == begins) & (source < target))
    fits: Flags = before & (gpu["end_ns"][source] <= begins + tolerance)
    return fits
