"""What the analyses of parallelism should answer for a simulated run, by plain interval arithmetic.

Like truth.py: no SQL, one interval at a time. Which operation waits for which is taken from the
program that was executed, not guessed from the times. Times are true time, epoch ns.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pandas as pd

from traceweave_simulator.catalogue import ADAM
from traceweave_simulator.program import Comm
from traceweave_simulator.run import Run, category
from traceweave_simulator.truth import covered, union
from traceweave_simulator.truth_gaps import Interval

GRADIENT_NORM_BYTES = 4
"""Size of the all-reduce of the gradient norm, which is no gradient bucket."""


@dataclass(frozen=True)
class Call:
    """One rank's part in one collective."""

    rank: int
    row: int
    """Row of `Run.gpu`."""
    step: int
    """Number of the step, as in the traces."""
    comm: Comm
    group: str
    """Name of the group."""
    start: int
    end: int
    asked: int
    """When the host entered the operation."""
    ready: int
    """When what its stream was told to wait for was done; `asked` if it was told nothing."""

    @property
    def at(self) -> Interval:
        """Return its interval."""
        return self.start, self.end


def calls_of(run: Run, rank: int) -> Iterator[Call]:
    """Yield a rank's recorded collectives in the order of issue."""
    asked = {int(row): number for number, row in enumerate(run.range_comm) if row >= 0}
    origin = run.config.start_ns
    recorded = {int(row) for row in run.recorded(run.gpu.start, rank)}
    for row in (int(r) for r in run.collective_rows):
        if row not in recorded:
            continue
        comm = run.comms[run.gpu_comm[row]]
        group = next(g for g in comm.groups if rank in run.groups[g].ranks)
        host = int(run.ranges.start[asked[row], rank])
        waited = int(run.dependency[row][rank]) if row in run.dependency else host
        yield Call(
            rank=rank,
            row=row,
            step=int(run.gpu.step[row]) + run.config.first_step,
            comm=comm,
            group=run.groups[group].name,
            start=int(run.gpu.start[row, rank]) + origin,
            end=int(run.gpu.end[row, rank]) + origin,
            asked=host + origin,
            ready=max(waited, host) + origin,
        )


def _compute(run: Run, rank: int, step: int | None = None) -> list[Interval]:
    """Return the intervals of a rank's compute kernels; of one step (its number), those of the
    forward and backward pass."""
    rows = run.recorded(run.gpu.start, rank)
    origin, first = run.config.start_ns, run.config.first_step
    kernels = [(int(r), run.gpu.kinds[run.gpu.kind[r]]) for r in rows]
    return [
        (int(run.gpu.start[r, rank]) + origin, int(run.gpu.end[r, rank]) + origin)
        for r, op in kernels
        if category(op) == "compute"
        and (step is None or (run.gpu.step[r] + first == step and op.kernel != ADAM))
    ]


def _length(merged: list[Interval]) -> int:
    return sum(end - start for start, end in merged)


def group_times(run: Run) -> pd.DataFrame:
    """Return the analysis `groups`: calls, comm_ns, overlap_ns and exposed_ns by group name."""
    totals: dict[str, list[int]] = {}
    for rank in run.ranks:
        compute = union(_compute(run, rank))
        by_group: dict[str, list[Interval]] = {}
        for call in calls_of(run, rank):
            by_group.setdefault(call.group, []).append(call.at)
        for name, intervals in by_group.items():
            merged = union(intervals)
            overlap = sum(covered(compute, window) for window in merged)
            total = totals.setdefault(name, [0, 0, 0])
            for place, value in enumerate((len(intervals), _length(merged), overlap)):
                total[place] += value
    rows = [(n, calls, comm, o, comm - o) for n, (calls, comm, o) in totals.items()]
    return pd.DataFrame(rows, columns=["name", "calls", "comm_ns", "overlap_ns", "exposed_ns"])


def _exposure(compute: list[Interval], at: Interval) -> tuple[int, int]:
    """Return how much of an interval no compute covers, and the last stretch of that to its end."""
    start, end = at
    last = max((min(e, end) for s, e in compute if s < end), default=start)
    return end - start - covered(compute, at), end - max(last, start)


def gradient_buckets(run: Run) -> pd.DataFrame:
    """Return the analysis `ddp_buckets` of a run whose gradients are all-reduced."""
    names = _groups(run, "mesh_dp") or _groups(run, "default_pg")
    rows: list[dict[str, int | None]] = []
    for rank in run.ranks:
        compute = union(_compute(run, rank))
        for step, calls in _by_step(run, rank, names).items():
            buckets = [c for c in calls if c.comm.bytes > GRADIENT_NORM_BYTES]
            tail = max(c.end for c in buckets) - max(c.ready for c in buckets)
            rows += [
                {
                    "rank": rank,
                    "step": step,
                    "bucket": number,
                    "buckets": len(buckets),
                    "bytes": call.comm.bytes,
                    "asked_ns": call.asked,
                    "ready_ns": call.ready,
                    "start_ns": call.start,
                    "end_ns": call.end,
                    "exposed_ns": _exposure(compute, call.at)[0],
                    "tail_ns": tail if number == len(buckets) else None,
                }
                for number, call in enumerate(buckets, 1)
            ]
    return pd.DataFrame(rows).astype({"tail_ns": "Int64"})


def _groups(run: Run, description: str) -> set[str]:
    return {g.name for g in run.groups if g.description == description}


def _by_step(run: Run, rank: int, names: set[str]) -> dict[int, list[Call]]:
    """Return a rank's collectives of the named groups, by step, in the order of issue."""
    steps: dict[int, list[Call]] = {}
    for call in calls_of(run, rank):
        if call.group in names:
            steps.setdefault(call.step, []).append(call)
    return steps


def sharded_units(run: Run) -> pd.DataFrame:
    """Return the analysis `fsdp`: of an all-gather, the first compute that was told to wait for its
    end."""
    rows: list[dict[str, object]] = []
    origin = run.config.start_ns
    for rank in run.ranks:
        compute = union(_compute(run, rank))
        waiting: dict[int, int] = {}
        for row, done in sorted(run.dependency.items()):
            if run.gpu_comm[row] < 0 and run.gpu.start[row, rank] >= 0:
                waiting.setdefault(int(done[rank]) + origin, int(run.gpu.start[row, rank]) + origin)
        for call in calls_of(run, rank):
            if call.comm.op not in ("all_gather", "reduce_scatter"):
                continue
            gathers = call.comm.op == "all_gather"
            rows.append(
                {
                    "rank": rank,
                    "step": call.step,
                    "op": call.comm.op,
                    "start_ns": call.start,
                    "end_ns": call.end,
                    "exposed_ns": _exposure(compute, call.at)[0],
                    "first_use_ns": waiting[call.end] if gathers else None,
                }
            )
    table = pd.DataFrame(rows)
    # by way of a float these times would lose their last digits
    table["first_use_ns"] = pd.Series([row["first_use_ns"] for row in rows], dtype="Int64")
    return table.sort_values(["rank", "step", "start_ns"], ignore_index=True)


def tensor_parallel(run: Run) -> pd.DataFrame:
    """Return the analysis `tp`: the sums of one step over the collectives of the model's groups."""
    rows = []
    for rank in run.ranks:
        compute = union(_compute(run, rank))
        for step, calls in _by_step(run, rank, _groups(run, "mesh_tp")).items():
            exposed, blocked = zip(*(_exposure(compute, c.at) for c in calls), strict=True)
            rows.append(
                {
                    "rank": rank,
                    "step": step,
                    "calls": len(calls),
                    "bytes": sum(c.comm.bytes for c in calls),
                    "comm_ns": sum(c.end - c.start for c in calls),
                    "exposed_ns": sum(exposed),
                    "blocked_ns": sum(blocked),
                }
            )
    return pd.DataFrame(rows)


def pipeline_stages(run: Run) -> pd.DataFrame:
    """Return the analysis `pipeline`: windows and bubbles of every pipeline, step and stage.

    The pass of a stage is its compute without the optimizer's kernels.
    """
    rows = []
    for group in (g for g in run.groups if g.description == "mesh_pp"):
        busy = {r: union(_compute(run, r)) for r in group.ranks}
        calls = _by_step(run, group.ranks[-1], {group.name})
        for step, messages in calls.items():
            inside = {r: _compute(run, r, step) for r in group.ranks}
            edges = (
                min(start for start, _ in inside[group.ranks[0]]),
                min(c.end for c in messages if c.comm.op == "recv"),
                max(end for _, end in inside[group.ranks[-1]]),
                max(end for r in group.ranks for _, end in inside[r]),
            )
            for stage, rank in enumerate(group.ranks):
                place = {"first_rank": group.ranks[0], "step": step, "stage": stage, "rank": rank}
                sizes = {"stages": len(group.ranks), "microbatches": run.config.microbatches}
                rows.append(place | sizes | _stage_row(busy[rank], edges))
    return pd.DataFrame(rows).sort_values(["first_rank", "step", "stage"], ignore_index=True)


def _stage_row(busy: list[Interval], edges: tuple[int, int, int, int]) -> dict[str, int]:
    """Return lengths and bubbles of warm-up, steady state and drain."""
    phases = {"warmup": edges[:2], "steady": edges[1:3], "drain": edges[2:]}
    bubbles = {n: e - s - covered(busy, (s, e)) for n, (s, e) in phases.items()}
    return {
        "window_start_ns": edges[0],
        "window_ns": edges[3] - edges[0],
        "busy_ns": edges[3] - edges[0] - sum(bubbles.values()),
        **{f"{name}_ns": end - start for name, (start, end) in phases.items()},
        **{f"{name}_bubble_ns": bubbles[name] for name in phases},
    }
