"""A server on this machine's loopback, for the browser of whoever knows its address."""

from __future__ import annotations

import secrets
import socket
import webbrowser
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread, Timer
from typing import TYPE_CHECKING

import anyio.to_thread
import uvicorn

from traceweave.errors import UsageError
from traceweave.explorer.app import build_app
from traceweave.explorer.explorer import explore
from traceweave.explorer.guard import Guard
from traceweave.explorer.opening import Opening
from traceweave.interrupts import until_interrupted

if TYPE_CHECKING:
    from starlette.types import ASGIApp

_TOKEN_BYTES = 24
_LOOPBACK = "127.0.0.1"


class _Uvicorn(uvicorn.Server):
    """Has what is computed given up when it ends: it would wait for the threads that do it."""

    def __init__(self, config: uvicorn.Config, give_up: Callable[[], None]) -> None:
        super().__init__(config)
        self._give_up = give_up

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        await anyio.to_thread.run_sync(self._give_up)
        await super().shutdown(sockets)


class Server:
    """A server of one run, bound to a port of the loopback."""

    def __init__(self, app: ASGIApp, port: int, give_up: Callable[[], None]) -> None:
        """Bind; `give_up` ends what is computed. Raises UsageError for a port that is taken; 0
        takes any that is free.
        """
        # named, or asyncio takes it for another protocol: answers then wait 40 ms for Nagle
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            self._socket.bind((_LOOPBACK, port))
            self._socket.listen()  # who comes before `run` waits
        except OSError as error:
            self._socket.close()
            raise UsageError(
                f"port {port} cannot be used ({error.strerror}); name another with --port,"
                " or leave it out for any that is free"
            ) from error
        port = self._socket.getsockname()[1]
        token = secrets.token_urlsafe(_TOKEN_BYTES)
        self.url = f"http://{_LOOPBACK}:{port}/{token}/"
        config = uvicorn.Config(
            Guard(app, token, port),
            log_level="error",
            access_log=False,
            lifespan="off",
            server_header=False,
            timeout_graceful_shutdown=1,
        )
        self._server = _Uvicorn(config, give_up)

    def run(self) -> None:
        """Answer until Ctrl-C or `stop`."""
        self._server.run([self._socket])

    def stop(self) -> None:
        """Have `run` return."""
        self._server.should_exit = True

    @contextmanager
    def in_background(self) -> Iterator[None]:
        """Answer in a thread until the block ends."""
        thread = Thread(target=self.run)
        thread.start()
        try:
            yield
        finally:
            self.stop()
            thread.join()


def serve_run(path: Path, port: int, open_browser: bool, say: Callable[[str], None]) -> None:
    """Serve a run until Ctrl-C. Raises DatabaseError, UsageError for a port that is taken."""
    with explore(path) as explorer:
        server = Server(build_app(explorer), port, explorer.end)
        _announce(server, open_browser, say)
        with until_interrupted():
            server.run()


def serve_while_reading(
    path: Path,
    port: int,
    open_browser: bool,
    say: Callable[[str], None],
    read: Callable[[Opening], None],
) -> None:
    """Serve how far `read` is with making a run, and then the run at `path`, until Ctrl-C.

    Raises what `read` does, and UsageError for a port that is taken.
    """
    opening = Opening()
    server = Server(opening, port, lambda: None)
    _announce(server, open_browser, say)
    # reading has the main thread, in which Ctrl-C ends it
    with server.in_background():
        read(opening)
        with until_interrupted(), explore(path) as explorer:
            opening.open(explorer)
            Event().wait()


def _announce(server: Server, open_browser: bool, say: Callable[[str], None]) -> None:
    say(server.url)
    if open_browser:
        timer = Timer(0.1, webbrowser.open, [server.url])
        timer.daemon = True
        timer.start()
