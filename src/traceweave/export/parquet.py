"""Every public relation as one Parquet file."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from traceweave.errors import InputError, QueryError
from traceweave.outputs import whole_folder
from traceweave.store.database import first_line
from traceweave.store.schema import public_relations
from traceweave.targets import FileKind, marked

_ROWS = 131_072


def write_parquet(con: duckdb.DuckDBPyConnection, folder: Path) -> tuple[Path, ...]:
    """Write folder/RELATION.parquet for every public relation and return the files.

    Goes batch by batch through Arrow, because a read-only connection may not write files itself.
    The files appear when all are complete; those of the same names are replaced. Raises
    InputError if they cannot be written, QueryError if the database cannot be read.
    """
    names = [f"{relation.name}.parquet" for relation in public_relations()]
    try:
        with whole_folder(folder, FileKind.PARQUET) as draft:
            for name in names:
                _write(con, draft / name)
    except pa.ArrowException as error:
        raise InputError(f"{folder}: cannot be written: {first_line(error)}") from error
    except duckdb.Error as error:
        raise QueryError(f"the database cannot be exported: {first_line(error)}") from error
    return tuple(folder / name for name in names)


def _write(con: duckdb.DuckDBPyConnection, file: Path) -> None:
    reader = con.sql(f"SELECT * FROM {file.stem}").to_arrow_reader(_ROWS)
    with (
        file.open("wb") as stream,
        pq.ParquetWriter(stream, marked(reader.schema), compression="zstd") as writer,
    ):
        for batch in reader:
            writer.write_batch(batch)
