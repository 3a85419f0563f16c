"""The graph of a whole run: the graphs of its ranks, tied together by collectives."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import duckdb
import numpy as np

from traceweave.arrays import Flags, Ints
from traceweave.errors import QueryError
from traceweave.replay.engine import Runs, replay, runs_of, slack
from traceweave.replay.nodes import (
    BARRIER,
    COMPLETION,
    EDGE_KINDS,
    FAR,
    MEMBERS,
    Edges,
    Nodes,
    joined,
)
from traceweave.replay.rank_graph import RankGraph, cpu_graph, gpu_graph
from traceweave.replay.rows import Columns, Names, Tables


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
    """What is known of each rank; its nodes begin at `first`."""
    first: Ints
    has_gpu: bool

    @property
    def dropped(self) -> Counter[str]:
        """Edges that time contradicts, by kind."""
        return sum((part.dropped for part in self.parts), Counter())

    def replayed(self) -> Ints:
        """Return the start of every node, from lengths, delays and edges alone."""
        return replay(self.nodes, self.edges, self.runs)


def build(con: duckdb.DuckDBPyConnection) -> Graph:
    """Read a run's tables and return its graph.

    Raises QueryError for a run without a timeline, and where replaying it unchanged does not give
    the times that were measured.
    """
    tables = Tables(con)
    make = gpu_graph if tables.has_gpu else cpu_graph
    parts = [make(rows) for rows in tables.ranks()]
    if not parts:
        raise NothingToReplayError(
            "there is nothing to replay: no GPU ops and no operators were recorded"
        )
    first = np.cumsum([0, *(len(part.nodes) for part in parts)])
    nodes, edges = _tied(parts, first, tables.instances)
    delay = slack(nodes, edges)
    nodes = nodes.with_(delay=delay, loading=np.clip(nodes.loading, 0, np.maximum(delay, 0)))
    graph = Graph(
        tables.origin,
        tuple(part.rank for part in parts),
        nodes,
        edges,
        runs_of(nodes, edges),
        tables.names,
        tables.instances,
        tuple(parts),
        first[:-1],
        tables.has_gpu,
    )
    if not np.array_equal(graph.replayed(), nodes.start):
        raise QueryError(
            "replay is refused: replaying this run unchanged does not give the times measured"
        )
    return graph


def _tied(parts: list[RankGraph], first: Ints, instances: Columns) -> tuple[Nodes, Edges]:
    """Return the nodes of all ranks and of collectives, and all edges."""
    nodes = joined([part.nodes for part in parts], renumber=True)
    edges = [
        Edges(part.edges.source + shift, part.edges.target + shift, part.edges.lag, part.edges.kind)
        for part, shift in zip(parts, first.tolist(), strict=False)
    ]
    arrival = np.concatenate([part.arrival + s for part, s in zip(parts, first, strict=False)])
    instance = np.concatenate([part.instance for part in parts])
    transfer = arrival + 1
    at, done = nodes.start[arrival], nodes.end[transfer]
    count = len(instances["number"])
    together = np.full(count, -FAR)
    np.maximum.at(together, instance, at)
    seen = np.bincount(instance, minlength=count) > 1

    # who was done before the last one was there did not wait for it
    early = done < (together - instances["resolution"])[instance]
    for rank in np.unique(nodes.rank[arrival[early]]).tolist():
        (part,) = (part for part in parts if part.rank == rank)
        part.dropped[EDGE_KINDS[COMPLETION]] += int(np.sum(nodes.rank[arrival[early]] == rank))
    tied = seen[instance] & ~early
    begin = np.minimum(np.where(tied, together[instance], at), done)
    start, length = nodes.start.copy(), nodes.length.copy()
    # an op that carries several begins with the last of them
    np.maximum.at(start, transfer, begin)
    ended = nodes.end
    length[transfer] = ended[transfer] - start[transfer]
    named = nodes.instance.copy()
    named[arrival] = named[transfer] = instance
    barrier = len(nodes) + np.cumsum(seen) - 1
    whole = seen[instance]
    nodes = joined(
        [nodes.with_(start=start, length=length, instance=named), _barriers(together, seen)]
    )
    zeros = np.zeros(len(arrival), np.int64)
    edges.append(Edges.of(arrival, barrier[instance], zeros, MEMBERS).where(whole))
    lag = np.minimum(start[transfer] - together[instance], 0)
    edges.append(Edges.of(barrier[instance], transfer, lag, COMPLETION).where(tied))
    return nodes, Edges.joined(*edges)


def _barriers(together: Ints, seen: Flags) -> Nodes:
    """Return a node for the moment at which all members of a collective are there."""
    number = np.flatnonzero(seen)
    nothing, none = np.zeros(len(number), np.int64), np.full(len(number), -1)
    return Nodes(
        rank=none,
        chain=number,
        sort=np.full(len(number), BARRIER),
        start=together[number],
        length=nothing,
        lag=np.full(len(number), -FAR),
        delay=nothing,
        loading=nothing,
        launch=none,
        launch_lag=nothing,
        step=none,
        op_id=none,
        name=none,
        class_=none,
        instance=number,
    )
