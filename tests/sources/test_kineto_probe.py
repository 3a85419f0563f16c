"""What a probe tells of a Kineto file, from its head alone or from the whole of it."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from pathlib import Path

import pytest

from traceweave import ingest
from traceweave.sources.discover import discover
from traceweave.sources.formats import known_formats
from traceweave.sources.kineto import probe
from traceweave.sources.unpack import BLOCK_BYTES
from traceweave.store.database import open_database

FIXTURES = Path(__file__).parents[1] / "fixtures"
EVENT = {"ph": "X", "cat": "cpu_op", "name": "op", "pid": 7, "tid": 1, "ts": 2, "dur": 3}


@pytest.mark.parametrize(
    "path", sorted(FIXTURES.glob("*/rank*.json*")), ids=lambda p: f"{p.parent.name}/{p.name}"
)
def test_the_head_of_a_recording_tells_what_the_whole_tells_but_times(path: Path) -> None:
    whole = probe(path, with_times=True)
    head = probe(path, with_times=False)

    assert whole.first_ns is not None
    if whole.processes[0].rank is None:
        assert head == whole
    else:
        assert head == replace(whole, first_ns=None, last_ns=None)


def write(path: Path, rank: int, top: dict[str, object], base_ns: int) -> Path:
    """Write a trace longer than a block, its base time and `top` after the events."""
    events = [EVENT, *[{**EVENT, "name": "x" * 1000} for _ in range(BLOCK_BYTES // 1000)]]
    before = {"distributedInfo": {"rank": rank, "world_size": 2}, "traceEvents": events}
    path.write_bytes(
        gzip.compress(json.dumps({**before, "baseTimeNanoseconds": base_ns, **top}).encode(), 1)
    )
    return path


def test_what_only_the_end_of_a_file_tells_is_in_the_database(tmp_path: Path) -> None:
    top: dict[str, object] = {
        "host_name": "node1",
        "deviceProperties": [{"id": 0, "name": "NVIDIA H100"}],
    }
    trace = write(tmp_path / "a.json.gz", 1, top, base_ns=5_000_000)
    assert probe(trace, with_times=False).processes[0].host is None

    ingest(trace, tmp_path / "run.duckdb")

    with open_database(tmp_path / "run.duckdb") as con:
        rows = con.execute(
            "SELECT rank, rank_source, host, pid, world_size, first_local_ns FROM base.rank_sources"
        )
        assert rows.fetchall() == [(1, "distributedInfo", "node1", 7, 2, 5_002_000)]


def test_times_are_looked_up_only_where_a_rank_is_claimed_twice(tmp_path: Path) -> None:
    for rank in (0, 1):
        write(tmp_path / f"first{rank}.json.gz", rank, {}, base_ns=1_000_000_000_000)

    distinct = discover([tmp_path], known_formats(), tmp_path)
    write(tmp_path / "second1.json.gz", 1, {}, base_ns=2_000_000_000_000)
    windows = discover([tmp_path], known_formats(), tmp_path)

    assert [s.trace.first_ns for s in distinct.sources] == [None, None]
    assert [(s.trace.path.name, s.trace.first_ns) for s in windows.sources] == [
        ("first0.json.gz", 1_000_000_002_000),
        ("first1.json.gz", 1_000_000_002_000),
        ("second1.json.gz", 2_000_000_002_000),
    ]
