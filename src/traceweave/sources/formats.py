"""The formats that traceweave reads. A new one is a module beside this one and a line here."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Protocol, runtime_checkable

import duckdb

from traceweave.sources import (
    captured,
    flight_recorder,
    kineto,
    nccl_inspector,
    nccl_logs,
    nsys,
)
from traceweave.sources.model import File, Loaded, Report, Step, Trace


class Format(Protocol):
    """What a format module offers."""

    def recognize(self, path: Path, head: bytes, /) -> bool:
        """Tell whether a file with these first bytes (unpacked if it is gzip) is of this format."""

    def probe(self, path: Path, trust_packed: bool, with_times: bool, /) -> Trace:
        """Return what is in the file, without parsing all its events.

        Without `with_times` the trace may lack its time range. Unless `trust_packed`, a gzip file
        that unpacks to an absurd size is refused, here or by `load` (Trace.most_bytes).
        """

    def load(
        self, con: duckdb.DuckDBPyConnection, trace: Trace, source_id: int, report: Report, /
    ) -> Loaded:
        """Fill the base tables of `con` from the file. If it raises, rows of that source_id may be
        there already; the caller removes them.
        """


@runtime_checkable
class TakesSeveral(Format, Protocol):
    """A format that can load several files at a time."""

    def load_together(
        self, con: duckdb.DuckDBPyConnection, files: Sequence[File], /
    ) -> list[Loaded]:
        """Fill the base tables of `con` from files that have no rank in common, in fewer statements
        than one by one. If one fails, all do.
        """


@runtime_checkable
class MarksSteps(Format, Protocol):
    """A format of which the first steps can be read alone: `load` heeds Trace.beginning."""

    def steps(self, trace: Trace, /) -> Iterator[Step]:
        """Yield the steps that the file marks, reading no further than they are asked for."""


def known_formats() -> tuple[Format, ...]:
    """Return the formats in the order in which they are asked."""
    return (nsys, kineto, captured, flight_recorder, nccl_inspector, nccl_logs)
