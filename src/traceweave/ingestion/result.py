"""What an ingest did, for the caller."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from traceweave.sources.find import PassedOver

if TYPE_CHECKING:
    from traceweave.weave import WeaveSummary


@dataclass(frozen=True)
class SourceResult:
    """The outcome of one file."""

    path: Path
    format: str
    ranks: tuple[int, ...]
    size_bytes: int
    events_read: int
    events_stored: int
    status: str
    """'ok', 'partial' or 'failed'."""
    message: str | None = None
    cut_short: bool = False
    """Whether it is not known how many events are missing."""


@dataclass(frozen=True)
class IngestResult:
    """What an ingest did."""

    database: Path
    """The database, or the run folder."""
    sources: tuple[SourceResult, ...]
    passed_over: tuple[PassedOver, ...]
    """Files that are not traces, or belong to another run."""
    notes: tuple[str, ...]
    """Assumptions, for the user to check."""
    recording: tuple[str, ...]
    """What the records cannot support; nothing if they are fit to judge."""
    weave: WeaveSummary
    size_bytes: int
    """Of what was written."""
    seconds: float
    """Wall time."""

    @property
    def ok(self) -> bool:
        """Every file that should be a trace was read to its end."""
        return all(source.status == "ok" for source in self.sources)
