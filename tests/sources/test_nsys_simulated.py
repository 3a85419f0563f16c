"""Simulated reports against their truth: communicators, peers, devices, launches."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb
import pytest

from tests.marks import at_once, nightly
from tests.sources.nsys_loading import load_export
from traceweave.ingestion import ingest
from traceweave_simulator import Config, Truth, simulate, write_nsys
from traceweave_simulator.run import Run


@pytest.fixture(scope="module")
def pipeline() -> Run:
    """Two pipelines of three stages on two hosts: communicators of three ranks out of six."""
    return simulate(
        Config(ranks=6, hosts=2, steps=1, layers=3, parallelism="pp", group_size=3, microbatches=2)
    )


@pytest.fixture
def woven(pipeline: Run, tmp_path: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    """The pipelines recorded with one report per rank."""
    write_nsys(pipeline, tmp_path / "reports")
    ingest(tmp_path / "reports", tmp_path / "run.duckdb")
    with duckdb.connect(str(tmp_path / "run.duckdb"), read_only=True) as con:
        yield con


@nightly
def test_messages_in_large_communicators_are_paired_over_reports(
    pipeline: Run, woven: duckdb.DuckDBPyConnection
) -> None:
    """No report says who the peer is, only its number in a communicator that others number."""
    truth = Truth(pipeline).collectives.query("op in ('send', 'recv')")
    expected = {
        frozenset(zip(pair["rank"], pair["op"], pair["start_ns"], strict=True))
        for _, pair in truth.groupby("collective_id")
    }
    rows = woven.execute(
        "SELECT collective_id, rank, op, start_local_ns, peer FROM collectives"
        " WHERE op IN ('send', 'recv')"
    ).fetchall()
    pairs: dict[int, set[tuple[int, str, int]]] = {}
    for collective, rank, op, start, _ in rows:
        pairs.setdefault(collective, set()).add((rank, op, start))
    assert {frozenset(pair) for pair in pairs.values()} == expected
    ranks = {collective: {r[1] for r in rows if r[0] == collective} for collective in pairs}
    assert all(ranks[collective] == {rank, peer} for collective, rank, _, _, peer in rows)


@pytest.mark.parametrize("parallelism", at_once(["fsdp", "pp"], "fsdp"))
@nightly
def test_collectives_are_those_of_the_truth(tmp_path: Path, parallelism: Any) -> None:
    run = simulate(Config(ranks=4, steps=1, layers=4, parallelism=parallelism))
    (path,) = write_nsys(run, tmp_path, ranks_per_report=4)
    truth = Truth(run).collectives
    columns = ["rank", "op", "bytes", "start_ns", "duration_ns"]
    assert load_export(path).rows(
        "SELECT rank, op, bytes, start_local_ns, duration_ns FROM base.collective_calls"
        " ORDER BY ALL"
    ) == sorted(truth[columns].astype(object).itertuples(index=False, name=None))


def test_ranks_are_those_of_the_communicator_whatever_the_devices(tmp_path: Path) -> None:
    """Rank 0 drives device 1 and rank 1 device 0; both count correlation ids from the same number,
    and each GPU op finds the call of its own process."""
    run = simulate(Config(ranks=2, steps=1, layers=2))
    (path,) = write_nsys(run, tmp_path, ranks_per_report=2)
    with closing(sqlite3.connect(path)) as con:
        for table in ("CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_MEMCPY"):
            con.execute(f"UPDATE {table} SET deviceId = 1 - deviceId")
        con.commit()
    loaded = load_export(path)
    assert [(p.rank, p.device, p.rank_source) for p in loaded.trace.processes] == [
        (1, 0, "NCCL communicator"),
        (0, 1, "NCCL communicator"),
    ]
    starts = "SELECT rank, start_local_ns FROM base.gpu_ops ORDER BY ALL"
    truth = [
        (rank, int(start))
        for rank in range(2)
        for start in run.local(rank, run.gpu.start[run.recorded(run.gpu.start, rank), rank])
    ]
    assert loaded.rows(starts) == sorted(truth)
    ((ops, linked, astray, shared),) = loaded.rows(
        "SELECT count(*), count(h.op_id), count(*) FILTER (g.rank <> h.rank OR g.start_local_ns"
        " < h.start_local_ns), count(*) - count(DISTINCT g.correlation) FROM base.gpu_ops AS g"
        " LEFT JOIN base.host_ops AS h ON g.launch_op_id = h.op_id"
    )
    assert (linked, astray, shared) == (ops, 0, ops // 2)


@nightly
def test_a_graph_traced_by_node_shares_its_launch(tmp_path: Path) -> None:
    """--cuda-graph-trace=node: all kernels of a launch carry its correlation id."""
    run = simulate(Config(ranks=1, steps=1, layers=2))
    (path,) = write_nsys(run, tmp_path)
    with closing(sqlite3.connect(path)) as con:
        con.execute(
            "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET graphNodeId = rowid,"
            " correlationId = (SELECT min(correlationId) FROM CUPTI_ACTIVITY_KIND_KERNEL)"
        )
        ((kernels,),) = con.execute("SELECT count(*) FROM CUPTI_ACTIVITY_KIND_KERNEL").fetchall()
        con.commit()
    assert load_export(path).rows(
        "SELECT count(*), count(DISTINCT graph_node), count(DISTINCT launch_op_id)"
        " FROM base.gpu_ops WHERE kind = 'kernel'"
    ) == [(kernels, kernels, 1)]
