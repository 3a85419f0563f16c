"""The sweeps that SQL calls, against oracles and against each other."""

from __future__ import annotations

import duckdb
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.analyses.builders import Builder
from tests.marks import nightly
from traceweave.analyses.runner import provide
from traceweave.analyses.sweeps.gaps import gaps
from traceweave.analyses.sweeps.operators import Launches, Operators, Ranges, operators
from traceweave.analyses.sweeps.times import NEVER
from traceweave.analyses.sweeps.unions import union_until, within

span = st.tuples(st.integers(0, 30), st.integers(0, 12)).map(lambda s: (s[0], s[0] + s[1]))


def _column(values: list[int]) -> np.ndarray:
    return np.array(values, np.int64)


@settings(deadline=None)
@given(st.lists(span, max_size=12), st.lists(st.integers(-2, 50), max_size=6))
def test_a_union_is_what_its_intervals_cover(spans: list[tuple[int, int]], at: list[int]) -> None:
    starts, ends = _column([s for s, _ in spans]), _column([e for _, e in spans])
    (lengths,) = union_until(starts, ends, _column(at))
    covered = {moment for start, end in spans for moment in range(start, end)}
    assert lengths.tolist() == [len({m for m in covered if m < until}) for until in at]


@settings(deadline=None)
@given(st.lists(st.integers(-2, 50), max_size=12), st.lists(span, max_size=6))
def test_moments_within_an_interval_are_those_from_its_start_to_its_end(
    at: list[int], spans: list[tuple[int, int]]
) -> None:
    (number,) = within(_column(at), *(_column([each[side] for each in spans]) for side in (0, 1)))
    assert number.tolist() == [sum(start <= one <= end for one in at) for start, end in spans]


def test_one_connection_is_given_its_functions_once_and_cursors_share_them() -> None:
    sweep = "SELECT sweep_union_until([0, 5], [3, 9], [2, 7]).union_ns"
    with duckdb.connect() as con:
        for one in (con, con, con.cursor()):
            provide(one, sweep)
            assert one.execute(sweep).fetchall() == [([2, 5],)]


@nightly
@settings(deadline=None)
@given(
    st.lists(st.tuples(span, st.booleans()), max_size=8),
    st.lists(st.tuples(st.integers(0, 40), st.integers(0, 9), st.booleans()), max_size=8),
)
def test_launches_are_those_of_the_last_outermost_operator_that_began_before(
    ops: list[tuple[tuple[int, int], bool]], launches: list[tuple[int, int, bool]]
) -> None:
    starts, ends = _column([s for (s, _), _ in ops]), _column([e for (_, e), _ in ops])
    called = _column([at for at, _, _ in launches])
    durations = _column([length for _, length, _ in launches])
    sorts = _column([(3 << 1) + is_compute for _, _, is_compute in launches])
    none, usable = _column([]), np.array([u for _, u in ops], np.uint8)
    done = operators(
        Operators(starts, ends, starts, starts, usable),
        Ranges(none, none, none.astype(np.uint8)),
        Launches(called, durations, sorts),
    )
    owners = [_owner(at, starts, ends, done.place) for at in called]
    assert done.is_owned.tolist() == [owner is not None for owner in owners]
    for op in range(len(ops)):
        mine = [n for n, owner in enumerate(owners) if owner == op]
        work = [int(durations[n]) for n in mine if sorts[n] & 1]
        most = (sum(work), 7) if work else (-1, -1)
        assert done.launched[:, op].tolist() == [len(mine), *most]


def _owner(at: int, starts: np.ndarray, ends: np.ndarray, place: np.ndarray) -> int | None:
    """The operator that a launch belongs to; of several that begin together the innermost."""
    begun = [
        (int(start), -int(end), op)
        for op, (start, end) in enumerate(zip(starts, ends, strict=True))
        if place[op] & 1 and start <= at
    ]
    last = max(begun, default=None)
    return last[2] if last is not None and at <= -last[1] else None


@settings(deadline=None)
@given(st.lists(span, min_size=1, max_size=12), st.integers(1, 4))
def test_the_op_before_a_gap_is_the_last_to_end_and_the_largest_of_several(
    spans: list[tuple[int, int]], least: int
) -> None:
    starts, ends = _column([s for s, _ in spans]), _column([e for _, e in spans])
    unknown = np.full(len(spans), NEVER)
    window = _column([-10]), _column([60])
    limits = _column([least, -1])
    found = gaps(starts, ends, np.arange(len(spans)), unknown, unknown, *window, limits)
    free_from, after = found[5], found[7]
    assert after.tolist() == [
        max((op for op, (_, end) in enumerate(spans) if end == moment), default=-1)
        for moment in free_from
    ]


@nightly
@pytest.mark.parametrize("call_rank", [0, 1])
def test_queued_gaps_add_up_the_same_one_by_one_and_summed(build: Builder, call_rank: int) -> None:
    """A call of another rank is not looked up but joined."""
    build.rank(0)
    build.rank(1)
    end = 0
    for gap in (0, 1_000, 2_000, 3_000, 8_000, 7_000, 12_000):
        # every other one is launched while the device idles, by a call that returns as it starts
        called = end + gap - 100 if gap % 2_000 else end - 300
        launch = build.launch(call_rank, (called, called + 100))
        build.gpu(0, (end + gap, end + gap + 1_000), launch=launch)
        end += gap + 1_000
    provide(build.con, "tw_gaps")
    each, summed, none = (
        build.con.execute(
            "SELECT cause, sum(gaps), sum(gaps_ns), max(longest_ns)"
            f" FROM tw_gaps('span', 'device', 1, 9000, '{queued}') GROUP BY ALL ORDER BY ALL"
        ).fetchall()
        for queued in ("each", "summed", "none")
    )
    late = ("launch_bound", 3, 11_000, 7_000)
    long = ("device_delay", 1, 12_000, 12_000)
    assert each == [long, ("kernel_delay", 2, 10_000, 8_000), late]
    assert (summed, none) == (each, [late])
