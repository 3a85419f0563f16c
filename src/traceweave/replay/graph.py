"""The graph of a whole run: the graphs of its ranks, tied together by collectives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from weakref import WeakKeyDictionary

import duckdb
import numpy as np

from traceweave.arrays import Flags, Ints
from traceweave.errors import QueryError
from traceweave.interrupts import go_on
from traceweave.replay.engine import Runs, replay, runs_of, slack
from traceweave.replay.lookups import numbered
from traceweave.replay.nodes import EDGE_KINDS, FAR, FREE, Collected, Edge, Edges, Nodes, Sort
from traceweave.replay.rank_graph import RankGraph, cpu_graph, gpu_graph
from traceweave.replay.relays import relayed
from traceweave.replay.rows import FEW_NODES, Columns, Names, Tables
from traceweave.store.database import asked_of


class NothingToReplayError(QueryError):
    """The run has no timeline."""


@dataclass(frozen=True)
class Graph:
    """All that a run did, and what had to wait for what."""

    origin: int
    """Times count from here, ns of the common clock."""
    ranks: tuple[int, ...]
    nodes: Nodes
    edges: Edges
    runs: Runs
    names: Names
    instances: Columns
    parts: tuple[RankGraph, ...]
    """What is known of each rank."""
    has_gpu: bool

    @cached_property
    def lone(self) -> Ints:
        """The nodes of calls that no other rank was found to have."""
        return np.flatnonzero((self.nodes.sort == Sort.COMMUNICATION) & (self.nodes.instance < 0))

    def replayed(self) -> Ints:
        """Return the start of every node, from lengths, delays and edges alone."""
        return replay(self.nodes, self.edges, self.runs)


_kept: WeakKeyDictionary[duckdb.DuckDBPyConnection, tuple[int, Graph]] = WeakKeyDictionary()
"""Of each connection the graph of the database that it was asked of last."""


def graph_of(con: duckdb.DuckDBPyConnection) -> Graph:
    """Return the graph of a run, built once where the database cannot change meanwhile.

    Raises QueryError as `build` does.
    """
    database, read_only = asked_of(con)
    if con in _kept and _kept[con][0] == database:
        return _kept[con][1]
    graph = build(con)
    if len(graph.nodes) <= FEW_NODES and read_only:
        _kept[con] = database, graph
    return graph


def build(con: duckdb.DuckDBPyConnection) -> Graph:
    """Read a run's tables and return its graph.

    Raises QueryError for a run without a timeline, and where replaying it unchanged does not give
    the times that were measured.
    """
    tables = Tables(con)
    make = gpu_graph if tables.has_gpu else cpu_graph
    collected = Collected(tables.most_nodes)
    parts: list[RankGraph] = []
    for rows in tables.ranks():
        go_on()
        nodes, part = make(rows)
        parts.append(part.shifted(collected.add(nodes), len(nodes)))
    if not parts:
        raise NothingToReplayError(
            "there is nothing to replay: no GPU op and no operator counts, see the analysis"
            " recording"
        )
    nodes, edges = _tied(collected, parts, tables.instances, tables.members())
    delay = slack(nodes, edges)
    holds = np.flatnonzero(nodes.held)
    nodes.held[holds] = np.clip(nodes.held[holds], 0, np.maximum(delay[holds], 0))
    nodes = nodes.with_(delay=delay)
    graph = Graph(
        tables.origin,
        tuple(part.rank for part in parts),
        nodes,
        edges,
        runs_of(nodes, edges),
        tables.names,
        tables.instances,
        tuple(parts),
        tables.has_gpu,
    )
    if not np.array_equal(graph.replayed(), nodes.start):
        raise QueryError(
            "replay is refused: replaying this run unchanged does not give the times measured"
        )
    return graph


def _tied(
    collected: Collected, parts: list[RankGraph], instances: Columns, members: Mapping[int, Ints]
) -> tuple[Nodes, Edges]:
    """Return the nodes of all ranks and of collectives, and all edges."""
    nodes = collected.nodes()
    # a rank transfers in the node after the one in which it arrives
    arrival, came, instance = (
        np.concatenate([getattr(part, name) for part in parts])
        for name in ("arrival", "came", "instance")
    )
    transfer = arrival + 1
    rank = np.repeat([p.rank for p in parts], [len(p.arrival) for p in parts])
    is_root = rank == instances["root"][instance]
    of_all, from_root = instances["root"][instance] < 0, instances["from_root"][instance] > 0
    # the root sends to others that wait for it alone, or waits for what all others send
    awaited, waits = of_all | ~from_root | is_root, of_all | (from_root != is_root)
    at, done = nodes.ends(came), nodes.ends(transfer)
    other, own = relayed(instance, rank, instances, members)
    by_pairs = np.zeros(len(instances["number"]), bool)
    by_pairs[instance[own]] = True
    awaited &= ~by_pairs[instance]
    other, own = (column[at[other] <= done[own]] for column in (other, own))
    together = np.full(len(instances["number"]), -FAR)
    np.maximum.at(together, instance[awaited], at[awaited])
    seen = (np.bincount(instance, minlength=len(together)) > 1) & (together > -FAR)

    awaited_ns = np.concatenate([part.awaited for part in parts])
    done = _over(done, together, instance, awaited_ns, instances)
    # who was done before the last one was there did not wait for it
    early = waits & (done < together[instance])
    ends = np.cumsum([len(part.arrival) for part in parts])
    for part, mine in zip(parts, np.split(early, ends), strict=False):
        part.dropped[EDGE_KINDS[Edge.COMPLETION]] += int(np.sum(mine))
    tied = seen[instance] & waits & ~early
    begin = np.minimum(np.where(tied, together[instance], at), done)
    np.maximum.at(begin, own, at[other])
    barrier = collected.add(_barriers(together, seen)) + np.cumsum(seen) - 1
    nodes = collected.nodes()
    # an op that carries several begins with the last of them
    np.maximum.at(nodes.start, transfer, begin)
    nodes.length[transfer] = done - nodes.start[transfer]
    for part_of in (came, arrival, transfer):
        nodes.instance[part_of] = instance
    lag = np.minimum(nodes.start[transfer] - together[instance], 0)
    edges = Edges.joined(
        *(part.edges for part in parts),
        Edges.of(came, barrier[instance], 0 * came, Edge.MEMBERS).where(awaited & seen[instance]),
        Edges.of(barrier[instance], transfer, lag, Edge.COMPLETION).where(tied),
        Edges.of(
            came[other], transfer[own], np.minimum(nodes.start[transfer[own]] - at[other], 0),
            Edge.COMPLETION,
        ),
    )  # fmt: skip
    return nodes, edges


def _over(done: Ints, together: Ints, instance: Ints, awaited: Ints, instances: Columns) -> Ints:
    """Return when parts were done: messages that nobody waited for longer than the quickest of
    their size takes may have been as quick, whenever somebody asked."""
    message = np.flatnonzero((awaited < FAR) & (together[instance] > -FAR))
    of = instance[message]
    size, count = numbered(instances["group_id"], instances["bytes"])
    quickest, longest = np.full(count, FAR), np.zeros(len(together), np.int64)
    np.minimum.at(quickest, size[of], np.maximum(done[message] - together[of], 0))
    np.maximum.at(longest, of, awaited[message])
    soonest = np.where(longest[of] > quickest[size[of]], FAR, together[of] + quickest[size[of]])
    done = done.copy()
    done[message] = np.minimum(done[message], soonest)
    return done


def _barriers(together: Ints, seen: Flags) -> Nodes:
    """Return a node for the moment at which all members of a collective are there."""
    number = np.flatnonzero(seen)
    sort, lag = np.full(len(number), Sort.BARRIER), np.full(len(number), FREE)
    return Nodes.of(-1, together[number], chain=number, sort=sort, lag=lag, instance=number)
