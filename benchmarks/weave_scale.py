"""What weaving many ranks takes: CPU seconds and memory of every stage, and how far clocks are off.

    python benchmarks/weave_scale.py FOLDER [--ranks 128,512,1024,8192] [--calls 500] [--bare]

Makes runs of tensor, pipeline and data parallelism (hosts of 8 ranks, 8 stages, 50 calls a step and
rank, two of them of all ranks) in FOLDER without any trace: what weaving reads, on known clocks,
with ends that lie apart as those of real runs do (needs the corpus; `--bare`: as a ring's). Each is
woven in a process of its own, from a copy. Errors are those of aligned time differences between
pairs of ranks, of at most 512 ranks, at 60 moments of the run, in us.
"""

from __future__ import annotations

import argparse
import pickle
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import numpy as np

import traceweave.weave as weaving
from traceweave.clocks import answer
from traceweave.store.schema import create_tables
from traceweave_simulator.traffic import Traffic, simulate_traffic
from traceweave_simulator.traffic_jobs import Job, three_axes
from traceweave_simulator.traffic_tables import (
    aligned_times,
    outside_bounds,
    pair_errors,
    split_instances,
    store_traffic,
    wrong_matches,
)

PER_STEP = 50
STAGES = 8
LISTED = 30
"""Members that Kineto lists of a group."""
COMPARED = 512
"""Ranks whose clocks are compared pair by pair."""
PARTS = ("read_calls", "read_labels", "find_groups", "match_calls", "build_blocks", "fit_clocks",
         "find_violations", "write_groups", "write_matches")  # fmt: skip


def job_of(ranks: int, calls: int, bare: bool) -> Job:
    """Return the job of so many ranks and calls a rank."""
    job = Job(
        hosts=ranks // 8, per_host=8, stages=STAGES, program=three_axes(STAGES),
        steps=calls // PER_STEP, offset_s=0.8, drift_ppm=40, gpu_us=2.0, hiccup_us=150,
        with_hosts=True, listed=LISTED, ring_wave=7.0, ring_bias=2.0, ring_shape="random",
        end_jitter=2.0, transfer_noise=0.03,
    )  # fmt: skip
    if bare:
        return job
    from real_ends import real_skews

    return replace(job, skews=real_skews())


def make(job: Job, database: Path) -> None:
    """Simulate and store what weaving reads; beside it, what was true."""
    run = simulate_traffic(job)
    part = database.with_suffix(".part")
    part.unlink(missing_ok=True)
    with duckdb.connect(part) as con:
        create_tables(con)
        store_traffic(con, run)
    run.calls = {"truth": run.calls["truth"]}
    with database.with_suffix(".truth").open("wb") as file:
        pickle.dump(run, file)
    part.rename(database)


def spent() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def peak_gib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def metered(name: str, part: Callable[..., Any]) -> Callable[..., Any]:
    """The part, which also prints what it has cost."""

    def measured(*arguments: object, **named: object) -> object:
        before, begin = spent(), time.perf_counter()
        result = part(*arguments, **named)
        passed = time.perf_counter() - begin
        print(f"| {name} | {passed:.1f} | {spent() - before:.1f} | {peak_gib():.2f} |", flush=True)
        return result

    return measured


def weave_metered(database: Path) -> None:
    """Weave in this process; print what each part costs, then the errors."""
    with database.with_suffix(".truth").open("rb") as file:
        run: Traffic = pickle.load(file)
    for name in PARTS:
        module = answer if name == "fit_clocks" else weaving  # which imports it when it is called
        setattr(module, name, metered(name, getattr(module, name)))
    print("| part | s | CPU s | peak GiB so far |\n|---|---:|---:|---:|")
    with duckdb.connect(database) as con:
        summary = metered("all", weaving.weave)(con)
        errors = pair_errors(aligned_times(con, run)[:: -(-run.job.world // COMPARED)])
        p50, p95, most = np.nanpercentile(errors, [50, 95, 100])
        outside = len(outside_bounds(con, run))
        wrong = wrong_matches(con, run) + split_instances(con, run)
        matched = sum(summary.matched.values()) / summary.calls
    print(
        f"{run.job.world} ranks, {summary.calls:,} calls: error p50 {p50:.2f}, p95 {p95:.2f}, "
        f"max {most:.2f} us; {outside} outside bounds, {wrong} wrong, {100 * matched:.1f} % matched"
        f", {summary.clocks}\n",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="where the runs are made and kept")
    parser.add_argument("--ranks", default="128,512,1024,8192")
    parser.add_argument("--calls", type=int, default=500, help="per rank")
    parser.add_argument("--bare", action="store_true", help="ends as a ring's, without the corpus")
    parser.add_argument("--weave", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.weave:
        weave_metered(options.folder)
        return
    options.folder.mkdir(parents=True, exist_ok=True)
    for ranks in map(int, options.ranks.split(",")):
        database = options.folder / f"{ranks}x{options.calls}{'-bare' * options.bare}.duckdb"
        if not database.exists():
            make(job_of(ranks, options.calls, options.bare), database)
        copy = database.with_suffix(".woven")
        shutil.copy(database, copy)
        subprocess.run([sys.executable, __file__, str(copy), "--weave"], check=True)


if __name__ == "__main__":
    main()
