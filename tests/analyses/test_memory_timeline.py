from __future__ import annotations

import pytest

from tests.analyses.builders import Builder, rows
from tests.analyses.memory_events import memory_event
from tests.conftest import Recorded


@pytest.fixture
def run(build: Builder) -> Builder:
    """On a GPU 100, 400, 350, 450 and 50 are allocated, on the host 800 and 900."""
    build.rank(0, offset_ns=5)
    for number, (value, allocated, reserved) in enumerate(
        ((100, 100, 1000), (300, 400, 1000), (-50, 350, 500), (100, 450, 500), (-400, 50, 500))
    ):
        memory_event(build, 10 * number + 10, value, number, allocated, reserved)
    memory_event(build, 12, 800, 8, device="cpu")
    memory_event(build, 14, 100, 9, device="cpu")
    return build


def test_every_stretch_has_the_most_of_its_events(run: Builder) -> None:
    # 40 ns in two stretches of 20, and the last event begins a third
    found = rows(run.con, "memory_timeline", stretches=2)
    assert [tuple(row.values()) for row in found] == [
        (0, "cuda:0", 15, 0, 400, 1000, 1),
        (0, "cuda:0", 35, 20, 450, 500, 1),
        (0, "cuda:0", 55, 40, 50, 500, 1),
        # more is allocated on the host, but a GPU comes first
        (0, "cpu", 15, 0, 900, None, 2),
    ]


def test_only_the_highest_are_shown(run: Builder) -> None:
    assert {row["device"] for row in rows(run.con, "memory_timeline", curves=1)} == {"cuda:0"}


def test_the_highest_value_of_a_real_run_is_its_peak(recorded: Recorded) -> None:
    opened = recorded("ddp_gloo_4ranks")
    peaks = opened.memory().set_index("rank")["peak_allocated_bytes"]
    found = opened.memory_timeline()
    assert found.groupby("rank")["allocated_bytes"].max().to_dict() == peaks.to_dict()
    assert found.groupby("rank").size().max() <= 401
