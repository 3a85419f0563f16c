"""Replaying the unchanged graph gives every start and end to the nanosecond, on every run there is.

Nodes are counted against the tables: every GPU op and every part in a collective is in the graph.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import duckdb
import numpy as np
import pytest

import traceweave
from tests.conftest import MakeOnce
from tests.marks import at_once, nightly
from tests.simulated_runs import FOUR_RANKS, PP, SKEWED, SLOW_GPU_TP, SLOW_HOST, SYNC
from traceweave.replay.graph import build
from traceweave.replay.nodes import Sort
from traceweave_simulator import Config, simulate, write_kineto, write_nsys

KINETO = (
    "megatron_tp8", "nanogpt_8xh100", "torchrec_4", "sampled_2of128", "hta_pair_nccl2",
    "diff_control", "diff_test", "negative_queue_1of16", "ns_resolution", "ep_moe_b200_seq",
    "amd_mi250", "mtia", "triton", "cuda_sync", "cpu_gloo_1of300", "old_inference", "megatron_tp2",
    "deepseek_train", "mtia_accelerator", "no_rank",
)  # fmt: skip
NSYS = (
    "fsdp_2rank_before__2026.2", "fsdp_2rank_after__2026.2", "perlmutter_cloverleaf_mpi__2024.5",
    "perlmutter_saxpy_mpi__2022.2", "power_iteration__2025.3", "perf_sandbox__2025.5",
    "jacobi__2023.4", "nussinov__2023.3", "vector__2022.4", "mordred__pre2021",
)  # fmt: skip
GLOO = (
    "dataloader_late_once", "ddp_gloo_4ranks", "ddp_gloo_straggler", "flops_cpu", "fsdp1_gloo",
    "fsdp2_gloo", "pipeline_1f1b", "pipeline_gpipe", "recompile_once", "tp2_dp2_gloo",
    "slow_rank_2x2_gloo", "two_groups_gloo", "uneven_start_gloo", "uneven_work_gloo",
    "messages_mesh_gloo", "messages_tags_gloo",
)  # fmt: skip
SIMULATED = {
    "ddp": FOUR_RANKS,
    "clocks apart": SKEWED,
    "slow gpu, tp": SLOW_GPU_TP,
    "slow host": SLOW_HOST,
    "sync": SYNC,
    "fsdp": replace(FOUR_RANKS, parallelism="fsdp"),
    "pp": PP,
    "cut": replace(FOUR_RANKS, window_cut={1: 2, 2: -2}),
}


def check(database: Path) -> None:
    """Replay a run as it is, and count its nodes."""
    with traceweave.open(database) as run:
        graph = build(run.con)
        nodes = graph.nodes
        assert graph.replayed().tolist() == nodes.start.tolist()
        ops = _measured(run.con, "gpu_ops" if graph.has_gpu else "collectives", graph.origin)
        known, numbers = ops
        # a message of gloo that nobody waited for may have been over before
        early = "SELECT call_id FROM collectives WHERE op IN ('send', 'recv') AND gpu_op_id IS NULL"
        messages = {call for (call,) in run.con.execute(early).fetchall()}
    # an op is the node of its id, or the two of which the second transfers
    of_device = (
        (nodes.sort < Sort.CALL) & (nodes.sort != Sort.ARRIVAL)
        if graph.has_gpu
        else nodes.sort == Sort.TRANSFER
    )
    of_device |= (nodes.sort == 2) & (not graph.has_gpu)
    ends = dict(zip(nodes.op_id[of_device].tolist(), nodes.end[of_device].tolist(), strict=True))
    first = nodes.sort != Sort.TRANSFER
    first &= nodes.sort < Sort.CALL if graph.has_gpu else np.isin(nodes.sort, (Sort.ARRIVAL, 2))
    starts = dict(zip(nodes.op_id[first].tolist(), nodes.start[first].tolist(), strict=True))
    assert len(starts) == len(ends) == len(known)
    assert starts == {op: start for op, (start, _) in known.items()}
    for op, (_, end) in known.items():
        assert ends[op] == end or (ends[op] < end and not graph.has_gpu and op in messages)
    assert int(np.sum(nodes.sort == Sort.BARRIER)) == numbers


def _measured(
    con: duckdb.DuckDBPyConnection, relation: str, origin: int
) -> tuple[dict[int, tuple[int, int]], int]:
    key = "op_id" if relation == "gpu_ops" else "call_id"
    rows = con.execute(f"SELECT {key}, start_ns - ?, end_ns - ? FROM {relation}", [origin] * 2)
    known = {op: (start, end) for op, start, end in rows.fetchall()}
    found = con.execute("SELECT count(*) FROM collective_instances WHERE ranks_seen > 1").fetchone()
    assert found is not None
    return known, found[0]


@pytest.mark.parametrize("name", at_once(KINETO, "torchrec_4"))
def test_a_real_kineto_run(name: str, database_of: Callable[..., Path], corpus: Path) -> None:
    check(database_of(corpus / "kineto" / name))


@nightly
@pytest.mark.parametrize("name", NSYS)
def test_a_real_nsys_run(name: str, database_of: Callable[..., Path], corpus: Path) -> None:
    check(database_of(corpus / "nsys" / f"{name}.sqlite"))


@nightly
@pytest.mark.parametrize(
    "name",
    at_once(GLOO, "ddp_gloo_straggler"),
)
def test_a_run_without_a_gpu(name: str, database_of: Callable[..., Path], fixtures: Path) -> None:
    check(database_of(fixtures / name))


@pytest.mark.parametrize("name", at_once(SIMULATED, "clocks apart"))
def test_a_simulated_run(name: str, simulated_database: Callable[[Config], Path]) -> None:
    check(simulated_database(SIMULATED[name]))


@nightly
@pytest.mark.parametrize("mixed", [False, True])
def test_a_simulated_nsys_run(mixed: bool, once: MakeOnce) -> None:
    config = replace(FOUR_RANKS, steps=2, layers=2)

    def write(path: Path) -> None:
        traces = path.with_suffix(".traces")
        run = simulate(config)
        write_nsys(run, traces)
        if mixed:
            write_kineto(run, traces)
            for file in sorted(traces.iterdir()):
                is_kineto = ".json" in file.name
                odd = int("".join(c for c in file.stem if c.isdigit())[-1]) % 2
                if is_kineto == bool(odd):
                    file.unlink()
        assert traceweave.ingest([traces], path, one_run=mixed).ok

    check(once(f"{config!r} nsys, mixed {mixed}", ".duckdb", write))
