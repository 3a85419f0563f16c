"""Moving much into DuckDB piece by piece: one transaction, the next piece made meanwhile."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar

import duckdb

_Item = TypeVar("_Item")


@contextmanager
def transaction(con: duckdb.DuckDBPyConnection) -> Iterator[None]:
    """Make one transaction of many inserts: each by itself takes four times as long, since what is
    less than a row group is copied once more when it is committed.
    """
    con.begin()
    try:
        yield
    except BaseException:
        con.rollback()
        raise
    con.commit()


def one_ahead(items: Iterator[_Item]) -> Iterator[_Item]:
    """Yield the items while a thread makes the next one."""
    with ThreadPoolExecutor(1, thread_name_prefix="read") as pool:
        coming = pool.submit(next, items, None)
        while (item := coming.result()) is not None:
            coming = pool.submit(next, items, None)
            yield item


def insert_all(
    con: duckdb.DuckDBPyConnection,
    table: str,
    rows: Sequence[Mapping[str, Any]],
    select: str = "*",
    values: Mapping[str, Any] | None = None,
) -> None:
    """Insert rows that Python has, all of the same columns, by name: what `select` makes of them.

    Each value has the type that the column of its name has in the table.
    """
    if not rows:
        return
    import pyarrow as pa  # which takes longer than a small file

    types = con.sql(f"FROM {table} LIMIT 0").to_arrow_table().schema
    schema = pa.schema([types.field(name) for name in rows[0]])
    read_rows = pa.Table.from_pylist(rows, schema=schema)  # which SQL finds by name  # noqa: F841
    con.execute(f"INSERT INTO {table} BY NAME SELECT {select} FROM read_rows", values)
