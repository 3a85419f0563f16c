"""collective_instances: who came last, and whether the clocks can tell, by hand."""

from __future__ import annotations

import duckdb
import pytest

from tests.analyses.builders import Builder

LAST = "SELECT last_rank, last_delay_ns, resolution_ns, last_is_known FROM collective_instances"


@pytest.mark.parametrize(
    ("starts", "residuals", "last"),
    [
        # 30 later than the last but one, and no clock is off by more than 20
        ((0, 10, 40), (5, 20, 10), (2, 30, 20, True)),
        ((0, 10, 40), (5, 30, 10), (2, 30, 30, True)),
        ((0, 10, 40), (5, 31, 10), (2, 30, 31, False)),
        # of a clock that nothing is known of nothing can be told
        ((0, 10, 40), (5, None, 10), (2, 30, None, False)),
        # two arrive together: the lower rank is named, and neither is known to be last
        ((0, 40, 40), (0, 0, 0), (1, 0, 0, False)),
        ((40, 40), (0, 0), (0, 0, 0, False)),
        ((40,), (0,), (0, None, 0, False)),
    ],
)
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
