"""Reading an nsys export that is a folder with one Parquet or Arrow file per table.

`nsys export --type parquetdir` writes Parquet, `--type arrowdir` Arrow streams. The columns are
those of the SQLite form; unsigned numbers are kept as the same bits, signed, as SQLite does.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from traceweave.errors import InputError
from traceweave.sources.elsewhere import place_at
from traceweave.sources.faults import damage
from traceweave.sources.nsys.export import Export, repaired
from traceweave.sources.nsys.recognize import TABLE_SUFFIXES

_ROWS_PER_BATCH = 65_536
_RAW_BYTES = "binaryData"
"""Declared as text, but holds whatever bytes the program attached."""


class _ParquetTable:
    """A Parquet file: read batch by batch, and it says by itself what it holds."""

    def __init__(self, path: Path, stack: ExitStack) -> None:
        import pyarrow.parquet as pq

        place = place_at(path)
        source = stack.enter_context(place.opened()) if place else path
        self._file = stack.enter_context(pq.ParquetFile(source))
        self.schema = self._file.schema_arrow
        self.row_count: int = self._file.metadata.num_rows

    def is_empty(self, column: str) -> bool:
        """Tell whether a column is known to hold nothing but NULL."""
        metadata = self._file.metadata
        position = self.schema.names.index(column)
        groups = (metadata.row_group(g).column(position) for g in range(metadata.num_row_groups))
        return all(
            g.is_stats_set
            and g.statistics.has_null_count
            and g.statistics.null_count == g.num_values
            for g in groups
        )

    def read(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield these columns, batch by batch."""
        yield from self._file.iter_batches(_ROWS_PER_BATCH, columns=list(columns))


class _ArrowTable:
    """An Arrow file or stream, mapped: what nsys writes is not compressed."""

    def __init__(self, path: Path, stack: ExitStack) -> None:
        place = place_at(path)
        file = stack.enter_context(place.opened() if place else pa.memory_map(str(path)))
        try:
            reader = pa.ipc.open_file(file)
        except pa.ArrowInvalid:
            file.seek(0)
            reader = pa.ipc.open_stream(file)
        self._table = reader.read_all()
        self.schema = self._table.schema
        self.row_count: int = self._table.num_rows

    def is_empty(self, column: str) -> bool:
        """Tell whether a column holds nothing but NULL."""
        return bool(self._table[column].null_count == self.row_count)

    def read(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield these columns, batch by batch."""
        yield from self._table.select(list(columns)).to_batches(_ROWS_PER_BATCH)


@dataclass(frozen=True)
class FolderExport(Export):
    """An open folder of tables."""

    files: Mapping[str, _ParquetTable | _ArrowTable]
    con: duckdb.DuckDBPyConnection
    """For queries over few columns."""

    def rows(self, sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Return all rows of a query that yields few; no rows where they are unreadable."""
        words = Counter(re.findall(r"\w+", sql))
        named = [table for table in self.files if table in words]
        try:
            for table in named:
                self._offer(table, words)
            return self.con.execute(sql, list(parameters)).fetchall()
        except (duckdb.Error, pa.ArrowInvalid) as error:
            damage(error)  # which it is, but for memory that ran out
            return []
        finally:
            for table in named:
                self.con.unregister(table)

    def check(self, table: str) -> None:
        """Read all of a table, so that it is noted if that cannot be done."""
        try:
            for _ in self.files[table].read(self.files[table].schema.names):
                pass
        except (pa.ArrowInvalid, OSError) as error:
            self.unreadable[table] = damage(error)

    def _offer(self, table: str, words: Counter[str]) -> None:
        """Let a query read the columns of a table that it names, one if it names none: as a stream;
        in memory if it reads them twice.
        """
        schema = self.files[table].schema
        fields = [field for field in schema if field.name in words] or [schema.field(0)]
        types = {field.name: _plain(field) for field in fields}
        batches, known = self.batches(table, types), pa.schema(list(types.items()))
        if words[table] > 1:
            self.con.register(table, pa.Table.from_batches(batches, known))
        else:
            self.con.register(table, pa.RecordBatchReader.from_batches(known, batches))

    def rows_about(self, table: str) -> int:
        """Return the number of rows."""
        return self.files[table].row_count if table in self.files else 0

    def count(self, table: str) -> int:
        """Return the number of rows."""
        return self.rows_about(table)

    def filled(self, table: str, columns: Sequence[str]) -> list[str]:
        """Return those of the columns that hold anything, as the files themselves say."""
        return [c for c in columns if not self.files[table].is_empty(c)]

    def batches(self, table: str, columns: Mapping[str, pa.DataType]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a table in file order with exactly these columns."""
        file, schema = self.files[table], pa.schema(list(columns.items()))
        present = [c for c in columns if c in self.tables[table]]
        try:
            for batch in file.read(present):
                found = dict(zip(batch.schema.names, batch.columns, strict=True))
                arrays = [
                    _converted(found[c], t) if c in found else pa.nulls(batch.num_rows, t)
                    for c, t in columns.items()
                ]
                yield pa.RecordBatch.from_arrays(arrays, schema=schema)
        except (pa.ArrowInvalid, OSError) as error:
            self.unreadable[table] = damage(error)


@contextmanager
def open_folder(path: Path) -> Iterator[FolderExport]:
    """Open an export folder. Raises InputError if none of its files can be read."""
    damaged: list[str] = []
    files: dict[str, _ParquetTable | _ArrowTable] = {}
    with ExitStack() as stack, duckdb.connect() as con:
        for file in sorted(path.iterdir()):
            if file.suffix not in TABLE_SUFFIXES or file.name.startswith("ENUM_"):
                continue
            kind = _ParquetTable if file.suffix == ".parquet" else _ArrowTable
            try:
                files.setdefault(file.stem, kind(file, stack))
            except (pa.ArrowInvalid, OSError) as error:
                damaged.append(f"{file.name}: {damage(error)}")
        if not files:
            reason = damaged[0] if damaged else "it is empty"
            raise InputError(
                f"{path}: none of its tables can be read ({reason}); export the report again"
            )
        tables = {name: frozenset(table.schema.names) for name, table in files.items()}
        yield FolderExport(path, tables, "; ".join(damaged) or None, files, con)


def _plain(field: pa.Field) -> pa.DataType:
    """Return the type of SQLite that a column would have there."""
    if field.name == _RAW_BYTES:
        return pa.binary()
    if pa.types.is_integer(field.type) or pa.types.is_boolean(field.type):
        return pa.int64()
    return pa.float64() if pa.types.is_floating(field.type) else pa.string()


def _converted(column: pa.Array, type_: pa.DataType) -> pa.Array:
    """Return a column as another type; NULL where it cannot be."""
    if column.type == pa.uint64() and type_ == pa.int64():
        return column.view(pa.int64())
    if pa.types.is_string(column.type) and pa.types.is_binary(type_):
        return column.cast(type_)
    try:
        return repaired(pc.cast(column, type_))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return pa.nulls(len(column), type_)
