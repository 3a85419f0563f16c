"""Levels of detail: the whole run in blocks of time, made once, some ranks at a time."""

from __future__ import annotations

from threading import Event, Lock, Thread

import duckdb

from traceweave.explorer.asking import Asking, TakenBackError
from traceweave.explorer.run import Explored

BLOCKS = 16_384
"""Of the finest level, about, over the whole run: views of less of it read operations."""

COARSER = 3
"""From one level to the next, as a power of two."""

MOST_SHIFTS = 4
"""How many levels there are."""

RANKS_AT_ONCE = 16


class Levels:
    """The levels of a run while they are made, and which of them suits a view."""

    def __init__(self, run: Explored) -> None:
        self._run = run
        self.shift = max(run.span_ns // BLOCKS, 1).bit_length()
        """The finest level has blocks of 2^shift ns."""
        self._ready: set[int] = set()
        self._lock = Lock()
        self._asking: Asking | None = None
        self._stopped = Event()
        self.error: Exception | None = None
        self._thread = Thread(target=self._make, name="traceweave levels", daemon=True)

    def start(self) -> None:
        """Begin to make them, in a thread."""
        self._thread.start()

    @property
    def finished(self) -> bool:
        """Whether all is made, or nothing more will be."""
        return not self._thread.is_alive()

    def wait(self) -> None:
        """Return when all are made."""
        self._thread.join()

    def stop(self) -> None:
        """End the thread, whatever it has made."""
        self._stopped.set()
        if self._asking is not None:
            self._asking.take_back()
        self._thread.join()

    def level(self, shift: int) -> tuple[int, int] | None:
        """Return the level for blocks of 2^shift ns and how many powers of two it is finer."""
        steps = min((shift - self.shift) // COARSER, MOST_SHIFTS - 1)
        if steps < 0:
            return None
        level = self.shift + steps * COARSER
        return level, shift - level

    def ready(self, ranks: list[int]) -> list[int]:
        """Return those of some ranks whose levels are made."""
        with self._lock:
            return [rank for rank in ranks if rank in self._ready]

    def _make(self) -> None:
        try:
            with self._run.asking() as asking:
                self._asking = asking
                ranks = list(self._run.ranks)
                for i in range(0, len(ranks), RANKS_AT_ONCE):
                    self._make_some(asking, ranks[i : i + RANKS_AT_ONCE])
                asking.do("waits")
                asking.do("names")
        except TakenBackError:
            pass
        except duckdb.Error as error:
            if not self._stopped.is_set():
                self.error = error

    def _make_some(self, asking: Asking, ranks: list[int]) -> None:
        bounds = self._run.bounds(ranks, 0, self._run.span_ns + 1)
        asking.do("hits", **bounds, named=False, least_ns=0)
        asking.do("finest_level", **bounds, shift=self.shift)
        for i in range(MOST_SHIFTS - 1):
            finer = self.shift + i * COARSER
            asking.do("coarser_level", shift=finer, by=COARSER, ranks=ranks)
        with self._lock:
            self._ready.update(ranks)
