"""What orders the GPU ops of a rank: their streams, their launches, and waits between streams.

A launching call may have to wait. The driver queues so many launches per stream: a call that finds
it full returns when one of the ops before it is done. It waits for the device, as a synchronizing
call does, and takes no time of its own meanwhile. So does one that finds the driver locked by a
copy that holds up another thread.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

import numpy as np

from traceweave.arrays import Flags, Ints
from traceweave.replay.lookups import leads, stretches
from traceweave.replay.nodes import EDGE_KINDS, FREE, Edge
from traceweave.replay.rows import COPIES, NONE, Columns, where
from traceweave.replay.streams import (
    NO_WAITS,
    PROMPT_NS,
    Streams,
    in_time,
    order_streams,
    told_waits,
    waits_by_place,
    waits_by_time,
)

CLOCKS_NS = 100_000
"""A profiler brings the device's clock on the host's no better than this: in real traces all ops of
a rank lie up to 80 us before the calls that launched them."""

OVERLAP_NS = 30_000
"""The next op of a stream may begin this much before the end of the one before (programmatic
launch); more than that contradicts the order."""

DEPTH = 960
"""CUDA queues 1,024 launches. In five real traces (ns_resolution, nanogpt_8xh100, diff_test, an
offloading job's two ranks) 1,013 to 1,140 wait at most, as profilers see it; of the calls that find
960 or more and take longer than PROMPT_NS, all but one of 1,250 end within 53 us of an op's end."""

RETURN_NS = 100_000
"""A call returns so soon after there is room: as far as clocks of host and device can be off. Where
a copy held up another thread (two real jobs whose loaders launch), all 96 did within 46 us."""


@dataclass(frozen=True)
class Order:
    """The least distances between ops, launches and the ops before them on their streams."""

    lag: Ints
    """From the end of the op before; FREE: there is none, or time contradicts."""
    launched: Flags
    """Whether the launch is recorded, and not after the start by more than clocks are off."""
    launch_lag: Ints
    """From the start of the launching call; its length where the op began no sooner than it ended,
    or than clocks can tell: what a long call does (loading code, say), it does before it launches,
    and in real traces it returns up to 73 us after. One that waits for its copy launches at once,
    but for what it first has to stage."""


def order(streams: Streams, copies: Ints, dropped: Counter[str]) -> Order:
    """Return what streams and launches allow; `copies` held up their calls.

    What the device takes at least to begin is the usual of the rank, or less where an op was
    faster; what it takes longer than that is a delay of the op.
    """
    gpu = streams.gpu
    start, called = gpu["start_ns"], gpu["called"]
    first = leads(gpu["chain"])
    free = np.where(first, NONE, np.roll(gpu["end_ns"], 1))
    follows = ~first & (start - free >= -OVERLAP_NS)
    dropped["order"] += int(np.sum(~first & ~follows))
    known = called > NONE
    launched = known & (called <= start + CLOCKS_NS)
    dropped["launch"] += int(np.sum(known & ~launched))

    idle = launched & (~follows | (free <= called))
    queued = launched & follows & (free > called + PROMPT_NS)
    usual = _usual((start - called)[idle], -CLOCKS_NS)
    at_end = start - called >= gpu["call_ns"] - CLOCKS_NS
    # what began on a free stream before its own call returned waited for no more than that call
    during = idle & ~at_end & (start < called + gpu["call_ns"])
    at_end |= during & _waits_for_call(called, gpu) if np.any(during) else during
    # a call that waits for its copy is as long as that waits; staged is what comes from the host
    at_end[copies] &= ((gpu["from_host"] > 0) & (start - free > PROMPT_NS))[copies]
    at_once = np.where(at_end, np.maximum(gpu["call_ns"], usual), usual)
    # a copy takes another time to begin than a kernel
    copying = gpu["category"] == COPIES
    next_copy, next_kernel = ((start - free)[queued & of] for of in (copying, ~copying))
    lag = np.minimum(start - free, np.where(copying, _usual(next_copy), _usual(next_kernel)))
    launch_lag = np.where(launched, np.minimum(start - called, at_once), 0)
    return Order(np.where(follows, lag, FREE), launched, launch_lag)


def _waits_for_call(called: Ints, gpu: Columns) -> Flags:
    """Tell which ops only their own call can have let wait: it launched no others, as that of a
    graph does, and since it began no op ended that another stream may have waited for."""
    _, number, count = np.unique(called, return_inverse=True, return_counts=True)
    ends = np.sort(gpu["end_ns"])
    ended = np.searchsorted(ends, gpu["start_ns"], "right") - np.searchsorted(ends, called, "right")
    alone: Flags = (count[number] == 1) & (ended - (gpu["end_ns"] == gpu["start_ns"]) <= 0)
    return alone


def _usual(lags: Ints, least: int = 0) -> int:
    likely = lags[(lags >= least) & (lags <= PROMPT_NS)]
    return int(np.median(likely)) if len(likely) else 0


def stream_waits(
    streams: Streams, calls: Columns, records: Columns, order: Order, tolerance: int,
    dropped: Counter[str],
) -> tuple[Ints, Flags, int]:  # fmt: skip
    """Return the waits between streams that times do not contradict, which of them records or calls
    tell, and how many are not recorded."""
    told, recorded, contradicted = told_waits(records, calls, streams, tolerance)
    dropped[EDGE_KINDS[Edge.STREAM_WAIT]] += contradicted
    seen = NO_WAITS
    if recorded or np.any(order_streams(calls)):
        seen = waits_by_time(streams, _ready(streams.gpu, order, told))
    elif len(streams.ranges) > 1:
        unlaunched = replace(order, launched=np.zeros_like(order.launched))
        seen = waits_by_place(streams, _ready(streams.gpu, unlaunched, told))
    fits = in_time(seen, streams.gpu, max(tolerance, streams.slop))
    both = np.concatenate([told, seen[:, fits]], axis=1)
    waits, first = np.unique(both, axis=1, return_index=True)
    return waits, first < told.shape[1], max(waits.shape[1] - recorded, 0)


def _ready(gpu: Columns, order: Order, waits: Ints) -> Ints:
    """Return when each op might have started, by all that is known; NONE where nothing is."""
    follows = order.lag > FREE
    ready = np.where(follows, np.roll(gpu["end_ns"], 1) + order.lag, NONE)
    by_launch = np.where(order.launched, gpu["called"] + order.launch_lag, NONE)
    ready = np.maximum(ready, by_launch)
    source, target = waits
    np.maximum.at(ready, target, gpu["end_ns"][source])
    return ready


def made_room(gpu: Columns, calls: Columns, copies: Ints) -> Ints:
    """Return by op which op's end let the call return that launched it, of a full queue or of a
    copy that held up another thread; -1: it did not wait. `gpu` is sorted by chain and start."""
    room = np.full(len(gpu["op_id"]), -1)
    for begin, stop in stretches(gpu["chain"]):
        if stop - begin > DEPTH:
            found = _in_queue(where(gpu, slice(begin, stop)))
            room[begin:stop] = np.where(found >= 0, begin + found, -1)
    return np.where(room < 0, _behind_copies(gpu, calls, copies), room)


def _in_queue(gpu: Columns) -> Ints:
    launch, called = gpu["launch"], gpu["called"]
    # what one call launches, a graph say, is one launch
    number = np.cumsum(np.append(True, (launch[1:] != launch[:-1]) | (launch[1:] < 0))) - 1
    begun = np.append(number, number[-1] + 1)[np.searchsorted(gpu["start_ns"], called, "right")]
    ended = np.maximum.accumulate(gpu["end_ns"])
    returned = called + gpu["call_ns"]
    last = np.searchsorted(ended, returned, "right") - 1
    waited = (called > NONE) & (gpu["call_ns"] > PROMPT_NS) & (number - begun >= DEPTH)
    waited &= (last >= 0) & (ended[last] > called) & (returned - ended[last] <= RETURN_NS)
    return np.where(waited, last, -1)


def _behind_copies(gpu: Columns, calls: Columns, copies: Ints) -> Ints:
    """Return by op the copy during which it was launched, by a call that returned right after the
    one of another thread which that held up; -1: none."""
    found = np.full(len(gpu["op_id"]), -1)
    call = gpu["call"]
    called, returned, chain = (calls[name] for name in ("start_ns", "end_ns", "chain"))
    others = (call >= 0) & (gpu["call_ns"] > PROMPT_NS)
    others[copies] = False
    op, copy = np.flatnonzero(others), copies[np.argsort(returned[call[copies]])]
    last = np.searchsorted(returned[call[copy]], returned[call[op]], "right") - 1
    op, copy = op[last >= 0], copy[last[last >= 0]]
    own, held, copied = call[op], call[copy], gpu["end_ns"][copy]
    waited = (chain[own] != chain[held]) & (called[held] < called[own]) & (called[own] < copied)
    waited &= (copied <= gpu["start_ns"][op]) & (copied <= returned[own])
    waited &= returned[own] - returned[held] <= RETURN_NS
    found[op[waited]] = copy[waited]
    return found


def since_room(gpu: Columns, room: Ints) -> Columns:
    """Return the ops as if each call that waited for room had begun when there was some."""
    since = np.where(room >= 0, gpu["end_ns"][room], gpu["called"])
    return {**gpu, "called": since, "call_ns": gpu["call_ns"] - (since - gpu["called"])}
