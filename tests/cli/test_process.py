"""What a command sets for its own process, and for no other's."""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.marks import first_at_once, nightly

REPORT = "print(os.environ.get('OPENBLAS_NUM_THREADS'), gc.get_threshold()[0])"


def said(script: str, threads: str | None = None) -> str:
    environment = {} if threads is None else {"OPENBLAS_NUM_THREADS": threads}
    done = subprocess.run(
        [sys.executable, "-c", f"import gc, os, sys; sys.argv[1:] = ['version'];{script};{REPORT}"],
        env={"PYTHONPATH": ":".join(sys.path), **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.splitlines()[-1]


def test_a_command_has_one_blas_thread_unless_the_user_says_otherwise() -> None:
    run = "from traceweave.__main__ import run; run()"
    assert said(run) == "1 100000"
    assert said(run, threads="4") == "4 100000"


def test_who_imports_traceweave_keeps_the_settings_of_the_process() -> None:
    assert said("from traceweave.cli import main; main()") == "None 700"


PRESSED = """
import os, signal, time
os.kill(os.getpid(), signal.SIGINT)
time.sleep(0.05)
whole = True
"""

INTERRUPTED = """
import signal, time, traceweave.__main__, traceweave.cli

def command():
    try:
        import pressed
        time.sleep(10)
    except KeyboardInterrupt:
        print("interrupted", pressed.whole)

# as a shell's background job, these tests may ignore it already
signal.signal(signal.SIGINT, signal.SIG_IGN if {ignored} else signal.default_int_handler)
if {ignored}:
    time.sleep = lambda seconds: None
traceweave.cli.main = command
traceweave.__main__.run()
print("ended")
"""


COMMAND = """
import os, signal, sys, threading, time
import traceweave.__main__, traceweave.cli
{before}
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.argv[1:] = {arguments}
sys.exit(traceweave.__main__.run())
"""

SEND = "threading.Timer({after}, os.kill, (os.getpid(), signal.{name})).start()"


def ended(before: str, *arguments: str | Path) -> tuple[int, str]:
    """Return the exit code of a command in a process of its own, and what it says on stderr."""
    script = COMMAND.format(before=before, arguments=[str(argument) for argument in arguments])
    done = subprocess.run(
        [sys.executable, "-c", script], env={**os.environ, "PYTHONPATH": ":".join(sys.path)},
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    return done.returncode, done.stderr


@first_at_once()
@pytest.mark.parametrize(("name", "code"), [("SIGINT", 130), ("SIGTERM", 143)])
def test_a_signal_ends_a_query_while_its_rows_are_read(
    fixtures: Path, database_of: Callable[..., Path], name: str, code: int
) -> None:
    database = database_of(fixtures / "ddp_gloo_4ranks")
    endless = (
        "SELECT a.range FROM range(10000000) AS a, range(10000000) AS b WHERE a.range + b.range = 1"
    )
    said = ended(SEND.format(after=1.5, name=name), "query", database, endless)
    assert said == (code, "traceweave: error: interrupted\n")


LOST = """
import click, duckdb
from duckdb.sqltypes import BIGINT

def press(x):
    os.kill(os.getpid(), signal.SIGINT)
    return time.sleep(0.2) or x

def command():
    with duckdb.connect() as con:
        con.create_function("press", press, [BIGINT], BIGINT)
        try:
            con.execute("SELECT press(1)").fetchall()
        except Exception:
            pass  # as where it becomes a note
    time.sleep(30)

traceweave.cli.main.__globals__["cli"] = click.Command("x", callback=command)
"""


@nightly
def test_ctrl_c_that_is_lost_in_a_callback_is_heard_again() -> None:
    began = time.monotonic()
    assert ended(LOST) == (130, "traceweave: error: interrupted\n")
    assert time.monotonic() - began < 20


STOPPED = """
def stop(*_):
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(30)

import traceweave.weave
sys.modules["traceweave.weave"].weave = stop
"""


@nightly
@pytest.mark.parametrize("target", ["run.duckdb", "run.tw"])
def test_sigterm_leaves_no_draft(fixtures: Path, tmp_path: Path, target: str) -> None:
    trace = fixtures / "ddp_gloo_4ranks" / "rank0.json.gz"
    assert ended(STOPPED, "ingest", "--no-verdict", trace, "-o", tmp_path / target, "-q") == (
        143,
        "traceweave: error: interrupted\n",
    )
    assert list(tmp_path.iterdir()) == []


@nightly
def test_closed_streams_are_neither_a_traceback_nor_another_exit_code(
    fixtures: Path, database_of: Callable[..., Path], tmp_path: Path
) -> None:
    database = database_of(fixtures / "ddp_gloo_4ranks")

    def shell(line: str) -> tuple[int, str, str]:
        line = line.replace("TW", f"{sys.executable} -m traceweave").replace("DB", str(database))
        done = subprocess.run(
            ["bash", "-c", line], cwd=tmp_path, capture_output=True, text=True,
            env={**os.environ, "PYTHONPATH": ":".join(sys.path)},
        )  # fmt: skip
        return done.returncode, done.stdout, done.stderr

    code, out, err = shell("TW info DB >&-")
    assert (code, out) == (3, "")
    assert err == "traceweave: error: the output: Bad file descriptor\n"
    assert shell("TW info nowhere.duckdb 2>&-") == (3, "", "")
    assert shell("TW nothing 2>&-") == (2, "", "")
    assert shell("TW info nowhere.duckdb 2> >(exec true); sleep 0.2")[0] == 0
    assert shell("(TW query DB 'FROM ranks' -o r.csv; echo $?) 2> >(exec 0<&-)")[:2] == (0, "0\n")
    assert shell("TW query DB 'FROM ranks' -o s.csv >&- 2>&- <&-") == (0, "", "")
    assert (tmp_path / "s.csv").read_text() == (tmp_path / "r.csv").read_text() != ""


@nightly
def test_a_locale_without_unicode_names_files_all_the_same(fixtures: Path, tmp_path: Path) -> None:
    trace = fixtures / "ddp_gloo_4ranks" / "rank0.json.gz"
    environment = {**os.environ, "PYTHONPATH": ":".join(sys.path), "LC_ALL": "C"}
    environment |= {"PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}

    for arguments in (
        ["ingest", "--no-verdict", trace, "-o", "läuft.duckdb", "-q"],
        ["query", "läuft.duckdb", "FROM ranks", "-o", "ränge.csv"],
        ["export", "läuft.duckdb", "--to", "parquet", "-o", "tabellen für alle"],
    ):
        done = subprocess.run(
            [sys.executable, "-m", "traceweave", *map(str, arguments)],
            cwd=tmp_path, env=environment, capture_output=True, text=True,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
    assert {path.name for path in tmp_path.iterdir()} == {
        "läuft.duckdb", "ränge.csv", "tabellen für alle"
    }  # fmt: skip


@pytest.mark.parametrize(("ignored", "told"), [(False, "interrupted True\n"), (True, "")])
def test_ctrl_c_waits_for_an_import_and_is_heard_after_it(
    tmp_path: Path, ignored: bool, told: str
) -> None:
    (tmp_path / "pressed.py").write_text(PRESSED)
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED.format(ignored=ignored)],
        env={"PYTHONPATH": ":".join([*sys.path, str(tmp_path)])}, capture_output=True, text=True,
        check=True,
    )  # fmt: skip
    assert (done.stdout, done.stderr) == (f"{told}ended\n", "")


@nightly
def test_commands_do_without_pandas(
    fixtures: Path, database_of: Callable[..., Path], tmp_path: Path
) -> None:
    database = database_of(fixtures / "ddp_gloo_straggler")
    before = (
        "import atexit; atexit.register(lambda: print('pandas' in sys.modules, file=sys.stderr))"
    )

    for arguments in (
        ["analyze", "findings", database],
        ["compare", database, database, "-o", tmp_path / "pair.html"],
        ["what-if", database, "kind=launch times=0"],
    ):
        code, told = ended(before, *arguments)
        assert (code, told.splitlines()[-1]) == (0, "False")
