"""What is served while a run is being read: how far that is; then the run itself."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

import orjson
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from traceweave.explorer.app import build_app, page_routes
from traceweave.explorer.explorer import Explorer

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send


class Opening:
    """An application, and what an ingest tells its progress to."""

    def __init__(self) -> None:
        self._lock = Lock()  # ingest tells from several threads
        self._stage = "looking for traces"
        self._said: list[str] = []
        self._counts = {"files": 0, "done": 0, "size": 0, "read": 0}
        self._app: ASGIApp = self._waiting()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, as ASGI has it."""
        await self._app(scope, receive, send)

    def open(self, explorer: Explorer) -> None:
        """Serve the run from now on: the page that waits for it loads anew."""
        self._app = build_app(explorer)

    def begin(self, sources: Sequence[tuple[Path, int]]) -> None:
        """All files that will be loaded, with their sizes in bytes."""
        size = sum(size for _, size in sources)
        self._tell(stage="reading", files=len(sources), size=size)

    def advance(self, path: Path, bytes_read: int) -> None:
        """`bytes_read` more bytes of a file were read."""
        self._tell(read=bytes_read)

    def finish(self, path: Path, status: str) -> None:
        """A file is done."""
        self._tell(done=1)

    def stage(self, text: str) -> None:
        """What happens before and after the files are loaded."""
        self._tell(stage=text)

    def say(self, line: str) -> None:
        """Show what is known before the end."""
        with self._lock:
            self._said.append(line)

    def _tell(self, stage: str | None = None, **more: int) -> None:
        with self._lock:
            self._stage = stage or self._stage
            for name, count in more.items():
                self._counts[name] += count

    def _waiting(self) -> Starlette:
        async def told(_: Request) -> Response:
            said = orjson.dumps({"stage": self._stage, "said": self._said, **self._counts})
            return Response(said, media_type="application/json")

        return Starlette(routes=[Route("/ask/opening", told), *page_routes("opening.html")])
