"""One run as a file, as a folder, and as a folder on Dask's workers: what each takes, and whether
all hold and answer the same.

    python -m benchmarks.sharded TRACES...       each a folder of one run, such as one of the corpus
    python -m benchmarks.sharded --ranks 64      a simulated one
    python -m benchmarks.sharded --ranks 64 256 1024 --ways "2 workers"

CPU is that of all processes, and of it, that of the process that weaves; memory is the largest of
the process and of a worker. `--answers` compares all analyses beside all tables, of every way with
the file, if there is one.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.sharded.equal import differing_answers, differing_tables

import traceweave
from traceweave_simulator import Config, simulate, write_kineto

WAYS = {
    "file": ("run.duckdb", None),
    "folder": ("run.tw", None),
    "1 worker": ("dask1.tw", 1),
    "2 workers": ("dask2.tw", 2),
}

INGEST = """
import json, re, resource, sys
import traceweave
if __name__ == "__main__":
    traces, output, workers = sys.argv[1:]
    asked = {"dask": "local", "jobs": int(workers)} if workers != "None" else {}
    result = traceweave.ingest(traces, output, **asked)
    status = open("/proc/self/status").read()
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    print(json.dumps({
        "own_cpu_s": used[0].ru_utime + used[0].ru_stime,
        "cpu_s": sum(u.ru_utime + u.ru_stime for u in used),
        # not ru_maxrss, which begins with that of the process that started this one
        "memory_mib": int(re.search(r"VmHWM:\\s+(\\d+)", status)[1]) >> 10,
        "worker_mib": used[1].ru_maxrss >> 10,
        "size_mb": result.size_bytes / 1e6,
        "ranks": len({r for s in result.sources for r in s.ranks}),
    }))
"""


def measure(traces: Path, ways: list[str], answers: bool) -> None:
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "ingest_once.py"
        script.write_text(INGEST)
        for way in ways:
            name, workers = WAYS[way]
            output = Path(folder) / name
            command = [sys.executable, str(script), str(traces), str(output), str(workers)]
            said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
            found = json.loads(said)
            file = Path(folder) / "run.duckdb"
            differ = compare(file, output, answers) if way != "file" and file.exists() else ""
            print(
                f"{traces.name:24} {way:10} {found['cpu_s']:7.1f} CPU s"
                f" {found['cpu_s'] / found['ranks']:6.3f} per rank"
                f" {found['own_cpu_s'] / found['ranks']:6.3f} own {found['memory_mib']:6} MiB"
                f" {found['worker_mib']:6} MiB per worker {found['size_mb']:8.2f} MB  {differ}",
                flush=True,
            )


def compare(one: Path, other: Path, answers: bool) -> str:
    with traceweave.open(one) as a, traceweave.open(other) as b:
        found = differing_tables(a, b) + (differing_answers(a, b) if answers else [])
    return f"DIFFERS: {', '.join(found)}" if found else "equal"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("traces", nargs="*", type=Path)
    parser.add_argument("--ranks", type=int, nargs="+", help="simulate runs of this many")
    parser.add_argument("--ways", nargs="+", choices=[*WAYS], default=[*WAYS])
    parser.add_argument("--answers", action="store_true")
    options = parser.parse_args()
    for traces in options.traces:
        measure(traces, options.ways, options.answers)
    for ranks in options.ranks or ():
        with tempfile.TemporaryDirectory() as folder:
            traces = Path(folder) / f"simulated_{ranks}"
            write_kineto(simulate(Config(ranks=ranks, steps=4, layers=4)), traces)
            measure(traces, options.ways, options.answers)


if __name__ == "__main__":
    main()
