"""What a command sets for its own process, and for no other's."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

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


@pytest.mark.parametrize(("ignored", "told"), [(False, "interrupted True\n"), (True, "")])
def test_ctrl_c_waits_for_an_import_and_is_heard_after_it(
    tmp_path: Path, ignored: bool, told: str
) -> None:
    (tmp_path / "pressed.py").write_text(PRESSED)

    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED.format(ignored=ignored)],
        env={"PYTHONPATH": ":".join([*sys.path, str(tmp_path)])},
        capture_output=True,
        text=True,
        check=True,
    )

    assert (done.stdout, done.stderr) == (f"{told}ended\n", "")
