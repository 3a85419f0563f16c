"""The shared macros against oracles that count nanoseconds one by one."""

from collections.abc import Iterable, Iterator
from itertools import combinations
from math import ceil

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.analyses.builders import rows
from tests.marks import nightly
from traceweave.analyses.runner import provide
from traceweave.store.empty import create_tables

Op = tuple[int, str, int, int]
"""Rank, category, start and end."""

COLUMNS = {
    "compute_ns": {"compute"}, "comm_ns": {"communication"}, "memory_ns": {"memory"},
    "busy_ns": {"compute", "communication"}, "compute_memory_ns": {"compute", "memory"},
    "comm_memory_ns": {"communication", "memory"}, "any_ns": {"compute", "communication", "memory"},
}  # fmt: skip

ops = st.lists(
    st.builds(
        lambda rank, category, start, length: (rank, category, start, start + length),
        st.integers(0, 1),
        st.sampled_from(["compute", "communication", "memory"]),
        st.integers(0, 30),
        st.integers(0, 12),
    ),
    max_size=12,
)
many_ranks = st.lists(ops, min_size=5, max_size=5).map(
    lambda pairs: [(2 * i + rank, *op) for i, pair in enumerate(pairs) for rank, *op in pair]
)
"""Five times `ops`, of ranks of their own: as many examples in one query."""

edges = st.sets(st.tuples(st.integers(0, 1), st.integers(-2, 45)), max_size=8)
interval = st.tuples(st.integers(0, 20), st.integers(0, 20)).map(
    lambda pair: (min(pair), max(pair))
)

quick = settings(max_examples=30)


def _covered(intervals: Iterable[tuple[int, int]]) -> set[int]:
    return {moment for start, end in intervals for moment in range(start, end)}


@pytest.fixture(scope="module")
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as con:
        provide(con, "tw_shared_ns tw_added_ns tw_overhang_ns tw_busy_until tw_percentile")
        yield con


def _busy(con: duckdb.DuckDBPyConnection, work: list[Op], at: set[tuple[int, int]]) -> set[object]:
    con.execute(
        "CREATE OR REPLACE TABLE work (rank INT, category TEXT, start_ns BIGINT, end_ns BIGINT)"
    )
    con.execute("CREATE OR REPLACE TABLE moments (rank INT, at_ns BIGINT)")
    if work:
        con.executemany("INSERT INTO work VALUES (?, ?, ?, ?)", work)
    if at:
        con.executemany("INSERT INTO moments VALUES (?, ?)", list(at))
    columns = ", ".join(COLUMNS)
    return set(
        con.execute(
            "WITH marked AS (SELECT * FROM moments)"
            f" SELECT rank, at_ns, {columns} FROM tw_busy_until('work', 'marked')"
        ).fetchall()
    )


@quick
@given(ops, edges)
def test_busy_until_is_the_length_of_the_unions_up_to_each_edge(
    con: duckdb.DuckDBPyConnection, work: list[Op], at: set[tuple[int, int]]
) -> None:
    want = {
        (
            rank,
            until,
            *(
                len(
                    _covered(
                        (start, min(end, until))
                        for of, category, start, end in work
                        if of == rank and category in kinds
                    )
                )
                for kinds in COLUMNS.values()
            ),
        )
        for rank, until in at
    }
    assert _busy(con, work, at) == want


def test_times_too_far_apart_to_stand_on_one_line_are_measured_all_the_same(
    con: duckdb.DuckDBPyConnection,
) -> None:
    """As an op at time 0 in a trace of this century makes them, on several ranks."""
    late = 4_200_000_000_000_000_000
    work = [(rank, "compute", start, start + 10) for rank in range(3) for start in (0, late)]
    got = _busy(con, work, {(rank, late + 4) for rank in range(3)})
    assert got == {(rank, late + 4, 14, 0, 0, 14, 14, 0, 14) for rank in range(3)}


@nightly
def test_gaps_are_what_no_op_of_the_device_covers() -> None:
    with duckdb.connect() as con:
        create_tables(con)

        @settings(max_examples=8)
        @given(many_ranks.filter(bool))
        def check(work: list[Op]) -> None:
            con.execute("TRUNCATE base.gpu_ops; TRUNCATE base.rank_sources")
            got, idle = _gaps_and_idle_time(con, work)
            want = set()
            for rank in {of for of, *_ in work}:
                mine = [(start, end) for of, _, start, end in work if of == rank]
                span = range(min(start for start, _ in mine), max(end for _, end in mine))
                want |= {(rank, moment) for moment in set(span) - _covered(mine)}
                assert idle[rank] == len(set(span) - _covered(mine))
            assert got == want

        check()


def _gaps_and_idle_time(
    con: duckdb.DuckDBPyConnection, work: list[Op]
) -> tuple[set[tuple[int, int]], dict[int, int]]:
    con.executemany(
        "INSERT INTO base.gpu_ops (source_id, kind, class, name, device, stream,"
        " rank, op_id, category, start_local_ns, duration_ns)"
        " VALUES (0, 'kernel', 'other', 'k', 0, 7, ?, ?, ?, ?, ?)",
        [
            (rank, number, category, start, end - start)
            for number, (rank, category, start, end) in enumerate(work)
        ],
    )
    con.execute(
        "INSERT INTO base.rank_sources (rank, source_id, rank_source, format)"
        " SELECT DISTINCT rank, rank, 'test', 'kineto' FROM base.gpu_ops"
    )
    got = {
        (row["rank"], moment)
        for row in rows(con, "gaps", window="span", min_gap_ns=1)
        for moment in range(row["start_ns"], row["end_ns"])
    }
    return got, {row["rank"]: row["idle_ns"] for row in rows(con, "breakdown", window="span")}


@quick
@given(interval, interval)
def test_shared_and_added_lengths(
    con: duckdb.DuckDBPyConnection, one: tuple[int, int], other: tuple[int, int]
) -> None:
    shared, added, first, overhang = con.execute(
        "SELECT tw_shared_ns($a, $b, $c, $d), tw_added_ns($c, $d, $b),"
        " tw_added_ns($a, $b, NULL), tw_overhang_ns($b, $c)",
        {"a": one[0], "b": one[1], "c": other[0], "d": other[1]},
    ).fetchall()[0]
    assert shared == len(_covered([one]) & _covered([other]))
    assert first == one[1] - one[0]
    # what comes in the order of starts adds what the ones before it do not reach
    assert added == len(_covered([other]) - set(range(-1, one[1])))
    assert overhang == max(one[1] - other[0], 0)


@quick
@given(st.lists(st.integers(-50, 50), min_size=1), st.sampled_from([0.01, 0.5, 0.95, 0.99, 1.0]))
def test_a_percentile_is_the_nearest_rank(
    con: duckdb.DuckDBPyConnection, values: list[int], fraction: float
) -> None:
    [(got,)] = con.execute(
        f"SELECT tw_percentile(v, {fraction}) FROM (SELECT unnest($1) AS v)", [values]
    ).fetchall()
    assert got == sorted(values)[ceil(fraction * len(values)) - 1]


def test_the_columns_name_every_combination_once() -> None:
    kinds = ("compute", "communication", "memory")
    every = {frozenset(c) for size in (1, 2, 3) for c in combinations(kinds, size)}
    assert {frozenset(kinds) for kinds in COLUMNS.values()} == every
