"""The quick way to read a table of an export: ADBC's SQLite driver, which writes Arrow in C.

It takes the types of a table from its first rows and gives up on a value that does not fit, so it
serves exports as nsys writes them; `sqlite_reader` goes on by itself where this one stops. Measured
on a million kernels (22 columns) and ranges (18): 2.5 and 2.3 s of one core, sqlite3 7.4 and 4.9 s,
and it lets other threads run meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterator

import adbc_driver_manager
import adbc_driver_sqlite
import pyarrow as pa

from traceweave.sources.nsys.export import repaired

ROWS_PER_BATCH = 65_536

FastReaderError = (adbc_driver_manager.Error, pa.ArrowInvalid, OSError)
"""What reading may raise (OSError: from the middle of the rows); rows yielded before are good."""

_SAMPLE = {pa.int64(): "0", pa.float64(): "0.5", pa.string(): "'x'", pa.binary(): "x'00'"}


def read_fast(uri: str, select: str, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield the rows of `select`, whose columns must be those of `schema`.

    Raises one of FastReaderError where a value has another type than its column or a page is
    damaged.
    """
    # a first row of known types decides the types; without it a column of NULLs would
    sample = ", ".join(_SAMPLE[t] for t in schema.types)
    # not through its module dbapi, which imports pandas: half a second
    with (
        adbc_driver_sqlite.connect(uri) as database,
        adbc_driver_manager.AdbcConnection(database) as con,
        adbc_driver_manager.AdbcStatement(con) as statement,
    ):
        statement.set_options(**{"adbc.sqlite.query.batch_rows": str(ROWS_PER_BATCH)})
        statement.set_sql_query(f"SELECT {sample} UNION ALL {select}")
        stream, _ = statement.execute_query()
        with pa.RecordBatchReader._import_from_c(stream.address) as reader:
            is_first = True
            for batch in reader:
                rows = batch.slice(1) if is_first else batch
                is_first = False
                if rows.schema.types != schema.types:
                    raise pa.ArrowInvalid("a column holds values of several types")
                yield pa.RecordBatch.from_arrays([repaired(c) for c in rows.columns], schema=schema)
