"""Recorded runs of one named host in which ends say little: threads wait for cores, or a call does
not wait for every rank."""

import gzip
import json
from pathlib import Path

import traceweave
from tests.conftest import Recorded

IN_ORDER = """
    SELECT collective_id, count(*) AS ranks, count(DISTINCT place) AS places
    FROM (
        SELECT *, row_number() OVER (PARTITION BY rank ORDER BY start_local_ns) AS place
        FROM collectives
    )
    WHERE collective_id IS NOT NULL
    GROUP BY collective_id
"""
"""Every rank makes the same calls in the same order: partners have the same place in it."""


def test_ends_that_lie_a_millisecond_apart_are_of_one_clock(recorded: Recorded) -> None:
    """Rank 1 gets a core last: its ends lie 1.1 ms behind rank 0's at the median."""
    found = recorded("busy_cores_gloo").sql(IN_ORDER)
    assert found[["ranks", "places"]].values.tolist() == [[4, 1]] * 20


def test_a_rank_that_began_a_step_later_has_the_rest(fixtures: Path, tmp_path: Path) -> None:
    for path in (fixtures / "busy_cores_gloo").iterdir():
        trace = json.loads(gzip.decompress(path.read_bytes()))
        events = trace["traceEvents"]
        if path.name == "rank1.json.gz":
            since = next(e["ts"] for e in events if e["name"] == "ProfilerStep#4")
            trace["traceEvents"] = [e for e in events if e["ph"] != "X" or e["ts"] >= since]
        (tmp_path / path.name).write_bytes(gzip.compress(json.dumps(trace).encode(), 1))
    assert traceweave.ingest([tmp_path], tmp_path / "run.duckdb").ok
    with traceweave.open(tmp_path / "run.duckdb") as run:
        found = run.sql(
            "SELECT min(step) AS step, count(DISTINCT step) AS steps, count(*) AS ranks"
            " FROM collectives GROUP BY collective_id ORDER BY step"
        )
        assert (
            found.values.tolist()
            == [[3, 1, 3]] * 5 + [[4, 1, 4]] * 5 + [[5, 1, 4]] * 5 + [[6, 1, 4]] * 5
        )


def test_only_calls_that_wait_for_every_rank_contradict_a_shift(recorded: Recorded) -> None:
    """Broadcasts and scatters are over before rank 2 begins them, by up to 35 ms."""
    run = recorded("broadcasts_gloo")
    found = run.sql(IN_ORDER)
    assert found[["ranks", "places"]].values.tolist() == [[3, 1]] * 20
    early = run.sql(
        "SELECT op, count(*) AS n FROM collective_instances"
        " WHERE last_start_ns > first_end_ns GROUP BY op ORDER BY op"
    )
    assert set(early.op) == {"broadcast", "scatter"}
