"""Files of any name and kind: only traces are read, nothing hangs, nothing is written elsewhere."""

import gzip
import json
import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.marks import at_once, first_at_once, nightly
from tests.robustness.loading import RUN
from traceweave.cli.main import main
from traceweave.errors import InputError
from traceweave.ingestion import ingest
from traceweave.sources import unpack
from traceweave.sources.discover import discover
from traceweave.sources.formats import known_formats
from traceweave.store.database import open_database


def trace(rank: int, events: int = 1) -> bytes:
    event = {"ph": "X", "cat": "cpu_op", "name": "op", "pid": rank, "tid": 1, "ts": 1, "dur": 1}
    return json.dumps({"distributedInfo": {"rank": rank}, "traceEvents": [event] * events}).encode()


def sources(database: Path) -> list[tuple[str, str]]:
    with open_database(database) as con:
        return con.execute("SELECT path, status FROM sources ORDER BY source_id").fetchall()


NAMES = [
    b"quote's.json", b"semi;colon.json", b'double"quote.json', b"line\nend.json", b"{{7*7}}.json",
    b"<script>alert(1)<.json", b"${x}.json", b"$(id).json", b"-o.json", b"%s%d.json", b"a\\b.json",
    b"[0-9].json", b"a*.json", b"~.json", b"'; DROP TABLE meta; --.json", "\u202egnp.json".encode(),
    b"\x1b[31mred.json", b"latin\xe9.json", b"host\xe9_12.1700000000000.pt.trace.json",
]  # fmt: skip


@nightly
def test_files_of_any_name_are_read_by_name_or_by_folder(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    for rank, name in enumerate(NAMES):
        Path(os.fsdecode(os.fsencode(folder) + b"/" + name)).write_bytes(trace(rank))
    paths = [folder / os.fsdecode(name) for name in NAMES]
    database = tmp_path / "run.duckdb"

    assert ingest([folder], database).ok
    expected = [(os.fsencode(path).decode("utf-8", "replace"), "ok") for path in paths]
    assert [(path.replace("\ufffd", "?"), status) for path, status in sources(database)] == [
        (path.replace("\ufffd", "?"), status) for path, status in expected
    ]
    by_name, by_folder = (
        discover(given, known_formats(), tmp_path).sources for given in (paths, [folder])
    )
    assert by_name == by_folder
    assert len(by_name) == len(NAMES)
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["in", "run.duckdb"]


@nightly
def test_messages_stay_on_one_line_and_reach_no_terminal(tmp_path: Path) -> None:
    bad = os.fsencode(tmp_path) + b"/rank0 \x1b[31m\n\xe9.json"
    Path(os.fsdecode(bad)).write_bytes(b"oops")

    done = subprocess.run(
        [*map(os.fsencode, RUN), b"ingest", bad, b"-o", os.fsencode(tmp_path / "o.duckdb")],
        capture_output=True,
    )

    assert done.returncode == 3
    assert done.stdout == b""
    assert done.stderr.count(b"\n") == 1
    assert b"not JSON" in done.stderr
    assert b"\x1b" not in done.stderr


def test_links_pipes_and_devices_are_passed_over(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "rank0.json").write_bytes(trace(0))
    (folder / "again.json").symlink_to(folder / "rank0.json")
    (folder / "a.json").symlink_to(folder / "b.json")
    (folder / "b.json").symlink_to(folder / "a.json")
    (folder / "gone.json").symlink_to(tmp_path / "nowhere")
    (folder / "round").symlink_to(folder)
    os.mkfifo(folder / "pipe.json")

    result = ingest([folder, "/dev/null", "/dev/zero"], tmp_path / "run.duckdb")

    assert [source.path.name for source in result.sources] == ["again.json"]
    reasons = {item.path.name: item.reason for item in result.passed_over}
    assert reasons == {
        "a.json": "cannot be opened: Too many levels of symbolic links",
        "b.json": "cannot be opened: Too many levels of symbolic links",
        "gone.json": "cannot be opened: No such file or directory",
        "pipe.json": "not a regular file",
        "null": "not a regular file",
        "zero": "not a regular file",
    }


CLOSED = """
import os, sys
from traceweave.cli.main import main
if os.geteuid() == 0:  # who may read everything, until he has loaded the program
    assert main(["ingest", "--no-verdict", sys.argv[1] + "/rank0.json", "-qo", sys.argv[2]]) == 0
    os.setgroups([]); os.setgid(65534); os.setuid(65534)
sys.exit(main(["ingest", "--no-verdict", sys.argv[1], "-o", sys.argv[2]]))
"""


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that everybody may write to; those of pytest are closed to others."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o777)
        yield Path(name)


@nightly
def test_what_may_not_be_read_is_reported_and_the_rest_loaded(open_folder: Path) -> None:
    folder = open_folder / "in"
    (folder / "closed").mkdir(parents=True)
    for rank in range(2):
        (folder / f"rank{rank}.json").write_bytes(trace(rank))
    (folder / "rank1.json").chmod(0)
    (folder / "closed").chmod(0)

    done = subprocess.run(
        [RUN[0], "-c", CLOSED, str(folder), str(open_folder / "run.duckdb")],
        capture_output=True, text=True,
    )  # fmt: skip

    assert done.returncode == 3, done.stderr
    assert f"failed: {folder}/rank1.json: cannot be opened: Permission denied" in done.stderr
    assert f"passed over: {folder}/closed: a folder that cannot be searched" in done.stderr
    assert "rank 0 from 1 file" in done.stderr


@first_at_once()
@pytest.mark.parametrize("name", at_once(["t.json.gz", "t.sqlite", "t.txt", "t"], "t.sqlite", "t"))
def test_content_decides_and_not_the_suffix(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(trace(0))
    (tmp_path / "packed.json").write_bytes(gzip.compress(trace(1)))
    assert ingest(tmp_path, tmp_path / "run.duckdb").ok


@pytest.mark.parametrize("path", ["", "a\0b", "x" * 5000, "no/such/*.json"])
def test_a_path_that_is_none_is_refused_by_name(tmp_path: Path, path: str) -> None:
    with pytest.raises(InputError, match=r"not a path; name files|no such file or folder"):
        ingest([path], tmp_path / "run.duckdb")


def test_a_gzip_bomb_is_refused_unless_it_is_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(unpack, "BOMB_BYTES", 1 << 20)
    (tmp_path / "rank0.json.gz").write_bytes(gzip.compress(trace(0, events=30_000), 9))
    (tmp_path / "rank1.json.gz").write_bytes(gzip.compress(trace(1)))
    arguments = ["ingest", "--no-verdict", str(tmp_path), "-o", str(tmp_path / "run.duckdb")]

    assert main(arguments) == 3
    said = capsys.readouterr().err
    assert "rank0.json.gz: unpacks to more than 200 times its size, as gzip bombs do" in said
    assert "if you trust it, use --trust-packed" in said
    assert [status for _, status in sources(tmp_path / "run.duckdb")] == ["ok", "failed"]

    assert main([*arguments, "--trust-packed"]) == 0
    assert [status for _, status in sources(tmp_path / "run.duckdb")] == ["ok", "ok"]


@nightly
def test_a_bomb_is_refused_after_little_of_it(tmp_path: Path) -> None:
    """Two gibibytes of zeros in 2 MB, as a bare array of nothing."""
    import time

    bomb = tmp_path / "bomb.json.gz"
    packed = gzip.compress(bytes(64 << 20), 9)
    bomb.write_bytes(gzip.compress(b'{"schemaVersion":1,"traceEvents":[') + packed * 32)
    began = time.process_time()
    with pytest.raises(InputError, match="as gzip bombs do"):
        ingest(bomb, tmp_path / "run.duckdb")
    assert time.process_time() - began < 20
