"""Which processes of an export are ranks' processes: who ran kernels, called NCCL or MPI."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass

from traceweave.sources.nsys.event_tables import KERNELS, NVTX, NVTX_RANGES, OS_CALLS, RUNTIME
from traceweave.sources.nsys.export import Export
from traceweave.sources.values import MOST_RANK, whole

PROCESS_MASK = -(1 << 24)
"""globalTid & PROCESS_MASK = globalPid: the lowest 24 bits are the thread id."""

_PID_MASK = 0xFFFFFF
_UNNAMED = 0
"""Owner of the kernels of an export that was stripped of globalPid."""


def pid_of(global_pid: int) -> int:
    """Return the process id (its lowest 24 bits) that a globalPid or globalTid carries."""
    return (global_pid >> 24) & _PID_MASK


@dataclass(frozen=True)
class Candidate:
    """A process that does a rank's work."""

    global_pid: int
    devices: tuple[int, ...]
    """CUDA ordinals on which it ran kernels, the busiest first; empty if none is recorded."""
    nccl: bool
    mpi: bool


def find_candidates(export: Export) -> list[Candidate]:
    """Return the processes that do a rank's work, in the order (device, pid).

    Those with kernels, NCCL or MPI ranges; failing that those with NVTX ranges, CUDA calls or OS
    calls.
    """
    devices = _devices(export)
    nccl, mpi = _callers(export)
    mpi |= set(mpi_ranks(export))
    if set(devices) == {_UNNAMED}:
        callers = _cuda_callers(export)
        devices = {callers.pop() if len(callers) == 1 else _UNNAMED: devices[_UNNAMED]}
    owners = set(devices) | nccl | mpi
    owners = owners or _owners(export, NVTX.name, f"WHERE eventType IN ({NVTX_RANGES})")
    owners = owners or _cuda_callers(export)
    busiest = "GROUP BY 1 ORDER BY count(*) DESC, 1 LIMIT 1"
    owners = owners or _owners(export, OS_CALLS.name, busiest)
    found = [Candidate(g, tuple(devices.get(g, ())), g in nccl, g in mpi) for g in owners]
    return sorted(found, key=lambda c: (c.devices[:1], pid_of(c.global_pid)))


def _devices(export: Export) -> dict[int, list[int]]:
    kernels: dict[int, Counter[int]] = defaultdict(Counter)
    if export.has(KERNELS.name, "deviceId"):
        process = "globalPid" if export.has(KERNELS.name, "globalPid") else str(_UNNAMED)
        rows = export.rows(
            f"SELECT {process}, deviceId, count(*) FROM {KERNELS.name} GROUP BY 1, 2"
        )
        for global_pid, device, count in rows:
            if isinstance(global_pid, int) and isinstance(device, int):
                kernels[global_pid][device] += count
    return {g: [d for d, _ in counts.most_common()] for g, counts in kernels.items()}


def _callers(export: Export) -> tuple[set[int], set[int]]:
    """Return the processes with NVTX ranges of NCCL and of MPI: by domain, or else by name."""
    if not export.has(NVTX.name, "globalTid", "eventType", "textId", "text", "domainId"):
        return set(), set()
    domains = {
        (process, domain): name
        for process, domain, name in export.rows(
            f"SELECT globalTid & {PROCESS_MASK}, domainId, text FROM {NVTX.name}"
            " WHERE eventType = 75"
        )
    }
    # one pass over a table of maybe ten million rows, whose names are mostly not in StringIds
    named = "textId IN (SELECT id FROM StringIds WHERE value GLOB '{}[A-Z]*')"
    if not export.has("StringIds", "id", "value"):
        named = "FALSE"
    kinds = export.rows(
        f"SELECT DISTINCT globalTid & {PROCESS_MASK}, domainId, {named.format('nccl')},"
        f" {named.format('MPI_')} FROM {NVTX.name} WHERE eventType IN ({NVTX_RANGES})"
    )
    nccl = {p for p, domain, is_nccl, _ in kinds if is_nccl or domains.get((p, domain)) == "NCCL"}
    mpi = {p for p, domain, _, is_mpi in kinds if is_mpi or domains.get((p, domain)) == "MPI"}
    return nccl - {None}, mpi - {None}


def mpi_ranks(export: Export) -> dict[int, int]:
    """Return the rank of each process that MPI_RANKS names without contradiction."""
    if not export.has("MPI_RANKS", "globalTid", "rank"):
        return {}
    rows = export.rows(f"SELECT DISTINCT globalTid & {PROCESS_MASK}, rank FROM MPI_RANKS")
    seen = Counter(r[0] for r in rows)
    ranks = ((g, whole(rank, MOST_RANK)) for g, rank in rows if seen[g] == 1)
    return {g: rank for g, rank in ranks if rank is not None}


def _cuda_callers(export: Export) -> set[int]:
    return _owners(export, RUNTIME.name)


def _owners(export: Export, table: str, which: str = "") -> set[int]:
    if not export.has(table, "globalTid"):
        return set()
    kind = "" if which.startswith("GROUP") else "DISTINCT "
    rows = export.rows(f"SELECT {kind}globalTid & {PROCESS_MASK} FROM {table} {which}")
    return {r[0] for r in rows if isinstance(r[0], int)}
