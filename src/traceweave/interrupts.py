"""Ctrl-C, where it must not break something off in the middle."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

AGAIN_S = 0.01
"""So long after Ctrl-C, pressed while a module was imported, it is looked again."""


@contextmanager
def after_imports() -> Iterator[None]:
    """Have Ctrl-C raise KeyboardInterrupt, but while a module is imported wait until it is there.

    Packages written in C rarely survive if their first import is broken off: orjson crashes at
    once, and duckdb aborts the process, then or when it is imported again. For the whole of a
    command: once the block has ended, Ctrl-C ends the process.
    """
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:  # a shell may ignore it
        yield
        return
    signal.signal(signal.SIGALRM, lambda *_: signal.raise_signal(signal.SIGINT))
    signal.signal(signal.SIGINT, _interrupt)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGINT, signal.SIG_DFL)


def _interrupt(_: int, frame: FrameType | None) -> None:
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            signal.setitimer(signal.ITIMER_REAL, AGAIN_S)
            return
        frame = frame.f_back
    raise KeyboardInterrupt


@contextmanager
def held_back() -> Iterator[None]:
    """Keep Ctrl-C until the block ends: what cleans up does so to its end."""
    if threading.current_thread() is not threading.main_thread():  # which alone is interrupted
        yield
        return
    pressed: list[int] = []
    handler = signal.signal(signal.SIGINT, lambda number, _: pressed.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
        if pressed:
            signal.raise_signal(signal.SIGINT)
