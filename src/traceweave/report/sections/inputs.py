"""What the report rests on: ranks, process groups, files, and what was lost while reading them."""

from __future__ import annotations

from dataclasses import dataclass, field

import duckdb

from traceweave.report.columns import rows_table
from traceweave.report.page import Column, Origin, Section, Table, Value
from traceweave.report.query import Row, analysis_rows
from traceweave.report.selection import MANY_RANKS, first_rows
from traceweave.words import count, doubts_said, folded, name_ranks, percent, plural

MOST_ROWS = 64
"""Hosts, process groups and files that the tables show."""

_RANKS = "traceweave analyze ranks run.duckdb"
_GROUPS = "traceweave analyze groups run.duckdb"
_FILES = "traceweave analyze files run.duckdb"
_TIMELINES = {"gpu": "GPU", "cpu": "CPU operators", None: "none"}


@dataclass(frozen=True)
class Inputs:
    """Rows of the analyses ranks, groups, files, issues and recording."""

    ranks: list[Row]
    groups: list[Row]
    sources: list[Row]
    issues: list[Row]
    recording: list[Row] = field(default_factory=list)

    @property
    def events_read(self) -> int:
        """Events found in all files."""
        return sum(s["events_read"] for s in self.sources)

    @property
    def events_skipped(self) -> int:
        """Events read that are not in the database, of the files that were read to their end."""
        return sum(s["events_skipped"] or 0 for s in self.sources)

    @property
    def events_passed_over(self) -> int:
        """Those of them of kinds that are not read (loading says 'not loaded: ' of each)."""
        kinds = (i["events"] for i in self.issues if i["message"].startswith("not loaded: "))
        return min(sum(events or 0 for events in kinds), self.events_skipped)

    @property
    def cut_short(self) -> int:
        """Files that were read in part, where nobody knows how many events are missing."""
        return sum(
            1 for s in self.sources if s["events_skipped"] is None and s["status"] == "partial"
        )

    @property
    def cpu_ranks(self) -> list[int]:
        """Ranks without GPU work. If that is all, times are those of CPU operators."""
        return [r["rank"] for r in self.ranks if r["timeline"] != "gpu"]

    @property
    def is_cpu_run(self) -> bool:
        """Whether no rank recorded GPU work, so that all times are those of CPU operators."""
        return bool(self.ranks) and len(self.cpu_ranks) == len(self.ranks)

    @property
    def missing_ranks(self) -> int:
        """Ranks of the job, by the world size that the traces name, that no file covers."""
        world = max((r["world_size"] or 0 for r in self.ranks), default=0)
        return max(world - len(self.ranks), 0)


def load_inputs(con: duckdb.DuckDBPyConnection) -> Inputs:
    """Read ranks, groups, sources, issues and the verdict on the records."""
    return Inputs(
        ranks=analysis_rows(con, "ranks"),
        groups=analysis_rows(con, "groups"),
        sources=analysis_rows(con, "files"),
        issues=analysis_rows(con, "issues"),
        recording=analysis_rows(con, "recording"),
    )


def losses(inputs: Inputs) -> str:
    """Say in one sentence what was lost at ingest."""
    files = plural(len(inputs.sources), "file")
    failed = sum(1 for s in inputs.sources if s["status"] == "failed")
    parts = []
    lost = inputs.events_skipped - inputs.events_passed_over
    if lost:
        parts.append(f"{_of_all(lost, inputs)} from {files} were not stored")
    if inputs.cut_short:
        parts.append(
            f"{plural(inputs.cut_short, 'file')} could not be read to the end: how many events are"
            " missing there is not known"
        )
    if failed:
        parts.append(f"{plural(failed, 'file')} could not be read at all")
    if inputs.missing_ranks:
        verb = "is" if inputs.missing_ranks == 1 else "are"
        parts.append(
            f"{plural(inputs.missing_ranks, 'rank')} of the job {verb} not in these traces"
        )
    # a report of nsys has more than is of use here: nothing is missing for that
    rest = ""
    if inputs.events_passed_over:
        passed_over = _of_all(inputs.events_passed_over, inputs)
        rest = f"{passed_over} of {files} are of kinds that are not read."
    if parts:
        return " ".join(filter(None, ("Incomplete input: " + "; ".join(parts) + ".", rest)))
    return rest or f"All {plural(inputs.events_read, 'event')} of {files} were stored."


def fitness(inputs: Inputs) -> str:
    """Say in one sentence, or one for each thing, what the records cannot support."""
    if all(row["rank"] is None for row in inputs.recording):
        return "Recording: fit to judge." if inputs.recording else ""
    rows = [
        {**row, "is_unknown": row["verdict"] == "unknown"}
        for row in inputs.recording
        if row["rank"] is not None
    ]
    return f"Recording: {'; '.join(doubts_said(rows))}."


def _of_all(events: int, inputs: Inputs) -> str:
    share = percent(events / inputs.events_read)
    return f"{count(events)} of {plural(inputs.events_read, 'event')} ({share})"


def without_gpu_work(inputs: Inputs) -> str:
    """Say in one sentence which ranks no number counts."""
    return (
        f"No GPU work was recorded on {name_ranks(inputs.cpu_ranks)}, unlike the others: no number"
        f" on this page counts {'it' if len(inputs.cpu_ranks) == 1 else 'them'}."
    )


def inputs_section(inputs: Inputs) -> Section:
    """Lay out ranks, groups, sources and issues."""
    notes = [fitness(inputs), losses(inputs)] if inputs.sources else []
    if inputs.is_cpu_run and any(row["timeline"] == "cpu" for row in inputs.ranks):
        notes.append(
            "No GPU work was recorded: every time on this page is that of CPU operators and of"
            " collectives run by the host."
        )
    elif inputs.cpu_ranks and not inputs.is_cpu_run:
        notes.append(without_gpu_work(inputs))
    return Section(
        anchor="input",
        title="Ranks, groups and input files",
        lead="What was recorded, where, and what did not make it into the database.",
        notes=tuple(filter(None, notes)),
        tables=(
            _hosts_table(inputs) if len(inputs.ranks) > MANY_RANKS else _ranks_table(inputs),
            _groups_table(inputs),
            _files(inputs),
            _issues(inputs),
            _recording(inputs),
        ),
        origins=(
            Origin("Ranks", _RANKS),
            Origin("Process groups", _GROUPS),
            Origin("Input files", _FILES),
            Origin("Issues", "traceweave analyze issues run.duckdb"),
            Origin("Recording", "traceweave analyze recording run.duckdb"),
        ),
        empty="" if inputs.ranks or inputs.sources else "The database holds no input files.",
    )


def _ranks_table(inputs: Inputs) -> Table:
    return rows_table(
        "ranks",
        "Ranks and their environment",
        "ranks",
        {
            "rank": "",
            "host": "",
            "device": "",
            "gpu_name": "GPU",
            "timeline": "",
            "world_size": "",
            "backend": "",
            "nccl_version": "NCCL",
            "recorded_ns": "",
            "windows": "",
            "rank_source": "Rank known from",
        },
        ({**row, "timeline": _TIMELINES[row["timeline"]]} for row in inputs.ranks),
    )


def _hosts_table(inputs: Inputs) -> Table:
    """Return a row for the ranks that share host and environment."""
    alike = _alike(inputs)
    spans = {
        key: [r["recorded_ns"] for r in rows if r["recorded_ns"]] for key, rows in alike.items()
    }
    return Table(
        name="ranks",
        caption="Ranks alike and their environment",
        columns=(
            Column("Host", "name"),
            Column("Ranks", "name"),
            Column("Number", "count"),
            Column("GPU", "name"),
            Column("Timeline", note="What times on this page are measured on for these ranks"),
            Column("World size", "int", note="Ranks of the job as the trace names it"),
            Column("Backend", "name"),
            Column("NCCL", "name"),
            Column("Shortest", "duration", group="Recorded"),
            Column("Longest", "duration", group="Recorded"),
            Column("Rank known from", "name"),
        ),
        rows=tuple(
            (
                key[0],
                folded([r["rank"] for r in rows]),
                len(rows),
                key[1],
                _TIMELINES[rows[0]["timeline"]],
                *key[3:6],
                min(spans[key], default=None),
                max(spans[key], default=None),
                key[6],
            )
            for key, rows in list(alike.items())[:MOST_ROWS]
        ),
        note=first_rows(MOST_ROWS, len(alike), _RANKS),
    )


def _alike(inputs: Inputs) -> dict[tuple[Value, ...], list[Row]]:
    """Put ranks together that share host and environment."""
    keys = ("host", "gpu_name", "timeline", "world_size", "backend", "nccl_version", "rank_source")
    alike: dict[tuple[Value, ...], list[Row]] = {}
    for row in inputs.ranks:
        alike.setdefault(tuple(row[key] for key in keys), []).append(row)
    return alike


def _groups_table(inputs: Inputs) -> Table:
    return rows_table(
        "groups",
        "Process groups that communicate",
        "groups",
        {
            "group_id": "",
            "name": "",
            "description": "",
            "role": "",
            "used_for": "",
            "size": "",
            "ranks": "",
            "ops": "Operations",
            "calls": "",
        },
        inputs.groups[:MOST_ROWS],
        note=first_rows(MOST_ROWS, len(inputs.groups), _GROUPS),
    )


def _files(inputs: Inputs) -> Table:
    rows = sorted(inputs.sources, key=lambda s: (s["status"] == "ok", s["source_id"]))
    return rows_table(
        "sources",
        "Input files",
        "files",
        {
            "path": "File",
            "format": "",
            "producer": "Written by",
            "producer_version": "Version",
            "size_bytes": "",
            "events_read": "",
            "events_stored": "Stored",
            "events_skipped": "Not stored",
            "status": "",
            "message": "",
        },
        rows[:MOST_ROWS],
        note=first_rows(MOST_ROWS, len(rows), _FILES),
    )


def _issues(inputs: Inputs) -> Table:
    return rows_table(
        "issues",
        "What was met while reading",
        "issues",
        {
            "kind": "",
            "events": "",
            "files": "",
            "path": "The first",
            "message": "Meaning",
            "example": "",
        },
        inputs.issues,
    )


def _recording(inputs: Inputs) -> Table:
    rows = [row for row in inputs.recording if row["rank"] is not None]
    return rows_table(
        "recording",
        "What the records cannot support",
        "recording",
        {
            "rank": "",
            "verdict": "",
            "kind": "",
            "count": "Records",
            "total": "Of",
            "message": "Meaning",
            "advice": Column("To avoid it", "name"),
        },
        rows[:MOST_ROWS],
        note=first_rows(MOST_ROWS, len(rows), "traceweave analyze recording run.duckdb"),
    )
