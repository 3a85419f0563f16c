"""Simulated traffic in a database of its own."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import duckdb

from tests.tables import empty_database
from traceweave.store.empty import create_tables
from traceweave.weave import weave
from traceweave_simulator.traffic import Traffic, simulate_traffic
from traceweave_simulator.traffic_jobs import Job
from traceweave_simulator.traffic_tables import store_traffic


@contextmanager
def woven(
    job: Job, without: Sequence[int] = (), change: str | None = None
) -> Iterator[tuple[duckdb.DuckDBPyConnection, Traffic]]:
    """Yield a job's calls, matched and on one clock, and the truth about them; those of the ranks
    `without` were not recorded. A statement may change what is stored before."""
    run = simulate_traffic(job)
    with empty_database() as con:
        create_tables(con)
        store_traffic(con, run)
        for table in ("collective_calls", "gpu_ops"):
            con.execute(f"DELETE FROM base.{table} WHERE list_contains(?, rank)", [list(without)])
        if change:
            con.execute(change)
        weave(con)
        yield con, run
