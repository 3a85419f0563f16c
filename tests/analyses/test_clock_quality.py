from tests.analyses.builders import Builder, rows, told


def test_a_collective_that_ends_before_another_rank_began_is_a_violation(build: Builder) -> None:
    # the all_reduce of rank 0 ends at 30, rank 1 begins at 50: 20 ns of impossibility, and 35 of
    # the last one; the broadcast may do that, and the second all_reduce is in order
    build.rank(0, residual_ns=5)
    build.rank(1, residual_ns=None, offset_ns=40)
    build.collective({0: (0, 30), 1: (10, 30)})
    build.collective({0: (100, 130), 1: (60, 100)})
    build.collective({0: (200, 230), 1: (250, 260)}, op="broadcast")
    build.collective({0: (300, 310), 1: (305, 310)})
    shared = {
        "from_local_ns": None, "reference_rank": 0, "drift_ppm": 0.0, "bound_ns": None,
        "residual_p50_ns": None, "method": "test", "instances": 3, "disagreement_max_ns": None,
    }  # fmt: skip
    assert rows(build.con, "clock_quality") == [
        shared
        | {
            "rank": 0, "offset_ns": 0, "residual_p95_ns": 5, "anchors": 10, "status": "aligned",
            "violations": 2, "violation_max_ns": 35, "disagreements": 0,
        },
        shared
        | {
            "rank": 1, "offset_ns": 40, "residual_p95_ns": None, "anchors": 0,
            "status": "wall clock", "violations": 0, "violation_max_ns": None,
            "disagreements": None,
        },
    ]  # fmt: skip


def test_a_wait_that_the_clocks_and_the_durations_tell_differently_is_counted(
    build: Builder,
) -> None:
    # rank 1 arrives last at 100 and is done at 150, rank 0 only at 400: its wait is 100 by the
    # clocks, 350 by the durations, and residuals explain 2 x 100 of the 250 between them
    build.rank(0, residual_ns=100)
    build.rank(1, residual_ns=100)
    build.collective({0: (0, 400), 1: (100, 150)})
    build.collective({0: (500, 640), 1: (600, 650)})
    found = [
        (r["disagreements"], r["disagreement_max_ns"]) for r in rows(build.con, "clock_quality")
    ]
    assert found == [(1, 250), (0, None)]


def test_the_largest_residual_of_a_clock_and_the_largest_disagreement_count(build: Builder) -> None:
    """Waits of rank 0 are 100 by the clocks: 350 and 450 by the durations, 250 and 350 apart."""
    build.rank(0, residual_ns=100)
    build.rank(1, residual_ns=100)
    build.collective({0: (0, 400), 1: (100, 150)})
    build.collective({0: (1000, 1500), 1: (1100, 1150)})
    columns = "rank disagreements disagreement_max_ns"
    assert told(build.con, "clock_quality", columns) == [(0, 2, 350), (1, 0, None)]
    # 100 + 160 explain 250
    build.con.execute(
        "INSERT INTO clocks SELECT * REPLACE (500 AS from_local_ns, 160 AS residual_p95_ns)"
        " FROM clocks WHERE rank = 1"
    )
    again = told(build.con, "clock_quality", columns)
    assert again == [(0, 1, 350), (1, 0, None), (1, 0, None)]


def test_a_rank_whose_clock_nobody_looked_at_is_unaligned(build: Builder) -> None:
    build.rank(0)
    build.con.execute("DELETE FROM clocks")
    columns = "rank status offset_ns anchors"
    assert told(build.con, "clock_quality", columns) == [(0, "unaligned", None, 0)]


def test_every_piece_of_a_clock_is_a_row(build: Builder) -> None:
    build.rank(0)
    build.con.execute("INSERT INTO clocks SELECT * REPLACE (500 AS from_local_ns) FROM clocks")
    assert [row["from_local_ns"] for row in rows(build.con, "clock_quality")] == [None, 500]
