"""Writing down what was read and what was not: the tables sources, ingest_issues and meta."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime

import duckdb

from traceweave._version import __version__
from traceweave.errors import InputError
from traceweave.ingestion.load import Outcome
from traceweave.ingestion.result import SourceResult
from traceweave.sources.discover import Discovery
from traceweave.sources.model import Issue, Loaded, Trace
from traceweave.store.rows import insert_rows
from traceweave.words import name_ranks, plural

_GPU_WORK = """
SELECT rank, count(kind) > 0, coalesce(bool_or(kind = 'kernel'), FALSE),
    any_value(launches), any_value(unread)
FROM (
    SELECT rank, sum(launches) AS launches, sum(unread_tasks) AS unread
    FROM base.rank_sources GROUP BY rank
)
LEFT JOIN (SELECT DISTINCT rank, kind FROM base.gpu_ops) USING (rank)
GROUP BY rank
ORDER BY rank
"""

_OPERATES = "FROM base.host_ops WHERE kind = 'op' AND rank IS NOT NULL LIMIT 1"

_ONCE = """
DELETE FROM ingest_issues WHERE source_id IS NULL AND rowid NOT IN (
    SELECT min(rowid) FROM ingest_issues WHERE source_id IS NULL
    GROUP BY kind, count, example, message
)
"""
"""What is added to a run may give rise to the same notes again."""


def record(
    con: duckdb.DuckDBPyConnection, found: Discovery, outcomes: Sequence[Outcome]
) -> tuple[SourceResult, ...]:
    """Fill the tables that say what was read, and return the same for the caller.

    Raises InputError if no file had any event.
    """
    results = [_result(outcome) for outcome in outcomes]
    if not any(result.events_read for result in results):
        raise InputError(
            "; ".join(f"{r.path}: {r.message or 'no events, record again'}" for r in results[:3])
            + "; nothing could be read, so no database was written"
        )
    results += [
        SourceResult(b.path, b.format, (), b.size_bytes, 0, 0, "failed", b.reason, True)
        for b in found.broken
    ]
    numbers = [outcome.source_id for outcome in outcomes]
    numbers += range(numbers[-1] + 1, numbers[-1] + 1 + len(found.broken))
    traces = [*(outcome.source.trace for outcome in outcomes), *[None] * len(found.broken)]
    _insert(con, "sources", map(_source_row, numbers, results, traces))
    _insert(
        con, "ingest_issues", _issue_rows(found, outcomes, dict(zip(numbers, results, strict=True)))
    )
    con.execute(_ONCE)
    facts = {
        "traceweave_version": __version__,
        "duckdb_version": duckdb.__version__,
        "ingested_at_utc": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    con.executemany("DELETE FROM meta WHERE name = ?", [[name] for name in facts])
    _insert(con, "meta", ({"name": name, "value": value} for name, value in facts.items()))
    return tuple(results)


def _result(outcome: Outcome) -> SourceResult:
    trace, loaded = outcome.source.trace, outcome.loaded
    return SourceResult(
        path=trace.path,
        format=trace.format,
        ranks=tuple(trace.ranks),
        size_bytes=trace.size_bytes,
        events_read=loaded.events_read if loaded else 0,
        events_stored=loaded.events_stored if loaded else 0,
        status=outcome.status,
        message=_damage(loaded) if loaded else outcome.error,
        cut_short=loaded is None or loaded.cut_short,
    )


def _damage(loaded: Loaded) -> str | None:
    if loaded.damaged is None or not loaded.cut_short:
        return loaded.damaged
    return f"{loaded.damaged}; how much is missing is not known"


def _source_row(source_id: int, result: SourceResult, trace: Trace | None) -> dict[str, object]:
    names = ("format", "size_bytes", "events_read", "events_stored", "status", "message")
    return {
        "source_id": source_id,
        # where it is found from any folder, be it to export it again or to know it again
        "path": str(result.path.absolute()),
        "producer": trace and trace.producer,
        "producer_version": trace and trace.producer_version,
        "events_skipped": result.events_read - result.events_stored,
        **{name: getattr(result, name) for name in names},
    }


def _issue_rows(
    found: Discovery, outcomes: Sequence[Outcome], results: Mapping[int, SourceResult]
) -> Iterable[dict[str, object]]:
    for outcome in outcomes:
        for issue in outcome.loaded.issues if outcome.loaded else ():
            yield _issue_row(outcome.source_id, issue)
    for source_id, result in results.items():
        if result.status != "ok":
            kind = "file damaged" if result.status == "partial" else "file not read"
            message = result.message or kind
            row = _issue_row(source_id, Issue(kind, 0, message, str(result.path)))
            yield {**row, "count": None} if result.cut_short else row
    for item in found.passed_over:
        yield _issue_row(None, Issue("passed over", 0, item.reason, str(item.path)))
    for note in found.notes:
        yield _issue_row(None, Issue("note", 0, note))


def _issue_row(source_id: int | None, issue: Issue) -> dict[str, object]:
    return {"source_id": source_id, **asdict(issue)}


def _insert(
    con: duckdb.DuckDBPyConnection, table: str, rows: Iterable[Mapping[str, object]]
) -> None:
    insert_rows(
        con, table, [{name: _storable(value) for name, value in row.items()} for row in rows]
    )


def _storable(value: object) -> object:
    """Return text without the lone surrogates by which Python names files that are not UTF-8."""
    if isinstance(value, str) and not value.isascii():
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return value


def note_ranks_without_gpu_work(con: duckdb.DuckDBPyConnection) -> tuple[str, ...]:
    """Say which ranks lack records of what the GPU did, or of its kernels: a note each."""
    found = con.execute(_GPU_WORK).fetchall()
    some = any(works for _, works, *_ in found)
    without = [
        (rank, lost or 0, unread or 0) for rank, works, _, lost, unread in found if not works
    ]
    who = name_ranks([rank for rank, *_ in without])
    launches, tasks = (sum(of_rank[place] for of_rank in without) for place in (1, 2))
    notes = []
    if tasks:
        notes.append(
            f"{who}: {plural(tasks, 'task')} of the device are of a format that is not read, so"
            " that nothing is known of its time"
        )
    elif launches:
        notes.append(
            f"{who} launched GPU work ({plural(launches, 'call')}) of which no record is there,"
            " so that nothing is known of its time; profile CUDA activity, with no other profiler"
            " at the same time"
        )
    elif some and without:
        notes.append(f"{who} recorded no GPU work, though others did: left out of all numbers")
    copying = [rank for rank, works, computes, *_ in found if works and not computes]
    computing = any(computes for _, _, computes, *_ in found)
    if copying and not computing and con.execute(_OPERATES).fetchall():
        notes.append(
            f"{name_ranks(copying)} recorded no kernels: times are those of copies and memsets, not"
            " of operators"
        )
    if copying and computing:
        notes.append(
            f"{name_ranks(copying)} recorded no kernels, though others did: only copies and memsets"
            " count as GPU work there; record again with kernels"
        )
    return tuple(notes)


_JOB = """
SELECT
    max(world_size) AS size, count(DISTINCT rank),
    list_filter(list_sort(list(DISTINCT rank)), lambda rank: rank >= max(world_size))
FROM base.rank_sources
"""


def note_ranks_beyond_the_job(con: duckdb.DuckDBPyConnection) -> tuple[str, ...]:
    """Say which ranks cannot be in a job of as few as the traces say: one note, or none."""
    ((size, _, beyond),) = con.execute(_JOB).fetchall()
    if not beyond:
        return ()
    return (
        f"{name_ranks(beyond)} cannot be in a job of {size} (world size): another run's, or a wrong"
        " number, which --rank FILE=N mends",
    )


def note_missing_ranks(con: duckdb.DuckDBPyConnection) -> tuple[str, ...]:
    """Say if fewer ranks were recorded than the job has: one note, or none."""
    ((size, count, _),) = con.execute(_JOB).fetchall()
    if size is None or count >= size:
        return ()
    return (f"{count} of {size} ranks recorded: those that make others wait may be missing",)
