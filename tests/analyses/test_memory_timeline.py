import pytest

from tests.analyses.builders import Builder, rows
from tests.analyses.memory_events import memory_event
from tests.conftest import Recorded
from tests.marks import nightly


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


def test_what_is_freed_at_once_is_not_held_until_the_next_event(build: Builder) -> None:
    build.rank(0)
    for number, (at, value) in enumerate(((0, 100), (1, 400), (2, -450), (90, 1))):
        memory_event(build, at, value, number)
    found = rows(build.con, "memory_timeline", stretches=9)
    # 500 was the most of the first 10 ns; 50 are left from then on, and 51 at the end
    assert [(row["since_ns"], row["allocated_bytes"]) for row in found] == [
        (0, 500),
        (10, 50),
        (90, 51),
    ]


@nightly
def test_between_the_steps_of_a_real_run_nothing_is_allocated(recorded: Recorded) -> None:
    """At each end of a step torch 1.9 frees what it allocated in it, and 64 ms follow without."""
    curve = recorded("kineto/tb_resnet50_torch1.9").memory_timeline()
    curve = curve[curve["device"] == "cuda:0"].sort_values("since_ns")
    pauses = curve[curve["since_ns"].shift(-1) - curve["since_ns"] > 60_000_000]
    assert pauses["allocated_bytes"].to_list() == [0] * len(pauses) != []


def test_only_the_highest_are_shown(run: Builder) -> None:
    assert {row["device"] for row in rows(run.con, "memory_timeline", curves=1)} == {"cuda:0"}


def test_the_highest_value_of_a_real_run_is_its_peak(recorded: Recorded) -> None:
    opened = recorded("ddp_gloo_4ranks")
    peaks = opened.memory().set_index("rank")["peak_allocated_bytes"]
    found = opened.memory_timeline()
    assert found.groupby("rank")["allocated_bytes"].max().to_dict() == peaks.to_dict()
    assert found.groupby("rank").size().max() <= 401
