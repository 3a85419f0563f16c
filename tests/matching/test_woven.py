"""What is matched of a few calls, worked out by hand: woven/; times are us."""

import numpy as np
from duckdb import DuckDBPyConnection as Connection

from tests.collective_calls import BASE, Calls, check_woven
from tests.told import Case, told
from traceweave.matching.outcome import ALONE as ALONE
from traceweave.matching.outcome import COALESCED as COALESCED
from traceweave.matching.outcome import DISAGREE as DISAGREE
from traceweave.matching.outcome import NO_PEER as NO_PEER
from traceweave.matching.outcome import NO_SEQ as NO_SEQ
from traceweave.matching.outcome import ONE_SIDE as ONE_SIDE
from traceweave.weave import weave

STARTS = np.cumsum([0, 130, 210, 170, 90, 260, 310, 120, 180, 205, 144, 99]).tolist()
NEAR, FAR = [[0, 1], [2, 3]], [[0, 2], [1, 3]]
BY_TURNS = [600 * k + 7 * k * k for k in range(30)]


class Messages(Calls):
    """Calls that not all members wait in."""

    def rooted(self, root: int | None) -> None:
        """A reduce and a broadcast in each of six steps."""
        for step in range(6):
            at = 100_000 * step + 1300 * step**2  # what repeats itself exactly has no order
            for rank, reduces, broadcasts in ((0, 8_000, 9_100), (1, 1_000, 20_000)):
                for op, begins in (("reduce", at + reduces), ("broadcast", at + broadcasts)):
                    more = {"ranks": [0, 1], "step": step, "root_place": root}
                    self.call(rank, begins, begins + 1000, op=op, **more)

    def sent_and_received(self, k: int, at: int) -> None:
        """From rank 0 to 1; rank 2 receives what rank 1 did not send."""
        self.call(0, at, at + 40, op="send", peer=1, ranks=[0, 1, 2])
        self.call(1, at + 2, at + 41, op="recv", peer=0, ranks=[0, 1, 2])
        self.call(2, at + k, at + 60, op="recv", peer=1, ranks=[0, 1, 2])

    def listed(
        self, rank: int, place: int, name: str, ranks: list[int] | None = None, size: int = 2
    ) -> None:
        """A group that a trace lists."""
        self.con.execute(
            "INSERT INTO base.listed_groups VALUES ($1, $1, $2, $3, NULL, $4, $5)",
            [rank, place, name, ranks, size],
        )

    def job(self, host: str | None = "node0") -> None:
        """Four ranks that list the groups 'world', 'near' and 'far', in this order."""
        for rank in range(4):
            self.rank(rank, host=host, world_size=4, last_us=100_000)
            self.listed(rank, 0, "world", None, 4)
            self.listed(rank, 1, "near", NEAR[rank // 2], 4)
            self.listed(rank, 2, "far", FAR[rank % 2], 4)

    def thread(
        self, rank: int, thread: int, start: float, end: float, op: str = "all_reduce"
    ) -> None:
        """A call of a worker thread; threads of later ranks have higher numbers, as those of
        processes do that start one by one."""
        stream = 100 * rank + thread
        self.call(rank, start, end, op=op, group=None, size=4, stream=stream, evidence="host op")

    def pairs(self, apart_us: float, rest_us: int = 0) -> None:
        """Sums in near and far pairs by turns, 20 of each; near ones of ranks 2 and 3 `apart_us`
        later than those of 0 and 1. After every fifth all rest."""
        for n in range(20):
            at = 1_000 * n + rest_us * (n // 5)
            for rank in range(4):
                near = at + apart_us * (rank // 2)
                self.thread(rank, 1 + n % 2, near, near + 50)
                self.thread(rank, 3 + n % 2, at + 600, at + 650)

    def four_threads(self, sources: int) -> None:
        """Of each of two ranks: two in either half of its calls, which may have its own file."""
        for rank in range(2):
            for source in range(sources):
                of = 2 * source + rank
                self.rank(rank, host="node0", world_size=2, source=of, last_us=50_000)
            for n in range(40):
                half, at = n // 20, 1_000 * n + 37 * (n * n % 11)
                self.call(
                    rank, at, at + 50, group=None, size=2, bytes=1024 + 8 * (n % 7),
                    evidence="host op", stream=10 * rank + 2 * half + n % 2,
                    source_id=2 * (half % sources) + rank,
                )  # fmt: skip

    def many_groups(self, groups: int) -> None:
        """That two ranks list, and 16 threads of each with 20 sums."""
        for rank in range(2):
            self.rank(rank, host="node0", world_size=2)
            for place in range(groups):
                self.listed(rank, place, f"group {place}")
            for n in range(8 * 20):
                self.thread(rank, n % 16, 1_000 * n, 1_000 * n + 50)

    def pause(self, rank: int, start_us: int, length_us: int) -> None:
        self.con.execute(
            "INSERT INTO base.pauses VALUES ($1, $1, $2, $3)",
            [rank, BASE + 1000 * start_us, 1000 * length_us],
        )

    def steps(self, first: int) -> None:
        """Four of 7 ms, each of which begins with a pause of 1 ms on every rank."""
        for rank in range(4):
            for step in range(4):
                start = 7_000 * step - 1_500
                self.pause(rank, start + 100, 1_000)
                self.con.execute(
                    "INSERT INTO base.steps BY NAME SELECT $1 AS rank, $1 AS source_id, $2 AS step,"
                    " $3 AS start_local_ns, 7000000 AS duration_ns, 'ProfilerStep' AS source",
                    [rank, first + step, BASE + 1000 * start],
                )

    def woven(self) -> None:
        weave(self.con)


@told
def test_woven(empty_run: Connection, case: Case) -> None:
    check_woven(Messages(empty_run), case, **globals())
