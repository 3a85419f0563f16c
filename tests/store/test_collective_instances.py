"""collective_instances: who came last, and whether the clocks can tell, by hand."""

import duckdb

from tests.analyses.builders import Builder
from tests.cases import cases
from tests.marks import first_at_once

LAST = "SELECT last_rank, last_delay_ns, resolution_ns, last_is_known FROM collective_instances"


@cases
def test_the_clocks_tell_who_came_last_down_to_their_resolution(
    empty_run: duckdb.DuckDBPyConnection,
    starts: tuple[int, ...],
    residuals: tuple[int | None, ...],
    last: tuple[int, int | None, int | None, bool],
) -> None:
    build = Builder(empty_run)
    for rank, residual in enumerate(residuals):
        build.rank(rank, residual_ns=residual)
    build.collective({rank: (start, 100) for rank, start in enumerate(starts)})
    assert build.con.execute(LAST).fetchall() == [last]


@first_at_once(3)
@cases
def test_who_waits_for_whom_depends_on_the_root(
    empty_run: duckdb.DuckDBPyConnection,
    op: str,
    starts: tuple[int, ...],
    waits: tuple[int, ...],
    instance: tuple[int, int, int, int, int, bool],
) -> None:
    build = Builder(empty_run)
    build.world(3)
    place = None if op == "all_reduce" else 1
    at = {rank: (start, 100) for rank, start in enumerate(starts)}
    build.collective(at, op, each={rank: {"root_place": place} for rank in at})
    found = build.con.execute("SELECT wait_ns FROM collective_waits ORDER BY rank").fetchall()
    assert [wait for (wait,) in found] == list(waits)
    assert build.con.execute(
        "SELECT last_rank, awaited_ns, waiting_ranks, last_delay_ns, wait_total_ns, last_is_known"
        " FROM collective_instances"
    ).fetchall() == [instance]


def test_a_root_that_ranks_do_not_agree_on_is_none(empty_run: duckdb.DuckDBPyConnection) -> None:
    build = Builder(empty_run)
    build.world(2)
    build.collective(
        {0: (0, 100), 1: (40, 100)}, "broadcast", each={r: {"root_place": r} for r in range(2)}
    )
    assert build.con.execute("SELECT root, last_rank FROM collective_instances").fetchall() == [
        (None, 1)
    ]


def test_every_rank_has_a_span_of_its_clock(empty_run: duckdb.DuckDBPyConnection) -> None:
    build = Builder(empty_run)
    build.rank(0, offset_ns=7, drift_ppm=2.0)
    build.rank(1)
    build.con.execute("DELETE FROM clocks WHERE rank = 1")
    empty_run.execute(
        "INSERT INTO clocks SELECT clocks.* REPLACE (1000 AS from_local_ns, 9 AS offset_ns)"
        " FROM clocks"
    )
    spans = empty_run.execute(
        "SELECT rank, from_local_ns, until_local_ns, offset_ns, drift_ppm FROM clock_spans"
        " ORDER BY ALL"
    ).fetchall()
    never, forever = -9223372036854775807, 9223372036854775807
    assert spans == [
        (0, never, 1000, 7, 2.0),
        (0, 1000, forever, 9, 2.0),
        (1, never, forever, 0, 0.0),
    ]
    # one second after the reference 2 ppm are 2 us
    aligned = empty_run.execute("SELECT aligned_ns(1_000_000_500, 7, 2.0, 500)").fetchone()
    assert aligned == (1_000_002_507,)
