"""Buckets that the host transfers itself (gloo), merged: what it no longer does for each.

Times in host_buckets.cases are us."""

from __future__ import annotations

from typing import Any

import duckdb
import numpy as np
import pytest

from tests.analyses.builders import Builder, Span
from tests.replay.by_hand import US, check_replay
from tests.told import Case, told
from traceweave.replay.rank_graph import _finished_between
from traceweave.replay.rows import NONE

STEPS = tuple(enumerate((0, 200, 400)))


class Gloo(Builder):
    """Two ranks, for which threads of the host transfer."""

    def summed(
        self,
        at: dict[int, Span],
        calls: list[int],
        op: str = "all_reduce",
        stream: int = 9,
        step: int = 0,
        **more: Any,
    ) -> None:
        """A collective that a thread runs for a call of each rank."""
        each = {
            rank: {"gpu_op_id": None, "host_op_id": calls[rank], "stream": stream} for rank in at
        }
        self.collective(at, op, step=step, each=each, **more)

    def message(self, at: dict[int, Span], sender: int = 0) -> None:
        """A message between ranks 0 and 1, whose ranges are of the threads that ask for it."""
        each = {}
        for rank, (begin, _) in at.items():
            op = "send" if rank == sender else "recv"
            call = self.host(rank, (begin, begin + 5), f"c10d::{op}", step=0)
            each[rank] = {"gpu_op_id": None, "host_op_id": call, "stream": 1, "op": op}
        self.collective(at, "send", step=0, each=each)

    def both(
        self, called: Span, at: Span, name: str = "c10d::allreduce_", depth: int = 1, **more: Any
    ) -> None:
        """The same on both ranks, with its calls."""
        calls = [self.host(rank, called, name, depth=depth, step=0) for rank in (0, 1)]
        self.summed({0: at, 1: at}, calls, **more)

    def two_buckets(self) -> None:
        """Two ranks alike. Two operators ask for an all-reduce each, at 8 and 23, for 6 each; they
        take 28 each on one thread, from 10 to 38 and to 66. An operator goes on 5 after the first,
        another 10 after the second, and the step ends 12 after that begins."""
        self.group(0, [0, 1], role="dp", role_source="description")
        self.ranks(2)
        calls: tuple[list[int], ...] = ([], [])
        for rank in range(2):
            ops = [
                self.host(rank, (begin, end), name, depth=depth, step=0)
                for name, begin, end, depth in (
                    ("AccumulateGrad", 0, 15, 0), ("c10d::allreduce_", 8, 14, 1),
                    ("AccumulateGrad", 15, 30, 0), ("c10d::allreduce_", 23, 29, 1),
                    ("aten::as_strided", 43, 45, 0), ("aten::as_strided", 76, 78, 0),
                    ("aten::add_", 78, 88, 0),
                )
            ]  # fmt: skip
            calls[0].append(ops[1])
            calls[1].append(ops[3])
            self.step(rank, 0, (0, 88))
        for own, begin in zip(calls, (10, 38), strict=True):
            self.summed(dict.fromkeys(range(2), (begin, begin + 28)), own, step=0, bytes_=1000)

    def ends_late(self, late: int, idles: int = 0, factor: int = 1) -> None:
        """Rank 0 multiplies for 60 ms, `factor` times that in the first step, rank 1 for 10, and
        after that for `idles` beside their sum. Both go on when it is over, 10 ms after rank 0 asks
        for it. On rank 1 its range ends `late` then, which may be chance after 9 ms without an
        operator."""
        self.world(2)
        at = 0
        for step in range(3):
            times, calls = {}, []
            first = 60_000 * (factor if step == 0 else 1)
            over = at + first + 10_000
            for rank, multiplied in enumerate((first, 10_000)):
                begin = at + multiplied
                self.host(rank, (at, begin), "aten::mm", step=step)
                calls.append(self.host(rank, (begin, begin + 1), "c10d::allreduce_", step=step))
                if rank == 1 and idles:
                    self.host(rank, (begin + 1, begin + idles), "aten::add", step=step)
                times[rank] = (begin + 2, over + late * rank)
                self.host(rank, (over, over + 10_000), "aten::add_", step=step)
                self.step(rank, step, (at, over + 10_000))
            self.summed(times, calls, step=step)
            at += first + 140_000


@told
def test_host_buckets(empty_run: duckdb.DuckDBPyConnection, case: Case) -> None:
    check_replay(Gloo(empty_run, unit=US), case, **globals())


def test_of_two_sums_in_flight_the_one_that_ends_nearer_was_waited_for() -> None:
    """As in ddp_gloo_straggler: who goes on after 45 ms waited for the sum whose range ends 0.1 ms
    later, and then for the one that ends 1.6 ms later."""
    ms = 1_000_000
    cpu = {
        "chain": [0, 0, 0],
        "start_ns": [0, 50 * ms, 52 * ms],
        "end_ns": [5 * ms, 51 * ms, 60 * ms],
    }
    comm = {
        "start_ns": [3 * ms, 4 * ms],
        "called": [2 * ms, 3 * ms],
        "waited": [50 * ms + ms // 10, 51 * ms + 6 * ms // 10],
        "chain": [7, 8],
        "caller": [0, 0],
        "together": [NONE, NONE],
        "soonest": [NONE, NONE],
    }
    columns = ({name: np.array(of) for name, of in table.items()} for table in (cpu, comm))
    source, target = _finished_between(*columns)
    assert (source.tolist(), target.tolist()) == ([0, 1], [1, 2])


# what was wrong: 52 ms to gain where a sum of 24 MB ran on beside a rank that slept; by timers 2.5
@pytest.mark.parametrize(("quickest", "waits"), [(10, True), (16, False)])
def test_who_goes_on_before_a_sum_can_be_over_did_not_wait_for_it(
    quickest: int, waits: bool
) -> None:
    """Of 70 ms without an operator the last rank came after 55, and the range ends 30 after them;
    another sum of its size took `quickest`."""
    ms = 1_000_000
    cpu = {"chain": [0, 0], "start_ns": [0, 75 * ms], "end_ns": [5 * ms, 120 * ms]}
    comm = {
        "start_ns": [5 * ms],
        "called": [4 * ms],
        "waited": [105 * ms],
        "chain": [7],
        "caller": [0],
        "together": [60 * ms],
        "soonest": [(60 + quickest) * ms],
    }
    columns = ({name: np.array(of) for name, of in table.items()} for table in (cpu, comm))
    source, _ = _finished_between(*columns)
    assert (len(source) > 0) == waits
