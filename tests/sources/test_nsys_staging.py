"""Copying the rows of an export: which columns are kept, and that memory does not grow with it."""

from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from tests.sources import nsys_export
from tests.sources.nsys_export import nvtx, write_export
from traceweave.sources.batches import transaction
from traceweave.sources.model import Process, Trace
from traceweave.sources.nsys import sqlite_reader
from traceweave.sources.nsys.event_tables import NVTX, RUNTIME
from traceweave.sources.nsys.open_export import open_export
from traceweave.sources.nsys.staged_events import StagedEvents, insert
from traceweave.vocabulary import script

FIRST_ID = 5_000_000_000


def test_rows_are_let_go_before_their_transaction_ends() -> None:
    """DuckDB keeps what is registered until then: of a large export, all of it."""
    con = duckdb.connect()
    con.execute("CREATE TEMP TABLE t (a BIGINT)")
    with transaction(con):
        before = pa.total_allocated_bytes()
        for _ in range(8):
            insert(con, "t", pa.table({"a": pa.array(range(100_000), pa.int64())}))
        assert pa.total_allocated_bytes() - before < 2 * 800_000
    assert con.execute("SELECT count(*), sum(a) FROM t").fetchall() == [(800_000, 39_999_600_000)]


def test_only_columns_that_hold_anything_are_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two rows are read at a time: the color is first seen in the second lot, a value never."""
    monkeypatch.setattr(sqlite_reader, "FAST_ROWS_PER_BATCH", 2)
    rows = [
        nvtx(11, 1, 2, "a"), nvtx(11, 3, 4, "b"), nvtx(11, 5, 6, "c"), nvtx(11, 7, 8, "d", color=9),
        nvtx(11, 9, 10, "e"),
    ]  # fmt: skip
    con = duckdb.connect()
    con.execute(script("traceweave.sources.nsys.events", "words.sql"))
    with open_export(write_export(tmp_path / "e.sqlite", NVTX_EVENTS=rows)) as export:
        events = StagedEvents(con, export, FIRST_ID)
        events.read(lambda _: None)
    process = Process(nsys_export.process(11), rank=3)
    events.show(Trace(tmp_path, "nsys", 1, (process,)), 5, 1000)
    assert events.filled == [NVTX]
    assert con.execute(
        "SELECT op_id, start, text, color, uint64Value, rangeId, rank, start_local_ns, duration_ns"
        f" FROM {NVTX.staged} ORDER BY op_id"
    ).fetchall() == [
        (FIRST_ID + i, 1 + 2 * i, name, 9 if name == "d" else None, None, None, 3, 1001 + 2 * i, 1)
        for i, name in enumerate("abcde")
    ]
    stored = {name for name, *_ in con.execute(f"DESCRIBE {NVTX.stored}").fetchall()}
    assert "color" in stored
    assert not stored & {"uint64Value", "rangeId", "jsonText"}
    assert con.execute(f"SELECT count(*) FROM {RUNTIME.staged}").fetchall() == [(0,)]
    # what is dropped is gone, and the rest stays
    events.drop(NVTX)
    names = {name for (name,) in con.execute("SELECT table_name FROM duckdb_tables()").fetchall()}
    assert NVTX.stored not in names
    assert RUNTIME.stored in names
