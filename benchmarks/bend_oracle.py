"""What clocks that bend could be known to at best: a fit that knows how they bend, not how far.

    python benchmarks/bend_oracle.py [--seeds 5]

The jobs of clock_sweep.py --apart are woven as if their clocks were straight. From what their ends
differ by between hosts a least-squares fit then finds, with the weights of weave, an offset and a
drift, the height of every step, whose moment it is told, and the amplitudes of every wander, whose
periods it is told. The true values are 0; what it finds is what the scatter of ends is mistaken
for. Prints the 95th percentile of the errors of both together, us, as clock_sweep.py does.
"""

from __future__ import annotations

import argparse
from dataclasses import replace

import duckdb
import numpy as np

from clock_sweep import apart_cases
from traceweave.clocks.bending import moments_of
from traceweave.clocks.joint_bends import Rows, _of_clusters, _weights
from traceweave.clocks.matrices import build_blocks
from traceweave.clocks.piece import Options, Piece, fit_piece
from traceweave.clocks.tables import read_ranks
from traceweave.matching.calls import read_calls
from traceweave.matching.tables import read_instances
from traceweave.store.schema import create_tables
from traceweave.weave import weave
from traceweave_simulator.traffic import Traffic, simulate_traffic
from traceweave_simulator.traffic_clocks import Clocks
from traceweave_simulator.traffic_jobs import Job
from traceweave_simulator.traffic_tables import MOMENTS, aligned_times, pair_errors, store_traffic

RIDGE = 1e-7
"""Share of what ends say of an unknown that holds it to 0: what all hosts do at once shows
nowhere."""


def best(job: Job) -> float:
    """The 95th percentile of the errors of the oracle, us."""
    bent = simulate_traffic(job).clocks
    run = simulate_traffic(replace(job, step_apart_us=0, wander_apart_us=0))
    with duckdb.connect() as con:
        create_tables(con)
        store_traffic(con, run)
        weave(con)
        times = aligned_times(con, run)
        ranks, calls = read_ranks(con), read_calls(con)
        numbers = np.array([info.rank for info in ranks])
        blocks = build_blocks(calls, read_instances(con, calls), numbers)
        piece = fit_piece(ranks, blocks, Options(calls.origin_ns, None, True))
    at = np.linspace(0.02, 0.98, MOMENTS) * run.span
    mistaken = _mistaken(piece, bent, run, at) / 1e3
    return float(np.percentile(pair_errors(times - mistaken[numbers // job.per_host]), 95))


def _mistaken(piece: Piece, bent: Clocks, run: Traffic, at: np.ndarray) -> np.ndarray:
    """What bends each host seems to have at some true moments, ns: a row per host."""
    host = np.arange(run.job.world) // run.job.per_host
    hosts = np.arange(run.job.hosts)
    sizes = [len(_shapes(bent, h, run, at)) for h in hosts]
    place = np.r_[0, np.cumsum(sizes)]
    matrix, right = np.zeros((place[-1],) * 2), np.zeros(place[-1])
    for block, rest, moment in zip(piece.blocks, piece.fit.rests, moments_of(piece), strict=True):
        clusters, mine = np.unique(host[block.ranks], return_inverse=True)
        if len(clusters) < 2:
            continue
        sort = np.round(2 * np.log2(np.maximum(block.transfer, 1e3))).astype(np.int64)
        ends = Rows(clusters, moment, rest, mine, sort)
        means, weight = _of_clusters(ends, _weights(ends, rest))
        shapes = [_shapes(bent, h, run, moment - moment.min() + run.span * 0.01) for h in clusters]
        for k in np.flatnonzero(weight.sum(axis=1) > 0):
            own = weight[k]
            metric = np.diag(own) - np.outer(own, own) / own.sum()
            rows = np.zeros((len(clusters), place[-1]))
            for column, h in enumerate(clusters):
                rows[column, place[h] : place[h + 1]] = shapes[column][:, k]
            matrix += rows.T @ metric @ rows
            right += rows.T @ metric @ means[k]
    matrix += RIDGE * np.trace(matrix) / len(matrix) * np.eye(len(matrix))
    found = np.linalg.solve(matrix, right)
    return np.array([found[place[h] : place[h + 1]] @ _shapes(bent, h, run, at) for h in hosts])


def _shapes(bent: Clocks, host: int, run: Traffic, at: np.ndarray) -> np.ndarray:
    """What a host's clock may do: stay off, drift, step when it does, wander as fast as it does."""
    since = at - run.middle
    rows = [np.ones_like(at), since / run.span]
    if bent.step[host]:
        rows.append((since > bent.step_at[host]).astype(np.float64))
    if bent.height[host].any():
        for period in bent.period[host]:
            turns = 2 * np.pi * since / period
            rows += [np.sin(turns), np.cos(turns)]
    return np.array(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=5)
    options = parser.parse_args()
    for case in apart_cases():
        if case.job.step_apart_us or case.job.wander_apart_us:
            found = [best(replace(case.job, seed=seed)) for seed in range(options.seeds)]
            print(f"{case.name}: {min(found):.2f} to {max(found):.2f}", flush=True)


if __name__ == "__main__":
    main()
