"""What is said of ranks that wait for each other in turn, in recordings that were changed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import traceweave
from tests.analyses.builders import only
from tests.conftest import DatabaseOf, Recorded
from tests.marks import nightly
from tests.rewritten import rewritten
from traceweave.analyses import shared_rows


# what was wrong: "Balance the work (sequence lengths, experts, shards)", of ranks that all run the
# same on inputs of the same sizes, and wait for cores
@nightly
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
@nightly
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
@nightly
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


# what was wrong: "Balance the work", of ranks that run the same, as autograd took longer in turn
# for what it does around operators, of which no inputs can be recorded
def test_ranks_that_run_the_same_are_given_the_same(recorded: Recorded) -> None:
    given = shared_rows(recorded("ddp_gloo_4ranks").con, "given_work").fetchdf()
    in_steps = given.groupby("step")
    assert (in_steps["given_ns"].max() - in_steps["given_ns"].min()).max() < 2e3
    assert (in_steps["own_ns"].max() - in_steps["own_ns"].min()).min() > 1e6


def _uneven_work(fixtures: Path, target: Path, change: Callable[[dict[str, Any]], None]) -> Path:
    return rewritten(fixtures / "uneven_work_gloo", target, change)


def _even(trace: dict[str, Any]) -> None:
    for event in trace["traceEvents"]:
        if event.get("cat") == "cpu_op":
            event["args"] |= {"Input Dims": [[1]], "Concrete Inputs": [""]}


def _imbalance(database: Path) -> dict[str, Any]:
    with traceweave.open(database) as run, only("imbalance"):
        found = run.findings()
        [row] = found[found["rule"] == "imbalance"].to_dict("records")
    return row


# what was wrong: 2.49 ms, of all waiting by turns
def test_of_a_rank_late_in_few_steps_the_cost_is_of_these(recorded: Recorded) -> None:
    """Rank 0 in one of twelve steps: two thirds of what stragglers do not explain."""
    con = recorded("evaluates_often_gloo").con
    [(steps, share)] = shared_rows(con, "late_in_few").select("steps, share").fetchall()
    [(longest,)] = shared_rows(con, "turns").select("longest_ns").fetchall()
    with only("imbalance"):
        [row] = recorded("evaluates_often_gloo").findings().to_dict("records")
    assert steps == [10]
    assert 0.5 <= share < 0.7
    assert row["cost_ns"] == pytest.approx(share * longest, abs=1)
