"""The collectives of a training job alone: on true time, then as the profilers of ranks with known
clocks would have recorded them.

Much lighter than whole traces, so that clocks can be judged on millions of calls:

    run = simulate_traffic(Job(hosts=8, per_host=8, program=TP_DP, steps=1000))
    run.calls["start_local_ns"]
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from traceweave_simulator import ring
from traceweave_simulator.traffic_clocks import Clocks, draw_clocks
from traceweave_simulator.traffic_jobs import Job, Op

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

EPOCH = 1_760_000_000_000_000_000
"""UTC epoch ns of the run's start."""


@dataclass
class Traffic:
    """Calls as the ranks' own clocks show them, and what was true."""

    job: Job
    calls: dict[str, Ints]
    """Per call: rank, start_local_ns, duration_ns, seq, step, op (position in the program), group
    (number among those of its kind), truth (the instance) and column (place in the group)."""
    clocks: Clocks
    span: float
    groups: dict[str, Ints] = field(default_factory=dict)
    """Per kind of group: a row of ranks per group."""

    @property
    def middle(self) -> float:
        """True time of the middle of the run, ns since EPOCH."""
        return self.clocks.middle

    def local(self, rank: int, true_ns: Floats) -> Floats:
        """Return the rank's own clock (ns since EPOCH) at true times (ns since EPOCH)."""
        return self.clocks.local(rank, true_ns)


def groups_of(job: Job, kind: str) -> Ints:
    """Return the groups of one kind, a row of ranks each; of a pipeline's, sender before
    receiver."""
    grid = np.arange(job.world).reshape(job.hosts, job.per_host)
    if kind == "world":
        return grid.reshape(1, -1)
    if kind == "tp":
        return grid
    if kind == "dp":
        blocks = grid.reshape(job.stages or 1, -1, job.per_host)
        return np.moveaxis(blocks, 1, 2).reshape(-1, blocks.shape[1])
    columns = columns_of(job)
    stage = int(kind[2:].lstrip("-"))
    pair = columns[:, stage : stage + 2]
    return pair[:, ::-1] if kind.startswith("pp-") else pair


def columns_of(job: Job) -> Ints:
    """Return the ranks of every pipeline, a row each, in the order of its stages."""
    return np.arange(job.world).reshape(job.stages or job.hosts, -1).T


def simulate_traffic(job: Job) -> Traffic:
    """Run the job: every rank computes, then joins; a collective ends everywhere shortly after its
    last start.
    """
    rng = np.random.default_rng(job.seed)
    groups = {op.group: groups_of(job, op.group) for op in job.program}
    bias = {
        kind: np.stack([ring.systematic(job.ring_shape, g.shape[1], rng) for _ in g])
        for kind, g in groups.items()
    }
    rows = list(_run(job, groups, bias, rng))
    calls = {name: np.concatenate([row[name] for row in rows]) for name in rows[0]}
    return _observe(job, calls, groups, rng)


def _run(
    job: Job, groups: dict[str, Ints], bias: dict[str, Floats], rng: np.random.Generator
) -> Iterator[dict[str, npt.NDArray[np.generic]]]:
    """Every step's calls in true time, us."""
    ready = rng.uniform(0, 200, job.world)
    counts = dict.fromkeys(groups, 0)
    lazy = int(rng.integers(job.world))
    instance = 0
    for step in range(job.steps):
        stretch = 1 + 0.1 * rng.standard_normal()
        delayed = int(rng.integers(len(job.program))) if step % 20 == 10 else -1
        for number, op in enumerate(job.program):
            group = groups[op.group]
            noise = 1 + job.compute_noise * rng.standard_normal(job.world)
            start = ready + np.maximum(op.compute_us * stretch * noise, 5.0)
            if job.hiccup_us:
                late = rng.random(job.world) < 0.25
                start = start + late * rng.exponential(job.hiccup_us, job.world)
            if number == delayed and job.straggler_ms:
                rank = lazy if job.one_straggler else int(rng.integers(job.world))
                start[rank] += job.straggler_ms * 1e3
            end = _ends(job, op, start[group], bias[op.group], rng)
            counts[op.group] += 1
            count, size = group.shape
            yield {
                "rank": group.ravel(),
                "start": start[group].ravel(),
                "end": end.ravel(),
                "truth": np.repeat(instance + np.arange(count), size),
                "seq": np.full(group.size, counts[op.group]),
                "step": np.full(group.size, step),
                "op": np.full(group.size, number),
                "group": np.repeat(np.arange(count), size),
                "column": np.tile(np.arange(size), count),
            }
            ready[group] = end
            instance += count


def _ends(job: Job, op: Op, start: Floats, bias: Floats, rng: np.random.Generator) -> Floats:
    """When each member of each group is done, us."""
    count, size = start.shape
    if job.skews is not None:
        skew = job.skew_scale * _drawn(job.skews, start.shape, rng)
        transfer = op.transfer_us * np.exp(job.transfer_noise * rng.standard_normal(count))
        return np.asarray((start.max(axis=1) + transfer)[:, None] + skew)
    center = start.argmax(axis=1) if job.ring_center == "last" else rng.integers(0, size, count)
    scale = ring.grow(job.ring_law, op.transfer_us)
    lag = scale * job.ring_bias * bias
    if job.ring_wave:
        height = scale * ring.wave_heights(job.ring_wave, count, rng)
        lag = lag + height[:, None] * ring.wave(np.asarray(center, np.int64), size)
    transfer = op.transfer_us * np.exp(job.transfer_noise * rng.standard_normal(count))
    jitter = np.abs(rng.normal(0, job.end_jitter, start.shape))
    return np.asarray((start.max(axis=1) + transfer)[:, None] + lag + jitter)


def _drawn(skews: Floats, shape: tuple[int, ...], rng: np.random.Generator) -> Floats:
    """Skews for `shape` ends: rows side by side until all members have one; nobody ends before the
    transfer is done."""
    count, size = shape
    rows = -(-size // skews.shape[1])
    drawn = skews[rng.integers(0, len(skews), (count, rows))].reshape(count, -1)[:, :size]
    return np.asarray(drawn - drawn.min(axis=1, keepdims=True))


_TRUE = ("start", "end")
"""What no profiler sees."""


def _observe(
    job: Job,
    calls: dict[str, npt.NDArray[np.generic]],
    groups: dict[str, Ints],
    rng: np.random.Generator,
) -> Traffic:
    """What the profilers write: local clocks, cut windows, lost events."""
    span = float(np.asarray(calls["end"], dtype=np.float64).max() * 1e3)
    run = Traffic(job, {}, draw_clocks(job, span, rng), span, groups)
    order = np.lexsort((calls["start"], calls["rank"]))
    borders = np.searchsorted(calls["rank"][order], np.arange(job.world + 1))
    parts: list[dict[str, Ints]] = []
    for rank in range(job.world):
        low, high = (int(x) for x in rng.integers(0, job.cut + 1, 2))
        whole = order[borders[rank] : borders[rank + 1]]
        mine = whole[low : max(low, len(whole) - high)]
        mine = mine[rng.random(len(mine)) >= job.lost]
        start, end = (
            np.rint(run.local(rank, np.asarray(calls[edge][mine], np.float64) * 1e3)).astype(
                np.int64
            )
            for edge in ("start", "end")
        )
        kept = {n: np.asarray(v[mine], np.int64) for n, v in calls.items() if n not in _TRUE}
        if job.labels_of(rank) == "old":
            start, end = start // 1000 * 1000, end // 1000 * 1000
        times = {"start_local_ns": start + EPOCH, "duration_ns": np.maximum(end - start, 1)}
        parts.append(kept | times)
    run.calls = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    return run
