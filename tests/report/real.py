"""Reports of real and simulated runs, in files."""

from __future__ import annotations

from pathlib import Path

import traceweave
from traceweave.simulate import Config, simulate, write_kineto


def page_of(traces: Path, folder: Path) -> Path:
    """Ingest `traces` and write their report into `folder`."""
    traceweave.ingest([traces], folder / "run.duckdb")
    with traceweave.open(folder / "run.duckdb") as run:
        return run.report(folder / "run.html")


def simulated_page(folder: Path, ranks: int) -> Path:
    """Write the report of a simulated run on eight ranks a host, of which rank 5 is slow."""
    config = Config(
        ranks=ranks,
        hosts=max(ranks // 8, 1),
        steps=3,
        layers=2,
        straggler={5: 400_000},
        clock_offset_ns=400_000,
    )
    (folder / "traces").mkdir()
    write_kineto(simulate(config), folder / "traces")
    return page_of(folder / "traces", folder)
