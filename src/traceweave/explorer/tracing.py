"""A stretch of the run as a trace for Perfetto, aligned as `traceweave export` writes it."""

from __future__ import annotations

import tempfile
from pathlib import Path

from traceweave.explorer.run import Explored
from traceweave.explorer.views import Stretch
from traceweave.export import export


def trace_of(run: Explored, stretch: Stretch, ranks: list[int], *, host: bool) -> bytes:
    """Return a trace of what runs in a stretch of time on some ranks, with host threads or not."""
    with tempfile.TemporaryDirectory(prefix="traceweave-") as folder, run.cursor() as con:
        path = Path(folder) / "selection.pftrace"
        export(
            con,
            path,
            "perfetto",
            ranks=ranks,
            start=run.origin_ns + stretch.from_ns,
            end=run.origin_ns + stretch.until_ns,
            host=host,
        )
        return path.read_bytes()
