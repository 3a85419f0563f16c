import pytest

from tests.analyses.builders import Builder, rows, told


@pytest.fixture
def two_ranks(build: Builder) -> Builder:
    """gemm takes 10, 20, 30 on rank 0 and 40 twice on rank 1; all_reduce 100; a copy."""
    build.ranks(2)
    for length in (10, 20, 30):
        build.gpu(0, (0, length), name="gemm_a", **{"class": "gemm"}, step=1)
    for length in (40, 40):
        build.gpu(1, (0, length), name="gemm_a", **{"class": "gemm"}, step=2)
    build.gpu(1, (0, 8), name="gemm_b", **{"class": "gemm"}, step=2)
    build.gpu(0, (0, 100), "communication", name="all_reduce", **{"class": "collective"}, step=1)
    build.gpu(0, (0, 1000), "memory", name="Memcpy HtoD", step=1)
    return build


def test_every_column_by_name(two_ranks: Builder) -> None:
    gemm, all_reduce, other = rows(two_ranks.con, "kernels")
    assert gemm.pop("stddev_ns") == pytest.approx(13.038, abs=1e-3)
    assert gemm == {
        "kernel": "gemm_a", "class": "gemm", "category": "compute", "count": 5, "total_ns": 140,
        "mean_ns": 28.0, "min_ns": 10, "p50_ns": 30, "p95_ns": 40, "p99_ns": 40, "max_ns": 40,
        "share": 140 / 248, "names": 1, "ranks": 2, "fastest_rank": 0, "fastest_p50_ns": 20,
        "slowest_rank": 1, "slowest_p50_ns": 40, "rank_spread": 2.0, "note": None,
    }  # fmt: skip
    assert (all_reduce["kernel"], all_reduce["ranks"], all_reduce["rank_spread"]) == (
        "all_reduce", 1, None,
    )  # fmt: skip
    assert all_reduce["note"] == "one rank: no spread"
    assert (other["kernel"], other["total_ns"], other["stddev_ns"]) == ("gemm_b", 8, None)


def test_by_class_its_names_are_counted(two_ranks: Builder) -> None:
    assert told(two_ranks.con, "kernels", "kernel count total_ns names category", per="class") == [
        ("gemm", 6, 148, 2, "compute"),
        ("collective", 1, 100, 1, "communication"),
    ]


@pytest.mark.parametrize(
    ("params", "want"),
    [
        ({"rank": 0}, [("all_reduce", 100), ("gemm_a", 60)]),
        ({"step": 2}, [("gemm_a", 80), ("gemm_b", 8)]),
        ({"rank": 0, "step": 2}, []),
    ],
)
def test_one_rank_or_step(
    two_ranks: Builder, params: dict[str, int], want: list[tuple[str, int]]
) -> None:
    assert told(two_ranks.con, "kernels", "kernel total_ns", **params) == want


def test_a_collective_that_is_slow_on_one_rank_is_said_to_wait(build: Builder) -> None:
    for rank, length in ((0, 10), (1, 50)):
        build.rank(rank)
        build.gpu(rank, (0, length), "communication", name="nccl")
    [row] = rows(build.con, "kernels")
    assert (row["slowest_rank"], row["rank_spread"]) == (1, 5.0)
    assert row["note"] == "waiting included: the slowest rank is the one that waits"


def test_a_median_of_zero_gives_no_spread(build: Builder) -> None:
    for rank, length in ((0, 0), (1, 50)):
        build.rank(rank)
        build.gpu(rank, (5, 5 + length))
    assert told(build.con, "kernels", "fastest_p50_ns rank_spread") == [(0, None)]
