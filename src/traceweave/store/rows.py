"""Writing rows that Python has, by the names of their columns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias

import duckdb
import numpy as np
import numpy.typing as npt

Columns: TypeAlias = Mapping[str, npt.NDArray[Any]]
"""Columns of equal length by name: numbers, masked where there is none, or texts, None for none."""


def insert_rows(
    con: duckdb.DuckDBPyConnection,
    table: str,
    rows: Iterable[Mapping[str, object]],
    select: str = "*",
    values: Mapping[str, object] | None = None,
) -> None:
    """Insert rows of the same columns into a table whose name is written in this program: what
    `select` makes of them.

    Each value has the type that the column of its name has in the table.
    """
    listed = list(rows)
    if not listed:
        return
    there = con.sql(f"FROM {table} LIMIT 0")
    types = dict(zip(there.columns, there.types, strict=True))
    columns = ", ".join(
        f"unnest($column_{i}::{types[name]}[]) AS {name}" for i, name in enumerate(listed[0])
    )
    lists = {f"column_{i}": [row[name] for row in listed] for i, name in enumerate(listed[0])}
    con.execute(
        f"INSERT INTO {table} BY NAME SELECT {select} FROM (SELECT {columns})",
        {**lists, **(values or {})},
    )


@contextmanager
def registered(con: duckdb.DuckDBPyConnection, columns: Columns) -> Iterator[str]:
    """Yield the name of a relation with these columns, which ends with the block.

    DuckDB reads arrays of numpy as they are; to make Arrow's of them imports pandas, which takes
    longer than many an analysis.
    """
    con.register("tw_columns", dict(columns))
    try:
        yield "tw_columns"
    finally:
        con.unregister("tw_columns")


def column(values: Sequence[Any]) -> npt.NDArray[Any]:
    """Return texts or numbers as a column; None stands for none."""
    if any(isinstance(value, str) for value in values):
        return np.array(values, dtype=object)
    missing = [value is None for value in values]
    return np.ma.masked_array([value or 0 for value in values], missing)
