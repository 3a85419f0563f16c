"""Ranks that meet over a store, here as threads."""

import threading
import time
from collections.abc import Callable
from functools import partial

import pytest

from tests.marks import nightly
from traceweave.capturing.meeting import Meeting

LIMIT_S = 1.0


@pytest.fixture(
    params=[True, pytest.param(False, marks=nightly)], ids=["store of its own", "older torch"]
)
def meetings(request: pytest.FixtureRequest) -> list[Meeting]:
    """Of three ranks."""
    # not imported when tests are collected: every process of the tests would
    dist = pytest.importorskip(
        "torch.distributed", reason="torch is not installed: it has the store"
    )
    store = dist.HashStore()
    found = [Meeting(store, "test", rank, 3, LIMIT_S) for rank in range(3)]
    for meeting in found:
        assert meeting._own
        meeting._own = request.param
    return found


def at_once(*calls: Callable[[], object]) -> list[object]:
    results: list[object] = [None] * len(calls)

    def keep(place: int) -> None:
        results[place] = calls[place]()

    threads = [threading.Thread(target=keep, args=(place,)) for place in range(len(calls))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    return results


def test_all_agree_and_all_come(meetings: list[Meeting]) -> None:
    agreed = at_once(*(partial(m.agree, None, True) for m in meetings))
    assert [(one.record, one.note) for one in agreed] == [(True, "")] * 3
    assert at_once(*(partial(m.barrier, "begin") for m in meetings)) == [True] * 3


def test_one_objection_decides_for_all(meetings: list[Meeting]) -> None:
    why = [None, "no room", None]
    agreed = at_once(*(partial(m.agree, w, True) for m, w in zip(meetings, why, strict=True)))
    assert [(one.record, one.note) for one in agreed] == [(False, "rank 1: no room")] * 3


def test_who_comes_too_late_does_what_the_others_have_settled(meetings: list[Meeting]) -> None:
    first = at_once(*(partial(m.agree, None, False) for m in meetings[:2]))
    late = meetings[2].agree(None, True)
    note = "rank 2 did not come within 1 s"
    assert [(one.record, one.note) for one in (*first, late)] == [(True, note)] * 3
    # two are enough now
    assert at_once(*(partial(m.barrier, "begin") for m in meetings[:2])) == [True] * 2


def test_a_rank_that_is_missing_is_waited_for_once(meetings: list[Meeting]) -> None:
    at_once(*(partial(m.agree, None, True) for m in meetings))
    begun = time.monotonic()
    for name, all_came in (("agreed", False), ("begin", True), ("end", True)):
        assert at_once(*(partial(m.barrier, name) for m in meetings[:2])) == [all_came] * 2
    assert LIMIT_S < time.monotonic() - begun < 2 * LIMIT_S


def test_who_leaves_keeps_nobody(meetings: list[Meeting]) -> None:
    at_once(*(partial(m.agree, None, True) for m in meetings))
    meetings[2].leave("over")
    for name in ("agreed", "begin", "end", "probed"):
        assert at_once(*(partial(m.barrier, name) for m in meetings[:2])) == [True] * 2
    assert meetings[2].barrier("end")  # for it, all is over


def test_who_leaves_first_decides_against_it(meetings: list[Meeting]) -> None:
    meetings[0].leave("training ended at step 3")
    agreed = at_once(*(partial(m.agree, None, True) for m in meetings[1:]))
    assert {(one.record, one.note) for one in agreed} == {
        (False, "rank 0: training ended at step 3")
    }


def test_no_two_ranks_are_told_otherwise(
    meetings: list[Meeting], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever gives up just when the last one comes: all have come, or all go on without it."""
    at_once(*(partial(m.agree, None, True) for m in meetings))
    first, *others = meetings
    told: list[object] = []

    def gives_up(_: str) -> bool:
        told.extend(at_once(*(partial(m.barrier, "begin") for m in others)))
        return False

    monkeypatch.setattr(first, "_wait", gives_up)
    assert first.barrier("begin") is True
    assert told == [True, True]


def test_all_wait_for_as_many_from_then_on(meetings: list[Meeting]) -> None:
    at_once(*(partial(m.agree, None, True) for m in meetings))
    meetings[0].barrier("agreed")
    meetings[1].barrier("agreed")  # told what was settled when there was one
    assert [m._expected for m in meetings[:2]] == [1, 1]
