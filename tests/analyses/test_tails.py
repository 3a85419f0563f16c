from typing import Any

import duckdb
from duckdb import DuckDBPyConnection as Connection

from tests.analyses.builders import Builder, check, found_by, rows
from tests.told import Case, told

US = 1000
BESIDE = (3050 * US, 3390 * US)


class Run(Builder):
    """All-reduces of two ranks."""

    def kind(self, lengths: list[int], late: dict[int, int] | None = None) -> None:
        """One a step, from 1,000 us times the step on, of these lengths; in some steps rank 1 comes
        so much later. Times in us."""
        self.world(2)
        for step, length in enumerate(lengths, 1):
            at = 1000 * step
            window = (at * US, (at + 1000) * US)
            for rank in (0, 1):
                self.step(rank, step, window, window)
            start, end = at + (late or {}).get(step, 0), at + length
            spans = {0: (at * US, end * US), 1: (start * US, end * US)}
            self.collective(spans, step=step)


def _ask(con: Connection, name: str) -> list[dict[str, Any]]:
    """Return the rows of `tails`; of `all_reduce` alone; the names of columns with `nothing`."""
    got = rows(con, "tails")
    if name == "nothing":
        return [{"column": key} for key, value in sorted(got[0].items()) if value is None]
    return got if name == "tails" else [row for row in got if row["op"] == name]


@told
def test_tails(empty_run: duckdb.DuckDBPyConnection, case: Case) -> None:
    check(Run(empty_run), case, _ask, **globals())


# what was wrong: 2 of 16, as each was counted by the sizes that its ranks exchange
def test_what_ranks_exchange_unevenly_is_one_transfer(empty_run: Connection) -> None:
    """Eight exchanges of 100 us, one of which takes 900: rank 0 has three times what rank 1 has."""
    build = Builder(empty_run)
    build.world(2)
    for step in range(8):
        at = 1000 * step
        for rank in (0, 1):
            build.step(rank, step, *[(at * US, (at + 1000) * US)] * 2)
        span = (at * US, (at + (900 if step == 5 else 100)) * US)
        each = {}
        for rank, size in ((0, 3072), (1, 1024)):
            kernel = build.gpu(rank, span, "communication", stream=20, step=step)
            each[rank] = {"gpu_op_id": kernel, "stream": 20, "bytes": size}
        build.collective({0: span, 1: span}, "all_to_all", step=step, each=each)
    row = found_by(build.con, "long_tail", replay_ops=0)["long_tail"]
    assert row["evidence"].startswith("1 of 8 all_to_all transfers take more than 2 times")
