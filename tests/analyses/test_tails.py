from typing import Any

import duckdb
from duckdb import DuckDBPyConnection as Connection

from tests.analyses.builders import Builder, check, rows
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
