"""Clocks of ranks whose hosts have one name, from calls made by hand: which threads read one."""

import duckdb
import numpy as np
import pytest

from traceweave.arrays import Floats
from traceweave.clocks.answer import fit_clocks
from traceweave.clocks.clock import Clock, RankInfo
from traceweave.clocks.matrices import Block
from traceweave.clocks.start import SAME_NS as HOST_NS
from traceweave.clocks.tables import read_ranks

ORIGIN = 1_760_000_000_000_000_000
SPAN = 100_000_000_000
CALLS = 400


def clocks_of(blocks: list[Block], on_gpu: list[bool]) -> list[Clock]:
    ranks = [RankInfo(n, "localhost", ORIGIN, ORIGIN + SPAN, gpu) for n, gpu in enumerate(on_gpu)]
    return fit_clocks(ranks, blocks, ORIGIN)[0]


def block_of(end: Floats, long_ns: float = 2_000_000) -> Block:
    start = end - long_ns
    return Block(
        np.arange(end.shape[1]), start, end, np.nanmin(end - start, axis=1), (0, 0), proves=True
    )


def ends(ranks: int, scatter_ns: float = 5_000) -> tuple[Floats, Floats]:
    rng = np.random.default_rng(3)
    at = np.sort(rng.uniform(0, SPAN, CALLS))
    return at, at[:, None] + rng.normal(0, scatter_ns, (CALLS, ranks))


def test_threads_whose_calls_never_meet_share_the_clock_of_others() -> None:
    """Members of one group of which two have no call in common, as where one was recorded first."""
    _, end = ends(3)
    end[: CALLS // 2, 2] = end[CALLS // 2 :, 0] = np.nan
    assert [clock.offset_ns for clock in clocks_of([block_of(end)], [False] * 3)] == [0, 0, 0]


def test_stages_of_a_pipeline_share_the_clock_of_their_neighbours() -> None:
    _, end = ends(3)
    sends = np.zeros((CALLS, 3))
    end[::2, 2] = end[1::2, 0] = sends[::2, 2] = sends[1::2, 0] = np.nan
    sends[::2, 0] = sends[1::2, 1] = 1
    long = np.full(CALLS, 2_000_000.0)
    block = Block(np.arange(3), end - long[:, None], end, long, (0, 2), False, sends)
    assert [clock.offset_ns for clock in clocks_of([block], [False] * 3)] == [0, 0, 0]


@pytest.mark.parametrize("ahead_us", [-500, 0])
def test_a_clock_that_drifts_is_not_that_of_another_host_of_its_name(ahead_us: int) -> None:
    """10 ppm over 100 s: from 0.5 ms behind to as much ahead, or from 0 to 1 ms. The calls, of
    2 ms, contradict neither."""
    at, end = ends(2)
    end[:, 1] += 1e-5 * at + 1_000 * ahead_us
    clock = clocks_of([block_of(end)], [False, False])[1]
    assert clock.drift_ppm == pytest.approx(-10, abs=0.1)
    assert clock.method == "collective ends"


def test_a_clock_that_steps_for_a_while_is_not_that_of_another_host_of_its_name() -> None:
    at, end = ends(2)
    end[(at > 0.4 * SPAN) & (at < 0.6 * SPAN), 1] += 800_000
    rows = [clock for clock in clocks_of([block_of(end)], [False, False]) if clock.rank == 1]
    heights = [clock.offset_ns for clock in rows if clock.anchors]
    assert heights == pytest.approx([0, -800_000, 0], abs=5_000)


# what was wrong: in a pipeline with one barrier, ended 1.1 ms apart, each rank had its own clock:
# 51 of 64 messages came before they were sent, and a stage twice as slow gained 20 of 61 ms
@pytest.mark.parametrize(("apart_ms", "offset_ms"), [(1.1, 0), (2.2, -2.2)])
def test_few_ends_of_threads_tell_no_clock_of_their_own(apart_ms: float, offset_ms: float) -> None:
    """A call of 2 ms, of which one end may be late, or which is over before the other begins."""
    end = np.array([[0, apart_ms * 1e6]]) + SPAN / 2
    offset = clocks_of([block_of(end)], [False, False])[1].offset_ns
    assert offset == pytest.approx(offset_ms * 1e6, abs=1)


def test_who_fits_two_clocks_does_not_make_them_one() -> None:
    """Ranks 0 and 2 lie 0.5 ms apart; the ends of rank 1 scatter by more than that."""
    _, end = ends(3)
    end[:, 1] += np.random.default_rng(4).normal(250_000, 400_000, CALLS)
    end[:, 2] += 500_000
    clocks = clocks_of([block_of(end)], [False] * 3)
    assert clocks[2].offset_ns == pytest.approx(-500_000, abs=100_000)


def test_calls_that_contradict_one_clock_keep_it_from_being_shared_by_way_of_another() -> None:
    """Rank 2 begins calls 0.1 ms after rank 0 has ended them; rank 1 has others with both."""
    _, end = ends(3)
    end[::3, 2] = end[1::3, 0] = end[2::3, 1] = np.nan
    end[2::3, 2] += 2_100_000
    clocks = clocks_of([block_of(end)], [False] * 3)
    assert clocks[0].method == "reference"
    assert [clock.method for clock in clocks].count("host clock") <= 1


@pytest.mark.parametrize(("on_gpu", "known"), [([False, False], True), ([True, False], False)])
def test_only_where_threads_time_all_calls_is_their_scatter_no_matter(
    on_gpu: list[bool], known: bool
) -> None:
    _, end = ends(2, 300_000)
    clock = clocks_of([block_of(end, 5_000_000)], on_gpu)[1]
    assert clock.residual_p95_ns is not None
    assert (clock.residual_p95_ns <= HOST_NS) == known


def test_what_times_calls_is_told_by_what_the_trace_says_of_any_of_them(
    empty_run: duckdb.DuckDBPyConnection,
) -> None:
    """Threads; a call with a kernel; calls whose kernels were lost, of which only NCCL's labels are
    left; and no calls."""
    empty_run.execute(
        "INSERT INTO base.rank_sources BY NAME"
        " SELECT range AS rank, range AS source_id, 'argument' AS rank_source, 'kineto' AS format"
        " FROM range(5)"
    )
    empty_run.execute(
        "INSERT INTO base.collective_calls BY NAME SELECT 0 AS call_id, rank, rank AS source_id,"
        " gpu_op_id, 'all_reduce' AS op, 0 AS start_local_ns, 1 AS duration_ns, evidence"
        " FROM (VALUES (0, NULL, 'host op'), (1, NULL, 'host op'), (1, 7, 'host op'),"
        " (2, NULL, 'metadata'), (3, NULL, 'nvtx')) AS t (rank, gpu_op_id, evidence)"
    )
    assert [info.on_gpu for info in read_ranks(empty_run)] == [False, True, True, True, False]
