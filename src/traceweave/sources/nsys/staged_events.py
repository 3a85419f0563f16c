"""Copying the event tables of an export into temporary tables, as they are."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

from traceweave.sources.batches import one_ahead, transaction
from traceweave.sources.nsys import payload
from traceweave.sources.nsys.event_tables import LOADED, NVTX, PAYLOAD_COLUMN, EventTable
from traceweave.sources.nsys.export import DamagedError, Export

_SQL_TYPES = {
    pa.int64(): "BIGINT",
    pa.string(): "VARCHAR",
    pa.float64(): "DOUBLE",
    pa.binary(): "BLOB",
}


class StagedEvents:
    """The events of one export in temporary tables, numbered in the order read.

    Attributes:
        tables: the event tables that have a temporary table, maybe an empty one.
        filled: those of them that have rows.
        damage: what could not be read, in words.
        undecoded: NVTX payloads of unknown layout.
        rows: how many rows were read.
    """

    def __init__(self, con: duckdb.DuckDBPyConnection, export: Export, first_id: int) -> None:
        self._con = con
        self._export = export
        self._first_id = first_id
        self._schemas = payload.read_schemas(export) if _has_payloads(export) else {}
        # the translations name every table with rules of its own, so these exist even without rows
        self.tables = [t for t in LOADED if t.category is None or t.name in export.tables]
        self.filled: list[EventTable] = []
        self.damage: list[str] = []
        self.undecoded = 0
        self.rows = 0

    def read(self, report: Callable[[int], None]) -> None:
        """Copy the rows of every known event table; `report` gets numbers of rows as read."""
        self._con.execute(
            "CREATE OR REPLACE TEMP TABLE nsys_payloads"
            " (op_id BIGINT, entry VARCHAR, value VARCHAR)"
        )
        for table in self.tables:
            columns = ", ".join(f'"{c}" {_SQL_TYPES[t]}' for c, t in table.types.items())
            self._con.execute(
                f"CREATE OR REPLACE TEMP TABLE {table.staged} (op_id BIGINT, {columns})"
            )
        with transaction(self._con):
            for table, batch in one_ahead(self._batches()):
                self._append(table, batch)
                report(batch.num_rows)

    def _batches(self) -> Iterator[tuple[EventTable, pa.RecordBatch]]:
        for table in self.tables:
            if table.name not in self._export.tables:
                continue
            try:
                for batch in self._export.batches(table.name, _present(self._export, table)):
                    yield table, batch
            except DamagedError as damage:
                self.damage.append(str(damage))

    def _append(self, table: EventTable, batch: pa.RecordBatch) -> None:
        if not batch.num_rows:
            return
        if table not in self.filled:
            self.filled.append(table)
        first = self._first_id + self.rows
        self.rows += batch.num_rows
        op_ids = np.arange(first, first + batch.num_rows, dtype=np.int64)
        if PAYLOAD_COLUMN in batch.schema.names:
            fields, undecoded = payload.decode(op_ids, batch[PAYLOAD_COLUMN], self._schemas)
            self.undecoded += undecoded
            insert(self._con, "nsys_payloads", fields)
            batch = batch.drop_columns([PAYLOAD_COLUMN])
        names = ["op_id", *batch.schema.names]
        insert(
            self._con, table.staged, pa.Table.from_arrays([pa.array(op_ids), *batch.columns], names)
        )


def insert(con: duckdb.DuckDBPyConnection, table: str, rows: pa.Table) -> None:
    """Append rows to a temporary table; columns that they lack are NULL."""
    if rows.num_rows:
        con.register("batch", rows)
        con.execute(f"INSERT INTO {table} BY NAME FROM batch")
        con.unregister("batch")


def _has_payloads(export: Export) -> bool:
    return export.has(NVTX.name, PAYLOAD_COLUMN)


def _present(export: Export, table: EventTable) -> Mapping[str, Any]:
    """Return the columns to read of those that the export has; one that it lacks if it has none."""
    known = {**table.types, PAYLOAD_COLUMN: pa.binary()} if table is NVTX else table.types
    present = {c: t for c, t in known.items() if c in export.tables[table.name]}
    return present or dict(list(known.items())[:1])
