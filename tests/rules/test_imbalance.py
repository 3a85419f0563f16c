"""What is said of ranks that wait for each other in turn, of a job worked out by hand."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest

import traceweave
from tests.analyses.builders import Builder, found_by
from tests.conftest import DatabaseOf
from tests.rewritten import rewritten

MS = 1_000_000


# what was wrong: 16 of 30 products of matrices per step that only one rank had were in no finding
@pytest.mark.parametrize("sorts", [4, 1])
def test_what_one_rank_does_more_often_is_named(
    empty_run: duckdb.DuckDBPyConnection, sorts: int
) -> None:
    """By turns a rank multiplies for 60 ms before a sum; rank 1 sorts `sorts` times for 6 ms, rank
    0 once. With four sorts rank 0 is late by 60 - 18 ms, then rank 1 by 60 + 18: each waits 30 ms
    per step, mean over both."""
    build = Builder(empty_run)
    build.world(2)
    for step in range(8):
        at, each, spans = step * 200 * MS, {}, {}
        for rank, count in enumerate((1, sorts)):
            now = at
            for _ in range(count):
                build.host(rank, (now, now + 6 * MS), "aten::sort", step=step)
                now += 6 * MS
            if step % 2 == rank:
                build.host(rank, (now, now + 60 * MS), "aten::mm", step=step)
                now += 60 * MS
            call = build.host(rank, (now, now + 1), "c10d::allreduce_", step=step)
            each[rank] = {"gpu_op_id": None, "host_op_id": call, "stream": 9}
            spans[rank] = (now + 2, at + 100 * MS)
            build.step(rank, step, (at, at + 200 * MS))
            build.host(rank, (at + 100 * MS, at + 200 * MS), "aten::add_", step=step)
        build.collective(spans, step=step, each=each)
    found = found_by(build.con, "imbalance", replay_ops=0)["imbalance"]
    assert found["cost_ns"] == pytest.approx(30 * MS, rel=0.01)
    more = (
        ". Rank 1 runs aten::sort 4 times, 24.0 ms in every step; the others once, 6.00 ms at the"
    )
    assert (more in found["evidence"]) == (sorts == 4)


# what was wrong: to look for evaluation and checkpoints, and of the compiler half its time
@pytest.mark.parametrize("own", [80, 0])
def test_a_rank_that_compiles_in_a_step_is_told(
    empty_run: duckdb.DuckDBPyConnection, own: int
) -> None:
    """All multiply for 20 ms before a sum; in one step of eight rank 1 compiles for 80 ms first,
    which is 10 ms of the mean step, for the others too. Or both do, and then rank 1 sorts as long:
    no compiler makes the others wait. A step later rank 0 compiles for 8 ms, which is 1 ms more."""
    build = Builder(empty_run)
    build.world(2)
    at = 0
    for step in range(8):
        each, spans, compiles = {}, {}, [0, 0]
        if step == 3:
            compiles = [(80 - own) * MS, 80 * MS]
        elif step == 5:
            compiles = [8 * MS, 0]
        sorts = (80 - own) * MS if step == 3 else 0
        end = at + max(compiles) + sorts + 25 * MS
        for rank in range(2):
            now = at
            if compiles[rank]:
                span = (now, now + compiles[rank])
                build.host(rank, span, "compile_fx_inner (dynamo_timed)", step=step)
                now += compiles[rank]
            if rank == 1 and sorts:
                build.host(rank, (now, now + sorts), "aten::sort", step=step)
                now += sorts
            build.host(rank, (now, now + 20 * MS), "aten::mm", step=step)
            now += 20 * MS
            call = build.host(rank, (now, now + 1), "c10d::allreduce_", step=step)
            each[rank] = {"gpu_op_id": None, "host_op_id": call, "stream": 9}
            spans[rank] = (now + 2, end)
            build.step(rank, step, (at, end + 20 * MS))
            build.host(rank, (end, end + 20 * MS), "aten::add_", step=step)
        build.collective(spans, step=step, each=each)
        at = end + 20 * MS
    found = found_by(build.con, "imbalance", "compilation")
    assert found["imbalance"]["cost_ns"] == pytest.approx(10 * MS, rel=0.01)
    assert found["compilation"]["cost_ns"] == pytest.approx(11 * MS, rel=0.01)
    assert ("There rank 1 compiles code. Without" in found["imbalance"]["evidence"]) == (own > 0)
    before = found["imbalance"]["advice"].startswith("Let all ranks compile before the loop")
    assert before == (own > 0)


# what was wrong: "Balance the work (sequence lengths, experts, shards)", of ranks that all run the
# same on inputs of the same sizes, and wait for cores
def test_the_same_work_that_takes_longer_in_turn_is_not_to_be_balanced(
    fixtures: Path, database_of: DatabaseOf, tmp_path: Path
) -> None:
    """As if all calls had inputs of one size: by turns a rank takes 40 times as long for them."""
    uneven = _imbalance(database_of(fixtures / "uneven_work_gloo"))
    same = _imbalance(database_of(_uneven_work(fixtures, tmp_path / "traces", _even)))
    assert uneven["advice"].startswith("Balance the work")
    assert same["title"].endswith("equal calls take longer in turn")
    assert "uneven, though most calls and sizes of inputs are the same" in same["evidence"]
    # what was wrong: "Not the amount of work", of sparse matrices of the same sizes
    assert same["advice"].startswith("Look for other load on their CPU cores, such as each other")
    assert "else for work that values decide, not sizes" in same["advice"]
    assert same["cost_ns"] == pytest.approx(uneven["cost_ns"], rel=0.05)


# what was wrong: "equal compute takes longer in turn", of ranks with 24 and 8 products by turns,
# which are the same number in a recording without steps
def test_without_steps_nothing_tells_that_calls_are_equal(
    fixtures: Path, database_of: DatabaseOf, tmp_path: Path
) -> None:
    """Of three steps, in two of which one rank has more rows."""

    def one(trace: dict[str, Any]) -> None:
        _even(trace)
        events = trace["traceEvents"]
        [last] = [e["ts"] for e in events if e["name"] == "ProfilerStep#6" and e["ph"] == "X"]
        trace["traceEvents"] = [
            e for e in events
            if e["ph"] == "M" or (e["ts"] < last and not e["name"].startswith("ProfilerStep"))
        ]  # fmt: skip

    without = _imbalance(database_of(_uneven_work(fixtures, tmp_path / "traces", one)))
    assert without["title"].endswith("their compute is uneven")


# what was wrong: two fifths of the compute, of which nothing was known, counted as equal
def test_calls_whose_inputs_are_not_recorded_are_not_known_to_be_equal(
    fixtures: Path, database_of: DatabaseOf, tmp_path: Path
) -> None:
    """Of some they are not, as of kernels that Python launches."""

    def part(trace: dict[str, Any]) -> None:
        _even(trace)
        for event in trace["traceEvents"]:
            if event["name"] in ("aten::mm", "aten::gelu"):
                for known in ("Input Dims", "Concrete Inputs", "Input type", "Input Strides"):
                    event["args"].pop(known, None)

    unknown = _imbalance(database_of(_uneven_work(fixtures, tmp_path / "traces", part)))
    assert unknown["title"].endswith("their compute is uneven")


def _uneven_work(fixtures: Path, target: Path, change: Callable[[dict[str, Any]], None]) -> Path:
    return rewritten(fixtures / "uneven_work_gloo", target, change)


def _even(trace: dict[str, Any]) -> None:
    for event in trace["traceEvents"]:
        if event.get("cat") == "cpu_op":
            event["args"] |= {"Input Dims": [[1]], "Concrete Inputs": [""]}


def _imbalance(database: Path) -> dict[str, Any]:
    with traceweave.open(database) as run:
        found = run.findings()
        [row] = found[found["rule"] == "imbalance"].to_dict("records")
    return row
