"""Time loading an nsys export against doing nothing but reading the same columns.

    python benchmarks/nsys_vs_bare_read.py [--copies 30] [--runs 3] [--export FILE]

Without --export a simulated report of two ranks (FSDP, emit_nvtx, NCCL payloads; 11 MB) is made and
repeated COPIES times one after another. The bare reads fetch every column that the loader reads,
through ADBC's SQLite driver into Arrow batches or through Python's sqlite3 module into tuples, and
drop them; the same is done with the tables as Parquet. The bare write fills a new database with the
rows of a finished one, which wait in memory. The loader's time is that of `traceweave.ingest`: the
finished database on disk, with launches linked, ranges nested, args as JSON, collectives matched
and clocks fitted. It is given the SQLite file, and the same tables as `nsys export --type
parquetdir` writes them. Each runs in a fresh process, in turns; seconds count from after the
imports, CPU seconds are of all threads, and the largest resident memory is the process's.
"""

from __future__ import annotations

import argparse
import os
import platform
import sqlite3
import statistics
import subprocess
import sys
import tempfile
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

import traceweave
from traceweave.sources.nsys.sqlite_reader import open_sqlite

READ_ADBC = """
import sys, time
import adbc_driver_sqlite, pyarrow
from pathlib import Path
from traceweave.sources.nsys.event_tables import TABLES
from traceweave.sources.nsys.open_export import open_export
begin, used, rows = time.perf_counter(), time.process_time(), 0
with open_export(Path(sys.argv[1])) as export:
    for table in TABLES.values():
        if table.name in export.tables:
            present = {c: t for c, t in table.types.items() if c in export.tables[table.name]}
            for batch in export.batches(table.name, present):
                rows += batch.num_rows
"""
READ_SQLITE3 = """
import sqlite3, sys, time
from traceweave.sources.nsys.event_tables import TABLES
begin, used, rows = time.perf_counter(), time.process_time(), 0
con = sqlite3.connect(sys.argv[1])
for table in TABLES.values():
    there = {row[1] for row in con.execute(f"PRAGMA table_info({table.name})")}
    if there:
        names = ", ".join(f'"{c}"' for c in table.types if c in there)
        cursor = con.execute(f"SELECT {names} FROM {table.name}")
        while batch := cursor.fetchmany(16_384):
            rows += len(batch)
"""
LOAD = """
import sys, tempfile, time
from pathlib import Path
import adbc_driver_sqlite, duckdb, pyarrow.parquet, scipy.signal, traceweave, traceweave.weave
begin, used = time.perf_counter(), time.process_time()
with tempfile.TemporaryDirectory(dir=Path(sys.argv[1]).parent) as folder:
    result = traceweave.ingest(sys.argv[1], Path(folder) / "run.duckdb")
    rows = sum(source.events_read for source in result.sources)
"""
WRITE = """
import os, sys, tempfile, time
from pathlib import Path
from traceweave.store.draft import drafting
with (
    tempfile.TemporaryDirectory(dir=Path(sys.argv[1]).parent) as folder,
    drafting(Path(folder) / "run.duckdb", os.cpu_count()) as draft,
):
    con = draft.con
    con.execute("ATTACH ? AS made (READ_ONLY)", [sys.argv[1]])
    named = con.execute(
        "SELECT table_name FROM duckdb_tables() WHERE database_name = 'made'"
        " AND schema_name = 'base' AND estimated_size > 0"
    ).fetchall()
    for (name,) in named:
        con.execute(f"CREATE TEMP TABLE made_{name} AS FROM made.base.{name}")
    begin, used, rows = time.perf_counter(), time.process_time(), 0
    for (name,) in named:
        rows += con.execute(f"INSERT INTO base.{name} FROM made_{name}").fetchall()[0][0]
"""
TELL = """
cpu = time.process_time() - used
with open("/proc/self/status") as status:  # ru_maxrss begins with that of the process before
    memory = next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) // 1024
print(time.perf_counter() - begin, cpu, memory, rows)
"""
LOADING, FOLDER = "traceweave", "traceweave, Parquet"
READING, WRITING = "Parquet, bare read", "bare write"
SCRIPTS = {
    "ADBC": READ_ADBC,
    "sqlite3": READ_SQLITE3,
    READING: READ_ADBC,
    WRITING: WRITE,
    LOADING: LOAD,
    FOLDER: LOAD,
}
UNSIGNED = ("globalTid", "globalPid", "endGlobalTid", "domainId", "category", "rangeId", "bytes")
"""Columns that nsys 2023.4 writes as UBIGINT to Parquet."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--copies", type=int, default=30)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--export", type=Path, help="a real export instead")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = options.export or replicate(simulated(Path(folder)), options.copies)
        tables = as_parquet(path, Path(folder) / "tables")
        made = traceweave.ingest(path, Path(folder) / "made.duckdb").database
        inputs = {READING: tables, WRITING: made, FOLDER: tables}
        size = path.stat().st_size / 1e6
        print(f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}")
        print(f"{size:.0f} MB\n")
        print("| | wall s | CPU s | MB/s of CPU | rows | memory, MB |")
        print("|---|---|---|---|---|---|")
        results: dict[str, list[list[float]]] = {name: [] for name in SCRIPTS}
        for _ in range(options.runs):
            for name, script in SCRIPTS.items():
                results[name].append(measure(script, inputs.get(name, path)))
        for name, runs in results.items():
            wall, cpu, memory, rows = (
                statistics.median(column) for column in zip(*runs, strict=True)
            )
            print(
                f"| {name} | {wall:.1f} | {cpu:.1f} | {size / cpu:.0f} | {rows:.0f} |"
                f" {memory:.0f} |"
            )
        by_form = zip(results[LOADING], results[FOLDER], strict=True)
        ratios = sorted(sqlite[1] / parquet[1] for sqlite, parquet in by_form)
        print(f"\nCPU of SQLite / CPU of Parquet: {statistics.median(ratios):.2f}")
        floor = zip(results[READING], results[WRITING], results[FOLDER], strict=True)
        ratios = sorted(whole[1] / (read[1] + write[1]) for read, write, whole in floor)
        print(f"CPU of Parquet / CPU of its bare read and write: {statistics.median(ratios):.2f}")
        for name in ("ADBC", "sqlite3"):
            pairs = list(zip(results[name], results[LOADING], strict=True))
            for number, kind in enumerate(("wall", "CPU")):
                ratios = sorted(bare[number] / whole[number] for bare, whole in pairs)
                print(
                    f"\nspeed of loading / speed of reading with {name}, {kind}:"
                    f" {statistics.median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f})"
                )


def simulated(folder: Path) -> Path:
    """Write the report of two ranks."""
    from traceweave_simulator import Config, simulate, write_nsys

    run = simulate(Config(ranks=2, steps=20, layers=24, parallelism="fsdp"))
    return write_nsys(run, folder, ranks_per_report=2, emit_nvtx=True)[0]


def replicate(path: Path, copies: int) -> Path:
    """Append the events of a report to itself, each time later and with correlation ids anew."""
    with closing(sqlite3.connect(path)) as con:
        con.executescript("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF")
        tables = [r[0] for r in con.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        events = []
        for table in tables:
            columns = [r[1] for r in con.execute(f"PRAGMA table_info({table})")]
            if "start" in columns and con.execute(f"SELECT count(*) FROM {table}").fetchone()[0]:
                events.append((table, columns))
        (last,) = con.execute("SELECT max(end) FROM CUPTI_ACTIVITY_KIND_KERNEL").fetchone()
        (ids,) = con.execute(
            "SELECT max(correlationId) FROM CUPTI_ACTIVITY_KIND_RUNTIME"
        ).fetchone()
        counts = {t: con.execute(f"SELECT max(rowid) FROM {t}").fetchone()[0] for t, _ in events}
        for copy in range(1, copies):
            shifts = {"start": copy * last, "end": copy * last, "correlationId": copy * (ids + 1)}
            for table, columns in events:
                values = ", ".join(
                    f'"{c}" + {shifts[c]}' if c in shifts else f'"{c}"' for c in columns
                )
                # made once: communicators, domains and names of threads
                once = (
                    " AND (eventType = 59 AND start > 1000000000)" if table == "NVTX_EVENTS" else ""
                )
                con.execute(
                    f"INSERT INTO {table} SELECT {values} FROM {table}"
                    f" WHERE rowid <= {counts[table]}{once}"
                )
        con.commit()
    return path


def as_parquet(path: Path, folder: Path) -> Path:
    """Write the tables of an export as Parquet files, with the types that nsys uses there."""
    types = {"INTEGER": pa.int64(), "TEXT": pa.string(), "REAL": pa.float64(), "BLOB": pa.binary()}
    folder.mkdir()
    with open_sqlite(path) as export:
        for table in export.tables:
            declared = export.rows(f"SELECT name, type FROM pragma_table_info('{table}')")
            columns = {name: types.get(type_, pa.string()) for name, type_ in declared}
            rows = pa.Table.from_batches(export.batches(table, columns), pa.schema(columns.items()))
            for place, name in enumerate(rows.column_names):
                if name in UNSIGNED and rows[name].type == pa.int64():
                    rows = rows.set_column(place, name, rows[name].cast(pa.uint64()))
            if len(rows) and table != "META_DATA_CAPTURE":
                pq.write_table(rows, folder / f"{table}.parquet")
    return folder


def measure(script: str, path: Path) -> list[float]:
    """Return wall seconds, CPU seconds, MB of memory and rows of one run."""
    command = [sys.executable, "-c", script + TELL, str(path)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return [float(value) for value in done.stdout.split()]


if __name__ == "__main__":
    main()
