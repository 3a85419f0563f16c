from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.analyses.builders import Builder, rows, told
from tests.marks import examples

PARTS = ("compute_ns", "exposed_comm_ns", "exposed_memory_ns", "idle_ns")


def test_a_step_is_compute_exposed_communication_exposed_memory_and_idle(build: Builder) -> None:
    #            0    10   20   30   40   50   60   70   80   90   100
    # compute    ██████████               ████████████████
    # comm            ███████████████                ███████████
    # memory                         ██████████
    build.rank(0)
    build.step(0, 7, host=(-10, 90), device=(0, 100))
    build.gpu(0, (0, 20))
    build.gpu(0, (40, 70))
    build.gpu(0, (10, 40), "communication", stream=20)
    build.gpu(0, (60, 80), "communication", stream=20)
    build.gpu(0, (30, 50), "memory", stream=9)
    assert rows(build.con, "breakdown") == [
        {
            "rank": 0,
            "step": 7,
            "window_start_ns": 0,
            "window_ns": 100,
            "compute_ns": 50,
            "comm_ns": 50,
            "memory_ns": 20,
            "overlap_ns": 20,
            "exposed_comm_ns": 30,
            "exposed_memory_ns": 0,
            "idle_ns": 20,
            "comm_hidden_fraction": 0.4,
            "overlap_efficiency": 0.4,
            "step_overlap_efficiency": 0.0,
            # no other rank shows these collectives
            "exposed_wait_ns": 0,
            "exposed_transfer_ns": 0,
            "exposed_unsplit_ns": 30,
            "timeline": "gpu",
            "note": None,
        }
    ]


def test_exposed_communication_is_waiting_transfer_or_not_known(build: Builder) -> None:
    # rank 0    0..40 compute   20......all_reduce......80   send 90..100
    # rank 1    0.......60 compute      50..all_reduce..80
    # transfer takes 30; rank 0 waits for 30 before it, 20 of them beside its compute
    for rank, computed in ((0, 40), (1, 60)):
        build.rank(rank)
        build.step(rank, 1, host=(0, 100), device=(0, 100))
        build.gpu(rank, (0, computed))
    build.group(0, [0, 1])
    for rank, start in ((0, 20), (1, 50)):
        op = build.gpu(rank, (start, 80), "communication", stream=20)
        build.collective({rank: (start, 80)}, each={rank: {"gpu_op_id": op}}, matched=False)
    build.con.execute("UPDATE base.matches SET collective_id = 99, match = 'seq'")
    op = build.gpu(0, (90, 100), "communication", stream=20)
    build.collective({0: (90, 100)}, "send", each={0: {"gpu_op_id": op}}, matched=False)
    parts = ("exposed_wait_ns", "exposed_transfer_ns", "exposed_unsplit_ns", "exposed_comm_ns")
    got = [tuple(row[part] for part in parts) for row in rows(build.con, "breakdown")]
    assert got == [(10, 30, 10, 50), (0, 20, 0, 20)]


def test_windows_cut_the_ops_that_cross_their_edges(build: Builder) -> None:
    # compute 0..30 and memory 50..80 cross the edge at 20 and the one at 60
    build.rank(3)
    build.step(3, 1, host=(0, 20), device=(0, 20))
    build.step(3, 2, host=(20, 60), device=(20, 60))
    build.gpu(3, (0, 30))
    build.gpu(3, (50, 80), "memory")
    want = [(1, 0, 20, 20, 0, 0, 0), (2, 20, 40, 10, 0, 10, 20)]
    names = ("step", "window_start_ns", "window_ns", *PARTS)
    for window in ("device", "host"):
        got = rows(build.con, "breakdown", window=window)
        assert [tuple(row[name] for name in names) for row in got] == want


def test_the_span_is_from_the_first_op_to_the_end_of_the_last(build: Builder) -> None:
    build.rank(0)
    build.step(0, 1, host=(0, 500), device=(110, 190))
    build.gpu(0, (110, 150))
    build.gpu(0, (120, 130))
    build.gpu(0, (170, 190), "communication")
    [row] = rows(build.con, "breakdown", window="span")
    assert (row["step"], row["window_start_ns"], row["window_ns"]) == (None, 110, 80)
    assert [row[part] for part in PARTS] == [40, 20, 0, 20]
    assert row["note"] is None


def test_a_rank_without_steps_is_measured_over_its_span_and_says_so(build: Builder) -> None:
    build.rank(0)
    build.gpu(0, (5, 15))
    for window in ("device", "host"):
        [row] = rows(build.con, "breakdown", window=window)
        assert (row["step"], row["window_ns"], row["compute_ns"]) == (None, 10, 10)
        assert row["note"] == (
            "no steps recorded: window is the span of the rank;"
            " no communication: fractions are NULL"
        )


def test_a_rank_without_a_gpu_is_measured_on_its_cpu_operators(build: Builder) -> None:
    # nested operators are one stretch of compute: 10..40, and 60..70
    build.rank(0)
    build.step(0, 1, host=(0, 100))
    build.host(0, (10, 40), "aten::linear")
    build.host(0, (20, 30), "aten::addmm", depth=1)
    build.host(0, (60, 70), "aten::relu")
    build.host(0, (0, 100), "forward", kind="annotation")
    [row] = rows(build.con, "breakdown")
    assert [row[part] for part in PARTS] == [40, 0, 0, 60]
    assert row["timeline"] == "cpu"
    assert row["note"].startswith("host window: no GPU ops; ")


@pytest.mark.parametrize(
    ("category", "note"),
    [
        ("compute", "no communication: fractions are NULL"),
        ("communication", "no compute: efficiencies are NULL"),
        ("memory", "no communication: fractions are NULL"),
    ],
)
def test_a_fraction_of_nothing_is_null_with_a_reason(
    build: Builder, category: str, note: str
) -> None:
    build.rank(0)
    build.step(0, 1, host=(0, 10), device=(0, 10))
    build.gpu(0, (0, 10), category)
    [row] = rows(build.con, "breakdown")
    hidden = 0.0 if category == "communication" else None
    assert row["comm_hidden_fraction"] == hidden
    assert (row["overlap_efficiency"], row["step_overlap_efficiency"]) == (None, None)
    assert row["note"] == note


def test_a_step_that_launched_nothing_has_no_device_window(build: Builder) -> None:
    build.rank(0)
    build.step(0, 1, host=(0, 10), device=(0, 10))
    build.step(0, 2, host=(10, 30))
    build.gpu(0, (0, 10))
    assert [row["step"] for row in rows(build.con, "breakdown")] == [1]
    assert told(build.con, "breakdown", "step idle_ns", window="host") == [(1, 0), (2, 20)]


def test_step_overlap_efficiency_counts_idle_time_against_the_step(build: Builder) -> None:
    # compute 0..60, comm 30..90: 30 of 60 saved; over the window of 100, only 60 + 60 - 100 = 20
    build.rank(0)
    build.step(0, 1, host=(0, 100), device=(0, 100))
    build.gpu(0, (0, 60))
    build.gpu(0, (30, 90), "communication")
    columns = "overlap_efficiency step_overlap_efficiency"
    assert told(build.con, "breakdown", columns) == [(0.5, pytest.approx(1 / 3))]


Op = tuple[int, int, str]
OPS = st.lists(
    st.tuples(
        st.integers(0, 40),
        st.integers(0, 12),
        st.sampled_from(["compute", "communication", "memory"]),
    ),
    min_size=1,
    max_size=12,
)
WINDOWS = st.lists(st.tuples(st.integers(0, 45), st.integers(0, 20)), min_size=1, max_size=4)


def _by_counting(ops: Sequence[Op], start: int, end: int) -> tuple[int, ...]:
    """Look at every nanosecond on its own."""
    parts = dict.fromkeys(("compute", "comm", "memory", "overlap", "comm_only", "memory_only"), 0)
    idle = 0
    for at in range(start, end):
        running = {category for begin, length, category in ops if begin <= at < begin + length}
        compute, comm = "compute" in running, "communication" in running
        parts["compute"] += compute
        parts["comm"] += comm
        parts["memory"] += "memory" in running
        parts["overlap"] += compute and comm
        parts["comm_only"] += comm and not compute
        parts["memory_only"] += running == {"memory"}
        idle += not running
    return (*parts.values(), idle)


def test_the_sweep_agrees_with_counting_every_nanosecond(build: Builder) -> None:
    build.ranks(3)

    @settings(max_examples=examples(20), deadline=None)
    @given(ranks=st.lists(st.tuples(OPS, WINDOWS), min_size=3, max_size=3))
    def check(ranks: list[tuple[list[Op], list[tuple[int, int]]]]) -> None:
        build.con.execute("TRUNCATE base.gpu_ops")
        build.con.execute("TRUNCATE base.steps")
        for rank, (ops, windows) in enumerate(ranks):
            for start, length, category in ops:
                build.gpu(rank, (start, start + length), category)
            for step, (start, length) in enumerate(windows):
                build.step(rank, step, host=(start, start + length))
        got = rows(build.con, "breakdown", window="host")
        expected = [
            (rank, step, ops, window)
            for rank, (ops, windows) in enumerate(ranks)
            for step, window in enumerate(windows)
        ]
        for row, (rank, step, ops, (start, length)) in zip(got, expected, strict=True):
            assert (row["rank"], row["step"]) == (rank, step)
            parts = (
                "compute", "comm", "memory", "overlap", "exposed_comm", "exposed_memory", "idle",
            )  # fmt: skip
            measured = tuple(row[f"{part}_ns"] for part in parts)
            assert measured == _by_counting(ops, start, start + length)
            assert sum(row[part] for part in PARTS) == row["window_ns"] == length

    check()
