"""An answer to a request, computed in a thread, and given up when the client has gone.

A page that zooms on takes its last request back; the query for it is interrupted then.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import anyio
import anyio.to_thread
from starlette.requests import Request

from traceweave.explorer.asking import TakenBackError
from traceweave.store.database import AGAIN_S

AT_ONCE = 8
"""Answers that are computed at the same time."""

T = TypeVar("T")


class Answering:
    """Computes answers, a few at a time."""

    def __init__(self) -> None:
        self._limiter = anyio.CapacityLimiter(AT_ONCE)

    async def __call__(
        self, request: Request, compute: Callable[[], T], take_back: Callable[[], None]
    ) -> T:
        """Return what `compute` does; `take_back` is called if the client goes before it ends.

        Raises TakenBackError then, and what `compute` raises.
        """
        if await request.is_disconnected():
            raise TakenBackError
        result: list[T] = []
        raised: list[Exception] = []

        async def watch() -> None:
            try:
                while not await request.is_disconnected():
                    await anyio.sleep(AGAIN_S)
                while True:
                    take_back()
                    await anyio.sleep(AGAIN_S)
            finally:
                if not (result or raised):  # the server ends
                    take_back()

        async with anyio.create_task_group() as group:
            group.start_soon(watch)
            try:
                result.append(await anyio.to_thread.run_sync(compute, limiter=self._limiter))
            except Exception as error:  # a task group would wrap it
                raised.append(error)
            group.cancel_scope.cancel()
        if raised:
            raise raised[0]
        return result[0]
