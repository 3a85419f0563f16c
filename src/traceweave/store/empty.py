"""The empty tables of a new run, copied from a database that is kept beside the bytecode.

DuckDB takes 0.1 s to create the tables, the views and 350 comments, a tenth of what ingesting 35 MB
takes; to copy them takes a tenth of that. As with the bytecode of a module, who first needs such a
database writes it, if Python may write there, and another version of the tables has another.
"""

from __future__ import annotations

import hashlib
import os
import sys
from contextlib import suppress
from importlib.util import cache_from_source
from pathlib import Path

import duckdb

from traceweave.interrupts import was_interrupted
from traceweave.outputs import beside, remove, remove_orphans
from traceweave.store import schema
from traceweave.store.elsewhere import in_utf8

_EMPTY = "tw_empty"


def create_tables(con: duckdb.DuckDBPyConnection) -> None:
    """Do what schema.create_tables does in the database that `con` uses, by copying if possible."""
    if not _copied(con):
        con.begin()
        schema.create_tables(con)
        con.commit()


def _copied(con: duckdb.DuckDBPyConnection) -> bool:
    """Copy a database with nothing but the tables, and tell whether that could be done."""
    file = Path(cache_from_source(__file__)).with_name(f"empty.{_digest()}.duckdb")
    ((name,),) = con.execute("SELECT current_database()").fetchall()
    quoted = name.replace('"', '""')
    try:
        if not file.exists() and not sys.dont_write_bytecode:
            _keep(file)
        if not file.exists():
            return False
        con.execute(f"ATTACH ? AS {_EMPTY} (READ_ONLY)", [in_utf8(file)])
        try:
            con.execute(f"SELECT 1 FROM {_EMPTY}.meta LIMIT 1")  # fails in one without tables
            con.execute(f'COPY FROM DATABASE {_EMPTY} TO "{quoted}"')
        finally:
            con.execute(f"DETACH {_EMPTY}")
    except (OSError, duckdb.Error) as error:
        if was_interrupted(error):
            raise
        with suppress(OSError):  # it may be damaged: who comes next writes another
            file.unlink()
        return False
    return True


def _digest() -> str:
    """Return what tells the tables of this version, and of this DuckDB, from those of another."""
    found = hashlib.sha256(duckdb.__version__.encode())
    for source in sorted(Path(__file__).parent.rglob("*.sql")):
        found.update(source.read_bytes())
    found.update(Path(schema.__file__).read_bytes())
    return found.hexdigest()[:16]


def _keep(file: Path) -> None:
    """Write the database, in place of those that other versions kept."""
    for old in file.parent.glob("empty.*.duckdb"):
        old.unlink()
        remove_orphans(old)
    part = beside(file)
    try:
        with duckdb.connect(in_utf8(part)) as con:
            schema.create_tables(con)
        with part.open("rb") as written:
            os.fsync(written.fileno())
        os.replace(part, file)
    finally:
        remove(part)
