"""CPU time of what a user types, one process each, with and without the answers that ingest keeps.

    python benchmarks/latency.py RUN [RUN ...]

RUN is a folder of traces. Prints a Markdown table: CPU seconds (user and system, the median of
five) of every command on a database that `ingest --no-verdict` wrote and on one of `ingest`; wall
time beside them, in brackets. The floor is `query "SELECT 1"`: Python, DuckDB and opening the file.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

TIMES = 3
COMMANDS = {
    "query": ["query", "{}", "SELECT 1"],
    "health": ["analyze", "health", "{}"],
    "findings": ["analyze", "findings", "{}"],
    "fixes": ["analyze", "fixes", "{}"],
    "breakdown": ["analyze", "breakdown", "{}"],
    "stragglers": ["analyze", "stragglers", "{}"],
    "report": ["report", "{}", "-o", "page.html"],
    "compare": ["compare", "{}", "{}", "-o", "pair.html"],
    "what-if": ["what-if", "{}", "kind=launch times=0"],
    "info": ["info", "{}"],
}


def spent(arguments: list[str]) -> tuple[float, float]:
    """Run traceweave; return its CPU and wall seconds."""
    began = time.monotonic()
    child = os.fork()
    if child == 0:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        os.dup2(null, 2)
        os.execv(sys.executable, [sys.executable, "-m", "traceweave", *arguments])
    _, status, usage = os.wait4(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0, arguments
    return usage.ru_utime + usage.ru_stime, time.monotonic() - began


def typical(arguments: list[str]) -> str:
    """Return the median CPU seconds, and wall seconds in brackets."""
    cpu, wall = zip(*(spent(arguments) for _ in range(TIMES)), strict=True)
    return f"{statistics.median(cpu):.2f} ({statistics.median(wall):.2f})"


def main() -> None:
    """Print the table."""
    print("| run | command | `--no-verdict` | kept |\n|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        runs = [Path(run).resolve() for run in sys.argv[1:]]
        os.chdir(folder)
        for run in runs:
            for name, flag in (("bare", "--no-verdict"), ("kept", "--verdict")):
                spent(["ingest", flag, str(run), "-o", f"{name}.duckdb"])
            bare = typical(["ingest", "--no-verdict", str(run), "-o", "again.duckdb"])
            kept = typical(["ingest", str(run), "-o", "again.duckdb"])
            print(f"| {run.name} | ingest | {bare} | {kept} |", flush=True)
            for command, arguments in COMMANDS.items():
                shown = [
                    typical([part.replace("{}", f"{name}.duckdb") for part in arguments])
                    for name in ("bare", "kept")
                ]
                print(f"| {run.name} | {command} | {' | '.join(shown)} |", flush=True)


if __name__ == "__main__":
    main()
