"""A simulated run: what every rank did and when, in true time, as arrays for the writers and
tables for people."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt
import pandas as pd

from traceweave_simulator.config import Clock, Config, Times
from traceweave_simulator.errors import SimulationError
from traceweave_simulator.program import Call, Comm, GpuOp, Group, Range
from traceweave_simulator.timeline import NEVER

Index = npt.NDArray[np.int64]
Row = TypeVar("Row")

TABLE_ROWS = 20_000_000
"""More rows than this make no pandas table."""

FIRST_COLLECTIVE = 500
"""The groups' counters had been running before the recording."""


@dataclass(frozen=True)
class Rows(Generic[Row]):
    """Rows of one kind over all steps: what each is, and when it starts and ends on each rank."""

    kinds: tuple[Row, ...]
    """Every different row of the programs."""
    kind: Index
    """(rows,) position in `kinds`."""
    step: Index
    """(rows,) position of the step."""
    start: Times
    """(rows, ranks) ns since the run's start; NEVER where the rank does not run the row."""
    end: Times

    def __len__(self) -> int:
        return len(self.kind)


@dataclass(frozen=True)
class Run:
    """A simulated run. Times are ns since `config.start_ns`, true time, unless a name says
    otherwise."""

    config: Config
    groups: tuple[Group, ...]
    clocks: tuple[Clock, ...]
    step_start: Times
    """(steps, ranks): the host's range of each step."""
    step_end: Times
    ranges: Rows[Range]
    calls: Rows[Call]
    gpu: Rows[GpuOp]
    comms: tuple[Comm, ...]
    """Every different collective of the programs; `GpuOp.comm` counts within its program,
    `gpu_comm` here."""
    call_scope: Index
    """(calls,) innermost operator around each call, a row of `ranges`; -1: none."""
    gpu_call: Index
    """(gpu ops,) the launching row of `calls`."""
    gpu_comm: Index
    """(gpu ops,) position in `comms`; -1: no collective."""
    range_comm: Index
    """(ranges,) the row of `gpu` whose collective a record_param_comms speaks of; -1: none."""
    range_sequence: Index
    """(ranges,) autograd sequence number; -1: none."""
    dependency: dict[int, Times]
    """Row of `gpu` -> when what it had to wait for on other streams was done, per rank."""

    @property
    def ranks(self) -> range:
        """Return all ranks."""
        return range(self.config.ranks)

    def local(self, rank: int, elapsed_ns: Times) -> Times:
        """Return what the rank's clock shows, epoch ns, at true times since the run's start."""
        return self.clocks[rank].local(elapsed_ns, self.config.start_ns)

    def epoch(self, elapsed_ns: int) -> int:
        """Return the true epoch time, ns, of a true time since the run's start."""
        return elapsed_ns + self.config.start_ns

    # -- what was recorded

    @cached_property
    def collective_rows(self) -> Index:
        """Return the rows of `gpu` that carry collectives, in order of issue."""
        return np.flatnonzero(self.gpu_comm >= 0)

    def window(self, rank: int) -> tuple[int, int]:
        """Return from when until when the rank records; an event is recorded if it starts in
        there."""
        cut = self.config.window_cut.get(rank, 0)
        starts = self.gpu.start[self.collective_rows, rank]
        starts = np.sort(starts[starts != NEVER])
        whole = (0, int(np.iinfo(np.int64).max))
        if not cut or not len(starts):
            return whole
        if abs(cut) >= len(starts):
            raise SimulationError(
                f"window_cut of rank {rank} leaves none of its {len(starts)} collectives."
            )
        return (int(starts[cut]), whole[1]) if cut > 0 else (0, int(starts[cut]))

    def recorded(self, start: Times, rank: int) -> Index:
        """Return which rows of a (rows, ranks) array of starts the rank recorded."""
        begin, end = self.window(rank)
        column = start[:, rank]
        return np.flatnonzero((column != NEVER) & (column >= begin) & (column < end))

    def step_of(self, rows: Index, rank: int) -> Index:
        """Return the step position of rows of `gpu`: where the launch and the step's range are
        both recorded, else -1."""
        begin, end = self.window(rank)
        launch = self.calls.start[self.gpu_call[rows], rank]
        step = self.gpu.step[rows]
        range_start = self.step_start[step, rank]
        known = (launch >= begin) & (launch < end) & (range_start >= begin) & (range_start < end)
        return np.where(known, step, -1)

    # -- collectives

    @cached_property
    def instance(self) -> Index:
        """(collective rows, ranks): number of the collective instance; -1 where the rank takes
        no part."""
        widest = max((len(c.members) for c in self.comms), default=1)
        result = np.full((len(self.collective_rows), self.config.ranks), -1, dtype=np.int64)
        for position, row in enumerate(self.collective_rows):
            comm = self.comms[self.gpu_comm[row]]
            # a recv is written right after its send and shares its number
            first = position - 1 if comm.op == "recv" else position
            for number, members in enumerate(comm.members):
                mine = (
                    members[:1]
                    if comm.op == "send"
                    else members[1:]
                    if comm.op == "recv"
                    else members
                )
                result[position, mine] = first * widest + number
        return result

    @cached_property
    def sequence(self) -> Index:
        """(collective rows, ranks): the group's counter as c10d keeps it, p2p apart and per
        rank; -1: no part."""
        result = np.full((len(self.collective_rows), self.config.ranks), -1, dtype=np.int64)
        by_group = np.full(len(self.groups), FIRST_COLLECTIVE, dtype=np.int64)
        by_rank = np.full(self.config.ranks, FIRST_COLLECTIVE, dtype=np.int64)
        for position, row in enumerate(self.collective_rows):
            comm = self.comms[self.gpu_comm[row]]
            if comm.op in ("send", "recv"):
                mine = comm.members[:, 0 if comm.op == "send" else 1]
                by_rank[mine] += 1
                result[position, mine] = by_rank[mine]
                continue
            for group, members in zip(comm.groups, comm.members, strict=True):
                by_group[group] += 1
                result[position, members] = by_group[group]
        return result

    # -- tables

    def _check_size(self, rows: int) -> None:
        if rows * self.config.ranks > TABLE_ROWS:
            raise SimulationError(
                f"a table of {rows * self.config.ranks} rows is too large; use the arrays of Run."
            )

    @cached_property
    def gpu_ops(self) -> pd.DataFrame:
        """One row per recorded GPU op, in order of issue: true epoch times, names, step number,
        launch time."""
        self._check_size(len(self.gpu))
        return pd.concat([self._gpu_ops(rank) for rank in self.ranks], ignore_index=True)

    def _gpu_ops(self, rank: int) -> pd.DataFrame:
        rows = self.recorded(self.gpu.start, rank)
        kinds = [self.gpu.kinds[k] for k in self.gpu.kind[rows]]
        step = self.step_of(rows, rank)
        origin = self.config.start_ns
        return pd.DataFrame(
            {
                "rank": rank,
                "row": rows,
                "kind": [k.kind for k in kinds],
                "category": [category(k) for k in kinds],
                "name": [k.kernel.name for k in kinds],
                "stream": [k.stream for k in kinds],
                "start_ns": self.gpu.start[rows, rank] + origin,
                "end_ns": self.gpu.end[rows, rank] + origin,
                "duration_ns": self.gpu.end[rows, rank] - self.gpu.start[rows, rank],
                "launch_ns": self.calls.start[self.gpu_call[rows], rank] + origin,
                "step": pd.array(
                    np.where(step < 0, 0, step) + self.config.first_step, dtype="Int64"
                ),
                "in_step": step >= 0,
            }
        ).assign(step=lambda t: t["step"].where(t["in_step"]))

    @cached_property
    def host_ops(self) -> pd.DataFrame:
        """One row per recorded host range and CUDA call: true epoch times, kind 'cpu_op',
        'user_annotation' or 'runtime'."""
        self._check_size(len(self.ranges) + len(self.calls))
        tables = []
        for rank in self.ranks:
            for table, kind_of in (
                (self.ranges, lambda k: k.kind),
                (self.calls, lambda k: "runtime"),
            ):
                rows = self.recorded(table.start, rank)
                kinds = [table.kinds[k] for k in table.kind[rows]]
                tables.append(
                    pd.DataFrame(
                        {
                            "rank": rank,
                            "kind": [kind_of(k) for k in kinds],
                            "name": [k.name for k in kinds],
                            "thread": [k.thread for k in kinds],
                            "step": table.step[rows] + self.config.first_step,
                            "start_ns": table.start[rows, rank] + self.config.start_ns,
                            "end_ns": table.end[rows, rank] + self.config.start_ns,
                        }
                    )
                )
        return pd.concat(tables, ignore_index=True)


def category(op: GpuOp) -> str:
    """Return 'compute', 'communication' or 'memory'."""
    if op.kind == "memcpy":
        return "memory"
    return "communication" if op.comm >= 0 else "compute"
