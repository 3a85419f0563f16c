"""What a request asks for. All of these raise UsageError for what makes no sense."""

from __future__ import annotations

import re

from starlette.requests import Request

from traceweave.errors import UsageError
from traceweave.explorer.views import Stretch

_MOST_TEXT = 1_000
_MOST_RANKS = 100_000
_DEFAULT_BLOCKS = 1_000


def number(request: Request, name: str, default: int | None = None) -> int:
    """Return a parameter that is a whole number."""
    given = request.query_params.get(name)
    if given is None and default is not None:
        return default
    if given is None or not re.fullmatch(r"-?[0-9]{1,18}", given):
        raise UsageError(f"{name}: has to be a whole number")
    return int(given)


def text_of(request: Request, name: str) -> str:
    """Return a parameter that is a text; '' if it is not there."""
    given = request.query_params.get(name, "")
    if len(given) > _MOST_TEXT:
        raise UsageError(f"{name}: is longer than {_MOST_TEXT} characters")
    return given


async def body_of(request: Request, most_bytes: int) -> str:
    """Return the text that a request brings; of one that is longer, no more is taken."""
    body = b""
    async for piece in request.stream():
        body += piece
        if len(body) > most_bytes:
            raise UsageError(f"a query may have {most_bytes} characters")
    return body.decode("utf-8", "replace")


def stretch_of(request: Request) -> Stretch:
    """Return the stretch of time from `from` to `until`, in `blocks` blocks."""
    first, last = number(request, "from"), number(request, "until")
    if first < 0 or last <= first:
        raise UsageError("a stretch of time ends after it begins, and neither is negative")
    return Stretch(first, last, number(request, "blocks", _DEFAULT_BLOCKS))


def numbers_of(request: Request, name: str) -> list[int]:
    """Return a list of numbers, as '0-15,20'."""
    found: list[int] = []
    for part in filter(None, text_of(request, name).split(",")):
        span = re.fullmatch(r"([0-9]{1,9})(?:-([0-9]{1,9}))?", part)
        if span is None:
            raise UsageError(f"{name}: write numbers like 0-15,20")
        first, last = int(span[1]), int(span[2] or span[1])
        if len(found) + last - first >= _MOST_RANKS:
            raise UsageError(f"{name}: too many at once")
        found += range(first, last + 1)
    return found
