"""Outputs are whole or absent; pipes and devices get theirs as it comes."""

import os
import stat
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.marks import nightly
from tests.robustness.loading import RUN
from traceweave.cli.main import main
from traceweave.errors import InputError
from traceweave.outputs import beside, whole_file, whole_folder, write_whole
from traceweave.targets import FileKind


@pytest.fixture
def database(fixtures: Path, database_of: Callable[..., Path]) -> Path:
    return database_of(fixtures / "ddp_gloo_straggler")


def names(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


def test_an_output_that_fails_leaves_the_old_one(tmp_path: Path) -> None:
    target = tmp_path / "out"
    target.write_text("old")
    with pytest.raises(TypeError), whole_file(target, None) as file:
        file.writelines([b"half", None])  # type: ignore[list-item]
    with pytest.raises(InputError), whole_folder(tmp_path / "folder", FileKind.TEXT) as folder:
        (folder / "none" / "a").touch()
    assert names(tmp_path) == ["out"]
    assert target.read_text() == "old"


def test_only_what_dead_processes_left_for_this_output_is_removed(tmp_path: Path) -> None:
    target = tmp_path / "out"
    mine = beside(target)
    dead = mine.with_name(mine.name.replace(f"-{os.getpid()}-", "-999999999-"))
    other = dead.with_name(dead.name.replace(".out.", ".output."))
    for path in (mine, dead, other):
        path.touch()
    write_whole(target, b"new", None)
    assert names(tmp_path) == sorted([mine.name, other.name, "out"])


def test_an_output_keeps_its_permissions_and_a_link_stays_a_link(tmp_path: Path) -> None:
    private, link = tmp_path / "private", tmp_path / "link"
    private.write_text("old")
    private.chmod(0o600)
    link.symlink_to(private)
    write_whole(link, b"new", None)
    assert link.is_symlink()
    assert private.read_bytes() == b"new"
    assert stat.S_IMODE(private.stat().st_mode) == 0o600


@pytest.mark.parametrize("name", ["none/out", "file/out", "folder", "x" * 300])
def test_what_cannot_be_written_is_one_line_with_a_way_out(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "folder").mkdir()
    with pytest.raises(InputError, match=r"cannot be written: .*; name another place"):
        write_whole(tmp_path / name, b"new", None)
    assert names(tmp_path) == ["file", "folder"]


def test_a_long_name_is_no_obstacle(tmp_path: Path) -> None:
    target = tmp_path / ("é" * 127)
    write_whole(target, b"new", None)
    assert names(tmp_path) == [target.name]


def test_a_folder_of_other_things_keeps_them(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    folder.mkdir()
    (folder / "notes.txt").write_text("mine")
    (folder / "a").write_text("old")

    with whole_folder(folder, FileKind.TEXT) as draft:
        (draft / "a").write_text("new")
        (draft / "b").write_text("new")
        assert (folder / "a").read_text() == "old"

    assert {p.name: p.read_text() for p in folder.iterdir()} == {
        "notes.txt": "mine", "a": "new", "b": "new",
    }  # fmt: skip
    assert names(tmp_path) == ["out"]


def test_the_folder_that_the_caller_works_in_stays_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    before = tmp_path.stat().st_ino
    with whole_folder(Path(), FileKind.TEXT) as draft:
        (draft / "a").write_text("new")
    assert tmp_path.stat().st_ino == before
    assert names(tmp_path) == ["a"]


# ---------------------------------------------------------------------------- pipes and devices


def through(pipe: Path, arguments: list[str]) -> bytes:
    """Run a command that writes to a named pipe, and return what came out of it."""
    os.mkfifo(pipe)
    read: list[bytes] = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_bytes()))
    reader.start()
    assert main(arguments) == 0
    reader.join()
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    return read[0]


def test_a_named_pipe_gets_rows_as_they_come(tmp_path: Path, database: Path) -> None:
    pipe = tmp_path / "pipe"
    sql = "SELECT a FROM range(3) AS t(a)"
    assert through(pipe, ["query", str(database), sql, "-f", "csv", "-o", str(pipe)]) == (
        b"a\n0\n1\n2\n"
    )


@nightly
def test_a_named_pipe_gets_parquet_and_the_timeline(tmp_path: Path, database: Path) -> None:
    rows, timeline, file = tmp_path / "rows", tmp_path / "timeline", tmp_path / "run.pftrace"
    sql = "SELECT a FROM range(3) AS t(a)"
    main(["export", str(database), "-o", str(file)])
    data = through(rows, ["query", str(database), sql, "-f", "parquet", "-o", str(rows)])
    traced = through(timeline, ["export", str(database), "-o", str(timeline)])
    (tmp_path / "rows.parquet").write_bytes(data)
    assert pq.read_table(tmp_path / "rows.parquet").column("a").to_pylist() == [0, 1, 2]
    assert traced == file.read_bytes()


@nightly
@pytest.mark.parametrize("name", ["/dev/stdout", "-"])
def test_stdout_by_name_is_written_to_and_not_replaced(
    tmp_path: Path, database: Path, name: str
) -> None:
    target = tmp_path / "out"
    with target.open("wb") as stdout:
        for _ in range(2):
            subprocess.run(
                [*RUN, "query", str(database), "SELECT 1 AS a", "-f", "csv", "-o", name],
                stdout=stdout, stderr=subprocess.DEVNULL, check=True,
            )  # fmt: skip
        assert os.fstat(stdout.fileno()).st_ino == target.stat().st_ino
    assert target.read_bytes().endswith(b"a\n1\n")


def test_a_full_device_is_one_line(database: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["query", str(database), "SELECT 1", "-f", "csv", "-o", "/dev/full"]) == 3
    said = capsys.readouterr().err
    assert said.startswith("traceweave: error: /dev/full: cannot be written: No space left")
    assert said.count("\n") == 1
