"""Judge matching and clocks against the truth, beside two plain baselines on the same calls.

    python benchmarks/clock_sweep.py [--quick | --apart] [--only TEXT] [--seeds 1]

Every case simulates the collectives of a run whose clocks are known, lets `weave` match and fit
them, and reports the error of aligned time differences between all pairs of ranks at 60 moments of
the run. The baselines get weave's matches and the ends of collectives: the median of the end
differences of two ranks, and the least-squares line through them, chained over groups where two
ranks share none. Goals in us are for the 95th percentile.
"""

from __future__ import annotations

import argparse
import os
import platform
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import duckdb
import numpy as np

import traceweave
from traceweave.store.schema import create_tables
from traceweave.weave import weave
from traceweave_simulator import Config, simulate, write_kineto, write_nsys
from traceweave_simulator.traffic import Traffic, simulate_traffic
from traceweave_simulator.traffic_jobs import (
    DDP,
    FSDP,
    TP_DP,
    TP_DP_ALIKE,
    TWO_STREAMS,
    UNIFORM,
    Job,
    Labels,
    Op,
    pipeline,
    pipeline_dp,
)
from traceweave_simulator.traffic_tables import (
    MOMENTS,
    aligned_times,
    outside_bounds,
    pair_errors,
    split_instances,
    store_traffic,
    true_offsets,
    wrong_matches,
)

A100 = {"ring_wave": 28.0, "ring_bias": 6.0, "ring_shape": "random", "end_jitter": 2.0}
"""End skew p50/p95/max 28/36/45 us at 400 us of transfer, and 6 us of it fixed to the rank."""
MILD = {"ring_wave": 7.0, "ring_bias": 2.0, "ring_shape": "random", "end_jitter": 0.5}
NOSEQ = {"with_seq": False, "cut": 12}


@dataclass(frozen=True)
class Case:
    name: str
    job: Job
    goal: float | None = None


@dataclass(frozen=True)
class Score:
    ranks: int
    calls: int
    matched: float
    wrong: int
    split: int
    errors: np.ndarray
    median: np.ndarray
    line: np.ndarray
    offsets: int
    outside: int
    loose: int
    """Ranks that nothing connects to the reference, and that say so."""
    seconds: float
    """CPU time of matching and fitting, all threads."""


def ring_cases() -> Iterator[Case]:
    """Where the goals count: rings like real ones, all kinds of parallelism."""
    programs: dict[str, tuple[tuple[Op, ...], int, int]] = {
        "ddp": (DDP, 2, 8),
        "fsdp": (FSDP, 4, 8),
        "tp x dp": (TP_DP, 4, 8),
        "pp": (pipeline(4), 4, 4),
    }
    for name, (program, hosts, per_host) in programs.items():
        plain = Job(hosts=hosts, per_host=per_host, program=program, steps=300)
        for ring, settings, goal in (("28/36/45", A100, 4.0), ("8/12", MILD, 2.5)):
            job = replace(plain, **settings)
            yield Case(f"{name}, ring {ring}", job, goal)
            yield Case(f"{name}, ring {ring}, no Seq, cut", replace(job, **NOSEQ), goal)
            if ring == "28/36/45":
                yield Case(f"{name}, {ring}, hosts named", replace(job, with_hosts=True), goal)
                late = replace(job, straggler_ms=100.0)
                yield Case(f"{name}, {ring}, one rank 100 ms late", late, goal)
                yield Case(f"{name}, {ring}, 1 ms step", replace(job, jump_us=1000.0), 12.0)
                yield Case(f"{name}, {ring}, 100 us wander", replace(job, wander_us=100.0), 12.0)


def shape_cases() -> Iterator[Case]:
    """Systematic lags of shapes and laws the fit does not assume; ends scatter 1 to 50 us."""
    plain = Job(hosts=2, per_host=8, steps=300, ring_bias=10.0, end_jitter=3.0)
    for law in ("linear", "root", "saturating", "constant"):
        for shape in ("v", "random"):
            yield Case(f"ddp, {shape} lag, {law}", replace(plain, ring_law=law, ring_shape=shape))
    for jitter in (1.0, 10.0, 50.0):
        yield Case(f"ddp, jitter {jitter:g} us", replace(plain, ring_bias=0.0, end_jitter=jitter))
        yield Case(f"ddp, jitter {jitter:g} us, V lag", replace(plain, end_jitter=jitter))
    yield Case("ddp, wave at random places", replace(plain, **A100, ring_center="random"), 4.0)
    yield Case("ddp, GPUs 3 us apart", replace(plain, **A100, gpu_us=3.0, with_hosts=True))
    yield Case("one op, all alike", replace(plain, program=UNIFORM, with_seq=False))
    noisy = replace(plain, **A100, transfer_noise=0.2, compute_noise=0.2, lost=0.01, **NOSEQ)
    yield Case("ddp, noisy, calls lost", noisy)


def law_cases() -> Iterator[Case]:
    """The ring 28/36/45 with lags that grow otherwise than the fit extrapolates, or not at all."""
    for name, program, hosts in (("ddp", DDP, 2), ("fsdp", FSDP, 4), ("tp x dp", TP_DP, 4)):
        for law in ("root", "constant"):
            for center in ("last", "random"):
                job = Job(hosts=hosts, per_host=8, program=program, steps=300, **A100)
                job = replace(job, ring_law=law, ring_center=center)
                yield Case(f"{name}, ring 28/36/45, {law} law, V at {center}", job, 4.0)


def host_cases() -> Iterator[Case]:
    """Hosts of other numbers and sizes, named and not; several troubles at once."""
    for hosts, per_host in ((1, 8), (8, 1), (8, 8)):
        for named in (False, True):
            job = Job(hosts=hosts, per_host=per_host, program=FSDP, steps=300, **A100)
            name = f"fsdp, {hosts} x {per_host}, hosts {'named' if named else 'not named'}"
            yield Case(name, replace(job, with_hosts=named), 4.0)
    job = Job(hosts=8, per_host=8, program=TP_DP, steps=300, **A100, **NOSEQ)
    job = replace(job, straggler_ms=100.0, one_straggler=False)
    yield Case("tp x dp, 8 x 8, no Seq, cut, any rank 100 ms late", job, 4.0)
    wander = Job(hosts=4, per_host=4, steps=300, wander_us=100.0, **A100, **NOSEQ)
    yield Case("ddp, 4 x 4, no Seq, cut, 100 us wander", wander, 12.0)


def apart_cases() -> Iterator[Case]:
    """Hosts that step and wander each on their own, GPUs with constants, profilers that say less;
    ends lie apart as they do in real runs. Needs the corpus."""
    from real_ends import real_skews

    plain = Job(
        hosts=4, per_host=4, steps=40, offset_s=0.8, drift_ppm=40, gpu_us=2.0, skews=real_skews(),
        hiccup_us=150, with_hosts=True, with_seq=True,
    )  # fmt: skip
    ddp, fsdp, tp_dp, alike, two, pp_dp = (
        tuple(replace(op, compute_us=8 * op.compute_us) for op in program)
        for program in (DDP, FSDP, TP_DP, TP_DP_ALIKE, TWO_STREAMS, pipeline_dp(4))
    )
    plain, tp = replace(plain, program=ddp), replace(plain, program=tp_dp)
    apart = {"step_apart_us": 300.0, "wander_apart_us": 100.0}
    yield Case("apart: steady", plain, 2.5)
    yield Case("apart: hosts step", replace(plain, step_apart_us=300), 3)
    yield Case("apart: hosts wander", replace(plain, wander_apart_us=100), 3)
    yield Case("apart: drift, step and wander", replace(plain, **apart), 5)
    yield Case("apart: the same, tp x dp", replace(tp, **apart), 5)
    yield Case("apart: tp x dp, steady", tp)
    yield Case("apart: tp x dp, hosts step", replace(tp, step_apart_us=300), 5)
    yield Case("apart: tp x dp, hosts wander", replace(tp, wander_apart_us=100), 6)
    yield Case("apart: end skew times 3", replace(plain, skew_scale=3), 10)
    yield Case("apart: a clock per rank", replace(plain, own_clocks=True, gpu_us=0), 2.5)
    half: tuple[Labels, ...] = ("named", "bare")
    yield Case("mixed: nsys with payloads", replace(plain, labels=("named", "communicator")), 2.5)
    yield Case("mixed: nsys without", replace(plain, labels=half), 2.5)
    yield Case("mixed: nsys without, tp x dp", replace(tp, labels=half), 2.5)
    for name, program in (
        ("two streams", two),
        ("fsdp", fsdp),
        ("pp x dp", pp_dp),
        ("tp x dp", tp_dp),
    ):
        yield Case(f"no labels: {name}", replace(plain, program=program, labels="bare"), 2.5)
    old = replace(plain, labels="old", with_hosts=False)
    for name, program in (("ddp", ddp), ("tp x dp", tp_dp), ("alike", alike), ("pp x dp", pp_dp)):
        yield Case(f"old Kineto: {name}", replace(old, program=program), 4)


def size_cases() -> Iterator[Case]:
    for hosts in (1, 2, 4, 8):
        job = Job(hosts=hosts, per_host=8, steps=500, **A100)
        yield Case(f"ddp, {8 * hosts} ranks, 500 steps", job, 4.0)
    for calls in (5_000, 10_000):
        job = Job(hosts=8, per_host=8, steps=calls // 4, **A100)
        yield Case(f"ddp, 64 ranks x {calls:_}".replace("_", " "), job, 4.0)
    yield Case("ddp, 64 ranks x 20 000", Job(hosts=8, per_host=8, steps=5000, **A100), 4.0)
    yield Case(
        "ddp, 64 ranks x 20 000, no Seq", Job(hosts=8, per_host=8, steps=5000, **A100, **NOSEQ), 4.0
    )
    wide = Job(hosts=8, per_host=8, steps=5000, program=TP_DP, **A100)
    yield Case("tp x dp, 64 ranks x 20 000", wide, 4.0)
    for hosts in (16, 32, 64):
        job = Job(hosts=hosts, per_host=8, steps=100, **A100)
        yield Case(f"ddp, {8 * hosts} ranks x 400", job, 4.0)


def quick_cases() -> Iterator[Case]:
    small = Job(hosts=2, per_host=4, steps=150, **A100)
    yield Case("ddp", small, 4.0)
    yield Case("ddp, no Seq, cut", replace(small, **NOSEQ), 4.0)
    yield Case("fsdp, one rank 100 ms late", replace(small, program=FSDP, straggler_ms=100.0), 4.0)
    yield Case("tp x dp, hosts named", replace(small, program=TP_DP, with_hosts=True), 4.0)
    yield Case("pp", replace(small, program=pipeline(2)))
    yield Case("ddp, 1 ms step", replace(small, steps=300, jump_us=1000.0), 12.0)


def score(job: Job) -> Score:
    """Simulate, weave and compare."""
    run = simulate_traffic(job)
    with duckdb.connect() as con:
        create_tables(con)
        store_traffic(con, run)
        begin = time.process_time()
        summary = weave(con)
        seconds = time.process_time() - begin
        tied = np.array([status in ("aligned", "same host") for status in statuses(con)])
        times = aligned_times(con, run)
        median, line = baselines(con, run)
        return Score(
            job.world,
            summary.calls,
            sum(summary.matched.values()) / summary.calls,
            wrong_matches(con, run),
            split_instances(con, run),
            pair_errors(times[tied]),
            pair_errors(median[tied]),
            pair_errors(line[tied]),
            len(true_offsets(con, run)),
            len(outside_bounds(con, run)),
            int((~tied).sum()),
            seconds,
        )


def statuses(con: duckdb.DuckDBPyConnection) -> list[str]:
    rows = con.execute("SELECT rank, status FROM clocks WHERE from_local_ns IS NULL ORDER BY rank")
    return [status for _, status in rows.fetchall()]


def baselines(con: duckdb.DuckDBPyConnection, run: Traffic) -> tuple[np.ndarray, np.ndarray]:
    """What the median of end differences and the line through them make of true moments, us."""
    columns = con.execute(
        "SELECT call_id, collective_id FROM base.matches WHERE collective_id IS NOT NULL"
        " ORDER BY collective_id"
    ).fetchnumpy()
    call, instance = np.asarray(columns["call_id"]), np.asarray(columns["collective_id"])
    rank = run.calls["rank"][call]
    end = (run.calls["start_local_ns"] + run.calls["duration_ns"])[call] - 1_760_000_000_000_000_000
    series = {r: (instance[rank == r], end[rank == r].astype(float)) for r in range(run.job.world)}
    at = np.linspace(0.02, 0.98, MOMENTS) * run.span
    results = np.full((2, run.job.world, MOMENTS), np.nan)
    for kind, answer in enumerate(results):
        models: dict[int, np.ndarray] = {}
        for child, parent in tree(run):
            difference, middle = pair_series(series, child, parent)
            if kind == 0 or len(difference) < 3:
                fit = np.array([0.0, np.median(difference)])
            else:
                fit = np.polyfit(middle - run.middle, difference, 1)
            models[child] = np.array([*fit, parent])
        for r in range(run.job.world):
            local, node = run.local(r, at), r
            while node in models:
                slope, offset, parent = models[node]
                local = local + offset + slope * (local - run.middle)
                node = int(parent)
            answer[r] = (local - at) / 1e3 if node == 0 else np.nan
    return results[0], results[1]


def pair_series(series, child: int, parent: int) -> tuple[np.ndarray, np.ndarray]:  # type: ignore[no-untyped-def]
    """Differences of ends, parent less child, and when on the child's clock."""
    _, i, j = np.intersect1d(series[child][0], series[parent][0], return_indices=True)
    mine, theirs = series[child][1][i], series[parent][1][j]
    return theirs - mine, mine


def tree(run: Traffic) -> list[tuple[int, int]]:
    """(child, parent), breadth first from rank 0 over shared groups."""
    found, edges, queue = {0}, [], [0]
    while queue:
        parent = queue.pop(0)
        for groups in run.groups.values():
            for group in groups[(groups == parent).any(axis=1)]:
                for child in map(int, group):
                    if child not in found:
                        found.add(child)
                        queue.append(child)
                        edges.append((child, parent))
    return edges


HEADER = (
    "| case | ranks | calls | error p50 | p95 | max | median p95 | line p95 | goal | outside bounds"
    " | wrong | matched | not connected | CPU s |"
)


def row(case: Case, found: Score) -> str:
    p50, p95, most = np.nanpercentile(found.errors, [50, 95, 100])
    median = np.nanpercentile(found.median, 95)
    line = np.nanpercentile(found.line, 95)
    goal = "" if case.goal is None else f"{case.goal:g} " + ("yes" if p95 < case.goal else "NO")
    better = "" if p95 <= min(median, line) + 0.1 else " (!)"
    return (
        f"| {case.name} | {found.ranks} | {found.calls:,} | {p50:.2f} | {p95:.2f}{better} "
        f"| {most:.2f} | {median:.2f} | {line:.2f} | {goal} | {found.outside} of {found.offsets} "
        f"| {found.wrong + found.split} | {100 * found.matched:.1f} % | {found.loose} "
        f"| {found.seconds:.1f} |"
    )


def through_files() -> Iterator[str]:
    """Whole traces of 4 ranks on 2 hosts, written, ingested, and compared with their clocks."""
    yield "| files | parallelism | error p50 | p95 | max | status |"
    yield "| --- | --- | ---: | ---: | ---: | --- |"
    for parallelism in ("ddp", "fsdp", "tp", "pp"):
        config = Config(
            ranks=4, hosts=2, steps=12, parallelism=parallelism, clock_offset_ns=1_000_000_000,
            clock_drift_ppm=50.0, end_jitter_ns=5_000, ring_bias_ns=10_000,
        )  # fmt: skip
        for form in ("torch-2.12", "torch-2.0", "nsys"):
            run = simulate(config)
            with tempfile.TemporaryDirectory() as folder:
                if form == "nsys":
                    write_nsys(run, Path(folder) / "traces")
                else:
                    write_kineto(run, Path(folder) / "traces", layout=form)
                traceweave.ingest(Path(folder) / "traces", Path(folder) / "run.duckdb")
                with traceweave.open(Path(folder) / "run.duckdb") as woven:
                    yield file_row(woven, config, f"{form} | {parallelism}")


def file_row(woven: traceweave.Run, config: Config, name: str) -> str:
    clocks = woven.sql("SELECT * FROM clocks ORDER BY rank, from_local_ns NULLS FIRST")
    first = woven.sql("SELECT min(start_local_ns) AS t FROM gpu_ops WHERE rank = 0").t[0]
    last = woven.sql("SELECT max(start_local_ns) AS t FROM gpu_ops WHERE rank = 0").t[0]
    elapsed = np.linspace(0, int(last - first), MOMENTS).astype(np.int64)
    times = []
    for rank, clock in enumerate(config.rank_clocks()):
        local = clock.local(elapsed, config.start_ns)
        mine = clocks[clocks["rank"] == rank].iloc[0]
        moved = mine.offset_ns + mine.drift_ppm * 1e-6 * (local - mine.reference_local_ns)
        times.append((local - config.start_ns - elapsed + moved) / 1e3)
    p50, p95, most = np.percentile(pair_errors(np.array(times)), [50, 95, 100])
    states = ", ".join(dict.fromkeys(clocks.status))
    return f"| {name} | {p50:.2f} | {p95:.2f} | {most:.2f} | {states} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="six small cases, a few seconds")
    parser.add_argument("--apart", action="store_true", help="clocks and labels of the worst sort")
    parser.add_argument("--only", default="", help="only cases with this text in their name")
    parser.add_argument("--seeds", type=int, default=1, help="how often, each with another seed")
    options = parser.parse_args()
    print(f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}\n")
    print(HEADER)
    print("| --- |" + " ---: |" * 13)
    everything = (ring_cases, shape_cases, law_cases, host_cases, size_cases)
    groups = (quick_cases,) if options.quick else (apart_cases,) if options.apart else everything
    for case in (case for group in groups for case in group()):
        if options.only in case.name:
            for seed in range(options.seeds):
                print(row(case, score(replace(case.job, seed=seed))), flush=True)
    if groups is everything and not options.only:
        print()
        for line in through_files():
            print(line, flush=True)


if __name__ == "__main__":
    main()
