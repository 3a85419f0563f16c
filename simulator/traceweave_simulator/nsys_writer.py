"""Nsight Systems reports as `nsys export --type=sqlite` writes them: every table of schema
3.7.2, the empty ones too."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from contextlib import closing
from importlib import resources
from pathlib import Path

import numpy as np

from traceweave_simulator.catalogue import PAGEABLE
from traceweave_simulator.errors import SimulationError
from traceweave_simulator.nsys_nvtx import nvtx_rows
from traceweave_simulator.nsys_report import Report, insert
from traceweave_simulator.nsys_target import describe_target
from traceweave_simulator.places import FIRST_CORRELATION, device_of
from traceweave_simulator.program import GpuOp
from traceweave_simulator.run import Index, Run

API_VERSIONS = {
    "cudaLaunchKernel": "cudaLaunchKernel_v7000",
    "cudaLaunchKernelExC": "cudaLaunchKernelExC_v11060",
    "cudaMemcpyAsync": "cudaMemcpyAsync_v3020",
    "cudaEventRecord": "cudaEventRecord_v3020",
    "cudaStreamWaitEvent": "cudaStreamWaitEvent_v3020",
    "cudaStreamSynchronize": "cudaStreamSynchronize_v3020",
    "cudaDeviceSynchronize": "cudaDeviceSynchronize_v3020",
}
"""CUDA's name of a call -> nsys's, with the version of its binary interface."""

MEMORY_KINDS = {1: (1, 2), 2: (2, 1), 8: (2, 2)}
NO_STREAM = 4_294_967_295
SYNC_TYPES = {"cudaStreamSynchronize": (3, 7), "cudaDeviceSynchronize": (4, NO_STREAM)}
"""Call -> CUPTI's type of synchronization and the stream."""


def write_nsys(
    run: Run,
    folder: str | Path,
    ranks_per_report: int = 1,
    emit_nvtx: bool = False,
    payload: bool = True,
    step_name: str = "step {step}",
    report_names: str | None = None,
    ranks: Iterable[int] | None = None,
) -> list[Path]:
    """Write one SQLite report per `ranks_per_report` ranks into `folder` and return the paths.

    `emit_nvtx`: an NVTX range for every operator, as torch.autograd.profiler.emit_nvtx makes.
    `payload`: NCCL ranges carry communicator, size and rank as jsonText. `report_names`: a pattern
    with {rank} and {host}; None: report_rank{rank}, or report_node{host}_{rank} of the first rank.
    `ranks`: only these. Ranks of one report must share a host and a clock.
    """
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    wanted = list(run.ranks if ranks is None else ranks)
    pattern = report_names or (
        "report_rank{rank}" if ranks_per_report == 1 else "report_node{host}_{rank}"
    )
    paths = []
    for at in range(0, len(wanted), ranks_per_report):
        members = wanted[at : at + ranks_per_report]
        _check_shared_clock(run, members)
        host = run.config.host_of(members[0])
        path = target / (pattern.format(rank=members[0], host=host) + ".sqlite")
        path.unlink(missing_ok=True)
        ReportWriter(run, members, payload).write(path, emit_nvtx, step_name)
        paths.append(path)
    return paths


def _check_shared_clock(run: Run, ranks: Sequence[int]) -> None:
    places = {(run.config.host_of(r), run.clocks[r]) for r in ranks}
    if len(places) > 1:
        raise SimulationError(
            f"ranks {', '.join(map(str, ranks))} do not share a host and a clock, "
            "so they cannot share a report; set ranks_per_report or hosts."
        )


class ReportWriter(Report):
    """Writes the events of a report."""

    def write(self, path: Path, emit_nvtx: bool, step_name: str) -> None:
        """Write the whole file."""
        with closing(sqlite3.connect(path)) as con:
            con.executescript("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;")
            con.executescript(resources.files(__package__).joinpath("nsys_schema.sql").read_text())
            for rank in self.ranks:
                self._calls(con, rank)
                self._synchronizations(con, rank)
                self._kernels(con, rank)
                self._copies(con, rank)
                insert(con, "NVTX_EVENTS", nvtx_rows(self, rank, emit_nvtx, step_name))
            describe_target(con, self)
            insert(
                con,
                "StringIds",
                {"id": list(self.strings.ids.values()), "value": list(self.strings.ids)},
            )
            con.commit()

    # -- events

    def _calls(self, con: sqlite3.Connection, rank: int) -> None:
        run = self.run
        rows = run.recorded(run.calls.start, rank)
        kinds = run.calls.kinds
        start = self.times(rank, run.calls.start[rows, rank]).tolist()
        end = self.times(rank, run.calls.end[rows, rank]).tolist()
        names = [self.strings.id(API_VERSIONS[k.name]) for k in kinds]
        threads = [self.thread(rank, k.thread) for k in kinds]
        kind = run.calls.kind[rows]
        correlation = (rows + FIRST_CORRELATION).tolist()
        insert(
            con,
            "CUPTI_ACTIVITY_KIND_RUNTIME",
            {
                "start": start,
                "end": end,
                "eventClass": 0,
                "globalTid": _by(threads, kind),
                "correlationId": correlation,
                "nameId": _by(names, kind),
                "returnValue": 0,
            },
        )

    def _synchronizations(self, con: sqlite3.Connection, rank: int) -> None:
        run = self.run
        rows = run.recorded(run.calls.start, rank)
        rows = rows[np.array([k.name in SYNC_TYPES for k in run.calls.kinds])[run.calls.kind[rows]]]
        kind = run.calls.kind[rows]
        types = [SYNC_TYPES.get(k.name, (0, 0)) for k in run.calls.kinds]
        insert(
            con,
            "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION",
            {
                "start": self.times(rank, run.calls.start[rows, rank]).tolist(),
                "end": self.times(rank, run.calls.end[rows, rank]).tolist(),
                "deviceId": device_of(run, rank),
                "contextId": 1,
                "streamId": _by([stream for _, stream in types], kind),
                "correlationId": (rows + FIRST_CORRELATION).tolist(),
                "globalPid": self.process(rank),
                "syncType": _by([number for number, _ in types], kind),
                "eventId": NO_STREAM,
            },
        )

    def _gpu_rows(self, rank: int, wanted: str) -> Index:
        run = self.run
        rows = run.recorded(run.gpu.start, rank)
        rows = rows[np.array([k.kind == wanted for k in run.gpu.kinds])[run.gpu.kind[rows]]]
        in_order: Index = rows[np.argsort(run.gpu.start[rows, rank], kind="stable")]
        return in_order

    def _common(self, rank: int, rows: Index) -> dict[str, object]:
        run = self.run
        return {
            "start": self.times(rank, run.gpu.start[rows, rank]).tolist(),
            "end": self.times(rank, run.gpu.end[rows, rank]).tolist(),
            "deviceId": device_of(run, rank),
            "contextId": 1,
            "greenContextId": 0,
            "streamId": _by([k.stream for k in run.gpu.kinds], run.gpu.kind[rows]),
            "correlationId": (run.gpu_call[rows] + FIRST_CORRELATION).tolist(),
            "globalPid": self.process(rank),
        }

    def _kernels(self, con: sqlite3.Connection, rank: int) -> None:
        run = self.run
        rows = self._gpu_rows(rank, "kernel")
        kind = run.gpu.kind[rows]
        kernels = [k.kernel for k in run.gpu.kinds]
        columns = self._common(rank, rows)
        short = [self.strings.id(k.short) for k in kernels]
        columns |= {
            "demangledName": _by([self.strings.id(demangled(k.name)) for k in kernels], kind),
            "shortName": _by(short, kind),
            "mangledName": _by(short, kind),
            "launchType": 1,
            "cacheConfig": 1,
            "registersPerThread": _by([k.registers for k in kernels], kind),
            "staticSharedMemory": 0,
            "dynamicSharedMemory": _by([k.shared_memory for k in kernels], kind),
            "localMemoryPerThread": 0,
            "localMemoryTotal": 207_618_048,
            "gridId": rows.tolist(),
            "sharedMemoryExecuted": 32_768,
            "sharedMemoryLimitConfig": 0,
        }
        for number, axis in enumerate("XYZ"):
            columns[f"grid{axis}"] = _by([k.grid[number] for k in kernels], kind)
            columns[f"block{axis}"] = _by([k.block[number] for k in kernels], kind)
        insert(con, "CUPTI_ACTIVITY_KIND_KERNEL", columns)

    def _copies(self, con: sqlite3.Connection, rank: int) -> None:
        rows = self._gpu_rows(rank, "memcpy")
        kinds = self.run.gpu.kinds
        kind = self.run.gpu.kind[rows]
        columns = self._common(rank, rows)
        columns |= {
            "bytes": _by([k.bytes for k in kinds], kind),
            "copyKind": _by([k.copy_kind for k in kinds], kind),
            "srcKind": _by([_source_kind(k) for k in kinds], kind),
            "dstKind": _by([MEMORY_KINDS.get(k.copy_kind, (0, 0))[1] for k in kinds], kind),
        }
        insert(con, "CUPTI_ACTIVITY_KIND_MEMCPY", columns)


def _source_kind(copy: GpuOp) -> int:
    pageable = copy.kernel.name == PAGEABLE.name
    return 0 if pageable else MEMORY_KINDS.get(copy.copy_kind, (0, 0))[0]


def demangled(name: str) -> str:
    """Return a kernel's name as nsys demangles it."""
    return name.replace("(anonymous namespace)", "<unnamed>").replace(
        "<4096ul>", "<(unsigned long)4096>"
    )


def _by(values: Sequence[int], kind: Index) -> list[int]:
    result: list[int] = np.asarray(values, dtype=np.int64)[kind].tolist()
    return result
