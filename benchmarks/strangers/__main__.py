"""Make jobs that the matching and the clocks were not written beside, and score what they find.

    python -m benchmarks.strangers SEED [PATTERN] [--keep FOLDER]

PATTERN is part of a job's name. Needs the corpus, whose ends the simulated ones lie apart as.
"""

from __future__ import annotations

import argparse
import fnmatch
import resource
import tempfile
import warnings
from contextlib import ExitStack
from pathlib import Path

import numpy as np

import traceweave

from . import kineto, nsys
from .clocks import draw_clocks
from .jobs import JOBS, Job
from .recording import Recording, record
from .score import score
from .skews import Skews
from .timeline import World


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("seed", type=int)
    parser.add_argument("pattern", nargs="?", default="")
    parser.add_argument("--keep", type=Path, help="folder that keeps traces and databases")
    args = parser.parse_args()
    skews = Skews()
    for job in JOBS:
        if fnmatch.fnmatch(job.name, f"*{args.pattern}*"):
            with ExitStack() as stack:
                folder = stack.enter_context(tempfile.TemporaryDirectory())
                if args.keep:
                    folder = str(args.keep / job.name.replace("/", "_").replace(" ", "_"))
                print(f"{job.name:26} {run(job, args.seed, Path(folder), skews)}", flush=True)


def run(job: Job, seed: int, folder: Path, skews: Skews) -> str:
    """Make one job, ingest it, and say how well that went."""
    recordings, members = make(job, seed, skews)
    traces = folder / "traces"
    traces.mkdir(parents=True, exist_ok=True)
    for recording in recordings:
        write(recording, traces)
    (folder / "run.duckdb").unlink(missing_ok=True)
    before = _cpu()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            traceweave.ingest(traces, folder / "run.duckdb")
        except Exception as error:
            return f"failed: {type(error).__name__}: {error}"
    noted = {f"{w.category.__name__}: {w.message}" for w in caught}
    seconds = _cpu() - before
    found = score(str(folder / "run.duckdb"), recordings, members)
    return f"{found}, {seconds:.0f} s" + "".join(f"\n    {text}" for text in sorted(noted))


def make(job: Job, seed: int, skews: Skews) -> tuple[list[Recording], dict[int, int]]:
    """Let a job run; return what its profilers saw, and how many ranks each operation has."""
    rng = np.random.default_rng([seed, *job.name.encode()])
    programs = [job.workload(job, rank) for rank in range(job.ranks)]
    hosts = [job.host(rank) for rank in range(job.ranks)]
    world = World(programs, hosts, job.network, job.habits, skews, rng)
    tracks = world.run()
    length = 1e3 * max(track.kernels[-1].end for track in tracks)
    clocks = draw_clocks(job.weather, hosts, length, rng)
    recordings = [record(job, rank, tracks[rank], clocks[rank], rng) for rank in range(job.ranks)]
    return recordings, {s.number: len(s.members) for s in world.shared.values()}


def write(recording: Recording, folder: Path) -> None:
    """Write one rank's file."""
    path = recording.write_to(folder)
    path.unlink(missing_ok=True)
    writer = nsys.Writer if path.suffix == ".sqlite" else kineto.Writer
    writer(recording).write(path)


def _cpu() -> float:
    return sum(sum(resource.getrusage(who)[:2])
               for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))  # fmt: skip


if __name__ == "__main__":
    main()
