"""Large tables as Parquet: written per batch of ranks, read through views of the same names."""

from __future__ import annotations

import hashlib
import os
import secrets
import threading
from collections.abc import Collection, Sequence

import duckdb

from traceweave.places import Place
from traceweave.store.elsewhere import make_readable, path_in_duckdb
from traceweave.store.manifest import Part, is_shard_name
from traceweave.store.schema import source_tables

LARGE = {
    "gpu_ops": "rank, start_local_ns, op_id",
    "host_ops": "rank, start_local_ns, op_id",
    "flows": "rank, from_op_id, to_op_id, kind",
    "memory_events": "rank, at_local_ns, op_id",
    "counters": "rank, at_local_ns, op_id",
    "other_events": "rank, start_local_ns, op_id",
}
"""The base tables that grow with the events, and the order of their rows in a shard."""

GATHERED = ("call_kernels", "compute_streams")
"""What weaving needs of them (gathered.sql): tables in the database of a run folder."""

FOLDER = "run_folder"
"""The DuckDB variable that tells where shards are; without it, they are looked for in the current
folder.
"""

_BLOCK_BYTES = 1 << 20


def small_tables(con: duckdb.DuckDBPyConnection) -> list[str]:
    """Return the base tables of `con` that stay in the database, of those that loaders fill."""
    large = {f"base.{table}" for table in LARGE}
    return [table for table in source_tables(con) if table not in large]


def prepare(con: duckdb.DuckDBPyConnection) -> None:
    """Make the database of a run folder of a new one: what is gathered from large tables becomes
    tables.
    """
    for name in GATHERED:
        columns = _columns(con, name)
        _drop(con, name)
        con.execute(f"CREATE TABLE base.{name} ({columns})")


def write_shards(
    con: duckdb.DuckDBPyConnection, folder: Place, batch: int, sources: Sequence[int]
) -> list[Part]:
    """Write the rows that large tables of `con` have, a file each, and return what was written.

    No two writers use the same name, so what one leaves that is killed is in nobody's way.
    """
    name = _name(batch)
    written = []
    for table, order in LARGE.items():
        if con.execute(f"SELECT 1 FROM base.{table} LIMIT 1").fetchall():
            rows = f"FROM base.{table} ORDER BY {order}"
            size, digest = _write(con, rows, folder / table / name)
            written.append(Part(f"{table}/{name}", size, digest, tuple(sources)))
    return written


def without(
    con: duckdb.DuckDBPyConnection, folder: Place, shard: Part, left_out: Collection[int]
) -> list[Part]:
    """Write a shard anew without the rows of some files; nothing if there are no others."""
    kept = tuple(source for source in shard.sources if source not in left_out)
    if not kept:
        return []
    assert shard.table is not None
    path = f"{shard.table}/{_name(shard.batch)}"
    listed = ", ".join(map(str, kept))
    rows = (
        f"FROM read_parquet({_in_folder(shard.path)}) WHERE source_id IN ({listed})"
        f" ORDER BY {LARGE[shard.table]}"
    )
    size, digest = _write(con, rows, folder / path)
    return [Part(path, size, digest, kept)]


def numbered_on(
    con: duckdb.DuckDBPyConnection,
    folder: Place,
    shard: Part,
    numbered: Sequence[tuple[int, int, int]],
) -> Part:
    """Write a shard anew with other numbers of steps, if it has any; `numbered` has rank, source_id
    and what to add."""
    assert shard.table is not None
    rows = f"FROM read_parquet({_in_folder(shard.path)})"
    if "step" not in con.sql(rows).columns:
        return shard
    added = ", ".join(map(str, numbered))
    size, digest = _write(
        con,
        f"SELECT t.* REPLACE (t.step + coalesce(n.added, 0) AS step) FROM ({rows}) AS t"
        f" LEFT JOIN (VALUES {added}) AS n (rank, source_id, added)"
        " ON n.rank = t.rank AND n.source_id = t.source_id"
        f" ORDER BY {', '.join(f't.{column}' for column in LARGE[shard.table].split(', '))}",
        folder / (path := f"{shard.table}/{_name(shard.batch)}"),
    )
    return Part(path, size, digest, shard.sources)


def show_shards(con: duckdb.DuckDBPyConnection, shards: Sequence[Part]) -> None:
    """Put views over the shards in place of the large tables of `con`; paths are relative."""
    for table in LARGE:
        paths = [shard.path for shard in shards if shard.table == table]
        columns = _columns(con, table)
        _drop(con, table)
        if paths:
            files = ", ".join(map(_in_folder, paths))
            con.execute(f"CREATE VIEW base.{table} AS FROM read_parquet([{files}])")
        else:
            con.execute(f"CREATE TABLE base.{table} ({columns})")


def find_shards(con: duckdb.DuckDBPyConnection, folder: Place) -> None:
    """Tell `con` where the shards are."""
    if folder.local is None:
        make_readable(con, folder)
    con.execute(f"SET VARIABLE {FOLDER} = ?", [path_in_duckdb(folder)])


def _in_folder(path: str) -> str:
    """Return SQL for the path of a shard."""
    return f"coalesce(getvariable('{FOLDER}') || '/', '') || '{path}'"


def _columns(con: duckdb.DuckDBPyConnection, name: str) -> str:
    """Return the columns of a base table or view as they are declared."""
    described = con.execute(f"DESCRIBE base.{name}").fetchall()
    return ", ".join(f'"{column}" {type_}' for column, type_, *_ in described)


def _drop(con: duckdb.DuckDBPyConnection, name: str) -> None:
    views = con.execute(
        "SELECT 1 FROM duckdb_views() WHERE database_name = current_database()"
        " AND schema_name = 'base' AND view_name = ?",
        [name],
    ).fetchall()
    con.execute(f"DROP {'VIEW' if views else 'TABLE'} base.{name}")


def is_shard(path: str) -> bool:
    """Tell whether a file of a folder is named like a shard."""
    return is_shard_name(path) and path.partition("/")[0] in LARGE


def _name(batch: int) -> str:
    return f"{batch:04d}-{secrets.token_hex(4)}.parquet"


def _write(con: duckdb.DuckDBPyConnection, rows: str, place: Place) -> tuple[int, str]:
    """Write rows as Parquet; return the size in bytes and the hash of what was written.

    DuckDB writes into a pipe, so that its files can go anywhere and nothing is read again.
    """
    readable, writable = os.pipe()
    digest = hashlib.sha256()
    sizes: list[int] = []
    failures: list[BaseException] = []

    def drain() -> None:
        try:
            with place.writing() as stream:
                while block := os.read(readable, _BLOCK_BYTES):
                    stream.write(block)
                    digest.update(block)
                    sizes.append(len(block))
        except BaseException as error:  # handed over to the thread that writes
            failures.append(error)
        finally:
            os.close(readable)  # or DuckDB would write into it for ever

    drainer = threading.Thread(target=drain, name="shard")
    try:
        drainer.start()  # an interrupt may come while it starts, too
        con.execute(f"COPY ({rows}) TO '/dev/fd/{writable}' (FORMAT parquet, COMPRESSION zstd)")
    except duckdb.Error:
        if not failures:  # else DuckDB only saw the pipe close
            raise
    finally:
        os.close(writable)
        if drainer.ident is None:  # there was no thread for it
            os.close(readable)
        else:
            drainer.join()
    if failures:
        raise failures[0]
    return sum(sizes), digest.hexdigest()
