"""Count wrong matches in random pipelines that say nothing of who sends to whom.

    python benchmarks/hostile_pipelines.py [--jobs 25] [--seed 3]

Stages, replicas, order of messages, computation between them, clocks and what profilers say are
drawn at random; in some jobs calls are lost, or those of one rank or two. Needs the corpus, whose
ends the simulated ones lie apart as.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import replace

import duckdb
import numpy as np

from real_ends import real_skews
from traceweave.store.schema import create_tables
from traceweave.weave import weave
from traceweave_simulator.traffic import simulate_traffic
from traceweave_simulator.traffic_jobs import Job, Labels, pipeline, pipeline_dp
from traceweave_simulator.traffic_tables import split_instances, store_traffic, wrong_matches

KINDS = 11
"""Numbers from which a kind of job is drawn; the last two are pipelines, others are drawn anew."""
MOST = 16
"""Ranks."""
LABELS: tuple[Labels, ...] = ("bare", "old", "stream", "bare")


def jobs(seed: int, skews: np.ndarray) -> Iterator[tuple[Job, list[int]]]:
    """Jobs, and the ranks of each whose calls were not recorded."""
    rng = np.random.default_rng(seed)
    while True:
        kind, job = draw(rng, skews)
        if kind < KINDS - 2 or job.world > MOST:
            continue
        if rng.random() < 0.4:
            order = rng.permutation(len(job.program))
            job = replace(job, program=tuple(job.program[n] for n in order))
        missing = rng.choice(job.world, int(rng.choice([0, 0, 1, 2])), replace=False)
        yield job, missing.tolist()


def draw(rng: np.random.Generator, skews: np.ndarray) -> tuple[int, Job]:
    """One job of any kind; those that are no pipelines have the program of one all the same."""
    kind = int(rng.choice(KINDS))
    hosts, per_host = int(rng.choice([2, 3, 4])), int(rng.choice([2, 4, 8]))
    program = pipeline(hosts) if kind == KINDS - 2 else pipeline_dp(hosts)
    slower = float(rng.choice([1, 4, 10]))
    return kind, Job(
        hosts=hosts,
        per_host=per_host,
        program=tuple(replace(op, compute_us=slower * op.compute_us) for op in program),
        steps=int(rng.choice([10, 20, 40])),
        offset_s=0.8,
        drift_ppm=40,
        gpu_us=2,
        skews=skews if rng.random() < 0.7 else None,
        end_jitter=5,
        hiccup_us=float(rng.choice([0, 0, 50, 150, 500])),
        compute_noise=float(rng.choice([0.002, 0.01, 0.05])),
        labels=LABELS[rng.choice(4)] if rng.random() < 0.8 else ("named", "bare"),
        with_hosts=bool(rng.random() < 0.5),
        cut=int(rng.choice([0, 0, 5])),
        lost=float(rng.choice([0, 0, 0.01])),
        step_apart_us=float(rng.choice([0, 0, 300])),
        wander_apart_us=float(rng.choice([0, 0, 100])),
        stream_per_pair=bool(rng.random() < 0.5),
        seed=int(rng.integers(1e6)),
    )


def judge(job: Job, missing: list[int]) -> np.ndarray:
    """Calls, matched calls, and instances that join what is not one or are only part of one."""
    run = simulate_traffic(job)
    with duckdb.connect() as con:
        create_tables(con)
        store_traffic(con, run)
        for table in ("collective_calls", "gpu_ops"):
            con.execute(f"DELETE FROM base.{table} WHERE list_contains(?, rank)", [missing])
        summary = weave(con)
        matched = sum(summary.matched.values())
        return np.array(
            [summary.calls, matched, wrong_matches(con, run), split_instances(con, run)]
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--jobs", type=int, default=25)
    parser.add_argument("--seed", type=int, default=3)
    options = parser.parse_args()
    total = np.zeros(4, dtype=np.int64)
    drawn = jobs(options.seed, real_skews())
    for number, (job, missing) in zip(range(options.jobs), drawn, strict=False):
        found = judge(job, missing)
        total += found
        if found[2:].any():
            print(f"job {number}: {found[2]} wrong, {found[3]} split of {found[1]}", flush=True)
    print("{} calls, {} matched, {} wrong, {} split".format(*total))


if __name__ == "__main__":
    main()
