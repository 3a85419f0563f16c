"""One rank's share of the graph: its nodes, and the edges between them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace

import numpy as np

from traceweave.arrays import Flags, Ints
from traceweave.replay import device, host
from traceweave.replay.lookups import latest, leads, most_common, positions, soonest
from traceweave.replay.nodes import EDGE_KINDS, FAR, FREE, Edge, Edges, Nodes, Sort, joined, part_of
from traceweave.replay.rows import NONE, Call, Columns, RankRows, sorted_by, where
from traceweave.replay.streams import Streams, order_streams, records

CATEGORIES = np.array([Sort.COMPUTE, Sort.COMMUNICATION, Sort.MEMORY])
"""Sorts of nodes by the category of an op."""

END = host.BEGIN - 1
"""The op_id of the end of the last of some steps in a row."""

EARLY_NS = 500_000
"""Gloo wakes who waits for a collective, and then ends the range that the profiler shows of it: by
so much the caller may go on before that ends."""
IN_LATE = 20
"""Where cores are busy the range ends later, when its thread has one again. A caller that did
nothing for so many times as long has hardly gone on then by chance."""


@dataclass(frozen=True)
class RankGraph:
    """What ties the nodes of a rank together; numbered from 0 until it is `shifted`."""

    rank: int
    edges: Edges
    arrival: Ints
    """The node with which the rank arrives at a collective; it transfers in the one after that."""
    came: Ints
    """The node after which the others need not wait for it: that one, or its send half."""
    instance: Ints
    """The collective it arrives at."""
    awaited: Ints
    """How long somebody did nothing else until it was over; FAR: it ends by itself."""
    steps: Columns
    first_op: Ints
    """Of each step the node of its first GPU op; -1 for none."""
    dropped: Counter[str] = field(default_factory=Counter)
    """Edges that time contradicts, by kind."""
    facts: Counter[str] = field(default_factory=Counter)
    """What the graph rests on: counts by name."""
    nodes: slice = field(default_factory=lambda: slice(0))
    """Where its nodes are."""

    def shifted(self, first: int, count: int) -> RankGraph:
        """Return the same in a graph in which its nodes, so many, begin at `first`."""
        edges = replace(
            self.edges, source=self.edges.source + first, target=self.edges.target + first
        )
        return replace(
            self,
            edges=edges,
            arrival=self.arrival + first,
            came=self.came + first,
            first_op=np.where(self.first_op >= 0, self.first_op + first, -1),
            nodes=slice(first, first + count),
        )


class _Numbers:
    """Numbers of nodes where some things are one node and others are two."""

    def __init__(self, two: Flags, begin: int) -> None:
        sizes = 1 + two.astype(np.int64)
        self._two = two
        self.first = begin + np.cumsum(sizes) - sizes
        self.last = self.first + two
        self.end = begin + int(sizes.sum())

    def split(self, nodes: Nodes, sorts: tuple[int, int], begins: Ints) -> Nodes:
        """Return the nodes, given one of each: of two, the first takes no time, and the second has
        the rest from when it begins, and depends on the first alone."""
        of = np.repeat(np.arange(len(self._two)), 1 + self._two.astype(np.int64))
        second = np.append(False, of[1:] == of[:-1])[: len(of)]
        both, nodes = self._two[of], part_of(nodes, of)
        start = np.where(second, begins[of], nodes.start)
        length = np.where(second, nodes.end - start, np.where(both, 0, nodes.length))
        return nodes.with_(
            start=start,
            length=length,
            sort=np.where(both, np.where(second, sorts[1], sorts[0]), nodes.sort),
            lag=np.where(second, 0, nodes.lag),
            launch=np.where(second, -1, nodes.launch),
            held=np.where(second, 0, nodes.held),
            held_by=np.where(second, -1, nodes.held_by),
            call_by=np.where(both & ~second, -1, nodes.call_by),
        )


class Ordered:
    """What orders the ops of a rank on its device, and its calls by what they wait for there."""

    def __init__(self, rows: RankRows) -> None:
        gpu = sorted_by(rows.gpu, "chain", "start_ns", "op_id")
        begun = host.with_begin(rows.calls, gpu, rows.steps)
        self.calls = sorted_by(begun, "chain", "start_ns", "op_id")
        gpu = {**gpu, "call": positions(self.calls["op_id"], gpu["launch"])}
        self.copies = host.blocking_copies(gpu, self.calls, rows.pageable["op_id"])
        self.room = device.made_room(gpu, self.calls, self.copies)
        self.let_by = self.room.copy()
        own = self.copies[self.room[self.copies] < 0]
        self.let_by[own] = own
        """Which op's end let the call of each return: what made room, or its own, of a copy."""
        self.gpu = device.since_room(gpu, self.room)
        self.streams = Streams(self.gpu)
        self.records = records(rows.recorded, self.calls, self.streams)
        self.dropped: Counter[str] = Counter()
        self.order = device.order(self.streams, self.copies, self.dropped)
        self.waits, self.is_told, self.inferred = device.stream_waits(
            self.streams, self.calls, self.records, self.order,
            rows.tick if rows.tick > 1 else 0, self.dropped,
        )  # fmt: skip
        """Which op of another stream each waits for: two rows, by place in `gpu`; whether records
        or calls tell it, not times alone; and how many are not recorded."""


def gpu_graph(rows: RankRows) -> tuple[Nodes, RankGraph]:
    """Return the nodes of a rank with a GPU, and what ties them together.

    Delays are not known yet, nor when transfers begin.
    """
    of = Ordered(rows)
    gpu, order = of.gpu, of.order
    threads = host.threads(of.calls, of.streams, of.copies, of.room)
    op, call, contradicted = host.device_waits(threads, of.records, of.streams, of.let_by)
    of.dropped[EDGE_KINDS[Edge.HOST_WAIT]] += contradicted
    own = threads.own
    before, after = host.handovers(own)

    arrives, sends, instance = _parts(rows.collectives, gpu)
    member = np.zeros(len(gpu["op_id"]), bool)
    member[arrives] = True
    ops = _Numbers(member, 0)
    does_wait, queued = own["sort"] != Call.LAUNCH, own["sort"] == Call.ROOM
    numbers = _Numbers(does_wait, ops.end)
    source, target = of.waits
    early = np.minimum(gpu["start_ns"][target] - gpu["end_ns"][source], 0)
    soon = np.minimum(own["end_ns"][call] - gpu["end_ns"][op], 0)
    kind = np.where(queued[call], Edge.FULL_QUEUE, Edge.HOST_WAIT)
    edges = Edges.joined(
        Edges.of(ops.last[source], ops.first[target], early, Edge.STREAM_WAIT),
        Edges(ops.last[op], numbers.last[call], soon, kind),
        Edges.of(numbers.last[before], numbers.first[after], 0 * before, Edge.HANDOVER),
    )
    launch = np.where(order.launched, np.append(threads.inside, -1)[gpu["call"]], -1)
    # a call that waits for room launches when there is some
    launcher = np.append(np.where(queued, numbers.last, numbers.first), -1)[launch]
    sorts = Sort.ARRIVAL, Sort.TRANSFER
    on_device = ops.split(_ops(rows.rank, gpu, order, launcher), sorts, gpu["start_ns"])
    # what is waited for ends before the call does, and what comes after that is the call's own
    done = own["start_ns"].copy()
    np.maximum.at(done, call, np.minimum(gpu["end_ns"][op], own["end_ns"][call]))
    on_host = numbers.split(_calls(rows, own), (Sort.ENTER, Sort.EXIT), done)
    on_host.sort[numbers.last[queued] - ops.end] = Sort.CALL
    graph = RankGraph(
        rows.rank,
        edges,
        ops.first[arrives],
        np.where(sends >= 0, ops.last[sends], ops.first[arrives]),
        instance,
        np.full(len(instance), FAR),
        rows.steps,
        _first_ops(rows.steps, gpu, ops.first),
        of.dropped,
        Counter(
            ops=len(gpu["op_id"]),
            launched=int(np.sum(launch >= 0)),
            stream_waits=len(source),
            inferred_waits=of.inferred,
            wait_calls=int(np.sum(order_streams(of.calls))),
            host_waits=int(np.sum(does_wait & ~queued)),
        ),
    )
    return joined(on_device, on_host), graph


def _parts(collectives: Columns, gpu: Columns) -> tuple[Ints, Ints, Ints]:
    """Return the ops that carry collectives, their send halves (-1: none), and the instances."""
    # no op has the number of none
    op, send = (positions(gpu["op_id"], collectives[name]) for name in ("gpu_op", "send_op"))
    known = (op >= 0) & (collectives["instance"] >= 0)
    return op[known], send[known], collectives["instance"][known]


def _ops(rank: int, gpu: Columns, order: device.Order, launch: Ints) -> Nodes:
    """Return a node for each op of the device."""
    return Nodes.of(
        rank,
        gpu["start_ns"],
        chain=gpu["chain"],
        sort=CATEGORIES[gpu["category"]],
        length=gpu["end_ns"] - gpu["start_ns"],
        lag=order.lag,
        launch=launch,
        launch_lag=order.launch_lag,
        step=gpu["step"],
        op_id=gpu["op_id"],
        name=gpu["name_id"],
        class_=gpu["class_id"],
    )


def _calls(rows: RankRows, calls: Columns) -> Nodes:
    """Return a node for each call of the host."""
    start, end, waits = calls["start_ns"], calls["end_ns"], calls["sort"] != Call.LAUNCH
    first = leads(calls["chain"])
    # what comes before the first call belongs to it, as its date does
    free = np.where(first, 0, np.roll(end, 1))
    held, by = host.held(rows.holds, calls["chain"], free, start)
    inside, call_by = host.held(rows.holds, calls["chain"], start, end)
    frees = calls["sort"] == Call.FREES
    is_held = (2 * inside > end - start) & (~waits | frees)
    return Nodes.of(
        rows.rank,
        start,
        chain=calls["chain"],
        sort=np.full(len(start), Sort.CALL),
        length=end - start,
        lag=np.where(first, FREE, 0),
        held=held,
        held_by=by,
        call_by=np.where(is_held, call_by, -1),
        step=calls["step"],
        op_id=calls["op_id"],
        name=calls["call_id"],
    )


def _first_ops(steps: Columns, gpu: Columns, first: Ints) -> Ints:
    """Return the node of the op that begins each step on the device."""
    op = soonest(gpu["step"], gpu["start_ns"], steps["step"], np.full(len(steps["step"]), NONE))
    return np.append(first, -1)[op]


def cpu_graph(rows: RankRows) -> tuple[Nodes, RankGraph]:
    """Return the same for a rank of a run without any GPU: operators and host collectives.

    A thread waits for a collective that ended between two of its operators.
    """
    # of what begins together the longest is around the others
    ops = _with_marks(rows.cpu, rows.steps)
    every = sorted_by({**ops, "last_ns": -ops["end_ns"]}, "chain", "start_ns", "last_ns", "op_id")
    cpu = where(every, host.outermost(every))
    of_host = where(rows.collectives, rows.collectives["gpu_op"] < 0)
    comm = sorted_by(of_host, "chain", "start_ns", "op_id")
    member = comm["instance"] >= 0
    parts = _Numbers(member, len(cpu["op_id"]))
    done = int(np.sum(cpu["op_id"] >= 0)) + len(member)
    message, at = _messages_between(cpu, comm)
    waited = np.hstack([_finished_between(cpu, comm), (message, at)])
    source, target = np.unique(waited, axis=1)
    early = np.minimum(cpu["start_ns"][target] - comm["end_ns"][source], 0)
    edges = Edges.of(parts.last[source], target, early, Edge.HOST_WAIT)
    facts = Counter(
        ops=done,
        launched=done,
        host_waits=len(source),
        unfollowed=int(np.sum(~_followed(comm, source))),
    )
    transfers = _host_collectives(rows.rank, cpu, comm)
    transfers = parts.split(transfers, (Sort.ARRIVAL, Sort.TRANSFER), comm["start_ns"])
    none = np.full(len(rows.steps["step"]), -1)
    arrives = parts.first[member]
    part, awaited = comm["instance"][member], _awaited(cpu, comm, message, at)[member]
    graph = RankGraph(
        rows.rank, edges, arrives, arrives, part, awaited, rows.steps, none, facts=facts
    )  # fmt: skip
    return joined(_operators(rows, cpu), transfers), graph


def _with_marks(cpu: Columns, steps: Columns) -> Columns:
    """Return operators with two more, of no length, for each stretch of steps in a row that have
    some: where it begins, whatever came before, and where it ends. What the thread with most
    operators does between them and its operators it does in the step."""
    main = cpu["chain"][most_common(cpu["chain"])][:1]
    steps = where(steps, np.isin(steps["step"], cpu["step"]))
    step = steps["step"]
    if not len(step):
        return cpu
    apart = np.diff(step) != 1
    first, last = np.append(True, apart), np.append(apart, True)
    at = np.append(steps["start_ns"][first], steps["end_ns"][last])
    begins = np.arange(len(at)) < np.sum(first)
    marks = {
        "op_id": np.where(begins, host.BEGIN, END), "chain": np.repeat(main, len(at)),
        "start_ns": at, "end_ns": at, "step": np.append(step[first], step[last]),
        "asks": np.ones(len(at)),
    }  # fmt: skip
    none = np.full(len(at), -1)
    return {
        name: np.append(column, marks.get(name, none)).astype(column.dtype)
        for name, column in cpu.items()
    }


def _finished_between(cpu: Columns, comm: Columns) -> tuple[Ints, Ints]:
    """Return pairs of a collective and the operator before which it ended: the last one that had
    when the operator began, or that did soon after, or else the next one. Messages end exactly
    (`_messages_between`).

    Where cores are busy a range ends late, when its thread has one again. Who did nothing from
    before the last member came until the quickest collective of its size would have been over, and
    for longer than the range is late, waited for it too.
    """
    by_end = np.argsort(comm["waited"], kind="stable")
    by_end = by_end[~_of_caller(comm)[by_end]]
    if not len(by_end) or not len(cpu["chain"]):
        return np.empty(0, np.int64), np.empty(0, np.int64)
    start = cpu["start_ns"]
    free = np.where(leads(cpu["chain"]), start, np.roll(cpu["end_ns"], 1))
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
    message = np.flatnonzero(_of_caller(comm) & (comm["called"] > NONE))
    chain, waited = comm["chain"][message], comm["waited"][message]
    at = soonest(cpu["chain"], cpu["start_ns"], chain, waited)
    # not inside the operator before
    message, at, chain, waited = (column[at > 0] for column in (message, at, chain, waited))
    known = (cpu["chain"][at - 1] == chain) & (waited >= cpu["end_ns"][at - 1])
    return message[known], at[known]


def _awaited(cpu: Columns, comm: Columns, message: Ints, at: Ints) -> Ints:
    """Return for how long who waited for a message did nothing else until then; 0 where that was
    after the other side had: one message after the other, and before that an operator. FAR: no
    message."""
    order = np.lexsort((comm["waited"][message], at))
    message, at = message[order], at[order]
    waited = comm["waited"][message]
    before = np.where(leads(at), NONE, np.roll(waited, 1))
    found = np.where(_of_caller(comm), 0, FAR)
    ends = waited <= comm["end_ns"][message]
    free = np.maximum(before, cpu["end_ns"][at - 1])
    found[message] = np.where(ends, np.maximum(waited - free, 0), 0)
    return found


def _of_caller(comm: Columns) -> Flags:
    """Return whether the range of each is of the thread that asks for it: a message of gloo."""
    found: Flags = comm["caller"] == comm["chain"]
    return found


def _followed(comm: Columns, source: Ints) -> Flags:
    """Return which collectives something waits for: an operator, or another one that it is known to
    wait for, by way of the thread of gloo that both were queued for.
    """
    found = np.zeros(len(comm["chain"]), bool)
    found[source] = True
    begins = leads(comm["chain"])
    begins[1:] |= (comm["called"][1:] <= NONE) | (comm["called"][1:] > comm["end_ns"][:-1])
    queue, number, last = np.cumsum(begins) - 1, np.arange(len(found)), np.full(len(found), -1)
    np.maximum.at(last, queue[found], number[found])
    held: Flags = number <= last[queue]
    return held


def _operators(rows: RankRows, cpu: Columns) -> Nodes:
    first = leads(cpu["chain"]) | (cpu["op_id"] == host.BEGIN)
    free = np.where(first, 0, np.roll(cpu["end_ns"], 1))
    # ranges know a thread with its process, operators here do not
    holds = {**rows.holds, "chain": np.zeros(len(rows.holds["chain"]), np.int64)}
    of_main = np.where(most_common(cpu["chain"]), 0, 1)
    held, by = host.held(holds, of_main, free, cpu["start_ns"])
    return Nodes.of(
        rows.rank,
        cpu["start_ns"],
        chain=cpu["chain"],
        sort=np.where(cpu["asks"] > 0, Sort.CALL, Sort.COMPUTE),
        length=cpu["end_ns"] - cpu["start_ns"],
        lag=np.where(first, FREE, 0),
        held=held,
        held_by=by,
        step=cpu["step"],
        op_id=cpu["op_id"],
        name=cpu["name_id"],
        class_=cpu["class_id"],
    )


def _host_collectives(rank: int, cpu: Columns, comm: Columns) -> Nodes:
    """Return a node for each collective, launched by the operator in or after which it was asked
    for."""
    start, called = comm["start_ns"], comm["called"]
    first = leads(comm["chain"])
    free = np.where(first, start, np.roll(comm["end_ns"], 1))
    caller = latest(cpu["chain"], cpu["start_ns"], comm["caller"], called)
    caller = np.where((called > NONE) & (called <= start), caller, -1)
    asked = np.where(caller >= 0, called - np.append(cpu["start_ns"], 0)[caller], 0)
    return Nodes.of(
        rank,
        start,
        chain=comm["chain"] + (1 << 62),
        sort=np.full(len(start), Sort.COMMUNICATION),
        length=comm["end_ns"] - start,
        lag=np.where(first | (start < free), FREE, 0),
        launch=caller,
        launch_lag=asked,
        step=comm["step"],
        op_id=comm["op_id"],
    )
