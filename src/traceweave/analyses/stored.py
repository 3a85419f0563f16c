"""Answers that are kept in the database of a run: what `ingest` has worked out for its verdict, and
all that it started from, so that who asks later only reads it.

They hold for one state of the database and one version of traceweave. DuckDB counts the states of a
file, one per checkpoint; the stamp beside the answers says at which count, and by which text of the
analyses, they were made. In any other they are passed over, and what is asked is computed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Container, Iterable
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable
from weakref import WeakKeyDictionary

import duckdb
import pyarrow as pa

from traceweave._version import __version__
from traceweave.analyses.common import forget
from traceweave.analyses.statements import Statement
from traceweave.store.database import asked_of

MOST_ROWS = 5_000
"""Of one answer: larger ones are computed when they are asked for."""

_ROOMS = ("analyses", "replay", "vocabulary", "store")
"""Whose files make answers."""

_HEADERS = (4096, 8192)
"""Where a file of DuckDB has its two headers, which are written in turns; each begins with a
checksum and the count of its state."""

_COMPUTED = """
SELECT table_name FROM duckdb_tables()
WHERE temporary AND starts_with(table_name, 'tw_rows_') AND estimated_size <= ?
"""
_IS_THERE = """
SELECT 1 FROM duckdb_tables()
WHERE database_name = current_database() AND schema_name = 'derived' AND table_name = 'answers'
    AND NOT internal
"""
_ROWS = "SELECT rows FROM derived.answers WHERE name = ?"
_PATH = "SELECT path FROM duckdb_databases() WHERE database_name = current_database()"

_known: WeakKeyDictionary[duckdb.DuckDBPyConnection, tuple[int, frozenset[str]]] = (
    WeakKeyDictionary()
)
"""What is stored in the database that each connection was asked of last."""


def stored(con: duckdb.DuckDBPyConnection) -> frozenset[str]:
    """Return the names of the tables whose rows the database behind `con` keeps, if they hold."""
    number, read_only = asked_of(con)
    if not read_only:
        return frozenset()
    if con not in _known or _known[con][0] != number:
        _known[con] = number, frozenset(_names(con))
    return _known[con][1]


def keeps_answers(con: duckdb.DuckDBPyConnection) -> bool:
    """Tell whether the database behind `con` keeps answers, be they of another state of it."""
    return bool(con.execute(_IS_THERE).fetchall())


def _names(con: duckdb.DuckDBPyConnection) -> Iterable[str]:
    if not keeps_answers(con):
        return ()
    state = _state(con)
    stamp = _stamp("%" if state is None else state)
    found = con.execute("SELECT 1 FROM derived.answers WHERE name LIKE ?", [stamp])
    if not found.fetchall():
        return ()
    return {name for (name,) in con.execute("SELECT name FROM derived.answers").fetchall()}


def pass_over(con: duckdb.DuckDBPyConnection) -> None:
    """Have nothing of what the database behind `con` keeps hold: it may have changed in memory."""
    _known[con] = asked_of(con)[0], frozenset()


def restore(
    con: duckdb.DuckDBPyConnection, statement: Statement, name: str, names: Container[str]
) -> bool:
    """Create the temporary table `name` of the rows of a statement, if it is among the `names` of
    those that are stored.

    Returns whether they are: somebody else may have written them, and not as here.
    """
    if name not in names:
        return False
    try:
        ((rows,),) = con.execute(_ROWS, [name]).fetchall()
        table = pa.ipc.open_stream(rows or b"").read_all()
        table.validate(full=True)
        con.from_arrow(table).query(
            "answer", f"CREATE TEMP TABLE {name} AS SELECT {statement.typed()} FROM answer"
        )
    except (duckdb.Error, pa.ArrowException, TypeError, ValueError):
        return False
    return True


def store(con: duckdb.DuckDBPyConnection) -> None:
    """Keep what was computed in `con`, which can write to its database, in place of what is kept
    there, and forget it in `con`.
    """
    names = [name for (name,) in con.execute(_COMPUTED, [MOST_ROWS]).fetchall()]
    answers = [(name, _as_bytes(con.table(name).to_arrow_table())) for name in names]
    forget(con)
    con.execute("DROP SCHEMA IF EXISTS derived CASCADE")
    con.execute("CREATE SCHEMA derived")
    con.execute("CREATE TABLE derived.answers (name VARCHAR, rows BLOB)")
    con.executemany("INSERT INTO derived.answers VALUES (?, ?)", answers)
    con.execute("CHECKPOINT")
    state = _state(con)
    con.execute(
        "INSERT INTO derived.answers VALUES (?, NULL)",
        [_stamp("elsewhere" if state is None else state + 1)],
    )
    con.execute("CHECKPOINT")


def _as_bytes(rows: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.ipc.new_stream(sink, rows.schema, options=options) as writer:
        writer.write_table(rows)
    return bytes(sink.getvalue())


def _state(con: duckdb.DuckDBPyConnection) -> int | None:
    """Return how often the file of a database was written; None if it lies elsewhere, where none is
    changed in place.
    """
    ((path,),) = con.execute(_PATH).fetchall()
    try:
        with open(str(path).encode(), "rb") as file:  # as DuckDB writes it, whatever the locale
            head = file.read(_HEADERS[1] + 16)
    except OSError:
        return None
    return max(int.from_bytes(head[at + 8 : at + 16], "little") for at in _HEADERS)


def _stamp(state: int | str) -> str:
    return f"of {_text()} at {state}"


@cache
def _text() -> str:
    """Return a digest of all that makes answers."""
    digest = hashlib.sha256(__version__.encode())
    for room in _ROOMS:
        for file in _files(resources.files("traceweave").joinpath(room)):
            digest.update(file.read_bytes())
    return digest.hexdigest()


def _files(folder: Traversable) -> Iterable[Traversable]:
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if not entry.is_dir():
            yield entry
        elif entry.name != "__pycache__":
            yield from _files(entry)
