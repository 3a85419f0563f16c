"""The overview of a run: what is in the database and how far it can be trusted.

Its numbers are those of the analyses ranks, matching, files and issues, and the rows of clocks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields
from html import escape
from pathlib import Path
from typing import Any

import duckdb

from traceweave import analyses, words
from traceweave.markup import table

Row = dict[str, Any]


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
    """Half-width of the interval that the offset lies in; None if unbounded."""
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

    @property
    def facts(self) -> str:
        """The run in a line."""
        facts = [
            words.name_ranks([rank.rank for rank in self.ranks]),
            words.plural(len(self.hosts), "host") if self.hosts else "hosts not named",
            ", ".join(self.gpus) or "no GPU named",
            f"{words.plural(self.instances, 'collective')} matched",
            words.plural(len(self.warnings), "warning"),
        ]
        return "; ".join(facts)

    def _repr_html_(self) -> str:
        """Return what a notebook shows of it."""
        parts = [f"<p>{escape(self.facts)}</p>"]
        for name, rows in (("Ranks", self.ranks), ("Clocks", self.clocks), ("Files", self.sources)):
            if rows:
                cells = ([words.cell(*item) for item in asdict(row).items()] for row in rows)
                parts.append(f"<b>{name}</b>{table(list(asdict(rows[0])), cells)}")
        if self.warnings:
            items = "".join(f"<li>{escape(f'{w.kind}: {w.text}')}</li>" for w in self.warnings)
            parts.append(f"<b>Warnings</b><ul>{items}</ul>")
        return "".join(parts)


def read_overview(con: duckdb.DuckDBPyConnection) -> Overview:
    """Read the overview of the run that `con` is open on."""
    meta = dict(con.execute("SELECT name, value FROM meta").fetchall())
    ranks = [{**r, "span_ns": r["recorded_ns"]} for r in _rows(analyses.run(con, "ranks"))]
    matching = next(iter(_rows(analyses.run(con, "matching", per="run"))), {})
    world_size = max((r["world_size"] for r in ranks if r["world_size"] is not None), default=None)
    found = tuple(RankOverview(**_fields(RankOverview, rank)) for rank in ranks)
    return Overview(
        created_by=f"traceweave {meta.get('traceweave_version', '(unknown version)')}",
        ingested_at_utc=meta.get("ingested_at_utc"),
        world_size=world_size,
        backend=_most_frequent(rank["backend"] for rank in ranks),
        nccl_version=_most_frequent(rank["nccl_version"] for rank in ranks),
        instances=matching.get("instances", 0),
        complete_instances=matching.get("complete", 0),
        unsized_instances=matching.get("unsized", 0),
        ranks=found,
        clocks=tuple(
            ClockOverview(**_fields(ClockOverview, clock))
            for clock in _rows(con.table("clocks").order("rank, from_local_ns NULLS FIRST"))
        ),
        sources=tuple(
            SourceOverview(**_fields(SourceOverview, source))
            for source in _rows(analyses.run(con, "files"))
        ),
        warnings=(*_missing_ranks(found, world_size), *_issues(con)),
    )


def _rows(relation: duckdb.DuckDBPyRelation) -> list[Row]:
    return relation.to_arrow_table().to_pylist()  # type: ignore[no-any-return]


def _fields(kind: type, row: Row) -> Row:
    """Return what a dataclass takes of a row."""
    return {field.name: row[field.name] for field in fields(kind)}


def _most_frequent(values: Iterable[str | None]) -> str | None:
    known = Counter(value for value in values if value is not None)
    return min(known, key=lambda value: (-known[value], value), default=None)


def _issues(con: duckdb.DuckDBPyConnection) -> list[Caution]:
    found = []
    for issue in _rows(analyses.run(con, "issues")):
        path = issue["path"] or (issue["example"] if issue["kind"] == "passed over" else None)
        where = f"{Path(path).name}: " if path else ""
        rest = issue["files"] - 1
        others = f" (and {words.plural(rest, 'more file')})" if rest > 0 else ""
        found.append(Caution(issue["kind"], issue["events"], f"{where}{issue['message']}{others}"))
    return found


def _missing_ranks(ranks: tuple[RankOverview, ...], world_size: int | None) -> list[Caution]:
    missing = 0 if world_size is None else world_size - sum(r.rank < world_size for r in ranks)
    if world_size is None or not missing:
        return []
    text = (
        f"{missing} of {words.plural(world_size, 'rank')} are not here: waits and stragglers among"
        " them are unseen"
    )
    return [Caution("missing ranks", 0, text)]
