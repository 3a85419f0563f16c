"""Reports of real and simulated runs, in files."""

from pathlib import Path

import traceweave
from traceweave_simulator import Config, simulate, write_nsys


def report_on(database: Path, page: Path) -> Path:
    """Write the report on `database` to `page`."""
    with traceweave.open(database) as run:
        return run.report(page)


def simulated_page(folder: Path, page: Path, ranks: int) -> Path:
    """Write the report of a simulated run on sixteen ranks a host, of which rank 5 is slow.

    There is one nsys report per host; a Kineto trace per rank would take longer to read."""
    config = Config(
        ranks=ranks, hosts=max(ranks // 16, 1), steps=3, layers=2, straggler={5: 400_000},
        clock_offset_ns=400_000,
    )  # fmt: skip
    write_nsys(simulate(config), folder / "traces", ranks_per_report=16)
    traceweave.ingest(folder / "traces", folder / "run.duckdb")
    return report_on(folder / "run.duckdb", page)
