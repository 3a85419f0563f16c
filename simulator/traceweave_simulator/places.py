"""Where a rank lives: its process, its device, and the numbers its profiler gives to launches."""

from __future__ import annotations

from traceweave_simulator.run import Run

FIRST_CORRELATION = 100_000
"""Correlation id of the first call; the same on every rank, as in real reports of one job."""


def pid_of(run: Run, rank: int) -> int:
    """Return the process id of a rank, as its host counts."""
    return 41_000 + 97 * run.config.host_of(rank) + device_of(run, rank)


def device_of(run: Run, rank: int) -> int:
    """Return the number of a rank's GPU on its host."""
    return sum(1 for r in range(rank) if run.config.host_of(r) == run.config.host_of(rank))
