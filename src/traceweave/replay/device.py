"""What orders the GPU ops of a rank: their streams, their launches, and waits between streams."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

import numpy as np

from traceweave.arrays import Flags, Ints
from traceweave.replay.nodes import EDGE_KINDS, FREE, Edge
from traceweave.replay.rows import COPIES, NONE, Columns
from traceweave.replay.streams import (
    PROMPT_NS,
    Records,
    Streams,
    Waits,
    in_time,
    order_streams,
    ordered_waits,
    recorded_waits,
    waits_by_place,
    waits_by_time,
)

CLOCKS_NS = 100_000
"""A profiler brings the device's clock on the host's no better than this: in real traces all ops of
a rank lie up to 80 us before the calls that launched them."""

OVERLAP_NS = 30_000
"""The next op of a stream may begin this much before the end of the one before (programmatic
launch); more than that contradicts the order."""


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
    leads = np.zeros(len(start), bool)
    leads[streams.begins] = True
    free = np.where(leads, NONE, np.roll(gpu["end_ns"], 1))
    contradicted = ~leads & (start - free < -OVERLAP_NS)
    dropped["order"] += int(np.sum(contradicted))
    follows = ~leads & ~contradicted
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
    launch_lag = np.minimum(
        start - called, np.where(at_end, np.maximum(gpu["call_ns"], usual), usual)
    )
    # a copy takes another time to begin than a kernel
    copying = gpu["category"] == COPIES
    usual_lag = np.where(
        copying,
        _usual((start - free)[queued & copying]),
        _usual((start - free)[queued & ~copying]),
    )
    lag = np.minimum(start - free, usual_lag)
    return Order(np.where(follows, lag, FREE), launched, np.where(launched, launch_lag, 0))


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
    streams: Streams,
    calls: Columns,
    records: Records,
    order: Order,
    tolerance: int,
    dropped: Counter[str],
) -> tuple[Waits, int]:
    """Return the waits between streams that times do not contradict, and how many are inferred."""
    recorded, covered = recorded_waits(records, calls, streams)
    told = Waits.joined(recorded, ordered_waits(calls, covered, streams))
    fits = in_time(told, streams.gpu, tolerance)
    dropped[EDGE_KINDS[Edge.STREAM_WAIT]] += int(np.sum(~fits))
    told = Waits(told.source[fits], told.target[fits])
    seen = told
    if len(recorded) or np.any(order_streams(calls)):
        seen = waits_by_time(streams, _ready(streams.gpu, order, told))
    elif len(streams.begins) > 1:
        unlaunched = replace(order, launched=np.zeros_like(order.launched))
        seen = waits_by_place(streams, _ready(streams.gpu, unlaunched, told))
    fits = in_time(seen, streams.gpu, max(tolerance, streams.slop))
    every = Waits.joined(told, Waits(seen.source[fits], seen.target[fits]))
    return every, max(len(every) - len(recorded), 0)


def _ready(gpu: Columns, order: Order, waits: Waits) -> Ints:
    """Return when each op might have started, by all that is known; NONE where nothing is."""
    follows = order.lag > FREE
    ready = np.where(follows, np.roll(gpu["end_ns"], 1) + order.lag, NONE)
    by_launch = np.where(order.launched, gpu["called"] + order.launch_lag, NONE)
    ready = np.maximum(ready, by_launch)
    np.maximum.at(ready, waits.target, gpu["end_ns"][waits.source])
    return ready
