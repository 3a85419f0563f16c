"""One rank's share of the graph: its nodes, and the edges between them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import numpy as np

from traceweave.arrays import Flags, Ints
from traceweave.replay import device, full_queues, host
from traceweave.replay.nodes import EDGE_KINDS, FREE, Edge, Edges, Nodes, Sort, joined
from traceweave.replay.rows import NONE, Columns, RankRows, positions, sorted_by
from traceweave.replay.streams import Streams, order_streams, records

CATEGORIES = np.array([Sort.COMPUTE, Sort.COMMUNICATION, Sort.MEMORY])
"""Sorts of nodes by the category of an op."""


EARLY_NS = 500_000
"""Gloo wakes who waits for a collective, and then ends the range that the profiler shows of it: by
so much the caller may go on before that ends."""
IN_LATE = 20
"""Where cores are busy the range ends later, when its thread has one again. A caller that did
nothing for so many times as long has hardly gone on then by chance."""


@dataclass(frozen=True)
class RankGraph:
    """What ties the nodes of a rank together, numbered from 0."""

    rank: int
    edges: Edges
    arrival: Ints
    """The node with which the rank arrives at a collective; it transfers in the one after that."""
    came: Ints
    """The node after which the others need not wait for it: that one, or its send half."""
    instance: Ints
    """The collective it arrives at."""
    steps: Columns
    first_op: Ints
    """Of each step the node of its first GPU op; -1 for none."""
    dropped: Counter[str] = field(default_factory=Counter)
    """Edges that time contradicts, by kind."""
    facts: Counter[str] = field(default_factory=Counter)
    """What the graph rests on: counts by name."""


class _Numbers:
    """Numbers of nodes where some things are one node and others are two."""

    def __init__(self, two: Flags, begin: int) -> None:
        sizes = 1 + two.astype(np.int64)
        self.two = two
        self.of = np.repeat(np.arange(len(two)), sizes)
        """What each node belongs to."""
        self.first = begin + np.cumsum(sizes) - sizes
        self.last = self.first + two
        self.end = begin + int(sizes.sum())

    @property
    def second(self) -> Flags:
        """Whether each node is the second of two."""
        return np.append(False, self.of[1:] == self.of[:-1])[: len(self.of)]


def gpu_graph(rows: RankRows) -> tuple[Nodes, RankGraph]:
    """Return the nodes of a rank with a GPU, and what ties them together.

    Delays are not known yet, nor when transfers begin.
    """
    gpu = sorted_by(rows.gpu, "chain", "start_ns", "op_id")
    calls = sorted_by(host.with_begin(rows.calls, gpu, rows.steps), "chain", "start_ns", "op_id")
    copies = host.blocking_copies(gpu, calls, rows.pageable["op_id"])
    room = full_queues.made_room(gpu)
    room = np.where(room < 0, full_queues.let_in(gpu, calls, copies), room)
    gpu = full_queues.since_room(gpu, room)
    let_by = room.copy()
    let_by[copies] = np.where(room[copies] < 0, copies, room[copies])
    streams = Streams(gpu)
    found = records(rows.recorded, calls, streams)
    tolerance = rows.tick if rows.tick > 1 else 0
    dropped: Counter[str] = Counter()
    order = device.order(streams, copies, dropped)
    waits, inferred = device.stream_waits(streams, calls, found, order, tolerance, dropped)
    threads = host.threads(calls, streams, copies, room)
    op, call, contradicted = host.device_waits(threads, found, streams, let_by, device.CLOCKS_NS)
    dropped[EDGE_KINDS[Edge.HOST_WAIT]] += contradicted
    before, after = host.handovers(threads.own, rows.operators)

    arrives, sends, instance = _parts(rows.collectives, gpu)
    member = np.zeros(len(gpu["op_id"]), bool)
    member[arrives] = True
    ops = _Numbers(member, 0)
    own = _Numbers(threads.waits, ops.end)
    early = np.minimum(gpu["start_ns"][waits.target] - gpu["end_ns"][waits.source], 0)
    soon = np.minimum(threads.own["end_ns"][call] - gpu["end_ns"][op], 0)
    edges = Edges.joined(
        Edges.of(ops.last[waits.source], ops.first[waits.target], early, Edge.STREAM_WAIT),
        Edges(
            ops.last[op],
            own.last[call],
            soon,
            np.where(threads.queued[call], Edge.FULL_QUEUE, Edge.HOST_WAIT),
        ),
        Edges.of(own.last[before], own.first[after], np.zeros_like(before), Edge.HANDOVER),
    )
    launch = _launches(gpu, threads, order.launched)
    launches = np.where(threads.queued, own.last, own.first)
    on_device = _on_device(rows.rank, gpu, ops, order, launch, launches)
    nodes = joined(on_device, _on_host(rows, threads, own, op, call, gpu))
    graph = RankGraph(
        rows.rank,
        edges,
        ops.first[arrives],
        np.where(sends >= 0, ops.last[sends], ops.first[arrives]),
        instance,
        rows.steps,
        _first_ops(rows.steps, gpu, ops.first),
        dropped,
        Counter(
            ops=len(gpu["op_id"]),
            launched=int(np.sum(launch >= 0)),
            stream_waits=len(waits),
            inferred_waits=inferred,
            wait_calls=int(np.sum(order_streams(calls))),
            host_waits=int(np.sum(threads.waits & ~threads.queued)),
        ),
    )
    return nodes, graph


def _parts(collectives: Columns, gpu: Columns) -> tuple[Ints, Ints, Ints]:
    """Return the ops that carry collectives, their send halves (-1: none), and the instances."""
    op = positions(gpu["op_id"], collectives["gpu_op"])
    known = (op >= 0) & (collectives["gpu_op"] >= 0) & (collectives["instance"] >= 0)
    asked = collectives["send_op"][known]
    send = positions(gpu["op_id"], asked)
    return op[known], np.where(asked >= 0, send, -1), collectives["instance"][known]


def _launches(gpu: Columns, threads: host.Threads, launched: Flags) -> Ints:
    """Return which of the calls that are nodes launched each op, -1 for none."""
    call = positions(threads.calls["op_id"], gpu["launch"])
    known = launched & (call >= 0) & (gpu["launch"] >= 0)
    return np.where(known, threads.inside[call], -1) if len(threads.inside) else call


def _on_device(
    rank: int, gpu: Columns, ops: _Numbers, order: device.Order, launch: Ints, launches: Ints
) -> Nodes:
    second, of = ops.second, ops.of
    two = ops.two[of]
    sort = np.where(
        two, np.where(second, Sort.TRANSFER, Sort.ARRIVAL), CATEGORIES[gpu["category"]][of]
    )
    launched = (launch[of] >= 0) & ~second
    return Nodes.of(
        rank,
        gpu["start_ns"][of],
        chain=gpu["chain"][of],
        sort=sort,
        length=np.where(two & ~second, 0, (gpu["end_ns"] - gpu["start_ns"])[of]),
        lag=np.where(second, 0, order.lag[of]),
        launch=np.where(launched, launches[launch[of]], -1) if len(launches) else launch[of],
        launch_lag=order.launch_lag[of],
        step=gpu["step"][of],
        op_id=gpu["op_id"][of],
        name=gpu["name_id"][of],
        class_=gpu["class_id"][of],
    )


def _on_host(
    rows: RankRows, threads: host.Threads, own: _Numbers, op: Ints, call: Ints, gpu: Columns
) -> Nodes:
    calls, second, of = threads.own, own.second, own.of
    two = own.two[of]
    # what is waited for ends before the call does, and what comes after that is the call's own
    done = calls["start_ns"].copy()
    np.maximum.at(done, call, np.minimum(gpu["end_ns"][op], calls["end_ns"][call]))
    start = np.where(second, done[of], calls["start_ns"][of])
    end = np.where(two & ~second, calls["start_ns"][of], calls["end_ns"][of])
    leads = np.diff(calls["chain"], prepend=np.nan) != 0
    # what comes before the first call belongs to it, as its date does
    free = np.where(leads, 0, np.roll(calls["end_ns"], 1))
    held, by = host.held(rows.holds, calls["chain"], free, calls["start_ns"])
    inside, call_by = host.held(rows.holds, calls["chain"], calls["start_ns"], calls["end_ns"])
    call_by = np.where(2 * inside > calls["end_ns"] - calls["start_ns"], call_by, -1)
    return Nodes.of(
        rows.rank,
        start,
        chain=calls["chain"][of],
        sort=np.where(
            two & ~second, Sort.ENTER, np.where(two & ~threads.queued[of], Sort.EXIT, Sort.CALL)
        ),
        length=end - start,
        lag=np.where(second | ~leads[of], 0, FREE),
        held=np.where(second, 0, held[of]),
        held_by=np.where(second, -1, by[of]),
        call_by=np.where(two & ~(second & threads.frees[of]), -1, call_by[of]),
        step=calls["step"][of],
        op_id=calls["op_id"][of],
        name=calls["call_id"][of],
    )


def _first_ops(steps: Columns, gpu: Columns, first: Ints) -> Ints:
    """Return the node of the op that begins each step on the device."""
    found = np.full(len(steps["step"]), -1, np.int64)
    order = np.lexsort((gpu["start_ns"], gpu["step"]))
    place = np.searchsorted(gpu["step"][order], steps["step"])
    known = place < len(order)
    op = order[np.minimum(place, len(order) - 1)]
    known &= gpu["step"][op] == steps["step"]
    found[known] = first[op[known]]
    return found


def cpu_graph(rows: RankRows) -> tuple[Nodes, RankGraph]:
    """Return the same for a rank of a run without any GPU: operators and host collectives.

    A thread waits for a collective that ended between two of its operators.
    """
    # of what begins together the longest is around the others
    last = {"last_ns": -rows.cpu["end_ns"]}
    every = sorted_by({**rows.cpu, **last}, "chain", "start_ns", "last_ns", "op_id")
    outermost = host.outermost(every)
    cpu: Columns = {name: column[outermost] for name, column in every.items()}
    on_host = rows.collectives["gpu_op"] < 0
    of_host = {name: column[on_host] for name, column in rows.collectives.items()}
    comm = sorted_by(of_host, "chain", "start_ns", "op_id")
    member = comm["instance"] >= 0
    ops = len(cpu["op_id"])
    parts = _Numbers(member, ops)
    caller, launch_lag = _callers(cpu, comm)
    waited = np.hstack([_finished_between(cpu, comm), _messages_between(cpu, comm)])
    source, target = np.unique(waited, axis=1)
    before, after = host.handovers(cpu, cpu)
    of_comm = _host_collectives(rows.rank, comm, parts, caller, launch_lag)
    nodes = joined(_operators(rows, cpu), of_comm)
    edges = Edges.joined(
        Edges.of(
            parts.last[source],
            target,
            np.minimum(cpu["start_ns"][target] - comm["end_ns"][source], 0),
            Edge.HOST_WAIT,
        ),
        Edges.of(before, after, np.zeros_like(before), Edge.HANDOVER),
    )
    facts = Counter(
        ops=ops + len(member),
        launched=ops + len(member),
        host_waits=len(source),
        unfollowed=int(np.sum(~_followed(comm, source))),
    )
    none = np.full(len(rows.steps["step"]), -1)
    arrives = parts.first[member]
    part = comm["instance"][member]
    graph = RankGraph(rows.rank, edges, arrives, arrives, part, rows.steps, none, facts=facts)
    return nodes, graph


def _callers(cpu: Columns, comm: Columns) -> tuple[Ints, Ints]:
    """Return the operator in or after which each collective was asked for, and how long after."""
    both = np.lexsort((
        np.concatenate([cpu["start_ns"], comm["called"]]),
        np.concatenate([cpu["chain"], comm["caller"]]),
    ))  # fmt: skip
    latest = np.maximum.accumulate(np.where(both < len(cpu["chain"]), both, -1))
    found = np.empty(len(both), np.int64)
    found[both] = latest
    op = found[len(cpu["chain"]) :]
    known = (op >= 0) & (comm["called"] > NONE) & (comm["called"] <= comm["start_ns"])
    if len(cpu["chain"]):
        known &= cpu["chain"][op] == comm["caller"]
        return np.where(known, op, -1), np.where(known, comm["called"] - cpu["start_ns"][op], 0)
    return np.full(len(op), -1), np.zeros(len(op), np.int64)


def _finished_between(cpu: Columns, comm: Columns) -> tuple[Ints, Ints]:
    """Return pairs of a collective and the operator before which it ended: the last one that had
    when the operator began, or that did soon after, or else the next one.

    Where cores are busy a range ends late, when its thread has one again. Who did nothing from
    before the last member came until the quickest collective of its size would have been over, and
    for longer than the range is late, waited for it too.
    """
    if not len(comm["waited"]) or not len(cpu["chain"]):
        return np.empty(0, np.int64), np.empty(0, np.int64)
    by_end = np.argsort(comm["waited"], kind="stable")
    leads = np.diff(cpu["chain"], prepend=np.nan) != 0
    start, free = cpu["start_ns"], np.where(leads, cpu["start_ns"], np.roll(cpu["end_ns"], 1))
    idle, ends, found = start - free, comm["waited"][by_end], np.full(len(free), -1)
    ended, soon = (
        np.searchsorted(ends, start + early, side="right") - 1 for early in (0, EARLY_NS)
    )
    # of those that end at once the last was waited for, of two far apart the nearer
    for place in (ended, soon, soon + 1):
        one = by_end[np.clip(place, 0, len(by_end) - 1)]
        end, waited = comm["waited"][one], comm["together"][one] > free
        late = np.where(waited & (comm["soonest"][one] <= start), idle, idle // IN_LATE)
        waits = (place >= 0) & (place < len(by_end)) & (end > free)
        waits &= end <= start + np.maximum(late, EARLY_NS)
        waits &= comm["called"][one] < start  # for one that it asks for it does not wait
        found = np.where((found < 0) & waits, one, found)
    target = np.flatnonzero(found >= 0)
    return found[target], target


def _messages_between(cpu: Columns, comm: Columns) -> tuple[Ints, Ints]:
    """Return pairs of a message of gloo and the operator before which its caller waited for it.

    Their ranges are of the thread that asks, and end when it has waited, for one after the other:
    all that end between two operators were waited for, and the first may have taken all the time.
    """
    message = np.flatnonzero((comm["caller"] == comm["chain"]) & (comm["called"] > NONE))
    at = np.full(len(message), -1)
    for chain in np.unique(comm["chain"][message]).tolist():
        mine = np.flatnonzero(comm["chain"][message] == chain)
        first, last = np.searchsorted(cpu["chain"], [chain, chain + 1]).tolist()
        begun = np.searchsorted(cpu["start_ns"][first:last], comm["waited"][message[mine]])
        at[mine] = np.where(begun < last - first, first + begun, -1)
    # not inside the operator before
    before = at - 1
    known = (at > 0) & (comm["waited"][message] >= cpu["end_ns"][before])
    known &= cpu["chain"][before] == comm["chain"][message]
    return message[known], at[known]


def _followed(comm: Columns, source: Ints) -> Flags:
    """Return which collectives something waits for: an operator, or another one that it is known to
    wait for, by way of the thread of gloo that both were queued for.
    """
    found = np.zeros(len(comm["chain"]), bool)
    found[source] = True
    queued = comm["chain"][1:] == comm["chain"][:-1]
    queued &= (comm["called"][1:] > NONE) & (comm["called"][1:] <= comm["end_ns"][:-1])
    if not len(found):
        return found
    begins = np.append(True, ~queued)
    number = np.arange(len(found))
    last = np.maximum.reduceat(np.where(found, number, -1), np.flatnonzero(begins))
    held: Flags = number < last[np.cumsum(begins) - 1]
    return found | held


def _operators(rows: RankRows, cpu: Columns) -> Nodes:
    leads = np.diff(cpu["chain"], prepend=np.nan) != 0
    free = np.where(leads, 0, np.roll(cpu["end_ns"], 1))
    # ranges know a thread with its process, operators here do not
    holds = {**rows.holds, "chain": np.zeros(len(rows.holds["chain"]), np.int64)}
    main = cpu["chain"] == _most_common(cpu["chain"])
    held, by = host.held(holds, np.where(main, 0, 1), free, cpu["start_ns"])
    return Nodes.of(
        rows.rank,
        cpu["start_ns"],
        chain=cpu["chain"],
        sort=np.where(cpu["asks"] > 0, Sort.CALL, Sort.COMPUTE),
        length=cpu["end_ns"] - cpu["start_ns"],
        lag=np.where(leads, FREE, 0),
        held=held,
        held_by=by,
        step=cpu["step"],
        op_id=cpu["op_id"],
        name=cpu["name_id"],
        class_=cpu["class_id"],
    )


def _most_common(values: Ints) -> int:
    found, counts = np.unique(values, return_counts=True)
    return int(found[np.argmax(counts)]) if len(found) else -1


def _host_collectives(
    rank: int, comm: Columns, parts: _Numbers, launch: Ints, launch_lag: Ints
) -> Nodes:
    second, of = parts.second, parts.of
    two = parts.two[of]
    leads = np.diff(comm["chain"], prepend=np.nan) != 0
    free = np.where(leads, comm["start_ns"], np.roll(comm["end_ns"], 1))
    lag = np.where(leads | (comm["start_ns"] < free), FREE, 0)
    return Nodes.of(
        rank,
        comm["start_ns"][of],
        chain=comm["chain"][of] + (1 << 62),
        sort=np.where(two, np.where(second, Sort.TRANSFER, Sort.ARRIVAL), Sort.COMMUNICATION),
        length=np.where(two & ~second, 0, (comm["end_ns"] - comm["start_ns"])[of]),
        lag=np.where(second, 0, lag[of]),
        launch=np.where(second, -1, launch[of]),
        launch_lag=launch_lag[of],
        step=comm["step"][of],
        op_id=comm["op_id"][of],
    )
