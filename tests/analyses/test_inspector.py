"""What Inspector measured beside what the traces say, worked out by hand."""

import pytest

from tests.analyses.builders import Builder, rows, told


def _inspected(build: Builder, lengths_us: dict[int, list[int]], bytes_: int = 4000) -> None:
    """Inspector's lengths per rank of two, the n-th of each the same operation."""
    for rank, lengths in lengths_us.items():
        build.con.execute(
            "INSERT INTO base.nccl_communicators BY NAME SELECT 9 AS source_id, $rank AS number,"
            " 'h' AS host, 100 + $rank AS pid, $rank AS rank, '0xa' AS identity, $rank AS place,"
            " 2 AS size",
            {"rank": rank},
        )
        for nth, length in enumerate(lengths):
            build.con.execute(
                "INSERT INTO base.nccl_inspected BY NAME SELECT 9 AS source_id,"
                " $rank * 100 + $nth AS record, $rank AS number, 'all_reduce' AS op,"
                " 'AllReduce' AS name, FALSE AS is_p2p, $nth AS nth, $bytes AS bytes,"
                " $length * 1000 AS duration_ns, 'kernel_gpu' AS timing, 1.5 AS busbw_gbps",
                {"rank": rank, "nth": nth, "bytes": bytes_, "length": length},
            )


def test_both_measure_the_same(build: Builder) -> None:
    build.world(2)
    build.collective({0: (0, 20_000), 1: (10_000, 20_000)}, bytes_=4000)
    _inspected(build, {0: [20, 30, 8], 1: [10, 16]})
    [row] = rows(build.con, "inspector")
    assert (row["op"], row["group_id"], row["bytes"]) == ("all_reduce", 0, 4000)
    assert (row["records"], row["calls"], row["instances"]) == (5, 2, 2)
    # of 8, 10, 16, 20, 30 and of 10, 20
    assert (row["inspector_p50_ns"], row["duration_p50_ns"], row["ratio"]) == (16_000, 10_000, 1.6)
    # the shortest of (20, 10) and of (30, 16): the third was seen on one rank only
    assert (row["inspector_shortest_p50_ns"], row["transfer_min_p50_ns"]) == (10_000, 10_000)
    assert row["inspector_busbw_gbps"] == row["busbw_free_p50_gbps"] == pytest.approx(0.4)
    assert (row["stated_busbw_p50_gbps"], row["joined"], row["note"]) == (1.5, 0, None)


def test_what_the_traces_lack_is_said(build: Builder) -> None:
    build.world(2)
    build.collective({0: (0, 20_000), 1: (10_000, 20_000)}, bytes_=4000)
    _inspected(build, {0: [20], 1: [10]}, bytes_=8000)
    columns = "calls ratio note"
    assert told(build.con, "inspector", columns) == [(0, None, "the traces have no such operation")]
