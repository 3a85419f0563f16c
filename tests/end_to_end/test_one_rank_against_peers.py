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
