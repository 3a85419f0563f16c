"""Simulated reports against their truth: communicators, peers, devices, launches."""

import json
import sqlite3
import struct
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb
import pytest

from tests.marks import at_once, nightly
from tests.sources.nsys_export import (
    ALL_GATHER,
    ALL_REDUCE,
    INIT,
    NCCL_SCHEMAS,
    RECV,
    SEND,
    collective_payload,
    init_payload,
)
from tests.sources.nsys_loading import load_export
from traceweave.ingestion import ingest
from traceweave_simulator import Config, Truth, simulate, write_nsys
from traceweave_simulator.run import Run

REDUCE_SCATTER = 16777223
SCHEMA_OF = {
    "ncclAllReduce": ALL_REDUCE, "ncclAllGather": ALL_GATHER, "ncclReduceScatter": REDUCE_SCATTER,
    "ncclSend": SEND, "ncclRecv": RECV,
}  # fmt: skip
CALLS = (
    "SELECT rank, op, group_size, comm_id, comm_rank, comm_peer, peer, bytes, start_local_ns,"
    " duration_ns, evidence FROM base.collective_calls ORDER BY ALL"
)


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


def with_blobs(path: Path) -> Path:
    """Turn the payloads of a report from JSON into what NCCL attaches."""
    with closing(sqlite3.connect(path)) as con:
        con.execute("ALTER TABLE NVTX_EVENTS ADD COLUMN binaryData TEXT")
        con.execute("DROP TABLE IF EXISTS NVTX_PAYLOAD_SCHEMA_ENTRIES")
        con.execute(
            "CREATE TABLE NVTX_PAYLOAD_SCHEMA_ENTRIES (domainId, schemaId, idx, type, name, offset)"
        )
        fields = {INIT, *SCHEMA_OF.values()}
        schemas = [dict(entry) for entry in NCCL_SCHEMAS]
        schemas += [
            {**entry, "schemaId": REDUCE_SCATTER}
            for entry in schemas
            if entry["schemaId"] == ALL_REDUCE
        ]
        con.executemany(
            "INSERT INTO NVTX_PAYLOAD_SCHEMA_ENTRIES"
            " VALUES (:domainId, :schemaId, :idx, :type, :name, :offset)",
            [entry for entry in schemas if entry["schemaId"] in fields],
        )
        rows = con.execute(
            "SELECT n.rowid, s.value, n.jsonText FROM NVTX_EVENTS AS n"
            " JOIN StringIds AS s ON s.id = n.textId WHERE n.jsonText IS NOT NULL"
        ).fetchall()
        con.executemany(
            "UPDATE NVTX_EVENTS SET binaryData = ?, jsonText = NULL WHERE rowid = ?",
            [(as_blob(name, json.loads(text)), row) for row, name, text in rows],
        )
        con.commit()
    return path


def as_blob(name: str, fields: dict[str, Any]) -> bytes:
    comm = fields["NCCL communicator ID"]
    if name.startswith("ncclCommInit"):
        return init_payload(comm, fields["No. of ranks"], fields["Rank"], fields["CUDA device"])
    last = fields.get("Peer rank", 0 if "Reduction operation" in fields else None)
    return collective_payload(SCHEMA_OF[name], comm, fields["Message size [bytes]"], last)


@pytest.mark.parametrize("parallelism", at_once(["fsdp", "pp"], "fsdp"))
@nightly
def test_blobs_say_the_same_as_json(tmp_path: Path, parallelism: Any) -> None:
    run = simulate(Config(ranks=4, steps=1, layers=4, parallelism=parallelism))
    (path,) = write_nsys(run, tmp_path, ranks_per_report=4)
    from_json = load_export(path)
    from_blobs = load_export(with_blobs(path))
    assert from_blobs.trace.processes[0].nccl_version == "2.27"
    assert from_blobs.rows(CALLS) == from_json.rows(CALLS)
    assert from_blobs.issue("payload not decoded") == 0
    truth = Truth(run).collectives
    assert from_blobs.rows(
        "SELECT rank, op, bytes, start_local_ns, duration_ns FROM base.collective_calls"
        " ORDER BY ALL"
    ) == sorted(
        (int(r), op, int(b), int(s), int(d))
        for r, op, b, s, d in zip(
            truth["rank"], truth["op"], truth["bytes"], truth["start_ns"], truth["duration_ns"],
            strict=True,
        )
    )  # fmt: skip


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


def test_the_layout_of_blobs_is_that_of_nccl() -> None:
    """The header's four words, then the struct of ncclSend: communicator, size, peer, padding."""
    blob = as_blob(
        "ncclSend", {"NCCL communicator ID": 5, "Message size [bytes]": 6, "Peer rank": 3}
    )
    assert struct.unpack("<4QQQi4x", blob) == (1, SEND, 24, 32, 5, 6, 3)
