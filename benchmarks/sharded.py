"""One run as a file, as a folder, and as a folder on Dask's workers: what each takes, and whether
all hold and answer the same.

    python -m benchmarks.sharded TRACES...       each a folder of one run, such as one of the corpus
    python -m benchmarks.sharded --ranks 64      a simulated one
    python -m benchmarks.sharded --ranks 64 128 256 512 1024 --ways "2 workers" --plot FILE.svg

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

GPUS_PER_HOST = 8  # each file lists those of its host

WAYS = {
    "file": ("run.duckdb", None),
    "folder": ("run.tw", None),
    "1 worker": ("dask1.tw", 1),
    "2 workers": ("dask2.tw", 2),
}

INGEST = """
import json, re, resource, sys, threading
from pathlib import Path
import traceweave

# not ru_maxrss, which begins with that of the process that started this one
def peak_mib(process):
    return int(re.search(r"VmHWM:\\s+(\\d+)", Path(f"/proc/{process}/status").read_text())[1]) >> 10

def watch(peaks, over):
    while not over.wait(0.2):
        for children in Path("/proc/self/task").glob("*/children"):
            try:
                peaks += [peak_mib(child) for child in children.read_text().split()]
            except (OSError, TypeError):  # it has ended
                pass

if __name__ == "__main__":
    traces, output, workers = sys.argv[1:]
    asked = {"dask": "local", "jobs": int(workers)} if workers != "None" else {}
    peaks, over = [0], threading.Event()
    threading.Thread(target=watch, args=(peaks, over), daemon=True).start()
    result = traceweave.ingest(traces, output, **asked)
    over.set()
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    print(json.dumps({
        "own_cpu_s": used[0].ru_utime + used[0].ru_stime,
        "cpu_s": sum(u.ru_utime + u.ru_stime for u in used),
        "memory_mib": peak_mib("self"),
        "worker_mib": max(peaks),
        "size_mb": result.size_bytes / 1e6,
        "ranks": len({r for s in result.sources for r in s.ranks}),
    }))
"""
Figures = dict[str, float]


def measure(traces: Path, ways: list[str], answers: bool) -> Figures:
    """Measure every way of loading a run, and return the figures of the last."""
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "ingest_once.py"
        script.write_text(INGEST)
        for way in ways:
            name, workers = WAYS[way]
            output = Path(folder) / name
            command = [sys.executable, str(script), str(traces), str(output), str(workers)]
            said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
            found: Figures = json.loads(said)
            file = Path(folder) / "run.duckdb"
            differ = compare(file, output, answers) if way != "file" and file.exists() else ""
            print(
                f"{traces.name:24} {way:10} {found['cpu_s']:7.1f} CPU s"
                f" {found['cpu_s'] / found['ranks']:6.3f} per rank"
                f" {found['own_cpu_s'] / found['ranks']:6.3f} own {found['memory_mib']:6} MiB"
                f" {found['worker_mib']:6} MiB per worker {found['size_mb']:8.2f} MB  {differ}",
                flush=True,
            )
    return found


def plot(runs: list[Figures], path: Path) -> None:
    """Draw CPU per rank and memory of runs over their ranks."""
    import matplotlib.pyplot as plt

    plt.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "sharded"})
    ranks = [run["ranks"] for run in runs]
    figure, (cpu, memory) = plt.subplots(1, 2, figsize=(9, 3.2), layout="constrained")
    per_rank = {"cpu_s": "all processes", "own_cpu_s": "the process that weaves"}
    for name, label in per_rank.items():
        cpu.plot(ranks, [1e3 * run[name] / run["ranks"] for run in runs], "o-", label=label)
    for name, label in {"worker_mib": "a worker", "memory_mib": "the process that weaves"}.items():
        memory.plot(ranks, [run[name] for run in runs], "o-", label=label)
    for axes, title in ((cpu, "CPU per rank, ms"), (memory, "largest resident memory, MiB")):
        axes.set(title=title, xlabel="ranks", xscale="log", ylim=(0, None))
        axes.set_xticks(ranks, [f"{n:.0f}" for n in ranks], minor=False)
        axes.minorticks_off()
        axes.legend()
    figure.savefig(path, metadata={"Date": None})


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
    parser.add_argument("--plot", type=Path, help="draw the simulated runs, of the last way")
    options = parser.parse_args()
    for traces in options.traces:
        measure(traces, options.ways, options.answers)
    simulated = []
    for ranks in options.ranks or ():
        with tempfile.TemporaryDirectory() as folder:
            traces = Path(folder) / f"simulated_{ranks}"
            hosts = max(1, ranks // GPUS_PER_HOST)
            write_kineto(simulate(Config(ranks=ranks, hosts=hosts, steps=4, layers=4)), traces)
            simulated.append(measure(traces, options.ways, options.answers))
    if options.plot:
        plot(simulated, options.plot)


if __name__ == "__main__":
    main()
