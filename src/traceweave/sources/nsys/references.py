"""Reading what events refer to: strings, metric names, communicators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import duckdb
import pyarrow as pa

from traceweave.sources.nsys.event_tables import EventTable
from traceweave.sources.nsys.export import Export
from traceweave.sources.nsys.processes import mpi_ranks
from traceweave.store.rows import insert_rows

_TABLES = """
CREATE OR REPLACE TEMP TABLE nsys_strings (id BIGINT, value VARCHAR);
CREATE OR REPLACE TEMP TABLE nsys_gpu_metric_names (typeId BIGINT, metricId BIGINT, name VARCHAR);
CREATE OR REPLACE TEMP TABLE nsys_network_metric_names (
    metricsListId BIGINT, metricsIdx BIGINT, name VARCHAR, unit VARCHAR
);
CREATE OR REPLACE TEMP TABLE nsys_mpi_ranks (process BIGINT, rank INTEGER);
CREATE OR REPLACE TEMP TABLE nsys_mpi_communicators (
    mpi_rank INTEGER, handle BIGINT, created BIGINT, comm VARCHAR, comm_rank INTEGER, size INTEGER
);
"""

_STRINGS = """
INSERT INTO nsys_strings BY NAME
SELECT id, any_value(value) AS value FROM batch SEMI JOIN nsys_string_ids USING (id) GROUP BY id
"""
_GPU_METRICS = """
INSERT INTO nsys_gpu_metric_names BY NAME
SELECT DISTINCT ON (typeId, metricId) * RENAME (metricName AS name) FROM batch
"""
_NETWORK_METRICS = """
INSERT INTO nsys_network_metric_names BY NAME
SELECT DISTINCT ON (metricsListId, metricsIdx) * FROM batch
"""
# A handle means something in its process only; the root's rank and the root's number for it name a
# communicator for the run.
_COMMUNICATORS = """
INSERT INTO nsys_mpi_communicators BY NAME
SELECT
    rank AS mpi_rank, commHandle AS handle, timestamp AS created,
    CASE WHEN parentHandle = 0 THEN 'MPI_COMM_WORLD'
        ELSE format('MPI communicator {}.{}', groupRoot, groupRootUid) END AS comm,
    localRank AS comm_rank, size
FROM batch
"""
_READ: Mapping[str, tuple[str, str, str]] = {
    "StringIds": ("id", "value", _STRINGS),
    "TARGET_INFO_GPU_METRICS": ("typeId metricId", "metricName", _GPU_METRICS),
    "TARGET_INFO_NETWORK_METRICS": ("metricsListId metricsIdx", "name unit", _NETWORK_METRICS),
    "MPI_COMMUNICATORS": (
        "rank commHandle timestamp parentHandle localRank size groupRoot groupRootUid",
        "",
        _COMMUNICATORS,
    ),
}
"""By table: the columns that are numbers, those that are texts, and where they go."""


def read_references(
    con: duckdb.DuckDBPyConnection, export: Export, filled: Sequence[EventTable]
) -> None:
    """Fill temporary tables with what the events of the `filled` tables refer to.

    Of strings no others are read: they may be output, logs or secrets.
    """
    con.execute(_TABLES)
    wanted = [
        f'SELECT "{column}" AS id FROM {table.judged}'
        for table in filled
        for column in table.string_ids
    ] or ["SELECT NULL::BIGINT AS id"]
    con.execute(f"CREATE OR REPLACE TEMP TABLE nsys_string_ids AS {' UNION '.join(wanted)}")
    ranks = [{"process": p, "rank": rank} for p, rank in mpi_ranks(export).items()]
    insert_rows(con, "nsys_mpi_ranks", ranks)
    for table, (numbers, texts, insert) in _READ.items():
        columns = dict.fromkeys(numbers.split(), pa.int64())
        columns |= dict.fromkeys(texts.split(), pa.string())
        for batch in export.batches(table, columns) if table in export.tables else ():
            con.register("batch", pa.Table.from_batches([batch]))
            con.execute(insert)
            con.unregister("batch")
