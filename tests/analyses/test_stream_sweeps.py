"""Idle times and queues of a stream, against counting moment by moment."""

from collections import Counter

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from traceweave.analyses.sweeps.streams import queue_depth, stream_idle
from traceweave.analyses.sweeps.times import NEVER

span = st.tuples(st.integers(0, 40), st.integers(0, 9)).map(lambda s: (s[0], s[0] + s[1]))
call = st.one_of(st.just(NEVER), st.integers(-5, 45))


def _column(values: list[int]) -> np.ndarray:
    return np.array(values, np.int64)


@settings(deadline=None)
@given(st.lists(st.tuples(span, call), min_size=1, max_size=10), st.integers(0, 12))
def test_a_stream_waits_for_the_host_or_for_something_else(
    ops: list[tuple[tuple[int, int], int]], delay: int
) -> None:
    # of ops that are equal in time any may be the next one
    ops = list({span: (span, called) for span, called in ops}.values())
    got = stream_idle(
        _column([start for (start, _), _ in ops]), _column([end for (_, end), _ in ops]),
        _column([called for _, called in ops]), _column([delay]),
    )  # fmt: skip
    ops.sort()
    waits: list[tuple[str, int]] = []
    free = ops[0][0][1]
    for (start, end), called in ops[1:]:
        if start > free:
            kind = "host" if called > free else "short" if start - free < delay else "other"
            waits.append((kind, start - free))
        free = max(free, end)
    lengths = [[n for kind, n in waits if kind in of] for of in ("hostshortother", "host", "short")]
    assert [column.tolist() for column in got] == [
        *([sum(some)] for some in lengths),
        *([len(some)] for some in lengths),
    ]


launch = st.tuples(st.integers(0, 30), st.integers(1, 5), st.lists(st.integers(-3, 15), max_size=3))


@settings(deadline=None)
@given(st.lists(launch, max_size=8), st.integers(1, 4), st.integers(0, 12), st.integers(0, 2))
def test_a_queue_holds_what_was_launched_and_has_not_started(
    launches: list[tuple[int, int, list[int]]], full: int, length: int, unlaunched: int
) -> None:
    # calls of one thread follow each other
    launches = list({came: (came, call, delays) for came, call, delays in launches}.values())
    ops = [
        (came + delay, number, came, call)
        for number, (came, call, delays) in enumerate(launches)
        for delay in delays
    ]
    columns = [*ops, *[(7, -1, NEVER, 0)] * unlaunched]
    got = queue_depth(
        *(_column([op[column] for op in columns]) for column in range(4)), _column([full, length])
    )
    waits = sorted(
        (came, max(came, came + min(delays)), call) for came, call, delays in launches if delays
    )
    assert list(zip(*(column.tolist() for column in got), strict=True)) == [
        _counted(waits, begin, end, is_last, full)
        for begin, end, is_last in _stretches(waits, length)
    ]


def _stretches(waits: list[tuple[int, int, int]], length: int) -> list[tuple[int, int, bool]]:
    if not waits:
        return []
    first, last = waits[0][0], max(left for _, left, _ in waits)
    begins = list(range(first, last, length)) if length else [first]
    begins = begins or [first]
    return [(begin, min(begin + (length or last), last), begin == begins[-1]) for begin in begins]


def _counted(
    waits: list[tuple[int, int, int]], begin: int, end: int, is_last: bool, full: int
) -> tuple[int, ...]:
    """The columns of a stretch, moment by moment; its end is part of the last one alone."""
    depth = Counter(at for came, left, _ in waits for at in range(came, left))
    inside = range(begin, end)
    found = {}
    for number, (came, _, _) in enumerate(waits):
        if begin <= came < end or (is_last and came == end):
            # those that leave at this moment do so after it came
            found[number] = sum(c <= came <= left for c, left, _ in waits[: number + 1])
    depths = sorted(found.values())
    blocked = [number for number, waiting in found.items() if waiting > full]
    arriving = max(depths, default=0)
    # what waits when the stretch begins, before any leaves
    waiting = sum(came < begin <= left for came, left, _ in waits)
    return (
        begin, end - begin, len(found), max([arriving, waiting, *(depth[at] for at in inside)]),
        sum(depth[at] for at in inside), depths[(len(depths) - 1) // 2] if depths else -1,
        sum(depth[at] == 0 for at in inside), sum(waiting == 1 for waiting in depths),
        sum(depth[at] >= full for at in inside), len(blocked),
        sum(waits[number][2] for number in blocked),
    )  # fmt: skip
