"""From staged events to rows of the base tables: launches linked, ranges nested, steps found.

Nothing here depends on the format of the file. A loader calls `stage`, fills the staging tables of
GPU and host ops, calls `link`, stages its collectives, and calls `finish`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import duckdb

from traceweave.sources.classify import classify
from traceweave.sources.model import Trace
from traceweave.sources.nesting import nest_host_ops
from traceweave.store.rows import insert_rows
from traceweave.vocabulary import script

_script = partial(script, __package__)

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
    """Give the staged GPU ops their launching calls, lengths that can be, and their names a
    category and a class; list the names of host ops.
    """
    con.execute(_script("names.sql"))
    if con.execute(_UNLINKED).fetchall():
        con.execute(_script("link.sql"))
    con.execute(_script("overruns.sql"))
    classify(con)


def finish(con: duckdb.DuckDBPyConnection, traces: Mapping[int, Trace]) -> None:
    """Move the staged events into the base tables, linked, nested and put into steps.

    `traces` are theirs by source_id: of one format and one run, without a rank that two have.
    """
    format_, step_range = next((trace.format, trace.step_range) for trace in traces.values())
    con.execute(
        "CREATE OR REPLACE TEMP TABLE finish_source AS"
        " SELECT $1::VARCHAR AS format, $2::VARCHAR AS step_range",
        [format_, step_range],
    )
    _stage_ranks(con, traces)
    nest_host_ops(con)
    con.execute(_script("steps.sql"))
    if step_range is None and con.execute(_WITHOUT_STEPS).fetchall():
        con.execute(_script("infer_steps.sql"))
    for name in ("updates.sql", "place.sql", "doubts.sql", "finish.sql"):
        con.execute(_script(name))
    if not con.execute("SELECT 1 FROM new_gpu_ops LIMIT 1").fetchall():
        con.execute(_script("op_parts.sql"))


def _stage_ranks(con: duckdb.DuckDBPyConnection, traces: Mapping[int, Trace]) -> None:
    insert_rows(con, "new_ranks", (
        {
            **{name: value for name, value in vars(process).items() if name != "key"},
            "source_id": source_id,
            "gpu_names": [{"device": number, "name": name} for number, name in process.gpu_names],
            "base_ns": trace.base_ns,
        }
        for source_id, trace in traces.items()
        for process in trace.processes
        if process.rank is not None
    ))  # fmt: skip
