"""Everything that can be asked of a run, without the server that asks it."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from threading import Lock
from typing import Any

import duckdb

from traceweave._version import __version__
from traceweave.analyses import EXPOSED, IDLE, catalog, cause_words
from traceweave.errors import UsageError
from traceweave.explorer.analysed import Analysed
from traceweave.explorer.asking import Asking, making_anew, text
from traceweave.explorer.console import Consoles, Question
from traceweave.explorer.details import op_details
from traceweave.explorer.findings import Findings
from traceweave.explorer.levels import Levels
from traceweave.explorer.run import Explored
from traceweave.explorer.searching import found_names, next_hit
from traceweave.explorer.totals import totals
from traceweave.explorer.tracing import trace_of
from traceweave.explorer.views import Stretch, device_view, host_view, whole_view
from traceweave.locations import shown
from traceweave.store.database import open_database

Answer = dict[str, Any]


class Explorer:
    """A run, and the answers about it."""

    def __init__(self, path: Path, run: Explored, levels: Levels) -> None:
        self.path = path
        self.run = run
        self.levels = levels
        self.consoles = Consoles(path)
        self._analysed = Analysed(run)
        self._findings = Findings(run, shlex.quote(str(shown(path))))
        self._unfolding = Lock()
        self._unfolded: dict[int, list[Answer]] = {}
        self.overview = self._overview()
        """What the page has to know before it draws: ranks, lanes, steps."""

    def _overview(self) -> Answer:
        with self.run.asking() as asking:
            return {
                "name": self.path.name,
                "version": __version__,
                "timeline": self.run.timeline,
                "origin_ns": str(self.run.origin_ns),  # more digits than a double has
                "span_ns": self.run.span_ns,
                "ranks": asking.rows("ranks"),
                "lanes": [asdict(lane) for lane in self.run.lanes],
                "steps": asking.rows("steps"),
                "analyses": [[one.name, one.topic] for one in catalog()],
                "causes": asking.compute(_causes),
            }

    def lanes(self, asking: Asking, stretch: Stretch, ranks: list[int], patient: bool) -> bytes:
        """What runs on the lanes of some ranks."""
        known = self._known(ranks)
        return device_view(self.run, self.levels, asking, stretch, known, patient=patient)

    def whole(self, asking: Asking, blocks: int) -> bytes:
        """How busy the ranks are, over the whole run."""
        return whole_view(self.run, self.levels, asking, blocks)

    def threads(self, asking: Asking, rank: int) -> list[Answer]:
        """The host threads of a rank."""
        self._known([rank])
        with asking.turn(self._unfolding):
            if rank not in self._unfolded:
                asking.compute(lambda con: _find_threads(con, rank))
                self._unfolded[rank] = asking.rows("threads_shown", rank=rank)
            return self._unfolded[rank]

    def host(self, asking: Asking, stretch: Stretch, rank: int) -> bytes:
        """What the host threads of a rank run."""
        self.threads(asking, rank)
        return host_view(self.run, asking, stretch, rank)

    def find_gaps(self, asking: Asking, rank: int) -> Answer:
        """Have it found when the devices of a rank were idle, and why; `gaps` has it then."""
        self._known([rank])
        self._analysed.find_gaps(asking, rank)
        return {}

    def gaps(self, asking: Asking, stretch: Stretch, ranks: list[int]) -> bytes:
        """When the devices of some ranks were idle, and why, of those that were found."""
        return self._analysed.gaps(asking, stretch, self._known(ranks))

    def idle(self, asking: Asking, stretch: Stretch, ranks: list[int]) -> list[Answer]:
        """Idle time by cause, of those ranks whose gaps were asked for."""
        return self._analysed.idle(asking, stretch, self._known(ranks))

    def findings(self, asking: Asking) -> list[Answer]:
        """What costs the run time, most severe first, in words."""
        return self._findings.rows(asking)

    def finding_place(self, asking: Asking, number: int) -> Answer:
        """Where a finding shows best; its key `place` is null if it is about nothing to be seen."""
        return {"place": self._findings.place(asking, number)}

    def critical_path(self, asking: Asking, stretch: Stretch, ranks: list[int]) -> bytes:
        """The critical path where it is on some ranks."""
        return self._analysed.path(asking, stretch, self._known(ranks))

    def op(self, asking: Asking, kind: str, rank: int, op_id: int) -> Answer:
        """All that is known of an operation."""
        return op_details(asking, self.run.timeline, kind, rank, op_id)

    def totals(self, asking: Asking, stretch: Stretch, ranks: list[int], lane: int) -> Answer:
        """What runs in a stretch of time, by class, lane and name; a lane of -1 is all of them."""
        return totals(self.run, asking, stretch, self._known(ranks), lane)

    def search(self, asking: Asking, text: str) -> Answer:
        """Names that hold a text. `ready` is false while names are still collected."""
        return {**found_names(asking, text), "ready": self.levels.finished}

    def hit(self, asking: Asking, text: str, at_ns: int, op_id: int, back: bool) -> Answer:
        """The nearest operation whose name holds a text; its key `hit` is null if none is left."""
        return {"hit": next_hit(self.run, asking, text, at_ns, op_id, back=back)}

    def trace(self, stretch: Stretch, ranks: list[int], host: bool) -> bytes:
        """A stretch of time of some ranks as a trace for Perfetto."""
        return trace_of(self.run, stretch, self._known(ranks), host=host)

    def question(self, page: str, sql: str) -> Question:
        """A query of the console of a page."""
        return Question(self.consoles, page, sql)

    def end(self) -> None:
        """Give up whatever is computed, and wait until it has ended, or a while."""
        self.consoles.close()
        self.levels.stop()
        self.run.end()

    def _known(self, ranks: list[int]) -> list[int]:
        known = set(self.run.ranks)
        missing = [rank for rank in ranks if rank not in known]
        if missing:
            raise UsageError(f"this run has no rank {missing[0]}")
        return ranks


def _causes(con: duckdb.DuckDBPyConnection) -> Answer:
    """What the legend calls the causes of time without compute."""
    return {
        name: cause_words(con, of, "label") for name, of in (("exposed", EXPOSED), ("idle", IDLE))
    }


def _find_threads(con: duckdb.DuckDBPyConnection, rank: int) -> None:
    with making_anew(con, "threads", rank):
        con.execute(text("threads_of_rank"), {"rank": rank})


@contextmanager
def explore(path: Path) -> Iterator[Explorer]:
    """Yield the answers about a run, a database or a run folder. Raises DatabaseError."""
    with open_database(path) as con:
        run = Explored(con)
        levels = Levels(run)
        explorer = Explorer(path, run, levels)
        levels.start()  # only now: the page does not begin without the overview
        try:
            yield explorer
        finally:
            explorer.end()
