"""Time `traceweave.ingest` against HolisticTraceAnalysis' load and a floor, side by side.

    python benchmarks/ingest_vs_hta.py FOLDER... [--runs 5] [--hta-python PYTHON]

Each FOLDER holds the traces of one run. The two tools take turns, each in a fresh process that
reports the time from after its imports to having everything loaded: HTA a DataFrame per rank in
memory, with the columns it keeps; traceweave the finished database on disk, with every event and
every args key, linked, nested, matched over ranks and on one clock. The ratio is taken pair by
pair, so it holds when the machine's speed drifts. On a machine that is not idle the ratio of CPU
times (all processes and threads of the tool, imports excluded) says more than that of wall times.
The floor is what no loader can do without: unpacking the files with isal and parsing the bytes with
simdjson, which makes no objects of them, on one core.
HTA 0.5.0 crashes on pandas 3, so it gets an environment of its own in .cache/hta, made on the first
run, with simdjson in it.
"""

from __future__ import annotations

import argparse
import gzip
import os
import platform
import statistics
import subprocess
import sys
import venv
from pathlib import Path

PEERS = ("HolisticTraceAnalysis==0.5.0", "pandas<3", "isal", "pysimdjson==7.0.2")
Times = tuple[float, float]
"""Wall and CPU seconds."""

CACHE = Path(__file__).resolve().parent.parent / ".cache" / "hta"

CPU_SECONDS = """
import resource
def cpu_seconds():
    used = [resource.getrusage(w) for w in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(u.ru_utime + u.ru_stime for u in used)
"""

LOAD_WITH_HTA = """
import logging, sys, time
logging.disable(logging.CRITICAL)
from hta.common.trace import Trace
begin, cpu = time.perf_counter(), cpu_seconds()
trace = Trace(trace_dir=sys.argv[1])
trace.parse_traces()
print(time.perf_counter() - begin, cpu_seconds() - cpu)
"""

LOAD_WITH_TRACEWEAVE = """
import sys, tempfile, time
from pathlib import Path
import duckdb, pandas, scipy.signal, traceweave
from traceweave import ingestion, weave
with tempfile.TemporaryDirectory() as folder:
    begin, cpu = time.perf_counter(), cpu_seconds()
    result = traceweave.ingest([sys.argv[1]], Path(folder) / "run.duckdb")
    print(time.perf_counter() - begin, cpu_seconds() - cpu)
"""


UNPACK_AND_PARSE = """
import sys, time
from pathlib import Path
import simdjson
from isal import igzip
begin, cpu = time.perf_counter(), cpu_seconds()
for path in Path(sys.argv[1]).rglob("*"):
    if path.name.endswith((".json", ".json.gz")):
        packed = path.open("rb").read(2) == bytes.fromhex("1f8b")
        simdjson.Parser().parse(igzip.open(path).read() if packed else path.read_bytes())
print(time.perf_counter() - begin, cpu_seconds() - cpu)
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folders", nargs="+", type=Path, metavar="FOLDER")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument(
        "--hta-python", type=Path, help="a Python with HTA 0.5.0, pandas < 3, isal and pysimdjson"
    )
    options = parser.parse_args()
    hta_python = options.hta_python or prepare_peers()
    print(f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}\n")
    print(
        "| traces | files | raw JSON | HTA 0.5.0 | traceweave | ratio of wall times, median"
        " (min to max) | ratio of CPU times | floor: CPU | traceweave's CPU to the floor's |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    for folder in options.folders:
        print(compare(folder, options.runs, hta_python), flush=True)


def compare(folder: Path, runs: int, hta_python: Path) -> str:
    """Return one row of the table: `runs` turns after one of each that does not count."""
    turns = [
        (
            seconds(hta_python, LOAD_WITH_HTA, folder),
            seconds(Path(sys.executable), LOAD_WITH_TRACEWEAVE, folder),
            seconds(hta_python, UNPACK_AND_PARSE, folder),
        )
        for _ in range(runs + 1)
    ][1:]
    files = [path for path in folder.rglob("*") if path.name.endswith((".json", ".json.gz"))]
    size = sum(raw_size(path) for path in files)
    theirs, ours, floor = (
        [statistics.median(tool[n] for tool in column) for n in (0, 1)]
        for column in zip(*turns, strict=True)
    )
    return (
        f"| {folder.name} | {len(files)} | {size / 1e6:.1f} MB"
        f" | {theirs[0]:.2f} s, CPU {theirs[1]:.2f} s"
        f" | {ours[0]:.2f} s, CPU {ours[1]:.2f} s"
        f" | {ratio(turns, 0)} | {ratio(turns, 1)} | {floor[1]:.2f} s | {ours[1] / floor[1]:.1f} |"
    )


def ratio(turns: list[tuple[Times, Times, Times]], which: int) -> str:
    """Return HTA's time over traceweave's, turn by turn: median, least and largest."""
    ratios = [theirs[which] / ours[which] for theirs, ours, _ in turns]
    return f"{statistics.median(ratios):.1f} ({min(ratios):.1f} to {max(ratios):.1f})"


def seconds(python: Path, script: str, folder: Path) -> Times:
    """Run `script` on `folder` in a fresh process and return the times that it reports."""
    done = subprocess.run(
        [python, "-c", CPU_SECONDS + script, folder], check=True, capture_output=True, text=True
    )
    wall, cpu = done.stdout.strip().splitlines()[-1].split()
    return float(wall), float(cpu)


def raw_size(path: Path) -> int:
    """Return the number of bytes of JSON in a file, unpacked."""
    with open(path, "rb") as file:
        packed = file.read(2) == b"\x1f\x8b"
    if not packed:
        return path.stat().st_size
    with gzip.open(path) as file:
        return sum(len(piece) for piece in iter(lambda: file.read(1 << 24), b""))


def prepare_peers() -> Path:
    """Return a Python that has HTA and simdjson, making its environment if need be."""
    python = CACHE / "bin" / "python"
    if not python.exists():
        venv.create(CACHE, with_pip=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", *PEERS], check=True)
    return python


if __name__ == "__main__":
    main()
