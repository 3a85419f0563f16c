"""Event tables that need no rule of their own: every column goes into `other_events` as it is."""

from __future__ import annotations

import duckdb

from traceweave.sources.nsys.event_tables import EventTable

_NOT_ARGS = frozenset({"start", "end", "timestamp", "globalTid", "globalPid", "nameId", "textId"})


def insert_other_events(con: duckdb.DuckDBPyConnection, table: EventTable) -> None:
    """Copy the rows of the table's temporary table into base.other_events."""
    con.execute(_insert(table))


def _insert(table: EventTable) -> str:
    # only names fixed in event_tables.py enter this text
    columns = table.types
    start = "start" if "start" in columns else "timestamp"
    end = 'e."end"' if "end" in columns else "NULL::BIGINT"
    owner = "globalTid" if "globalTid" in columns else "globalPid"
    name = next((c for c in ("nameId", "textId") if c in columns), None)
    string = f"LEFT JOIN nsys_strings AS n ON e.{name} = n.id" if name else ""
    label = f"coalesce(n.value, '{table.name}')" if name else f"'{table.name}'"
    args = ", ".join(f"nsys_number('{c}', e.\"{c}\")" for c in columns if c not in _NOT_ARGS)
    thread = f"nsys_tid(e.{owner})::VARCHAR" if owner == "globalTid" else "NULL"
    return f"""
        INSERT INTO base.other_events BY NAME
        SELECT
            p.rank,
            e.op_id,
            s.source_id,
            CASE WHEN {end} IS NULL THEN 'i' ELSE 'X' END AS phase,
            '{table.category}' AS category,
            {label} AS name,
            nsys_pid(e.{owner})::VARCHAR AS pid,
            {thread} AS tid,
            e.{start} + s.base_ns AS start_local_ns,
            {end} - e.{start} AS duration_ns,
            nsys_args(concat_ws(',', {args or "NULL"})) AS args
        FROM {table.staged} AS e
        CROSS JOIN nsys_session AS s
        {string}
        LEFT JOIN nsys_processes AS p ON nsys_process(e.{owner}) = p.process
        WHERE nsys_timely(e.{start})
            AND ({end} IS NULL OR nsys_timely({end}) AND {end} >= e.{start})
    """
