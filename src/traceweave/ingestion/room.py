"""How many files are read at a time, where a process may have only so much memory (ulimit -v)."""

from __future__ import annotations

import os
import resource
from contextlib import suppress
from pathlib import Path

from traceweave import words
from traceweave.errors import ResourceError
from traceweave.store.draft import draft_memory_mib

_BASE_MIB = 1100
"""Address space of code, and of what DuckDB reserves when it begins."""

_PER_JOB_MIB = 72
"""Address space of a thread beside what it works on: its stack, and the C library's arena."""


def fitting_jobs(asked: int | None) -> int:
    """Return how many files to read at a time: as many as asked for, or else one per core, but no
    more than fit into the address space that this process may have.

    Where that ends, C++ aborts the process and Python waits for threads that never began: so this
    is asked first. Raises ResourceError if what was asked for, or a single file, does not fit.
    """
    wanted = asked or os.cpu_count() or 1
    limit = _limit_mib()
    if limit is None:
        return wanted
    fitting = next((jobs for jobs in range(wanted, 0, -1) if need_mib(jobs) <= limit), 0)
    if fitting == wanted or (fitting and asked is None):
        return fitting
    jobs, way_out = (wanted, f"use -j {fitting}, or raise it") if fitting else (1, "raise it")
    raise ResourceError(
        f"memory would run out: -j {jobs} takes up to {words.size(need_mib(jobs) << 20)} of"
        " address space, but the limit of this process (ulimit -v) is"
        f" {words.size(limit << 20)}; {way_out}"
    )


def need_mib(jobs: int) -> int:
    """Return how much address space this process may take with `jobs` files at a time."""
    return max(_taken_mib(), _BASE_MIB) + _PER_JOB_MIB * jobs + draft_memory_mib(jobs)


def is_limited() -> bool:
    """Tell whether this process may take so much address space only: then each thing at its time,
    as DuckDB keeps what it once had.
    """
    return _limit_mib() is not None


def _limit_mib() -> int | None:
    """Return how much address space this process may take; None where there is no limit."""
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    return None if limit == resource.RLIM_INFINITY else limit >> 20


def _taken_mib() -> int:
    """Return how much address space this process has; 0 where that is not known (not Linux)."""
    with suppress(OSError):
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        return pages * resource.getpagesize() >> 20
    return 0
