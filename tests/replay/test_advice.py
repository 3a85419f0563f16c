"""What advice does, replayed: gradients in other buckets, and parameters gathered ahead."""

from __future__ import annotations

import duckdb
import pytest

from tests.analyses.builders import Builder
from tests.marks import first_at_once, nightly
from tests.replay.by_hand import US
from traceweave.errors import UsageError
from traceweave.replay.model import Model

MB = 1_000_000


def _run(
    empty_run: duckdb.DuckDBPyConnection, reductions: list[tuple[int, int, int, int]], end: int
) -> Model:
    """Two ranks alike: all-reduces (launched, start, end, MB) on a stream, and what follows them
    there to the end; the backward pass begins to compute at 1. Times in us."""
    run = Builder(empty_run)
    run.group(0, [0, 1], role="dp", role_source="description")
    kernels: dict[tuple[int, int], int] = {}
    last = reductions[-1][2]
    for rank in range(2):
        run.rank(rank)
        run.step(rank, 1, (0, end * US), (0, end * US))
        run.host(rank, (0, last * US), "autograd::engine::evaluate_function", tid=2, step=1)
        for n, (launched, start, until, _) in enumerate(reductions):
            called = run.launch(rank, (launched * US, launched * US + 500), step=1)
            kernels[rank, n] = run.gpu(
                rank, (start * US, until * US), "communication", "nccl", 9, launch=called, step=1
            )
        called = run.launch(rank, (0, US // 2), step=1)
        run.gpu(rank, (1 * US, 5 * US), launch=called, step=1)
        run.gpu(rank, (last * US, end * US), "communication", "end", 9, step=1)
    for n, (_, start, until, size) in enumerate(reductions):
        run.collective(
            dict.fromkeys(range(2), (start * US, until * US)),
            step=1,
            bytes_=size * MB,
            each={rank: {"gpu_op_id": kernels[rank, n]} for rank in range(2)},
        )
    run.write()
    return Model(empty_run)


def _gain(model: Model, text: str) -> float:
    (answer,) = model.answers([text])
    return answer.gain_ns / US


def test_merged_buckets_have_one_latency(empty_run: duckdb.DuckDBPyConnection) -> None:
    # 4 us and 10 us per MB, all there from 10 on
    model = _run(empty_run, [(6, 10, 24, 1), (6, 24, 38, 1), (6, 38, 62, 2)], 70)
    assert _gain(model, "bucket_mb=2") == pytest.approx(4)
    assert _gain(model, "bucket_mb=25") == pytest.approx(8)
    assert _gain(model, "bucket_mb=1.5 bytes=0-1.5e6") == pytest.approx(0)


@nightly
def test_buckets_of_two_types_are_not_merged(empty_run: duckdb.DuckDBPyConnection) -> None:
    """As those of DDP, and which parameters were used (find_unused_parameters)."""
    _run(empty_run, [(6, 10, 24, 1), (6, 24, 38, 1), (6, 38, 62, 2)], 70)
    empty_run.execute("UPDATE base.collective_calls SET dtype = if(bytes > 1e6, 'Int', 'Float')")
    assert _gain(Model(empty_run), "bucket_mb=25") == pytest.approx(4)


@nightly
def test_a_merged_bucket_is_there_with_its_last_part(empty_run: duckdb.DuckDBPyConnection) -> None:
    # the second is there at 60: one of 2 MB is done at 84, the two at 74
    model = _run(empty_run, [(9, 10, 24, 1), (59, 60, 74, 1), (73, 74, 98, 2)], 120)
    assert _gain(model, "bucket_mb=2") == pytest.approx(-10)


@nightly
def test_a_bucket_is_divided_where_gradients_came_before_it(
    empty_run: duckdb.DuckDBPyConnection,
) -> None:
    # 4 us and 10 us per MB; 4 MB came from 10, when the bucket before was there, to 64: half of it
    # by 37, done at 61; the other half at 88 in place of 108
    model = _run(empty_run, [(9, 10, 24, 1), (63, 64, 108, 4)], 120)
    assert _gain(model, "bucket_mb=2") == pytest.approx(20)
    # in 4 parts of 14 us, the first there at 23.5: from 24, when the stream is free, to 80
    assert _gain(model, "bucket_mb=1") == pytest.approx(28)
    # in 40 parts, 40 latencies and 40 us from 24 on, when the stream is free: too late
    assert _gain(model, "bucket_mb=0.1") == pytest.approx(108 - (24 + 200))


@first_at_once()
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("bucket_mb=2 kind=compute", "are for kind=transfer"),
        ("prefetch=0", "prefetch is a number of units"),
        ("bucket_mb=0", "bucket_mb is above 0"),
        ("prefetch=1", "selects nothing of this run"),
    ],
)
def test_what_makes_no_sense_is_refused(
    empty_run: duckdb.DuckDBPyConnection, text: str, said: str
) -> None:
    model = _run(empty_run, [(9, 10, 24, 1), (23, 24, 44, 2)], 50)
    with pytest.raises(UsageError, match=said):
        model.answers([text])


def test_calls_that_could_not_be_matched_are_said(empty_run: duckdb.DuckDBPyConnection) -> None:
    run = Builder(empty_run)
    run.rank(0)
    run.step(0, 1, (0, 50 * US), (0, 50 * US))
    op = run.gpu(0, (10 * US, 20 * US), "communication", "nccl", 9, step=1)
    run.collective(
        {0: (10 * US, 20 * US)}, "all_to_all", matched=False, each={0: {"gpu_op_id": op}}
    )
    run.write()
    with pytest.raises(UsageError, match="of all_to_all, 1 call could not be matched over the"):
        Model(empty_run).answers(["op=all_to_all times=0"])


def _gathered(empty_run: duckdb.DuckDBPyConnection) -> Model:
    """Two ranks alike that gather before each of three units of four kernels, on stream 9, when the
    unit before it is done; all is launched at 0. Times in us.

    stream 7   embed 0-10            unit 20-40            unit 50-70            unit 80-100
    stream 9              R 10-20               R 40-50               R 70-80
    """
    run = Builder(empty_run)
    run.group(0, [0, 1], role="dp", role_source="description")
    gathers: dict[tuple[int, int], int] = {}
    for rank in range(2):
        run.rank(rank)
        run.step(rank, 1, (0, 100 * US), (0, 100 * US))
        run.gpu(rank, (1 * US, 10 * US), launch=run.launch(rank, (0, 1), step=1), step=1)
        for n in range(3):
            called_ns, begin = 10 + 20 * n, (10 + 30 * n) * US
            run.host(rank, (called_ns, called_ns + 1), "cudaStreamWaitEvent", "runtime", 9)
            called = run.launch(rank, (called_ns + 2, called_ns + 3), step=1)
            gathers[rank, n] = run.gpu(
                rank, (begin, begin + 10 * US), "communication", "nccl", 9, launch=called, step=1
            )
            run.host(rank, (called_ns + 4, called_ns + 5), "cudaStreamWaitEvent", "runtime", 9)
            called = run.launch(rank, (called_ns + 6, called_ns + 7), step=1)
            for kernel in range(4):
                at = begin + (10 + 5 * kernel) * US
                run.gpu(rank, (at, at + 5 * US), launch=called, step=1)
    for n in range(3):
        begin = (10 + 30 * n) * US
        each = {rank: {"gpu_op_id": gathers[rank, n]} for rank in range(2)}
        both = dict.fromkeys(range(2), (begin, begin + 10 * US))
        run.collective(both, "all_gather", step=1, each=each)
    run.write()
    return Model(empty_run)


def test_parameters_are_gathered_while_the_unit_before_computes(
    empty_run: duckdb.DuckDBPyConnection,
) -> None:
    model = _gathered(empty_run)
    # two of three gathers are hidden; the first has no unit before it
    assert _gain(model, "prefetch=1") == pytest.approx(20)
    # the third waits for the first unit to begin, and the second for what it waited for
    assert _gain(model, "prefetch=2") == pytest.approx(10)
    assert _gain(model, "op=all_gather times=0") == pytest.approx(30)
