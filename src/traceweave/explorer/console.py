"""The console: SQL on the run, as `traceweave query` has it, read-only and cut off from all files.

Every page has a connection of its own, in a DuckDB instance of its own, so that what a query makes
of temporary tables and analyses is there for the next one, and nothing of the explorer is.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Lock
from typing import Any

import duckdb
import orjson
import pyarrow as pa

from traceweave.errors import QueryError
from traceweave.explorer.asking import TakenBackError
from traceweave.explorer.wire import exact
from traceweave.records import batches, first_rows, plain, rows
from traceweave.run import Run
from traceweave.store.database import AGAIN_S, interrupt, open_database, shared_mib, time_limit

MOST_ROWS = 5_000
MOST_BYTES = 4_000_000
"""Of the rows of one answer as JSON."""

MOST_PAGES = 8
"""Pages whose consoles are kept; of those that nobody asks the one that was not used for longest
is closed."""

TIME_LIMIT_S = 120

PATIENCE_S = 10
"""So long a query that is interrupted may take to end."""

Answer = dict[str, Any]


@dataclass
class _Console:
    """The console of one page."""

    run: Run[Any]
    lock: Lock = field(default_factory=Lock)
    questions: int = 0
    """That are asked of it now, or wait for it."""

    def close(self) -> None:
        """Interrupt what it is asked, and close it when that has ended, or leave it after a while:
        DuckDB makes one value in one go, however large.
        """
        until = time.monotonic() + PATIENCE_S
        while not self.lock.acquire(timeout=AGAIN_S):
            interrupt(self.run.con)
            if time.monotonic() > until:
                return
        self.run.close()
        self.lock.release()


class Question:
    """One query of a console, which may be taken back."""

    def __init__(self, consoles: Consoles, page: str, sql: str) -> None:
        self._consoles = consoles
        self._page = page
        self._sql = sql
        self._over = Event()
        self._asked: _Console | None = None

    def answer(self) -> Answer:
        """Return columns and rows, and whether there are more; raise QueryError, TakenBackError."""
        with self._consoles.of(self._page) as console, console.lock:
            self._asked = console
            try:
                if self._over.is_set():
                    raise TakenBackError
                with time_limit(console.run.con, TIME_LIMIT_S):
                    return _answer(console.run.stream(self._sql))
            except (QueryError, duckdb.Error) as error:
                if self._over.is_set():
                    raise TakenBackError from error
                raise
            finally:
                self._asked = None

    def take_back(self) -> None:
        """Interrupt it, if it runs, and let it not begin."""
        self._over.set()
        if (console := self._asked) is not None:
            interrupt(console.run.con)


class Consoles:
    """The consoles of the pages that are open."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._open: OrderedDict[str, _Console] = OrderedDict()
        self._lock = Lock()

    @contextmanager
    def of(self, page: str) -> Iterator[_Console]:
        """Yield the console of a page, by the name that it gives itself; it stays meanwhile."""
        with self._lock:
            if page not in self._open:
                con = open_database(self._path, most_mib=shared_mib())
                self._open[page] = _Console(Run(self._path, con))
            console = self._open[page]
            console.questions += 1
            self._open.move_to_end(page)
            left = self._take_unused()
        for one in left:
            one.close()
        try:
            yield console
        finally:
            with self._lock:
                console.questions -= 1

    def _take_unused(self) -> list[_Console]:
        """Take out consoles that nobody asks, as many as there are too many."""
        unused = [page for page, console in self._open.items() if not console.questions]
        most = max(len(self._open) - MOST_PAGES, 0)
        return [self._open.pop(page) for page in unused[:most]]

    def close(self) -> None:
        """Close all of them."""
        with self._lock:
            left = list(self._open.values())
            self._open.clear()
        for one in left:
            one.close()


def _answer(reader: pa.RecordBatchReader) -> Answer:
    began = time.perf_counter()
    found, more = first_rows(
        _rows(reader), MOST_ROWS, MOST_BYTES, lambda row: len(orjson.dumps(row))
    )
    columns = [{"name": one.name, "number": _is_number(one.type)} for one in reader.schema]
    return {
        "columns": columns,
        "rows": found,
        "more": more,
        "seconds": time.perf_counter() - began,
    }


def _rows(reader: pa.RecordBatchReader) -> Iterator[list[Any]]:
    for batch in batches(reader):
        for row in rows(batch):
            yield [_exact(value) for value in row]


def _is_number(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    )


def _exact(value: Any) -> Any:
    """Return a value that JSON can hold and JavaScript read again as it is."""
    if value is None or isinstance(value, bool | str | float):
        return value
    if isinstance(value, int):
        return exact(value)
    found = plain(value)
    return (
        found if isinstance(found, int | float | str) else orjson.dumps(found, default=str).decode()
    )
