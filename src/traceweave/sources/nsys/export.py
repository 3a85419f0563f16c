"""What every form of an nsys export offers: its tables as rows and as Arrow batches.

Exports have no indexes, tables without rows are missing, columns differ by version, so nothing is
taken for granted: a missing table reads as empty, a missing column as NULL, a value of the wrong
type as NULL.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa


@dataclass(frozen=True)
class Export(ABC):
    """An open export: the columns of its tables, and how to read them."""

    path: Path
    tables: Mapping[str, frozenset[str]]
    damaged: str | None
    """Why the export as a whole is known to be incomplete; None if nothing says so."""
    unreadable: dict[str, str] = field(default_factory=dict, kw_only=True)
    """Tables that turned out not to be readable to their end, and why."""

    @property
    def damage(self) -> str | None:
        """All that is known to be missing, in words; None if nothing is."""
        found = [self.damaged, *(f"{table}: {why}" for table, why in self.unreadable.items())]
        if not self.has("StringIds", "id", "value"):
            found.append("it has no StringIds, so nothing has a name; export the report again")
        return "; ".join(filter(None, found)) or None

    def has(self, table: str, *columns: str) -> bool:
        """Tell whether the table exists with all of these columns."""
        return table in self.tables and self.tables[table].issuperset(columns)

    def pairs(self, table: str) -> list[tuple[str, str]]:
        """Return the (name, value) rows of a metadata table; none if it is missing."""
        if not self.has(table, "name", "value"):
            return []
        rows = self.rows(f"SELECT name, value FROM {quoted(table)}")
        return [(str(name), str(value)) for name, value in rows]

    @cached_property
    def options(self) -> dict[str, str]:
        """What the export says of how it was made, under the names of older and newer ones."""
        return dict(self.pairs("EXPORT_META_DATA") + self.pairs("META_DATA_EXPORT"))

    def count(self, table: str) -> int:
        """Return the number of rows of a table, 0 if it is missing or unreadable."""
        if table not in self.tables:
            return 0
        rows = self.rows(f"SELECT count(*) FROM {quoted(table)}")
        return int(rows[0][0]) if rows else 0

    @abstractmethod
    def rows(self, sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Return all rows of a query that yields few; no rows where they are unreadable.

        The query must mean the same to SQLite and DuckDB. A table that cannot be read is noted.
        """

    @abstractmethod
    def check(self, table: str) -> None:
        """Read all of a table, so that it is noted if that cannot be done."""

    @abstractmethod
    def rows_about(self, table: str) -> int:
        """Return how many rows a table has, roughly but at once; for progress."""

    @abstractmethod
    def filled(self, table: str, columns: Sequence[str]) -> list[str]:
        """Return those of the columns that hold anything, in order; all where nobody knows.

        Most columns of most tables are NULL throughout, and reading them would cost more than this.
        """

    @abstractmethod
    def batches(self, table: str, columns: Mapping[str, pa.DataType]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a table in file order with exactly these columns.

        They end early if the table cannot be read to its end, which is noted.
        """


def quoted(name: str) -> str:
    """Return a table's or column's name as an SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def repaired(column: pa.Array) -> pa.Array:
    """Return a column of strings with bytes that are no UTF-8 replaced; others as they are."""
    if not pa.types.is_string(column.type):
        return column
    try:
        column.validate(full=True)
    except pa.ArrowInvalid:
        raw = column.cast(pa.binary()).to_pylist()
        return pa.array([None if b is None else b.decode("utf-8", "replace") for b in raw])
    return column
