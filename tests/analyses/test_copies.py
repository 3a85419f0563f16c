import pytest

from tests.analyses.builders import Builder, rows, told
from tests.marks import first_at_once


def _copy(build: Builder, at: tuple[int, int], name: str, size: int | None, **more: object) -> None:
    kind = {"copy_kind": name.split()[1][:4], "bytes": size}
    build.gpu(0, at, "memory", name=name, stream=9, **{**kind, **more})


def test_every_column_of_pinned_and_pageable_copies(build: Builder) -> None:
    # compute   0..100            300..400
    # copies      50..150 pinned  300..350 pinned
    build.rank(0)
    build.gpu(0, (0, 100))
    build.gpu(0, (300, 400))
    _copy(build, (50, 150), "Memcpy HtoD (Pinned -> Device)", 1000)
    _copy(build, (300, 350), "Memcpy HtoD (Pinned -> Device)", 100)
    _copy(build, (500, 510), "Memcpy HtoD (Pageable -> Device)", 10)
    pinned, pageable = rows(build.con, "copies")
    assert pinned == {
        "rank": 0, "kind": "memcpy", "copy_kind": "HtoD", "host_memory": "pinned",
        "interval_start_ns": 50, "count": 2, "bytes": 1100, "bytes_max": 1000, "time_ns": 150,
        "min_ns": 50, "p50_ns": 50, "max_ns": 100, "rate_gbps": 1100 / 150, "rate_p50_gbps": 2.0,
        "rate_max_gbps": 10.0, "compute_overlap_ns": 100, "hidden_fraction": 100 / 150,
        "note": None,
    }  # fmt: skip
    assert (pageable["host_memory"], pageable["compute_overlap_ns"]) == ("pageable", 0)


@first_at_once()
@pytest.mark.parametrize(
    ("name", "args", "want"),
    [
        ("Memcpy DtoH (Device -> Pageable)", None, "pageable"),
        ("Memcpy DtoH", '{"source": "device", "destination": "pinned"}', "pinned"),
        ("Memcpy HtoD", '{"source": "managed", "destination": "device"}', "managed"),
        ("Memcpy DtoD (Device -> Device)", None, None),
    ],
)
def test_the_kind_of_host_memory(
    build: Builder, name: str, args: str | None, want: str | None
) -> None:
    build.rank(0)
    _copy(build, (0, 10), name, 10, args=args)
    assert told(build.con, "copies", "host_memory") == [(want,)]


def test_compute_on_several_streams_counts_once(build: Builder) -> None:
    build.rank(0)
    for stream, at in enumerate(((0, 60), (10, 20), (15, 70), (90, 200))):
        build.gpu(0, at, stream=stream)
    _copy(build, (5, 100), "Memcpy DtoD", 10)
    _copy(build, (30, 40), "Memcpy DtoD", 10)
    _copy(build, (72, 80), "Memcpy DtoD", 10)
    assert told(build.con, "copies", "time_ns compute_overlap_ns") == [(113, 65 + 10 + 10)]


def test_the_rate_over_time_spreads_a_copy_over_the_stretches_it_reaches(build: Builder) -> None:
    # stretches of 100 from the first copy: 20..120, 120..220, 220..320
    build.rank(0)
    build.gpu(0, (100, 130))
    _copy(build, (20, 30), "Memcpy DtoD", 7)
    _copy(build, (70, 270), "Memcpy DtoD", 1001)
    _copy(build, (220, 220), "Memcpy DtoD", 5)
    got = sorted(rows(build.con, "copies", interval_ns=100), key=lambda r: r["interval_start_ns"])
    names = ("interval_start_ns", "count", "bytes", "time_ns", "compute_overlap_ns")
    assert [tuple(row[name] for name in names) for row in got] == [
        (20, 2, 7 + 250, 60, 20),
        (120, 0, 500, 100, 10),
        (220, 1, 251 + 5, 50, 0),
    ]
    [whole] = rows(build.con, "copies")
    assert sum(row["bytes"] for row in got) == whole["bytes"]
    assert sum(row["time_ns"] for row in got) == whole["time_ns"]
    assert sum(row["compute_overlap_ns"] for row in got) == whole["compute_overlap_ns"]


def test_without_bytes_there_is_no_rate(build: Builder) -> None:
    build.rank(0)
    _copy(build, (0, 10), "Memcpy HtoD", None)
    [row] = rows(build.con, "copies")
    assert (row["bytes"], row["rate_gbps"], row["rate_max_gbps"]) == (None, None, None)
    assert row["note"] == "the trace does not say how many bytes: no rates"


def test_a_copy_without_length_has_no_rate(build: Builder) -> None:
    build.rank(0)
    _copy(build, (5, 5), "Memcpy HtoD", 8)
    assert told(build.con, "copies", "bytes rate_gbps hidden_fraction") == [(8, None, None)]
