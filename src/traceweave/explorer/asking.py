"""Questions to the run: SQL of this package by its name, which may be taken back.

The files of `queries/` hold one query after each line `-- query: NAME`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from importlib import resources
from threading import Event, Lock
from typing import Any, TypeVar

import duckdb
import pyarrow as pa

from traceweave.errors import TraceweaveError
from traceweave.interrupts import GivenUpError, given_up_when
from traceweave.store.database import interrupt

T = TypeVar("T")

_LOOK_S = 0.1

_PARAMETER = re.compile(r"\$(\w+)")
_QUERY = re.compile(r"^-- query: (\w+)\n(.*?)(?=^-- query: |\Z)", re.MULTILINE | re.DOTALL)


class TakenBackError(Exception):
    """Nobody waits for the answer any more."""


class Asking:
    """One question, on a connection of its own: what it needs may take several queries."""

    def __init__(self, con: duckdb.DuckDBPyConnection) -> None:
        self._con = con
        self._over = Event()

    @contextmanager
    def turn(self, lock: Lock) -> Iterator[None]:
        """Hold a lock that others hold for long. Raises TakenBackError instead of waiting on."""
        while not lock.acquire(timeout=_LOOK_S):
            self.go_on()
        try:
            yield
        finally:
            lock.release()

    def go_on(self) -> None:
        """Raise TakenBackError if nobody waits for the answer any more."""
        if self._over.is_set():
            raise TakenBackError

    def table(self, query: str, **params: object) -> pa.Table:
        """Return the rows of a query of `queries/`, given those of the parameters that it names.

        Raises TakenBackError, and what DuckDB raises.
        """
        sql = text(query)
        given = named(sql, params)
        return self._unless_over(lambda: self._con.sql(sql, params=given).to_arrow_table())

    def do(self, query: str, **params: object) -> None:
        """Run a statement as `table` does, for what it changes."""
        sql = text(query)
        given = named(sql, params)
        self._unless_over(lambda: self._con.execute(sql, given))

    def rows(self, query: str, **params: object) -> list[dict[str, Any]]:
        """Return the rows of a query as dictionaries."""
        return self.table(query, **params).to_pylist()  # type: ignore[no-any-return]

    def compute(self, work: Callable[[duckdb.DuckDBPyConnection], T]) -> T:
        """Return what `work` does with the connection."""
        return self._unless_over(lambda: work(self._con))

    def _unless_over(self, ask: Callable[[], T]) -> T:
        self.go_on()
        try:
            with given_up_when(self._over):
                return ask()
        except (duckdb.Error, TraceweaveError, GivenUpError) as error:
            if self._over.is_set():
                raise TakenBackError from error
            raise

    def take_back(self) -> None:
        """Interrupt what runs, and let nothing more begin."""
        self._over.set()
        interrupt(self._con)


@contextmanager
def making_anew(
    con: duckdb.DuckDBPyConnection, table: str, rank: int | None = None
) -> Iterator[None]:
    """Fill a table that is derived from the run, its rows of one rank or all, in one transaction:
    what a request has made that was then taken back goes first.
    """
    con.begin()
    try:
        con.execute(f"DELETE FROM memory.explorer.{table} WHERE $1 IS NULL OR rank = $1", [rank])
        yield
        con.commit()
    except BaseException:
        with suppress(duckdb.Error):  # which has ended the transaction itself
            con.rollback()
        raise


def named(sql: str, params: dict[str, object]) -> dict[str, object]:
    """Return those of the parameters that a query names."""
    used = set(_PARAMETER.findall(sql))
    return {name: value for name, value in params.items() if name in used}


@cache
def queries() -> dict[str, str]:
    """Return the SQL of all queries by name."""
    folder = resources.files(__package__).joinpath("queries")
    texts = (file.read_text(encoding="utf-8") for file in folder.iterdir())
    return {name: sql for of_file in texts for name, sql in _QUERY.findall(of_file)}


def text(query: str) -> str:
    """Return the SQL of a query."""
    return queries()[query]
