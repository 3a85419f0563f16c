"""The server's addresses: the page, and what it asks."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import duckdb
import orjson
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from traceweave.errors import TraceweaveError, defect
from traceweave.explorer.answering import Answering
from traceweave.explorer.asking import Asking, TakenBackError
from traceweave.explorer.explorer import Explorer
from traceweave.explorer.requests import body_of, number, numbers_of, stretch_of, text_of
from traceweave.explorer.views import Stretch
from traceweave.store.database import first_line

_MOST_QUERY = 200_000
"""Bytes."""

_GONE = 499
"""The status for a client that does not wait for it."""


def build_app(explorer: Explorer) -> Starlette:
    """Return the application without its guard."""
    answering = Answering()

    def route(path: str, answer: Callable[[Asking, Request], object]) -> Route:
        async def endpoint(request: Request) -> Response:
            with explorer.run.asking() as asking:
                return await _answered(
                    answering(request, lambda: answer(asking, request), asking.take_back)
                )

        return Route(f"/ask/{path}", endpoint)

    async def query(request: Request) -> Response:
        try:
            sql = await body_of(request, _MOST_QUERY)
            question = explorer.question(text_of(request, "page"), sql)
        except TraceweaveError as error:
            return _json({"error": str(error)}, 400)
        except ClientDisconnect:
            return Response(status_code=_GONE)
        # that a query is wrong is an answer too
        return await _answered(answering(request, question.answer, question.take_back), 200)

    asked = [route(path, answer) for path, answer in _answers(explorer).items()]
    app = Starlette(
        routes=[
            *asked,
            Route("/ask/query", query, methods=["POST"]),
            *page_routes("index.html"),
        ]
    )
    app.router.redirect_slashes = False  # it does not know of the token
    return app


async def _answered(found: Awaitable[object], wrong: int = 400) -> Response:
    """Return an answer, or with the status `wrong` what was wrong."""
    try:
        return _response(await found)
    except TakenBackError:
        return Response(status_code=_GONE)
    except TraceweaveError as error:
        return _json({"error": str(error)}, wrong)
    except duckdb.Error as error:
        return _json({"error": first_line(error)}, wrong)
    except Exception as error:
        return _json({"error": defect(error)}, 500)


def _answers(explorer: Explorer) -> dict[str, Callable[[Asking, Request], object]]:
    """Return what is answered, by its address."""

    def seen(request: Request) -> tuple[Stretch, list[int]]:
        return stretch_of(request), numbers_of(request, "ranks")

    def whether(request: Request, name: str) -> bool:
        return bool(number(request, name, 0))

    return {
        "run": lambda asking, request: explorer.overview,
        "lanes": lambda asking, request: explorer.lanes(
            asking, *seen(request), whether(request, "patient")
        ),
        "whole": lambda asking, request: explorer.whole(asking, number(request, "blocks")),
        "find-gaps": lambda asking, request: explorer.find_gaps(asking, number(request, "rank")),
        "gaps": lambda asking, request: explorer.gaps(asking, *seen(request)),
        "idle": lambda asking, request: explorer.idle(asking, *seen(request)),
        "findings": lambda asking, request: explorer.findings(asking),
        "finding-place": lambda asking, request: explorer.finding_place(
            asking, number(request, "finding")
        ),
        "path": lambda asking, request: explorer.critical_path(asking, *seen(request)),
        "op": lambda asking, request: explorer.op(
            asking, text_of(request, "kind"), number(request, "rank"), number(request, "id")
        ),
        "totals": lambda asking, request: explorer.totals(
            asking, *seen(request), number(request, "lane", -1)
        ),
        "search": lambda asking, request: explorer.search(asking, text_of(request, "text")),
        "hit": lambda asking, request: explorer.hit(
            asking,
            text_of(request, "text"),
            number(request, "at"),
            number(request, "id"),
            whether(request, "back"),
        ),
        "trace": lambda asking, request: explorer.trace(*seen(request), whether(request, "host")),
        "threads": lambda asking, request: explorer.threads(asking, number(request, "rank")),
        "host": lambda asking, request: explorer.host(
            asking, stretch_of(request), number(request, "rank")
        ),
    }


def page_routes(name: str) -> list[BaseRoute]:
    """Return the addresses of a page, and of the files that pages are made of."""
    page = _files("explorer/page")

    async def index(request: Request) -> Response:
        return await page.get_response(name, request.scope)

    return [Route("/", index), Mount("/page", page), Mount("/shared", _files("report/assets"))]


def _files(folder: str) -> StaticFiles:
    """Return what serves the files of a folder of this package, and none beside it."""
    return StaticFiles(packages=[("traceweave", folder)])


def _response(found: object) -> Response:
    if isinstance(found, bytes):
        return Response(found, media_type="application/octet-stream")
    return _json(found)


def _json(value: object, status: int = 200) -> Response:
    return Response(orjson.dumps(value), status_code=status, media_type="application/json")
