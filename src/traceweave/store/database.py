"""Opening database files safely."""

from __future__ import annotations

import re
from pathlib import Path

import duckdb

from traceweave.errors import DatabaseError
from traceweave.store.schema import SCHEMA_VERSION


class InUseError(DatabaseError):
    """Another process writes the file."""


def open_database(path: str | Path, *, read_only: bool = True) -> duckdb.DuckDBPyConnection:
    """Open a traceweave database.

    A read-only connection is also cut off from everything else: no other file, no extension, no
    change of settings. Temporary macros and tables still work. Raises DatabaseError.
    """
    path = Path(path)
    if path.is_dir():
        raise DatabaseError(
            f"{path}: is a folder; make a database of the traces in it with 'traceweave ingest"
            f" {path} -o run.duckdb', and name that"
        )
    if not path.is_file():
        raise DatabaseError(
            f"{path}: does not exist; make a database with 'traceweave ingest TRACES -o {path}'"
        )
    con = connect(path, read_only=read_only)
    try:
        _check_version(con, path)
        if read_only:
            # a function of an extension would otherwise have DuckDB look for it in the network
            con.execute("SET autoinstall_known_extensions = false")
            con.execute("SET autoload_known_extensions = false")
            con.execute("SET enable_external_access = false")
            con.execute("SET lock_configuration = true")
    except BaseException:
        con.close()
        raise
    return con


def is_read_only(con: duckdb.DuckDBPyConnection) -> bool:
    """Tell whether a connection's database cannot change while it is open."""
    rows = con.execute(
        "SELECT readonly FROM duckdb_databases() WHERE database_name = current_database()"
    ).fetchall()
    return rows == [(True,)]


def was_interrupted(error: BaseException | None) -> bool:
    """Tell whether an error is what DuckDB makes of Ctrl-C, or came while it was cleaned up after.

    Its Python package raises a RuntimeError in place of KeyboardInterrupt.
    """
    while error is not None:
        if isinstance(error, KeyboardInterrupt) or str(error) == "Query interrupted":
            return True
        error = error.__context__
    return False


def connect(path: Path, *, read_only: bool) -> duckdb.DuckDBPyConnection:
    """Open any DuckDB file. Raises InUseError or another DatabaseError with what to do."""
    try:
        return _attach(path) if read_only else duckdb.connect(path)
    except duckdb.IOException as error:
        text = str(error)
        if "lock" in text.lower():
            raise InUseError(
                f"{path}: another program has it open for writing; close it there first"
            ) from error
        if "not a valid DuckDB" in text or "newer version" in text or "older version" in text:
            raise DatabaseError(
                f"{path}: not a DuckDB database that DuckDB {duckdb.__version__} can read;"
                " make one with 'traceweave ingest'"
            ) from error
        raise DatabaseError(f"{path}: cannot be opened: {first_line(error)}") from error
    except duckdb.CatalogException as error:  # a text file that DuckDB could query by itself
        raise DatabaseError(
            f"{path}: not a database; if it is a trace, make one with 'traceweave ingest {path}'"
        ) from error
    except duckdb.Error as error:
        raise DatabaseError(f"{path}: cannot be opened: {first_line(error)}") from error


def _attach(path: Path) -> duckdb.DuckDBPyConnection:
    """Open a file read-only in a DuckDB instance of its own.

    `duckdb.connect(path)` would share one instance among all connections of this process to the
    path: settings locked here would be locked for the user's own connections, and after a new
    ingest the path would still lead to the old file as long as one of them is open.
    """
    con = duckdb.connect()
    try:
        hide_progress_bar(con)
        # DuckDB compares every pair of rows where it expects few; it can be wrong by millions
        con.execute("SET asof_loop_join_threshold = 0")
        con.execute("SET temp_directory = ?", [f"{path}.tmp"])
        con.execute("ATTACH ? AS run (READ_ONLY)", [str(path)])
        con.execute("USE run")
    except BaseException:
        con.close()
        raise
    return con


def hide_progress_bar(con: duckdb.DuckDBPyConnection) -> None:
    """Switch DuckDB's own progress bar off."""
    # in a notebook without ipywidgets it is off already, and DuckDB refuses the setting
    if con.execute("SELECT current_setting('enable_progress_bar')").fetchone() == (True,):
        con.execute("SET enable_progress_bar = false")


def _check_version(con: duckdb.DuckDBPyConnection, path: Path) -> None:
    try:
        version = schema_version(con)
    except duckdb.Error as error:
        raise DatabaseError(
            f"{path}: is damaged ({first_line(error)}); ingest the traces again"
        ) from error
    if version is None:
        raise DatabaseError(
            f"{path}: a DuckDB database, but not one of traceweave; make one with"
            " 'traceweave ingest'"
        )
    if version != str(SCHEMA_VERSION):
        newer = version.isdecimal() and int(version) > SCHEMA_VERSION
        raise DatabaseError(
            f"{path}: written by {'a newer' if newer else 'another'} traceweave (schema version"
            f" {version}, this one reads {SCHEMA_VERSION}); ingest the traces again"
            + (", or upgrade traceweave" if newer else "")
        )


def schema_version(con: duckdb.DuckDBPyConnection) -> str | None:
    """Return the version of the tables; None if the database is not one of traceweave."""
    try:
        row = con.execute("SELECT value FROM meta WHERE name = 'schema_version'").fetchone()
    except (duckdb.CatalogException, duckdb.BinderException):
        return None
    return None if row is None else str(row[0])


def first_line(error: BaseException) -> str:
    """Return what `error` says, on one line and without DuckDB's 'Invalid Input Error:' prefix."""
    lines = [line.strip() for line in str(error).splitlines()]
    text = lines[0] if lines and lines[0] else type(error).__name__
    return re.sub(r"^[A-Z][A-Za-z ]+ Error: ", "", text)
