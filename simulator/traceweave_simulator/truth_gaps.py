"""Where nothing runs, and why: the gaps of one rank's device or compute stream.

A gap is cut where the call that launched the op which ends it returned. The causes of the parts:

data_loading  before: the data loader ran for more than half of the part
sync          before: the host was in a synchronizing call when the gap began
launch_bound  before: neither
dependency    after: the op waited for another stream until it started
kernel_delay  after: it waited for nothing, and started within 30 us
device_delay  after: it waited for nothing, and started later
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from traceweave_simulator.config import Times
from traceweave_simulator.places import device_of
from traceweave_simulator.program import COMPUTE_STREAM, Call, GpuOp, Range
from traceweave_simulator.run import Index, Rows, Run

Interval = tuple[int, int]
Scope = Literal["device", "compute_stream"]

GAP_COLUMNS = (
    "rank", "device", "stream", "step", "start_ns", "end_ns", "duration_ns", "cause", "after_op",
    "before_op", "injected",
)  # fmt: skip

KERNEL_DELAY_NS = 30_000


def gaps_of(
    run: Run, rank: int, windows: list[tuple[int, Interval]], scope: Scope
) -> list[dict[str, object]]:
    """Return the gaps of a rank inside its (step, device window) list; columns GAP_COLUMNS."""
    ops = run.recorded(run.gpu.start, rank)
    stream = None
    if scope == "compute_stream":
        stream = COMPUTE_STREAM
        ops = ops[np.array([k.stream == stream for k in run.gpu.kinds])[run.gpu.kind[ops]]]
    ops = ops[np.argsort(run.gpu.start[ops, rank], kind="stable")]
    syncs = _spans(run.calls, rank, [k.name.endswith("Synchronize") for k in run.calls.kinds])
    loads = [k.name.startswith("enumerate(DataLoader)") for k in run.ranges.kinds]
    causes = _Causes(run, rank, syncs, _spans(run.ranges, rank, loads))
    rows: list[dict[str, object]] = []
    for before, after, begin, end in _holes(run, rank, ops):
        step = next(
            (s for s, (b, e) in windows if b <= run.epoch(begin) and run.epoch(end) <= e), None
        )
        if step is None:
            continue
        for start, until, cause in causes.parts(after, begin, end):
            rows.append(
                {
                    "rank": rank,
                    "device": device_of(run, rank),
                    "stream": stream,
                    "step": step,
                    "start_ns": run.epoch(start),
                    "end_ns": run.epoch(until),
                    "duration_ns": until - start,
                    "cause": cause,
                    "after_op": run.gpu.kinds[run.gpu.kind[before]].kernel.name,
                    "before_op": run.gpu.kinds[run.gpu.kind[after]].kernel.name,
                    "injected": _injected(run, rank, after),
                }
            )
    return rows


def _holes(run: Run, rank: int, ops: Index) -> list[tuple[int, int, int, int]]:
    """Return (op before, op after, begin, end) of every hole between ops in order of start."""
    holes = []
    last = None
    for op, start, end in zip(
        ops.tolist(),
        run.gpu.start[ops, rank].tolist(),
        run.gpu.end[ops, rank].tolist(),
        strict=True,
    ):
        if last is not None and start > last[1]:
            holes.append((last[0], op, last[1], start))
        if last is None or end > last[1]:
            last = (op, end)
    return holes


def _spans(table: Rows[Call] | Rows[Range], rank: int, wanted: list[bool]) -> Times:
    chosen = np.array(wanted)[table.kind]
    return np.stack([table.start[chosen, rank], table.end[chosen, rank]], axis=1)


class _Causes:
    """Tells why a rank's gaps are there."""

    def __init__(self, run: Run, rank: int, syncs: Times, loads: Times) -> None:
        self.run, self.rank = run, rank
        self.syncs, self.loads = syncs, loads

    def parts(self, op: int, begin: int, end: int) -> list[tuple[int, int, str]]:
        """Return the parts (start, end, cause) of the gap that `op` ends."""
        returned = int(self.run.calls.end[self.run.gpu_call[op], self.rank])
        cut = min(max(returned, begin), end)
        parts = []
        if cut > begin:
            parts.append((begin, cut, self._of_host(begin, cut)))
        if end > cut:
            parts.append((cut, end, self._of_device(op, cut, end)))
        return parts

    def _of_host(self, begin: int, end: int) -> str:
        loading = np.minimum(self.loads[:, 1], end) - np.maximum(self.loads[:, 0], begin)
        if (loading * 2 > end - begin).any():
            return "data_loading"
        waiting = (self.syncs[:, 0] <= begin) & (self.syncs[:, 1] > begin)
        return "sync" if waiting.any() else "launch_bound"

    def _of_device(self, op: int, begin: int, end: int) -> str:
        waited = self.run.dependency.get(op)
        if waited is not None and int(waited[self.rank]) == end:
            return "dependency"
        return "kernel_delay" if end - begin <= KERNEL_DELAY_NS else "device_delay"


def _injected(run: Run, rank: int, op: int) -> str | None:
    """Return the cause of the configured pause just before `op`, if it concerns the rank."""
    ended_by: GpuOp = run.gpu.kinds[run.gpu.kind[op]]
    gap = ended_by.after
    if gap is None or (gap.ranks is not None and rank not in gap.ranks):
        return None
    return gap.cause
