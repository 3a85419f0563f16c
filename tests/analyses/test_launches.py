from tests.analyses.builders import Builder, rows, told
from tests.cases import cases

US = 1_000


def test_every_column_of_two_launches(build: Builder) -> None:
    # call 0..10, kernel 25..65: 15 in the queue; call 100..160, kernel 130..150: none, and shorter
    build.rank(0)
    for call, kernel in (((0, 10), (25, 65)), ((100, 160), (130, 150))):
        launch = build.launch(0, (call[0] * US, call[1] * US))
        build.gpu(0, (kernel[0] * US, kernel[1] * US), name="gemm", launch=launch)
    assert rows(build.con, "launches", late_start_ns=14_999) == [
        {
            "rank": 0, "device": 0, "pid": 100, "tid": 1, "call": "cudaLaunchKernel", "op": "gemm",
            "count": 2, "queued": 1, "call_total_ns": 70_000, "call_mean_ns": 35_000.0,
            "call_min_ns": 10_000, "call_p50_ns": 10_000, "call_p95_ns": 60_000,
            "call_max_ns": 60_000, "queue_total_ns": 15_000, "queue_mean_ns": 15_000.0,
            "queue_min_ns": 15_000, "queue_p50_ns": 15_000, "queue_p95_ns": 15_000,
            "queue_max_ns": 15_000, "op_total_ns": 60_000, "op_mean_ns": 30_000.0,
            "op_min_ns": 20_000, "op_p50_ns": 20_000, "op_p95_ns": 40_000, "op_max_ns": 40_000,
            "total_mean_ns": 62_500.0, "total_min_ns": 60_000, "total_p50_ns": 60_000,
            "total_max_ns": 65_000, "short_ops": 1, "slow_calls": 1, "late_ops": 1,
        }
    ]  # fmt: skip


@cases
def test_thresholds_are_exclusive(
    build: Builder, params: dict[str, int], slow: int, late: int
) -> None:
    build.rank(0)
    build.gpu(0, (25, 65), launch=build.launch(0, (0, 10)))
    assert told(build.con, "launches", "slow_calls late_ops", **params) == [(slow, late)]


def test_work_that_starts_as_its_call_returns_waited_for_nothing(build: Builder) -> None:
    build.rank(0)
    build.gpu(0, (10, 20), launch=build.launch(0, (0, 10)))
    assert told(build.con, "launches", "queued queue_total_ns queue_min_ns") == [(1, 0, 0)]


def test_work_that_starts_during_its_call_has_no_queue_time(build: Builder) -> None:
    build.rank(0)
    build.gpu(0, (9, 20), launch=build.launch(0, (0, 10)))
    assert told(build.con, "launches", "queued queue_total_ns queue_mean_ns") == [(0, 0, None)]


def test_threads_and_calls_are_apart_and_unlaunched_work_is_left_out(build: Builder) -> None:
    build.rank(0)
    build.gpu(0, (10, 40), launch=build.launch(0, (0, 1)))
    build.gpu(0, (50, 70), launch=build.launch(0, (0, 1), tid=2))
    copy = build.host(0, (0, 1), "cudaMemcpyAsync", "runtime", 0)
    build.gpu(0, (80, 90), "memory", name="Memcpy HtoD", launch=copy)
    build.gpu(0, (90, 99))
    assert told(build.con, "launches", "tid call op_total_ns") == [
        (1, "cudaLaunchKernel", 30),
        (2, "cudaLaunchKernel", 20),
        (1, "cudaMemcpyAsync", 10),
    ]
    assert len(rows(build.con, "launches", ops="kernels")) == 2
