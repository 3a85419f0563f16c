"""Events are copied into tables only where those of all kinds together are few."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import traceweave
from traceweave.analyses import common


@pytest.mark.parametrize(("spare", "kept"), [(0, True), (-1, False)])
def test_events_of_all_kinds_count(
    fixtures: Path,
    database_of: Callable[..., Path],
    monkeypatch: pytest.MonkeyPatch,
    spare: int,
    kept: bool,
) -> None:
    tables = "counters", "flows", "gpu_ops", "host_ops", "memory_events", "other_events"
    with traceweave.open(database_of(fixtures / "ddp_gloo_4ranks")) as run:
        counted = [run.con.execute(f"SELECT count(*) FROM base.{t}").fetchall() for t in tables]
        events = sum(rows[0][0] for rows in counted)
        monkeypatch.setattr(common, "MOST_EVENTS", events + spare)
        common.hold(run.con, ["memory_events", "steps"], set())
        found = run.con.execute("SELECT table_name FROM duckdb_tables() WHERE temporary").fetchall()
    there = {name for (name,) in found}
    assert "steps" in there
    assert ("memory_events" in there) == kept
