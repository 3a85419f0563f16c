"""The written nsys reports have the real schema, join like real ones, and tell the true times."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from traceweave_simulator import Clock, Config, Truth, simulate, write_nsys
from traceweave_simulator.errors import SimulationError


def query(path: Path, sql: str, *parameters: object) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(path)) as con:
        return con.execute(sql, parameters).fetchall()


SESSION = "(SELECT utcEpochNs FROM TARGET_INFO_SESSION_START_TIME)"


def test_every_table_and_column_of_the_real_schema_is_there(tmp_path: Path, corpus: Path) -> None:
    sql = (
        'SELECT m.name, c.name, c.type, c."notnull", c.pk '
        "FROM sqlite_master m, pragma_table_info(m.name) c ORDER BY m.name, c.cid"
    )
    path = write_nsys(simulate(Config(ranks=1, steps=1, layers=2)), tmp_path)[0]
    assert query(path, sql) == query(corpus / "nsys" / "full_schema_2023.4.sqlite", sql)


@pytest.mark.parametrize("parallelism", ["ddp", "pp"])
def test_kernels_and_copies_have_the_true_times_on_the_ranks_clock(
    tmp_path: Path, parallelism: Any
) -> None:
    clocks = {1: Clock(-3_000_017, 25.0)}
    run = simulate(
        Config(
            ranks=2, steps=2, layers=2, parallelism=parallelism, clocks=clocks, window_cut={0: 1}
        )
    )
    for rank, path in enumerate(write_nsys(run, tmp_path)):
        assert path.name == f"report_rank{rank}.sqlite"
        got = query(
            path,
            f"SELECT start + {SESSION}, end + {SESSION}, streamId "
            "FROM CUPTI_ACTIVITY_KIND_KERNEL UNION ALL "
            f"SELECT start + {SESSION}, end + {SESSION}, streamId FROM CUPTI_ACTIVITY_KIND_MEMCPY",
        )
        rows = run.recorded(run.gpu.start, rank)
        streams = [run.gpu.kinds[k].stream for k in run.gpu.kind[rows]]
        start, end = (run.local(rank, t[rows, rank]).tolist() for t in (run.gpu.start, run.gpu.end))
        assert sorted(got) == sorted(zip(start, end, streams, strict=True))


def test_every_gpu_op_joins_its_launch_within_its_process(tmp_path: Path) -> None:
    run = simulate(Config(ranks=4, hosts=2, steps=1, layers=2))
    paths = write_nsys(run, tmp_path, ranks_per_report=2)
    assert [p.name for p in paths] == ["report_node0_0.sqlite", "report_node1_2.sqlite"]
    rows = query(
        paths[1],
        "SELECT k.globalPid, count(*), min(k.start - r.start) >= 4500, "
        "count(DISTINCT k.correlationId) "
        "FROM CUPTI_ACTIVITY_KIND_KERNEL k JOIN CUPTI_ACTIVITY_KIND_RUNTIME r "
        "ON r.correlationId = k.correlationId AND k.globalPid = (r.globalTid & -16777216) "
        "AND r.eventClass IN (0, 1) GROUP BY 1",
    )
    kernels = sum(k.kind == "kernel" for k in run.gpu.kinds)
    pids = [p for (p,) in query(paths[1], "SELECT globalPid FROM PROCESSES ORDER BY 1")]
    assert rows == [(pid, kernels, 1, kernels) for pid in pids]
    assert len(pids) == 2
    names = query(
        paths[1],
        "SELECT DISTINCT value FROM CUPTI_ACTIVITY_KIND_KERNEL "
        "JOIN StringIds ON id = demangledName",
    )
    assert (
        "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<(unsigned long)4096>)",
    ) in names
    assert query(paths[1], "SELECT value FROM TARGET_INFO_SYSTEM_ENV WHERE name = 'Hostname'") == [
        ("node1",)
    ]


def test_steps_are_nvtx_ranges(tmp_path: Path) -> None:
    run = simulate(Config(ranks=1, steps=3, layers=2, first_step=5))
    path = write_nsys(run, tmp_path)[0]
    got = query(
        path,
        f"SELECT text, start + {SESSION}, end - start FROM NVTX_EVENTS "
        "WHERE text LIKE 'step %' ORDER BY start",
    )
    steps = Truth(run).steps
    assert got == [
        (f"step {n}", s, d)
        for n, s, d in zip(steps["step"], steps["start_ns"], steps["duration_ns"], strict=True)
    ]


def test_nccl_ranges_enclose_the_launch_and_carry_communicator_and_size(tmp_path: Path) -> None:
    run = simulate(Config(ranks=4, steps=1, layers=2, parallelism="fsdp"))
    path = write_nsys(run, tmp_path)[2]
    sql = (
        "SELECT s.value, n.jsonText, count(k.start) "
        "FROM NVTX_EVENTS n JOIN StringIds s ON s.id = n.textId "
        "JOIN CUPTI_ACTIVITY_KIND_RUNTIME r "
        "ON r.start >= n.start AND r.end <= n.end AND r.globalTid = n.globalTid "
        "JOIN CUPTI_ACTIVITY_KIND_KERNEL k ON k.correlationId = r.correlationId "
        "GROUP BY n.rowid ORDER BY n.start"
    )
    rows = [(name, json.loads(text), kernels) for name, text, kernels in query(path, sql)]
    truth = Truth(run).collectives.query("rank == 2").sort_values("seq")
    share = {"all_reduce": 1, "all_gather": 4, "reduce_scatter": 4}
    names = {
        "all_reduce": "ncclAllReduce",
        "all_gather": "ncclAllGather",
        "reduce_scatter": "ncclReduceScatter",
    }
    assert [(n, p["Message size [bytes]"], k) for n, p, k in rows] == [
        (names[op], size // share[op], 1)
        for op, size in zip(truth["op"], truth["bytes"], strict=True)
    ]
    assert len({p["NCCL communicator ID"] for _, p, _ in rows}) == 1
    (text,) = query(
        path,
        "SELECT jsonText FROM NVTX_EVENTS JOIN StringIds ON id = textId "
        "WHERE value LIKE 'ncclCommInit%'",
    )
    made = json.loads(text[0])
    assert (made["Rank"], made["No. of ranks"]) == (2, 4)
    assert made["NCCL communicator ID"] == rows[0][1]["NCCL communicator ID"]
    assert query(path, "SELECT text FROM NVTX_EVENTS WHERE eventType = 75") == [("NCCL",)]


def test_payload_can_be_left_out_and_operators_put_in(tmp_path: Path) -> None:
    run = simulate(Config(ranks=1, steps=1, layers=2))
    path = write_nsys(run, tmp_path, payload=False, emit_nvtx=True)[0]
    assert query(path, "SELECT count(*) FROM NVTX_EVENTS WHERE jsonText IS NOT NULL") == [(0,)]
    operators = query(path, "SELECT count(*) FROM NVTX_EVENTS WHERE text LIKE '%, op_id = %'")
    assert operators == [(len(run.ranges),)]
    backward = query(
        path, "SELECT count(*) FROM NVTX_EVENTS WHERE text LIKE 'AddmmBackward0, seq = %'"
    )
    assert backward == [(2 * 4,)]


def test_p2p_launches_when_its_group_ends(tmp_path: Path) -> None:
    run = simulate(Config(ranks=2, steps=1, layers=2, parallelism="pp", microbatches=1))
    path = write_nsys(run, tmp_path)[0]
    names = query(
        path,
        "SELECT value FROM NVTX_EVENTS JOIN StringIds ON id = textId "
        "WHERE domainId > 0 ORDER BY start",
    )
    assert [n for (n,) in names if "Send" in n or "Recv" in n or "Group" in n] == [
        "ncclGroupStart", "ncclSend", "ncclGroupEnd", "ncclGroupStart", "ncclRecv", "ncclGroupEnd",
    ]  # fmt: skip


def test_a_single_rank_report_knows_its_rank_from_the_environment(tmp_path: Path) -> None:
    run = simulate(Config(ranks=2, steps=1, layers=2))
    sql = "SELECT value FROM META_DATA_CAPTURE WHERE name = 'PROCESS_0:ENVIRONMENT_VARIABLE'"
    assert ('RANK="1"',) in query(write_nsys(run, tmp_path)[1], sql)
    shared = [v for (v,) in query(write_nsys(run, tmp_path, ranks_per_report=2)[0], sql)]
    assert not any(v.startswith("RANK") for v in shared)


def test_ranks_with_different_clocks_cannot_share_a_report(tmp_path: Path) -> None:
    run = simulate(Config(ranks=2, steps=1, layers=2, clocks={1: Clock(5)}))
    with pytest.raises(SimulationError, match="ranks 0, 1 do not share a host and a clock"):
        write_nsys(run, tmp_path, ranks_per_report=2)
