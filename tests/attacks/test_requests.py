"""Requests to the explorer that nobody's browser makes: each has its status, none a traceback.

requests.tsv has one a row. `{x*5000}` stands for as many times that text, `{secret}` for the path
of a script of the user, `{bytes}` for what is no UTF-8."""

import csv
import http.client
import json
import logging
import re
import socket
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.explorer.conftest import explorer, gpu_run, served  # noqa: F401
from tests.marks import first_at_once, nightly
from traceweave.explorer.asking import text
from traceweave.explorer.explorer import Explorer
from traceweave.explorer.server import Server

SECRET = "let secret = 'of the user'"

with Path(__file__).with_name("requests.tsv").open(encoding="utf-8", newline="") as file:
    ROWS = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))


@pytest.fixture
def logged() -> Iterator[list[str]]:
    """What the server complains of."""
    found: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: found.append(record.getMessage())  # type: ignore[method-assign]
    logger = logging.getLogger("uvicorn.error")
    logger.addHandler(handler)
    yield found
    logger.removeHandler(handler)


@first_at_once(8)
@pytest.mark.parametrize("row", ROWS, ids=[row["attack"] for row in ROWS])
def test_every_request_has_its_status_and_none_a_traceback(
    served: Server,  # noqa: F811
    tmp_path: Path,
    logged: list[str],
    row: dict[str, str],
) -> None:
    secret = tmp_path / "secret.js"
    secret.write_text(SECRET)
    method, path, header, body = (
        _meant(row[name], secret) for name in ("method", "path", "header", "body")
    )

    status, answer = _answer(served, method, path, header, body)

    assert (status, logged) == (int(row["status"]), [])
    assert SECRET.encode() not in answer
    assert b"Traceback" not in answer
    if status == 400 and answer.startswith(b"{"):
        assert "\n" not in json.loads(answer)["error"]


def test_there_are_as_many_as_promised() -> None:
    assert len({row["attack"] for row in ROWS}) == len(ROWS) >= 40


def test_a_body_without_an_end_is_not_kept(served: Server, logged: list[str]) -> None:  # noqa: F811
    place = urlsplit(served.url)
    assert place.hostname is not None
    chunk = b"10000\r\n" + b"x" * (1 << 16) + b"\r\n"
    sent = 0
    with closing(socket.create_connection((place.hostname, place.port or 0), timeout=20)) as con:
        con.sendall(_head(served, "POST", "ask/query?page=a", "Transfer-Encoding: chunked"))
        try:
            while sent < 256 << 20:
                con.sendall(chunk)
                sent += len(chunk)
        except OSError:  # it hung up
            pass
    assert sent < 32 << 20
    assert _answer(served, "GET", "ask/run", "", "")[0] == 200
    assert logged == []


@nightly
def test_a_request_taken_back_between_two_statements_doubles_nothing(
    explorer: Explorer,  # noqa: F811
) -> None:
    with explorer.run.asking() as asking:
        once = {thread["tid"]: thread["ops"] for thread in explorer.threads(asking, 3)}
    explorer._unfolded.clear()
    with explorer.run.asking() as asking:
        asking.do("threads_of_rank", rank=2)  # as far as a request came that was taken back
        counted = asking.rows("threads_shown", rank=2)
        assert explorer.threads(asking, 2) == counted
        assert {thread["tid"]: thread["ops"] for thread in explorer.threads(asking, 3)} == once
        explorer.find_gaps(asking, 2)
        gaps = asking.compute(lambda con: con.execute(_GAPS).fetchall())
        explorer._analysed._gaps.clear()
        explorer.find_gaps(asking, 2)
        assert asking.compute(lambda con: con.execute(_GAPS).fetchall()) == gaps != [(0,)]
    assert "INSERT INTO memory.explorer.threads" in text("threads_of_rank")


_GAPS = "SELECT count(*) FROM memory.explorer.gaps WHERE rank = 2"


def _meant(given: str, secret: Path) -> bytes:
    given = given.replace("{secret}", str(secret))
    given = re.sub(r"\{([^{}]+)\*(\d+)\}", lambda match: match[1] * int(match[2]), given)
    return given.encode().replace(b"{bytes}", b"SELECT '\xff\xfe'")


def _head(server: Server, method: str | bytes, path: str | bytes, header: str | bytes) -> bytes:
    place = urlsplit(server.url)
    method, path, header = (
        part.encode() if isinstance(part, str) else part for part in (method, path, header)
    )
    whole = path if path.startswith(b"/") else place.path.encode() + path
    lines = [b"%b %b HTTP/1.1" % (method, whole), b"Connection: close"]
    if not header.startswith(b"Host"):
        lines.append(b"Host: " + place.netloc.encode())
    return b"\r\n".join([*lines, header] if header else lines) + b"\r\n\r\n"


def _answer(
    server: Server, method: str | bytes, path: str | bytes, header: str | bytes, body: str | bytes
) -> tuple[int, bytes]:
    """Ask byte by byte what is given: no library mends it."""
    place = urlsplit(server.url)
    assert place.hostname is not None
    body = body.encode() if isinstance(body, str) else body
    header = header.encode() if isinstance(header, str) else header
    if body and b"Content-Length" not in header:
        header = b"\r\n".join(filter(None, [header, b"Content-Length: %d" % len(body)]))
    with closing(socket.create_connection((place.hostname, place.port or 0), timeout=60)) as con:
        con.sendall(_head(server, method, path, header) + body)
        answer = http.client.HTTPResponse(con)
        answer.begin()
        return answer.status, answer.read()
