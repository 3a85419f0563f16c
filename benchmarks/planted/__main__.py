"""Hold findings and predictions against recordings of one job with a defect in it and without.

    python -m benchmarks.planted [--gpu] [--times 5] [--keep FOLDER] [DEFECT ...]

Seven defects (job.py) are planted into jobs of two ranks with gloo, or twenty-two (gpu_job.py) into
jobs of two ranks that share a GPU, each recorded several times with it, and without it before and
after, in one process. Asked of the one with it: does a finding name the rank, the operator and the
steps; does its scenario gain what the mean of the other two gained, within the uncertainty that the
answer states; and is no wrong advice given? Prints a Markdown table, in which the real gain has
half the difference of the two without a defect: what the machine leaves open. Wants two cores that
nobody else uses; kept recordings it asks again.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import traceweave

JOB, GPU_JOB = (Path(__file__).with_name(name) for name in ("job.py", "gpu_job.py"))
MS = 1e6


@dataclass(frozen=True)
class Defect:
    rules: str
    """Of the finding, as a regular expression."""
    named: str
    """What its evidence has to say, as a regular expression."""
    wrong: str
    """Findings that may not be as costly as that one: rule and advice, as a regular expression."""
    scenario: str | None = None
    """What mends it, where that is not the finding's."""


DEFECTS = {
    "slow_rank": Defect(
        "straggler",
        r"Rank 1 .*(forward|aten::matmul|aten::mm).*step 9 on",
        "data_bound|launch_bound|.*loader",
    ),
    "late_loader": Defect(
        "one_off_stall|data_bound",
        r"every 4th step .*waits for data.*DataLoader",
        "straggler|imbalance|launch_bound",
    ),
    "tiny_buckets": Defect(
        "small_collectives", r"all_reduce 96 times per step, 16.4 kB", ".*[Ss]maller buckets \\("
    ),
    "metric_read": Defect(
        "read_sum",
        r"all_reduce \(4 B\) at once in every step, 8 times, by aten::item",
        "straggler|.*[Bb]uckets",
    ),
    "uneven_work": Defect(
        "straggler|uneven_work",
        r"Rank 0 .*aten::matmul 18 times.*in (every|4. of 48) step",
        "data_bound|launch_bound|.*loader",
    ),
    "no_prefetch": Defect(
        "poor_overlap", r"Compute hides 0\.\d% of the transfers", "data_bound", "prefetch=1"
    ),
    "shallow_prefetch": Defect(
        "communication_bound|poor_overlap",
        r"transfers? that (no compute hides|could overlap)",
        "data_bound",
        "prefetch=2",
    ),
}

SPIN = r"spin_kernel\(long\)"
GPU_DEFECTS = {
    "slow_rank": Defect(
        "straggler",
        f"Rank 1 runs .*{SPIN} 24 times.* from step 9 on",
        DEFECTS["slow_rank"].wrong,
    ),
    "late_loader": replace(
        DEFECTS["late_loader"], named="every 4th step .*waits for data.*DataLoader"
    ),
    "late_batches": Defect("straggler", "Rank 1 waits for data", "launch_bound|imbalance"),
    "one_bucket": Defect("poor_overlap", r"hides 0\.\d%", "data_bound", "bucket_mb=4"),
    "tiny_buckets": Defect(
        "small_collectives", "all_reduce 64 times per step, 65.5 kB", ".*[Ss]maller buckets \\("
    ),
    "metric_read": DEFECTS["metric_read"],
    "uneven_work": Defect(
        "straggler|uneven_work",
        f"Rank 0 runs .*{SPIN} 18 times.* in every step",
        DEFECTS["uneven_work"].wrong,
    ),
    "no_prefetch": DEFECTS["no_prefetch"],
    "inline_reduce": Defect("poor_overlap", "same stream as compute", "data_bound", "stream=own"),
    "item_sync": Defect("sync_bound", "after the host waited for it", "straggler|launch_bound"),
    "launches": Defect("launch_bound", r"1,0\d\d gaps|1,000 gaps", "sync_bound|data_bound"),
    "full_queue": Defect(
        "compute_bound", "Compute runs for 9", "launch_bound", "kind=compute times=0.5"
    ),
    "pageable_copy": Defect("pageable_copies", "50.3 MB at", "sync_bound|launch_bound"),
    "no_cache": Defect("allocator", "allocates or frees its memory", "launch_bound|sync_bound"),
    "host_pause": Defect(
        "straggler|unsteady_steps",
        "rank 0|Rank 0",
        "launch_bound",
        "rank=0 kind=launch like=median",
    ),
    "root_loads": Defect("straggler", "Rank 0 is in 'load_batch'", "launch_bound|.*[Bb]uckets"),
    "root_scatters": Defect(
        "straggler", f"Rank 0 runs .*{SPIN} 20 times", "launch_bound|sync_bound"
    ),
    "root_gathers": Defect("straggler", "Rank 0 is in 'metrics'", "data_bound|imbalance"),
    "root_waits": Defect(
        "straggler",
        f"Rank 1 runs .*{SPIN} 20 times",
        "launch_bound|sync_bound",
        "rank=1 kind=compute like=median",
    ),
    "host_work": Defect("launch_bound|sync_bound", "augment", "straggler|data_bound"),
    "garbage": Defect("straggler|one_off_stall|unsteady_steps", "[Rr]ank 1", "launch_bound"),
    "barriers": Defect("read_sum|sync_bound|barriers", "barrier", "straggler|.*[Bb]uckets"),
}


@dataclass(frozen=True)
class Outcome:
    step_ns: float
    gain_ns: float | None
    """Predicted."""
    uncertainty_ns: float | None
    real_ns: float
    """Against the mean of the recordings without the defect."""
    open_ns: float
    """Half of what these two differ by."""
    named: bool
    silent: bool

    @property
    def holds(self) -> bool:
        """Whether the real gain is within the uncertainty of the prediction."""
        known = self.gain_ns is not None and self.uncertainty_ns is not None
        return known and abs(self.gain_ns - self.real_ns) <= self.uncertainty_ns


def record(job: Path, *arguments: str) -> None:
    """Record jobs with defects, and without them before and after."""
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", str(job)]
    subprocess.run([*command, *arguments], check=True, capture_output=True)


def judge(defect: Defect, out: Path) -> Outcome:
    """Ask the recording with a defect what it would take without, and the others what they take."""
    steps = {}
    for which in ("before", "with", "after"):
        database = out / f"{which}.duckdb"
        traceweave.ingest([out / which], database)
        with traceweave.open(database) as run:
            steps[which] = float(run.what_if("kind=compute times=1")["measured_step_ns"][0])
    with traceweave.open(out / "with.duckdb") as run:
        findings = run.findings().to_dict("records")
        found = next((row for row in findings if re.fullmatch(defect.rules, row["rule"])), None)
        answer: Mapping[str, Any] = {}
        said = found["scenario"] if found else None
        if scenario := defect.scenario or (said if isinstance(said, str) else None):
            answer = run.what_if(scenario).iloc[0].to_dict()
    cost = found["cost_ns"] if found and found["cost_ns"] is not None else 0.0
    return Outcome(
        steps["with"],
        answer.get("gain_ns"),
        answer.get("uncertainty_ns"),
        steps["with"] - (steps["before"] + steps["after"]) / 2,
        abs(steps["before"] - steps["after"]) / 2,
        bool(found and re.search(defect.named, found["evidence"])),
        not any(_is_wrong(row, defect, cost) for row in findings),
    )


def _is_wrong(row: Mapping[str, Any], defect: Defect, cost: float) -> bool:
    said = re.match(defect.wrong, row["rule"]) or re.match(defect.wrong, str(row["advice"]))
    return bool(said) and (row["cost_ns"] or 0.0) >= cost


def rows(names: list[str], times: int, folder: Path) -> Iterator[tuple[str, Outcome]]:
    for number in range(times):
        for name in names:
            out = folder / f"{name}{number}"
            if not (out / "after").exists():
                record(JOB, "--defect", name, "--out", str(out))
            yield name, judge(DEFECTS[name], out)


def gpu_rows(names: list[str], times: int, folder: Path) -> Iterator[tuple[str, Outcome]]:
    for number in range(times):
        root = folder / str(number)
        if missing := [name for name in names if not (root / name / "after").exists()]:
            record(GPU_JOB, "--out", str(root), *missing)
        for name in names:
            yield name, judge(GPU_DEFECTS[name], root / name)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("defects", nargs="*", metavar="DEFECT")
    parser.add_argument("--gpu", action="store_true", help="ranks that share a GPU (NCCL)")
    parser.add_argument("--times", type=int, default=5)
    parser.add_argument("--keep", type=Path, help="where recordings are kept, and asked again")
    given = parser.parse_args()
    print("| defect | step | predicted gain | real gain | within | named | no wrong advice |")
    print("|---|---:|---:|---:|---|---|---|")
    outcomes = []
    with nullcontext(given.keep) if given.keep else tempfile.TemporaryDirectory() as folder:
        make, known = (gpu_rows, GPU_DEFECTS) if given.gpu else (rows, DEFECTS)
        for name, of in make(given.defects or [*known], given.times, Path(folder)):
            outcomes.append(of)
            said = "none" if of.gain_ns is None else f"{of.gain_ns / MS:.1f}"
            most = "unknown" if of.uncertainty_ns is None else f"{of.uncertainty_ns / MS:.1f}"
            print(
                f"| {name} | {of.step_ns / MS:.1f} ms | {said} ± {most} |"
                f" {of.real_ns / MS:.1f} ± {of.open_ns / MS:.1f} |"
                f" {_word(of.holds)} | {_word(of.named)} | {_word(of.silent)} |",
                flush=True,
            )
    count = len(outcomes)
    narrow = [of for of in outcomes if of.uncertainty_ns and of.uncertainty_ns < 0.2 * of.real_ns]
    print(
        f"\n{count} recordings: {sum(of.holds for of in outcomes)} gains within the uncertainty,"
        f" which is below a fifth of the gain in {len(narrow)};"
        f" {sum(of.named for of in outcomes)} named, {sum(of.silent for of in outcomes)} without"
        " wrong advice"
    )


def _word(yes: bool) -> str:
    return "yes" if yes else "no"


if __name__ == "__main__":
    main()
