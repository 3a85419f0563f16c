"""Launching calls that find the queue of their stream full, or another thread in the driver.

The driver queues so many launches per stream. A call that finds it full returns when one of the ops
before it is done: it waits for the device, as a synchronizing call does, and takes no time of its
own meanwhile. So does one that finds the driver locked by a copy that holds up another thread.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from traceweave.arrays import Ints
from traceweave.replay.rows import NONE, Columns, positions
from traceweave.replay.streams import PROMPT_NS

DEPTH = 960
"""CUDA queues 1,024 launches. In five real traces (ns_resolution, nanogpt_8xh100, diff_test, an
offloading job's two ranks) 1,013 to 1,140 wait at most, as profilers see it; of the calls that find
960 or more and take longer than PROMPT_NS, all but one of 1,250 end within 53 us of an op's end."""

RETURN_NS = 100_000
"""A call returns so soon after there is room: as far as clocks of host and device can be off. Where
a copy held up another thread (two real jobs whose loaders launch), all 96 did within 46 us."""


def made_room(gpu: Columns) -> Ints:
    """Return by op which op's end let the call return that launched it; -1: it did not wait.

    `gpu` is sorted by chain and start.
    """
    found = np.full(len(gpu["op_id"]), -1)
    edges = np.flatnonzero(np.diff(gpu["chain"], prepend=np.nan, append=np.nan))
    for begin, stop in pairwise(edges.tolist()):
        if stop - begin > DEPTH:
            of_stream = {name: column[begin:stop] for name, column in gpu.items()}
            room = _of_stream(of_stream)
            found[begin:stop] = np.where(room >= 0, begin + room, -1)
    return found


def let_in(gpu: Columns, calls: Columns, copies: Ints) -> Ints:
    """Return by op which copy's end let the call return that launched it: it was made while that
    held up a call of another thread, and returned right after that one. -1: it did not wait."""
    found = np.full(len(gpu["op_id"]), -1)
    call = positions(calls["op_id"], gpu["launch"])
    called, returned, chain = (calls[name] for name in ("start_ns", "end_ns", "chain"))
    others = (call >= 0) & (gpu["launch"] >= 0) & (gpu["call_ns"] > PROMPT_NS)
    others[copies] = False
    op, copy = np.flatnonzero(others), copies[np.argsort(returned[call[copies]])]
    last = np.searchsorted(returned[call[copy]], returned[call[op]], "right") - 1
    op, copy = op[last >= 0], copy[last[last >= 0]]
    own, held = call[op], call[copy]
    waited = (chain[own] != chain[held]) & (called[own] > called[held])
    waited &= (called[own] < gpu["end_ns"][copy]) & (gpu["end_ns"][copy] <= gpu["start_ns"][op])
    waited &= returned[own] - returned[held] <= RETURN_NS
    waited &= gpu["end_ns"][copy] <= returned[own]
    found[op[waited]] = copy[waited]
    return found


def since_room(gpu: Columns, room: Ints) -> Columns:
    """Return the ops as if each call that waited for room had begun when there was some."""
    waited = room >= 0
    since = np.where(waited, gpu["end_ns"][room], gpu["called"])
    return {**gpu, "called": since, "call_ns": gpu["call_ns"] - (since - gpu["called"])}


def _of_stream(gpu: Columns) -> Ints:
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
