from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.analyses.builders import Builder, check, rows
from tests.marks import examples
from tests.told import Case, told

PARTS = ("compute_ns", "exposed_comm_ns", "exposed_memory_ns", "idle_ns")


@told
def test_breakdown(build: Builder, case: Case) -> None:
    check(build, case)


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
    def holds(ranks: list[tuple[list[Op], list[tuple[int, int]]]]) -> None:
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

    holds()
