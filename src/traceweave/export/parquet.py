"""Every public relation as one Parquet file."""

from __future__ import annotations

import os
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from traceweave.errors import InputError, QueryError
from traceweave.store.database import first_line
from traceweave.store.schema import public_relations

_ROWS = 131_072


def write_parquet(con: duckdb.DuckDBPyConnection, folder: Path) -> tuple[Path, ...]:
    """Write folder/RELATION.parquet for every public relation and return the files.

    Goes batch by batch through Arrow, because a read-only connection may not write files itself.
    A file appears when it is complete; one of the same name is replaced. Raises InputError.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return tuple(_write(con, relation.name, folder) for relation in public_relations())
    except (OSError, pa.ArrowException) as error:
        raise InputError(f"{folder}: cannot be written: {first_line(error)}") from error
    except duckdb.Error as error:
        raise QueryError(f"the database cannot be exported: {first_line(error)}") from error


def _write(con: duckdb.DuckDBPyConnection, name: str, folder: Path) -> Path:
    target, draft = folder / f"{name}.parquet", folder / f".{name}.parquet.tmp"
    try:
        reader = con.sql(f"SELECT * FROM {name}").to_arrow_reader(_ROWS)
        with pq.ParquetWriter(draft, reader.schema, compression="zstd") as writer:
            for batch in reader:
                writer.write_batch(batch)
        os.replace(draft, target)
    finally:
        draft.unlink(missing_ok=True)
    return target
