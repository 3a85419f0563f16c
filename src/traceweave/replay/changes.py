"""A scenario applied to the graph: other lengths, delays and edges."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property
from typing import NoReturn

import duckdb
import numpy as np

from traceweave.arrays import Flags, Floats, Ints
from traceweave.errors import UsageError, suggest
from traceweave.replay.buckets import rebucketed, unasked
from traceweave.replay.contention import lost_shares
from traceweave.replay.graph import Graph
from traceweave.replay.idle import Idle
from traceweave.replay.latencies import effective_bytes, latencies
from traceweave.replay.likeness import Likeness
from traceweave.replay.lookups import Union, positions
from traceweave.replay.moves import on_own_streams, overlapped, prefetched
from traceweave.replay.nodes import HOLDS, KINDS, Edge, Edges, Nodes, Sort
from traceweave.replay.path import time_of
from traceweave.replay.scenario import Scenario
from traceweave.words import named, plural

_COLUMNS = ("delay", "held", "length", "launch_lag")
"""What nodes have of time."""

_UNMATCHED_CALLS = "SELECT count(*) FROM collectives WHERE collective_id IS NULL AND op = $1"


@dataclass
class Changed:
    """The graph of a scenario."""

    nodes: Nodes
    edges: Edges


class Changer:
    """Applies scenarios to the graph of a run."""

    def __init__(self, con: duckdb.DuckDBPyConnection, graph: Graph) -> None:
        self.con, self.graph = con, graph
        self._likeness = Likeness(con, graph)
        self._times: dict[str, Ints] = {}
        self.step = graph.nodes.step

    def apply(self, changed: Changed, scenario: Scenario) -> Changed:
        """Return the graph with one more scenario. Raises UsageError if it selects nothing."""
        selected = self._selected(scenario)
        nodes, edges = changed.nodes, changed.edges
        found = False
        for column in _COLUMNS:
            of = self._kinds(column)
            for kind in sorted(scenario.kinds):
                chosen = selected & (of == KINDS.index(kind))
                found = found or bool(np.any(chosen))
                nodes = self._with(nodes, kind, column, chosen, scenario)
        for kind in scenario.kinds & ({"sync"} if scenario.idle else {"sync", *HOLDS}):
            waits = selected & (self._kinds("length") == KINDS.index(kind))
            edges = edges.where(~((edges.kind == Edge.HOST_WAIT) & waits[edges.target]))
        if scenario.alone:
            edges = edges.where(~((edges.kind == Edge.COMPLETION) & selected[edges.target]))
            gone = selected & (nodes.sort == Sort.TRANSFER)
            nodes = unasked(self.graph, self.con, nodes, np.flatnonzero(gone))
            if not self.graph.has_gpu:
                # nor does the thread that asked for one wait until another has taken it up
                asked_by = nodes.launch[edges.source - 1]
                own = (asked_by >= 0) & (nodes.chain[asked_by] == nodes.chain[edges.target])
                edges = edges.where(~((edges.kind == Edge.HOST_WAIT) & gone[edges.source] & own))
        if scenario.overlap:
            nodes = overlapped(self.graph, nodes, selected) or _nothing(
                scenario, "no wait of a collective for another stream is known"
            )
        if scenario.bucket_mb is not None:
            most, alpha = scenario.bucket_mb * 1e6, latencies(self.graph, nodes.length)
            nodes = rebucketed(self.graph, self.con, nodes, selected, most, alpha)
        if scenario.prefetch is not None:
            moved = prefetched(self.graph, nodes, edges, selected, scenario.prefetch)
            nodes, edges = moved or _nothing(
                scenario, "no compute is known to wait for an all_gather"
            )
        if scenario.own_stream:
            moved = on_own_streams(self.con, self.graph, nodes, edges, selected)
            nodes, edges = moved or _nothing(
                scenario,
                "no collective is on a stream with compute, those of tensor parallelism left out",
            )
        if not found:
            _nothing(scenario, self._unmatched(scenario))
        return Changed(nodes, edges)

    def _unmatched(self, scenario: Scenario) -> str:
        """Return why a collective operation that was recorded is not selected; '' if it was not."""
        # to its end: DuckDB registers nothing while a result is open
        ((calls,),) = self.con.execute(_UNMATCHED_CALLS, [scenario.op]).fetchall()
        because = (
            f"of {scenario.op}, {plural(calls, 'call')} could not be matched over the ranks,"
            " so that their waiting and transfer are not known"
        )
        return because if calls else ""

    def _kinds(self, column: str) -> Ints:
        """Return what a column of the nodes is time of, a place in KINDS."""
        if column not in self._times:
            self._times[column] = time_of(self.graph, column).astype(np.int8)
        return self._times[column]

    # -- what is selected

    def _selected(self, s: Scenario) -> Flags:
        nodes, names = self.graph.nodes, self.graph.names
        chosen = np.ones(len(nodes), bool)
        if s.ranks is not None:
            _known("rank", s.ranks, self.graph.ranks)
            chosen &= np.isin(nodes.rank, list(s.ranks))
        if s.steps is not None:
            steps = frozenset(np.unique(self.step[self.step >= 0]).tolist())
            if not s.steps & steps:
                _known("step", s.steps, steps)
            chosen &= np.isin(self._idle.step if s.idle else self.step, list(s.steps))
        if s.class_ is not None:
            chosen &= self._named(s.class_, names.classes, nodes.class_, "class")
        if s.name is not None:
            chosen &= self._named(s.name, names.names, nodes.name, "name") & (
                nodes.sort <= Sort.TRANSFER
            )
        if s.streams is not None:
            chosen &= self._of_streams(s.streams)
        if s.op is not None:
            chosen &= self._of_op(s.op)
        if s.module is not None:
            chosen &= self._launched_within(s.module, "kind NOT IN ('runtime', 'driver', 'op')")
        if s.groups is not None:
            rows = self.con.execute("SELECT group_id FROM groups").fetchall()
            _known("group", s.groups, [group for (group,) in rows])
            of = np.isin(self.graph.instances["group_id"], sorted(s.groups))
            chosen &= self._of_instance(of)
        if s.bytes is not None:
            size = self.graph.instances["bytes"]
            chosen &= self._of_instance((size >= s.bytes[0]) & (size <= s.bytes[1]))
        if s.bucket_mb is not None:
            chosen &= self._of_instance(self.graph.instances["op"] == "all_reduce")
        if s.prefetch is not None:
            chosen &= self._of_instance(self.graph.instances["op"] == "all_gather")
        return chosen

    def _named(self, pattern: str, known: tuple[str, ...], column: Ints, what: str) -> Flags:
        matching = [n for n, name in enumerate(known) if name == pattern]
        matching = matching or [n for n, name in enumerate(known) if fnmatchcase(name, pattern)]
        if not matching:
            raise UsageError(f"this run has no {what} {pattern!r}{suggest(pattern, known)}")
        return np.isin(column, matching)

    def _of_streams(self, streams: frozenset[int]) -> Flags:
        nodes = self.graph.nodes
        of = "SELECT op_id, stream FROM gpu_ops WHERE stream IS NOT NULL ORDER BY op_id"
        ops = self.con.execute(of).fetchnumpy()
        _known("stream", streams, np.unique(ops["stream"]).tolist())
        mine = ops["op_id"][np.isin(ops["stream"], list(streams))]
        found: Flags = (nodes.sort < Sort.CALL) & np.isin(nodes.op_id, mine)
        return found

    def _of_instance(self, wanted: Flags) -> Flags:
        instance = self.graph.nodes.instance
        found: Flags = (instance >= 0) & np.append(wanted, False)[instance]
        return found

    def _of_op(self, op: str) -> Flags:
        ops = self.graph.instances["op"]
        if op in {*self.graph.names.comm_ops, *ops.tolist()}:
            return self._of_instance(np.array([one == op for one in ops], bool))
        known = ", ".join(sorted(set(ops.tolist()))) or "none"
        missing = f"no operator is called {op!r}, and no collective (there are {known})"
        return self._launched_within(op, "kind = 'op'", missing)

    def _launched_within(self, name: str, condition: str, missing: str = "") -> Flags:
        """Return which ops were launched, and which waits for the device ended, in a range of the
        host with this name. Raises UsageError, saying `missing`, where there is none.
        """
        graph, nodes = self.graph, self.graph.nodes
        like = "name = $name" if "*" not in name else "name GLOB $name"
        rows = self.con.execute(
            f"SELECT rank, (hash(pid, tid) >> 1)::BIGINT AS chain, start_ns - $origin AS begins,"
            f" end_ns - $origin AS ends FROM host_ops WHERE {condition} AND {like}"
            " AND rank IS NOT NULL",
            {"name": name, "origin": graph.origin},
        ).fetchnumpy()
        if not len(rows["rank"]):
            raise UsageError(missing or f"no range of this run's host is called {name!r}")
        if not graph.has_gpu:
            raise UsageError("operators and modules launch nothing in a run without a GPU")
        launched, exits = np.flatnonzero(nodes.launch >= 0), np.flatnonzero(nodes.sort == Sort.EXIT)
        call = np.append(nodes.launch[launched], exits)
        launched = np.append(launched, exits)
        inside = np.zeros(len(nodes), bool)
        for rank, chain in {*zip(rows["rank"].tolist(), rows["chain"].tolist(), strict=True)}:
            of = (rows["rank"] == rank) & (rows["chain"] == chain)
            mine = (nodes.rank[call] == rank) & (nodes.chain[call] == chain)
            ranges = Union(rows["begins"][of], rows["ends"][of])
            inside[launched[mine]] = ranges.holds(nodes.start[call[mine]])
        # what transfers follows what arrives
        inside[1:] |= inside[:-1] & (nodes.sort[1:] == Sort.TRANSFER)
        return inside

    # -- what changes

    def _with(self, nodes: Nodes, kind: str, column: str, chosen: Flags, s: Scenario) -> Nodes:
        if s.moves or not np.any(chosen):
            return nodes
        if column == "held" or (column == "delay" and kind == "launch"):
            # the part of a delay that `held` says is not launching
            held = nodes.held
            part = held if column == "held" else nodes.delay - held
            new = self._new(part, kind, column, chosen, s)
            if s.idle:
                # where in the delay it lies is not known
                share = self._idle.before / np.maximum(self.graph.nodes.delay, 1)
                new = part - np.rint((part - new) * np.minimum(share, 1)).astype(np.int64)
            other = nodes.delay - part
            return nodes.with_(delay=other + new, held=new if column == "held" else held)
        old = getattr(nodes, column)
        new = self._new(old, kind, column, chosen, s)
        if s.idle:
            of = self._idle.to_launch if column == "launch_lag" else self._idle.within
            new = np.maximum(new, old - of)
        return nodes.with_(**{column: new})

    @cached_property
    def _idle(self) -> Idle:
        return Idle(self.graph)

    def _new(self, old: Ints, kind: str, column: str, chosen: Flags, s: Scenario) -> Ints:
        time = old
        if column == "delay":
            # that of what follows nothing is its date
            depends = self.graph.nodes.depends(slice(None))
            chosen, time = chosen & depends, np.where(depends, old, 0)
        if s.like is not None:
            # first, as it takes the most memory
            number, sort = KINDS.index(kind), self.graph.nodes.sort
            sorts = np.unique(np.concatenate([sort[self._kinds(c) == number] for c in _COLUMNS]))
            rows, factor = self._likeness.factors(time, kind, sorts, chosen, s)
            values = np.rint(old[rows] * factor)
            del factor
            new = old.astype(np.int64)
            new[rows] = values
            return new
        new = old.astype(np.int64)
        if s.alone:
            new[chosen] = 0
        elif s.uncontended:
            new = np.rint(old * (1 - self._lost(chosen, s))).astype(np.int64)
        elif s.times is not None:
            new[chosen] = np.rint(old[chosen] * s.times).astype(np.int64)
        elif s.gbps is not None or s.alpha_us is not None:
            # of what could not be matched the size is not known, and a send half is no transfer
            nodes = self.graph.nodes
            chosen = chosen & (nodes.instance >= 0) & (nodes.sort != Sort.COMMUNICATION)
            new[chosen] = self._transfer(old, chosen, s)
        return new

    def _lost(self, chosen: Flags, s: Scenario) -> Floats:
        """Return which share of the length of each chosen node contention takes; 0: not known."""
        kernels, shares = self._contention
        place = positions(kernels, self.graph.nodes.op_id)
        known = chosen & (place >= 0)
        if not np.any(known):
            _nothing(
                s,
                "no kernel's work is known both alone and beside communication or copies; see the"
                " analysis contention",
            )
        return np.where(known, np.append(shares, 0.0)[place], 0.0)

    @cached_property
    def _contention(self) -> tuple[Ints, Floats]:
        return lost_shares(self.con)

    def _transfer(self, old: Ints, chosen: Flags, s: Scenario) -> Ints:
        """Return transfer times at another latency or bandwidth.

        Bandwidth is the bus bandwidth of nccl-tests. What is not given stays as a line through the
        medians by size has it.
        """
        at = self.graph.nodes.instance[chosen]
        alpha, old = latencies(self.graph, old)[at], old[chosen]
        least = alpha if s.alpha_us is None else s.alpha_us * 1000
        kept = np.maximum(old - alpha, 0)
        moved = kept if s.gbps is None else effective_bytes(self.graph)[at] / s.gbps
        known = self.graph.instances["bytes"][at] >= 0
        return np.where(known, np.rint(least + moved), old).astype(np.int64)


def _nothing(scenario: Scenario, why: str) -> NoReturn:
    because = f": {why}" if why else ""
    raise UsageError(f"scenario {scenario.text!r} selects nothing of this run{because}")


def _known(what: str, wanted: frozenset[int], known: Collection[int]) -> None:
    for one in sorted(wanted - set(known)):
        has = f"; it has {named(what, sorted(known))}" if known else ""
        raise UsageError(f"this run has no {what} {one}{has}")
