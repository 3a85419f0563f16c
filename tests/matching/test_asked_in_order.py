"""Two threads of gloo begin operations in another order than they were asked for."""

import json
from pathlib import Path
from typing import Any

import pytest

import traceweave
from traceweave.ingestion import ingest

WORLD, STEPS, MS = 3, range(3, 9), 1000
"""Ranks, steps, and microseconds."""
LARGE, SMALL = 4096, 64
"""Elements of what ranks 0 and 1 send in every step."""


def _span(name: str, ts: float, dur: float, tid: int, **about: Any) -> dict[str, Any]:
    cat = "user_annotation" if name.startswith(("gloo:", "Prof")) else "cpu_op"
    rest = {"ph": "X", "pid": 9, "args": {"Input type": ["float"], **about}}
    return {"name": name, "cat": cat, "ts": ts, "dur": dur, "tid": tid, **rest}


def _asked(ts: float, elements: int, root: int) -> dict[str, Any]:
    given = {"Input Dims": [[[elements]], [], []], "Concrete Inputs": ["", "", str(root)]}
    return _span("c10d::broadcast_", ts, 20, 1, **given)


def _step(rank: int, at: float, late: float) -> list[dict[str, Any]]:
    """Rank 0 sends the large tensor at once, and is late to what rank 1 sends. On rank 2 the small
    one is begun 30 us sooner."""
    second = at + 10 * MS + 50 + (late if rank == 0 else 0)
    begun = {LARGE: at + 10 * MS + (130 if rank == 2 else 60), SMALL: second + 50}
    dims = {size: {"Input Dims": [[size]]} for size in begun}
    return [
        _asked(at + 10 * MS, LARGE, 0),
        _asked(second, SMALL, 1),
        _span("gloo:broadcast", begun[LARGE], 5 * MS, 2, **dims[LARGE]),
        _span("gloo:broadcast", begun[SMALL], 1 * MS, 3, **dims[SMALL]),
    ]


# what was wrong: the 4096 elements that rank 2 got were what rank 1 sent, and what rank 0 got of
# rank 1 when rank 2 had it already was another operation
@pytest.mark.parametrize("late", [{*STEPS}, {5}])
def test_broadcasts_of_two_threads(tmp_path: Path, late: set[int]) -> None:
    for rank in range(WORLD):
        group = {"pg_name": "0", "pg_desc": "default_pg", "pg_size": WORLD}
        about = {"backend": "gloo", "rank": rank, "world_size": WORLD}
        about["pg_config"] = [{**group, "ranks": [*range(WORLD)]}]
        events = []
        for step in STEPS:
            at = step * 100 * MS
            events.append(_span(f"ProfilerStep#{step}", at, 100 * MS, 1))
            events += _step(rank, at, 40 * MS if step in late else 0)
        path = tmp_path / f"rank{rank}.json"
        path.write_text(json.dumps({"distributedInfo": about, "traceEvents": events}))
    ingest(tmp_path, tmp_path / "run.duckdb")
    with traceweave.open(tmp_path / "run.duckdb") as run:
        found = run.con.execute(
            "SELECT step, bytes, list(DISTINCT root), count(*), count(DISTINCT rank)"
            " FROM collectives WHERE collective_id IS NOT NULL"
            " GROUP BY collective_id, step, bytes ORDER BY step, bytes"
        ).fetchall()
    each = [(4 * SMALL, [1], WORLD, WORLD), (4 * LARGE, [0], WORLD, WORLD)]
    assert found == [(step, *one) for step in STEPS for one in each]
