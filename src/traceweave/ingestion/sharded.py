"""Loading into a run folder: batch by batch, then what all of them have in common."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import duckdb

from traceweave.errors import InputError
from traceweave.ingestion.batches import Here, divide
from traceweave.ingestion.load import Outcome, Progress
from traceweave.sources.discover import Discovery, Source
from traceweave.sources.find import PassedOver
from traceweave.sources.one_job import Claim, claimed, claims
from traceweave.store.draft import bound
from traceweave.store.folder import FolderDraft
from traceweave.store.shards import find_shards, numbered_on, small_tables, without
from traceweave.words import name_ranks, plural

if TYPE_CHECKING:
    from traceweave.ingestion.workers import Workers

Loader: TypeAlias = "Here | Workers"
"""Loads batches: in this process, or on the workers of a Dask cluster."""


def split_known(
    con: duckdb.DuckDBPyConnection, found: Discovery
) -> tuple[Discovery, tuple[PassedOver, ...]]:
    """Part what was found from the files that a run has read whole, as large as they are now, and
    note which of its ranks what is left replaces.

    Raises InputError if nothing is left.
    """
    known = set(con.execute("SELECT path, size_bytes FROM sources WHERE status = 'ok'").fetchall())
    new: list[Source] = []
    left: list[Source] = []
    for source in found.sources:
        trace = source.trace
        (left if (str(trace.path.absolute()), trace.size_bytes) in known else new).append(source)
    if not new:
        raise InputError("all that was found is in the run already")
    passed_over = [PassedOver(source.trace.path, "is in the run already") for source in left]
    notes = (*found.notes, *_note_replaced(con, new))
    return replace(found, sources=tuple(new), notes=notes), tuple(passed_over)


def _note_replaced(con: duckdb.DuckDBPyConnection, new: Sequence[Source]) -> Iterator[str]:
    """Say which ranks that new files are of a run has already, and in how many files."""
    mine = _claims(new)
    rows = [(source_id, claim) for source_id, _, claim in _claims_of_run(con) if claim in mine]
    if rows:
        files = plural(len({source_id for source_id, _ in rows}), "file")
        ranks = {rank for _, (rank, _) in rows if rank is not None}
        yield f"{name_ranks(sorted(ranks))} replaced: {files} taken out"


def load_into(
    draft: FolderDraft, sources: Sequence[Source], loader: Loader, progress: Progress
) -> list[Outcome]:
    """Load files into a run folder; ranks that it has already are replaced."""
    _take_out(draft, _replaced(draft.con, sources))
    rows = draft.con.execute("SELECT coalesce(max(source_id) + 1, 0) FROM sources").fetchall()
    batches = divide(
        dict(enumerate(sources, rows[0][0])),
        first=max((shard.batch for shard in draft.shards), default=-1) + 1,
        at_once=loader.at_once,
    )
    outcomes: list[Outcome] = []
    for batched in loader.load(batches, draft.folder, progress):
        draft.shards += batched.shards
        for table, rows in batched.small.items():
            found = draft.con.from_arrow(rows)
            found.query("rows", f"INSERT INTO {table} BY NAME FROM rows")
        outcomes += batched.outcomes
    draft.show()
    return sorted(outcomes, key=lambda outcome: outcome.source_id)


@contextmanager
def loading(dask: str | None, jobs: int, scratch: Path) -> Iterator[Loader]:
    """Yield what loads batches: the workers of Dask that are asked for, or this process."""
    if dask is None:
        (scratch / "batch").mkdir()
        yield Here(jobs, scratch / "batch")
        return
    from traceweave.ingestion.workers import workers

    with workers(dask, jobs, scratch) as loader:
        yield loader


def _replaced(con: duckdb.DuckDBPyConnection, sources: Sequence[Source]) -> list[int]:
    """Return the numbers of the files in a run that new ones take the place of.

    Raises InputError if one of them has other ranks as well.
    """
    mine = _claims(sources)
    paths = {str(source.trace.path.absolute()) for source in sources}
    there: dict[tuple[int, str], set[Claim]] = {}
    for source_id, path, claim in _claims_of_run(con):
        there.setdefault((source_id, path), set()).add(claim)
    replaced = []
    for (source_id, path), its in there.items():
        if path not in paths and its.isdisjoint(mine):
            continue
        if others := {rank for rank, _ in its - mine if rank is not None}:
            raise InputError(
                f"{path}: is in the run with {name_ranks(sorted(others))} too; add traces of all"
                " its ranks, or ingest all traces again"
            )
        replaced.append(source_id)
    return replaced


def _claims(sources: Sequence[Source]) -> set[Claim]:
    return {claimed(*claim) for claim in claims([source.trace for source in sources])}


def _claims_of_run(con: duckdb.DuckDBPyConnection) -> list[tuple[int, str, Claim]]:
    """Return number, path and claim of every file in a run; its rank is None if it has none."""
    rows = con.execute(
        "WITH traces AS (SELECT DISTINCT source_id, rank FROM base.rank_sources),"
        " records AS (SELECT source_id, rank FROM base.flight_groups"
        " UNION SELECT source_id, rank FROM base.flight_calls"
        " UNION SELECT source_id, rank FROM base.group_roles"
        " UNION SELECT source_id, rank FROM base.job_settings)"
        " SELECT s.source_id, s.path, coalesce(t.rank, r.rank),"
        " CASE WHEN t.rank IS NULL THEN s.format END"
        " FROM sources AS s LEFT JOIN traces AS t USING (source_id)"
        " LEFT JOIN records AS r ON r.source_id = s.source_id AND t.rank IS NULL"
        " ORDER BY ALL"
    ).fetchall()
    return [(source_id, path, (rank, kind)) for source_id, path, rank, kind in rows]


def number_shards(draft: FolderDraft, numbered: Sequence[tuple[int, int, int]]) -> None:
    """Number the steps of large tables on, as those of small ones were: `numbered` has rank,
    source_id and what to add."""
    if not numbered:
        return
    sources = {source_id for _, source_id, _ in numbered}
    with _rewriting(draft) as con:
        draft.shards[:] = [
            shard
            if sources.isdisjoint(shard.sources)
            else numbered_on(con, draft.folder, shard, numbered)
            for shard in draft.shards
        ]
    draft.show()


@contextmanager
def _rewriting(draft: FolderDraft) -> Iterator[duckdb.DuckDBPyConnection]:
    """Yield a connection that finds the shards of a draft, whose own is cut off."""
    with duckdb.connect() as con:
        bound(con, draft.scratch, 1)
        find_shards(con, draft.folder)
        yield con


def _take_out(draft: FolderDraft, source_ids: Collection[int]) -> None:
    """Take all rows of some files out of a run; shards with rows of others are written anew."""
    if not source_ids:
        return
    kept = []
    with _rewriting(draft) as con:
        for shard in draft.shards:
            hit = not set(source_ids).isdisjoint(shard.sources)
            kept += without(con, draft.folder, shard, source_ids) if hit else [shard]
    draft.shards[:] = kept
    listed = ", ".join(map(str, source_ids))
    for table in (*small_tables(draft.con), "sources", "ingest_issues"):
        draft.con.execute(f"DELETE FROM {table} WHERE source_id IN ({listed})")
