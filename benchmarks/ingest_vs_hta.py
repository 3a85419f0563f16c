"""Time `traceweave.ingest` against HolisticTraceAnalysis' load, side by side on the same files.

    python benchmarks/ingest_vs_hta.py FOLDER... [--runs 5] [--hta-python PYTHON]

Each FOLDER holds the traces of one run. The two tools take turns, each in a fresh process that
reports the time from after its imports to having everything loaded: HTA a DataFrame per rank in
memory, with the columns it keeps; traceweave the finished database on disk, with every event and
every args key, linked, nested, matched over ranks and on one clock. The ratio is taken pair by
pair, so it holds when the machine's speed drifts. On a machine that is not idle the ratio of CPU
times (all processes and threads of the tool, imports excluded) says more than that of wall times.
HTA 0.5.0 crashes on pandas 3, so it gets an environment of its own in .cache/hta, made on the first
run.
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

HTA = ("HolisticTraceAnalysis==0.5.0", "pandas<3")
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folders", nargs="+", type=Path, metavar="FOLDER")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument(
        "--hta-python", type=Path, help="a Python that has HTA 0.5.0 and pandas < 3"
    )
    options = parser.parse_args()
    hta_python = options.hta_python or prepare_hta()
    print(f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}\n")
    print(
        "| traces | files | raw JSON | HTA 0.5.0 | traceweave | ratio of wall times, median"
        " (min to max) | ratio of CPU times |"
    )
    print("|---|---|---|---|---|---|---|")
    for folder in options.folders:
        print(compare(folder, options.runs, hta_python), flush=True)


def compare(folder: Path, runs: int, hta_python: Path) -> str:
    """Return one row of the table: `runs` pairs after one of each that does not count."""
    pairs = [
        (
            seconds(hta_python, LOAD_WITH_HTA, folder),
            seconds(Path(sys.executable), LOAD_WITH_TRACEWEAVE, folder),
        )
        for _ in range(runs + 1)
    ][1:]
    files = [path for path in folder.rglob("*") if path.name.endswith((".json", ".json.gz"))]
    size = sum(raw_size(path) for path in files)
    theirs, ours = (
        [statistics.median(tool[n] for tool in column) for n in (0, 1)]
        for column in zip(*pairs, strict=True)
    )
    return (
        f"| {folder.name} | {len(files)} | {size / 1e6:.1f} MB"
        f" | {theirs[0]:.2f} s, CPU {theirs[1]:.2f} s"
        f" | {ours[0]:.2f} s, CPU {ours[1]:.2f} s"
        f" | {ratio(pairs, 0)} | {ratio(pairs, 1)} |"
    )


def ratio(pairs: list[tuple[Times, Times]], which: int) -> str:
    """Return HTA's time over traceweave's, pair by pair: median, least and largest."""
    ratios = [theirs[which] / ours[which] for theirs, ours in pairs]
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


def prepare_hta() -> Path:
    """Return a Python that has HTA, making its environment if need be."""
    python = CACHE / "bin" / "python"
    if not python.exists():
        venv.create(CACHE, with_pip=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", *HTA], check=True)
    return python


if __name__ == "__main__":
    main()
