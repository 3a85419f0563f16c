"""Ingest: traces of every rank into one database, woven on one clock, written in one stroke."""

from __future__ import annotations

from traceweave.ingestion.load import Progress
from traceweave.ingestion.result import IngestResult, SourceResult
from traceweave.ingestion.run import ingest

__all__ = ["IngestResult", "Progress", "SourceResult", "ingest"]
