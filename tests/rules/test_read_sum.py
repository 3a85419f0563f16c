"""What ranks wait for at once, beside gradients: objects, barriers, statistics of a layer."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import pytest

import traceweave
from tests.analyses.builders import Builder, found_by, only
from tests.conftest import DatabaseOf
from tests.marks import nightly
from tests.rewritten import rewritten

MS = 1_000_000
GRADIENT = "autograd::engine::evaluate_function: torch::autograd::AccumulateGrad"


# what was wrong: "Each step exchanges Python objects", of bytes that hold numbers, and their sizes
@nightly
def test_bytes_that_a_job_exchanges_itself_are_no_objects(
    fixtures: Path, database_of: DatabaseOf, tmp_path: Path
) -> None:
    """As if a tensor were made for the bytes, not resized: torch does so for objects alone."""

    def made(trace: dict[str, Any]) -> None:
        for event in trace["traceEvents"]:
            event["name"] = event["name"].replace("aten::resize_", "aten::empty")

    traces = rewritten(fixtures / "objects_gloo", tmp_path / "traces", made)
    with traceweave.open(database_of(traces)) as run, only("read_sum"):
        titles = set(run.findings()["title"])
    assert "The host reads the result of all_gather in every step" in titles
    assert "Each step exchanges Python objects" not in titles


# what was wrong: "Gather it every so many steps", "Sum it up and read it every so many steps"; with
# a gather of that size 20.7 ms gained per step, where the job without objects was 3 ms faster
@pytest.mark.parametrize(
    ("sizes", "carried", "made", "objects", "taken_away"),
    [
        ("all_gather", "gather", "aten::resize_", "gather_object", ["0-8", "5000-5000"]),
        ("recv", "recv", "aten::sum", "recv_object_list", ["0-8", "5000-5000"]),
        ("recv", "recv", "aten::empty", "", ["0-8"]),
        ("all_gather", "all_gather", "aten::resize_", "all_gather_object", ["0-8"]),
    ],
)
def test_objects_for_one_rank_are_objects_too(
    empty_run: duckdb.DuckDBPyConnection,
    sizes: str,
    carried: str,
    made: str,
    objects: str,
    taken_away: list[str],
) -> None:
    """In each of two steps sizes are exchanged for 2 ms and read; room is made, bytes follow. Later
    as many others are gathered."""
    build = Builder(empty_run)
    build.world(3)
    for step in range(2):
        at = step * 100 * MS
        parts = ((sizes, 50, 8, "Long"), (carried, 55, 5000, "Byte"))
        for op, begin, size, dtype in (*parts, ("all_gather", 80, 5000, "Float")):
            begin, end = at + begin * MS, at + (begin + 2) * MS
            for ranks in [(0, 1), (0, 2)] if op == "recv" else [(0, 1, 2)]:
                each = {}
                for rank in ranks:
                    mine = "send" if op == "recv" and rank == 0 else op
                    call = build.host(rank, (begin, end), f"c10d::{mine}", step=step)
                    each[rank] = {"gpu_op_id": None, "host_op_id": call, "stream": 9}
                    each[rank] |= {"op": mine, "dtype": dtype}
                spans = dict.fromkeys(ranks, (begin, end))
                build.collective(spans, step=step, op=op, bytes_=size, each=each)
        for rank in range(3):
            build.step(rank, step, (at, at + 100 * MS))
            build.host(rank, (at, at + 50 * MS), "aten::mm", step=step)
            build.host(rank, (at + 52 * MS, at + 53 * MS), "aten::item", step=step)
            build.host(rank, (at + 53 * MS, at + 54 * MS), made, step=step)
    row = found_by(build.con, "read_sum")["read_sum"]
    assert (row["title"] == "Each step exchanges Python objects") == bool(objects)
    assert re.findall("bytes=([^ ]*)", row["scenario"]) == taken_away
    if objects:
        assert row["advice"].startswith(f"Tensors of known sizes in place of objects ({objects})")
    else:
        assert row["advice"].startswith("Exchange and read it every so many steps")


# what was wrong: "Sum it up and read it every so many steps", of what DDP reads for itself
@nightly
def test_ddp_that_looks_for_unused_parameters_is_named(
    fixtures: Path, database_of: DatabaseOf, tmp_path: Path
) -> None:
    """As if the sum that is read were of int32, and DDP had looked which parameters are used:
    its own sum begins where a gradient is there; a sum of the job's own does not.
    """

    def used(trace: dict[str, Any], within: str) -> None:
        events = trace["traceEvents"]
        for event in list(events):
            if event.get("name") in {"gloo:all_reduce", "c10d::allreduce_"}:
                dims = event["args"].get("Input Dims", [])
                if any(dim in ([], [[]]) or dim == [1] for dim in dims):
                    kinds = event["args"]["Input type"]
                    event["args"]["Input type"] = ["int" if k == "float" else k for k in kinds]
                    if event["name"] == "c10d::allreduce_":
                        around = {"name": within, "ts": event["ts"] - 1, "dur": event["dur"] + 2}
                        events.append({**event, **around})
        first = next(event for event in events if event.get("cat") == "cpu_op")
        name = "torch.distributed.ddp.reducer::search_unused_parameters"
        events.append({**first, "name": name, "dur": 1})

    within = {"own": "aten::mul", "ddp": GRADIENT}
    found = {}
    for name, part in within.items():
        traces = rewritten(
            fixtures / "metric_read_gloo", tmp_path / name, partial(used, within=part)
        )
        with traceweave.open(database_of(traces)) as run, only("read_sum"):
            found[name] = run.findings().set_index("rule").loc["read_sum"]
    assert found["own"]["title"] == "The host reads the result of all_reduce in every step"
    assert found["ddp"]["title"] == "DDP asks in every step which parameters were used"
    assert found["ddp"]["advice"].startswith("No find_unused_parameters=True where")


# what was wrong: "Start them earlier and asynchronously", and "Merge them: coalesced collectives"
@pytest.mark.parametrize("reader", [0, 1])
def test_what_a_rank_sends_is_read_by_those_that_get_it(
    empty_run: duckdb.DuckDBPyConnection, reader: int
) -> None:
    """Rank 0 sends objects to rank 1, which alone reads their size: twice in each of four steps. If
    the sender does, it waits for nobody."""
    build = Builder(empty_run)
    build.world(2)
    for step in range(4):
        at = step * 100 * MS
        for begin, size, dtype in ((50, 8, "Long"), (55, 40, "Byte")):
            span = (at + begin * MS, at + (begin + 2) * MS)
            each = {}
            for rank in range(2):
                call = build.host(rank, span, "c10d::broadcast_", step=step)
                each[rank] = {"gpu_op_id": None, "host_op_id": call, "stream": 9}
                each[rank] |= {"dtype": dtype, "root_place": 0}
            build.collective(
                dict.fromkeys(range(2), span), step=step, op="broadcast", bytes_=size, each=each
            )
            build.host(reader, (span[1] + MS, span[1] + 2 * MS), "aten::item", step=step)
        for rank in range(2):
            build.step(rank, step, (at, at + 100 * MS))
            build.host(rank, (at, at + 50 * MS), "aten::mm", step=step)
            build.host(rank, (at + 52 * MS, at + 53 * MS), "aten::sum", step=step)
    found = found_by(build.con, "read_sum", "poor_overlap", "small_collectives")
    assert ("read_sum" in found) == (reader == 1)
    if reader == 1:
        assert list(found) == ["read_sum"]
        assert found["read_sum"]["title"] == "Each step exchanges Python objects"


# what was wrong: 60 barriers in every third step were in no finding, as a sum is read in every step
def test_only_what_is_read_in_every_step_is_claimed(empty_run: duckdb.DuckDBPyConnection) -> None:
    """A sum takes 2 ms and is read in each of four steps; one has a barrier of 40 ms: 10 of 12."""
    build = Builder(empty_run)
    build.world(2)
    for step in range(4):
        at = step * 100 * MS
        calls = [("all_reduce", 4, at + 50 * MS, 2 * MS)]
        calls += [("barrier", 0, at + 55 * MS, 40 * MS)] if step == 1 else []
        for op, size, begin, took in calls:
            each = {}
            for rank in range(2):
                call = build.host(rank, (begin, begin + took), f"c10d::{op}", step=step)
                each[rank] = {"gpu_op_id": None, "host_op_id": call, "stream": 9}
            spans = dict.fromkeys(range(2), (begin, begin + took))
            build.collective(spans, step=step, op=op, bytes_=size, each=each)
        for rank in range(2):
            build.step(rank, step, (at, at + 100 * MS))
            build.host(rank, (at, at + 50 * MS), "aten::mm", step=step)
            build.host(rank, (at + 52 * MS, at + 53 * MS), "aten::item", step=step)
    found = found_by(build.con, "communication_bound", "read_sum")
    assert found["read_sum"]["cost_ns"] == pytest.approx(2 * MS, rel=0.01)
    assert found["communication_bound"]["cost_ns"] == pytest.approx(10 * MS, rel=0.01)
