"""Jobs of ranks that share a real GPU (NCCL, H200): predicted gains against recordings without the
defect (benchmarks/planted/gpu_job.py), and what those recordings showed to be wrong, by hand."""

from __future__ import annotations

from collections import Counter

import duckdb
import numpy as np
import pytest

from tests.analyses.builders import Builder
from tests.marks import first_at_once
from tests.replay.by_hand import US
from traceweave.replay.buckets import _before
from traceweave.replay.device import order
from traceweave.replay.graph import graph_of
from traceweave.replay.nodes import FAR, Edge
from traceweave.replay.rows import COPIES
from traceweave.replay.streams import Streams


@first_at_once()
@pytest.mark.parametrize("inner", [True, False], ids=["in the operator", "after it"])
def test_streams_that_a_collective_orders_do_not_hold_up_compute(
    empty_run: duckdb.DuckDBPyConnection, inner: bool
) -> None:
    """An operator launches an all-reduce; NCCL lets a stream of its own wait in it. Compute that is
    launched long after the all-reduce ended waits for it only if a wait follows the operator."""
    run = Builder(empty_run)
    run.rank(0)
    run.step(0, 1, (0, 200 * US), (0, 200 * US))
    first = run.launch(0, (0, 4 * US), step=1)
    run.gpu(0, (5 * US, 10 * US), launch=first, step=1)
    asks = run.host(0, (10 * US, (30 if inner else 20) * US), "record_param_comms", step=1)
    run.host(0, (12 * US, 13 * US), "cudaStreamWaitEvent", "runtime", 1, step=1)
    reduces = run.launch(0, (14 * US, 18 * US), step=1)
    run.host(0, (25 * US, 26 * US), "cudaStreamWaitEvent", "runtime", 1, step=1)
    nccl = run.gpu(0, (19 * US, 60 * US), "communication", "nccl", 9, launch=reduces, step=1)
    each = {0: {"gpu_op_id": nccl, "host_op_id": asks}}
    run.collective({0: (19 * US, 60 * US)}, step=1, matched=False, each=each)
    last = run.launch(0, (100 * US, 104 * US), step=1)
    op = run.gpu(0, (105 * US, 110 * US), launch=last, step=1)
    run.write()
    graph = graph_of(empty_run)
    waits = graph.edges.kind == Edge.STREAM_WAIT
    found = set(graph.nodes.op_id[graph.edges.target[waits]].tolist())
    assert found == ({nccl} if inner else {nccl, op})


def test_a_copy_takes_longer_to_begin_than_a_kernel() -> None:
    """Three kernels a launch each, 10 us after the one before; only a copy was ever queued: 6 us
    after the kernel before it. That says nothing of how soon a kernel begins."""
    start = np.array([20, 30, 40, 300, 312]) * US
    end = np.array([22, 32, 42, 306, 313]) * US
    called = np.array([10, 20, 30, 290, 200]) * US
    none = np.zeros(5, np.int64)
    gpu = {
        "op_id": np.arange(5), "chain": none, "stream": none, "start_ns": start, "end_ns": end,
        "called": called, "call_ns": none + 4 * US, "step": none, "launch": np.arange(5),
        "category": np.array([0, 0, 0, 0, COPIES]), "from_host": none,
    }  # fmt: skip
    lag = order(Streams(gpu), none[:0], Counter()).lag
    assert lag[1:].tolist() == [0, 0, 0, 6 * US]


def test_a_call_did_until_its_op_began_what_it_did() -> None:
    """Calls of 5 ms return 740 us after their ops began, as one of 5.5 s in a real run. The second
    launched two, as a graph does; the op of the third may have waited for the one before."""
    start = np.array([10, 5_260, 15_260, 15_500, 25_260]) * US
    called = np.array([5, 1_000, 11_000, 11_000, 21_000]) * US
    none = np.zeros(5, np.int64)
    gpu = {
        "op_id": np.arange(5), "chain": none, "stream": none, "start_ns": start,
        "end_ns": start + np.array([1, 10, 10, 8_000, 10]) * US, "called": called,
        "call_ns": np.array([4, 5_000, 5_000, 5_000, 5_000]) * US, "step": none,
        "launch": np.arange(5), "category": none, "from_host": none,
    }  # fmt: skip
    usual = 5 * US
    launch_lag = order(Streams(gpu), none[:0], Counter()).launch_lag
    assert launch_lag.tolist() == [usual, 4_260 * US, usual, usual, usual]
    # an op of another stream ended right before the second began: it may have waited for that
    gpu["chain"] = np.array([0, 0, 0, 0, 1])
    gpu["start_ns"][4], gpu["end_ns"][4], gpu["called"][4] = 5_000 * US, 5_259 * US, 500 * US
    assert order(Streams(gpu), none[:0], Counter()).launch_lag[1] == usual


def test_buckets_are_used_by_each_rank_after_it_has_them_all() -> None:
    """Rank 0 has its three buckets by 3 and uses the first at 5; rank 1 has them at 20, 21 and 22
    only, and uses the second before it has the third. Those two are not to be merged."""
    rank, place = np.array([0, 1] * 3), np.repeat(np.arange(3), 2)
    ready = np.array([1, 20, 2, 21, 3, 23])
    used = np.array([5, 30, 6, 22, 7, 31])
    none = np.zeros(6, np.int64)
    assert _before(rank, place, ready, used, none, none, none).tolist() == [FAR, 2, FAR]
