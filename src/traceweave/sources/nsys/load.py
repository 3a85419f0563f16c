"""Loading an nsys SQLite export: its tables as Arrow into temporary tables, then SQL to staging."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import resources
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

from traceweave.sources import derive
from traceweave.sources.model import OP_IDS_PER_SOURCE, Issue, Loaded, Report, Trace
from traceweave.sources.nsys import payload
from traceweave.sources.nsys.account import count_stored, find_issues
from traceweave.sources.nsys.clock import read_clock
from traceweave.sources.nsys.event_tables import (
    LOADED,
    NO_EVENTS,
    NOT_LOADED,
    NVTX,
    PAYLOAD_COLUMN,
    TIME_COLUMNS,
    EventTable,
)
from traceweave.sources.nsys.export import DamagedError, Export
from traceweave.sources.nsys.open_export import open_export
from traceweave.sources.nsys.other_events import insert_other_events
from traceweave.sources.nsys.processes import mpi_ranks

_STEPS = (
    "prepare.sql", "gpu.sql", "host.sql", "mpi.sql", "nvtx.sql", "autograd.sql", "other.sql",
)  # fmt: skip
_SQL_TYPES = {
    pa.int64(): "BIGINT",
    pa.string(): "VARCHAR",
    pa.float64(): "DOUBLE",
    pa.binary(): "BLOB",
}


def load(con: duckdb.DuckDBPyConnection, trace: Trace, source_id: int, report: Report) -> Loaded:
    """Fill the base tables of `con` from an export; `report` gets bytes of the file as read.

    Raises InputError if the file is no readable SQLite at all.
    """
    derive.stage(con)
    with open_export(trace.path) as export, _temporary_tables(con):
        loader = _Loader(con, export, source_id, _Progress(export, trace.size_bytes, report))
        loader.read_events()
        loader.read_names(trace)
        for step in _STEPS:
            con.execute(_script(step))
        loader.store_other_events()
        derive.link(con)
        con.execute(_script("collectives.sql"))
        return loader.finish(trace)


class _Progress:
    """Turns rows read into bytes of the file, so that all reports sum to its size."""

    def __init__(self, export: Export, size_bytes: int, report: Report) -> None:
        self._rows_left = sum(export.rows_about(table.name) for table in LOADED)
        self._bytes_left = size_bytes
        self._report = report

    def read(self, rows: int) -> None:
        """Report the share of the bytes left that these rows are of the rows left."""
        if self._rows_left > 0:
            share = self._bytes_left * min(rows, self._rows_left) // self._rows_left
            self._rows_left -= rows
            self._bytes_left -= share
            self._report(share)

    def finish(self) -> None:
        """Report what is left."""
        self._report(self._bytes_left)
        self._bytes_left = 0


class _Loader:
    def __init__(
        self, con: duckdb.DuckDBPyConnection, export: Export, source_id: int, progress: _Progress
    ) -> None:
        self._con = con
        self._export = export
        self._source_id = source_id
        self._progress = progress
        self._next_id = source_id * OP_IDS_PER_SOURCE
        self._damage: list[str] = [export.damaged] if export.damaged else []
        self._undecoded = 0
        # the translations name every table with rules of its own, so these exist even without rows
        self._tables = [t for t in LOADED if t.category is None or t.name in export.tables]

    def read_events(self) -> None:
        """Copy the rows of every known event table, numbered in the order read."""
        self._con.execute(
            "CREATE OR REPLACE TEMP TABLE nsys_payloads"
            " (op_id BIGINT, entry VARCHAR, value VARCHAR)"
        )
        for table in self._tables:
            columns = ", ".join(f'"{c}" {_SQL_TYPES[t]}' for c, t in table.types.items())
            self._con.execute(
                f"CREATE OR REPLACE TEMP TABLE {table.staged} (op_id BIGINT, {columns})"
            )
            if table.name in self._export.tables:
                self._read(table)

    def _read(self, table: EventTable) -> None:
        columns = table.types
        with_payload = table is NVTX and self._export.has(table.name, PAYLOAD_COLUMN)
        schemas = payload.read_schemas(self._export) if with_payload else {}
        if with_payload:
            columns = {**columns, PAYLOAD_COLUMN: pa.binary()}
        try:
            for batch in self._export.batches(table.name, columns):
                op_ids = np.arange(self._next_id, self._next_id + batch.num_rows, dtype=np.int64)
                self._next_id += batch.num_rows
                if with_payload:
                    blobs = batch.column(len(columns) - 1)
                    fields, undecoded = payload.decode(op_ids, blobs, schemas)
                    self._undecoded += undecoded
                    self._append("nsys_payloads", fields)
                arrays = [pa.array(op_ids), *batch.columns[: len(table.types)]]
                self._append(
                    table.staged, pa.Table.from_arrays(arrays, names=["op_id", *table.types])
                )
                self._progress.read(batch.num_rows)
        except DamagedError as damage:
            self._damage.append(str(damage))

    def read_names(self, trace: Trace) -> None:
        """Read what events refer to: strings, processes, the clock, metric names, JSON payloads."""
        self._read_strings()
        self._con.execute(
            "CREATE OR REPLACE TEMP TABLE nsys_processes"
            " (process BIGINT, rank INTEGER, world_size INTEGER)"
        )
        if trace.processes:
            rows = [[p.key, p.rank, p.world_size] for p in trace.processes]
            self._con.executemany("INSERT INTO nsys_processes VALUES (?, ?, ?)", rows)
        sole = trace.processes[0].key if len(trace.processes) == 1 else None
        clock = read_clock(self._export)
        self._con.execute(
            "CREATE OR REPLACE TEMP TABLE nsys_session AS SELECT ?::INTEGER AS source_id,"
            " ?::BIGINT AS base_ns, ?::BIGINT AS sole_process, ?::BIGINT AS end_ns",
            [self._source_id, clock.base_ns, sole, self._last_time()],
        )
        self._read_metric_names()
        self._read_communicators()
        self._read_json_payloads()

    def _last_time(self) -> int | None:
        """Return the last time of any event: where ranges that were never closed are cut."""
        bounds = [
            f'SELECT greatest(max(start), max("end")) AS t FROM {t.staged} WHERE start < {2**62}'
            f' AND coalesce("end", 0) < {2**62}'
            for t in self._tables
            if {"start", "end"} <= t.types.keys()
        ]
        row = self._con.execute(f"SELECT max(t) FROM ({' UNION ALL '.join(bounds)})").fetchone()
        return row[0] if row else None

    def _read_strings(self) -> None:
        """Read the strings that events refer to; the rest may be output, logs or secrets."""
        wanted = " UNION ".join(
            f'SELECT "{column}" AS id FROM {table.staged}'
            for table in self._tables
            for column in table.string_ids
        )
        self._con.execute("CREATE OR REPLACE TEMP TABLE nsys_strings (id BIGINT, value VARCHAR)")
        self._con.execute(f"CREATE OR REPLACE TEMP TABLE nsys_string_ids AS {wanted}")
        self._copy(
            "StringIds",
            {"id": pa.int64(), "value": pa.string()},
            "INSERT INTO nsys_strings SELECT id, any_value(value) FROM batch"
            " SEMI JOIN nsys_string_ids USING (id) GROUP BY id",
        )

    def _read_metric_names(self) -> None:
        self._con.execute(
            "CREATE OR REPLACE TEMP TABLE nsys_gpu_metric_names"
            " (type_id BIGINT, metric_id BIGINT, name VARCHAR);"
            "CREATE OR REPLACE TEMP TABLE nsys_network_metric_names"
            " (list_id BIGINT, metric_id BIGINT, name VARCHAR, unit VARCHAR)"
        )
        self._copy(
            "TARGET_INFO_GPU_METRICS",
            {"typeId": pa.int64(), "metricId": pa.int64(), "metricName": pa.string()},
            "INSERT INTO nsys_gpu_metric_names SELECT DISTINCT ON (typeId, metricId) * FROM batch",
        )
        self._copy(
            "TARGET_INFO_NETWORK_METRICS",
            {c: pa.int64() for c in ("metricsListId", "metricsIdx")}
            | {c: pa.string() for c in ("name", "unit")},
            "INSERT INTO nsys_network_metric_names"
            " SELECT DISTINCT ON (metricsListId, metricsIdx) * FROM batch",
        )

    def _read_communicators(self) -> None:
        """Read MPI's communicators. A handle means something in its process only; the root's rank
        and the root's number for it name a communicator for the run."""
        self._con.execute(
            "CREATE OR REPLACE TEMP TABLE nsys_mpi_ranks (process BIGINT, rank INTEGER);"
            "CREATE OR REPLACE TEMP TABLE nsys_mpi_communicators (mpi_rank INTEGER, handle BIGINT,"
            " created BIGINT, comm VARCHAR, comm_rank INTEGER, size INTEGER)"
        )
        for process, rank in mpi_ranks(self._export).items():
            self._con.execute("INSERT INTO nsys_mpi_ranks VALUES (?, ?)", [process, rank])
        columns = (
            "rank", "commHandle", "timestamp", "parentHandle", "localRank", "size", "groupRoot",
            "groupRootUid",
        )  # fmt: skip
        self._copy(
            "MPI_COMMUNICATORS",
            {column: pa.int64() for column in columns},
            "INSERT INTO nsys_mpi_communicators SELECT rank, commHandle, timestamp,"
            " CASE WHEN parentHandle = 0 THEN 'MPI_COMM_WORLD'"
            " ELSE format('MPI communicator {}.{}', groupRoot, groupRootUid) END, localRank, size"
            " FROM batch",
        )

    def _read_json_payloads(self) -> None:
        """Take payloads that nsys decoded itself (--include-json); they stand in for blobs."""
        self._con.execute(_script("json_payloads.sql"))

    def _copy(self, table: str, columns: dict[str, Any], insert: str) -> None:
        if table not in self._export.tables:
            return
        try:
            for batch in self._export.batches(table, columns):
                self._con.register("batch", pa.Table.from_batches([batch]))
                self._con.execute(insert)
                self._con.unregister("batch")
        except DamagedError as damage:
            self._damage.append(str(damage))

    def _append(self, staged: str, rows: pa.Table) -> None:
        self._con.register("batch", rows)
        self._con.execute(f"INSERT INTO {staged} SELECT * FROM batch")
        self._con.unregister("batch")

    def store_other_events(self) -> None:
        """Store the rows of tables that need no rule of their own."""
        for table in self._tables:
            if table.category is not None:
                insert_other_events(self._con, table)

    def finish(self, trace: Trace) -> Loaded:
        """Hand the staged events over and say what became of every event."""
        stored = count_stored(self._con, self._source_id)
        skipped = list(self._skipped_tables())
        issues = [*skipped, *find_issues(self._con, self._export, self._tables, self._undecoded)]
        read = self._next_id - self._source_id * OP_IDS_PER_SOURCE + sum(i.count for i in skipped)
        derive.finish(self._con, self._source_id, trace)
        self._progress.finish()
        damaged = "; ".join(self._damage) or None
        return Loaded(read, stored, issues, damaged)

    def _skipped_tables(self) -> Iterator[Issue]:
        for table, columns in sorted(self._export.tables.items()):
            known = table in {t.name for t in LOADED} or table in NO_EVENTS
            if known or table.startswith(("ENUM_", "TARGET_INFO_", "META_DATA_", "sqlite_")):
                continue
            held = NOT_LOADED.get(table)
            count = self._export.count(table)
            if count and (held or columns.intersection(TIME_COLUMNS)):
                held = held or "events of an unknown table"
                yield Issue("skipped: " + table, count, f"not loaded: {held} ({table})")


@contextmanager
def _temporary_tables(con: duckdb.DuckDBPyConnection) -> Iterator[None]:
    """Drop the temporary tables of this loader at the end, come what may."""
    try:
        yield
    finally:
        for kind, listing in (("VIEW", "duckdb_views()"), ("TABLE", "duckdb_tables()")):
            column = kind.lower() + "_name"
            rows = con.execute(
                f"SELECT {column} FROM {listing} WHERE temporary AND starts_with({column}, 'nsys_')"
            ).fetchall()
            for (name,) in rows:
                con.execute(f'DROP {kind} "{name}"')


def _script(name: str) -> str:
    return resources.files(__package__).joinpath("events", name).read_text("utf-8")
