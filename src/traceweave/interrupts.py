"""Ending what runs: Ctrl-C and SIGTERM, where they must not break something off in the middle, and
what nobody waits for any more.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

AGAIN_S = 0.01
"""So long after Ctrl-C, pressed while a module was imported, it is looked again."""

LOST_S = 0.1
"""So long after Ctrl-C was heard, it is looked whether it was lost: DuckDB calls Python, and makes
an error of its own of what is raised there.
"""

INTERRUPTED = 130
TERMINATED = 143
"""Exit codes, as shells have them for SIGINT and SIGTERM."""

_SIGNALS = (signal.SIGINT, signal.SIGTERM)

_heard: list[int] = []
"""The signals that this process has heard."""

_delivered = threading.Event()
"""Set where Python hears a signal."""

_ends: list[Callable[[], None]] = []


@contextmanager
def after_imports() -> Iterator[None]:
    """Have Ctrl-C and SIGTERM raise KeyboardInterrupt until it is no longer lost, but while a
    module is imported wait until it is there.

    Packages written in C rarely survive if their first import is broken off: orjson crashes at
    once, and duckdb aborts the process, then or when it is imported again. For the whole of a
    command: once the block has ended, either ends the process.
    """
    _watch()
    default = (signal.default_int_handler, signal.SIG_DFL)  # a shell may ignore one
    ours = [number for number in _SIGNALS if signal.getsignal(number) in default]
    signal.signal(signal.SIGALRM, _look_again)
    for number in ours:
        signal.signal(number, _interrupt)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.set_wakeup_fd(-1)
        for number in ours:
            signal.signal(number, signal.SIG_DFL)


def _watch() -> None:
    """Have a thread end what the main one does in C, where Python hears no signal."""
    readable, writable = os.pipe()
    os.set_blocking(writable, False)
    signal.set_wakeup_fd(writable, warn_on_full_buffer=False)

    def watch() -> None:
        while number := os.read(readable, 1):
            while number[0] in _SIGNALS and not _delivered.wait(AGAIN_S):
                for end in _ends:
                    end()
            _delivered.clear()

    threading.Thread(target=watch, name="Ctrl-C", daemon=True).start()


def when_heard(end: Callable[[], None]) -> None:
    """Have `end` called, from another thread, while Ctrl-C or SIGTERM is not heard in Python."""
    _ends.append(end)


def _interrupt(number: int, frame: FrameType | None) -> None:
    _delivered.set()
    if number not in _heard:
        _heard.append(number)
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            signal.setitimer(signal.ITIMER_REAL, AGAIN_S)
            return
        frame = frame.f_back
    signal.setitimer(signal.ITIMER_REAL, LOST_S)
    raise KeyboardInterrupt


def _look_again(_: int, __: FrameType | None) -> None:
    """Raise once more what was heard, unless what it has raised is on its way."""
    if was_interrupted(sys.exc_info()[1]):
        signal.setitimer(signal.ITIMER_REAL, LOST_S)
    else:
        signal.raise_signal(_heard[-1])


@contextmanager
def until_interrupted() -> Iterator[None]:
    """End the block with Ctrl-C, as one ends what would go on for ever."""
    try:
        yield
    except KeyboardInterrupt:
        done()


def done() -> None:
    """Look no more whether Ctrl-C was lost: it has ended what it was meant to end."""
    if threading.current_thread() is threading.main_thread():
        signal.setitimer(signal.ITIMER_REAL, 0)


def exit_code() -> int:
    """Return the exit code of a process that was interrupted."""
    return TERMINATED if signal.SIGTERM in _heard else INTERRUPTED


@contextmanager
def held_back() -> Iterator[None]:
    """Keep Ctrl-C and SIGTERM until the block ends: what cleans up does so to its end."""
    if threading.current_thread() is not threading.main_thread():  # which alone is interrupted
        yield
        return
    pressed: list[int] = []

    def hold(number: int, _: FrameType | None) -> None:
        _delivered.set()
        pressed.append(number)

    handlers = {number: signal.signal(number, hold) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        if pressed:
            signal.raise_signal(pressed[0])


def was_interrupted(error: BaseException | None) -> bool:
    """Tell whether an error is what DuckDB makes of Ctrl-C, or came while it was cleaned up after.

    Its Python package raises a RuntimeError in place of KeyboardInterrupt; where that came while it
    asked a Python object for rows, an error of its own, whose text ends with it.
    """
    while error is not None:
        if isinstance(error, KeyboardInterrupt) or str(error) == "Query interrupted":
            return True
        if str(error).rstrip(": \n").endswith("KeyboardInterrupt"):
            return True
        error = error.__context__
    return False


class GivenUpError(Exception):
    """Nobody waits for what a thread does any more."""


_asked = threading.local()


@contextmanager
def given_up_when(over: threading.Event) -> Iterator[None]:
    """Have `go_on` end what this thread does in the block when `over` is set."""
    before = getattr(_asked, "over", None)
    _asked.over = over
    try:
        yield
    finally:
        _asked.over = before


def go_on() -> None:
    """Raise GivenUpError if nobody waits for what this thread does: for what takes long in Python,
    between one statement, which DuckDB interrupts, and the next.
    """
    over: threading.Event | None = getattr(_asked, "over", None)
    if over is not None and over.is_set():
        raise GivenUpError
