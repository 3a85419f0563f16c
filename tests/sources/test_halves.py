"""DeepEP with receive hooks: an operation is a send half and a receive half on the stream of the
compute, and one call. What only looks alike stays as it is."""

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from duckdb import DuckDBPyConnection as Connection

from tests.marks import first_at_once
from tests.sources.kineto_events import kernel, load_events

Events = list[dict[str, Any]]

LAYERS = 10
GROUPS = [
    {"pg_name": "0", "pg_desc": "default_pg", "pg_size": 2, "ranks": [0, 1]},
    {"pg_name": "1", "pg_desc": "undefined", "pg_size": 1, "ranks": [0]},
]
CALLS = (
    "SELECT op, start_local_ns, duration_ns, gpu_op_id, receive_op_id FROM base.collective_calls"
)


def name_of(operation: str) -> str:
    return f"void deep_ep::internode_ll::{operation}<3, 10, 7168>(void*, int*)"


def layers() -> Iterator[str]:
    """The operations of two micro-batches, layer by layer; each is two kernels."""
    for _ in range(LAYERS):
        yield from ("dispatch", "dispatch", "combine", "combine")


def timeline(durations: Iterator[float], *, computes: bool = True, first: int = 0) -> Events:
    """Kernels one after the other on one stream, two per operation, with compute behind each.

    `first`: how many of them were before the recording."""
    events: Events = []
    at = 0.0
    kernels = [name_of(operation) for operation in layers() for _ in range(2)]
    for number, name in enumerate(kernels):
        took = next(durations)
        events.append(kernel(name, at, took, 2 * number))
        at += took + 1
        if computes:
            events.append(kernel("some_gemm_kernel", at, 250, 2 * number + 1))
            at += 251
    return events[2 * first :]


def halves(seed: int = 1) -> Iterator[float]:
    """A send never waits; a receive of combine does, where less is computed meanwhile."""
    drawn = random.Random(seed)
    for operation in layers():
        yield drawn.uniform(16, 25) if operation == "dispatch" else drawn.uniform(12, 50)
        yield drawn.uniform(5, 15) if operation == "dispatch" else drawn.uniform(10, 300)


def sends_first() -> Iterator[float]:
    """Both micro-batches send before either receives."""
    took = halves()
    for one_sends, one_receives in zip(took, took, strict=True):
        other_sends, other_receives = next(took), next(took)
        yield from (one_sends, other_sends, one_receives, other_receives)


def turns(seed: int = 1) -> Iterator[float]:
    """Whole operations that are as long as their next ones, now a little more and now less."""
    drawn = random.Random(seed)
    while True:
        yield drawn.uniform(18, 22)


def wholes(seed: int = 1) -> Iterator[float]:
    """Every one waits for the last rank."""
    drawn = random.Random(seed)
    while True:
        yield drawn.uniform(130, 430)


def load(con: Connection, folder: Path, events: Events, groups: Any = GROUPS) -> Any:
    about = {"rank": 0, "world_size": 2, "pg_config": groups}
    load_events(con, folder, events, distributedInfo=about)
    return con.execute(f"{CALLS} ORDER BY start_local_ns").fetchall()


def test_a_send_and_a_receive_half_are_one_call(empty_run: Connection, tmp_path: Path) -> None:
    events = timeline(halves())
    calls = load(empty_run, tmp_path, events)
    sent = [e for e in events if "internode_ll" in e["name"]]
    truth = [
        (round(a["ts"] * 1000), round((b["ts"] + b["dur"]) * 1000))
        for a, b in zip(sent[::2], sent[1::2], strict=True)
    ]
    assert len(calls) == 4 * LAYERS
    for (_, start, took, op_id, receive_op_id), (begins, ends) in zip(calls, truth, strict=True):
        assert abs(start - begins) <= 1
        assert abs(start + took - ends) <= 2
        assert receive_op_id == op_id + 2  # one kernel computes in between
    assert empty_run.execute(
        "SELECT DISTINCT group_ranks, group_size FROM base.collective_calls"
    ).fetchall() == [([0, 1], 2)]


def test_of_several_groups_none_is_taken(empty_run: Connection, tmp_path: Path) -> None:
    other = {"pg_name": "2", "pg_desc": "undefined", "pg_size": 3, "ranks": [0, 1, 2]}
    calls = load(empty_run, tmp_path, timeline(halves()), [*GROUPS, other])
    assert len(calls) == 4 * LAYERS
    assert empty_run.execute(
        "SELECT DISTINCT group_ranks FROM base.collective_calls"
    ).fetchall() == [(None,)]


@first_at_once()
@pytest.mark.parametrize(
    "events",
    [
        pytest.param(timeline(wholes()), id="whole operations of two micro-batches in a row"),
        pytest.param(timeline(turns()), id="whole operations that are all as long"),
        pytest.param(timeline(halves(), computes=False), id="a stream that does not compute"),
        pytest.param(timeline(halves(), first=1), id="the recording begins with a receive half"),
        pytest.param(timeline(sends_first()), id="two sends, then two receives"),
        pytest.param(
            [dict(e, name=e["name"].replace("_ll", "")) for e in timeline(halves())],
            id="other kernels of DeepEP",
        ),
    ],
)
def test_what_only_looks_alike_stays_as_it_is(
    events: Events, empty_run: Connection, tmp_path: Path
) -> None:
    calls = load(empty_run, tmp_path, events)
    assert len(calls) == sum("internode" in event["name"] for event in events)
    assert {receive for *_, receive in calls} == {None}
