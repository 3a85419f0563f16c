"""Levels of detail: the whole run in blocks of time, made once, some ranks at a time.

The first view needs few blocks, so those are made of all ranks before the finest of any.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Condition, Event, Thread

import duckdb

from traceweave.explorer.asking import Asking, TakenBackError
from traceweave.explorer.run import Explored

MOST_BLOCKS = 32_768
"""Of the finest level, about, over the whole run: views of less of it read operations."""

LEAST_BLOCKS = 2_048

MOST_CELLS = 8_388_608
"""Blocks of all lanes, about, of the finest level: runs of very many lanes have longer blocks."""

COARSER = 3
"""From one level to the next, as a power of two."""

MOST_SHIFTS = 4
"""How many levels there are."""

OPS_AT_ONCE = 2_000_000
"""Of the first view."""

OPS_BETWEEN = 1_000_000
"""Of the finest level, which is made while no view is asked for."""

PATIENCE_S = 0.5
"""So long an answer waits for what is not made, before it is given without it."""

QUIET_S = 0.5
"""What only later views need is made once so long no view was asked for: a page that is zoomed
draws with the same cores."""

_LOOK_S = 0.05


class Levels:
    """The levels of a run while they are made, and which of them suits a view."""

    def __init__(self, run: Explored) -> None:
        self._run = run
        cells = MOST_CELLS // max(len(run.lanes), 1)
        blocks = max(min(cells, MOST_BLOCKS), LEAST_BLOCKS)
        self.shift = max(run.span_ns // blocks, 1).bit_length()
        """The finest level has blocks of 2^shift ns."""
        self._made: dict[int, set[int]] = {}
        self._changed = Condition()
        self._views = 0
        self._last_view = -math.inf
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

    @property
    def first(self) -> int:
        """The level that is made first: it has blocks of 2^first ns."""
        return self.shift + COARSER

    def are_late(self, shift: int, ranks: list[int]) -> bool:
        """Tell whether blocks of 2^shift ns are still made where longer ones are there."""
        if not self.shift <= shift < self.first:
            return False
        with self._changed:
            finest, longer = (self._made.get(level, set()) for level in (self.shift, self.first))
            return longer.issuperset(ranks) and not finest.issuperset(ranks)

    def ready(
        self, asking: Asking, level: int, ranks: list[int], *, patient: bool = False
    ) -> list[int]:
        """Return those of some ranks whose level is made.

        Waits a while until there is one, with patience until all are. Raises TakenBackError, and
        what went wrong while they were made.
        """
        until = time.monotonic() + PATIENCE_S
        enough = all if patient or not ranks else any
        with self._changed:
            made = self._made.setdefault(level, set())
            while (
                not enough(rank in made for rank in ranks)
                and not self.finished
                and time.monotonic() < until
            ):
                asking.go_on()
                self._changed.wait(_LOOK_S)
            if self.error is not None:
                raise self.error
            return [rank for rank in ranks if rank in made]

    @contextmanager
    def passing(self) -> Iterator[None]:
        """Answer a view: what is made for later views waits meanwhile."""
        with self._changed:
            self._views += 1
        try:
            yield
        finally:
            with self._changed:
                self._views -= 1
                self._last_view = time.monotonic()
                self._changed.notify_all()

    def _make(self) -> None:
        try:
            with self._run.asking() as asking:
                self._asking = asking
                for ranks in self._turns(OPS_AT_ONCE):
                    self._let_pass()
                    coarse = [self.shift + i * COARSER for i in range(1, MOST_SHIFTS)]
                    self._make_level(asking, self.first, ranks)
                    for finer in coarse[:-1]:
                        asking.do("coarser_level", shift=finer, by=COARSER, ranks=ranks)
                    self._tell(coarse, ranks)
                self._let_pass(quiet=True)
                asking.do("waits")
                for ranks in self._turns(OPS_BETWEEN):
                    self._let_pass(quiet=True)
                    self._make_level(asking, self.shift, ranks)
                    self._tell([self.shift], ranks)
                asking.do("names")
        except TakenBackError:
            pass
        except duckdb.Error as error:
            if not self._stopped.is_set():
                self.error = error

    def _let_pass(self, *, quiet: bool = False) -> None:
        """Return when no view is answered; if `quiet`, nor was in a while."""
        with self._changed:
            while not self._stopped.is_set():
                since = time.monotonic() - self._last_view
                if not self._views and since >= (QUIET_S if quiet else 0):
                    return
                self._changed.wait(_LOOK_S)

    def _turns(self, most: int) -> Iterator[list[int]]:
        """Yield all ranks, as many at a time as have about `most` operations."""
        ops = dict.fromkeys(self._run.ranks, 0)
        for lane in self._run.lanes:
            ops[lane.rank] += lane.ops
        turn: list[int] = []
        for rank in self._run.ranks:
            turn.append(rank)
            if sum(ops[one] for one in turn) >= most:
                yield turn
                turn = []
        if turn:
            yield turn

    def _make_level(self, asking: Asking, shift: int, ranks: list[int]) -> None:
        asking.do("turn", ranks=ranks)
        asking.do("level", shift=shift, until_ns=self._run.span_ns + 1)

    def _tell(self, levels: list[int], ranks: list[int]) -> None:
        with self._changed:
            for level in levels:
                self._made.setdefault(level, set()).update(ranks)
            self._changed.notify_all()
