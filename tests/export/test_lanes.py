"""Lanes by hand, and against a plain sweep for arbitrary slices and arbitrary batches."""

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.cases import cases
from traceweave.export import lanes
from traceweave.export.lanes import LaneKeeper

Rows = list[tuple[int, int, int]]


def assign(rows: Rows, cuts: tuple[int, ...] = ()) -> list[int]:
    """Return the lanes of (track, start, end), given in batches that end at the cuts."""
    keeper = LaneKeeper()
    found: list[int] = []
    bounds = [0, *sorted(cuts), len(rows)]
    for first, last in pairwise(bounds):
        batch = np.array(rows[first:last], dtype=np.int64).reshape(-1, 3)
        found += keeper.assign(batch[:, 0], batch[:, 1], batch[:, 2]).tolist()
    return found


def in_order(rows: Rows) -> Rows:
    return sorted(rows, key=lambda row: (row[0], row[1], -row[2]))


def greedy(rows: Rows) -> list[int]:
    """First lane on which the slice follows or lies within what is open."""
    stacks: dict[int, list[list[int]]] = {}
    found = []
    for track, start, end in rows:
        tracks = stacks.setdefault(track, [])
        for stack in tracks:
            stack[:] = [open_ for open_ in stack if open_ > start]
        lane = next((i for i, s in enumerate(tracks) if not s or min(s) >= end), len(tracks))
        if lane == len(tracks):
            tracks.append([])
        tracks[lane].append(end)
        found.append(lane)
    return found


@cases
def test_slices_share_a_lane_as_long_as_they_nest(rows: Rows, expected: list[int]) -> None:
    ordered = in_order(rows)
    assert assign(ordered) == expected
    assert all(assign(ordered, (cut,)) == expected for cut in range(len(ordered)))


@given(
    st.lists(
        st.tuples(st.integers(0, 2), st.integers(0, 30), st.integers(0, 12)).map(
            lambda row: (row[0], row[1], row[1] + row[2])
        ),
        max_size=40,
    ),
    st.sets(st.integers(0, 40), max_size=3),
)
def test_lanes_are_those_of_a_plain_sweep_however_the_rows_are_batched(
    rows: Rows, cuts: set[int]
) -> None:
    ordered = in_order(rows)
    assert assign(ordered, tuple(min(cut, len(rows)) for cut in cuts)) == greedy(ordered)


def test_a_lane_is_never_deeper_than_perfetto_allows() -> None:
    depth = lanes.MOST_DEEP + 20
    rows = [(1, i, 10_000 - i) for i in range(depth)]
    assert assign(rows) == [0] * lanes.MOST_DEEP + [1] * 20
    assert assign(rows, (300,)) == assign(rows)
