"""Reading tables of an export: the quick reader and the careful one that goes on where it stops."""

import gzip
import os
from pathlib import Path

import pyarrow as pa
import pytest

from tests.marks import first_at_once, nightly
from tests.sources.nsys_export import nvtx, write_export
from traceweave import ingest
from traceweave.errors import InputError
from traceweave.sources import nsys, unpack
from traceweave.sources.nsys import sqlite_reader
from traceweave.sources.nsys.event_tables import NVTX, TABLES
from traceweave.sources.nsys.export import Export
from traceweave.sources.nsys.open_export import open_export
from traceweave.sources.nsys.sqlite_reader import SqliteExport


def read(export: Export, table: str, columns: dict[str, pa.DataType]) -> pa.Table:
    schema = pa.schema(list(columns.items()))
    return pa.Table.from_batches(export.batches(table, columns), schema=schema)


@pytest.mark.parametrize(
    "name",
    [
        "fsdp_2rank_before__2026.2.sqlite", "mordred__pre2021.sqlite",
        "power_iteration__2025.3.sqlite", "perlmutter_saxpy_mpi__2022.2.sqlite",
    ],
)  # fmt: skip
def test_both_readers_read_the_same(
    corpus: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_export(corpus / "nsys" / name) as export:
        tables = [t for t in TABLES.values() if t.name in export.tables]
        quick = [read(export, t.name, t.types) for t in tables]
        monkeypatch.setattr(SqliteExport, "_read_fast", lambda *_: iter(()))
        careful = [read(export, t.name, t.types) for t in tables]
    assert [t.num_rows for t in quick] == [t.num_rows for t in careful]
    assert all(a.equals(b) for a, b in zip(quick, careful, strict=True))


@first_at_once()
@pytest.mark.parametrize("at", [0, 10, sqlite_reader.FAST_ROWS_PER_BATCH + 10])
def test_a_value_of_a_wrong_type_is_null_and_costs_no_row(tmp_path: Path, at: int) -> None:
    """SQLite lets any column hold any type; the quick reader gives up on the first such value.
    Of a number the whole part is kept, or what a double holds: the whole export was refused."""
    rows = [
        dict(nvtx(11, i, i + 1, f"r{i}")) for i in range(sqlite_reader.FAST_ROWS_PER_BATCH + 20)
    ]
    rows[at]["start"] = "soon"
    rows[at + 1]["text"] = 7
    rows[at + 2] |= {"end": 2.5, "doubleValue": 2**60 + 1}
    path = write_export(tmp_path / "mixed.sqlite", NVTX_EVENTS=rows)
    columns = {c: NVTX.types[c] for c in ("start", "end", "text", "doubleValue")}
    with open_export(path) as export:
        table = read(export, NVTX.name, columns)
    expected = [
        {"start": i, "end": i + 1, "text": f"r{i}", "doubleValue": None} for i in range(len(rows))
    ]
    expected[at]["start"] = expected[at + 1]["text"] = None
    expected[at + 2] |= {"end": 2, "doubleValue": 2.0**60}
    assert table.to_pylist() == expected


def test_columns_that_hold_nothing_are_told_from_those_filled_late(tmp_path: Path) -> None:
    empty = dict.fromkeys(("int64Value", "uint64Value", "category", "color"))
    rows = [{**nvtx(11, i, i + 1, f"r{i}"), **empty} for i in range(200)]
    rows[100]["category"] = 0
    rows[199]["int64Value"], rows[199]["color"] = 3, 4
    path = write_export(tmp_path / "late.sqlite", NVTX_EVENTS=rows)
    columns = ["start", "int64Value", "uint64Value", "text", "category", "color"]
    with open_export(path) as export:
        filled = export.filled(NVTX.name, columns)
        assert export.filled(NVTX.name, ["uint64Value"]) == []
    assert filled == ["start", "int64Value", "text", "category", "color"]


def test_a_name_that_is_no_utf8_is_read_by_both_readers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / os.fsdecode(b"run \xff %41 ?#.sqlite")
    write_export(tmp_path / "e.sqlite", NVTX_EVENTS=[nvtx(11, 1, 2, "x")] * 3).rename(path)
    with open_export(path) as export:
        quick = read(export, NVTX.name, NVTX.types)
        monkeypatch.setattr(SqliteExport, "_read_fast", lambda *_: iter(()))
        careful = read(export, NVTX.name, NVTX.types)
    assert quick.num_rows == 3
    assert quick.equals(careful)


@nightly
def test_an_export_that_unpacks_to_too_much_is_read_if_it_is_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unpack, "BOMB_BYTES", 1 << 18)
    monkeypatch.setattr(unpack, "BOMB_RATIO", 20)
    rows = [nvtx(11, i, i + 1, "step " * 40) for i in range(20_000)]
    plain = write_export(tmp_path / "e.sqlite", NVTX_EVENTS=rows)
    packed = tmp_path / "e.sqlite.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes(), 9))
    with pytest.raises(InputError, match="if you trust it, use --trust-packed"):
        ingest(packed, tmp_path / "run.duckdb")
    result = ingest(packed, tmp_path / "run.duckdb", trust_packed=True)
    assert [(s.events_read, s.status) for s in result.sources] == [(20_000, "ok")]


def test_an_export_lasts_as_long_as_what_of_it_can_be_used(tmp_path: Path) -> None:
    ranges = [
        nvtx(11, 10, 20, "a text import's", eventType=70),
        nvtx(11, 30, None, "open", eventType=71),
        nvtx(11, 40, 2**62 + 5, "damaged"),
    ]
    trace = nsys.probe(write_export(tmp_path / "e.sqlite", epoch=1000, NVTX_EVENTS=ranges))
    assert (trace.first_ns, trace.last_ns) == (1010, 1020)
