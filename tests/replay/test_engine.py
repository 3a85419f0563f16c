"""Replay by hand: starts from lengths, delays and edges alone."""

from __future__ import annotations

from dataclasses import fields

import duckdb
import numpy as np
import pytest

from tests.replay import by_hand
from tests.replay.by_hand import US
from traceweave.errors import QueryError
from traceweave.replay.engine import replay
from traceweave.replay.graph import NothingToReplayError, build
from traceweave.replay.nodes import FAR, Edge, Edges, Nodes, Sort


def _nodes(**columns: list[int]) -> Nodes:
    count = len(columns["length"])
    usual = {"launch": -1, "rank": 0, "sort": Sort.COMPUTE, "step": -1, "instance": -1}
    every = {f.name: columns.get(f.name, [usual.get(f.name, 0)] * count) for f in fields(Nodes)}
    return Nodes(**{name: np.array(values, np.int64) for name, values in every.items()})


def _edges(*pairs: tuple[int, int]) -> Edges:
    source, target = np.array(pairs, np.int64).reshape(-1, 2).T
    return Edges.of(source, target, np.zeros_like(source), Edge.STREAM_WAIT)


def test_a_kernel_waits_for_its_stream_and_its_launch() -> None:
    # a thread with calls of 10, each 5 after the one before; a stream launched by them
    nodes = _nodes(
        sort=[Sort.CALL, Sort.CALL, Sort.CALL, Sort.COMPUTE, Sort.COMPUTE, Sort.COMPUTE],
        lag=[-FAR, 0, 0, -FAR, 1, 1],
        delay=[100, 5, 5, 0, 0, 2],
        length=[10, 10, 10, 40, 3, 3],
        launch=[-1, -1, -1, 0, 1, 2],
        launch_lag=[0, 0, 0, 4, 4, 4],
    )
    # 104 is 4 after the call at 100; 145 is 1 after its end at 144, and 151 = 148 + 1 + 2
    assert replay(nodes, _edges()).tolist() == [100, 115, 130, 104, 145, 151]
    # with a kernel of 1 the stream is free before the calls: 119 and 136 = 134 + 2
    short = nodes.with_(length=np.array([10, 10, 10, 1, 3, 3]))
    assert replay(short, _edges()).tolist() == [100, 115, 130, 104, 119, 136]


def test_a_stream_waits_for_another() -> None:
    nodes = _nodes(
        lag=[-FAR, 0, -FAR, 0], delay=[0, 0, 3, 7], length=[10, 10, 5, 5], chain=[0, 0, 1, 1]
    )
    assert replay(nodes, _edges()).tolist() == [0, 10, 3, 15]
    assert replay(nodes, _edges((1, 3))).tolist() == [0, 10, 3, 27]
    # the other way round in the arrays
    assert replay(nodes, _edges((3, 1))).tolist() == [0, 20, 3, 15]


def test_what_depends_on_itself_is_refused() -> None:
    nodes = _nodes(lag=[-FAR, 0, -FAR, 0], length=[1, 1, 1, 1], chain=[0, 0, 1, 1])
    with pytest.raises(QueryError, match=r"replay is refused: .* in a circle"):
        replay(nodes, _edges((1, 2), (3, 0)))


def test_ten_ops_of_three_ranks_make_a_graph(empty_run: duckdb.DuckDBPyConnection) -> None:
    by_hand.write(empty_run)
    graph = build(empty_run)
    # an op is a node, a part in the all-reduce is two, and all being there is one more
    assert len(graph.nodes) == 10 + 3 + 1
    assert graph.replayed().tolist() == graph.nodes.start.tolist()
    (barrier,) = np.flatnonzero(graph.nodes.sort == Sort.BARRIER)
    assert graph.nodes.start[barrier] == 30 * US
    assert not any(part.dropped.total() for part in graph.parts)


def test_who_ends_before_the_last_arrives_does_not_wait(
    empty_run: duckdb.DuckDBPyConnection,
) -> None:
    by_hand.write(empty_run)
    # rank 0 is done at 28, before rank 1 arrives at 30, and goes on
    empty_run.execute(
        "UPDATE base.collective_calls SET duration_ns = 18_000 WHERE rank = 0;"
        "UPDATE base.gpu_ops SET duration_ns = 18_000 WHERE rank = 0 AND name = 'R'"
    )
    graph = build(empty_run)
    assert [part.dropped["collective"] for part in graph.parts] == [1, 0, 0]
    assert graph.replayed().tolist() == graph.nodes.start.tolist()


def test_a_run_without_a_timeline_has_nothing_to_replay(
    empty_run: duckdb.DuckDBPyConnection,
) -> None:
    with pytest.raises(NothingToReplayError, match="see the analysis recording"):
        build(empty_run)
