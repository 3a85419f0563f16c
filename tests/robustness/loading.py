"""Loads one file the way ingest does, up to the tables, and says what became of it."""

import sys
from dataclasses import dataclass
from pathlib import Path

import duckdb

from traceweave.sources.faults import is_defect
from traceweave.sources.find import Candidate, find
from traceweave.sources.formats import known_formats
from traceweave.sources.kineto.reader import read_events, stage_events
from traceweave.sources.model import Issue


@dataclass(frozen=True)
class Outcome:
    """What became of a file; `refused` says why nothing of it was read."""

    read: int = 0
    stored: int = 0
    issues: tuple[Issue, ...] = ()
    damaged: str | None = None
    refused: str | None = None

    @property
    def kind(self) -> str:
        if self.refused is not None:
            return "refused"
        return "partly" if self.damaged or self.read > self.stored else "fully"


def load_file(con: duckdb.DuckDBPyConnection, path: Path, source_id: int = 1) -> Outcome:
    """Load a file into `con`. What is raised is what a bad file may raise, or it is a bug.

    A Kineto file's table `new_events` is there afterwards, for `unaccounted`."""
    (found,) = find([path], known_formats())
    if not isinstance(found, Candidate) or found.format is None:
        assert not isinstance(found, Candidate)
        return Outcome(refused=found.reason)
    try:
        trace = found.format.probe(path)
        ranks = {process.key: (i, "test") for i, process in enumerate(trace.processes)}
        loaded = found.format.load(con, trace.with_ranks(ranks), source_id, lambda _: None)
        if trace.format == "kineto":
            stage_events(con)
            read_events(con, trace, lambda _: None)  # once more: the loader drops them
    except Exception as error:
        if is_defect(error):
            raise
        return Outcome(refused=str(error))
    return Outcome(loaded.events_read, loaded.events_stored, tuple(loaded.issues), loaded.damaged)


def forget(con: duckdb.DuckDBPyConnection) -> None:
    """Empty the base tables."""
    rows = con.execute("SELECT table_name FROM duckdb_tables() WHERE schema_name = 'base'")
    for (table,) in rows.fetchall():
        con.execute(f"DELETE FROM base.{table}")


def unaccounted(con: duckdb.DuckDBPyConnection, source_id: int = 1) -> list[tuple[int, str]]:
    """Return (position, lane) of the events of the Kineto file loaded last that are neither in a
    table nor lost for a reason: counted from the tables themselves, event by event."""
    return con.execute(
        """
        WITH stored AS (
            SELECT op_id FROM base.host_ops WHERE source_id = $1
            UNION SELECT op_id FROM base.gpu_ops WHERE source_id = $1
            UNION SELECT op_id FROM base.other_events WHERE source_id = $1
            UNION SELECT op_id FROM base.memory_events WHERE source_id = $1
            UNION SELECT op_id FROM base.counters WHERE source_id = $1
            UNION SELECT end_op_id FROM paired_spans
            UNION SELECT event_id FROM paired_arrow_ends
        )
        SELECT rowid, lane FROM new_events
        WHERE $1 * 1000000000 + rowid NOT IN (FROM stored) AND lane <> 'launch arrow'
        ORDER BY rowid
        """,
        [source_id],
    ).fetchall()


RUN = [sys.executable, "-m", "traceweave"]
