"""What analyses say of what is shown: time without compute by its cause, and the critical path.

Each is asked once, when it is first wanted: the former of one rank at a time, the path of the whole
run.
"""

from __future__ import annotations

from threading import Lock

import duckdb

from traceweave.analyses import find, shared_rows
from traceweave.analyses.catalog import called
from traceweave.analyses.runner import answer_batch
from traceweave.analyses.statements import Statement
from traceweave.explorer.asking import Asking, making_anew
from traceweave.explorer.run import Explored
from traceweave.explorer.views import PIXELS_ALONE, Stretch
from traceweave.explorer.wire import coded, numbers, pack

MOST_SHOWN = 4_000
"""Stretches without compute of a rank in one view."""


class Analysed:
    """Answers of analyses about a run, kept in memory."""

    def __init__(self, run: Explored) -> None:
        self._run = run
        self._lock = Lock()  # analyses take memory: one at a time
        self._gaps: set[int] = set()
        self._path_length: int | None = None

    def find_gaps(self, asking: Asking, rank: int) -> None:
        """Have it found when a rank did not compute, and why, if it is not yet."""
        with asking.turn(self._lock):
            if rank not in self._gaps:
                asking.compute(lambda con: self._find_gaps(con, rank))
                self._gaps.add(rank)

    def gaps(self, asking: Asking, stretch: Stretch, ranks: list[int]) -> bytes:
        """Return when some ranks did not compute, with causes: gaps, each with what the host did,
        and exposed communication, with what it is.

        `missing` are the ranks of which that has not been found yet.
        """
        missing = [rank for rank in ranks if rank not in self._gaps]
        return self._shown(asking, "gaps_shown", stretch, ranks, missing=missing)

    def idle(self, asking: Asking, stretch: Stretch, ranks: list[int]) -> list[dict[str, object]]:
        """Return the time without compute in a stretch by cause, of those ranks it was found of."""
        bounds = self._run.bounds(ranks, stretch.from_ns, stretch.until_ns)
        return asking.rows("idle_totals", **bounds)

    def path(self, asking: Asking, stretch: Stretch, ranks: list[int]) -> bytes:
        """Return the critical path on some ranks, without a hole; `pieces` is its length on all.

        It is 0 where the run is not replayed.
        """
        with asking.turn(self._lock):
            if self._path_length is None:
                self._path_length = asking.compute(self._find_path)
        return self._shown(asking, "path_shown", stretch, ranks, pieces=self._path_length)

    def _shown(
        self, asking: Asking, query: str, stretch: Stretch, ranks: list[int], **head: object
    ) -> bytes:
        bounds = self._run.bounds(ranks, stretch.from_ns, stretch.until_ns)
        # half a pixel or so: many short gaps in a row are to be seen
        least_ns = (1 << stretch.shift) // PIXELS_ALONE
        found = asking.table(query, **bounds, least_ns=least_ns, most=MOST_SHOWN)
        names, name_list = coded(found, "name")
        what, what_list = coded(found, "what")
        columns = {
            **numbers(found, rank="i4", start_ns="f8", duration_ns="f8"),
            "name": names,
            "what": what,
        }
        stretched = {"from_ns": stretch.from_ns, "until_ns": stretch.until_ns}
        return pack({**head, **stretched, "names": name_list, "whats": what_list}, columns)

    def _find_gaps(self, con: duckdb.DuckDBPyConnection, rank: int) -> None:
        asked: tuple[tuple[Statement, str], ...]
        asked = (find("gaps"), "host_op"), (called("shared", "exposed_lane"), "what")
        answers = [
            (answer_batch(con, statement, statement.bind({}), f"rank = {rank}"), told)
            for statement, told in asked
        ]
        with making_anew(con, "gaps", rank):
            for rows, told in answers:
                con.from_arrow(rows).query(
                    "found",
                    "INSERT INTO memory.explorer.gaps SELECT rank, start_ns"
                    f" - {self._run.origin_ns}, duration_ns, cause, {told} FROM found",
                )

    def _find_path(self, con: duckdb.DuckDBPyConnection) -> int:
        pieces = shared_rows(con, "path_pieces")
        with making_anew(con, "path"):
            pieces.query(
                "found",
                "INSERT INTO memory.explorer.path SELECT rank, start_ns"
                f" - {self._run.origin_ns}, end_ns - start_ns, kind, what FROM found",
            )
        return len(pieces)
