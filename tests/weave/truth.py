"""Runs with known truth: collectives of a training job on true time, then seen through every rank's
own clock.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import duckdb
import numpy as np
import pandas as pd

EPOCH = 1_760_000_000_000_000_000


@dataclass(frozen=True)
class Op:
    """One collective of a step: over which sort of group, what, how large, how long it takes."""

    group: str
    op: str
    bytes: int
    transfer_us: float
    compute_us: float = 500.0


DDP = (
    Op("world", "all_reduce", 26_214_400, 400.0, 1500.0),
    Op("world", "all_reduce", 26_214_400, 400.0, 900.0),
    Op("world", "all_reduce", 4_194_304, 90.0, 700.0),
    Op("world", "all_gather", 4096, 25.0, 2500.0),
)
TP_DP = (
    Op("tp", "all_reduce", 8_388_608, 120.0, 300.0),
    Op("tp", "all_reduce", 8_388_608, 120.0, 400.0),
    Op("dp", "reduce_scatter", 67_108_864, 900.0, 800.0),
    Op("dp", "all_gather", 67_108_864, 850.0, 300.0),
)
UNIFORM = (Op("world", "all_reduce", 1_048_576, 60.0, 1000.0),)


@dataclass
class Job:
    """The parameters of a simulated run; times in us unless named otherwise."""

    hosts: int = 2
    per_host: int = 4
    steps: int = 50
    program: tuple[Op, ...] = DDP
    offset_s: float = 1.0
    drift_ppm: float = 50.0
    end_jitter: float = 10.0
    ring_bias: float = 30.0
    compute_noise: float = 0.05
    with_seq: bool = True
    with_groups: bool = True
    with_steps: bool = False
    with_hosts: bool = False
    cut: int = 0
    """Up to this many calls are missing at each end of each rank's recording."""
    lost: float = 0.0
    """Probability that a call is missing from a rank's trace."""
    jump_us: float = 0.0
    """Step of one host's clock in the middle of the run."""
    wander_us: float = 0.0
    """Amplitude of a slow sine of every host's clock."""
    seed: int = 0


@dataclass
class Truth:
    """Rows as a loader would store them, and what was true."""

    job: Job
    calls: pd.DataFrame
    """Columns of base.collective_calls, and `truth`: the instance."""
    offset: np.ndarray
    drift: np.ndarray
    middle: float
    span: float
    bend: list[float] = field(default_factory=list)

    def local(self, rank: int, true_ns: np.ndarray) -> np.ndarray:
        """The rank's own clock (ns since EPOCH) at true times (ns since EPOCH)."""
        t = true_ns - self.middle
        host = rank // self.job.per_host
        local = true_ns - self.offset[rank] - self.drift[rank] * t
        if host % 2 == 1:
            local = local + self.job.jump_us * 1e3 * (t > 0)
        phase = 2 * np.pi * (t / self.span + 0.13 * host)
        return local + self.job.wander_us * 1e3 * np.sin(phase) * (host > 0)


def members_of(job: Job, kind: str) -> list[list[int]]:
    """The groups of one kind: tp inside a host, dp across hosts."""
    world = job.hosts * job.per_host
    grid = np.arange(world).reshape(job.hosts, job.per_host)
    if kind == "world":
        return [list(range(world))]
    return [list(map(int, row)) for row in (grid if kind == "tp" else grid.T)]


def simulate(job: Job) -> Truth:
    """Run the job: every rank computes, then joins; a collective ends everywhere shortly after its
    last start.
    """
    rng = np.random.default_rng(job.seed)
    world = job.hosts * job.per_host
    ready = rng.uniform(0, 200, world)
    rows: list[tuple[np.ndarray, ...]] = []
    bias = np.abs(np.arange(world) - world / 2) / (world / 2) * job.ring_bias
    seqs: dict[tuple[str, int], int] = {}
    instance = 0
    for step in range(job.steps):
        stretch = 1 + 0.1 * rng.standard_normal()
        for op in job.program:
            compute = op.compute_us * stretch * (1 + job.compute_noise * rng.standard_normal(world))
            start = ready + np.maximum(compute, 5.0)
            for number, group in enumerate(members_of(job, op.group)):
                last = start[group].max()
                skew = bias[group] * min(1.0, op.transfer_us / 400) + np.abs(
                    rng.normal(0, job.end_jitter, len(group))
                )
                end = last + op.transfer_us + skew
                seq = seqs[op.group, number] = seqs.get((op.group, number), 0) + 1
                n = len(group)
                rows.append(
                    (
                        np.array(group),
                        start[group].copy(),
                        end,
                        np.full(n, instance),
                        np.full(n, seq),
                        np.full(n, step),
                        np.full(n, job.program.index(op)),
                        np.full(n, number),
                    )
                )
                ready[group] = end
                instance += 1
    columns = [np.concatenate(column) for column in zip(*rows, strict=True)]
    frame = pd.DataFrame(
        dict(
            zip(
                ("rank", "start", "end", "truth", "seq", "step", "op", "group"),
                columns,
                strict=True,
            )
        )
    )
    return _observe(job, frame, rng)


def _observe(job: Job, frame: pd.DataFrame, rng: np.random.Generator) -> Truth:
    """What the profilers write: local clocks, cut windows, lost events."""
    world = job.hosts * job.per_host
    span = float(frame.end.max() * 1e3)
    truth = Truth(
        job,
        frame,
        np.repeat(rng.uniform(-job.offset_s, job.offset_s, job.hosts), job.per_host) * 1e9,
        np.repeat(rng.uniform(-job.drift_ppm, job.drift_ppm, job.hosts), job.per_host) * 1e-6,
        span / 2,
        span,
    )
    parts = []
    for rank in range(world):
        mine = frame[frame["rank"] == rank].sort_values("start")
        low, high = (int(x) for x in rng.integers(0, job.cut + 1, 2))
        mine = mine.iloc[low : len(mine) - high]
        mine = mine[rng.random(len(mine)) >= job.lost].copy()
        start = np.rint(truth.local(rank, mine.start.to_numpy() * 1e3)).astype(np.int64)
        end = np.rint(truth.local(rank, mine.end.to_numpy() * 1e3)).astype(np.int64)
        mine["start_local_ns"], mine["duration_ns"] = start + EPOCH, np.maximum(end - start, 1)
        parts.append(mine)
    calls = pd.concat(parts, ignore_index=True)
    truth.calls = _as_rows(job, calls)
    return truth


def _as_rows(job: Job, calls: pd.DataFrame) -> pd.DataFrame:
    program, op = job.program, calls.op.to_numpy()
    kinds = np.array([p.group for p in program])[op]
    lists = {(kind, n): g for kind in set(kinds) for n, g in enumerate(members_of(job, kind))}
    keys = list(zip(kinds, calls.group, strict=True))
    known = job.with_groups
    return pd.DataFrame(
        {
            "call_id": np.arange(len(calls)),
            "rank": calls["rank"],
            "source_id": calls["rank"],
            "op": np.array([p.op for p in program])[op],
            "group_name": [f"{k}" if known else None for k, _ in keys],
            "group_desc": [f"mesh_{k}" if known else None for k, _ in keys],
            "group_ranks": [lists[key] if known else None for key in keys],
            "group_size": [len(lists[key]) if known else None for key in keys],
            "seq": calls.seq if job.with_seq else None,
            "dtype": "Float",
            "bytes": np.array([p.bytes for p in program])[op],
            "stream": np.where(kinds == "world", 20, np.where(kinds == "tp", 21, 22)),
            "start_local_ns": calls.start_local_ns,
            "duration_ns": calls.duration_ns,
            "step": calls.step if job.with_steps else None,
            "evidence": "metadata" if known else "name",
            "truth": calls.truth,
        }
    )


def store(con: duckdb.DuckDBPyConnection, truth: Truth) -> None:
    """Write the rows into the base tables of `con`."""
    job = truth.job
    frame = truth.calls.drop(columns="truth")
    con.register("truth_calls", frame)
    con.execute("INSERT INTO base.collective_calls BY NAME SELECT * FROM truth_calls")
    con.unregister("truth_calls")
    spans = truth.calls.groupby("rank").agg(
        first=("start_local_ns", "min"), last=("start_local_ns", "max")
    )
    con.executemany(
        "INSERT INTO base.rank_sources BY NAME"
        " SELECT ? AS rank, ? AS source_id, 'test' AS rank_source, ? AS host, ? AS world_size,"
        " 'kineto' AS format, ? AS first_local_ns, ? AS last_local_ns",
        [
            (
                int(rank),
                int(rank),
                f"node{int(rank) // job.per_host}" if job.with_hosts else None,
                job.hosts * job.per_host,
                int(row["first"]),
                int(row["last"]),
            )
            for rank, row in spans.iterrows()
        ],
    )


def clock_errors(con: duckdb.DuckDBPyConnection, truth: Truth) -> np.ndarray:
    """Error of aligned time differences against rank 0, us: a row per rank, a column per moment of
    the run.
    """
    at = np.linspace(0.02, 0.98, 60) * truth.span
    rows = con.execute(
        "SELECT rank, coalesce(from_local_ns, 0), offset_ns, drift_ppm, reference_local_ns"
        " FROM clocks ORDER BY rank, from_local_ns NULLS FIRST"
    ).fetchall()
    aligned = []
    for rank in range(truth.job.hosts * truth.job.per_host):
        local = truth.local(rank, at)
        result = np.full(len(at), np.nan)
        for _, since, offset, drift, middle in [r for r in rows if r[0] == rank]:
            valid = local + EPOCH >= since
            value = local + offset + drift * 1e-6 * (local - (middle - EPOCH))
            result = np.where(valid, value, result)
        aligned.append(result)
    table = np.array(aligned)
    return np.asarray((table - table[0]) / 1e3)


def wrong_matches(con: duckdb.DuckDBPyConnection, truth: Truth) -> int:
    """Instances that join calls of different true instances."""
    con.register("truth_calls", truth.calls[["call_id", "truth"]])
    found = con.execute(
        "SELECT count(*) FROM (SELECT collective_id FROM base.matches"
        " JOIN truth_calls USING (call_id) WHERE collective_id IS NOT NULL"
        " GROUP BY collective_id HAVING count(DISTINCT truth) > 1)"
    ).fetchall()
    con.unregister("truth_calls")
    return int(found[0][0])


def split_instances(con: duckdb.DuckDBPyConnection, truth: Truth) -> int:
    """True instances whose matched calls ended up in several instances."""
    con.register("truth_calls", truth.calls[["call_id", "truth"]])
    found = con.execute(
        "SELECT count(*) FROM (SELECT truth FROM base.matches JOIN truth_calls USING (call_id)"
        " WHERE collective_id IS NOT NULL GROUP BY truth HAVING count(DISTINCT collective_id) > 1)"
    ).fetchall()
    con.unregister("truth_calls")
    return int(found[0][0])
