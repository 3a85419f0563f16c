from typing import Any

import pytest

from tests.analyses.builders import Builder, rows, told
from tests.analyses.memory_events import memory_event


@pytest.fixture
def run(build: Builder) -> Builder:
    """Allocated 100, 400 of 1000 reserved, 350, 450 of 500 reserved, 50."""
    build.rank(0)
    build.step(0, 1, host=(0, 25))
    build.step(0, 2, host=(25, 50))
    for number, (value, allocated, reserved) in enumerate(
        ((100, 100, 1000), (300, 400, 1000), (-50, 350, 500), (100, 450, 500), (-400, 50, 500))
    ):
        memory_event(build, 10 * number + 10, value, number, allocated, reserved)
    return build


def test_every_column(run: Builder) -> None:
    assert rows(run.con, "memory") == [
        {
            "rank": 0, "device": "cuda:0", "step": None, "events": 5, "allocations": 3,
            "allocation_bytes": 500, "first_allocated_bytes": 100, "last_allocated_bytes": 50,
            "peak_allocated_bytes": 450, "peak_at_ns": 40, "reserved_at_peak_bytes": 500,
            "peak_reserved_bytes": 1000, "fragmentation_at_peak": 0.1, "fragmentation_max": 0.9,
            "note": None, "on_host": False,
        }
    ]  # fmt: skip


def test_each_step_has_its_peak(run: Builder) -> None:
    columns = "step events peak_allocated_bytes peak_at_ns last_allocated_bytes"
    assert told(run.con, "memory", columns, per="step") == [
        (None, 1, 50, 50, 50),
        (1, 2, 400, 20, 400),
        (2, 2, 450, 40, 450),
    ]


def test_events_without_totals_are_summed(build: Builder) -> None:
    build.rank(0)
    for at, value in ((10, 100), (20, 50), (30, -100)):
        memory_event(build, at, value, at)
    [row] = rows(build.con, "memory")
    got: dict[str, Any] = {
        name: row[name] for name in ("peak_allocated_bytes", "peak_at_ns", "last_allocated_bytes")
    }
    assert got == {"peak_allocated_bytes": 150, "peak_at_ns": 20, "last_allocated_bytes": 50}
    assert (row["peak_reserved_bytes"], row["fragmentation_max"]) == (None, None)
    assert row["note"].startswith("allocated is the sum of the recorded events")
    assert row["note"].endswith("no fragmentation")


def test_memory_of_the_host_is_told_from_that_of_a_gpu(build: Builder) -> None:
    build.rank(0)
    memory_event(build, 10, 100, 1, device="cpu")
    memory_event(build, 10, 100, 2, device="cuda:0")
    # what an allocator reserves is a device's, whatever the trace calls it
    memory_event(build, 10, 100, 3, 100, 200, device="cpu:1")
    found = {row["device"]: row["on_host"] for row in rows(build.con, "memory")}
    assert found == {"cpu": True, "cuda:0": False, "cpu:1": False}
