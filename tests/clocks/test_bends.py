"""Clocks that step and wander: where, by how much, and as few lines as that takes."""

from __future__ import annotations

from dataclasses import replace

import duckdb
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.collective_calls import BASE, add_call, add_rank
from tests.marks import nightly
from tests.tables import empty_database
from traceweave.clocks import bending
from traceweave.clocks.bend_clusters import BENT, _behind, bends_show, cluster
from traceweave.clocks.bending import (
    NEAREST,
    _as_told,
    _find_steps,
    _gaps,
    _knots,
    _prune,
    _step_where_fast,
    find_bends,
)
from traceweave.clocks.bends import Bend, Step
from traceweave.clocks.clock import Clock, RankInfo
from traceweave.clocks.estimate import fit_clocks
from traceweave.clocks.joint_bends import RATES, Joint, Moment, Rows, _rates
from traceweave.clocks.matrices import Block
from traceweave.clocks.piece import Options, fit_piece
from traceweave.clocks.probes import PROBED
from traceweave.clocks.steps import clearest_step
from traceweave.clocks.stretches import stretches_of
from traceweave.store.empty import create_tables
from traceweave.weave import weave
from traceweave_simulator.traffic import simulate_traffic
from traceweave_simulator.traffic_jobs import DDP, TP_DP, Job, Op
from traceweave_simulator.traffic_tables import clock_errors, outside_bounds, store_traffic

Connection = duckdb.DuckDBPyConnection
COUNT = 120
EVERY_US = 5_000
NO_STEPS = np.zeros(0, dtype=np.int64)


def true_end(k: int) -> int:
    """Us after BASE."""
    return EVERY_US * k + 400


def stepping(con: Connection, stepped: dict[int, tuple[int, int]], ranks: int = 4) -> None:
    """Collectives with one common end; clocks of `stepped` are set ahead before instance k, by
    so many us."""
    create_tables(con)
    for rank in range(ranks):
        add_rank(con, rank, last_us=EVERY_US * COUNT)
        for k in range(COUNT):
            at, height = stepped.get(rank, (COUNT, 0))
            ahead = height if k >= at else 0
            # ends scatter by a hand-made pattern of up to 2 us
            end = true_end(k) + (7 * k + 3 * rank) % 5 - 2 + ahead
            start = end - 300 - 17 * ((k + rank) % 4)
            add_call(con, rank, start, end, ranks=list(range(ranks)), seq=k)


def rows_of(con: Connection, rank: int) -> list[tuple[int | None, int, float, int, int, str]]:
    return con.execute(
        "SELECT from_local_ns, offset_ns, drift_ppm, reference_local_ns, anchors, method"
        " FROM clocks WHERE rank = ? ORDER BY from_local_ns NULLS FIRST",
        [rank],
    ).fetchall()


@nightly
@settings(max_examples=6, deadline=None)
@given(
    at=st.integers(20, COUNT - 20),
    height=st.sampled_from([-900, -120, 90, 400]),
    rank=st.integers(1, 3),
)
def test_a_step_is_found_between_the_two_anchors_it_lies_between(
    at: int, height: int, rank: int
) -> None:
    with empty_database() as con:
        stepping(con, {rank: (at, height)})
        weave(con)
        for other in set(range(4)) - {rank}:
            assert len(rows_of(con, other)) == 1
        rows = rows_of(con, rank)
        # a kink of a microsecond beside the step may be told too
        assert 3 <= len(rows) <= 5
        (place,) = [number for number, row in enumerate(rows) if row[4] == 0]
        before, gap, after = rows[0], rows[place], rows[place + 1]
        # the last end before the step, the first after it
        assert gap[0] == pytest.approx(BASE + 1_000 * true_end(at - 1), abs=6_000)
        assert after[0] == pytest.approx(BASE + 1_000 * (true_end(at) + height), abs=6_000)
        assert sum(row[4] for row in rows[:place]) == at
        # the offset changes by the step, the rate stays
        local, last = BASE + 1_000 * true_end(at), rows[-1]
        low, high = (row[1] + row[2] * 1e-6 * (local - row[3]) for row in (before, last))
        assert high - low == pytest.approx(-1_000 * height, abs=3_000)
        assert before[2] == pytest.approx(last[2], abs=0.5)
        assert all("steps" in row[5] for row in rows)


@nightly
def test_clocks_that_step_together_are_told_from_those_that_do_not() -> None:
    with empty_database() as con:
        stepping(con, {1: (50, 300), 3: (50, 300)})
        weave(con)
        assert [len(rows_of(con, rank)) for rank in range(4)] == [1, 3, 1, 3]


@nightly
def test_a_step_of_the_reference_shows_in_all_others() -> None:
    with empty_database() as con:
        stepping(con, {0: (70, 250)})
        weave(con)
        assert [len(rows_of(con, rank)) for rank in range(4)] == [1, 3, 3, 3]
        before, _, after = rows_of(con, 2)
        local = BASE + 1_000 * true_end(70)
        first, last = (row[1] + row[2] * 1e-6 * (local - row[3]) for row in (before, after))
        assert last - first == pytest.approx(250_000, abs=3_000)


@nightly
def test_of_a_gap_in_which_clocks_were_set_no_more_is_known_than_its_length() -> None:
    """The reference steps by 240 us and rank 3 by 300 us between the same calls, or any others: its
    clock shows 5,240 us between them, and a moment of the gap is half of that from either at most.
    """
    with empty_database() as con:
        stepping(con, {0: (60, 240), 3: (60, 300)})
        weave(con)
        for rank in (1, 2, 3):
            (bound, *_), *_, (between, anchors) = con.execute(
                "SELECT bound_ns, anchors FROM clocks WHERE rank = ? ORDER BY anchors DESC", [rank]
            ).fetchall()
            assert anchors == 0
            assert between - bound == pytest.approx(2_620_000, abs=3_000)


@pytest.mark.parametrize("scatter_us", [2.0, 30.0])
def test_a_steady_clock_is_one_line(empty_run: Connection, scatter_us: float) -> None:
    store_traffic(empty_run, simulate_traffic(Job(steps=150, end_jitter=scatter_us, ring_wave=20)))
    weave(empty_run)
    assert empty_run.execute("SELECT count(*), count(DISTINCT rank) FROM clocks").fetchall() == [
        (8, 8)
    ]


@pytest.mark.parametrize(
    "program", [DDP, pytest.param(TP_DP, marks=nightly)], ids=["ddp", "tp x dp, no group of all"]
)
def test_hosts_that_step_and_wander_each_on_their_own(
    empty_run: Connection, program: tuple[Op, ...]
) -> None:
    job = Job(
        hosts=3, per_host=2, steps=150, step_apart_us=300, wander_apart_us=100, with_hosts=True,
        end_jitter=4, ring_bias=0, program=program,
    )  # fmt: skip
    run = simulate_traffic(job)
    store_traffic(empty_run, run)
    weave(empty_run)
    errors = np.abs(clock_errors(empty_run, run))
    assert np.percentile(errors, 90) < 4
    assert outside_bounds(empty_run, run) == []
    rows = empty_run.execute("SELECT rank, count(*) FROM clocks GROUP BY rank").fetchall()
    assert all(count < 60 for _, count in rows)


def test_the_clearest_step_by_hand() -> None:
    at = np.arange(40, dtype=np.float64) * 1e7
    number = np.arange(40, dtype=np.float64)
    behind = np.where(number < 17, 0.0, 50_000.0) + 1_000.0 * (number % 2)
    found = clearest_step(at, behind, NO_STEPS)
    assert found is not None
    assert found.place == 17
    # beside that one there is none, and a slope is none
    assert clearest_step(at, behind, np.array([17])) is None
    assert clearest_step(at, 3_000.0 * number, NO_STEPS) is None


def test_a_bend_as_lines_by_hand() -> None:
    # flat for 10 s, then 2 us per s
    bend = Bend(np.array([0.0, 1e10, 2e10]), np.array([0.0, 0.0, 20_000.0]))
    first, last = stretches_of(bend, 0.0, 2e10)
    assert (first.low, first.high, last.high) == (0.0, 1e10, 2e10)
    assert first.turn == pytest.approx(0, abs=1e-7)
    assert last.turn == pytest.approx(2e-6, rel=0.1)
    assert last.ahead == pytest.approx(10_000, abs=1_000)


def test_a_line_is_one_stretch_and_a_step_three() -> None:
    line = np.array([0.0, 5_000.0, 10_000.0])
    bend = Bend(np.array([0.0, 1e9, 2e9]), line, steps=(Step(4e8, 6e8, 1_000.0),))
    low, gap, high = stretches_of(bend, 0.0, 2e9)
    assert [(s.low, s.high) for s in (low, gap, high)] == [(0.0, 4e8), (4e8, 6e8), (6e8, 2e9)]
    assert [s.ahead for s in (low, gap, high)] == pytest.approx([1_000, 3_000, 7_500], abs=1)
    assert {round(s.turn * 1e6, 6) for s in (low, gap, high)} == {5.0}
    assert (low.unsure, gap.unsure, high.unsure) == (0.0, 500.0, 0.0)
    # a moment of the gap lies in it on the other clock, which shows 1 us more between its ends
    assert (low.open, gap.open, high.open) == (0.0, 1e8 + 500, 0.0)
    assert [s.stepping for s in (low, gap, high)] == [False, True, False]


@given(
    since=st.integers(0, 1_000),
    length=st.integers(2, 1_000),
    height=st.integers(-1_000, 1_000),
    part=st.floats(0.01, 0.99),
)
def test_between_two_ends_on_one_clock_is_between_them_on_the_other(
    since: int, length: int, height: int, part: float
) -> None:
    step = Step(since, since + length, height)
    moment = np.array([since + part * length])
    told = moment + Bend(steps=(step,))(moment)
    early, late = (float(side[0]) for side in Bend(steps=(step,)).doubt(moment))
    # those two ends on the common clock, where the moment is not skipped by the step itself
    assert float(told[0]) - early == pytest.approx(min(since, float(told[0])))
    assert float(told[0]) + late == pytest.approx(max(step.until + height, float(told[0])))


def test_where_others_may_have_stepped_a_clock_adds_nothing_and_is_in_doubt() -> None:
    bend = Bend(steps=(Step(100.0, 160.0, 0.0),))
    assert bend.straight
    early, late = bend.doubt(np.array([90.0, 130.0, 150.0, 170.0]))
    assert early.tolist() == [0, 30, 50, 0]
    assert late.tolist() == [0, 30, 10, 0]


def test_of_two_clocks_either_may_have_stepped_of_three_one() -> None:
    moments = 1e6 * np.arange(60.0)

    def gaps(clusters: int) -> list[bool]:
        rest = np.zeros((60, clusters))
        rest[:, 1] = np.where(moments > 30.5e6, 250e3, 0.0)
        rest += np.random.default_rng(1).normal(0, 2e3, rest.shape)
        sort = np.zeros(60, np.int64)
        rows = Rows(np.arange(clusters), moments, rest, np.arange(clusters), sort)
        joint = Joint([rows], clusters, _knots([rows]))
        joint.add(Moment(1, 30e6, 31e6))
        joint.settle()
        [gap] = _gaps(joint)
        assert (gap.since, gap.until) == (30e6, 31e6)
        return [gap.concerns(one, one) for one in range(clusters)]

    assert gaps(2) == [True, True]
    assert gaps(3) == [False, True, False]


def test_knots_do_not_crowd() -> None:
    # a minute in which nothing was recorded: anchors lie close on both sides of it
    moments = np.concatenate([np.arange(600) * 1e6, 60e9 + np.arange(600) * 1e6])
    rest = np.zeros((len(moments), 2))
    rows = Rows(np.arange(2), moments, rest, np.arange(2), np.zeros(len(moments), np.int64))
    knots = _knots([rows])
    assert np.diff(knots).min() > NEAREST * 60e9 * 0.99
    assert (knots[0], knots[-1]) == (moments[0], moments[-1] + 1)
    joint = Joint([rows], 2, knots)
    joint.settle()
    assert np.abs(joint.values).max() < 1


@pytest.mark.parametrize("knots", [12, 27, 64])
def test_a_steady_rate_is_as_likely_between_many_knots_as_between_few(knots: int) -> None:
    at = np.sort(np.random.default_rng(knots).uniform(0, 1e9, knots))
    shares, reach = _rates(at)
    made = shares[:, 0] * 2e-4 * at[:-1] + shares[:, 1] * 2e-4 * at[1:]
    assert np.sum(made**2 / reach) == pytest.approx(RATES * 2e-4**2)


def test_each_of_few_rates_has_a_say_of_its_own() -> None:
    assert _rates(np.array([0.0, 1.0, 3.0]))[1].tolist() == [1.0, 1.0]


def test_calls_of_clocks_that_stepped_together_do_not_tell_when() -> None:
    def rows(clusters: list[int], moments: list[float]) -> Rows:
        shape = len(moments), len(clusters)
        return Rows(
            np.array(clusters), 1e6 * np.array(moments), np.zeros(shape), np.arange(shape[1]),
            np.zeros(len(moments), np.int64),
        )  # fmt: skip

    tables = [rows([0, 1, 2], [0, 10, 20, 30]), rows([0, 1], [12, 14, 16, 18])]
    together = [Moment(0, 14e6, 16e6), Moment(1, 14e6, 16e6)]
    joint = Joint(tables, 3, 1e6 * np.array([0.0, 15.0, 30.0]), together)
    told = [_as_told(joint, step) for step in together]
    assert [(step.since, step.until) for step in told] == [(10e6, 20e6)] * 2
    # alone, its calls with the other do
    joint.drop([0])
    assert _as_told(joint, together[0]) == together[0]


def test_a_cluster_that_met_no_other_is_no_trouble() -> None:
    # clocks of two hosts share calls, that of a third has none with either
    moments = 1e6 * np.arange(40)
    rest = np.column_stack([np.zeros(40), np.where(np.arange(40) < 20, 0.0, 300e3)])
    rows = Rows(np.array([0, 2]), moments, rest, np.arange(2), np.zeros(40, np.int64))
    joint = Joint([rows], 3, _knots([rows]))
    _find_steps(joint)
    joint.settle()
    assert {step.cluster for step in joint.steps} <= {0, 2}
    assert len(joint.steps) >= 1
    assert np.isfinite(joint.curve_errors()).all()


MESH = 4
"""Hosts of a mesh, and ranks of each."""
SPAN = 1_500_000_000


def mesh(wander_ns: float = 0.0, step_ns: float = 0.0) -> tuple[list[Block], list[float]]:
    """The calls of a mesh of hosts: one group inside each host, 100 calls; and of the n-th ranks
    of all hosts, 28 calls at the ends of 14 steps. The clock of host 1 makes one wave, or a step.
    """
    rng = np.random.default_rng(0)

    def block(ranks: list[int], end: np.ndarray, key: int) -> Block:
        host = np.array(ranks) // MESH
        ends = end[:, None] + rng.normal(0, 2_000, (len(end), len(ranks)))
        ahead = wander_ns * np.sin(2 * np.pi * ends / SPAN) + step_ns * (ends > 0.62 * SPAN)
        ends += np.where(host == 1, ahead, 0.0)
        start = ends - 400_000 - rng.uniform(0, 300_000, ends.shape)
        return Block(np.array(ranks), start, ends, (ends - start).min(axis=1), (key, 0), True)

    steps = SPAN / 14 * (np.arange(14) + 0.9)
    inside = [block([MESH * h + r for r in range(MESH)], np.linspace(0, SPAN, 100), h)
              for h in range(MESH)]  # fmt: skip
    across = [block([MESH * h + r for h in range(MESH)],
                    np.sort(np.r_[steps, steps + 3e6 + 1e5 * r]), MESH + r)
              for r in range(MESH)]  # fmt: skip
    return [*inside, *across], steps.tolist()


def clocks_of_mesh(blocks: list[Block]) -> list[list[Clock]]:
    """The rows of each rank."""
    ranks = [RankInfo(rank, f"node{rank // MESH}", 0, SPAN) for rank in range(MESH**2)]
    clocks, _ = fit_clocks(ranks, blocks, 0)
    return [[clock for clock in clocks if clock.rank == info.rank] for info in ranks]


def added(rows: list[Clock], at: float) -> tuple[float, int]:
    """What is added to a clock at a moment of its own, and how far off that may be, ns."""
    row = [row for row in rows if row.from_local_ns is None or row.from_local_ns <= at][-1]
    assert row.bound_ns is not None
    return row.offset_ns + row.drift_ppm * 1e-6 * (at - row.reference_local_ns), row.bound_ns


@nightly
def test_hosts_of_a_mesh_are_compared_over_all_groups_that_they_share() -> None:
    # no group of two hosts has the 40 calls that a bend needs; four of them together have 112
    blocks, steps = mesh(wander_ns=80_000)
    rows = clocks_of_mesh(blocks)
    for at in steps:
        ahead = 80_000 * np.sin(2 * np.pi * at / SPAN)
        for rank in range(MESH, 2 * MESH):
            found, bound = added(rows[rank], at + ahead)
            assert abs(found + ahead) < min(6_000, bound)
    assert all("wander" in rows[rank][0].method for rank in range(MESH, 2 * MESH))
    assert all(len(rows[rank]) == 1 for rank in (*range(MESH), *range(2 * MESH, MESH**2)))


@nightly
def test_a_host_of_a_mesh_that_steps_is_told_where() -> None:
    blocks, steps = mesh(step_ns=250_000)
    for rows in clocks_of_mesh(blocks)[MESH : 2 * MESH]:
        assert "steps" in rows[0].method
        for at in steps:
            ahead = 250_000 * (at > 0.62 * SPAN)
            found, bound = added(rows, at + ahead)
            assert abs(found + ahead) < min(6_000, bound)


def test_what_a_host_does_is_in_its_bound_and_residual_though_its_own_calls_agree() -> None:
    # too few calls for a bend: 10 of each group across hosts, beside 100 inside each
    blocks, steps = mesh(wander_ns=80_000)
    few = [*blocks[:MESH], *(block.thinned(3) for block in blocks[MESH:])]
    rows = clocks_of_mesh(few)[MESH : 2 * MESH]
    assert all(len(of_rank) == 1 for of_rank in rows)
    errors = [abs(added(rows[0], at)[0] + 80_000 * np.sin(2 * np.pi * at / SPAN)) for at in steps]
    assert max(errors) < min(of_rank[0].bound_ns or 0 for of_rank in rows)
    assert np.percentile(errors, 95) < min(
        2 * (of_rank[0].residual_p95_ns or 0) for of_rank in rows
    )


@pytest.mark.parametrize("on_gpu", [False, True])
def test_threads_of_one_clock_bend_alike(monkeypatch: pytest.MonkeyPatch, on_gpu: bool) -> None:
    # of ranks of one host, one whose threads get a core late may seem to bend by itself
    monkeypatch.setattr(bending, "cluster", lambda *_: np.array([0, 0, 1, 0]))
    ranks = [RankInfo(rank, "node0", 0, SPAN, on_gpu) for rank in range(3)]
    ranks.append(RankInfo(3, "node1", 0, SPAN, on_gpu))
    piece = fit_piece(ranks, [], Options(0, None, True))
    piece.host, piece.unit = np.array([0, 0, 0, 1]), np.array([0, 0, 0, 1])
    first, second, third, other = bending._alike([], [], piece, [Bend()] * 4)
    assert first == second != other
    assert (third == first) == (not on_gpu)


@pytest.mark.parametrize(("wander_ns", "straight"), [(0.0, True), (80_000.0, False)])
def test_clocks_that_are_found_straight_stay_lines(
    monkeypatch: pytest.MonkeyPatch, wander_ns: float, straight: bool
) -> None:
    # where very many are compared, something always shows
    monkeypatch.setattr(bending, "bends_show", lambda *_: True)
    blocks, _ = mesh(wander_ns)
    ranks = [RankInfo(rank, f"node{rank // MESH}", 0, SPAN) for rank in range(MESH**2)]
    piece = fit_piece(ranks, blocks, Options(0, None, True))
    assert (find_bends(blocks, piece, [Bend()] * len(ranks)) is None) == straight


def test_bends_show_only_where_a_clock_bends() -> None:
    host = np.arange(MESH**2) // MESH
    for wander, shows in ((0.0, False), (80_000.0, True)):
        blocks, _ = mesh(wander)
        rests = [block.end - np.median(block.end, axis=1, keepdims=True) for block in blocks]
        assert bends_show(blocks, rests, host) == shows


@pytest.mark.parametrize(
    ("step_us", "after", "wander_us", "scatter_us", "shows"),
    [
        pytest.param(200, 12, 0, 4, True, id="a step"),
        pytest.param(10, 12, 0, 4, False, id="less than 15 us"),
        pytest.param(200, 27, 0, 4, False, id="three calls after it"),
        pytest.param(0, 12, 80, 4, False, id="a wave"),
        pytest.param(2000, 12, 0, 1000, False, id="ends apart as far"),
    ],
)
def test_a_step_shows_within_few_calls(
    step_us: int, after: int, wander_us: int, scatter_us: int, shows: bool
) -> None:
    """Thirty calls of two hosts: too few to show that a clock bends in another way."""
    at = np.linspace(0, SPAN, 30)
    noise = np.random.default_rng(3).normal(0, 1e3 * scatter_us, (30, 4))
    ends = np.repeat(at[:, None], 4, 1) + noise
    ends[:, 2:] += (1e3 * wander_us * np.sin(2 * np.pi * at / SPAN))[:, None]
    ends[after:, 2:] += step_us * 1e3
    rests = ends - np.median(ends, axis=1, keepdims=True)
    rests -= np.column_stack([np.polyval(np.polyfit(at, column, 1), at) for column in rests.T])
    block = Block(np.arange(4), ends, ends, at, (0, 0), True)
    assert bends_show([block], [rests], np.array([0, 0, 1, 1])) == shows
    # exchanges of probes lie far nearer to each other than calls do, and say nothing of them
    assert not bends_show([replace(block, key=(0, PROBED))], [rests], np.array([0, 0, 1, 1]))


def test_calls_of_one_moment_show_no_step() -> None:
    ends = np.full((12, 4), SPAN)
    rests = np.zeros((12, 4))
    rests[6:, 2:] = 200e3
    block = Block(np.arange(4), ends, ends, ends[:, 0], (0, 0), True)
    assert not bends_show([block], [rests], np.array([0, 0, 1, 1]))


def test_ranks_that_share_few_calls_do_not_divide_a_host() -> None:
    # two pairs of one host, which never meet; and a host whose second pair bends against the first
    at = np.linspace(0, SPAN, 80)
    pairs = [np.array([0, 1]), np.array([2, 3])]
    blocks = [Block(p, *[np.c_[at, at]] * 2, at, (n, 0), True) for n, p in enumerate(pairs)]
    still = [np.zeros((80, 2))] * 2
    host, named = np.zeros(4, np.int64), np.full(4, True)
    assert cluster(blocks, still, host, named).tolist() == [0, 0, 0, 0]
    all_four = Block(np.arange(4), *[np.repeat(at[:, None], 4, 1)] * 2, at, (2, 0), True)
    wave = 90_000 * np.sin(2 * np.pi * at / SPAN)[:, None] * np.array([0, 0, 1, 1])
    assert cluster([*blocks, all_four], [*still, wave], host, named).tolist() == [0, 0, 1, 1]


def test_a_step_that_rests_on_one_anchor_is_none() -> None:
    moments = 1e6 * np.arange(60.0)
    for after, steps in ((58.5, 0), (30.5, 1)):
        rest = np.column_stack([np.zeros(60), np.where(moments > 1e6 * after, 250e3, 0.0)])
        rest += np.random.default_rng(1).normal(0, 2e3, rest.shape)
        rows = Rows(np.arange(2), moments, rest, np.arange(2), np.zeros(60, np.int64))
        joint = Joint([rows], 2, _knots([rows]))
        joint.add(Moment(1, 1e6 * (after - 0.5), 1e6 * (after + 0.5)))
        joint.settle()
        _prune(joint)
        assert len(joint.steps) == steps


def test_a_call_that_the_reference_steps_within_contradicts_nothing() -> None:
    # both ranks of host 0 begin call 30 before their clock is set back by 220 us, rank 1 as the
    # last of all 230 us before the end, and end it after
    rng = np.random.default_rng(4)
    end = 5e6 * np.arange(1.0, 81.0)[:, None] + rng.normal(0, 1_500, (80, 4))
    last = np.arange(4) == (np.arange(80)[:, None] + 3) % 4
    start = end - np.where(last, 230_000.0, 3e6)
    end[30, 0] -= 20_000
    set_back = 5e6 * 31 - 100_000
    stepped = -220_000.0 * (np.arange(4) < 2)
    start += np.where(start > set_back, stepped, 0.0)
    end += np.where(end > set_back, stepped, 0.0)
    block = Block(np.arange(4), start, end, (end - start).min(axis=1), (0, 0), True)
    ranks = [RankInfo(rank, f"node{rank // 2}", 0, 405_000_000) for rank in range(4)]
    clocks, slack = fit_clocks(ranks, [block], 0)
    assert slack == 0
    assert [clock.rank for clock in clocks][:3] == [0, 1, 2]
    assert abs(clocks[1].offset_ns) < 2_000
    ours = [clock for clock in clocks if clock.rank == 2]
    assert "steps" in ours[0].method
    assert abs(added(ours, 50e6)[0]) < 2_000
    assert abs(added(ours, 300e6)[0] + 220_000) < 2_000


def test_a_curve_that_runs_as_no_clock_does_steps_in_the_longest_gap_there() -> None:
    # 200 calls a millisecond apart; after call 100, 3 ms without any, cluster 1 is 250 us ahead
    moments = 1e6 * (np.arange(200.0) + 2 * (np.arange(200) > 100))
    rest = np.column_stack([np.zeros(200), np.where(moments > 101e6, 250e3, 0.0)])
    rest += np.random.default_rng(1).normal(0, 2e3, rest.shape)
    rows = Rows(np.arange(2), moments, rest, np.arange(2), np.zeros(200, np.int64))
    joint = Joint([rows], 2, _knots([rows]))
    joint.settle()
    assert _step_where_fast(joint)
    [step] = joint.steps
    assert (step.since, step.until) == (100e6, 103e6)
    joint.settle()
    assert abs(joint.heights[0]) == pytest.approx(250e3, abs=3e3)
    # beside that step no curve runs faster than a clock
    assert not _step_where_fast(joint)
    assert joint.steps == [step]


def test_where_a_step_is_known_a_fast_curve_asks_for_no_other() -> None:
    moments = 1e6 * np.arange(60.0)
    rows = Rows(np.arange(2), moments, np.zeros((60, 2)), np.arange(2), np.zeros(60, np.int64))
    joint = Joint([rows], 2, _knots([rows]))
    # between knots 4 and 5 cluster 1 goes 200 us in about 6 ms
    joint.values[5:, 1] = 200e3
    joint.add(Moment(1, joint.knots[4], joint.knots[5]))
    assert not _step_where_fast(joint)
    joint.drop([])
    assert _step_where_fast(joint)
    assert joint.steps[0].cluster == 1
    assert (
        joint.knots[4] - 1e6 <= joint.steps[0].since < joint.steps[0].until <= joint.knots[5] + 1e6
    )


def test_how_far_a_host_lies_behind_others_over_all_its_calls() -> None:
    gone = np.nan
    host = np.array([0, 0, 1, 2])
    # hosts 0, 1 and 2; host 0 counts as the mean of its ranks
    early = np.array([[10.0, 10, 10, 10], [50, 50, 50, gone], [90, 90, gone, gone]])
    rest = np.array([[1.0, 3, 6, 10], [2, gone, 9, gone], [4, 5, gone, gone]])
    blocks = [
        Block(np.arange(4), early, early, early[:, 0], (0, 0), True),
        Block(np.array([0, 2]), *[np.full((1, 2), 30.0)] * 2, np.ones(1), (1, 0), True),
    ]
    rests = [rest, np.array([[7.0, 5.0]])]
    found = [(at.tolist(), behind.tolist()) for at, behind in _behind(blocks, rests, host)]
    # of each call, the mean of the other hosts less its own; what no other host shares says nothing
    assert found == [
        ([10, 30, 50], [8 - 2, 5 - 7, 9 - 2]),
        ([10, 30, 50], [(2 + 10) / 2 - 6, 7 - 5, 2 - 9]),
        ([10], [(2 + 6) / 2 - 10]),
    ]


def test_hosts_of_many_calls_are_not_asked_for_few() -> None:
    many = BENT.stretches * BENT.anchors
    for count, hosts in ((many - 1, 2), (many, 0)):
        end = np.repeat(np.arange(float(count))[:, None], 2, 1)
        block = Block(np.arange(2), end, end, end[:, 0], (0, 0), True)
        assert len(list(_behind([block], [0 * end], np.array([0, 1])))) == hosts


def test_of_two_clocks_that_may_have_stepped_one_is_left() -> None:
    moments = 1e6 * np.arange(60.0)
    rest = np.column_stack([np.zeros(60), np.where(moments > 30.5e6, 250e3, 0.0)])
    rest += np.random.default_rng(1).normal(0, 2e3, rest.shape)
    rows = Rows(np.arange(2), moments, rest, np.arange(2), np.zeros(60, np.int64))
    joint = Joint([rows], 2, _knots([rows]))
    for number, since in ((0, 31e6), (1, 30e6)):
        joint.add(Moment(number, since, since + 1e6))
    joint.settle()
    _prune(joint)
    assert len(joint.steps) == 1
