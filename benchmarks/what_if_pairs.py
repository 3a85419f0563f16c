"""Hold what-if against simulated runs that differ by one thing only.

    python benchmarks/what_if_pairs.py [--ranks 8] [--steps 6] [--layers 6] [--waits inferred]

Every pair is a run with something wrong (a slow rank, a late batch, a slow host, a slow group,
slower kernels, a slower network) and the same run without it. The first is asked what it would take
without; the second says what it takes. Waits between streams are recorded in the traces (Kineto's
`cuda_sync` events), or have to be inferred. Prints a Markdown table and the largest errors.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import traceweave
from traceweave_simulator import Config, Gap, simulate, write_kineto

MS = 1_000_000
LOADING_NS = 150_000


@dataclass(frozen=True)
class Pair:
    parallelism: str
    wrong: str
    scenario: str
    bad: Config
    good: Config


def pairs(ranks: int, steps: int, layers: int, recorded: bool) -> Iterator[Pair]:
    plain = Config(
        ranks=ranks,
        steps=steps,
        layers=layers,
        data_loading_ns=LOADING_NS,
        cuda_sync_events=recorded,
    )
    bases = {
        "DDP": plain,
        "FSDP": replace(plain, parallelism="fsdp"),
        "TPxDP": replace(plain, parallelism="tp", group_size=2),
        "PP": replace(plain, parallelism="pp", group_size=4),
    }
    for name, base in bases.items():
        for rank, extra in ((2, 3 * MS), (0, 800_000), (ranks - 1, 6 * MS)):
            bad = replace(base, straggler={rank: extra})
            yield Pair(
                name,
                f"rank {rank} computes {extra / MS:g} ms longer",
                f"rank={rank} kind=compute like=median",
                bad,
                base,
            )
        for rank, extra in ((1, 4 * MS), (3, 9 * MS)):
            bad = replace(base, gaps=(Gap("data_loading", extra, ranks=(rank,)),))
            yield Pair(
                name,
                f"rank {rank} waits {extra / MS:g} ms for data",
                f"rank={rank} kind=data_loading like=median",
                bad,
                base,
            )
        late = replace(base, gaps=(Gap("data_loading", 5 * MS),))
        factor = LOADING_NS / (5 * MS + LOADING_NS)
        yield Pair(
            name, "all wait 5 ms for data", f"kind=data_loading times={factor:.6f}", late, base
        )
        bad = replace(base, slow_host={3: 150_000})
        yield Pair(
            name, "rank 3 launches 150 us slower", "rank=3 kind=launch like=median", bad, base
        )
        yield Pair(
            name,
            "kernels take 1.5 times as long",
            f"kind=compute times={1 / 1.5:.9f}",
            replace(base, compute_scale=1.5),
            base,
        )
        yield Pair(
            name,
            "a third of the bandwidth",
            f"gbps={base.beta_gbps}",
            replace(base, beta_gbps=base.beta_gbps / 3),
            base,
        )
        if name != "PP":
            shared = replace(base, shared_stream=True)
            yield Pair(name, "collectives share the stream of compute", "stream=own", shared, base)
        if name in ("TPxDP", "PP"):
            slow = replace(base, slow_link={1: 4.0})
            yield Pair(
                name, "links of rank 1 four times slower", "kind=transfer like=fastest", slow, base
            )


def step_of(folder: Path, config: Config, scenario: str | None = None) -> tuple[float, float]:
    """Return mean step and, given a scenario, what it is predicted to take, ns."""
    path = folder / "run.duckdb"
    write_kineto(simulate(config), folder / "traces")
    traceweave.ingest([folder / "traces"], path)
    shutil.rmtree(folder / "traces")
    with traceweave.open(path) as run:
        if scenario is None:
            step = float(run.what_if("kind=compute times=1")["measured_step_ns"][0])
            return step, step
        row = run.what_if(scenario).iloc[0]
        return float(row["measured_step_ns"]), float(row["predicted_step_ns"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", type=int, default=8)
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--waits", choices=("recorded", "inferred"), default="recorded")
    given = parser.parse_args()
    print("| run | what is wrong | step | predicted | true | error | gain, error |")
    print("|---|---|---:|---:|---:|---:|---:|")
    steps, gains, missed = [], [], []
    good: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as name:
        recorded = given.waits == "recorded"
        for pair in pairs(given.ranks, given.steps, given.layers, recorded):
            key = repr(pair.good)
            if key not in good:
                good[key], _ = step_of(Path(name), pair.good)
            true = good[key]
            bad, predicted = step_of(Path(name), pair.bad, pair.scenario)
            step = predicted / true - 1
            gain = (bad - predicted) / (bad - true) - 1
            steps.append(abs(step))
            gains.append(abs(gain))
            if abs(gain) > (0.03 if recorded else 0.05) and abs(true - predicted) > MS / 10:
                missed.append(pair)
            print(
                f"| {pair.parallelism} | {pair.wrong} | {bad / 1e6:.2f} | {predicted / 1e6:.2f} |"
                f" {true / 1e6:.2f} | {step:+.2%} | {gain:+.1%} |",
                flush=True,
            )
    print(
        f"\n{len(steps)} pairs, waits {given.waits}: step at most {max(steps):.2%} off,"
        f" {sum(steps) / len(steps):.2%} on average; gain at most {max(gains):.1%} off,"
        f" {sum(gains) / len(gains):.1%} on average"
    )
    sys.exit(f"{len(missed)} gains are too far off" if missed or max(steps) > 0.01 else 0)


if __name__ == "__main__":
    main()
