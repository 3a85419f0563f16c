"""Our numbers beside those of HolisticTraceAnalysis 0.5.0 on the same real traces.

Where a trace has whole microseconds they are equal (test_against_peers). Where it has fractions,
HTA rounds every start up and every end down, so its busy time lacks up to 2 us per op. (On two more
traces it leaves out the last step and the kernels whose launch was not recorded; nothing to compare
there.)"""

from pathlib import Path

import pytest

from tests.conftest import Recorded
from tests.end_to_end.peers import hta_answers
from tests.marks import first_at_once
from traceweave.api import Run


def breakdown_us(run: Run) -> list[tuple[float, float, float, float]]:
    rows = run.breakdown(window="span")
    exposed = rows["exposed_comm_ns"] + rows["exposed_memory_ns"]
    columns = (rows["compute_ns"], exposed, rows["idle_ns"], rows["window_ns"])
    return list(zip(*(column / 1000 for column in columns), strict=True))


def hta_breakdown_us(expected: Path, name: str) -> list[tuple[float, float, float, float]]:
    keys = ("compute_time(us)", "non_compute_time(us)", "idle_time(us)", "kernel_time(us)")
    return [
        tuple(row[key] for key in keys)
        for row in hta_answers(expected, name)["temporal_breakdown_us"]
    ]


@first_at_once()
@pytest.mark.parametrize("name", ["hta_pair_nccl2", "ns_resolution", "amd_mi250"])
def test_breakdown_is_equal_up_to_their_rounding(
    recorded: Recorded, expected: Path, name: str
) -> None:
    run = recorded(f"kineto/{name}")
    ops = run.sql("SELECT count(*) AS n FROM gpu_ops")["n"][0]
    ((compute, exposed, idle, window),) = breakdown_us(run)
    ((their_compute, their_exposed, their_idle, their_window),) = hta_breakdown_us(expected, name)
    assert 0 <= compute - their_compute <= 2 * ops
    assert 0 <= exposed - their_exposed <= 2 * ops
    assert 0 <= their_idle - idle <= 2 * ops
    assert window == pytest.approx(their_window, abs=2)


def test_clocks_of_one_host_are_found_to_be_one(recorded: Recorded) -> None:
    clocks = recorded("kineto/megatron_tp8").sql("SELECT * FROM clocks ORDER BY rank")
    assert clocks["offset_ns"].abs().max() < 10_000
    assert (clocks["offset_ns"].abs() <= clocks["bound_ns"]).all()
    assert clocks["drift_ppm"].abs().max() < 20
