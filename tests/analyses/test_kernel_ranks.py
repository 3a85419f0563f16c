from tests.analyses.builders import Builder, rows, told
from tests.conftest import Recorded


def _three_ranks(build: Builder) -> None:
    for rank in (0, 1, 2):
        build.rank(rank)
        for length in (10, 20, 30 + 10 * rank):
            build.gpu(rank, (0, length), name="gemm")
        build.gpu(rank, (0, 5 * (rank + 1)), name="norm")
        build.gpu(rank, (0, 500), "communication", name="all_reduce")
    build.gpu(2, (0, 900), name="alone")


def test_the_medians_of_the_ranks_stand_beside_the_median_rank(build: Builder) -> None:
    _three_ranks(build)
    # a kernel of one rank has nothing beside it, and one that communicates waits
    columns = "place kernel rank count total_ns p50_ns usual_p50_ns ratio"
    assert told(build.con, "kernel_ranks", columns) == [
        (1, "gemm", 0, 3, 60, 20, 20, 1.0),
        (1, "gemm", 1, 3, 70, 20, 20, 1.0),
        (1, "gemm", 2, 3, 80, 20, 20, 1.0),
        (2, "norm", 0, 1, 5, 5, 10, 0.5),
        (2, "norm", 1, 1, 10, 10, 10, 1.0),
        (2, "norm", 2, 1, 15, 15, 10, 1.5),
    ]


def test_only_so_many_kernels_as_asked_for(build: Builder) -> None:
    _three_ranks(build)
    assert {row["kernel"] for row in rows(build.con, "kernel_ranks", kernels=1)} == {"gemm"}
    assert len(rows(build.con, "kernel_ranks")) == 6


def test_medians_are_those_of_the_analysis_kernels(recorded: Recorded) -> None:
    run = recorded("kineto/megatron_tp8")
    found, kernels = run.kernel_ranks(), run.kernels().set_index("kernel")
    assert len(found)
    for kernel, medians in found.groupby("kernel")["p50_ns"]:
        row = kernels.loc[kernel]
        assert (medians.min(), medians.max()) == (row["fastest_p50_ns"], row["slowest_p50_ns"])


def test_the_top_kernels_of_a_rank_and_how_far_they_are_above_the_median_rank(
    build: Builder,
) -> None:
    _three_ranks(build)
    # 60, 70 and 80; 5, 10 and 15
    columns = "kernel rank total_ns usual_total_ns excess_ns"
    assert told(build.con, "kernel_ranks", columns, rank=2) == [
        ("gemm", 2, 80, 70, 10),
        ("norm", 2, 15, 10, 5),
    ]
