"""What of a timeline a profiler saw on one rank, on that rank's clock."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from .clocks import Clock
from .jobs import Job
from .timeline import Kernel, Track

EPOCH_NS = 1_764_000_000_000_000_000
SKIPPED_STEPS = 2
"""Steps before the window begins, where it does not begin with the job."""


@dataclass(frozen=True)
class Event:
    """A kernel and its call; `hosted`: the call was recorded, `seen`: the kernel was."""

    kernel: Kernel
    issued: int
    launched: int
    start: int
    end: int
    hosted: bool
    seen: bool


@dataclass(frozen=True)
class Recording:
    """One rank's window. `begin` and `finish` are moments of its own clock, ns since the epoch."""

    job: Job
    rank: int
    style: str
    clock: Clock
    events: list[Event]
    steps: list[tuple[int, int, int]]
    begin: int
    finish: int
    truth: dict[tuple[int, int], frozenset[int]]
    """Start of a kernel as written, ns, and its stream, to the true operations that it serves."""
    beyond: list[frozenset[int]]
    """The true operations of every kernel beyond the window."""

    @property
    def host(self) -> str:
        """Name of the host."""
        return f"node{self.job.host(self.rank):02}"

    @property
    def pid(self) -> int:
        """Process id."""
        return 4000 + 17 * (self.rank % self.job.per_host) + self.job.host(self.rank)

    def write_to(self, folder: Path) -> Path:
        """Return the path that the profiler would choose."""
        if self.style in ("payload", "late", "default"):
            return folder / f"report_rank{self.rank}.sqlite"
        if not self.job.capture.named_hosts:
            return folder / f"rank{self.rank}.json"
        return folder / f"{self.host}_{self.pid}.{self.begin}.pt.trace.json"


def record(job: Job, rank: int, track: Track, clock: Clock, rng: np.random.Generator) -> Recording:
    """Cut a window out of what a rank did, and read its clock there."""
    styles = job.capture.styles
    style = styles[job.host(rank) % len(styles)]
    moments = [at for _, at in track.steps]
    begin = moments[min(SKIPPED_STEPS, len(moments) - 2)] + rng.uniform(0, job.capture.late_us)
    finish = moments[-1] + rng.uniform(0, job.capture.late_us)
    if style in ("payload", "default"):
        begin = -5e6

    def local(us: list[float]) -> list[int]:
        return [EPOCH_NS + int(ns) for ns in np.rint(clock.local(1e3 * np.asarray(us)))]

    kernels = track.kernels
    lost = rng.random((2, len(kernels))) < job.capture.lost
    times = [local([getattr(k, name) for k in kernels]) for name in
             ("issued", "launched", "start", "end")]  # fmt: skip
    events, truth, beyond = [], {}, []
    tick = 1000 if style in ("shapes", "bare") else 1
    for n, kernel in enumerate(kernels):
        hosted = begin <= kernel.issued < finish and not lost[0, n]
        within = begin <= kernel.start and kernel.issued < finish
        seen = within and not lost[1, n]
        issued, launched, start, end = (t[n] for t in times)
        if hosted or seen:
            events.append(Event(kernel, issued, launched, start, end, hosted, seen))
        parts = frozenset(p.number for p in kernel.parts)
        if parts and seen:
            truth[start // tick * tick, kernel.stream] = parts
        elif parts and not within:
            beyond.append(parts)
    edges = local([*moments, moments[-1] + 1e3])
    steps = [
        (number, edges[n], edges[n + 1])
        for n, (number, at) in enumerate(track.steps[:-1])
        if begin <= at and moments[n + 1] < finish
    ]
    first, last = local([begin, finish])
    return Recording(job, rank, style, clock, events, steps, first, last, truth, beyond)
