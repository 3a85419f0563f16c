"""How ranges lie in each other: nesting per domain, and over domains that cross."""

from collections.abc import Sequence
from unittest.mock import patch

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.marks import nightly
from tests.tables import empty_database
from traceweave.sources import derive, nesting
from traceweave.sources.nesting import nest_host_ops

Range = tuple[int, int, int]
"""Nesting, start, end; the op_id is the position in the list."""


def nest(ranges: Sequence[Range]) -> dict[int, tuple[int, int | None]]:
    """(depth, parent) by op_id of ranges of one thread."""
    with empty_database() as con:
        derive.stage(con)
        con.executemany(
            "INSERT INTO new_host_ops (rank, op_id, kind, name, pid, tid, nesting, start_local_ns,"
            " duration_ns) VALUES (0, ?, 'nvtx', 'x', 1, 1, ?, ?, ?)",
            [[i, nesting, start, end - start] for i, (nesting, start, end) in enumerate(ranges)],
        )
        nest_host_ops(con)
        rows = con.execute("SELECT op_id, depth, parent_id FROM parents").fetchall()
    return {op_id: (depth, parent) for op_id, depth, parent in rows}


def enclosing(ranges: Sequence[Range]) -> dict[int, tuple[int, int | None]]:
    """The same by comparing every two: the parent is the shortest of all that enclose the range."""
    order = {i: (start, -max(end, start + 1), i) for i, (_, start, end) in enumerate(ranges)}
    parents: dict[int, int | None] = {}
    for i in order:
        outer = [j for j in order if order[j] < order[i] and order[j][1] <= order[i][1]]
        parents[i] = max(outer, key=lambda j: (order[j][0] + order[j][1], order[j]), default=None)

    def depth(i: int) -> int:
        parent = parents[i]
        return 0 if parent is None else 1 + depth(parent)

    return {i: (depth(i), parents[i]) for i in order}


def test_a_range_never_lies_in_one_of_another_domain_that_ends_before_it() -> None:
    """Domain 0: step [0 100] with forward [10 40]; domain 1: copy [30 60] crosses forward's end,
    so it lies in step; its child [45 50] lies in copy; loss [55 80] of domain 0 crosses copy."""
    assert nest([(0, 0, 100), (0, 10, 40), (1, 30, 60), (1, 45, 50), (0, 55, 80)]) == {
        0: (0, None), 1: (1, 0), 2: (1, 0), 3: (2, 2), 4: (1, 0),
    }  # fmt: skip


def test_ranges_of_two_domains_over_the_same_time_have_one_order() -> None:
    """The first read is the outer one; of two that cross, the shorter one is the parent."""
    assert nest([(0, 0, 9), (1, 0, 9), (0, 5, 9), (2, 3, 13)]) == {
        0: (0, None), 1: (1, 0), 2: (2, 1), 3: (0, None),
    }  # fmt: skip


@st.composite
def programs(draw: st.DrawFn) -> list[Range]:
    """What a thread records that pushes and pops ranges of three domains at will."""
    ranges: list[Range] = []
    now = 0
    stacks: dict[int, list[int]] = {0: [], 1: [], 2: []}
    for domain, push, pause in draw(
        st.lists(st.tuples(st.integers(0, 2), st.booleans(), st.integers(0, 2)), max_size=40)
    ):
        now += pause
        if push:
            stacks[domain].append(len(ranges))
            ranges.append((domain, now, now))
        elif stacks[domain]:
            at = stacks[domain].pop()
            ranges[at] = (domain, ranges[at][1], now)
    for stack in stacks.values():
        while stack:
            at = stack.pop()
            now += 1
            ranges[at] = (ranges[at][0], ranges[at][1], now)
    return ranges


@nightly
@settings(deadline=None, max_examples=60)
@given(programs(), st.sampled_from([1, 2, 3, 1000]))
def test_the_parent_is_the_innermost_range_that_encloses(
    ranges: list[Range], batch_rows: int
) -> None:
    # ranges of no length count as 1 ns, so they may overlap what begins as they end
    ranges = [(0, -9, -5), *((domain, 4 * start, 4 * end) for domain, start, end in ranges)]
    with patch.object(nesting, "BATCH_ROWS", batch_rows):
        assert nest(ranges) == enclosing(ranges)
