"""Memory and threads that run out: no trace is blamed, no old database is replaced, nothing hangs.

The steps of `ulimit -v` are a corpus ingest where the corpus is there, one of a fixture elsewhere.
"""

import copy
import errno
import os
import re
import shutil
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from tests.conftest import Captured
from tests.marks import at_once, first_at_once, nightly
from tests.robustness.kills import left_beside
from tests.robustness.loading import RUN
from traceweave import analyses
from traceweave.cli.main import main
from traceweave.errors import ResourceError, TraceweaveError
from traceweave.ingestion import ingest, room
from traceweave.resources import what_ran_out
from traceweave.sources import kineto
from traceweave.sources.kineto import reader
from traceweave.store import draft

_UDF = "Invalid Input Error: Python exception occurred while executing the UDF:"
RAN_OUT: list[BaseException] = [
    MemoryError(),
    pa.ArrowMemoryError("malloc of size 64 failed"),
    duckdb.OutOfMemoryException("Out of Memory Error: Failed to allocate block of 64 bytes"),
    RuntimeError("can't start new thread"),
    RuntimeError("std::bad_alloc"),
    OSError(errno.ENOMEM, "Cannot allocate memory"),
    OSError(errno.EMFILE, "Too many open files"),
    ImportError("libx.so: failed to map segment from shared object"),
    duckdb.FatalException("FATAL Error: the database was invalidated: std::bad_alloc"),
    duckdb.InvalidInputException(f"{_UDF} RuntimeError: can't start new thread"),
]
OF_A_FILE: list[BaseException] = [
    ValueError("the name is 'out of memory'"),
    duckdb.ConversionException("Could not convert string 'std::bad_alloc' to INT64"),
    TraceweaveError("cannot allocate memory.json: is empty"),
    OSError(errno.EACCES, "Permission denied"),
    RuntimeError("generator raised StopIteration"),
    duckdb.InvalidInputException(f"{_UDF} ValueError: the name is 'out of memory'"),
]


@pytest.fixture
def traces(tmp_path: Path) -> Path:
    folder = tmp_path / "traces"
    folder.mkdir()
    event = '{"ph":"X","cat":"cpu_op","name":"op","pid":1,"tid":1,"ts":%d,"dur":1}'
    for rank in range(3):
        info = f'"distributedInfo":{{"rank":{rank},"world_size":3}}'
        events = ",".join(event % i for i in range(4))
        (folder / f"rank{rank}.json").write_text(f'{{{info},"traceEvents":[{events}]}}')
    return folder


@pytest.fixture
def database(tmp_path: Path, traces: Path) -> Path:
    """An old database, alone in its folder."""
    path = tmp_path / "out" / "run.duckdb"
    path.parent.mkdir()
    assert ingest(traces / "rank0.json", path).ok
    return path


def raising(error: BaseException) -> Callable[..., object]:
    def raise_it(*_: object, **__: object) -> object:
        raise copy.copy(error)  # whose traceback would hold connections for ever

    return raise_it


@pytest.mark.parametrize("error", RAN_OUT, ids=lambda error: type(error).__name__)
def test_what_ran_out_is_told_from_what_is_wrong_with_a_file(error: BaseException) -> None:
    assert what_ran_out(error)
    later = ValueError("while it was cleaned up")
    later.__context__ = error
    assert what_ran_out(later)


@pytest.mark.parametrize("error", OF_A_FILE, ids=lambda error: type(error).__name__)
def test_what_a_file_holds_or_is_called_is_not_what_ran_out(error: BaseException) -> None:
    assert what_ran_out(error) is None


@first_at_once()
@pytest.mark.parametrize("error", RAN_OUT[:4], ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("where", at_once(["recognize", "probe", "load", "load_together"], "load"))
def test_memory_that_runs_out_ends_the_ingest_and_keeps_the_old_database(
    traces: Path,
    database: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: Captured,
    where: str,
    error: BaseException,
) -> None:
    before = database.read_bytes()
    monkeypatch.setattr(kineto, where, raising(error))
    # one file for a thread, or all of them together
    jobs = "1" if where == "load_together" else "4"

    code = main(["ingest", "--no-verdict", str(traces), "-o", str(database), "-j", jobs])

    said = capsys.readouterr().err.splitlines()
    assert code == 3
    assert len([line for line in said if "error" in line]) == 1
    assert f"{database}: not written, what was there stays: memory or threads ran out" in said[-1]
    assert f"-j {jobs} takes up to" in said[-1]
    assert ".json" in said[-1]  # which it was that took it
    assert database.read_bytes() == before
    assert left_beside(database) == []


@nightly
def test_duckdb_that_gets_too_little_memory_says_what_to_lower(
    fixtures: Path, database: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    before = database.read_bytes()
    monkeypatch.setattr(draft, "DRAFT_MEMORY_MIB", (4, 1))
    trace = fixtures / "ddp_gloo_4ranks"

    assert (
        main(
            [
                "ingest", "--no-verdict", "--replace", str(trace), "-o", str(database), "-q", "-j",
                "4",
            ]
        )
        == 3
    )  # fmt: skip

    (line,) = capsys.readouterr().err.splitlines()
    assert "lower -j, which was 4, or give it more memory: -j 4 takes up to 428 MB" in line
    assert database.read_bytes() == before


@pytest.mark.parametrize("target", ["run.duckdb", "run.tw"])
def test_threads_that_cannot_be_started_end_it_at_once(
    traces: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured, target: str
) -> None:
    class NoThread(threading.Thread):
        def start(self) -> None:
            raise RuntimeError("can't start new thread")

    monkeypatch.setattr(reader.threading, "Thread", NoThread)

    assert main(["ingest", "--no-verdict", str(traces), "-o", str(tmp_path / target), "-q"]) == 3

    (line,) = capsys.readouterr().err.splitlines()
    assert "can't start new thread" in line
    assert not (tmp_path / target).exists()


@nightly
def test_what_nobody_foresaw_is_a_defect_and_takes_no_other_file_down(
    traces: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    load = kineto.load

    def load_but_one(con: object, trace: object, *more: object) -> object:
        if trace.path.name == "rank1.json":  # type: ignore[attr-defined]
            raise TypeError("no such\nthing")
        return load(con, trace, *more)  # type: ignore[arg-type]

    monkeypatch.setattr(kineto, "load", load_but_one)
    monkeypatch.setattr(kineto, "load_together", raising(KeyError("together")))
    command = ["ingest", "--no-verdict", str(traces), "-o", str(tmp_path / "run.duckdb"), "-q"]

    assert main(command) == 3
    assert capsys.readouterr().err == (
        f"failed: {traces}/rank1.json: TypeError: no such thing: this is a defect of traceweave;"
        " report it with what TRACEWEAVE_DEBUG=1 shows\n"
    )
    with duckdb.connect(tmp_path / "run.duckdb", read_only=True) as con:
        assert con.execute("SELECT rank FROM ranks ORDER BY rank").fetchall() == [(0,), (2,)]

    monkeypatch.setenv("TRACEWEAVE_DEBUG", "1")
    assert main(command) == 3
    assert 'raise TypeError("no such' in capsys.readouterr().err


def test_as_many_files_at_a_time_as_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "_limit_mib", lambda: room.need_mib(5))
    monkeypatch.setattr(room.os, "cpu_count", lambda: 64)
    monkeypatch.setattr(room, "_taken_mib", lambda: 300)
    assert room.fitting_jobs(None) == 5
    assert room.fitting_jobs(3) == 3
    with pytest.raises(ResourceError, match=r"-j 8 takes up to 3.97 GB .* use -j 5, or raise it"):
        room.fitting_jobs(8)
    monkeypatch.setattr(room, "_limit_mib", lambda: 1850)
    with pytest.raises(ResourceError, match=r"-j 1 takes up to 2.03 GB .* is 1.94 GB; raise it"):
        room.fitting_jobs(None)


@nightly
def test_a_run_is_loaded_where_memory_is_too_little_for_its_verdict(
    traces: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    monkeypatch.setattr(analyses, "keep_answers", raising(MemoryError()))
    run = tmp_path / "run.duckdb"
    assert main(["ingest", str(traces), "-o", str(run), "-q"]) == 0
    assert capsys.readouterr().err == (
        "no verdict: memory or threads ran out (MemoryError); the run is loaded without it\n"
    )
    with duckdb.connect(run, read_only=True) as con:
        assert con.execute("SELECT count(*) FROM ranks").fetchall() == [(3,)]


STEPS = [600 + 2400 * step // 9 for step in range(10)]
"""MiB of address space."""


@nightly
@pytest.mark.parametrize("jobs", at_once([None, 1, 8], None))
@pytest.mark.parametrize("mib", at_once(STEPS, STEPS[3]))
def test_any_limit_leaves_the_old_or_the_whole_new_database(
    tmp_path: Path, fixtures: Path, database: Path, mib: int, jobs: int | None
) -> None:
    corpus = fixtures.parents[2] / "shared" / "corpus" / "kineto" / "nanogpt_8xh100"
    traces = corpus if corpus.exists() else fixtures / "ddp_gloo_straggler"
    before = database.read_bytes()
    options = [] if jobs is None else ["-j", str(jobs)]

    done = _limited(mib, "ingest", "--replace", str(traces), "-o", str(database), "-q", *options)

    assert left_beside(database) == []
    if done.returncode == 0:
        without = r"no verdict: memory or threads ran out \(.+\); the run is loaded without it\n"
        assert re.fullmatch(f"({without})?", done.stderr), done.stderr
        assert database.read_bytes() != before
    else:
        assert done.returncode == 3, done.stderr
        assert done.stderr.count("\n") == 1, done.stderr
        assert "memory" in done.stderr
        assert "-j" in done.stderr
        assert database.read_bytes() == before
    assert (done.returncode == 0) == (mib >= 1940 + 264 * ((jobs or 1) - 1)), done.stderr


@nightly
@pytest.mark.parametrize("mib", [600, 2000, 2800])
def test_workers_have_the_limit_too(
    tmp_path: Path, fixtures: Path, database: Path, mib: int
) -> None:
    run = tmp_path / "folder" / "run.tw"
    run.parent.mkdir()
    shutil.copytree(fixtures / "ddp_gloo_straggler", tmp_path / "gloo")
    done = _limited(mib, "ingest", "--no-verdict", str(tmp_path / "gloo"), "-o", str(run), "-q",
                    "--dask", "local", "-j", "2")  # fmt: skip
    assert done.returncode == (0 if mib == 2800 else 3)
    assert done.stderr.count("\n") == (0 if mib == 2800 else 1)
    assert run.exists() == (mib == 2800)


def _limited(mib: int, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command that may have so much address space, for a minute; a crash says where.

    A shell sets the limit: Python of our own between fork and exec (`preexec_fn`) may crash, since
    this process has threads."""
    limited = ["sh", "-c", f'ulimit -v {mib << 10} && exec "$@"', "sh", *RUN, *arguments]
    environment = {**os.environ, "PYTHONFAULTHANDLER": "1"}
    return subprocess.run(limited, capture_output=True, text=True, timeout=60, env=environment)
