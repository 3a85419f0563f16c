"""Empty databases, for the hundreds of tests that begin with one."""

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

import duckdb


@contextmanager
def empty_database() -> Iterator[duckdb.DuckDBPyConnection]:
    """Yield a connection to an in-memory database of its own.

    It is one of an instance that is started once: that takes twice as long as all its tables.
    One thread answers, as in all small runs."""
    name = f"run_{secrets.token_hex(4)}"
    try:
        with _instance().cursor() as con:
            con.execute(f"ATTACH ':memory:' AS {name}")
            con.execute(f"USE {name}")
            yield con
    finally:  # also when a test fails: the next one of this process would see its tables
        _instance().execute(f"DETACH {name}")


@cache
def _instance() -> duckdb.DuckDBPyConnection:
    return duckdb.connect(config={"threads": 1})
