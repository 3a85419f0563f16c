"""Copying the event tables of an export into temporary tables, as they are, and what of them can be
used into relations that have what all events have: process, rank, time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

from traceweave.sources.batches import one_ahead, transaction
from traceweave.sources.model import Trace
from traceweave.sources.nsys import payload
from traceweave.sources.nsys.event_tables import NVTX, PAYLOAD_COLUMN, TABLES, USABLE, EventTable
from traceweave.sources.nsys.export import Export

_SQL_TYPES = {pa.int64(): "BIGINT", pa.string(): "VARCHAR", pa.float64(): "DOUBLE"}


class StagedEvents:
    """The events of one export in temporary tables, numbered in the order read.

    Attributes:
        tables: the event tables that have a temporary table, maybe an empty one.
        undecoded: NVTX payloads of unknown layout.
        rows: how many rows were read.
    """

    def __init__(self, con: duckdb.DuckDBPyConnection, export: Export, first_id: int) -> None:
        self._con = con
        self._export = export
        self._first_id = first_id
        has_payloads = export.has(NVTX.name, PAYLOAD_COLUMN)
        self._schemas = payload.read_schemas(export) if has_payloads else {}
        # the translations name every table with rules of its own, so these exist even without rows
        self.tables = [t for t in TABLES.values() if not t.category or t.name in export.tables]
        self._columns: dict[EventTable, list[str]] = {}
        self.undecoded = 0
        self.rows = 0

    @property
    def filled(self) -> list[EventTable]:
        """Those of the tables that have rows."""
        return list(self._columns)

    def read(self, report: Callable[[int], None]) -> None:
        """Copy the rows of every known event table; `report` gets numbers of rows as read."""
        self._con.execute(
            "CREATE OR REPLACE TEMP TABLE nsys_payloads"
            " (op_id BIGINT, entry VARCHAR, value VARCHAR)"
        )
        with transaction(self._con):
            for table, batch in one_ahead(self._batches()):
                self._append(table, batch)
                report(batch.num_rows)

    def drop(self, table: EventTable) -> None:
        """Drop the rows of a table that nobody asks any more, which may be most of the memory."""
        for relation in (table.staged, table.judged):
            self._con.execute(f"DROP VIEW {relation}")
        self._con.execute(f"DROP TABLE {table.stored}")

    def _batches(self) -> Iterator[tuple[EventTable, pa.RecordBatch]]:
        for table in self.tables:
            if table.name not in self._export.tables:
                continue
            for batch in self._export.batches(table.name, _present(self._export, table)):
                if batch.num_rows:
                    yield table, batch

    def _append(self, table: EventTable, batch: pa.RecordBatch) -> None:
        first = self._first_id + self.rows
        self.rows += batch.num_rows
        op_ids = np.arange(first, first + batch.num_rows, dtype=np.int64)
        if PAYLOAD_COLUMN in batch.schema.names:
            fields, undecoded = payload.decode(op_ids, batch[PAYLOAD_COLUMN], self._schemas)
            self.undecoded += undecoded
            insert(self._con, "nsys_payloads", fields)
            batch = batch.drop_columns([PAYLOAD_COLUMN])
        if table not in self._columns:
            self._columns[table] = batch.schema.names
            self._create(table)
        # not pa.array, which imports pandas: half a second
        numbers = pa.Array.from_buffers(pa.int64(), len(op_ids), [None, pa.py_buffer(op_ids)])
        names = ["op_id", *batch.schema.names]
        insert(self._con, table.stored, pa.Table.from_arrays([numbers, *batch.columns], names))

    def _create(self, table: EventTable) -> None:
        columns = "".join(
            f', "{name}" {_SQL_TYPES[table.types[name]]}' for name in self._columns.get(table, ())
        )
        self._con.execute(f"CREATE OR REPLACE TEMP TABLE {table.stored} (op_id BIGINT{columns})")

    def show(self, trace: Trace, source_id: int, base_ns: int) -> None:
        """Make the relations of every table's rows: all of them, judged, and those of use."""
        for table in self.tables:
            self._judge(table)
        until = self._last_time()
        of = trace.processes
        sole = of[0].key if len(of) == 1 else "NULL::BIGINT"
        ranks = "".join(f" WHEN {p.key} THEN {p.rank}" for p in of if p.rank is not None)
        for table in self.tables:
            process, tid, duration, start = "NULL::BIGINT", "NULL", "NULL", table.start
            if not table.faults:
                start = f"CASE WHEN nsys_timely({start}) THEN {start} END"
            if "globalTid" in table.types:
                process, tid = "nsys_process(globalTid)", "nsys_tid(globalTid)"
            elif table.name.startswith("CUPTI_"):
                process = f"coalesce(globalPid, {sole})"  # some exports are stripped of it
            elif "globalPid" in table.types:  # NULL: of the machine, or of nobody that nsys knows
                process = "nsys_process(globalPid)"
            if "end" in table.types:
                end = f'coalesce("end", {until})' if table.may_be_open else '"end"'
                duration = f"{end} - {table.start}"
            self._con.execute(
                f"CREATE OR REPLACE TEMP VIEW {table.staged} AS SELECT * EXCLUDE (fault),"
                f" {process} AS process, {f'CASE process{ranks} END' if ranks else 'NULL'}::INTEGER"
                f" AS rank, nsys_pid(process) AS pid, {tid} AS tid, {source_id} AS source_id,"
                f" {start} + {base_ns} AS start_local_ns, {duration} AS duration_ns"
                f" FROM {table.judged} WHERE fault IS NULL"
            )

    def _judge(self, table: EventTable) -> None:
        if table not in self._columns:
            self._create(table)
        stored = self._columns.get(table, ())
        columns = ", ".join(
            f'"{c}"' if c in stored else f'NULL::{_SQL_TYPES[t]} AS "{c}"'
            for c, t in table.types.items()
        )
        faults = "".join(f" WHEN {is_so} THEN '{fault}'" for fault, is_so in table.faults.items())
        self._con.execute(
            f"CREATE OR REPLACE TEMP VIEW {table.judged} AS SELECT op_id, {columns},"
            f" {f'CASE{faults} END' if faults else 'NULL'} AS fault FROM {table.stored}"
        )

    def _last_time(self) -> int:
        """Return the last time of any event: where what was never closed is cut."""
        bounds = [
            f'SELECT greatest(max(start), max("end")) AS t FROM {table.judged} WHERE {USABLE}'
            for table in self.filled
            if {"start", "end"} <= table.types.keys()
        ] or ["SELECT 0 AS t"]
        ((last,),) = self._con.execute(
            f"SELECT coalesce(max(t), 0) FROM ({' UNION ALL '.join(bounds)})"
        ).fetchall()
        return int(last)


def insert(con: duckdb.DuckDBPyConnection, table: str, rows: pa.Table) -> None:
    """Append rows to a temporary table; columns that they lack are NULL."""
    if rows.num_rows:
        # DuckDB finds `rows` here by its name. What is registered instead stays in memory until
        # the transaction ends, even when it is unregistered: the whole export
        con.execute(f"INSERT INTO {table} BY NAME FROM rows")


def _present(export: Export, table: EventTable) -> Mapping[str, Any]:
    """Return the columns to read of those that the export has and fills; one if there is none."""
    known = {**table.types, PAYLOAD_COLUMN: pa.binary()} if table is NVTX else table.types
    present = [c for c in known if c in export.tables[table.name]]
    filled = export.filled(table.name, present)
    return {c: known[c] for c in filled or list(known)[:1]}
