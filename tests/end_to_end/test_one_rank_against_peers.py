"""What other tools say of single traces, beyond what test_against_peers compares."""

from pathlib import Path

import pytest

from tests.conftest import Recorded
from tests.end_to_end.peers import nsys_answers, rows, trace_of
from tests.marks import first_at_once, nightly


@nightly
def test_recorded_backtraces_do_not_double_a_launch(
    recorded: Recorded, corpus: Path, expected: Path, unpacked: Path
) -> None:
    name = "perlmutter_saxpy_mpi__2022.2"
    [theirs] = nsys_answers(expected, name, "cuda_kern_exec_sum")
    [ours] = rows(recorded(trace_of(corpus, name, unpacked)), "launches", ops="kernels")
    assert (int(theirs["Count"]), ours["count"]) == (10, 5)
    assert (float(theirs["KAvg (ns)"]), int(theirs["KMax (ns)"])) == (
        ours["op_mean_ns"],
        ours["op_max_ns"],
    )


def test_launches_are_those_of_hta(recorded: Recorded) -> None:
    """What get_cuda_kernel_launch_stats of HTA 0.5.0 says of rank 0, which knows four calls."""
    sums = dict.fromkeys(
        ("count", "call_total_ns", "op_total_ns", "queue_total_ns"), 0
    ) | dict.fromkeys(("slow_calls", "late_ops", "short_ops"), 0)
    four = {"cudaLaunchKernel", "cudaLaunchKernelExC", "cudaMemcpyAsync", "cudaMemsetAsync"}
    for row in rows(recorded("kineto/megatron_tp8"), "launches"):
        if row["rank"] == 0 and row["call"] in four:
            for column in sums:
                sums[column] += row[column]
    assert sums == {
        "count": 657, "call_total_ns": 33_856_000, "op_total_ns": 361_935_000,
        "queue_total_ns": 2_606_836_000, "slow_calls": 4, "late_ops": 510, "short_ops": 120,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("name", "want"),
    [
        ("megatron_tp8", {7: (693, 34), 24: (84, 4)}),
        ("hta_pair_nccl2", {7: (3753, 10), 40: (21, 1)}),
    ],
)
def test_queues_are_as_long_as_hta_says(
    recorded: Recorded, name: str, want: dict[int, tuple[int, int]]
) -> None:
    """What get_queue_length_summary of HTA 0.5.0 says of rank 0: the longest queue per stream.

    Of the second trace it leaves out the last step, hence the launches; the longest stays."""
    queues = rows(recorded(f"kineto/{name}"), "queue_depth")
    ours = {
        row["stream"]: (row["launches"], row["depth_max"]) for row in queues if row["rank"] == 0
    }
    assert ours == want


@first_at_once()
@pytest.mark.parametrize(
    ("name", "added_ns"), [("hta_pair_nccl2", 1500), ("ns_resolution", 2), ("ep_moe_b200_seq", 2)]
)
def test_gpu_spans_of_annotations_are_those_of_kineto(
    recorded: Recorded, name: str, added_ns: int
) -> None:
    """Kineto writes its own projection as gpu_user_annotation events.

    One per stream: what launched on several streams (nanogpt_8xh100) cannot be compared."""
    run = recorded(f"kineto/{name}")
    theirs = run.sql(
        "SELECT rank, name, count(*) AS n, sum(duration_ns) AS ns FROM other_events"
        " WHERE category = 'gpu_user_annotation' GROUP BY ALL"
    )
    ours = {(row["rank"], row["range"]): row for row in rows(run, "ranges", kind="annotation")}
    compared = 0
    for rank, range_, count, total in theirs.itertuples(index=False):
        row = ours[rank, range_]
        if row["with_gpu"] == count:
            compared += 1
            assert 0 <= total - row["gpu_span_total_ns"] <= added_ns * count
    assert compared >= 2
