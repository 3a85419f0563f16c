"""A server of the explorer beside what asks it."""

from collections.abc import Iterator
from contextlib import contextmanager

from traceweave.explorer.app import build_app
from traceweave.explorer.explorer import Explorer
from traceweave.explorer.server import Server


@contextmanager
def serving(explorer: Explorer) -> Iterator[Server]:
    """Run a server in a thread."""
    server = Server(build_app(explorer), 0, explorer.end)
    with server.in_background():
        yield server
