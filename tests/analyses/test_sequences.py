import pytest

from tests.analyses.builders import Builder, rows


def _stream(build: Builder, names: str, length: int = 10, gap: int = 2, stream: int = 7) -> None:
    """Kernels named by letters one after another; C is a collective."""
    for number, name in enumerate(names):
        start = number * (length + gap)
        category = "communication" if name == "C" else "compute"
        build.gpu(0, (start, start + length), category, name=name, stream=stream)


def test_every_column(build: Builder) -> None:
    build.rank(0)
    _stream(build, "abcabcab")
    got = rows(build.con, "sequences", min_count=2)
    same = {
        "count": 2, "total_ns": 60, "mean_ns": 30.0, "gap_total_ns": 8, "gap_mean_ns": 4.0,
        "ranks": 1, "streams": 1,
    }  # fmt: skip
    assert got == [
        {"kernels": [*kernels], "first_follows": follows, **same}
        for kernels, follows in (("abc", 2 / 3), ("bca", 2 / 3), ("cab", 1.0))
    ]


@pytest.mark.parametrize(
    ("length", "want"),
    [
        (2, [("ab", 2), ("bc", 1), ("cd", 1), ("de", 1), ("ef", 1), ("fa", 1)]),
        (5, [("abcde", 1), ("bcdef", 1), ("cdefa", 1), ("defab", 1)]),
        (6, [("abcdef", 1), ("bcdefa", 1), ("cdefab", 1)]),
    ],
)
def test_the_length_is_a_parameter(
    build: Builder, length: int, want: list[tuple[str, int]]
) -> None:
    build.rank(0)
    _stream(build, "abcdefab")
    got = rows(build.con, "sequences", length=length, min_count=1)
    assert [("".join(row["kernels"]), row["count"]) for row in got] == want


def test_collectives_and_other_streams_break_a_sequence(build: Builder) -> None:
    build.rank(0)
    _stream(build, "abCab")
    _stream(build, "b", stream=8)
    got = rows(build.con, "sequences", length=2, min_count=1)
    assert [("".join(row["kernels"]), row["count"]) for row in got] == [("ab", 2)]


def test_only_short_kernels_are_worth_fusing(build: Builder) -> None:
    build.rank(0)
    _stream(build, "ab", length=10)
    assert len(rows(build.con, "sequences", length=2, min_count=1, max_kernel_ns=10)) == 1
    assert rows(build.con, "sequences", length=2, min_count=1, max_kernel_ns=9) == []
    assert rows(build.con, "sequences", length=2, min_count=2) == []
