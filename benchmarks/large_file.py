"""Ingest large files: write them, load them in a fresh process, report peak memory and sizes.

    python benchmarks/large_file.py TRACE.json[.gz]... --gigabytes 5 [--look] [--work FOLDER]

Each TRACE is one rank's Kineto trace of a run, in line layout with times relative to its base time.
Its events are repeated, each time later by the length of the longest trace and with fresh numbers
of steps, correlations, arrows and sequences, until the file is as large as asked for. What is
written is removed at the end. Peak memory is the largest resident set of the whole process, Python
and its imports included. With --look: also when a first look has been said.
"""

from __future__ import annotations

import argparse
import os
import re
import resource
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from itertools import count
from pathlib import Path

from traceweave.sources.kineto.stream import EventStream

NUMBERS = re.compile(
    rb'("(?:ts|id|correlation|Sequence number|External id|Ev Idx)": ?|ProfilerStep#)(\d+)'
)

INGEST = """
import resource, sys, time
from pathlib import Path
from traceweave.cli.layout import plain
from traceweave.cli.verdict import first_look
from traceweave.ingestion import ingest
begin, looked = time.perf_counter(), []
def look(steps, database):
    first_look(Path("run.duckdb"), lambda line: None, plain, steps, database)
    looked.append(time.perf_counter() - begin)
how = {"first_look": look} if sys.argv[4:] else {}
result = ingest([sys.argv[1]], sys.argv[2], jobs=int(sys.argv[3]), **how)
used = resource.getrusage(resource.RUSAGE_SELF)
print(time.perf_counter() - begin, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024, *looked)
print(*(sum(getattr(s, "events_" + what) for s in result.sources) for what in ("read", "stored")))
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("traces", type=Path, nargs="+", metavar="TRACE")
    parser.add_argument("--gigabytes", type=float, default=5, help="of each file")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--look", action="store_true")
    parser.add_argument("--work", type=Path, help="a folder with room; default: that of the system")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.work) as scratch:
        folder, database = Path(scratch) / "traces", Path(scratch) / "large.duckdb"
        folder.mkdir()
        write_large(options.traces, folder, int(options.gigabytes * 1e9))
        report(folder, database, options.jobs, look=options.look)


def write_large(traces: Sequence[Path], folder: Path, size: int) -> None:
    """Repeat the events of each trace until it has `size` bytes."""
    blocks = {trace: events_of(trace)[1] for trace in traces}
    spans = [list(map(int, re.findall(rb'"ts": ?(\d+)', b"".join(of)))) for of in blocks.values()]
    length = max(max(times) - min(times) for times in spans) + 1000
    for number, (trace, events) in enumerate(blocks.items()):
        head, _, tail = events_of(trace)
        with (folder / f"rank{number}.json").open("wb") as out:
            out.write(head)
            for copy in count():
                for place, block in enumerate(events):
                    out.write(b"," if copy or place else b"")
                    out.write(shifted(block, copy, length))
                if out.tell() >= size:
                    break
            out.write(tail)


def events_of(trace: Path) -> tuple[bytes, list[bytes], bytes]:
    """Return what is before the events, their blocks, and what is after them."""
    with trace.open("rb") as file:
        stream = EventStream(file)
        blocks = list(stream.blocks())
    return stream.head, blocks, stream.tail


def shifted(block: bytes, copy: int, length: int) -> bytes:
    """Return the events of a block later by `copy` lengths, with numbers of their own."""

    def later(match: re.Match[bytes]) -> bytes:
        name = match[1].split(b'"')[-2] if b'"' in match[1] else match[1]
        step = {b"ts": length, b"ProfilerStep#": 1000}.get(name, 10_000_000)
        return match[1] + b"%d" % (int(match[2]) + copy * step)

    return NUMBERS.sub(later, block)


def report(traces: Path, database: Path, jobs: int, *, look: bool) -> None:
    """Print what loading the files took."""
    command = [sys.executable, "-c", INGEST, str(traces), str(database), str(jobs)]
    done = subprocess.run(
        [*command, "look"] if look else command, check=True, stdout=subprocess.PIPE, text=True
    )
    times, counts = done.stdout.splitlines()
    wall, cpu, peak, *looked = (float(time) for time in times.split())
    size, stored = sum(file.stat().st_size for file in traces.iterdir()), database.stat().st_size
    child = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    print(
        "| raw JSON | jobs | first look | wall | CPU | peak RSS | database | events read, stored |"
    )
    print("|---|---|---|---|---|---|---|---|")
    first = f"{looked[0]:.1f} s" if looked else ""
    print(
        f"| {size / 1e9:.2f} GB | {jobs} | {first} | {wall:.1f} s | {cpu:.0f} s"
        f" | {max(peak, child):.0f} MiB | {stored / 1e6:.0f} MB, {stored / size:.1%} | {counts} |"
    )


if __name__ == "__main__":
    main()
