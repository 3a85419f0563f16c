"""What the analyses should answer for a simulated run, computed from the true timeline by plain
interval arithmetic.

Nothing here is clever and nothing here is SQL: intervals are merged one by one, overlaps are summed
window by window. Definitions: DESIGN section 5. Times are true time, epoch ns; with perfect clocks
they are what the files say.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
import pandas as pd

from traceweave_simulator.config import Times
from traceweave_simulator.errors import SimulationError
from traceweave_simulator.program import Group
from traceweave_simulator.run import Index, Run, category
from traceweave_simulator.timeline import NEVER
from traceweave_simulator.truth_gaps import GAP_COLUMNS, Interval, Scope, gaps_of

Window = Literal["device", "host", "span"]

BREAKDOWN_COLUMNS = (
    "rank",
    "step",
    "window_start_ns",
    "window_ns",
    "compute_ns",
    "comm_ns",
    "memory_ns",
    "overlap_ns",
    "exposed_comm_ns",
    "exposed_memory_ns",
    "idle_ns",
    "comm_hidden_fraction",
    "overlap_efficiency",
    "step_overlap_efficiency",
)

MOST_GPU_OPS = 3_000_000
"""Per-interval loops in Python take a second or two per million."""


def union(intervals: list[Interval]) -> list[Interval]:
    """Return the disjoint intervals, ascending, that cover the same points."""
    merged: list[Interval] = []
    for start, end in sorted(intervals):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def covered(merged: list[Interval], window: Interval) -> int:
    """Return how much of the window disjoint intervals cover, ns."""
    begin, end = window
    return sum(max(0, min(e, end) - max(s, begin)) for s, e in merged)


@dataclass(frozen=True)
class Truth:
    """The right answers for one run."""

    run: Run

    def __post_init__(self) -> None:
        """Refuse runs that are for benchmarks."""
        ops = len(self.run.gpu) * self.run.config.ranks
        if ops > MOST_GPU_OPS:
            raise SimulationError(
                f"the truth of {ops} GPU ops takes too long; at most {MOST_GPU_OPS}."
            )

    # -- windows

    @cached_property
    def steps(self) -> pd.DataFrame:
        """One row per rank and recorded step, as the relation `steps`."""
        run, first = self.run, self.run.config.first_step
        rows = []
        for rank in run.ranks:
            steps = [int(s) for s in run.recorded(run.step_start, rank)]
            ops = run.recorded(run.gpu.start, rank)
            step_of = run.step_of(ops, rank)
            starts = {
                s: int(run.gpu.start[ops[step_of == s], rank].min())
                for s in steps
                if (step_of == s).any()
            }
            for position, step in enumerate(steps):
                mine = ops[step_of == step]
                later = [starts[s] for s in steps[position + 1 :] if s in starts]
                end = (
                    later[0] if later else int(run.gpu.end[mine, rank].max()) if len(mine) else None
                )
                rows.append(
                    {
                        "rank": rank,
                        "step": step + first,
                        "start_ns": self._epoch(int(run.step_start[step, rank])),
                        "end_ns": self._epoch(int(run.step_end[step, rank])),
                        "duration_ns": int(run.step_end[step, rank] - run.step_start[step, rank]),
                        "device_start_ns": self._epoch(starts.get(step)),
                        "device_end_ns": self._epoch(end if step in starts else None),
                    }
                )
        return pd.DataFrame(rows).astype({"device_start_ns": "Int64", "device_end_ns": "Int64"})

    def _epoch(self, elapsed: int | None) -> int | None:
        return None if elapsed is None else elapsed + self.run.config.start_ns

    def _ops(self, rank: int) -> tuple[Index, Times, Times]:
        rows = self.run.recorded(self.run.gpu.start, rank)
        origin = self.run.config.start_ns
        return rows, self.run.gpu.start[rows, rank] + origin, self.run.gpu.end[rows, rank] + origin

    def _windows(self, rank: int, window: Window) -> list[tuple[int | None, Interval]]:
        if window == "span":
            _, start, end = self._ops(rank)
            return [(None, (int(start.min()), int(end.max())))]
        names = {"device": ("device_start_ns", "device_end_ns"), "host": ("start_ns", "end_ns")}
        begin, end_name = names[window]
        mine = self.steps[(self.steps["rank"] == rank) & self.steps[begin].notna()]
        return [
            (int(s), (int(b), int(e)))
            for s, b, e in zip(mine["step"], mine[begin], mine[end_name], strict=True)
        ]

    # -- breakdown

    def breakdown(self, window: Window = "device") -> pd.DataFrame:
        """Return the analysis `breakdown`: one row per rank and step; `span`: one row per rank,
        step NULL."""
        rows = []
        for rank in self.run.ranks:
            ops, start, end = self._ops(rank)
            kinds = np.array([category(k) for k in self.run.gpu.kinds])[self.run.gpu.kind[ops]]
            spans = {
                name: [
                    (int(s), int(e))
                    for s, e in zip(start[kinds == name], end[kinds == name], strict=True)
                ]
                for name in ("compute", "communication", "memory")
            }
            busy = spans["compute"] + spans["communication"]
            merged = {name: union(s) for name, s in spans.items()}
            merged |= {"busy": union(busy), "all": union(busy + spans["memory"])}
            for step, limits in self._windows(rank, window):
                within = {name: covered(m, limits) for name, m in merged.items()}
                rows.append({"rank": rank, "step": step, **_breakdown_row(limits, within)})
        table = pd.DataFrame(rows, columns=list(BREAKDOWN_COLUMNS))
        return table.astype({"step": "Int64"})

    # -- gaps

    def gaps(self, scope: Scope = "device") -> pd.DataFrame:
        """Return every gap inside the rank's device windows, on the device or its compute stream.

        See truth_gaps.py for the causes. `injected`: the configured cause of a gap that stems from
        a pause made on purpose; None for gaps that came about by themselves.
        """
        rows: list[dict[str, object]] = []
        for rank in self.run.ranks:
            windows = [(step, w) for step, w in self._windows(rank, "device") if step is not None]
            rows += gaps_of(self.run, rank, windows, scope)
        table = pd.DataFrame(rows, columns=list(GAP_COLUMNS))
        return table.astype({"step": "Int64", "stream": "Int64"})

    # -- collectives

    @cached_property
    def collectives(self) -> pd.DataFrame:
        """One row per rank and collective: start, end, duration, wait, transfer, last_rank, and
        whether it was recorded.

        wait and transfer count over all members, recorded or not; `collective_id` is the
        simulator's own number.
        """
        run = self.run
        tables = []
        for position, row in enumerate(run.collective_rows):
            comm = run.comms[run.gpu_comm[row]]
            ranks = np.flatnonzero(run.instance[position] >= 0)
            tables.append(
                pd.DataFrame(
                    {
                        "collective_id": run.instance[position, ranks],
                        "rank": ranks,
                        "op": comm.op,
                        "group": [_group_of(run, position, int(r)) for r in ranks],
                        "seq": run.sequence[position, ranks],
                        "bytes": comm.bytes,
                        "step": run.gpu.step[row] + run.config.first_step,
                        "start_ns": run.gpu.start[row, ranks] + run.config.start_ns,
                        "end_ns": run.gpu.end[row, ranks] + run.config.start_ns,
                        "recorded": [_within(run, int(row), int(r)) for r in ranks],
                    }
                )
            )
        table = pd.concat(tables, ignore_index=True)
        table["duration_ns"] = table["end_ns"] - table["start_ns"]
        by = table.groupby("collective_id")
        last_start = by["start_ns"].transform("max")
        table["wait_ns"] = last_start - table["start_ns"]
        table["transfer_ns"] = by["end_ns"].transform("max") - last_start
        last = table.loc[by["start_ns"].idxmax(), ["collective_id", "rank"]].set_index(
            "collective_id"
        )["rank"]
        table["last_rank"] = table["collective_id"].map(last)
        return table.sort_values(["collective_id", "rank"], ignore_index=True)

    # -- clocks

    def clocks(self, reference_rank: int = 0) -> pd.DataFrame:
        """Return the right `clocks`: offset_ns and drift_ppm that bring each rank's local time on
        the reference's clock.

        aligned = local + offset_ns + drift_ppm * 1e-6 * (local - reference_local_ns), with
        reference_local_ns in the middle of the run. A wandering clock has no such row that is right
        throughout; its row holds without the wander.
        """
        run = self.run
        ends = run.step_end[-1]
        middle = int(ends.max()) // 2
        ours = run.clocks[reference_rank]
        rows = []
        for rank in run.ranks:
            clock = run.clocks[rank]
            at = np.array([middle], dtype=np.int64)
            local = int(clock.local(at, run.config.start_ns)[0])
            aligned = int(ours.local(at, run.config.start_ns)[0])
            rate = (1 + ours.drift_ppm * 1e-6) / (1 + clock.drift_ppm * 1e-6)
            rows.append(
                {
                    "rank": rank,
                    "reference_rank": reference_rank,
                    "offset_ns": aligned - local,
                    "drift_ppm": (rate - 1) * 1e6,
                    "reference_local_ns": local,
                }
            )
        return pd.DataFrame(rows)


def _breakdown_row(window: Interval, within: dict[str, int]) -> dict[str, int | float | None]:
    total = window[1] - window[0]
    compute, comm, memory = within["compute"], within["communication"], within["memory"]
    overlap = compute + comm - within["busy"]
    least = min(compute, comm)
    return {
        "window_start_ns": window[0],
        "window_ns": total,
        "compute_ns": compute,
        "comm_ns": comm,
        "memory_ns": memory,
        "overlap_ns": overlap,
        "exposed_comm_ns": comm - overlap,
        "exposed_memory_ns": within["all"] - within["busy"],
        "idle_ns": total - within["all"],
        "comm_hidden_fraction": overlap / comm if comm else None,
        "overlap_efficiency": overlap / least if least else None,
        "step_overlap_efficiency": min(1.0, max(0.0, (compute + comm - total) / least))
        if least
        else None,
    }


def _group_of(run: Run, position: int, rank: int) -> str:
    comm = run.comms[run.gpu_comm[run.collective_rows[position]]]
    mine: Group = next(run.groups[g] for g in comm.groups if rank in run.groups[g].ranks)
    return mine.name


def _within(run: Run, row: int, rank: int) -> bool:
    begin, end = run.window(rank)
    return bool(begin <= run.gpu.start[row, rank] < end and run.gpu.start[row, rank] != NEVER)
