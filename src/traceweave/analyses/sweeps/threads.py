"""Tables taken apart by thread, to be swept one thread after the other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from traceweave.analyses.sweeps.columns import to_arrow, to_numpy


@dataclass(frozen=True)
class Threads:
    """Columns of a table, the rows of one thread after those of another."""

    columns: Mapping[str, npt.NDArray[Any]]
    rows: Mapping[int, slice]
    """Where those of each thread are."""
    order: npt.NDArray[np.intp]
    """Where each row was in the table."""

    def at(self, thread: int) -> slice:
        """Return where the rows of a thread are; it may have none."""
        return self.rows.get(thread, slice(0, 0))

    def of(self, thread: int, *names: str) -> list[npt.NDArray[Any]]:
        """Return columns of a thread."""
        return [self.columns[name][self.at(thread)] for name in names]

    def added_to(self, table: pa.Table, **more: npt.NDArray[Any]) -> pa.Table:
        """Return the table with more columns, which are in the order of the threads."""
        for name, values in more.items():
            as_in_table = np.empty_like(values)
            as_in_table[self.order] = values
            table = table.append_column(name, to_arrow(as_in_table))
        return table


def by_thread(table: pa.Table, names: tuple[str, ...]) -> Threads:
    """Group columns of a table, none of whose values is NULL, by its column `thread`."""
    codes, threads = numbered(table["thread"])
    # small numbers are sorted in one pass
    order = np.argsort(codes.astype(np.min_scalar_type(len(threads))), kind="stable")
    ends = np.cumsum(np.bincount(codes, minlength=len(threads))).tolist()
    return Threads(
        {name: to_numpy(table[name])[order] for name in names},
        dict(zip(threads, map(slice, [0, *ends], ends), strict=True)),
        order,
    )


def numbered(column: pa.ChunkedArray) -> tuple[npt.NDArray[Any], list[int]]:
    """Return a column with numbers in place of its values, and the values by their numbers."""
    coded = to_arrow(to_numpy(column)).dictionary_encode()
    return to_numpy(coded.indices), coded.dictionary.to_pylist()
