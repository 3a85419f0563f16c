"""Reading an nsys SQLite export: whatever tables and columns it has, as Arrow batches.

The quick way is ADBC's SQLite driver, which writes Arrow in C. It takes the types of a table from
its first rows and gives up on a value that does not fit, so it serves exports as nsys writes them;
where it stops, Python's sqlite3 goes on. Measured on a million kernels (22 columns) and ranges
(18): 2.5 and 2.3 s of one core, sqlite3 7.4 and 4.9 s, and it lets other threads run meanwhile.
"""

from __future__ import annotations

import os
import re
import sqlite3
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any
from urllib.parse import quote

import adbc_driver_manager
import adbc_driver_sqlite
import pyarrow as pa

from traceweave.errors import InputError
from traceweave.sources.faults import damage
from traceweave.sources.nsys.event_tables import is_of_nsys
from traceweave.sources.nsys.export import Export, quoted, repaired
from traceweave.sources.unpack import ByteStream, is_packed

ROWS_PER_BATCH = 16_384
"""Measured best of 1 k, 16 k and 64 k rows: 206 k rows/s with 24 columns."""

FAST_ROWS_PER_BATCH = 65_536

_FAST_ERRORS = (adbc_driver_manager.Error, pa.ArrowInvalid, OSError)
"""What quick reading may raise (OSError: amid the rows); rows yielded before are good."""

_TYPED = {
    pa.int64(): "CASE WHEN typeof({c}) IN ('integer', 'real') THEN CAST({c} AS INTEGER) END",
    pa.float64(): "CASE WHEN typeof({c}) IN ('integer', 'real') THEN CAST({c} AS REAL) END",
    pa.string(): "CASE WHEN typeof({c}) IN ('text', 'blob') THEN CAST({c} AS TEXT) END",
    pa.binary(): "CASE typeof({c}) WHEN 'blob' THEN {c} END",
}
"""What of a column is of a type, NULL for the rest."""

_SAMPLE = {pa.int64(): "0", pa.float64(): "0.5", pa.string(): "'x'", pa.binary(): "x'00'"}


@dataclass(frozen=True)
class SqliteExport(Export):
    """An open SQLite export and its connection."""

    uri: str
    """What the open file, unpacked, is called in SQLite."""
    con: sqlite3.Connection

    def rows(self, sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Return all rows of a query that yields few; no rows where pages are unreadable."""
        try:
            return self.con.execute(sql, parameters).fetchall()
        except sqlite3.DatabaseError:
            for table in self.tables.keys() & set(re.findall(r"\w+", sql)):
                self.check(table)
            return []

    def check(self, table: str) -> None:
        """Read all of a table, so that it is noted if that cannot be done."""
        try:
            for _ in self.con.execute(f"SELECT * FROM {quoted(table)}"):
                pass
        except sqlite3.DatabaseError as error:
            self.unreadable[table] = damage(error)

    def rows_about(self, table: str) -> int:
        """Return the last row's number: nothing is deleted from an export."""
        if table not in self.tables:
            return 0
        rows = self.rows(f"SELECT max(rowid) FROM {quoted(table)}")
        return rows[0][0] if rows and isinstance(rows[0][0], int) else 0

    def filled(self, table: str, columns: Sequence[str]) -> list[str]:
        """Return those of the columns that hold anything; all where pages are unreadable.

        One pass over the table, which goes on at the row where a column was found to be filled.
        """
        empty = dict.fromkeys(columns)
        row_id = -(1 << 63)
        try:
            while empty:
                names = ", ".join(map(quoted, empty))
                row = self.con.execute(
                    f"SELECT rowid, {names} FROM {quoted(table)}"
                    f" WHERE rowid > ? AND coalesce({names}, NULL) IS NOT NULL LIMIT 1",
                    [row_id],
                ).fetchone()
                if row is None:
                    break
                row_id, *values = row
                held = [c for c, value in zip(empty, values, strict=True) if value is not None]
                for column in held:
                    del empty[column]
        except sqlite3.DatabaseError:
            return list(columns)
        return [column for column in columns if column not in empty]

    def batches(self, table: str, columns: Mapping[str, pa.DataType]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a table in file order with exactly these columns."""
        schema = pa.schema(list(columns.items()))
        done = 0
        for batch in self._read_fast(self._select(table, columns, {}), schema):
            done += batch.num_rows
            yield batch
        try:
            # SQLite lets any column hold any type, and text any bytes
            yield from self._read_on(self._select(table, columns, _TYPED), schema, done)
        except sqlite3.DatabaseError as error:
            self.unreadable[table] = damage(error)

    def _read_fast(self, select: str, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """Yield as many rows as the quick reader can: to where a value has another type than its
        column or a page is damaged.
        """
        if self.damaged is not None:
            return
        # a first row of known types decides the types; without it a column of NULLs would
        sample = ", ".join(_SAMPLE[t] for t in schema.types)
        # not through its module dbapi, which imports pandas: half a second
        with (
            suppress(*_FAST_ERRORS),
            adbc_driver_sqlite.connect(self.uri) as database,
            adbc_driver_manager.AdbcConnection(database) as con,
            adbc_driver_manager.AdbcStatement(con) as statement,
        ):
            statement.set_options(**{"adbc.sqlite.query.batch_rows": str(FAST_ROWS_PER_BATCH)})
            statement.set_sql_query(f"SELECT {sample} UNION ALL {select}")
            stream, _ = statement.execute_query()
            with pa.RecordBatchReader._import_from_c(stream.address) as reader:
                for number, batch in enumerate(reader):
                    rows = batch if number else batch.slice(1)
                    if rows.schema.types != schema.types:
                        return
                    columns = [repaired(column) for column in rows.columns]
                    yield pa.RecordBatch.from_arrays(columns, schema=schema)

    def _read_on(self, select: str, schema: pa.Schema, done: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows after the first `done`."""
        cursor = self.con.execute(f"{select} LIMIT -1 OFFSET ?", [done])
        failure: sqlite3.DatabaseError | None = None
        while failure is None:
            rows: list[tuple[Any, ...]] = []
            try:
                # one by one: fetchmany would lose the good rows before a damaged page
                rows.extend(islice(cursor, ROWS_PER_BATCH))
            except sqlite3.DatabaseError as error:
                failure = error
            if rows:
                columns = zip(schema.types, zip(*rows, strict=True), strict=True)
                arrays = [pa.array(values, type_) for type_, values in columns]
                yield pa.RecordBatch.from_arrays(arrays, schema=schema)
            elif failure is None:
                return
        raise failure

    def _select(
        self, table: str, columns: Mapping[str, pa.DataType], typed: Mapping[pa.DataType, str]
    ) -> str:
        present = self.tables[table]
        fields = ", ".join(
            typed.get(type_, "{c}").format(c=quoted(c)) if c in present else "NULL"
            for c, type_ in columns.items()
        )
        return f"SELECT {fields} FROM {quoted(table)}"


@contextmanager
def open_sqlite(path: Path, most_bytes: int | None = None) -> Iterator[SqliteExport]:
    """Open an export read-only, unpacked to a temporary file first if it is gzip.

    Raises InputError if it is no readable SQLite file at all, or unpacks to more than `most_bytes`.
    """
    if not is_packed(path):
        with closing(_connection(path)) as con:
            yield _export(path, path, None, con)
        return
    with (
        tempfile.NamedTemporaryFile(prefix="traceweave-", suffix=".sqlite") as out,
        path.open("rb") as packed,
    ):
        stream = ByteStream(packed, most_bytes=most_bytes)
        out.writelines(stream.pieces())
        out.flush()
        with closing(_connection(Path(out.name))) as con:
            yield _export(path, Path(out.name), stream.damaged, con)


def _export(
    path: Path, database: Path, damaged: str | None, con: sqlite3.Connection
) -> SqliteExport:
    # SQLite refuses a file shorter than its header says unless the schema is declared writable
    con.execute("PRAGMA writable_schema = ON")
    try:
        rows = con.execute("SELECT name, type FROM sqlite_master").fetchall()
        tables = {str(n): _columns(con, str(n)) for n, type_ in rows if type_ == "table"}
    except sqlite3.DatabaseError as error:
        raise InputError(
            f"{path}: cannot be read as SQLite ({error});"
            " export the report again with `nsys export --type sqlite`"
        ) from error
    if views := sorted(str(n) for n, type_ in rows if type_ == "view" and is_of_nsys(str(n))):
        raise InputError(
            f"{path}: its {views[0]} is a view, whose rows are not read; make a table of it"
            " (CREATE TABLE ... AS SELECT), or export the report again"
        )
    return SqliteExport(path, tables, damaged or _cut_short(database), _uri(database), con)


def _uri(database: Path) -> str:
    # immutable: no lock and no journal is looked for, so read-only and network folders work
    return f"file:{quote(os.fsencode(database.resolve()))}?mode=ro&immutable=1"


def _connection(database: Path) -> sqlite3.Connection:
    con = sqlite3.connect(_uri(database), uri=True, check_same_thread=False)
    con.text_factory = _text
    return con


def _columns(con: sqlite3.Connection, table: str) -> frozenset[str]:
    try:
        return frozenset(str(r[1]) for r in con.execute(f"PRAGMA table_info({quoted(table)})"))
    except sqlite3.DatabaseError:
        return frozenset()


def _cut_short(database: Path) -> str | None:
    with database.open("rb") as file:
        header = file.read(100)
    page_size = int.from_bytes(header[16:18], "big")
    pages = int.from_bytes(header[28:32], "big")
    expected = pages * (65536 if page_size == 1 else page_size)
    missing = expected - database.stat().st_size
    return f"the file is {missing} bytes shorter than its header says" if missing > 0 else None


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")
