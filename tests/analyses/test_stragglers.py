from collections.abc import Sequence
from itertools import product
from typing import Any

import duckdb
import pytest
from duckdb import DuckDBPyConnection as Connection

from tests.analyses.builders import Builder, check, rows
from tests.cases import cases
from tests.conftest import Recorded
from tests.marks import first_at_once, nightly
from tests.told import Case, told

NEVER = "it was never last"
TOO_SMALL = "at least half of its lateness is below the clock resolution"
NOTHING_BEFORE = "no earlier collective of the same ranks to measure from"


class Run(Builder):
    """Ranks that come late."""

    def three_ranks(self, residual_ns: int | None = 0) -> None:
        # starts      rank 0   rank 1   rank 2
        # step 1         0       10       40     rank 2 is 30 late, two wait
        # step 1       100      105      105     together: nobody is last
        # step 2       220      200      200     rank 0 is 20 late, two wait
        # step 2       300               350     rank 2 is 50 late, one waits
        # shared by all who are missing: rank 1 5 + 2.5, rank 2 5 + 60 + 2.5 + 50, rank 0 40
        self.ranks(3, residual_ns=residual_ns)
        self.collective({0: (0, 60), 1: (10, 60), 2: (40, 60)}, step=1)
        self.collective({0: (100, 160), 1: (105, 160), 2: (105, 160)}, step=1)
        self.collective({0: (220, 260), 1: (200, 260), 2: (200, 260)}, step=2)
        self.collective({0: (300, 400), 2: (350, 400)}, step=2)

    def mesh(self, work: dict[int, int], step: int = 1, at: int = 0) -> int:
        """A step of 4 ranks that compute (us) in the groups (0, 1) and (2, 3), and then 10 us more
        before those that cross them, (0, 2) and (1, 3); returns its end."""
        us = 1000

        def meet(
            groups: list[tuple[int, int]], begun: dict[int, int], first: int
        ) -> dict[int, int]:
            done: dict[int, int] = {}
            for number, ranks in enumerate(groups, first):
                end = max(begun[rank] for rank in ranks) + 5
                spans = {rank: (at + begun[rank] * us, at + end * us) for rank in ranks}
                self.collective(spans, group_id=number, step=step)
                done |= dict.fromkeys(ranks, end)
            return done

        for rank, length in work.items():
            self.gpu(rank, (at, at + length * us), step=step)
        first = meet([(0, 1), (2, 3)], work, 0)
        for rank, begin in first.items():
            self.gpu(rank, (at + begin * us, at + (begin + 10) * us), step=step)
        last = meet([(0, 2), (1, 3)], {rank: end + 10 for rank, end in first.items()}, 2)
        assert len(set(last.values())) == 1
        return at + last[0] * us

    def held_up(self) -> None:
        """Rank 1 waits for rank 0, and then rank 2 for rank 1."""
        self.collective({0: (50_000, 55_000), 1: (20_000, 55_000)}, group_id=0)
        self.collective({1: (95_000, 100_000), 2: (45_000, 100_000)}, group_id=1)
        self.gpu(0, (0, 50_000))
        self.gpu(2, (0, 45_000))

    def late(self) -> None:
        """Rank 0 arrives at the second collective 100 us after rank 1."""
        self.ranks(2)
        self.collective({0: (0, 50_000), 1: (0, 50_000)})
        self.collective({0: (250_000, 300_000), 1: (150_000, 300_000)})

    def late_launches(self, *host: str) -> None:
        """What comes before that is launched late, after what the host was in."""
        self.late()
        for rank, start in ((0, 230_000), (1, 130_000)):
            self.gpu(rank, (0, 20_000))
            call = self.launch(rank, (start - 1000, start))
            self.gpu(rank, (start, start + 20_000), launch=call)
            if host:
                self.host(rank, (40_000, start - 2000), *host)

    def called(self, at: int) -> None:
        """Rank 0 computes longer, and calls the second collective then."""
        self.ranks(2)
        self.collective({0: (0, 50_000), 1: (0, 50_000)})
        spans = {0: (250_000, 300_000), 1: (150_000, 300_000)}
        each = {}
        for rank, call in ((0, at), (1, 100_000)):
            self.gpu(rank, (50_000, spans[rank][0]))
            launch = self.launch(rank, (call, call + 1000))
            op = self.gpu(rank, spans[rank], category="communication", launch=launch)
            each[rank] = {"gpu_op_id": op}
        self.collective(spans, each=each)

    def ended_later(self, residual_ns: int) -> None:
        """The first collective of rank 0 ends 0.9 ms later than that of rank 1."""
        self.ranks(2, residual_ns=residual_ns)
        self.collective({0: (0, 1_900_000), 1: (0, 1_000_000)})
        self.gpu(0, (1_900_000, 2_200_000))
        self.gpu(1, (1_000_000, 1_200_000))
        self.collective({0: (2_200_000, 3_000_000), 1: (1_200_000, 3_000_000)})

    def one_by_one(self) -> None:
        """In each of three steps each of three ranks comes 40 after the one before."""
        self.ranks(3)
        for step in (1, 2, 3):
            at = 1000 * step
            self.collective({rank: (at + 40 * rank, at + 100) for rank in range(3)}, step=step)

    def leave_out(self, rank: int, steps: list[int]) -> None:
        """Records of a rank are lost, in these steps or in all."""
        self.sql(
            f"INSERT INTO recording VALUES ({rank}, 0, 'lost records', {steps}, 1, 2, true, '', '')"
        )


def _ask(con: Connection, name: str, **params: object) -> list[dict[str, Any]]:
    """Return the rows of `stragglers`; `origins` are sorted by rank."""
    got = rows(con, "stragglers", **params)
    if name == "origins":
        assert sum(row["origin_wait_ns"] for row in got) == sum(row["waited_ns"] for row in got)
        return sorted(got, key=lambda row: (row["rank"], row["step"] or 0))
    return got


@told
def test_stragglers(empty_run: duckdb.DuckDBPyConnection, case: Case) -> None:
    check(Run(empty_run), case, _ask, **globals())


def _late_in_steps(build: Builder, late_ns: Sequence[int]) -> dict[int, float]:
    """Return the chance of two ranks: rank 1 comes so much later in each step, rank 0 if less."""
    build.ranks(2)
    for step, late in enumerate(late_ns):
        at = step * 1_000_000
        build.collective(
            {0: (at - min(late, 0), at + 200_000), 1: (at + max(late, 0), at + 200_000)}, step=step
        )
    return {row["rank"]: row["chance"] for row in rows(build.con, "stragglers")}


@nightly
@pytest.mark.parametrize("steps", [3, 2, 8])
def test_the_more_often_the_same_rank_is_last_the_less_it_is_chance(
    build: Builder, steps: int
) -> None:
    # by the same time, 10 us: it may be the shortest that can be told. Heads each time, or tails
    assert _late_in_steps(build, [10_000] * steps) == {0: 1, 1: pytest.approx(2 / 2**steps)}


@nightly
def test_long_lateness_is_less_by_chance_than_short(build: Builder) -> None:
    # both are last as often. The places of rank 1, which is later, are the upper ones
    late = [-10_000, -20_000, -30_000, -40_000, 100_000, 110_000, 120_000, 130_000]
    drawn = [sum(each) for each in product(*((0, place) for place in range(1, 9)))]
    as_late = sum(places >= 5 + 6 + 7 + 8 for places in drawn)
    assert _late_in_steps(build, late) == {0: 1, 1: pytest.approx(2 * as_late / 2**8)}


@first_at_once(2)
@cases
def test_who_was_late_by_chance_alone_is_told_from_who_is_slow(
    recorded: Recorded, case: str, rank: int, is_chance: bool
) -> None:
    late = recorded(case).stragglers().set_index("rank").loc[rank]
    assert late["known_last"] > 0
    assert (late["chance"] > 0.05) == is_chance


@first_at_once()
@pytest.mark.parametrize(
    "name",
    ["ddp_gloo_straggler", "busy_cores_gloo", "captured_gloo", "messages_mesh_gloo",
     "two_interfaces_gloo", "uneven_work_gloo", "uneven_start_gloo", "kineto/megatron_tp8"],
)  # fmt: skip
def test_no_rank_waits_longer_than_its_steps_last(recorded: Recorded, name: str) -> None:
    run = recorded(name)
    ranks = run.stragglers(per="step").dropna(subset="step")
    steps = run.sql(
        "SELECT rank, step, greatest(duration_ns, device_end_local_ns - device_start_local_ns)"
        " AS length_ns FROM steps"
    )
    both = ranks.merge(steps, on=["rank", "step"], how="left")
    assert (both["waited_ns"] <= both["length_ns"]).all()
    assert both["waited_ns"].sum() == both["origin_wait_ns"].sum()
