"""The reader: files longer than what one statement reads keep all events, in file order."""

from dataclasses import replace
from pathlib import Path

import duckdb
import pytest

from tests.marks import first_at_once
from traceweave.sources.kineto import reader
from traceweave.sources.kineto.probe import probe
from traceweave.sources.kineto.reader import read_events, stage_events
from traceweave.sources.unpack import BLOCK_BYTES


@first_at_once(2)
@pytest.mark.parametrize("stretch_bytes", [1, 2 * BLOCK_BYTES, 1 << 30])
@pytest.mark.parametrize("all_threads", [False, True])
def test_events_keep_their_order_over_statements_and_threads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stretch_bytes: int, all_threads: bool
) -> None:
    monkeypatch.setattr(reader, "STRETCH_BYTES", stretch_bytes)
    padding = "x" * 1000
    count = 4 * BLOCK_BYTES // 1000
    event = '\n  {{\n    "ph": "X", "name": "{}", "ts": {}, "dur": 1, "args": {{"pad": "{}"}}\n  }}'
    path = tmp_path / "rank0.json"
    events = ",".join(event.format(n, n, padding) for n in range(count))
    path.write_text(f'{{"traceEvents": [{events}\n  ], "baseTimeNanoseconds": 5}}')
    read = []
    with duckdb.connect() as con:
        con.execute("SET threads = 2")
        stage_events(con)
        reading = read_events(con, replace(probe(path), all_threads=all_threads), read.append)
        rows = con.execute("SELECT rowid, name, since_base_ns FROM new_events ORDER BY rowid")
        assert rows.fetchall() == [(n, str(n), n * 1000) for n in range(count)]
    assert reading.tail == b'], "baseTimeNanoseconds": 5}'
    assert sum(read) == path.stat().st_size
