"""overlap: what is hidden, what could have been and what that gains, by hand and on real runs."""

from collections.abc import Callable
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import traceweave
from tests.analyses.builders import Builder, rows, told, unchanging
from tests.cases import cases
from tests.conftest import Recorded
from tests.marks import nightly
from traceweave.replay.engine import replay
from traceweave.replay.graph import graph_of
from traceweave.replay.hideable import served
from traceweave.replay.nodes import Sort

US = 1000
later = partial(pytest.param, marks=nightly)
MAIN, SIDE = 7, 20
WHY = ("launch_starved_ns", "blocked_ns", "dependency_ns", "unknown_ns")
POSSIBLE = ("waiting_ns", "movable_ns", "reorder_ns", "never_ns")


class Rank:
    """Writes the ops of a rank in step 1; times in us."""

    def __init__(self, build: Builder, rank: int, end: int) -> None:
        self.build, self.number = build, rank
        build.rank(rank)
        build.step(rank, 1, (0, end * US), (0, end * US))

    def op(
        self, name: str, at: tuple[int, int], call: int, stream: int = MAIN, tid: int = 1
    ) -> int:
        """An op and its launch; those that begin with C are communication, with M copies."""
        category = {"C": "communication", "M": "memory"}.get(name[0], "compute")
        launch = self.build.launch(self.number, (call * US, call * US + US), tid)
        span = (at[0] * US, at[1] * US)
        return self.build.gpu(self.number, span, category, name, stream, launch=launch, step=1)

    def waits(self, at: int, tid: int = 1) -> None:
        """What the thread launches next waits for what was launched so far on the main stream; or
        that for what was on a side stream."""
        span = (at * US, at * US + US // 2)
        self.build.host(self.number, span, "cudaStreamWaitEvent", "runtime", 9, tid)


def _calls(build: Builder, at: dict[int, tuple[int, int]], ops: dict[int, int]) -> None:
    each = {rank: {"gpu_op_id": op, "stream": SIDE} for rank, op in ops.items()}
    spans = {rank: (start * US, end * US) for rank, (start, end) in at.items()}
    build.collective(spans, step=1, each=each)


def _row(found: list[dict[str, Any]], **wanted: Any) -> dict[str, Any]:
    [row] = [row for row in found if all(row[key] == value for key, value in wanted.items())]
    return row


def _us(row: dict[str, Any], names: tuple[str, ...]) -> list[float]:
    return [pytest.approx((row[name] or 0) / US) for name in names]


def _needed_at_once(build: Builder, long: int) -> None:
    """K1 of 100 us, a call of `long` that waits for it, and K2 of 50 that waits for the call."""
    build.group(0, [0])
    end = 102 + long
    rank = Rank(build, 0, end + 50)
    rank.op("K1", (0, 100), 0)
    rank.waits(9)
    op = rank.op("C", (101, 101 + long), 10, SIDE)
    rank.waits(19)
    rank.op("K2", (end, end + 50), 20)
    _calls(build, {0: (101, 101 + long)}, {0: op})


@nightly
def test_what_is_needed_at_once_needs_smaller_pieces(build: Builder) -> None:
    _needed_at_once(build, 49)
    row = _row(rows(build.con, "overlap"), op="all_reduce")
    # nothing lies between K1 and K2, and both together are longer than the call
    assert _us(row, POSSIBLE) == [0, 0, 49, 0]
    assert _us(row, WHY) == [0, 0, 49, 0]
    assert (row["slack_ns"], row["known_share"], row["hidden_ns"]) == (0, 1, 0)


def test_no_schedule_hides_more_than_the_compute_there_is(build: Builder) -> None:
    _needed_at_once(build, 400)
    found = rows(build.con, "overlap")
    every, call = (_row(found, op=op) for op in (None, "all_reduce"))
    assert _us(call, POSSIBLE) == [0, 0, 150, 250]
    # that, and the two times 1 us that the streams wait for each other
    assert every["exposed_ns"] == pytest.approx(402 * US)
    assert call["gain_ns"] == 400 * US
    assert every["first_change"] == "Send less: the step has no compute left to hide it"


def _launched_late(build: Builder) -> None:
    """The call needs K0 alone, which ends at 40, but is launched at 95: K1 runs until 100."""
    build.group(0, [0])
    rank = Rank(build, 0, 201)
    rank.op("K0", (0, 40), 0)
    rank.waits(5, tid=2)
    rank.op("K1", (40, 100), 12)
    op = rank.op("C", (100, 150), 95, SIDE, tid=2)
    rank.waits(96)
    rank.op("K2", (151, 201), 97)
    _calls(build, {0: (100, 150)}, {0: op})


def test_an_earlier_launch_hides_what_compute_lay_between(build: Builder) -> None:
    _launched_late(build)
    found = rows(build.con, "overlap")
    row = _row(found, op="all_reduce")
    assert _us(row, POSSIBLE) == [0, 50, 0, 0]
    assert row["launch_starved_ns"] == 50 * US
    # input at 40; K2 follows K1, which ends at 100
    assert row["slack_ns"] == 60 * US
    every = _row(found, op=None)
    assert every["scenario"] == "overlap=full"
    assert every["first_change"].endswith("by replay at most 50.0 us per step")


@nightly
def test_waiting_is_not_for_this_rank_to_hide(build: Builder) -> None:
    build.group(0, [0, 1])
    ops = {}
    for number, start in ((0, 100), (1, 130)):
        rank = Rank(build, number, 240)
        rank.op("K1", (0, start), 0)
        rank.waits(9)
        ops[number] = rank.op("C", (start, 170), 10, SIDE)
        rank.waits(19)
        rank.op("K2", (170, 240), 20)
    _calls(build, {0: (100, 170), 1: (130, 170)}, ops)
    with unchanging(build.con):
        whole = rows(build.con, "overlap")
        by_rank, calls = (rows(build.con, "overlap", per=per) for per in ("rank", "call"))
    assert _us(_row(by_rank, op="all_reduce", rank=0), POSSIBLE) == [30, 0, 40, 0]
    assert _us(_row(by_rank, op="all_reduce", rank=1), POSSIBLE) == [0, 0, 40, 0]
    assert _us(_row(whole, op="all_reduce"), POSSIBLE) == [15, 0, 40, 0]
    assert [(row["rank"], row["step"], row["exposed_ns"]) for row in calls] == [
        (0, 1, 70 * US),
        (1, 1, 40 * US),
    ]
    # on rank 0 the input is there at 100, on rank 1 at 130, when K2 of rank 0 would be ready
    assert {row["slack_ns"] for row in calls} == {0}


@nightly
def test_a_copy_that_compute_is_behind_and_one_before_a_late_launch(build: Builder) -> None:
    rank = Rank(build, 0, 300)
    rank.op("K1", (0, 100), 0)
    rank.op("M1", (100, 140), 5)
    rank.op("K2", (140, 200), 10)
    rank.op("M2", (200, 220), 20, SIDE)
    rank.op("K3", (250, 300), 245)
    found = rows(build.con, "overlap")
    assert _us(_row(found, op="copy"), WHY) == [20, 0, 40, 0]
    assert _us(_row(found, op="idle"), WHY) == [
        pytest.approx(26, abs=5), 0, 0, pytest.approx(4, abs=5),
    ]  # fmt: skip
    assert _row(found, op=None)["exposed_ns"] == 90 * US


def test_work_without_a_record_makes_what_follows_unknown(build: Builder) -> None:
    build.group(0, [0])
    rank = Rank(build, 0, 200)
    rank.op("K1", (0, 100), 0)
    op = rank.op("C", (100, 150), 10, SIDE)
    rank.op("K2", (170, 200), 160)
    _calls(build, {0: (100, 150)}, {0: op})
    [row] = rows(build.con, "exposed_causes")
    assert (row["cause"], row["cause_detail"]) == ("launched_late", "the compute that follows")
    # what was launched at 50 may have run beside the call
    build.launch(0, (50 * US, 51 * US), correlation=5)
    columns = "cause cause_detail"
    assert told(build.con, "exposed_causes", columns) == [
        ("unknown", "what was launched has no record")
    ]


def test_as_much_as_possible_is_served_in_time() -> None:
    """Against Hall's theorem: of unit jobs as many fit as the worst set of moments leaves over."""
    draw = np.random.default_rng(7)
    for _ in range(60):
        release = draw.integers(0, 8, 4)
        deadline = release + draw.integers(0, 6, 4)
        amount = draw.integers(0, 5, 4)
        least = int(amount.sum())
        # the most that is served is the least, over all sets of jobs, of what the others want and
        # the moments that lie in the time of any of the set
        for size in range(1, 5):
            for chosen in combinations(range(4), size):
                moments = {t for one in chosen for t in range(release[one], deadline[one])}
                others = sum(int(amount[one]) for one in range(4) if one not in chosen)
                least = min(least, others + len(moments))
        found = served(release, deadline, amount)
        assert np.all(found <= amount)
        assert int(found.sum()) == least


@nightly
@cases
def test_real_runs(
    recorded: Recorded, name: str, hidden: float, exposed: float, possible: tuple[float, ...]
) -> None:
    found = recorded(name).overlap()
    every = found[found["op"].isna()].iloc[0]
    calls = found[found["op"].notna() & ~found["op"].isin(["copy", "idle"])]
    assert every["hidden_ns"] / 1e6 == pytest.approx(hidden, abs=0.01)
    assert calls["exposed_ns"].sum() / 1e6 == pytest.approx(exposed, abs=0.01)
    assert [every[part] / 1e6 for part in POSSIBLE] == pytest.approx(possible, abs=0.01)


@nightly
def test_a_call_gains_at_most_what_of_it_is_on_the_critical_path(
    corpus: Path, database_of: Callable[..., Path]
) -> None:
    """Held against replays, each without one collective."""
    path = corpus / "nsys" / "fsdp_2rank_before__2026.2.sqlite"
    with traceweave.open(database_of(path)) as run:
        most = run.overlap(per="call").groupby("collective_id")["gain_ns"].max()
        graph = graph_of(run.con)
        numbered = run.con.execute("SELECT number, collective_id FROM tw_replay_instances")
        instances = numbered.fetchall()
    nodes, gains = graph.nodes, {}
    end = nodes.end.max()
    for number, one in instances:
        length = nodes.length.astype(np.int64)
        length[(nodes.instance == number) & (nodes.sort == Sort.TRANSFER)] = 0
        start = replay(nodes.with_(length=length), graph.edges, graph.runs)
        gains[one] = int(end - (start + length).max())
    assert set(most.index) <= set(gains)
    assert all(0 <= gains[one] <= most[one] for one in most.index)
    # and most of it is gained
    assert sum(gains.values()) > 0.9 * most.sum() > 5_000_000
