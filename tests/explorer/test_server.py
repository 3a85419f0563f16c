"""Who is answered and who is not, many at once, and how it ends."""

import http.client
import json
import random
import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from urllib.parse import urlsplit

import duckdb
import pytest

from tests.conftest import Captured
from tests.explorer.reading import decode
from tests.marks import nightly
from traceweave import explorer as explorer_package
from traceweave.cli import main
from traceweave.explorer.explorer import Explorer, explore
from traceweave.explorer.opening import Opening
from traceweave.explorer.server import Server

NOTHING = (403, b"")


def _get(
    server: Server, path: str, headers: dict[str, str] | None = None, method: str = "GET",
    body: str | None = None
) -> tuple[int, bytes]:  # fmt: skip
    """Ask for a path after the token; an absolute one is asked for as it is."""
    place = urlsplit(server.url)
    con = http.client.HTTPConnection(place.hostname or "", place.port, timeout=60)
    try:
        con.putrequest(method, path if path.startswith("/") else place.path + path, skip_host=True)
        for name, value in {"Host": place.netloc, **(headers or {})}.items():
            con.putheader(name, value)
        con.putheader("Content-Length", str(len(body or "")))
        con.endheaders((body or "").encode())
        answer = con.getresponse()
        return answer.status, answer.read()
    finally:
        con.close()


def _token(server: Server) -> str:
    return urlsplit(server.url).path.strip("/")


def test_the_page_is_there_for_who_has_the_token(served: Server) -> None:
    status, page = _get(served, "")
    assert (status, b"<canvas" in page) == (200, True)
    assert _get(served, "ask/run")[0] == 200


@pytest.mark.parametrize("path", ["/", "/ask/run", "/page/main.js", "//", "/x/ask/run"])
def test_without_the_token_there_is_nothing(served: Server, path: str) -> None:
    assert _get(served, path) == NOTHING


def test_a_wrong_token_gets_nothing(served: Server) -> None:
    token = _token(served)
    wrong = [token[:-1], token + "x", token.swapcase(), "", "%00", token.encode().hex()]
    assert {_get(served, f"/{one}/ask/run") for one in wrong} == {NOTHING}
    assert len(token) >= 32


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1", "127.0.0.2", ""])
def test_a_foreign_host_gets_nothing(served: Server, host: str) -> None:
    assert _get(served, "ask/run", {"Host": host}) == NOTHING


def test_the_same_host_by_its_name_is_answered(served: Server) -> None:
    port = urlsplit(served.url).port
    assert _get(served, "ask/run", {"Host": f"localhost:{port}"})[0] == 200
    assert _get(served, "ask/run", {"Host": f"localhost:{port}", "Origin": "null"}) == NOTHING


def test_a_foreign_origin_gets_nothing(served: Server) -> None:
    own = served.url.rsplit("/", 2)[0]
    assert _get(served, "ask/run", {"Origin": own})[0] == 200
    for origin in ("https://evil.example", "null", own.replace("http:", "https:"), own + "0"):
        assert _get(served, "ask/run", {"Origin": origin}) == NOTHING
        assert _get(served, "ask/query?page=x", {"Origin": origin}, "POST", "SELECT 1") == NOTHING


def test_it_listens_on_the_loopback_only(served: Server) -> None:
    port = urlsplit(served.url).port or 0
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # sends nothing: it only chooses an address
        except OSError:
            pytest.skip("this machine has no other address")
        other = probe.getsockname()[0]
    with pytest.raises(OSError, match="refused"):
        socket.create_connection((other, port), timeout=5)


def test_answers_do_not_wait_for_acknowledgements(served: Server) -> None:
    """Head and body are two packets; the second would wait 40 ms for that of the first."""
    place = urlsplit(served.url)
    lasted = []
    with closing(http.client.HTTPConnection(place.netloc, timeout=60)) as con:
        for _ in range(15):
            began = time.perf_counter()
            con.request("GET", f"{place.path}page/view.js")
            con.getresponse().read()
            lasted.append(time.perf_counter() - began)
    assert min(lasted[5:]) < 0.035  # the first few are acknowledged at once


def test_pages_load_nothing_from_elsewhere(served: Server) -> None:
    place = urlsplit(served.url)
    con = http.client.HTTPConnection(place.hostname or "", place.port, timeout=60)
    con.request("GET", place.path)
    answer = con.getresponse()
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "http" not in policy
    assert answer.headers["referrer-policy"] == "no-referrer"
    con.close()


def test_only_files_of_the_page_are_served(served: Server) -> None:
    assert _get(served, "page/main.js")[0] == 200
    assert _get(served, "shared/colours.css")[0] == 200
    for path in (
        "page/../explorer.py", "page/..%2fexplorer.py", "page/%2e%2e/%2e%2e/api.py", "page/",
        "page//etc/passwd", "shared/vendor", "queries/within.sql", "page/no.js",
    ):  # fmt: skip
        assert _get(served, path)[0] in (404, 405)


def test_what_makes_no_sense_is_refused_in_a_line(served: Server) -> None:
    for path in (
        "lanes?from=0&until=0&ranks=0", "lanes?from=x&until=9&ranks=0", "lanes?ranks=0",
        "lanes?from=0&until=9&ranks=99", "lanes?from=0&until=9&ranks=0-999999999",
        "op?kind=op&rank=0&id=123456", "host?from=0&until=9&rank=-1",
    ):  # fmt: skip
        status, said = _get(served, f"ask/{path}")
        assert status == 400
        assert json.loads(said)["error"]


@nightly
def test_ten_views_at_once_get_what_one_gets_alone(served: Server, explorer: Explorer) -> None:
    span = explorer.run.span_ns
    random.seed(7)
    asked = []
    for _ in range(10):
        first = random.randrange(span - 1000)
        last = first + random.randrange(1000, span)
        asked += [
            f"ask/lanes?from={first}&until={last}&blocks=500&ranks=0-3",
            f"ask/host?from={first}&until={last}&blocks=500&rank={random.randrange(4)}",
            f"ask/totals?from={first}&until={last}&ranks=0-3",
            "ask/search?text=nccl",
        ]
    alone = [_get(served, path) for path in asked]
    assert {status for status, _ in alone} == {200}
    with ThreadPoolExecutor(10) as pool:
        together = list(pool.map(lambda path: _get(served, path), asked))
    for path, one, other in zip(asked, alone, together, strict=True):
        assert _comparable(path, one[1]) == _comparable(path, other[1])


def _comparable(path: str, answer: bytes) -> object:
    """Return an answer regardless of the order of blocks and of rows that are equally long."""
    if "totals" in path:
        return {
            key: sorted(map(json.dumps, value)) if isinstance(value, list) else value
            for key, value in json.loads(answer).items()
        }
    if "search" in path:
        return json.loads(answer)
    found = decode(answer)
    return {name: sorted(value) if name.startswith("block_") and name != "block_ns" else list(value)
            if hasattr(value, "tolist") else value for name, value in found.items()}  # fmt: skip


def test_what_nobody_waits_for_any_more_is_given_up(served: Server) -> None:
    place = urlsplit(served.url)
    query = "SELECT count(*) FROM range(1000000000000) AS a(i) WHERE i % 7 = 3"
    con = http.client.HTTPConnection(place.hostname or "", place.port)
    con.request("POST", f"{place.path}ask/query?page=left", query)
    time.sleep(0.3)  # it is under way
    con.close()
    began = time.monotonic()
    status, answer = _get(served, "ask/query?page=left", method="POST", body="SELECT 42 AS n")
    assert (status, json.loads(answer)["rows"]) == (200, [[42]])
    assert time.monotonic() - began < 20


def _serve(run: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "traceweave", "serve", str(run), "--no-open"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def test_ctrl_c_ends_it_without_a_word(gpu_run: Path) -> None:
    with _serve(gpu_run) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        url = process.stdout.readline().strip()
        place = urlsplit(url)
        # it is bound before it says so: a connection waits until it is answered
        with closing(http.client.HTTPConnection(place.netloc, timeout=20)) as con:
            con.request("GET", f"{place.path}ask/run")
            answer = con.getresponse()
            assert (answer.status, len(answer.read()) > 100) == (200, True)
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 0
        assert process.stderr.read() == "Ctrl-C ends it\n"


_ENDLESS = "SELECT count(*) FROM range(1000000000000) AS a(i) WHERE i % 7 = 3"


@nightly
@pytest.mark.parametrize("asked", ["query", "analysis"])
def test_ctrl_c_ends_what_is_computed(gpu_run: Path, tmp_path: Path, asked: str) -> None:
    """An analysis of one rank runs on a connection of its own, which Ctrl-C has to reach too."""
    run = tmp_path / "run.duckdb"
    run.write_bytes(gpu_run.read_bytes())
    if asked == "analysis":
        _make_endless(run)
    with _serve(run) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        place = urlsplit(process.stdout.readline().strip())
        with closing(http.client.HTTPConnection(place.netloc, timeout=20)) as con:
            if asked == "query":
                con.request("POST", f"{place.path}ask/query?page=x", _ENDLESS)
            else:
                con.request("GET", f"{place.path}ask/find-gaps?rank=0")
            time.sleep(2)  # it is under way
            began = time.monotonic()
            process.send_signal(signal.SIGINT)
            try:
                assert process.wait(20) == 0
            finally:
                process.kill()
            assert time.monotonic() - began < 5
        assert process.stderr.read() == "Ctrl-C ends it\n"


def _make_endless(path: Path) -> None:
    """Have the operations that gaps lie between take hours to read."""
    with duckdb.connect(path) as con:
        con.execute("ALTER VIEW device_ops RENAME TO quick_ops")
        con.execute(f"CREATE VIEW device_ops AS FROM quick_ops WHERE ({_ENDLESS}) > rank")


def test_a_port_that_is_taken_is_said(gpu_run: Path, served: Server, capsys: Captured) -> None:
    port = urlsplit(served.url).port
    assert main(["serve", str(gpu_run), "--no-open", "--port", str(port)]) == 2
    said = capsys.readouterr().err
    assert f"port {port} cannot be used" in said
    assert said.count("\n") == 1


def test_without_the_extra_one_line_says_what_to_install(
    gpu_run: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    for name in [one for one in sys.modules if one.startswith("traceweave.explorer.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delattr(explorer_package, "server")
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    assert main(["serve", str(gpu_run), "--no-open"]) == 2
    said = capsys.readouterr().err
    assert said == (
        "traceweave: error: this needs a web server: pip install 'traceweave-ranks[serve]'\n"
    )


def test_a_run_is_served_while_it_is_read(gpu_run: Path) -> None:
    """How far it is read, on a page of its own, for who has the token; then the run."""
    opening = Opening()
    server = Server(opening, 0, lambda: None)
    with server.in_background():
        status, page = _get(server, "")
        assert (status, b"<progress" in page, b"<canvas" in page) == (200, True, False)
        assert _get(server, "page/opening.js")[0] == 200
        assert _get(server, "ask/run")[0] == 404
        assert _get(server, "/ask/opening") == NOTHING
        opening.begin([(Path("a"), 60), (Path("b"), 40)])
        opening.advance(Path("a"), 25)
        opening.advance(Path("b"), 40)
        opening.finish(Path("b"), "ok")
        told = json.loads(_get(server, "ask/opening")[1])
        assert told == {
            "stage": "reading", "said": [], "files": 2, "done": 1, "size": 100, "read": 65,
        }  # fmt: skip
        opening.say("step time: 2.00 s")
        assert json.loads(_get(server, "ask/opening")[1])["said"] == ["step time: 2.00 s"]
        opening.stage("matching")
        assert json.loads(_get(server, "ask/opening")[1])["stage"] == "matching"
        with explore(gpu_run) as explorer:
            opening.open(explorer)
            assert _get(server, "ask/opening")[0] == 404
            assert b"<canvas" in _get(server, "")[1]
            assert _get(server, "ask/run")[0] == 200


def _hear_ctrl_c() -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@nightly
def test_serve_reads_traces_first(fixtures: Path, tmp_path: Path) -> None:
    out = tmp_path / "run.duckdb"
    command = [sys.executable, "-m", "traceweave", "serve", "--no-open", "-o", str(out)]
    with subprocess.Popen(
        [*command, str(fixtures / "ddp_gloo_4ranks" / "rank0.json.gz")], stdout=subprocess.PIPE,
        # tests that run in the background of a shell ignore it, and so would this process
        stderr=subprocess.PIPE, text=True, preexec_fn=_hear_ctrl_c,
    ) as served:  # fmt: skip
        assert served.stdout is not None
        place = urlsplit(served.stdout.readline().strip())
        deadline = time.monotonic() + 60
        status = 0
        while status != 200 and time.monotonic() < deadline:
            con = http.client.HTTPConnection(place.netloc, timeout=60)
            with closing(con):
                con.request("GET", place.path + "ask/run")
                status = con.getresponse().status
            time.sleep(0.1)
        served.send_signal(signal.SIGINT)
        _, said = served.communicate(timeout=60)
    assert (status, served.returncode) == (200, 0)
    assert "rank 0 from 1 file" in said
    assert out.exists()


def test_what_cannot_be_read_ends_the_server(tmp_path: Path, capsys: Captured) -> None:
    (tmp_path / "empty").mkdir()
    assert main(["serve", str(tmp_path / "empty")]) == 2
    assert f"serve {tmp_path}/empty -o run.duckdb" in capsys.readouterr().err
    code = main(["serve", "--no-open", str(tmp_path / "empty"), "-o", str(tmp_path / "run.duckdb")])
    assert (code, "no files there" in capsys.readouterr().err) == (3, True)
    assert not (tmp_path / "run.duckdb").exists()
