"""What is matched of a few calls, worked out by hand: woven.cases; times are us."""

import numpy as np
from duckdb import DuckDBPyConnection as Connection

from tests.collective_calls import Calls, check_woven
from tests.told import Case, told
from traceweave.matching.outcome import ALONE as ALONE
from traceweave.matching.outcome import COALESCED as COALESCED
from traceweave.matching.outcome import DISAGREE as DISAGREE
from traceweave.matching.outcome import NO_PEER as NO_PEER
from traceweave.matching.outcome import ONE_SIDE as ONE_SIDE

STARTS = np.cumsum([0, 130, 210, 170, 90, 260, 310, 120, 180, 205, 144, 99]).tolist()
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


@told
def test_woven(empty_run: Connection, case: Case) -> None:
    check_woven(Messages(empty_run), case, **globals())
