"""Hold findings and predictions against recordings of one job with a defect in it and without.

    python -m benchmarks.planted [--times 5] [--keep FOLDER] [DEFECT ...]

Seven defects (job.py) are planted into jobs of two ranks with gloo, each recorded several times
with it, and without it before and after, in one process. Asked of the one with it: does a finding
name the rank, the operator and the steps; does its scenario gain what the mean of the other two
gained, within the uncertainty that the answer states; and is no wrong advice given? Prints a
Markdown table, in which the real gain has half the difference of the two without a defect: what
the machine leaves open. Wants two cores that nobody else uses; kept recordings it asks again.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import traceweave

JOB = Path(__file__).with_name("job.py")
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


def record(name: str, out: Path) -> None:
    """Record a job with a defect, and without it before and after."""
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", str(JOB)]
    command += ["--defect", name, "--out", str(out)]
    subprocess.run(command, check=True, capture_output=True)


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
    cost = float(found["cost_ns"]) if found else 0.0
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
    return bool(said) and not row["cost_ns"] < cost


def rows(names: list[str], times: int, folder: Path) -> Iterator[tuple[str, Outcome]]:
    for number in range(times):
        for name in names:
            out = folder / f"{name}{number}"
            if not (out / "after").exists():
                record(name, out)
            yield name, judge(DEFECTS[name], out)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("defects", nargs="*", default=[*DEFECTS], metavar="DEFECT")
    parser.add_argument("--times", type=int, default=5)
    parser.add_argument("--keep", type=Path, help="where recordings are kept, and asked again")
    given = parser.parse_args()
    print("| defect | step | predicted gain | real gain | within | named | no wrong advice |")
    print("|---|---:|---:|---:|---|---|---|")
    outcomes = []
    with nullcontext(given.keep) if given.keep else tempfile.TemporaryDirectory() as folder:
        for name, of in rows(given.defects, given.times, Path(folder)):
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
