"""Reading what events refer to: strings, processes, the clock, metric names, communicators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import duckdb
import pyarrow as pa

from traceweave.sources.model import Trace
from traceweave.sources.nsys.clock import read_clock
from traceweave.sources.nsys.event_tables import EventTable
from traceweave.sources.nsys.export import Export
from traceweave.sources.nsys.processes import mpi_ranks
from traceweave.store.rows import insert_rows


def read_references(
    con: duckdb.DuckDBPyConnection,
    export: Export,
    trace: Trace,
    source_id: int,
    filled: Sequence[EventTable],
) -> None:
    """Fill temporary tables with what the events of the `filled` tables refer to."""
    reader = _References(con, export, filled)
    reader.read_strings()
    reader.write_session(trace, source_id)
    reader.read_metric_names()
    reader.read_communicators()


class _References:
    def __init__(
        self, con: duckdb.DuckDBPyConnection, export: Export, filled: Sequence[EventTable]
    ) -> None:
        self._con = con
        self._export = export
        self._filled = filled

    def write_session(self, trace: Trace, source_id: int) -> None:
        """Write down the processes and the clock."""
        self._con.execute(
            "CREATE OR REPLACE TEMP TABLE nsys_processes"
            " (process BIGINT, rank INTEGER, world_size INTEGER)"
        )
        if trace.processes:
            insert_rows(self._con, "nsys_processes", (
                {"process": p.key, "rank": p.rank, "world_size": p.world_size}
                for p in trace.processes
            ))  # fmt: skip
        sole = trace.processes[0].key if len(trace.processes) == 1 else None
        self._con.execute(
            "CREATE OR REPLACE TEMP TABLE nsys_session AS SELECT ?::INTEGER AS source_id,"
            " ?::BIGINT AS base_ns, ?::BIGINT AS sole_process, ?::BIGINT AS end_ns",
            [source_id, read_clock(self._export).base_ns, sole, self._last_time()],
        )

    def _last_time(self) -> int | None:
        """Return the last time of any event: where ranges that were never closed are cut."""
        bounds = [
            f'SELECT greatest(max(start), max("end")) AS t FROM {t.staged} WHERE start < {2**62}'
            f' AND coalesce("end", 0) < {2**62}'
            for t in self._filled
            if {"start", "end"} <= t.types.keys()
        ] or ["SELECT NULL::BIGINT AS t"]
        row = self._con.execute(f"SELECT max(t) FROM ({' UNION ALL '.join(bounds)})").fetchone()
        return row[0] if row else None

    def read_strings(self) -> None:
        """Read the strings that events refer to; the rest may be output, logs or secrets."""
        wanted = [
            f'SELECT "{column}" AS id FROM {table.staged}'
            for table in self._filled
            for column in table.string_ids
        ] or ["SELECT NULL::BIGINT AS id"]
        self._con.execute("CREATE OR REPLACE TEMP TABLE nsys_strings (id BIGINT, value VARCHAR)")
        self._con.execute(
            f"CREATE OR REPLACE TEMP TABLE nsys_string_ids AS {' UNION '.join(wanted)}"
        )
        self._copy(
            "StringIds",
            {"id": pa.int64(), "value": pa.string()},
            "INSERT INTO nsys_strings BY NAME SELECT id, any_value(value) AS value FROM batch"
            " SEMI JOIN nsys_string_ids USING (id) GROUP BY id",
        )

    def read_metric_names(self) -> None:
        """Read what sampled metrics are called, and their units."""
        self._con.execute(
            "CREATE OR REPLACE TEMP TABLE nsys_gpu_metric_names"
            " (type_id BIGINT, metric_id BIGINT, name VARCHAR);"
            "CREATE OR REPLACE TEMP TABLE nsys_network_metric_names"
            " (list_id BIGINT, metric_id BIGINT, name VARCHAR, unit VARCHAR)"
        )
        self._copy(
            "TARGET_INFO_GPU_METRICS",
            {"typeId": pa.int64(), "metricId": pa.int64(), "metricName": pa.string()},
            "INSERT INTO nsys_gpu_metric_names BY NAME SELECT DISTINCT ON (typeId, metricId)"
            " typeId AS type_id, metricId AS metric_id, metricName AS name FROM batch",
        )
        self._copy(
            "TARGET_INFO_NETWORK_METRICS",
            {c: pa.int64() for c in ("metricsListId", "metricsIdx")}
            | {c: pa.string() for c in ("name", "unit")},
            "INSERT INTO nsys_network_metric_names BY NAME SELECT DISTINCT ON (metricsListId,"
            " metricsIdx) metricsListId AS list_id, metricsIdx AS metric_id, name, unit FROM batch",
        )

    def read_communicators(self) -> None:
        """Read MPI's communicators. A handle means something in its process only; the root's rank
        and the root's number for it name a communicator for the run."""
        self._con.execute(
            "CREATE OR REPLACE TEMP TABLE nsys_mpi_ranks (process BIGINT, rank INTEGER);"
            "CREATE OR REPLACE TEMP TABLE nsys_mpi_communicators (mpi_rank INTEGER, handle BIGINT,"
            " created BIGINT, comm VARCHAR, comm_rank INTEGER, size INTEGER)"
        )
        ranks = mpi_ranks(self._export).items()
        insert_rows(
            self._con, "nsys_mpi_ranks", ({"process": p, "rank": rank} for p, rank in ranks)
        )
        columns = (
            "rank", "commHandle", "timestamp", "parentHandle", "localRank", "size", "groupRoot",
            "groupRootUid",
        )  # fmt: skip
        self._copy(
            "MPI_COMMUNICATORS",
            {column: pa.int64() for column in columns},
            "INSERT INTO nsys_mpi_communicators BY NAME SELECT rank AS mpi_rank,"
            " commHandle AS handle, timestamp AS created,"
            " CASE WHEN parentHandle = 0 THEN 'MPI_COMM_WORLD'"
            " ELSE format('MPI communicator {}.{}', groupRoot, groupRootUid) END AS comm,"
            " localRank AS comm_rank, size FROM batch",
        )

    def _copy(self, table: str, columns: Mapping[str, pa.DataType], insert: str) -> None:
        if table not in self._export.tables:
            return
        for batch in self._export.batches(table, columns):
            self._con.register("batch", pa.Table.from_batches([batch]))
            self._con.execute(insert)
            self._con.unregister("batch")
