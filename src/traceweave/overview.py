"""The overview of a run: what is in the database and how far it can be trusted."""

from __future__ import annotations

from dataclasses import dataclass

import duckdb

from traceweave.words import plural


@dataclass(frozen=True)
class RankOverview:
    """One rank at a glance."""

    rank: int
    host: str | None
    pid: int | None
    gpu_name: str | None
    format: str
    rank_source: str
    first_local_ns: int | None
    """First event on the rank's own clock; None if it has no event with a time."""
    span_ns: int | None
    """From the first event to the end of the last."""
    gpu_ops: int
    host_ops: int
    steps: int
    collectives: int
    matched: int
    """Collectives that were matched with those of other ranks."""


@dataclass(frozen=True)
class ClockOverview:
    """How one rank's clock was brought on the common one."""

    rank: int
    status: str
    method: str
    offset_ns: int
    drift_ppm: float
    residual_p95_ns: int | None
    """Differences between ranks below this are noise; None without anchors."""
    bound_ns: int | None
    """Half-width of the offset interval that causality proves; None if unbounded."""
    anchors: int


@dataclass(frozen=True)
class SourceOverview:
    """One input file."""

    path: str
    format: str
    producer: str | None
    producer_version: str | None
    size_bytes: int
    events_read: int
    events_skipped: int | None
    """None: not known, as the file could not be read to its end."""
    status: str
    message: str | None


@dataclass(frozen=True)
class Caution:
    """Something that the user should know before trusting a number."""

    kind: str
    count: int | None
    """Events it concerns; 0 if it concerns none in particular, None if that is not known."""
    text: str


@dataclass(frozen=True)
class Overview:
    """What `traceweave info` shows."""

    created_by: str
    ingested_at_utc: str | None
    world_size: int | None
    """Number of ranks of the job; None if no trace says."""
    backend: str | None
    nccl_version: str | None
    instances: int
    complete_instances: int
    """Matched collectives in which every member of the group was seen."""
    unsized_instances: int
    """Matched collectives of groups whose size no trace says."""
    ranks: tuple[RankOverview, ...]
    clocks: tuple[ClockOverview, ...]
    sources: tuple[SourceOverview, ...]
    warnings: tuple[Caution, ...]

    @property
    def hosts(self) -> list[str]:
        """Names of the hosts, as far as known."""
        return sorted({rank.host for rank in self.ranks if rank.host is not None})

    @property
    def gpus(self) -> list[str]:
        """Product names of the GPUs."""
        return sorted({rank.gpu_name for rank in self.ranks if rank.gpu_name is not None})


def read_overview(con: duckdb.DuckDBPyConnection) -> Overview:
    """Read the overview of the run that `con` is open on."""
    meta = dict(con.execute("SELECT name, value FROM meta").fetchall())
    job = con.execute(
        "SELECT max(world_size), mode(backend), mode(nccl_version) FROM ranks"
    ).fetchone()
    [(instances, complete, unsized)] = con.execute(
        "SELECT count(*), count(*) FILTER (complete), count(*) FILTER (ranks_expected IS NULL)"
        " FROM collective_instances"
    ).fetchall()
    ranks = tuple(RankOverview(*row) for row in con.execute(_RANKS).fetchall())
    world_size, backend, nccl_version = job or (None, None, None)
    return Overview(
        created_by=f"traceweave {meta.get('traceweave_version', '(unknown version)')}",
        ingested_at_utc=meta.get("ingested_at_utc"),
        world_size=world_size,
        backend=backend,
        nccl_version=nccl_version,
        instances=instances,
        complete_instances=complete,
        unsized_instances=unsized,
        ranks=ranks,
        clocks=tuple(ClockOverview(*row) for row in con.execute(_CLOCKS).fetchall()),
        sources=tuple(SourceOverview(*row) for row in con.execute(_SOURCES).fetchall()),
        warnings=(*_missing_ranks(ranks, world_size), *_issues(con)),
    )


_RANKS = """
SELECT r.rank, r.host, r.pid, r.gpu_name, r.format, r.rank_source, r.first_local_ns,
    r.last_local_ns - r.first_local_ns, coalesce(g.n, 0), coalesce(h.n, 0), coalesce(s.n, 0),
    coalesce(k.n, 0), coalesce(k.matched, 0)
FROM ranks AS r
LEFT JOIN (SELECT rank, count(*) AS n FROM base.gpu_ops GROUP BY rank) AS g USING (rank)
LEFT JOIN (SELECT rank, count(*) AS n FROM base.host_ops GROUP BY rank) AS h USING (rank)
LEFT JOIN (SELECT rank, count(DISTINCT step) AS n FROM base.steps GROUP BY rank) AS s USING (rank)
LEFT JOIN (
    SELECT rank, count(*) AS n, count(collective_id) AS matched
    FROM base.collective_calls LEFT JOIN base.matches USING (call_id) GROUP BY rank
) AS k USING (rank)
ORDER BY r.rank
"""

_CLOCKS = """
SELECT rank, status, method, offset_ns, drift_ppm, residual_p95_ns, bound_ns, anchors
FROM clocks ORDER BY rank, from_local_ns NULLS FIRST
"""

_SOURCES = """
WITH cut_short AS (
    SELECT source_id FROM ingest_issues WHERE count IS NULL AND source_id IS NOT NULL
)
SELECT path, format, producer, producer_version, size_bytes, events_read,
    CASE WHEN source_id NOT IN (FROM cut_short) THEN events_skipped END, status, message
FROM sources ORDER BY source_id
"""

_ISSUES = """
SELECT i.kind, CASE WHEN bool_and(i.count IS NOT NULL) THEN CAST(sum(i.count) AS BIGINT) END,
arg_min(
    concat_ws(
        ': ',
        parse_filename(coalesce(s.path, CASE WHEN i.kind = 'passed over' THEN i.example END)),
        i.message
    ),
    coalesce(i.source_id, -1)
), count(*)
FROM ingest_issues AS i LEFT JOIN sources AS s USING (source_id)
GROUP BY i.kind, i.message ORDER BY min(coalesce(i.source_id, -1)), i.kind, i.message
"""


def _issues(con: duckdb.DuckDBPyConnection) -> list[Caution]:
    found = []
    for kind, count, text, files in con.execute(_ISSUES).fetchall():
        others = f" (and {plural(files - 1, 'more file')})" if files > 1 else ""
        found.append(Caution(kind, count, text + others))
    return found


def _missing_ranks(ranks: tuple[RankOverview, ...], world_size: int | None) -> list[Caution]:
    if world_size is None or len(ranks) >= world_size:
        return []
    missing = world_size - len(ranks)
    text = (
        f"{missing} of {plural(world_size, 'rank')} are not here: waits and stragglers among them"
        " are unseen"
    )
    return [Caution("missing ranks", 0, text)]
