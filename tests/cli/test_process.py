"""What a command sets for its own process, and for no other's."""

from __future__ import annotations

import subprocess
import sys

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
    assert said(run) == "1 50000"
    assert said(run, threads="4") == "4 50000"


def test_who_imports_traceweave_keeps_the_settings_of_the_process() -> None:
    assert said("from traceweave.cli import main; main()") == "None 700"
