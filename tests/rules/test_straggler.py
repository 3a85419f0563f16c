"""What a late rank is told, of jobs worked out by hand."""

from __future__ import annotations

import json

import duckdb
import pytest

from tests.analyses.builders import Builder, found_by
from tests.marks import nightly

MS = 1_000_000


def _sum(build: Builder, step: int, asked: dict[int, int]) -> int:
    """Sum what each rank asks for at its moment; returns when that is over, 5 ms after the last."""
    each, end = {}, max(asked.values()) + 5 * MS
    for rank, begin in asked.items():
        call = build.host(rank, (begin, begin + 1), "c10d::allreduce_", step=step)
        each[rank] = {"gpu_op_id": None, "host_op_id": call, "stream": 9}
    build.collective({rank: (b + 2, end) for rank, b in asked.items()}, step=step, each=each)
    return end


# what was wrong: "in step 0", the longest by far, and to look for other load on its cores
def test_what_no_other_rank_does_can_be_left_out(empty_run: duckdb.DuckDBPyConnection) -> None:
    """Rank 1 takes 20 ms for its statistics before a sum that rank 0 waits in, 90 in one of seven
    steps."""
    build = Builder(empty_run)
    build.world(2)
    for step, longer in enumerate((90, *[20] * 6)):
        at = step * 200 * MS
        asked = {0: at + 10 * MS, 1: at + (10 + longer) * MS}
        stats = (at + 10 * MS, asked[1])
        build.host(1, stats, "stats", "annotation", step=step)
        build.host(1, stats, "aten::sum", depth=1, step=step)
        end = _sum(build, step, asked)
        for rank in range(2):
            build.step(rank, step, (at, at + 200 * MS))
            build.host(rank, (at, at + 10 * MS), "aten::mm", step=step)
            build.host(rank, (end, at + 200 * MS), "aten::add_", step=step)
    found = found_by(build.con, "straggler")["straggler"]
    assert "aten::sum once, 30.0 ms in every step; most others do not" in found["evidence"]
    assert found["advice"].startswith("Most ranks do not do this: on rank 1 leave it out")


# what was wrong: to look for other load on its cores, where its gradients have hooks
@pytest.mark.parametrize("inside", ["", "aten::add_", "FSDP::post_backward"])
def test_time_of_autograd_in_no_operator_is_that_of_hooks(
    empty_run: duckdb.DuckDBPyConnection, inside: str
) -> None:
    """Rank 1 is 40 ms in the accumulation of a gradient, rank 0 for 2, or in an operator there, or
    in a hook of FSDP, which all have."""
    build = Builder(empty_run)
    build.world(2)
    for step in range(6):
        at, asked = step * 100 * MS, {}
        for rank, lasts in ((0, 2), (1, 40)):
            asked[rank] = at + (10 + lasts) * MS
            span = (at + 10 * MS, asked[rank])
            name = "autograd::engine::evaluate_function: torch::autograd::AccumulateGrad"
            node = build.host(rank, span, name, step=step)
            if inside:
                kind = "annotation" if inside.startswith("FSDP") else "op"
                build.host(rank, span, inside, kind, depth=1, step=step, parent_id=node)
        end = _sum(build, step, asked)
        for rank in range(2):
            build.step(rank, step, (at, at + 100 * MS))
            build.host(rank, (at, at + 10 * MS), "aten::mm", step=step)
            build.host(rank, (end, at + 100 * MS), "aten::mul", step=step)
    found = found_by(build.con, "straggler", replay_ops=0)["straggler"]
    start = "Look for other load on its CPU cores"
    if not inside:
        start = "Look for gradient hooks in Python on rank 1 (register_hook)"
    assert found["advice"].startswith(start)


# what was wrong: nobody was slow, as more of the lateness was that a sum had ended later
def test_what_it_computes_longer_counts_beside_a_sum_that_ended_later(
    empty_run: duckdb.DuckDBPyConnection,
) -> None:
    """A sum ends 12 ms later on rank 1, which then multiplies for 20 ms in place of 10."""
    build = Builder(empty_run)
    build.world(2)
    for step in range(8):
        at = step * 100 * MS
        ends = {0: at + 20 * MS, 1: at + 32 * MS}
        begun = {0: ends[0] + 10 * MS, 1: ends[1] + 20 * MS}
        for each in ({r: (at + 10 * MS, e) for r, e in ends.items()},
                     {r: (b, at + 57 * MS) for r, b in begun.items()}):  # fmt: skip
            build.collective(
                each, step=step, each={r: {"gpu_op_id": None, "stream": 9} for r in each}
            )
        for rank in range(2):
            build.step(rank, step, (at, at + 100 * MS))
            build.host(rank, (at, at + 10 * MS), "aten::mm", step=step)
            build.host(rank, (ends[rank], begun[rank]), "aten::mm", step=step)
            build.host(rank, (at + 57 * MS, at + 100 * MS), "aten::add_", step=step)
    found = found_by(build.con, "straggler")["straggler"]
    assert found["title"] == "Rank 1 computes longer, and 1 rank waits for it"
    assert found["evidence"].startswith("Rank 1 keeps 1 rank waiting 10.0 ms per step")


# what was wrong: divided over all steps, where the others would wait for rank 0 in the first ones
def test_what_is_uneven_in_some_steps_is_divided_in_these(
    empty_run: duckdb.DuckDBPyConnection,
) -> None:
    """Rank 1 multiplies twice as many rows as rank 0 from the seventh of twelve steps on, 80 ms for
    40; divided evenly, both take 60 there, and 20 ms in half of the steps are gained."""
    build = Builder(empty_run)
    build.world(2)
    at = 0
    for step in range(12):
        asked = {}
        for rank in range(2):
            rows = 2 if rank and step > 5 else 1
            asked[rank] = at + 40 * MS * rows
            args = {"Input Dims": [[256 * rows, 768], [768, 768]]}
            build.host(rank, (at, asked[rank]), "aten::mm", step=step, args=json.dumps(args))
        end = _sum(build, step, asked)
        for rank in range(2):
            build.host(rank, (end, end + 10 * MS), "aten::add_", step=step)
            build.step(rank, step, (at, end + 10 * MS))
        at = end + 10 * MS
    found = found_by(build.con, "straggler")["straggler"]
    assert "By the input sizes of aten::mm, rank 1 gets 1.2 times the mean" in found["evidence"]
    assert found["scenario"] == "step=6-11 kind=compute like=mean"
    assert found["cost_ns"] == pytest.approx(10 * MS, rel=0.01)


# what was wrong: to look for other load on its cores, and of a single call to divide work
@pytest.mark.parametrize(
    ("inside", "calls", "types", "evidence", "advice"),
    [
        (None, ((10,), (60,)), ("float", "double"), " aten::mm are of type double, those of the"
         " others are not", "Look for what makes the numbers of rank 1 another type"),
        (None, ((10,), (60,)), ("float", "float"), "Rank 1 runs aten::mm once, 60.0 ms", "Look for"
         " other load"),
        (None, ((1, 1), (1, 1, 58)), ("float", "float"), "Rank 1 runs aten::mm 3 times, 60.0 ms",
         "Its calls are more, and longer: leave out or share"),
        (None, ((10,), (60,)), ("float", "TensorList"), "Rank 1 runs aten::mm once",
         "Look for other load"),
        (None, ((10, 10), (10,) * 6), ("float", "float"), "Rank 1 runs aten::mm 6 times, 60.0 ms",
         "Divide the work evenly, or leave out what only this rank has to do"),
        ("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", ((), (30, 30)),
         ("float", "double"), "is in 'enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__'",
         "Rank 1 makes its batches in its steps: give its loader workers (num_workers)"),
        # of whom it is not known that it has none
        ("get_batch", ((), (30, 30)), ("float", "double"), "is in 'get_batch'",
         "Most ranks do not do this"),
    ],
)  # fmt: skip
def test_what_a_rank_computes_longer_in_is_told(
    empty_run: duckdb.DuckDBPyConnection,
    inside: str | None, calls: tuple[tuple[int, ...], ...], types: tuple[str, str],
    evidence: str, advice: str,
) -> None:  # fmt: skip
    """Products of each rank before a sum, by their lengths in ms: another type of numbers, a long
    call that is no share of the others' work, a share, and what a loader without workers does."""
    build = Builder(empty_run)
    build.world(2)
    for step in range(8):
        at, asked = step * 200 * MS, {}
        for rank, own in enumerate(calls):
            until, args = at + 1, json.dumps({"Input Dims": [[8, 8]], "Input type": [types[rank]]})
            for number, length in enumerate(own):
                span = (until, until + length * MS)
                name = ("aten::sort", "aten::stack")[number] if inside else "aten::mm"
                build.host(rank, span, name, depth=1, step=step, args=args)
                until = span[1]
            if inside and own:
                build.host(rank, (at + 1, until), inside, "annotation", step=step)
            asked[rank] = until
        end = _sum(build, step, asked)
        for rank in range(2):
            build.step(rank, step, (at, at + 200 * MS))
            build.host(rank, (end, at + 200 * MS), "aten::add_", step=step)
    found = found_by(build.con, "straggler", replay_ops=0)["straggler"]
    assert found["ranks"] == [1]
    assert evidence in found["evidence"]
    assert found["advice"].startswith(advice)


# what was wrong: nothing named where copies were 49 % of the cost, and to look for other load; and
# that where both copy in every second step alone
@nightly
@pytest.mark.parametrize("every", [1, 2])
def test_what_a_rank_does_more_often_is_named_before_the_range_it_is_in(
    empty_run: duckdb.DuckDBPyConnection, every: int
) -> None:
    """Rank 1 copies four times for 10 ms each where rank 0 does once, in a range that both have; a
    product in it takes 50 or 25 ms longer as well, which says where, not why."""
    build = Builder(empty_run)
    build.world(2)
    for step in range(8):
        at, asked = step * 200 * MS, {}
        for rank, (copies, copy, product) in enumerate(((1, 10, 20), (4, 10, 20 + 50 // every))):
            copies *= step % every == 0
            until = at + (copies * copy + product) * MS
            build.host(rank, (at, until), "forward", "annotation", step=step)
            for number in range(copies):
                begin = at + number * copy * MS
                build.host(rank, (begin, begin + copy * MS), "aten::copy_", depth=1, step=step)
            build.host(rank, (until - product * MS, until), "aten::mm", depth=1, step=step)
            asked[rank] = until
            build.step(rank, step, (at, at + 200 * MS))
        end = _sum(build, step, asked)
        for rank in range(2):
            build.host(rank, (end, at + 200 * MS), "aten::add_", step=step)
    found = found_by(build.con, "straggler")["straggler"]
    steps = {1: "in every step", 2: "per step in every 2nd step"}[every]
    assert f"Rank 1 runs aten::copy_ 4 times, 40.0 ms {steps}" in found["evidence"]
    said = (
        "Divide the work evenly, or leave out what only this rank has to do: the others run it once"
    )
    assert found["advice"] == said


# what was wrong: to prepare what it sends a step ahead, or let each rank make its own
@pytest.mark.parametrize(
    ("inside", "alone", "advice"),
    [
        ("Optimizer.step#AdamW.step", False, "The others wait for parameters that rank 0 updates"),
        # sent after that, as one that updates for all does
        ("Optimizer.step#AdamW.step", True, "The others wait for parameters that rank 0 updates"),
        ("scatter_batch", False, "The others wait for what rank 0 sends: prepare it a step ahead"),
        ("scatter_batch", True, "The others wait for what rank 0 sends: prepare it a step ahead"),
    ],
)
def test_what_a_rank_updates_for_all_is_divided(
    empty_run: duckdb.DuckDBPyConnection, inside: str, alone: bool, advice: str
) -> None:
    """Of a sharded optimizer (ZeRO 1) rank 0 has parameters that take 60 ms, rank 1 such that take
    10; then each has to have those of rank 0."""
    build = Builder(empty_run)
    build.world(2)
    for step in range(8):
        at, each, spans = step * 100 * MS, {}, {}
        end = at + 65 * MS
        for rank, until in enumerate((at + 60 * MS, at + 10 * MS)):
            build.step(rank, step, (at, at + 100 * MS))
            if rank == 0 or not alone:
                range_ = (at, until if alone else until + MS)
                build.host(rank, range_, inside, "annotation", step=step)
            build.host(rank, (at, until), "aten::add_", depth=1, step=step)
            asked = (until + 1, until + 2)
            call = build.host(rank, asked, "c10d::broadcast_", depth=1, step=step)
            each[rank] = {"gpu_op_id": None, "host_op_id": call, "stream": 9, "root_place": 0}
            spans[rank] = (until + 3, end)
            build.host(rank, (end, at + 100 * MS), "aten::mm", step=step)
        build.collective(spans, "broadcast", step=step, each=each)
    found = found_by(build.con, "straggler", replay_ops=0)["straggler"]
    assert found["advice"].startswith(advice)
    assert found["cost_ns"] == pytest.approx(50 * MS)
