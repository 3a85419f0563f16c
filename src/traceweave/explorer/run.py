"""A run that is being explored: its lanes, its clocks, and connections to ask it.

What the explorer makes of the run lies in memory, in the schema `memory.explorer` of a DuckDB
instance of its own; the run itself is open read-only beside it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Lock

import duckdb

from traceweave.explorer.asking import Asking, text
from traceweave.store.database import AGAIN_S, interrupt
from traceweave.store.shards import FOLDER

SHORT_NS = 10_000_000
"""What is longer is found by its length: see the query `within`."""

_SLACK_NS = 1_000
"""Times are rounded where a clock drifts."""

_PATIENCE_S = 10

_MADE_AT_ONCE = (
    "clocks",
    "lanes",
    "origin",
    "placed",
    "within",
    "blocks",
    "threads",
    "host_within",
    "later",
    "computed",
)


@dataclass(frozen=True)
class Lane:
    """A stream of a rank, or a thread where there is no GPU."""

    lane: int
    rank: int
    device: int | None
    stream: int | None
    label: str
    """What most of its time is: 'compute', 'communication' or 'copies'."""
    ops: int
    busy_ns: int


@dataclass(frozen=True)
class _Clock:
    rank: int
    offset_ns: int
    drift_ppm: float
    reference_local_ns: int

    def local(self, aligned_ns: int) -> int:
        """Return the rank's own time: aligned = local + offset + drift * (local - reference),
        solved for local."""
        drift = self.drift_ppm * 1e-6
        since = aligned_ns - self.offset_ns - self.reference_local_ns
        return aligned_ns - self.offset_ns - round(since * drift / (1 + drift))


class Explored:
    """The run, its lanes, and where it begins and ends."""

    def __init__(self, con: duckdb.DuckDBPyConnection) -> None:
        """Take a connection that open_database made; it stays the caller's to close."""
        self._con = con
        self._cursors: list[duckdb.DuckDBPyConnection] = []
        self._lock = Lock()
        con.execute("CREATE SCHEMA memory.explorer")
        found = con.execute("SELECT EXISTS (FROM base.gpu_ops WHERE rank IS NOT NULL)").fetchall()
        self.timeline = "gpu" if found == [(True,)] else "cpu"
        con.execute(text(f"recorded_{self.timeline}"))
        for name in _MADE_AT_ONCE:
            con.execute(text(name))
        ((self.origin_ns, until),) = con.execute("FROM memory.explorer.origin").fetchall()
        self.span_ns: int = max(until - self.origin_ns, 1)
        self.lanes = tuple(
            Lane(*row)
            for row in con.execute(
                "SELECT lane, rank, device, stream, label, ops, busy_ns FROM memory.explorer.lanes"
                " ORDER BY lane"
            ).fetchall()
        )
        rows = con.execute("SELECT DISTINCT rank FROM base.rank_sources ORDER BY rank").fetchall()
        self.ranks: tuple[int, ...] = tuple(rank for (rank,) in rows)
        self._clocks = [
            _Clock(*row)
            for row in con.execute(
                "SELECT rank, offset_ns, drift_ppm, reference_local_ns FROM clock_spans"
            ).fetchall()
        ]
        ((self._name, self._folder),) = con.execute(
            f"SELECT current_database(), getvariable('{FOLDER}')"
        ).fetchall()

    @contextmanager
    def asking(self) -> Iterator[Asking]:
        """Yield a question, which any thread may ask and any other take back."""
        with self.cursor() as con:
            yield Asking(con)

    def end(self) -> None:
        """Interrupt whatever is asked, and wait until it has ended, or a while."""
        until = time.monotonic() + _PATIENCE_S
        while time.monotonic() < until:
            with self._lock:
                asked = list(self._cursors)
            if not asked:
                return
            for con in asked:
                interrupt(con)
            time.sleep(AGAIN_S)

    @contextmanager
    def cursor(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """Yield a connection of its own."""
        with self._lock:  # a connection does one thing at a time
            con = self._con.cursor()
            self._cursors.append(con)
        try:
            with con:
                con.execute(f"USE {self._name}")
                con.execute(f"SET VARIABLE {FOLDER} = ?", [self._folder])
                yield con
        finally:
            with self._lock:
                self._cursors.remove(con)

    def bounds(self, ranks: Sequence[int], from_ns: int, until_ns: int) -> dict[str, object]:
        """Return the parameters of a stretch of time of some ranks.

        Times count from the beginning of the run. The least and the largest of the local times
        that they are on any of the ranks only leave out what cannot be meant.
        """
        wanted = set(ranks)
        clocks = [clock for clock in self._clocks if clock.rank in wanted]
        first, last = self.origin_ns + from_ns, self.origin_ns + until_ns
        return {
            "from_ns": from_ns,
            "until_ns": until_ns,
            "low": min((clock.local(first) for clock in clocks), default=0) - _SLACK_NS,
            "high": max((clock.local(last) for clock in clocks), default=0) + _SLACK_NS,
            "short": SHORT_NS,
            "ranks": list(ranks),
        }
