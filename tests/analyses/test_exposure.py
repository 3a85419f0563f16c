"""The arithmetic behind all analyses of parallelism, against counting nanosecond by nanosecond."""

from collections.abc import Iterator

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.analyses.builders import Builder, Interval
from tests.marks import nightly
from traceweave.analyses.runner import provide
from traceweave.store.empty import create_tables

RELEASE = 5

intervals = st.lists(
    st.tuples(st.integers(0, 30), st.integers(0, 12)).map(lambda i: (i[0], i[0] + i[1])), max_size=8
)


def _counted(compute: list[Interval], at: Interval) -> tuple[int, int]:
    start, end = at
    busy = {ns for s, e in compute for ns in range(s, e)}
    exposed = [ns for ns in range(start, end) if ns not in busy]
    begun = [e for s, e in compute if s < end]
    after = [s for s, _ in compute if s >= end]
    blocked = 0
    if after and min(after) - end <= RELEASE:
        while end - blocked > max([start, *begun]):
            blocked += 1
    return len(exposed), blocked


@pytest.fixture(scope="module")
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as con:
        create_tables(con)
        con.execute("SET asof_loop_join_threshold = 0")
        build = Builder(con)
        build.rank(0)
        build.write()
        provide(con, "tw_collective_exposure")
        yield con


@nightly
@settings(max_examples=40, deadline=None)
@given(compute=intervals, calls=intervals)
def test_exposed_and_blocked_time(
    con: duckdb.DuckDBPyConnection, compute: list[Interval], calls: list[Interval]
) -> None:
    con.execute("DELETE FROM base.gpu_ops; DELETE FROM base.collective_calls")
    con.execute("DELETE FROM base.matches")
    build = Builder(con)
    for at in compute:
        build.gpu(0, at)
    for at in calls:
        build.collective({0: at})
    build.write()
    statement = f"FROM tw_collective_exposure('collectives', {RELEASE}) ORDER BY call_id"
    got = [row[1:3] for row in con.execute(statement).fetchall()]
    assert got == [_counted(compute, at) for at in calls]
