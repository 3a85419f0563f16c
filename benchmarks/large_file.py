"""Ingest one large file: write it, load it in a fresh process, report peak memory and sizes.

    python benchmarks/large_file.py TRACE.json[.gz] --gigabytes 5 [--work FOLDER]

TRACE is one rank's Kineto trace in line layout with times relative to its base time. Its events are
repeated, each time later by the length of the trace and with fresh correlation, arrow and sequence
numbers, until the file is as large as asked for. What is written is removed at the end. Peak memory
is the largest resident set of the whole process, Python and its imports included.
"""

from __future__ import annotations

import argparse
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from traceweave.sources.kineto.stream import EventStream

NUMBERS = re.compile(rb'("(?:ts|id|correlation|Sequence number|External id|Ev Idx)": ?)(\d+)')

INGEST = """
import resource, sys, time, traceweave
begin = time.perf_counter()
result = traceweave.ingest([sys.argv[1]], sys.argv[2], jobs=int(sys.argv[3]))
used = resource.getrusage(resource.RUSAGE_SELF)
source = result.sources[0]
print(time.perf_counter() - begin, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)
print(source.events_read, source.events_stored, source.status)
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("trace", type=Path)
    parser.add_argument("--gigabytes", type=float, default=5)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--work", type=Path, help="a folder with room; default: that of the system")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.work) as folder:
        trace, database = Path(folder) / "large.json", Path(folder) / "large.duckdb"
        events = write_large(options.trace, trace, int(options.gigabytes * 1e9))
        report(trace, database, options.jobs, events)


def write_large(trace: Path, target: Path, size: int) -> int:
    """Repeat the events of `trace` until `target` has `size` bytes; return how many times."""
    with trace.open("rb") as file:
        stream = EventStream(file)
        blocks = list(stream.blocks())
    times = [int(us) for block in blocks for us in re.findall(rb'"ts": ?(\d+)', block)]
    length, first = max(times) - min(times) + 1000, True
    copies = 0
    with target.open("wb") as out:
        out.write(stream.head)
        while out.tell() < size:
            for block in blocks:
                out.write(b"" if first else b",")
                out.write(shifted(block, copies, length))
                first = False
            copies += 1
        out.write(stream.tail)
    return copies


def shifted(block: bytes, copy: int, length: int) -> bytes:
    """Return the events of a block later by `copy` lengths, with numbers of their own."""

    def later(match: re.Match[bytes]) -> bytes:
        step = length if match[1].startswith(b'"ts"') else 10_000_000
        return match[1] + b"%d" % (int(match[2]) + copy * step)

    return NUMBERS.sub(later, block)


def report(trace: Path, database: Path, jobs: int, copies: int) -> None:
    """Print what loading the file took."""
    begin = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", INGEST, trace, database, str(jobs)],
        check=True, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    wall = time.perf_counter() - begin
    _, cpu, peak = map(float, done.stdout.splitlines()[0].split())
    size, stored = trace.stat().st_size, database.stat().st_size
    child = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    print("| raw JSON | jobs | wall | CPU | peak RSS | database | events read, stored |")
    print("|---|---|---|---|---|---|---|")
    print(
        f"| {size / 1e9:.2f} GB ({copies} copies) | {jobs} | {wall:.0f} s | {cpu:.0f} s"
        f" | {max(peak, child):.0f} MiB | {stored / 1e6:.0f} MB, {stored / size:.1%}"
        f" | {done.stdout.splitlines()[1]} |"
    )


if __name__ == "__main__":
    main()
