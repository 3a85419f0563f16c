"""The target of an ingest is the old database or the whole new one, whatever happens."""

import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import duckdb
import pytest

from tests.marks import first_at_once, nightly
from tests.robustness.kills import Rounds, left_beside, start
from tests.robustness.loading import RUN
from tests.tiny import write
from traceweave.cli.main import main
from traceweave.ingestion import ingest
from traceweave.store.database import open_database

SMALL = 4


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two ranks of a few events."""
    folder = tmp_path_factory.mktemp("traces")
    event = '{"ph":"X","cat":"cpu_op","name":"op","pid":1,"tid":1,"ts":%d,"dur":1}'
    for rank in range(2):
        events = ",".join(event % i for i in range(SMALL))
        info = f'"distributedInfo":{{"rank":{rank},"world_size":2}}'
        (folder / f"rank{rank}.json").write_text(f'{{{info},"traceEvents":[{events}]}}')
    return sorted(folder.iterdir())


@pytest.fixture(scope="module")
def made(small: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The database of the first of them, to copy."""
    database = tmp_path_factory.mktemp("made") / "run.duckdb"
    assert ingest(small[0], database).ok
    return database


@nightly
@pytest.mark.parametrize("name", ["run.duckdb", "run.tw"])
def test_a_kill_at_any_moment_leaves_the_old_or_the_new_run(
    tmp_path: Path, small: list[Path], name: str
) -> None:
    rounds = Rounds(tmp_path, small[:1], small, seed=3, name=name)
    # an interrupt cleans up after itself; what a kill leaves, the next ingest removes
    for number in (signal.SIGINT, signal.SIGINT, signal.SIGKILL, signal.SIGKILL):
        rounds.round(number)
    rounds.clean()


@nightly
def test_two_ingests_into_one_target_at_once(tmp_path: Path, small: list[Path]) -> None:
    database = tmp_path / "run.duckdb"
    children = [start([path], database) for path in small]
    said = [child.communicate()[1] for child in children]
    assert [child.returncode for child in children] == [0, 0], said
    with open_database(database) as con:
        assert con.execute("SELECT rank FROM ranks").fetchall() in ([(0,)], [(1,)])
    assert left_beside(database) == []


DISK_FULL = """
import resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]),) * 2)
from traceweave.cli.main import main
sys.exit(main(sys.argv[2:]))
"""


@nightly
@pytest.mark.parametrize("room", [20_000, 0, 200_000])
def test_a_full_disk_leaves_the_old_database_and_one_line(
    tmp_path: Path, made: Path, fixtures: Path, room: int
) -> None:
    trace, database = fixtures / "ddp_gloo_4ranks" / "rank0.json.gz", tmp_path / "run.duckdb"
    shutil.copy(made, database)
    before = database.read_bytes()

    done = subprocess.run(
        [sys.executable, "-c", DISK_FULL, str(room),
         "ingest", "--replace", str(trace), "-o", database],
        capture_output=True, text=True,
    )  # fmt: skip

    assert done.returncode == 3
    assert done.stderr.count("\n") == 1
    assert f"{database}: cannot be written: Could not write file" in done.stderr
    assert "make room, or name another place with -o" in done.stderr
    assert database.read_bytes() == before
    assert left_beside(database) == []


@pytest.mark.parametrize("command", [["sql", "--install"], ["align"]])
@pytest.mark.parametrize("more", [0, -(1 << 30), 70_000, 140_000])
@nightly
def test_a_full_disk_leaves_a_database_that_is_changed_as_it_was(
    tmp_path: Path, made: Path, command: list[str], more: int
) -> None:
    database = tmp_path / "run.duckdb"
    shutil.copy(made, database)
    size = database.stat().st_size
    room = max(size + more, 0)

    done = subprocess.run(
        [sys.executable, "-c", DISK_FULL, str(room), *command, database],
        capture_output=True, text=True,
    )  # fmt: skip

    assert (done.returncode, done.stderr.count("\n")) == (3, 1)
    assert f"{database}: cannot be written: Could not write file" in done.stderr
    assert done.stderr.endswith("; make room\n")
    assert list(tmp_path.iterdir()) == [database]
    with open_database(database) as con:
        assert con.execute("SELECT rank FROM ranks").fetchall() == [(0,)]
        assert con.execute(TAILS).fetchall() == []


TAILS = "SELECT 1 FROM duckdb_functions() WHERE function_name = 'tails'"


def newer_schema(path: Path) -> None:
    with duckdb.connect(path) as con:
        con.execute("UPDATE meta SET value = '999' WHERE name = 'schema_version'")


def older_schema(path: Path) -> None:
    with duckdb.connect(path) as con:
        con.execute("UPDATE meta SET value = '0' WHERE name = 'schema_version'")


def foreign(path: Path) -> None:
    path.unlink()
    with duckdb.connect(path) as con:
        con.execute("CREATE TABLE notes (text VARCHAR)")


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:300_000])


def zeroed(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[12288:] = bytes(len(data) - 12288)
    path.write_bytes(bytes(data))


DATABASES = [
    (newer_schema, r"written by a newer traceweave .*ingest the traces again, or upgrade", True),
    (older_schema, r"written by another traceweave \(schema version 0, .*ingest the traces", True),
    (foreign, "a DuckDB database, but not one of traceweave; make one with", False),
    (cut, "is damaged|it is not whole: ingest the traces again", False),
    pytest.param(zeroed, "is damaged|cannot be opened", False, marks=nightly),
    (lambda path: path.write_bytes(b""), "not a database; if it is a trace", False),
    (lambda path: path.write_text("notes " * 999), "not a database; if it is a trace", False),
    pytest.param(
        lambda path: path.write_bytes(b"\x1f\x8b" * 999), "not a database; if it is a trace", False,
        marks=nightly,
    ),
    (lambda path: path.unlink(), "does not exist; make a database with", True),
]  # fmt: skip


@first_at_once(2)
@pytest.mark.parametrize(("change", "message", "replaceable"), DATABASES)
def test_a_file_that_is_no_database_of_ours_is_refused(
    tmp_path: Path,
    small: list[Path],
    made: Path,
    capsys: pytest.CaptureFixture[str],
    change: Callable[[Path], object],
    message: str,
    replaceable: bool,
) -> None:
    import re

    database = tmp_path / "run.duckdb"
    shutil.copy(made, database)
    change(database)
    before = database.read_bytes() if database.exists() else None

    for arguments in (["info", str(database)], ["query", str(database), "FROM ranks"]):
        assert main(arguments) == 3
        said = capsys.readouterr()
        assert said.out == ""
        assert said.err.count("\n") == 1
        assert re.search(message, said.err)
    expected = 0 if replaceable else 2
    assert main(["ingest", "--no-verdict", str(small[0]), "-o", str(database), "-q"]) == expected
    assert replaceable or database.read_bytes() == before


@nightly
def test_damaged_rows_are_one_line_in_every_command(
    tmp_path: Path, fixtures: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole, database = tmp_path / "whole.duckdb", tmp_path / "run.duckdb"
    ingest(fixtures / "ddp_gloo_4ranks" / "rank0.json.gz", whole)
    data = bytearray(whole.read_bytes())
    blocks = (len(data) - 12288) // 262144
    refused = 0
    for block in range(blocks):
        at = 12288 + block * 262144
        database.write_bytes(data[:at] + bytes(4096) + data[at + 4096 :])
        code = main(["query", str(database), "SELECT sum(hash(COLUMNS(*))) % 1000 FROM host_ops"])
        said = capsys.readouterr().err
        assert code in (0, 2, 3)
        assert said.count("\n") == (code != 0)
        refused += code != 0
    assert refused > 0


def test_nothing_is_left_of_an_ingest_that_is_refused(tmp_path: Path, small: list[Path]) -> None:
    write(tmp_path / "foreign.json", rank=0)
    shutil.copy(small[0], tmp_path / "other.json")
    done = subprocess.run(
        [*RUN, "ingest", "foreign.json", "-o", "run.duckdb"],
        cwd=tmp_path, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 3
    assert done.stderr.startswith("traceweave: error: foreign.json: no trace that can be read (")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["foreign.json", "other.json"]
