"""The public times of millions of rows, against the formula in its plain form."""

from pathlib import Path

import duckdb
import pytest

from tests.analyses.builders import Builder

BY_SPANS = Path(__file__).with_name("by_spans.sql").read_text(encoding="utf-8")


@pytest.mark.parametrize("pieces", [0, 1, 4])
def test_each_moment_is_aligned_by_the_clock_that_holds_where_its_op_starts(
    empty_run: duckdb.DuckDBPyConnection, pieces: int
) -> None:
    build = Builder(empty_run)
    for rank in (0, 1):
        build.rank(rank, offset_ns=100 * rank, drift_ppm=50.0)
        for at in range(0, 100_000, 7_001):
            launch = build.launch(rank, (at - 3_000, at - 100))
            build.gpu(rank, (at, at + 6_000), launch=launch)
    build.write()
    empty_run.execute(
        "INSERT INTO clocks SELECT clocks.* REPLACE (20_000 * i AS from_local_ns,"
        " 1_000 * i + rank AS offset_ns, -30.0 * i AS drift_ppm, 777 * i AS reference_local_ns)"
        " FROM clocks CROSS JOIN range(1, $pieces) AS pieces(i)",
        {"pieces": pieces},
    )
    if not pieces:
        empty_run.execute("DELETE FROM clocks")
    for table in ("gpu_ops", "host_ops"):
        want = empty_run.execute(BY_SPANS.format(table=table)).fetchall()
        views = (table, "device_ops") if table == "gpu_ops" else (table,)
        for view in views:
            got = empty_run.execute(f"SELECT op_id, start_ns, end_ns FROM {view} ORDER BY ALL")
            assert got.fetchall() == want
    launched = empty_run.execute("SELECT launch_op_id, launch_start_ns, launch_end_ns FROM gpu_ops")
    assert sorted(launched.fetchall()) == want


def test_local_times_alone_need_no_clock(empty_run: duckdb.DuckDBPyConnection) -> None:
    """DuckDB leaves the join with the clocks out of sums that need none."""
    for view, column in (("host_ops", "duration_ns"), ("host_ops", "start_local_ns")):
        (plan,) = empty_run.execute(f"EXPLAIN SELECT sum({column}) FROM {view}").fetchall()
        assert "clocks" not in plan[1]
    (plan,) = empty_run.execute("EXPLAIN SELECT sum(start_ns) FROM host_ops").fetchall()
    assert "clocks" in plan[1]
