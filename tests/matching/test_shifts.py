"""Choosing a shift looks at candidates some at a time; how many makes no difference."""

from dataclasses import replace

import numpy as np
import pytest

from traceweave.arrays import Ints
from traceweave.matching import shifts
from traceweave.matching.alignment import _align_by_votes, _drop_outdone, align_pair
from traceweave.matching.calls import Calls
from traceweave.matching.outcome import SEVERAL_WAYS

CALLS = 400


def _calls(start: Ints, noise: Ints) -> Calls:
    """One rank's calls: all-reduces and all-gathers in turns, of two sizes, without numbers."""
    none = np.full(len(start), -1, dtype=np.int64)
    zero = np.zeros(len(start), dtype=np.int64)
    turn = np.arange(len(start), dtype=np.int64)
    return Calls(
        call_id=turn, rank=zero, source=zero, label=zero, op=turn % 2, size=8 + 8 * (turn % 4 == 3),
        dtype=zero, seq=none, peer=none, peer_number=none, step=none, stream=zero, thread=none,
        kernel=none, captured=zero > 0, on_gpu=zero == 0, computing=zero > 0, waited=zero > 0,
        root=none, start=start, end=start + 500 + noise, origin_ns=0,
    )  # fmt: skip


@pytest.mark.parametrize("at_a_time", [1, 7, shifts.SHORTLIST, 10 * CALLS])
def test_how_many_shifts_are_looked_at_together_makes_no_difference(
    monkeypatch: pytest.MonkeyPatch, at_a_time: int
) -> None:
    rng = np.random.default_rng(5)
    start = np.cumsum(rng.integers(1_000, 90_000, CALLS))
    a = _calls(start, rng.integers(0, 100, CALLS))
    b = _calls(start + 3_000, rng.integers(0, 100, CALLS))
    cut = b.take(np.arange(8, CALLS))  # its recording began eight calls later
    candidates = shifts._candidates(a, cut)
    assert len(candidates) > 2 * shifts.SHORTLIST
    listed = shifts._shortlist(a, cut, candidates, 1e6)
    monkeypatch.setattr(shifts, "AT_A_TIME", at_a_time)
    assert shifts._shortlist(a, cut, candidates, 1e6).tolist() == listed.tolist()
    assert -8 in listed
    assert shifts.choose_shift(a, cut, same_clock=False) == (-8, "")


# what was wrong: of 192 calls of four real ranks none was matched, as under a shift of two
# the ends of those that agree scatter no more
@pytest.mark.parametrize("one_more", [False, True])
def test_what_is_alike_in_every_step_has_no_rival_that_is_not(one_more: bool) -> None:
    """FSDP of four units: five gathers forward, then gathers and scatters in turns, four times.
    Calls of 2.5 ms end up to 0.5 ms apart; under a shift of two, 70 % agree. Where a rank has one
    call more than the other in a step, order tells nothing."""
    rng = np.random.default_rng(3)
    op = np.tile(np.array([0, 0, 0, 0, 0, 0, 1, 0, 1, 0, 1, 1]), 4)
    step = np.repeat(np.arange(3, 7), 12)
    end = 2_500_000 * np.arange(1, 49) + 2_700_000 * (step - 3)

    def rank(kept: Ints) -> Calls:
        calls = _calls(end - 2_400_000, rng.integers(1_900_000, 2_400_000, 48))
        return replace(calls, op=op, step=step, size=np.full(48, 8)).take(kept)

    a, b = rank(np.arange(48)), rank(np.delete(np.arange(48), 30 if one_more else []))
    shift, reason = shifts.choose_shift(a, b, same_clock=False)
    assert (shift, reason) == ((None, SEVERAL_WAYS) if one_more else (0, ""))


@pytest.mark.parametrize(("length", "matched"), [(8, True), (5, False)])
def test_a_few_calls_between_two_steps_match_under_the_shift_of_all(
    length: int, matched: bool
) -> None:
    rng = np.random.default_rng(2)
    start = np.cumsum(rng.integers(2_000_000, 9_000_000, 48))
    stepped = np.zeros(48, dtype=np.int64)
    stepped[20 : 20 + length] = 260_000
    a, b = (_calls(start + by, rng.integers(400_000, 403_000, 48)) for by in (0, stepped))
    partner = align_pair(a, b).partner
    inside = partner[20 : 20 + length]
    assert (inside == np.arange(20, 20 + length)).all() == matched
    assert set((partner - np.arange(48))[partner >= 0].tolist()) == {0}


def test_short_windows_are_matched_though_both_clocks_step() -> None:
    """What failed: 32 calls, each of two clocks set by 0.25 ms: causality seemed to forbid all."""
    rng = np.random.default_rng(4)
    start = np.cumsum(rng.integers(2_000_000, 9_000_000, 32))
    a, b = (_calls(start + 250_000 * (np.arange(32) >= at), 0 * start) for at in (9, 21))
    assert (a.end[9:21] - b.end[9:21] == 250_000).all()
    assert shifts.choose_shift(a, b, same_clock=False) == (0, "")


def test_a_clock_that_steps_more_often_than_the_calls_bear_stays_out() -> None:
    low = np.repeat([0.0, 300_000.0, 0.0, 300_000.0], 8)
    for calls, parts in ((8, 1), (16, 2), (24, 3), (32, 4)):
        high = low + 60_000
        stepped = shifts._only_stepped(240_000.0, low[:calls], high[:calls], 100_000.0)
        assert stepped == (parts < 4)
    # of 10 calls, one step leaves too few on either side
    assert not shifts._only_stepped(240_000.0, low[4:14], low[4:14] + 60_000, 100_000.0)


def test_a_clock_that_steps_twice_leaves_a_majority() -> None:
    # three stretches of one clock, a quarter of a millisecond apart, and calls lost in each
    rng = np.random.default_rng(3)
    start = np.cumsum(rng.integers(1_000_000, 9_000_000, 240))
    ahead = 260_000 * (np.arange(240) // 80)
    a, b = (_calls(start + by, rng.integers(400_000, 403_000, 240)) for by in (0, ahead))
    kept = np.setdiff1d(np.arange(240), [11, 52, 53, 54, 97, 140, 141, 190, 191, 192, 222])
    partner = align_pair(a, b.take(kept)).partner
    found = partner >= 0
    assert (kept[partner[found]] == np.flatnonzero(found)).all()
    assert found.mean() > 0.85


# what was wrong: all 230 calls of a rank of a named group stayed unmatched in a run that had lost
# one in 200, since most of the calls around those found have another shift
@pytest.mark.parametrize(("shift", "kept"), [(0, True), (8, False)])
def test_a_shift_is_judged_by_the_calls_that_it_was_found_for(shift: int, kept: bool) -> None:
    rng = np.random.default_rng(4)
    start = np.cumsum(rng.integers(28_000_000, 32_000_000, 120))
    a, b = (_calls(start, rng.integers(0, 20_000, 120)) for _ in range(2))
    a = a.take(np.delete(np.arange(120), [30, 31, 32, 33]))  # beyond these the shift is 4
    partner = np.full(len(a), -1, dtype=np.int64)
    partner[:30] = np.arange(30) + shift
    _drop_outdone(a, b, partner)
    assert (partner[:30] >= 0).all() == kept
    assert (partner[30:] == -1).all()


# what was wrong: nine calls of 28 were matched with those of seven steps earlier, which took as
# long to within 0.1 ms; no shift explains them all, since two calls in between were lost
def test_a_few_steps_that_look_like_others_do_not_outdo_all_calls() -> None:
    rng = np.random.default_rng(6)
    gaps = np.tile([19_000_000, 16_000_000, 48_000_000], 10) + rng.integers(0, 5_000_000, 30)
    gaps[22:] = gaps[1:9] + rng.integers(0, 100_000, 8)
    a, b = (_calls(np.cumsum(gaps), rng.integers(400_000, 410_000, 30)) for _ in range(2))
    a, b = (replace(calls, op=0 * calls.op, size=0 * calls.size) for calls in (a, b))
    kept = np.delete(np.arange(30), [8, 17])
    assert align_pair(a.take(kept), b).partner.tolist() == kept.tolist()


def _bursts(lost: list[int], of: int, apart_ns: int, late_ns: int) -> Calls:
    """12 bursts of calls, each `apart_ns` after the one before, without those that were lost."""
    rng = np.random.default_rng(7)
    first = np.cumsum(rng.integers(90_000_000, 120_000_000, 12))
    start = (first[:, None] + apart_ns * np.arange(of)).ravel() + late_ns
    calls = _calls(start, rng.integers(0, 8_000, len(start)))
    alike = replace(calls, op=0 * calls.op, size=0 * calls.size, start=calls.end - 100_000)
    return alike.take(np.delete(np.arange(len(start)), lost))


# what was wrong: the first call of a rank that had lost the third became the second of the others,
# which ends 0.1 ms later, since nothing before it contradicts that order
@pytest.mark.parametrize(("lost", "other"), [([2], []), ([2], [0]), ([3], [0])])
def test_order_gives_no_call_to_one_that_another_ends_nearer_to(
    lost: list[int], other: list[int]
) -> None:
    a, b = _bursts(lost, 2, 120_000, 0), _bursts(other, 2, 120_000, 3_000)
    mine, theirs = (np.delete(np.arange(24), of) for of in (lost, other))
    partner = align_pair(a, b).partner
    found = partner >= 0
    assert (theirs[partner[found]] == mine[found]).all()
    assert found.mean() > 0.85


# what was wrong: two calls were one, of which either rank had lost the other, though one ended
# 0.1 ms before the other began: a vote tells a line coarsely
def test_calls_near_a_voted_line_are_no_partners_if_causality_forbids_it() -> None:
    a, b = _bursts([10], 2, 200_000, 0), _bursts([11], 2, 200_000, 3_000)
    partner = _align_by_votes(a, b, False, "").partner
    assert partner.tolist() == [*range(10), -1, *range(11, 23)]


def _busy(calls: int, later_ns: int, step: bool) -> tuple[Calls, Calls]:
    """Two ranks of one host with five sums at once per step of 100 ms; the second one's threads get
    a core so much later."""
    turn = np.arange(calls)
    start = 100_000_000 * (turn // 5) + 1_000 * (turn % 5)
    long = 60_000_000 + 5_000_000 * (turn % 5)
    a, b = (_calls(start, long + by) for by in (0, later_ns))
    sums = {"op": turn * 0, "size": turn * 0 + 8} | ({"step": turn // 5} if step else {})
    return replace(a, **sums), replace(b, **sums)


def test_equal_steps_tell_what_ends_far_apart_on_one_clock_do_not() -> None:
    a, b = _busy(40, 12_000_000, step=True)
    assert shifts.choose_shift(a, b, same_clock=True) == (0, "")


@pytest.mark.parametrize(
    ("long_ms", "lost", "shift"), [(20, (0, 0), 0), (80, (0, 0), None), (80, (1, 1), None)]
)
def test_without_steps_all_calls_in_order_are_told_where_no_other_shift_is_possible(
    long_ms: int, lost: tuple[int, int], shift: int | None
) -> None:
    """Ends lie 12 to 24 ms apart. Of long calls others run at once: where the first rank lost its
    first one and the second its last, causality does not tell the n-th from the n-th's."""
    rng = np.random.default_rng(0)
    start = np.cumsum(rng.integers(15_000_000, 45_000_000, 60))
    long = 1_000_000 * long_ms + rng.integers(0, 15_000_000, 60)
    a, b = (_calls(start, long + late) for late in (0, rng.integers(12_000_000, 24_000_000, 60)))
    a, b = (replace(one, op=one.op * 0, size=one.op * 0) for one in (a, b))
    a, b = a.take(np.arange(lost[0], 60)), b.take(np.arange(60 - lost[1]))
    assert shifts.choose_shift(a, b, same_clock=True)[0] == shift


# what was wrong: of a real DDP job of two ranks on one host, 96 buckets of one size per step, no
# call was matched
@pytest.mark.parametrize("lost", [0, 96])
def test_many_calls_alike_are_told_by_the_steps_that_they_are_of(lost: int) -> None:
    """A sum of 2 ms each ms, whose ends lie up to 3 ms apart: causality allows the next one too."""
    rng = np.random.default_rng(0)
    turn = np.arange(96 * 8)
    start = 1_000_000 * turn + 20_000_000 * (turn // 96)
    a, b = (_calls(start, 2_000_000 + rng.integers(0, 3_000_000, len(turn))) for _ in range(2))
    a, b = (replace(one, op=0 * turn, size=0 * turn, step=turn // 96) for one in (a, b))
    assert shifts.choose_shift(a, b.take(turn[lost:]), same_clock=True) == (-lost, "")


def test_calls_that_change_places_leave_the_order_of_the_others() -> None:
    """Two buckets of which gloo's threads begin the second first on one rank, in two steps: of all
    shifts but the right one, sizes allow only those under which next to nothing is alike."""
    turn = np.arange(60)
    start = 100_000_000 * (turn // 6) + 10_000_000 * (turn % 6)
    rng = np.random.default_rng(0)
    a, b = (_calls(start, rng.integers(1_000_000, 9_000_000, 60)) for _ in range(2))
    sizes = 8 + 8 * (turn % 2)
    swapped = sizes.copy()
    swapped[[20, 21, 42, 43]] = sizes[[21, 20, 43, 42]]
    a, b = (
        replace(one, op=0 * turn, size=of, step=turn // 6) for one, of in ((a, sizes), (b, swapped))
    )
    assert not shifts.same_steps(a, b, 0)
    assert shifts.choose_shift(a, b, same_clock=True) == (0, "")
    partner = align_pair(a, b, same_clock=True).partner
    found = np.flatnonzero(partner >= 0)
    assert len(found) >= 50
    assert (partner[found] == found).all()


def test_equal_steps_are_not_enough_where_causality_holds_under_no_shift_of_one_clock() -> None:
    """As ranks of hosts of one name whose clocks lie a step apart."""
    a, b = _busy(40, 12_000_000, step=True)
    b = replace(b, start=b.start + 100_000_000, end=b.end + 100_000_000)
    assert shifts.choose_shift(a, b, same_clock=True)[0] is None


# what was wrong: up to all calls of such a rank were matched with those four or nine calls off,
# since no other shift brought ends near, so none was asked whether that is chance
@pytest.mark.parametrize(("later_ms", "lost"), [(12, 0), (12, 1), (25, 0), (25, 1)])
def test_the_only_shift_that_brings_ends_near_may_be_chance(later_ms: int, lost: int) -> None:
    """A call of 80 ms every 4 ms: twenty run at once, and one rank's end some calls later."""
    rng = np.random.default_rng(1)
    start = np.cumsum(rng.integers(2_000_000, 6_000_000, 60))
    long = 80_000_000 + rng.integers(0, 2_000_000, 60)
    late = 1_000_000 * later_ms + rng.integers(0, 1_000_000 * later_ms, 60)
    a, b = (_calls(start, long + by) for by in (0, late))
    a, b = (replace(one, op=one.op * 0, size=one.op * 0) for one in (a, b))
    a, b = a.take(np.arange(lost, 60)), b.take(np.arange(60 - lost))
    assert shifts.choose_shift(a, b, same_clock=True)[0] is None
    partner = align_pair(a, b, same_clock=True).partner
    found = np.flatnonzero(partner >= 0)
    assert (partner[found] == found + lost).all()


@pytest.mark.parametrize("lost", [[3], [22, 23]])
def test_steps_of_which_calls_are_lost_tell_no_order(lost: list[int]) -> None:
    """The first rank's recording begins two calls into a step. Of that step, or of a later one, the
    other lost some."""
    a, b = _busy(40, 12_000_000, step=True)
    a, b = a.take(np.arange(2, 40)), b.take(np.delete(np.arange(40), lost))
    partner = align_pair(a, b, same_clock=True).partner
    found = np.flatnonzero(partner >= 0)
    assert (b.call_id[partner[found]] == a.call_id[found]).all()


def test_steps_that_are_whole_tell_order_where_one_rank_recorded_more_of_them() -> None:
    a, b = _busy(40, 12_000_000, step=True)
    assert shifts.choose_shift(a.take(np.arange(10, 40)), b, same_clock=True) == (10, "")
    assert shifts.choose_shift(a, b.take(np.arange(5, 35)), same_clock=True) == (-5, "")


# what was wrong: all 59 calls were matched with the next ones: the right shift was not among those
# that are looked at closely, since 24 others bring ends nearer, and of these only one was possible
@pytest.mark.parametrize("seed", [3, 9, 18])
def test_order_is_told_only_where_no_shift_of_all_is_possible_beside_it(seed: int) -> None:
    rng = np.random.default_rng(seed)
    start = np.cumsum(rng.integers(7_500_000, 22_500_000, 60))
    late = rng.integers(25_000_000, 50_000_000, 60)
    a, b = (_calls(start, 1_000_000 + by) for by in (0, late))
    a, b = (replace(one, op=one.op * 0, size=one.op * 0) for one in (a, b))
    assert align_pair(a.take(np.arange(1, 60)), b.take(np.arange(59)), same_clock=True).line is None


@pytest.mark.parametrize(("scatter_us", "shift"), [(50, 1), (12_000, None)])
def test_where_ends_lie_apart_a_window_of_fewer_calls_needs_them_to_lie_evenly(
    scatter_us: int, shift: int | None
) -> None:
    """The first rank lacks its first call. Ends lie 12 ms apart, and causality leaves one shift."""
    rng = np.random.default_rng(0)
    start = np.cumsum(rng.integers(25_000_000, 45_000_000, 60))
    late = 12_000_000 + rng.integers(0, 1_000 * scatter_us, 60)
    a, b = (_calls(start, 5_000_000 + by) for by in (0, late))
    a, b = (replace(one, op=one.op * 0, size=one.op * 0) for one in (a, b))
    assert shifts.choose_shift(a.take(np.arange(1, 60)), b, same_clock=True)[0] == shift


# what was wrong: causality left two ways to pair six recorded calls of gloo, whose threads ended up
# to 5 ms apart, and it was said that it left none
def test_what_may_be_paired_in_two_ways_is_not_called_impossible() -> None:
    waiting = [
        0, 39564, 43134, 79497, 80920, 116291, 117711, 155309, 156768, 190978, 192474, 232948,
    ]  # fmt: skip
    late = [
        38736, 44680, 78697, 82586, 115479, 119243, 154441, 158277, 190108, 194543, 230217, 232859,
    ]  # fmt: skip
    a, b = (
        replace(
            _calls(np.array(us[::2]) * 1000, np.zeros(6, np.int64)), end=np.array(us[1::2]) * 1000
        )
        for us in (waiting, late)
    )
    a, b = (replace(calls, op=0 * calls.op, size=0 * calls.size) for calls in (a, b))
    assert shifts.choose_shift(a, b, same_clock=True) == (None, SEVERAL_WAYS)
