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

_AT_ONCE = 200
"""Rows to a statement, which takes 0.5 ms, be it for one."""


def insert_rows(
    con: duckdb.DuckDBPyConnection, table: str, rows: Iterable[Mapping[str, object]]
) -> None:
    """Insert rows of the same columns into a table whose name is written in this program."""
    listed = list(rows)
    for start in range(0, len(listed), _AT_ONCE):
        part = listed[start : start + _AT_ONCE]
        names = list(part[0])
        marks = f"({', '.join('?' * len(names))})"
        con.execute(
            f"INSERT INTO {table} ({', '.join(names)}) VALUES {', '.join([marks] * len(part))}",
            [row[name] for row in part for name in names],
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
