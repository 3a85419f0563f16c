"""Moving much into DuckDB piece by piece: one transaction, the next piece made meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

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
