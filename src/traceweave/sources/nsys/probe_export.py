"""What an export holds, found without reading its events into memory."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from traceweave.sources.model import Process, Trace
from traceweave.sources.nsys.clock import read_clock
from traceweave.sources.nsys.event_tables import (
    GRAPH_TRACE,
    KERNELS,
    MEMCPY,
    MPI,
    NVTX,
    NVTX_RANGES,
    OS_CALLS,
    RUNTIME,
    USABLE,
)
from traceweave.sources.nsys.export import Export
from traceweave.sources.nsys.open_export import open_export
from traceweave.sources.nsys.payload import reduction_enum
from traceweave.sources.nsys.processes import Candidate, find_candidates, pid_of
from traceweave.sources.nsys.ranks import RankEvidence, find_ranks
from traceweave.sources.nsys.recognize import TABLE_SUFFIXES
from traceweave.sources.unpack import bomb_bytes

# the id of NCCL's enum of reductions, less 2^24, identifies the version that wrote the payloads
_NCCL_BY_ENUM = {15: "2.26", 16: "2.27", 19: "2.28"}


def probe_export(path: Path, trust_packed: bool) -> Trace:
    """Describe an export: its processes with the evidence for their ranks, its clock, its maker.

    Its time range comes at no cost, so it is always there.
    Raises InputError if it cannot be opened, or unpacks to an absurd size and is not trusted.
    """
    with open_export(path, None if trust_packed else bomb_bytes(path)) as export:
        base_ns, notes = read_clock(export)
        candidates = find_candidates(export)
        ranks, contradictions = find_ranks(export, candidates)
        first, last = _span(export, base_ns)
        return Trace(
            path=path,
            format="nsys",
            size_bytes=_size(path),
            processes=tuple(
                _process(export, c, ranks.get(c.global_pid, RankEvidence())) for c in candidates
            ),
            producer=export.options.get("EXPORT_PRODUCT_NAME", "NVIDIA Nsight Systems"),
            producer_version=export.options.get("EXPORT_PRODUCT_VERSION"),
            first_ns=first,
            last_ns=last,
            versions=_versions(export),
            notes=(*notes, *contradictions, *_notes(export, candidates)),
        )


def _size(path: Path) -> int:
    if path.is_dir():
        return sum(f.stat().st_size for f in path.iterdir() if f.suffix in TABLE_SUFFIXES)
    return path.stat().st_size


def _process(export: Export, candidate: Candidate, evidence: RankEvidence) -> Process:
    device = candidate.devices[0] if candidate.devices else None
    enum = reduction_enum(export) if candidate.nccl else None
    return Process(
        key=candidate.global_pid,
        rank=evidence.rank,
        rank_source=evidence.source,
        world_size=evidence.world_size,
        host=_host(export),
        pid=pid_of(candidate.global_pid) or None,
        device=device,
        gpu_name=_gpu_name(export, candidate, device),
        backend="nccl" if candidate.nccl else "mpi" if candidate.mpi else None,
        nccl_version=_NCCL_BY_ENUM.get(enum) if enum is not None else None,
    )


def _host(export: Export) -> str | None:
    host = dict(export.pairs("TARGET_INFO_SYSTEM_ENV")).get("Hostname")
    return host if host and host != "removed" else None


def _versions(export: Export) -> tuple[tuple[str, str], ...]:
    """Return the versions of the host's driver; a host without one says 0."""
    told = dict(export.pairs("TARGET_INFO_SYSTEM_ENV"))
    found = []
    if re.fullmatch(r"[1-9]\d{3,5}", cuda := told.get("CudaDriverVersion", "")):
        found.append(("CUDA driver", f"{int(cuda) // 1000}.{int(cuda) % 1000 // 10}"))
    if re.fullmatch(r"[1-9]\d*(\.\d+)+", driver := told.get("NvDriverVersion", "")):
        found.append(("NVIDIA driver", driver))
    return tuple(found)


def _gpu_name(export: Export, candidate: Candidate, device: int | None) -> str | None:
    """Return the GPU's name: its number in TARGET_INFO_GPU is not the CUDA ordinal."""
    if not export.has("TARGET_INFO_GPU", "id", "name"):
        return None
    if export.has("TARGET_INFO_CUDA_DEVICE", "gpuId", "cudaId", "pid"):
        rows = export.rows(
            "SELECT g.name FROM TARGET_INFO_CUDA_DEVICE AS d JOIN TARGET_INFO_GPU AS g"
            " ON g.id = d.gpuId WHERE d.pid = ? AND d.cudaId = ?",
            [pid_of(candidate.global_pid), device],
        )
        if rows:
            return str(rows[0][0])
    names = {r[0] for r in export.rows("SELECT DISTINCT name FROM TARGET_INFO_GPU")}
    return str(names.pop()) if len(names) == 1 else None


def _span(export: Export, base_ns: int) -> tuple[int | None, int | None]:
    """Return the first and last time of the main event tables that can be used, UTC ns."""
    first: list[int] = []
    last: list[int] = []
    for table in (KERNELS, MEMCPY, GRAPH_TRACE, RUNTIME, NVTX, OS_CALLS, *MPI):
        if export.has(table.name, "start", "end"):
            ranges = f" AND eventType IN ({NVTX_RANGES})" if table is NVTX else ""
            rows = export.rows(
                f'SELECT min(start), max("end") FROM {table.name} WHERE {USABLE}{ranges}'
            )
            first += [r[0] for r in rows if isinstance(r[0], int)]
            last += [r[1] for r in rows if isinstance(r[1], int)]
    return (
        min(first) + base_ns if first else None,
        max(last) + base_ns if last else None,
    )


def _notes(export: Export, candidates: list[Candidate]) -> Iterator[str]:
    if export.damaged:
        yield export.damaged
    if export.path.is_dir() and export.has(KERNELS.name) and not export.has("META_DATA_CAPTURE"):
        # two tables that nsys 2023.4 leaves out of folders: events are missed, settings are not
        yield (
            "a folder that lacks META_DATA_CAPTURE, as nsys 2023.4 writes them: records of CUDA"
            " events, if there were any, are in its SQLite export only"
        )
    if not candidates:
        yield "it has no process with CUDA, NVTX, MPI or OS calls"
    for c in candidates:
        if len(c.devices) > 1:
            pid = pid_of(c.global_pid)
            yield f"process {pid} drives {len(c.devices)} GPUs: it counts as one rank"
