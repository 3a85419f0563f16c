"""From staged events to rows of the base tables: launches linked, ranges nested, steps found.

Nothing here depends on the format of the file. A loader calls `stage`, fills the staging tables of
GPU and host ops, calls `link`, stages its collectives, and calls `finish`.
"""

from __future__ import annotations

from functools import cache
from importlib import resources

import duckdb

from traceweave.sources.classify import classify
from traceweave.sources.model import Process, Trace
from traceweave.sources.nesting import nest_host_ops
from traceweave.vocabulary import answered

_RANK_FIELDS = {
    "rank": "INTEGER",
    "rank_source": "VARCHAR",
    "host": "VARCHAR",
    "pid": "BIGINT",
    "device": "INTEGER",
    "gpu_name": "VARCHAR",
    "gpu_names": "STRUCT(device INTEGER, name VARCHAR)[]",
    "world_size": "INTEGER",
    "backend": "VARCHAR",
    "nccl_version": "VARCHAR",
}

_UNLINKED = (
    "SELECT 1 FROM new_gpu_ops WHERE launch_op_id IS NULL AND rank IS NOT NULL"
    " AND correlation IS NOT NULL LIMIT 1"
)
_WITHOUT_STEPS = "SELECT rank FROM new_ranks WHERE rank NOT IN (SELECT rank FROM new_steps) LIMIT 1"


def stage(con: duckdb.DuckDBPyConnection) -> None:
    """Create the empty staging tables and the naming macros, private to this connection."""
    con.execute(_script("macros.sql"))
    con.execute(_script("staging.sql"))


def link(con: duckdb.DuckDBPyConnection) -> None:
    """Give the staged GPU ops their launching calls, and their names a category and a class."""
    if con.execute(_UNLINKED).fetchall():
        con.execute(_script("link.sql"))
    classify(con)


def finish(con: duckdb.DuckDBPyConnection, source_id: int, trace: Trace) -> None:
    """Move the staged events of `trace` into the base tables, linked, nested and put into steps."""
    con.execute(
        "CREATE OR REPLACE TEMP TABLE finish_source AS"
        " SELECT $1::INTEGER AS source_id, $2::VARCHAR AS format, $3::VARCHAR AS step_range,"
        " $4::BIGINT AS base_ns",
        [source_id, trace.format, trace.step_range, trace.base_ns],
    )
    _stage_ranks(con, [process for process in trace.processes if process.rank is not None])
    nest_host_ops(con)
    con.execute(_script("steps.sql"))
    if trace.step_range is None and con.execute(_WITHOUT_STEPS).fetchall():
        con.execute(_script("infer_steps.sql"))
    con.execute(_script("updates.sql"))
    con.execute(_script("finish.sql"))


def _stage_ranks(con: duckdb.DuckDBPyConnection, processes: list[Process]) -> None:
    columns = [
        f"unnest(${position}::{type_}[]) AS {name}"
        for position, (name, type_) in enumerate(_RANK_FIELDS.items(), 1)
    ]
    values = {name: [getattr(process, name) for process in processes] for name in _RANK_FIELDS}
    values["gpu_names"] = [
        [{"device": device, "name": name} for device, name in process.gpu_names]
        for process in processes
    ]
    con.execute(
        f"CREATE OR REPLACE TEMP TABLE new_ranks AS SELECT {', '.join(columns)}",
        list(values.values()),
    )


@cache  # ranks of one run are read by the same scripts
def _script(name: str) -> str:
    return answered(resources.files(__package__).joinpath(name).read_text(encoding="utf-8"))
