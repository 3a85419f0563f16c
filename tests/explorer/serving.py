"""A server of the explorer beside what asks it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread

from traceweave.explorer.explorer import Explorer
from traceweave.explorer.server import Server


@contextmanager
def serving(explorer: Explorer) -> Iterator[Server]:
    """Run a server in a thread."""
    server = Server(explorer, 0)
    thread = Thread(target=server.run)
    thread.start()
    try:
        yield server
    finally:
        server.stop()
        thread.join()
