"""What the host does before the GPU has anything to do, worked out by hand."""

from __future__ import annotations

import duckdb
import pytest

from tests.analyses.builders import Builder
from tests.marks import first_at_once
from tests.replay.by_hand import US
from traceweave.replay.model import Model

MS = 1000 * US


@pytest.mark.parametrize("synced", first_at_once([True, False]))
@pytest.mark.parametrize("device", [(0, 100), (60, 100), (60, 80)])
def test_the_only_step_is_as_long_as_steps_says(
    empty_run: duckdb.DuckDBPyConnection, device: tuple[int, int], synced: bool
) -> None:
    """A range of 100 ms on the host, which launches at 60; the op runs from 61 to 80."""
    run = Builder(empty_run)
    run.rank(0)
    run.step(0, 1, (0, 100 * MS), (device[0] * MS, device[1] * MS))
    if synced:  # as the profiler does at first
        run.host(0, (0, 1 * US), "cudaDeviceSynchronize", "runtime", step=1)
    call = run.launch(0, (60 * MS, 60 * MS + 5 * US), step=1)
    run.gpu(0, (61 * MS, 80 * MS), launch=call, step=1)
    run.write()
    model = Model(empty_run)
    begins = 0 if device[0] == 0 else 61
    ends = 100 if device[1] == 100 else 80
    assert model.measured == pytest.approx((ends - begins) * MS)
    # without what the host does before it launches, all comes 60 ms earlier
    gain = (60 if begins == 0 else 0) * MS
    (answer,) = model.answers(["kind=launch while=idle times=0"])
    assert answer.gain_ns == pytest.approx(gain, abs=1 * MS + 5 * US)


@pytest.mark.parametrize(
    ("start", "gain"),
    # code that is loaded in the call holds up what is launched at its end, not what began before
    [(7, 5), (4, 0)],
)
def test_a_long_launch_launches_at_its_end(
    empty_run: duckdb.DuckDBPyConnection, start: int, gain: int
) -> None:
    """The first launch of a kernel takes from 1 to 6 ms, and loads its code; others take 5 us."""
    run = Builder(empty_run)
    run.rank(0)
    run.step(0, 1, (0, 20 * MS), (0, (start + 13) * MS))
    for n in range(3):
        call = run.launch(0, (n * 100 * US, n * 100 * US + 5 * US), step=1)
        run.gpu(0, (n * 100 * US + 10 * US, n * 100 * US + 50 * US), launch=call, step=1)
    call = run.launch(0, (1 * MS, 6 * MS), step=1)
    run.gpu(0, (start * MS, start * MS + 13 * MS), "compute", "new", launch=call, step=1)
    run.write()
    (answer,) = Model(empty_run).answers(["kind=module_loading times=0"])
    assert answer.gain_ns == pytest.approx(gain * MS, abs=20 * US)
