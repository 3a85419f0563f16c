"""Simulated traffic as a loader would store it, and how far a woven database is from the truth."""

from __future__ import annotations

from typing import TYPE_CHECKING, get_args

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from traceweave_simulator.traffic import EPOCH, Traffic, columns_of
from traceweave_simulator.traffic_jobs import Job, Labels, Op

if TYPE_CHECKING:
    import duckdb

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

MOMENTS = 60
"""Moments of the run at which clocks are compared with the truth."""


def store_traffic(con: duckdb.DuckDBPyConnection, run: Traffic) -> None:
    """Write the calls into base.collective_calls and the ranks into base.rank_sources of `con`."""
    con.register("traffic_calls", _rows(run))
    con.execute("INSERT INTO base.collective_calls BY NAME SELECT * FROM traffic_calls")
    con.unregister("traffic_calls")
    job = run.job
    # what tells the stream of the computation
    con.execute(
        "INSERT INTO base.gpu_ops BY NAME SELECT rank, -1 - rank AS op_id, rank AS source_id,"
        " 'kernel' AS kind, 'compute' AS category, 'gemm' AS class, 'gemm' AS name, 7 AS stream,"
        " min(start_local_ns) AS start_local_ns, 0 AS duration_ns"
        " FROM base.collective_calls GROUP BY rank"
    )
    nsys = [r for r in range(job.world) if job.labels_of(r) in ("communicator", "bare")]
    con.execute(
        "INSERT INTO base.rank_sources BY NAME"
        " SELECT rank, rank AS source_id, 'test' AS rank_source,"
        " CASE WHEN $named THEN 'node' || rank // $per_host END AS host, $world AS world_size,"
        " CASE WHEN list_contains($nsys, rank) THEN 'nsys' ELSE 'kineto' END AS format,"
        " min(start_local_ns) AS first_local_ns,"
        " max(start_local_ns + duration_ns) AS last_local_ns"
        " FROM base.collective_calls GROUP BY rank",
        {"named": job.with_hosts, "per_host": job.per_host, "world": job.world, "nsys": nsys},
    )


def _rows(run: Traffic) -> pa.Table:
    """The columns of base.collective_calls."""
    job, calls = run.job, run.calls
    program = job.program
    op, rank = calls["op"], calls["rank"]
    pipe = np.array([p.group.startswith("pp") for p in program])[op]
    ops = [p.op for p in program]
    code = np.where(pipe, len(ops) + calls["column"], op)
    first, lists = _members(run)
    which = np.array([first[p.group] for p in program])[op] + np.where(pipe, 0, calls["group"])
    which = np.where(pipe, first.get("pp", 0) + rank % len(columns_of(job)), which)
    sizes = np.array([len(ranks) for ranks in lists])
    kinds = ["pp" if p.group.startswith("pp") else p.group for p in program]
    names, named = (
        (kinds, op) if job.listed is None else ([str(n) for n in range(len(lists))], which)
    )
    cut = np.zeros(len(op), np.bool_) if job.listed is None else sizes[which] > job.listed
    numbered = calls["seq"] if job.with_seq else np.full(len(op), -1)
    said = np.array([job.labels_of(r) for r in range(job.world)])[rank]
    unnamed, communicator = said != "named", said == "communicator"

    def text(values: list[str], index: npt.NDArray[np.int64], absent: Flags) -> pa.Array:
        return pa.DictionaryArray.from_arrays(pa.array(index.astype(np.int32), mask=absent), values)

    nowhere = np.full(len(op), False)
    evidence = ["metadata", "nvtx", "name", "host op", "nvtx"]
    return pa.table(
        {
            "call_id": np.arange(len(op)),
            "gpu_op_id": np.arange(len(op)),
            "rank": pa.array(rank.astype(np.int32)),
            "source_id": pa.array(rank.astype(np.int32)),
            "op": text([*ops, "send", "recv"], code, nowhere),
            "group_name": text(names, named, unnamed),
            "group_desc": text([f"mesh_{kind}" for kind in kinds], op, unnamed),
            "group_ranks": pa.array(lists, pa.list_(pa.int32())).take(
                pa.array(which, mask=unnamed | cut)
            ),
            "group_size": pa.array(sizes[which].astype(np.int32), mask=unnamed & ~communicator),
            "comm_id": text([f"0x{n:x}" for n in range(len(lists))], which, ~communicator),
            "seq": pa.array(numbered, mask=(numbered < 0) | pipe | unnamed),
            "dtype": text(["Float"], np.zeros(len(op), dtype=np.int64), said == "bare"),
            "bytes": pa.array(np.array([p.bytes for p in program])[op], mask=said == "bare"),
            "peer": pa.array(_peers(run).astype(np.int32), mask=~pipe | (unnamed & ~communicator)),
            "stream": _streams(run),
            "start_local_ns": calls["start_local_ns"],
            "duration_ns": calls["duration_ns"],
            "step": pa.array(calls["step"], mask=np.full(len(op), not job.with_steps)),
            "evidence": [evidence[list(get_args(Labels)).index(kind)] for kind in said],
        }
    )


def _streams(run: Traffic) -> npt.NDArray[np.int64]:
    """The stream of every call: 7 of the computation, or one per kind of group."""
    streams = np.array([_stream(run.job, op) for op in run.job.program])[run.calls["op"]]
    if not run.job.stream_per_pair:
        return np.asarray(streams)
    peer = _peers(run)
    return np.where(peer >= 0, 23 + np.minimum(peer, run.calls["rank"]), streams)


def _stream(job: Job, op: Op) -> int:
    if op.synchronous:
        return 7
    return {"world": 20, "tp": 21, "dp": 22}.get(op.group, 23)


def _members(run: Traffic) -> tuple[dict[str, int], list[list[int]]]:
    """Every group's ranks, and where each kind's groups begin; a pipeline is one group per
    column of hosts."""
    first: dict[str, int] = {}
    lists: list[list[int]] = []
    for kind, groups in run.groups.items():
        first[kind] = len(lists)
        lists += np.sort(groups, axis=1).tolist()
    if any(kind.startswith("pp") for kind in run.groups):
        first["pp"] = len(lists)
        lists += columns_of(run.job).tolist()
    return first, lists


def _peers(run: Traffic) -> npt.NDArray[np.int64]:
    """The other rank of a pipeline's pair; -1 elsewhere."""
    calls = run.calls
    peer = np.full(len(calls["rank"]), -1, dtype=np.int64)
    for number, op in enumerate(run.job.program):
        if op.group.startswith("pp"):
            here = calls["op"] == number
            pair = run.groups[op.group][calls["group"][here]]
            peer[here] = pair[np.arange(len(pair)), 1 - calls["column"][here]]
    return peer


def aligned_times(con: duckdb.DuckDBPyConnection, run: Traffic) -> Floats:
    """Return true moments as every rank's aligned clock shows them, in us less a common number; a
    row per rank, a column per moment.
    """
    at = np.linspace(0.02, 0.98, MOMENTS) * run.span
    table = np.full((run.job.world, MOMENTS), np.nan)
    for rank, since, offset, drift, middle in con.execute(
        "SELECT rank, from_local_ns, offset_ns, drift_ppm, reference_local_ns"
        " FROM clocks ORDER BY rank, from_local_ns NULLS FIRST"
    ).fetchall():
        local = run.local(rank, at)
        value = local + offset + drift * 1e-6 * (local - (middle - EPOCH))
        valid = np.full(MOMENTS, True) if since is None else local + EPOCH >= since
        table[rank] = np.where(valid, value, table[rank])
    return np.asarray((table - at) / 1e3)


def pair_errors(times: Floats) -> Floats:
    """Return |error| of the aligned time differences of all pairs of ranks (rows) at every
    moment."""
    i, j = np.triu_indices(len(times), 1)
    return np.abs(times[i] - times[j])


def clock_errors(con: duckdb.DuckDBPyConnection, run: Traffic) -> Floats:
    """Return the error of aligned time differences against rank 0, us: a row per rank, a column per
    moment.
    """
    times = aligned_times(con, run)
    return np.asarray(times - times[0])


def true_offsets(
    con: duckdb.DuckDBPyConnection, run: Traffic
) -> list[tuple[int, float, float, int | None]]:
    """Return (rank, estimate, truth, bound) in ns at the reference time of each row of `clocks`
    that is tied to another rank by collectives or a host, without those that no bound is told of
    since no call has tied the rank to another host yet, or none does afterwards.

    A clock that is set back shows the same times twice: the estimate may be of either moment.
    """
    result = []
    for rank, reference, offset, at, bound in con.execute(
        "WITH calls AS (SELECT * FROM base.matches JOIN base.collective_calls USING (call_id)),"
        " tying AS (SELECT collective_id FROM calls GROUP BY collective_id"
        " HAVING count(DISTINCT rank // $per_host) > 1), ends AS ("
        " SELECT rank, min(start_local_ns + duration_ns) AS first_ns,"
        " max(start_local_ns + duration_ns) AS last_ns FROM calls SEMI JOIN tying"
        " USING (collective_id) GROUP BY rank)"
        " SELECT rank, reference_rank, offset_ns, reference_local_ns, bound_ns"
        " FROM clocks LEFT JOIN ends USING (rank)"
        " WHERE rank <> reference_rank AND status IN ('aligned', 'same host')"
        " AND (bound_ns IS NOT NULL OR reference_local_ns BETWEEN first_ns AND last_ns)",
        {"per_host": run.job.per_host},
    ).fetchall():
        local = float(at - EPOCH)
        near = 2 * local - run.local(rank, np.array([local]))
        moments = near + np.array([-1.0, 1.0]) * run.span
        for _ in range(6):
            moments = moments + local - run.local(rank, moments)
        truths = run.local(reference, moments) - local
        truth = float(truths[np.abs(truths - offset).argmin()])
        result.append((rank, float(offset), truth, bound))
    return result


def outside_bounds(con: duckdb.DuckDBPyConnection, run: Traffic) -> list[tuple[int, float, float]]:
    """Return (rank, estimate, truth) of the offsets whose reported bound excludes the truth, or
    that have none."""
    return [
        (rank, offset, truth)
        for rank, offset, truth, bound in true_offsets(con, run)
        if bound is None or abs(offset - truth) > bound
    ]


def wrong_matches(con: duckdb.DuckDBPyConnection, run: Traffic) -> int:
    """Return the number of instances that join calls of different true instances."""
    return _count_mixed(con, run, "collective_id", "truth")


def split_instances(con: duckdb.DuckDBPyConnection, run: Traffic) -> int:
    """Return the number of true instances whose matched calls ended up in several."""
    return _count_mixed(con, run, "truth", "collective_id")


def _count_mixed(con: duckdb.DuckDBPyConnection, run: Traffic, key: str, value: str) -> int:
    columns = con.execute(
        "SELECT call_id, collective_id FROM base.matches WHERE collective_id IS NOT NULL"
    ).fetchnumpy()
    facts = {
        "truth": run.calls["truth"][np.asarray(columns["call_id"])],
        "collective_id": np.asarray(columns["collective_id"]),
    }
    pairs = np.unique(np.c_[facts[key], facts[value]], axis=0)
    return int((np.unique(pairs[:, 0], return_counts=True)[1] > 1).sum())


def describe(job: Job) -> str:
    """Return what differs from the standard job, as NAME=VALUE."""
    plain = Job()
    return " ".join(
        f"{name}={value}"
        for name, value in vars(job).items()
        if name != "program" and value != getattr(plain, name)
    )
