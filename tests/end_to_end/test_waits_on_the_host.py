"""What waits for collectives in a run without a GPU, and what asked for them, by its files."""

import gzip
import json
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Recorded
from tests.marks import first_at_once, nightly

Span = tuple[int, int]

WAIT = "_c10d_functional::wait_tensor"


def events_of(file: Path) -> list[dict[str, Any]]:
    """Return the events of a trace that have a length; times in ns as the file has them."""
    with gzip.open(file) as text:
        events = json.load(text)["traceEvents"]
    for event in events:
        if "dur" in event:
            event["start"] = round(float(event["ts"]) * 1000)
            event["span"] = (event["start"], event["start"] + round(float(event["dur"]) * 1000))
    return [event for event in events if event.get("ph") == "X"]


def union_ns(spans: Iterable[Span]) -> int:
    total, until = 0, 0
    for start, end in sorted(spans):
        total += max(end - max(start, until), 0)
        until = max(until, end)
    return total


def within(spans: Iterable[Span], windows: list[Span]) -> list[Span]:
    cut = [(max(s, a), min(e, b)) for s, e in spans for a, b in windows]
    return [(start, end) for start, end in cut if start < end]


@nightly
def test_an_operator_that_waits_for_a_collective_does_not_compute(
    recorded: Recorded, fixtures: Path
) -> None:
    """Tensor parallelism waits in an operator, inside others. Gloo only transfers."""
    found = recorded("tp2_dp2_gloo").sql(
        "SELECT rank, sum(compute_ns)::BIGINT FROM breakdown() GROUP BY rank ORDER BY rank"
    )
    for rank, compute_ns in found.itertuples(index=False):
        events = events_of(fixtures / "tp2_dp2_gloo" / f"rank{rank}.json.gz")
        steps = [e["span"] for e in events if e["name"].startswith("ProfilerStep")]
        ops = [e for e in events if e["cat"] == "cpu_op" and not e["name"].startswith("c10d::")]
        waits = [e["span"] for e in ops if e["name"] == WAIT]
        [waiting] = {e["tid"] for e in ops if e["name"] == WAIT}
        gloo = [e for e in events if e["name"].startswith("gloo:")]
        others = [e for e in ops if e["tid"] != waiting]
        # in such a thread nothing runs but a collective's copies
        assert all(
            any(g["tid"] == e["tid"] and g["start"] <= e["start"] < g["span"][1] for g in gloo)
            for e in others
        )
        own = within((e["span"] for e in ops if e["tid"] == waiting), steps)
        by_hand = union_ns(own) - union_ns(within(waits, steps))
        assert len(waits) == 20
        assert len(others) > 20
        assert by_hand < 0.6 * union_ns(own)
        assert compute_ns == pytest.approx(by_hand, abs=1000)


@first_at_once()
@pytest.mark.parametrize(
    ("spans", "left"),
    [
        (
            [("aten::mm", 1000, 100), ("outer", 1200, 200), (WAIT, 1200, 200), ("part", 1500, 100),
             (WAIT, 1510, 30), (WAIT, 1560, 40)],
            [("aten::mm", 100), ("part", 10), ("part", 20)],
        ),
        # what was wrong: the all_to_all of a layer's forward pass was the layer's compute
        (
            [("layer", 1000, 300), ("c10d::alltoall_base_", 1010, 20),
             ("gloo:all_to_all", 1040, 200)],
            [("layer", 30), ("layer", 60)],
        ),
        (
            [("layer", 1000, 300), ("c10d::alltoall_base_", 1010, 20),
             ("gloo:all_to_all", 1040, 200), ("aten::mm", 1100, 20)],
            [("layer", 300), ("aten::mm", 20)],
        ),
    ],
    ids=["one that waits", "one that asks and waits", "one that works meanwhile"],
)  # fmt: skip
def test_of_an_operator_no_waiting_is_left(
    recorded: Recorded,
    tmp_path: Path,
    spans: list[tuple[str, int, int]],
    left: list[tuple[str, int]],
) -> None:
    """Where times are whole microseconds one may begin and end with the wait inside it."""
    events = [
        {"ph": "X", "cat": cat, "name": name, "pid": 1, "tid": tid, "ts": start, "dur": length}
        for name, start, length in spans
        for cat, tid in [("user_annotation", 2) if name.startswith("gloo:") else ("cpu_op", 1)]
    ]
    about = {"backend": "gloo", "rank": 0, "world_size": 1}
    trace = json.dumps({"distributedInfo": about, "traceEvents": events})
    (tmp_path / "rank0.json").write_text(trace)
    found = recorded(tmp_path).sql(
        "SELECT name, duration_ns // 1000 FROM device_ops WHERE category = 'compute'"
        " ORDER BY start_ns, duration_ns DESC"
    )
    assert list(found.itertuples(index=False, name=None)) == left


@nightly
def test_a_reduce_scatter_of_gloo_is_the_all_reduce_that_it_is_made_of(recorded: Recorded) -> None:
    """Each work of a thread of gloo has the call that asked for it, of as many elements."""
    found = recorded("tp2_dp2_gloo").sql(
        "SELECT c.op, h.name, h.args->>'Input Dims' AS asked, c.bytes // 4 AS elements"
        " FROM collectives AS c JOIN host_ops AS h ON h.op_id = c.host_op_id"
        " WHERE h.start_ns <= c.start_ns"
    )
    assert found.groupby(["op", "name"]).size().to_dict() == {
        ("all_gather", "c10d::_allgather_base_"): 16,
        ("all_reduce", "c10d::_reduce_scatter_base_"): 16,
        ("all_reduce", "c10d::allreduce_"): 80,
    }
    for call in found[found["op"] == "all_reduce"].itertuples():
        first, second, *_ = json.loads(call.asked)
        whole = second if call.name == "c10d::_reduce_scatter_base_" else first[0]
        assert math.prod(whole) == call.elements
