"""Who may ask: whoever has the token, from this machine, on a page of this server."""

from __future__ import annotations

import hmac
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

_HEADERS = {
    # the page runs its own scripts and asks this server: whatever a name holds loads nothing
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self';"
        " img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    # the token is in the address
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    # not 'same-origin': the page keeps talking to the window of Perfetto that it opens
    "cross-origin-opener-policy": "same-origin-allow-popups",
    "cache-control": "no-store",
}

_MOST_PATH = 1_000
"""Bytes of a path; none of ours has as many."""


class Guard:
    """Lets requests through whose path begins with the token, whose Host is this server (a name of
    somebody else's that leads here is not), and whose Origin, if any, is it too; the path, which
    may not be longer than any here, goes on without the token. All others get an empty answer.
    """

    def __init__(self, app: ASGIApp, token: str, port: int) -> None:
        self._app = app
        self._token = token.encode()
        self._hosts = frozenset(f"{name}:{port}".encode() for name in ("127.0.0.1", "localhost"))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, as ASGI has it."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http" or not self._may(scope):
            await _refuse(scope, send)
            return

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                more = [(name.encode(), value.encode()) for name, value in _HEADERS.items()]
                message["headers"] = [*message.get("headers", []), *more]
            await send(message)

        path = "/" + scope["path"].split("/", 2)[2]
        await self._app({**scope, "path": path, "raw_path": path.encode()}, receive, with_headers)

    def _may(self, scope: Scope) -> bool:
        hosts = [value for name, value in scope["headers"] if name == b"host"]
        origins = [value for name, value in scope["headers"] if name == b"origin"]
        parts = scope["path"].encode("utf-8", "replace").split(b"/", 2)
        return (
            len(parts) == 3
            and len(scope["path"]) <= _MOST_PATH
            and hmac.compare_digest(parts[1], self._token)
            and len(hosts) == 1
            and hosts[0] in self._hosts
            and all(origin == b"http://" + hosts[0] for origin in origins)
        )


async def _refuse(scope: Scope, send: Send) -> None:
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": 1008})
        return
    await send(
        {"type": "http.response.start", "status": 403, "headers": [(b"content-length", b"0")]}
    )
    await send({"type": "http.response.body", "body": b""})
