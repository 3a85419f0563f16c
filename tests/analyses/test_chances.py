"""Of ranks that are alike few are found late; of one that is slow it is told."""

from fractions import Fraction
from itertools import product
from math import comb

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.analyses.builders import Builder, found_by, rows
from tests.marks import at_once, nightly
from traceweave.analyses.sweeps.chances import FINEST, chances


def _chances(waits: list[list[int | None]]) -> list[float]:
    """Return the chance of each rank, of waits by trial and rank; None: it took no part."""
    cells = [
        (trial, rank, wait)
        for trial, row in enumerate(waits)
        for rank, wait in enumerate(row)
        if wait is not None
    ]
    ranks, found = chances(*(np.array(column, np.int64) for column in zip(*cells, strict=True)))
    assert ranks.tolist() == sorted({rank for _, rank, _ in cells})
    return [float(chance) for chance in found]


def _counted(waits: list[list[int | None]], own: int) -> Fraction:
    """Go through all that might have fallen to a rank that is like the others."""
    lengths = sorted({wait for row in waits for wait in row if wait})
    places = {wait: lengths.index(wait) + 1 for wait in lengths} | {0: 0}
    rows = [row for row in waits if row[own] is not None]
    drawn = list(product(*([wait for wait in row if wait is not None] for row in rows)))
    least = sum(places[row[own] or 0] for row in rows)
    as_late = sum(sum(places[wait] for wait in each) >= least for each in drawn)
    return Fraction(as_late, len(drawn))


wait = st.one_of(st.just(0), st.integers(0, 30))
taken = st.lists(st.tuples(wait, wait, st.one_of(st.none(), wait)), min_size=1, max_size=5)


@settings(deadline=None)
@given(taken)
def test_a_chance_is_the_share_of_what_might_as_well_have_been(
    rows: list[tuple[int, int, int | None]],
) -> None:
    # rank 0 loses each trial that it wins to rank 1 in one more, so that it is never always worst
    waits: list[list[int | None]] = [[0, 0, 0], *map(list, rows)]
    for own, found in enumerate(_chances(waits)):
        assert found == pytest.approx(min(1, 3 * float(_counted(waits, own))))


@pytest.mark.parametrize("ranks", [2, 3, 4, 8])
@pytest.mark.parametrize("steps", [1, 2, 3, 5, 10])
def test_the_worst_of_all_steps_is_one_of_as_many_ranks_in_each(ranks: int, steps: int) -> None:
    # as late each time: the times may be no finer
    waits = [[0] * (ranks - 1) + [2_000_000] for _ in range(steps)]
    assert _chances(waits)[-1] == pytest.approx(ranks ** (1 - steps))


def test_of_two_ranks_that_come_last_by_turns_it_is_told_how_often() -> None:
    # 12 steps, equal waits: 10 or more heads of 12 coins, or as many tails
    waits = [[5, 0] if step in (3, 7) else [0, 5] for step in range(12)]
    late = (comb(12, 10) + comb(12, 11) + 1) / 2**11
    assert _chances(waits) == [1, pytest.approx(late)]


def test_one_pause_among_steady_steps_is_chance() -> None:
    # who is late by 10 us changes; rank 0 makes a pause of 2 ms
    waits = [[10_000 * (step % 4 == rank) for rank in range(4)] for step in range(10)]
    waits[0][0] = 2_000_000
    assert _chances(waits) == [1, 1, 1, 1]


def test_a_pause_of_another_rank_does_not_hide_who_is_always_late() -> None:
    waits = [[1_000_000 + 50_000 * step, 0, 0, 0] for step in range(9)]
    assert _chances([*waits, [0, 200_000_000, 0, 0]])[0] < 0.01


def test_few_steps_are_enough_for_who_is_late_by_the_same_each_time() -> None:
    # (1/2)^2 * 2 ranks; within 1.01 of 100 ms, that is 1.01 % of what there is up to there
    assert _chances([[0, 98_990_001], [0, 100_000_000]])[1] == pytest.approx(0.5 * 0.0101)
    # by amounts that differ as much as those of ranks that are alike
    assert _chances([[0, 3_000_001], [0, 100_000_000]])[1] == pytest.approx(0.5 * 0.97)
    # one late rank of three besides: what counts is the time between it and the next
    assert _chances([[0, 95, 100], [0, 0, 90]])[2] == pytest.approx(3 / 9 * 90 / 90)


def test_sums_of_many_places_are_rounded_little() -> None:
    # the signed ranks of 200 differences: as many sums as there are subsets of 1 to 200
    rng = np.random.default_rng(5)
    signs = rng.random(200) < 0.6
    assert FINEST < 200 * 201 / 2
    ways = np.array([1] + [0] * (200 * 201 // 2), object)
    for place in range(1, 201):
        ways[place:] += ways[:-place].copy()
    sums = [int((np.arange(1, 201) * hit).sum()) for hit in (signs, ~signs)]
    want = [min(1, 2 * float(Fraction(int(ways[least:].sum()), 2**200))) for least in sums]
    waits = [[7 * place * hit, 7 * place * (not hit)] for place, hit in enumerate(signs, 1)]
    assert want[0] < 0.05
    assert _chances(waits) == pytest.approx(want, rel=0.02)


def _alike(kind: str, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    """How late each of ranks that are alike comes, by run, step and rank."""
    if kind == "normal":
        return rng.normal(size=shape)
    if kind == "exponential":
        return rng.exponential(size=shape)
    if kind == "lognormal":
        return rng.lognormal(0, 1.5, shape)
    if kind == "cauchy":
        return np.abs(rng.standard_cauchy(shape))
    pauses = rng.exponential(20, shape) * (rng.random(shape) < 0.1)
    return rng.normal(0, 0.1, shape) + pauses


def _caused(late: np.ndarray) -> np.ndarray:
    """What the last one of each step makes the others wait, in thousandths."""
    ranks = late.shape[-1]
    ahead = np.diff(np.sort(late)[..., -2:])[..., 0] * (ranks - 1) * 1000
    return np.where(np.arange(ranks) == late.argmax(axis=-1)[..., None], ahead[..., None], 0)


KINDS = ["normal", "exponential", "lognormal", "cauchy", "pauses"]


@nightly
@pytest.mark.parametrize("kind", at_once(KINDS, "pauses"))
def test_ranks_that_are_alike_are_seldom_called_late(kind: str) -> None:
    rng = np.random.default_rng(11)
    runs, found = 150, []
    for ranks, steps in product((2, 4, 8, 16), (2, 3, 5, 10, 50)):
        waits = _caused(_alike(kind, (runs, steps, ranks), rng)).astype(np.int64)
        found.append(sum(min(_chances(run.tolist())) <= 0.05 for run in waits))
    # of 150 runs up to 18 with a probability of 0.998 each
    assert max(found) <= 18
    assert sum(found) <= 0.05 * runs * len(found)


@pytest.mark.parametrize(("ranks", "steps"), [(2, 8), (4, 5), (8, 4), (16, 4)])
def test_a_slow_rank_is_found(ranks: int, steps: int) -> None:
    # it comes four standard deviations later than the others
    late = _alike("normal", (100, steps, ranks), np.random.default_rng(3))
    late[..., 0] += 4
    waits = _caused(late).astype(np.int64)
    assert sum(_chances(run.tolist())[0] <= 0.05 for run in waits) >= 90


def test_who_comes_after_a_root_is_not_late_because_of_whom_that_waited_for(build: Builder) -> None:
    """What was wrong: rank 2 begins each broadcast 0.9 ms after its root, which counted for rank 3
    wherever that had held the root up: it was late by a chance of 0.06, though ranks 0 and 3 are
    late for each other by turns."""
    build.ranks(4, residual_ns=1000)
    build.group(0, [0, 1, 2])
    build.group(1, [0, 3])
    for step in range(8):
        at = step * 2_000_000
        for rank in range(4):
            build.step(rank, step, (at, at + 2_000_000))
        late = {0: at + 50_000 * (step % 2), 3: at + 50_000 * (1 - step % 2)}
        build.collective(
            {n: (start, at + 60_000) for n, start in late.items()}, "all_reduce", 1, step=step
        )
        starts = {0: at + 60_000, 1: at, 2: at + 900_000 + step}
        build.collective(
            {n: (start, at + 1_000_000) for n, start in starts.items()}, "broadcast", 0, step=step,
            each={n: {"root_place": 0} for n in starts},
        )  # fmt: skip
    found = {row["rank"]: row for row in rows(build.con, "stragglers")}
    assert found[0]["origin_rank"] == 3
    assert found[3]["chance"] > 0.5


def test_stretches_of_a_single_step_are_no_steps_in_which_a_rank_is_late(build: Builder) -> None:
    """What was wrong: rank 0 is late once, in a stretch numbered as the step is, which was taken
    for all its lateness: beside nobody rank 2, which is late less than that, stood out."""
    build.unit = 1000
    build.world(3)
    late = [(0, 1), (0, 400), *[(2, 60)] * 6]
    step, at = 23, 0
    for rank in range(3):
        build.step(rank, step, (0, 2000), (0, 2000))
    for who, longer in late:
        met = {rank: at + 100 + longer * (rank == who) for rank in range(3)}
        for rank, end in met.items():
            build.gpu(rank, (at, end), step=step, launch=build.launch(rank, (at, at + 1)))
        at += 150 + longer
        for rank, start in met.items():
            build.gpu(rank, (start, at), "communication", "nccl", stream=20, step=step)
        build.collective({rank: (start, at) for rank, start in met.items()}, step=step)
    assert (step,) in build.con.sql("SELECT DISTINCT collective_id FROM collectives").fetchall()
    assert found_by(build.con, "straggler") == {}
