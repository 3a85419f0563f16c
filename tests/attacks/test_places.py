"""Places elsewhere: what goes wrong there is one line without secrets, and no file is lost."""

import errno
import http.server
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

import duckdb
import pytest
from pyarrow import fs

import traceweave
from tests.marks import at_once, nightly
from traceweave import places
from traceweave.cli.main import main
from traceweave.errors import InputError
from traceweave.outputs import beside, write_whole
from traceweave.places import Place, place_of
from traceweave.sources.elsewhere import Elsewhere
from traceweave.sources.find import Candidate, find
from traceweave.sources.formats import known_formats
from traceweave.store import database
from traceweave.store.folder import drafting_folder
from traceweave.store.manifest import MANIFEST, read_manifest
from traceweave.store.rows import insert_rows

SECRETS = ("planted0signature", "planted0password", "planted%2Fcredential", "planted/credential")
RULES = '[[rule]]\nname = "steps"\nsql = "SELECT count(*) FROM steps"\nmin = 1\n'
TABLE = Path(__file__).with_name("places.tsv").read_text(encoding="utf-8").splitlines()
COMMANDS = [line for line in TABLE if not line.startswith("#")]


class _Answers(http.server.BaseHTTPRequestHandler):
    """Answers with the status that a path begins with; 'cut': with less than is promised."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        kind = self.path.split("/")[1]
        status, promised, body = int(kind) if kind.isdigit() else 200, 0, b""
        if kind == "cut":
            promised, body = 100_000, b'{"schemaVersion": 1, "traceEvents": ['
        self.send_response(status)
        if status == 302:
            self.send_header("Location", self.path.replace("302", "403", 1))
        self.send_header("Content-Length", str(promised))
        self.send_header("Connection", "close")
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    do_HEAD = do_PUT = do_POST = do_GET


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """Host and port of a server on this machine."""
    pytest.importorskip("aiohttp")
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Answers)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> str:
    """The URL of a folder in memory, which knows no locks."""
    memory = pytest.importorskip("fsspec").filesystem("memory")
    memory.store.clear()
    system = fs.PyFileSystem(fs.FSSpecHandler(memory))
    monkeypatch.setitem(places._SYSTEMS, "s3", lambda rest: (system, f"/{rest}"))
    return "s3://bucket"


@pytest.mark.parametrize("answer", at_once(["403", "404", "500", "302", "999", "cut"], "403"))
def test_what_a_server_refuses_is_one_line_without_secrets(
    answer: str,
    address: str,
    tmp_path: Path,
    fixtures: Path,
    database_of: Callable[..., Path],
    capfd: pytest.CaptureFixture[str],
) -> None:
    traces = fixtures / "ddp_gloo_straggler"
    (tmp_path / "rules.toml").write_text(RULES)
    query = "X-Amz-Signature=planted0signature&X-Amz-Credential=planted%2Fcredential"
    at = f"http://user:planted0password@{address}/{answer}"
    named = {
        "url": f"{at}/file.json?{query}", "folder_url": f"{at}/run.tw?{query}",
        "run": database_of(traces), "rules": tmp_path / "rules.toml", "new": tmp_path / "new",
        "trace": min(traces.iterdir()),
    }  # fmt: skip
    for command in COMMANDS:
        code = main([word.replace("\\s", " ").format(**named) for word in command.split()])
        said = capfd.readouterr()
        assert code in (2, 3), command
        assert not any(secret in said.out + said.err for secret in SECRETS), (command, said)
        assert "Traceback" not in said.err, (command, said)
        # what was read is told, and how many ranks of the job it is
        lines = 3 if "{trace} -o {new}" in command and "{url} {trace}" in command else 1
        assert said.err.count("\n") <= lines + 1, (command, said)
        if lines == 1:
            assert said.err.startswith("traceweave: error: "), (command, said)
            assert said.err.count("\n") == 1, (command, said)


def test_python_gets_errors_of_its_own_without_secrets(address: str) -> None:
    place = place_of(f"http://user:planted0password@{address}/403/a.json?sig=planted0signature")
    with pytest.raises(OSError, match="403") as raised, place.reading() as stream:
        stream.read()
    assert raised.value.filename == f"http://{address}/403/a.json"
    error: BaseException | None = raised.value
    while error is not None:
        assert not any(secret in repr(error) for secret in SECRETS)
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)


# ------------------------------------------------------------------------------- files by place


def test_files_whose_numbers_are_alike_are_two(
    bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """31 bits of a hash told files apart: of 16,384 one was lost in 6 % of ingests."""
    for i in range(50):
        with place_of(f"{bucket}/traces/rank{i}.json").writing() as stream:
            stream.write(b'{"schemaVersion": 1, "traceEvents": []}')
    monkeypatch.setattr("builtins.hash", lambda _: 7, raising=True)
    found = find([f"{bucket}/traces", f"{bucket}/traces/rank3.json"], known_formats())
    assert len([item for item in found if isinstance(item, Candidate)]) == 50


def test_files_that_only_a_query_tells_apart_are_two() -> None:
    pytest.importorskip("aiohttp")
    one, other = (Elsewhere(place_of(f"https://host/get?id={i}")) for i in range(2))
    assert str(one) == str(other)
    assert one != other
    assert one == Elsewhere(place_of("https://host/get?id=0"))
    assert len({one, other}) == 2


# ------------------------------------------------------------------ who changes a run together


def rank_files(fixtures: Path) -> list[Path]:
    return sorted((fixtures / "ddp_gloo_straggler").iterdir())


def added(trace: Path, run: Path) -> subprocess.Popen[str]:
    command = [
        sys.executable, "-m", "traceweave", "ingest", "--no-verdict", str(trace), "-o", str(run),
        "--add",
    ]  # fmt: skip
    command += ["-q", str(trace), "-o", str(run)]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True)


def ranks_of(run: str | Path) -> list[int]:
    with traceweave.open(run, frames="arrow") as opened:
        return opened.sql("SELECT rank FROM ranks ORDER BY rank")["rank"].to_pylist()


@nightly
@pytest.mark.parametrize("at_a_time", [3, pytest.param(6, marks=nightly)])
def test_ranks_that_are_added_at_once_are_all_there(
    at_a_time: int, fixtures: Path, tmp_path: Path
) -> None:
    first, *others = rank_files(fixtures)
    run = tmp_path / "run.tw"
    traceweave.ingest(first, run)
    children = [added(trace, run) for trace in (others * 2)[:at_a_time]]
    said = [child.communicate()[1] for child in children]
    assert all(
        child.returncode == 0 or "in the run already" in text
        for child, text in zip(children, said, strict=True)
    ), said
    assert ranks_of(run) == [0, 1, 2, 3]
    assert files_there(place_of(run)) == listed(place_of(run))


def listed(run: Place) -> set[str]:
    return {MANIFEST, *(part.path for part in read_manifest(run).parts)}


def files_there(run: Place) -> set[str]:
    return set(run.files())


@nightly
@pytest.mark.parametrize("where", ["elsewhere", "here without locks"])
def test_what_another_program_has_changed_meanwhile_is_not_undone(
    where: str, bucket: str, fixtures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_locks(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("fcntl.flock", no_locks)
    first, second, third, _ = rank_files(fixtures)
    run = f"{bucket}/run.tw" if where == "elsewhere" else str(tmp_path / "run.tw")
    traceweave.ingest(first, run)

    with (
        pytest.raises(InputError, match=r"another program has changed it meanwhile .*run the c"),
        drafting_folder(place_of(run), keep=True),
    ):
        traceweave.ingest(second, run, add=True)

    assert ranks_of(run) == [0, 1]
    traceweave.ingest(third, run, add=True)
    assert ranks_of(run) == [0, 1, 2]
    assert files_there(place_of(run)) == listed(place_of(run))


@nightly
def test_a_run_that_came_into_being_meanwhile_is_left(fixtures: Path, tmp_path: Path) -> None:
    first, *_ = rank_files(fixtures)
    run = tmp_path / "run.tw"
    with (
        pytest.raises(InputError, match=r"run\.tw: another program has made it meanwhile.*--add"),
        drafting_folder(place_of(run)),
    ):
        traceweave.ingest(first, run)
    assert ranks_of(run) == [0]
    assert [path.name for path in tmp_path.iterdir()] == ["run.tw"]


@nightly
def test_a_reader_finds_the_run_that_has_just_replaced_the_one_it_began_with(
    fixtures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second, *_ = rank_files(fixtures)
    run = tmp_path / "run.tw"
    traceweave.ingest(first, run)
    read = database.read_manifest

    def replaced_meanwhile(folder: Place) -> object:
        manifest = read(folder)
        monkeypatch.setattr(database, "read_manifest", read)
        traceweave.ingest(second, run)
        return manifest

    monkeypatch.setattr(database, "read_manifest", replaced_meanwhile)
    assert ranks_of(run) == [1]


@nightly
def test_a_folder_of_an_earlier_version_is_opened_and_changed(
    fixtures: Path, tmp_path: Path
) -> None:
    first, second, *_ = rank_files(fixtures)
    run = tmp_path / "run.tw"
    traceweave.ingest(first, run)
    name = read_manifest(place_of(run)).database
    (run / name).rename(run / "run.duckdb")
    (run / MANIFEST).write_text((run / MANIFEST).read_text().replace(name, "run.duckdb"))
    assert ranks_of(run) == [0]
    traceweave.ingest(second, run, add=True)
    assert ranks_of(run) == [0, 1]
    assert files_there(place_of(run)) == listed(place_of(run))


# ------------------------------------------------------------------------ uploads are whole


def test_an_upload_that_breaks_off_leaves_the_old_file(
    bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = place_of(f"{bucket}/page.html")
    write_whole(page, b"old", None)

    def breaks_off(source: IO[bytes], target: IO[bytes], _: int) -> None:
        target.write(source.read(2))
        raise KeyboardInterrupt

    monkeypatch.setattr("shutil.copyfileobj", breaks_off)
    with pytest.raises(KeyboardInterrupt):
        write_whole(page, b"new and longer", None)

    monkeypatch.undo()
    with page.reading() as stream:
        assert stream.read() == b"old"
    assert page.beside("").names() == ["page.html"]


def test_an_upload_that_arrives_in_part_is_no_file(
    bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = place_of(f"{bucket}/page.html")
    monkeypatch.setattr("shutil.copyfileobj", lambda source, target, _: target.write(b"ne"))
    with pytest.raises(InputError, match=r"page\.html: cannot be written: .* not there whole"):
        write_whole(page, b"new", None)
    assert page.size() is None
    assert page.beside("").names() == []


def test_a_first_ingest_that_was_killed_at_its_manifest_is_in_nobodys_way(
    bucket: str, fixtures: Path
) -> None:
    run = place_of(f"{bucket}/run.tw")
    draft = beside(Path(MANIFEST)).name.replace(f"-{os.getpid()}-", "-999999999-")
    for name in (draft, "host_ops/0000-0123abcd.parquet", "run-0123abcd.duckdb"):
        with (run / name).writing() as stream:
            stream.write(b"half")
    traceweave.ingest(rank_files(fixtures)[0], run.shown)
    assert files_there(run) == listed(run)


def test_what_a_killed_process_has_sent_goes_with_the_next_write(bucket: str) -> None:
    page = place_of(f"{bucket}/page.html")
    mine = beside(Path("page.html")).name
    dead = mine.replace(f"-{os.getpid()}-", "-999999999-")
    for name in (dead, dead.replace("page", "other")):
        with page.beside(name).writing() as stream:
            stream.write(b"half")
    write_whole(page, b"new", None)
    assert sorted(page.beside("").names()) == [dead.replace("page", "other"), "page.html"]


# --------------------------------------------------------------------------- where traces were


@nightly
def test_traces_are_found_again_from_another_folder(
    fixtures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
    trace = shutil.copy(rank_files(fixtures)[0], tmp_path / "one" / "rank0.json.gz")
    monkeypatch.chdir(tmp_path / "one")
    traceweave.ingest("rank0.json.gz", "run.tw")
    monkeypatch.chdir(tmp_path / "other")
    with traceweave.open("../one/run.tw") as run:
        assert run.export("run.zip", to="perfetto-manifest").exists()
    # a file of the same name and size is not the same file
    shutil.copy(trace, "rank0.json.gz")
    ranks = {"rank0.json.gz": 1}
    assert traceweave.ingest("rank0.json.gz", "../one/run.tw", add=True, ranks=ranks).ok


@nightly
def test_many_files_that_are_no_traces_take_no_time(tmp_path: Path, fixtures: Path) -> None:
    """Of 2,000 of 20 kB each, NCCL's pattern alone took 0.6 s, and noting them 1 s."""
    kinds = [b"text\n" * 4000, b"\x89PNG\r\n" + bytes(20_000), b"a,b\n1,2\n" * 2500, b'{"a": 1}']
    for i in range(2000):
        (tmp_path / f"{i}.txt").write_bytes(kinds[i % 4])
    began = time.process_time()
    found = find([tmp_path], known_formats())
    with duckdb.connect() as con:
        con.execute("CREATE TABLE notes (number INTEGER, text VARCHAR)")
        insert_rows(con, "notes", ({"number": i, "text": "x"} for i in range(2000)))
    assert time.process_time() - began < 0.6
    assert len(found) == 2000
