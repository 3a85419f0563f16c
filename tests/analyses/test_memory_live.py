from tests.analyses.builders import Builder, rows, told
from tests.analyses.memory_events import memory_event
from tests.conftest import Recorded


def test_what_is_live_at_the_peak_by_operator(build: Builder) -> None:
    # 100 were there before; mm allocates 40 and 60 and frees 40, add uses that address again
    build.rank(0)
    build.host(0, (0, 100), "forward", kind="annotation")
    build.host(0, (10, 40), "aten::mm", depth=1)
    build.host(0, (11, 15), "aten::empty", depth=2)
    build.host(0, (50, 60), "aten::add", depth=1)
    memory_event(build, 20, 40, 1, 140)
    memory_event(build, 30, 60, 2, 200)
    memory_event(build, 45, -40, 1, 160)
    memory_event(build, 55, 30, 1, 190)
    memory_event(build, 57, 20, 3, 210)
    memory_event(build, 200, -60, 2, 150)
    memory_event(build, 300, 50, 2, 200)
    assert rows(build.con, "memory_live") == [
        {
            "rank": 0, "device": "cuda:0", "host_op": None, "range": None, "bytes": 100,
            "blocks": None, "largest_bytes": None, "share": 100 / 210, "peak_at_ns": 57,
            "ambiguous_blocks": None, "note": "allocated before the recording began",
        },
        {
            "rank": 0, "device": "cuda:0", "host_op": "aten::mm", "range": "forward", "bytes": 60,
            "blocks": 1, "largest_bytes": 60, "share": 60 / 210, "peak_at_ns": 57,
            "ambiguous_blocks": 0, "note": None,
        },
        {
            "rank": 0, "device": "cuda:0", "host_op": "aten::add", "range": "forward", "bytes": 50,
            "blocks": 2, "largest_bytes": 30, "share": 50 / 210, "peak_at_ns": 57,
            "ambiguous_blocks": 0, "note": None,
        },
    ]  # fmt: skip


def test_operators_of_two_threads_are_ambiguous_and_none_is_said(build: Builder) -> None:
    build.rank(0)
    build.host(0, (0, 100), "aten::mm")
    build.host(0, (10, 50), "aten::add", tid=2)
    memory_event(build, 20, 8, 1, 8)
    memory_event(build, 200, 4, 2, 12)
    assert told(build.con, "memory_live", "host_op bytes ambiguous_blocks note") == [
        ("aten::add", 8, 1, None),
        (None, 4, 0, "allocated while no operator ran"),
    ]


def test_a_range_of_another_thread_is_not_around_the_operator(build: Builder) -> None:
    build.rank(0)
    build.host(0, (0, 100), "backward", kind="annotation")
    build.host(0, (10, 50), "aten::mm", depth=1)
    build.host(0, (15, 90), "gloo:all_reduce", kind="annotation", tid=2)
    memory_event(build, 20, 8, 1, 8)
    memory_event(build, 60, 4, 2, 12)
    # of what no operator allocated, nobody knows the thread
    assert told(build.con, "memory_live", "host_op range") == [
        ("aten::mm", "backward"),
        (None, "gloo:all_reduce"),
    ]


def test_gradients_of_a_real_run_are_allocated_in_no_collective(recorded: Recorded) -> None:
    """While backward goes on, gloo's threads reduce the first buckets: their ranges are open."""
    found = recorded("ddp_gloo_4ranks").memory_live()
    gradients = found[found["host_op"] == "aten::mm"]
    assert set(gradients["range"]) == {"backward", "DistributedDataParallel.forward"}
    assert not found["range"].str.startswith("gloo:").any()
