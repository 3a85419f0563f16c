from typing import Any

import duckdb
import pytest
from duckdb import DuckDBPyConnection as Connection

from tests.analyses.builders import Builder, Interval, check, rows
from tests.marks import nightly
from tests.told import Case, told

US = 1_000

DEVICE = ("dependency", "kernel_delay", "device_delay")
"""Causes of what is left of a gap once the launch has returned."""
FITS = "cudaOccupancyMaxActiveBlocksPerMultiprocessor"
ALLOCATING = (
    *("cudaMalloc", "cudaFree", "hipMalloc", "cuMemCreate", "cuModuleLoadData"),
    *("cuLibraryLoadData", "cudaMemcpyAsync", "cudaLaunchKernel"),
)
WAITING = [
    ("cudaStreamSynchronize", "runtime"), ("cudaDeviceSynchronize_v3020", "runtime"),
    ("cudaEventSynchronize", "runtime"), ("cudaMemcpy", "runtime"),
    ("cuCtxSynchronize", "driver"), ("hipDeviceSynchronize", "runtime"),
    ("hipMemcpyWithStream", "runtime"), ("aten::item", "op"), ("aten::_local_scalar_dense", "op"),
]  # fmt: skip
LOADER = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"


class Gaps(Builder):
    """Ops by us."""

    def step_of(self, rank: int, until: int, device: int | None = None) -> None:
        """A rank with one step, whose device window begins at `device`."""
        self.rank(rank)
        self.step(rank, 1, (0, until), None if device is None else (device, until))

    def two_kernels(self, first_end: int, second: int, launch: Interval, rank: int = 0) -> None:
        """Two kernels of one stream in one step; the second is launched by a call at `launch`."""
        self.step_of(rank, second + 10, device=10)
        self.gpu(rank, (10, first_end), name="first", launch=self.launch(rank, (1, 5)))
        self.gpu(rank, (second, second + 10), name="second", launch=self.launch(rank, launch))

    def idle_80(self, rank: int = 0, launch: Interval = (70, 75)) -> None:
        """80 us between two kernels, of which the host has those until the launch returns."""
        self.two_kernels(20, 100, launch, rank)

    def call(self, rank: int, at: Interval, name: str, tid: int = 1) -> int:
        """A call of the runtime inside an operator."""
        return self.host(rank, at, name, "runtime", 1, tid)

    def overhead(self, rank: int, name: str, at: Interval) -> None:
        """What the profiler recorded of itself."""
        self.sql(
            "INSERT INTO base.other_events BY NAME SELECT 0 AS source_id, 'X' AS phase,"
            f" 'overhead' AS category, '-1' AS pid, '0' AS tid, {rank} AS rank,"
            f" {rank + 1000} AS op_id, '{name}' AS name, {at[0] * US} AS start_local_ns,"
            f" {(at[1] - at[0]) * US} AS duration_ns"
        )


def _ordered(con: Connection, name: str, **params: object) -> list[dict[str, Any]]:
    """Return the rows of `gaps` in the order of time, by rank, device and stream; of `host` the
    host's parts alone, of `longest` in the order of the analysis."""
    got = rows(con, "gaps", **params)
    if name == "longest":
        return got
    got.sort(key=lambda g: (g["rank"], g["device"] or 0, g["stream"] or 0, g["start_ns"]))
    return [row for row in got if name == "gaps" or row["cause"] not in DEVICE]


@told
def test_gaps(empty_run: duckdb.DuckDBPyConnection, case: Case) -> None:
    check(Gaps(empty_run, unit=US), case, _ordered, **globals())


INTERVALS = {
    "touching": ([(0, 10), (10, 20)], []),
    "apart": ([(0, 10), (11, 20)], [(10, 11)]),
    "twice": ([(0, 10), (0, 10), (12, 20)], [(10, 12)]),
    "nested": ([(0, 15), (3, 5), (16, 20)], [(15, 16)]),
    "without length": ([(0, 10), (14, 14), (18, 20)], [(10, 14), (14, 18)]),
    "without length at an end": ([(0, 10), (10, 10), (18, 20)], [(10, 18)]),
}


def test_what_lies_between_intervals(build: Builder) -> None:
    for rank, (ops, _) in enumerate(INTERVALS.values()):
        build.rank(rank)
        for at in ops:
            build.gpu(rank, at)
    got = _ordered(build.con, "gaps", min_gap_ns=0)
    assert [(row["rank"], row["start_ns"], row["end_ns"]) for row in got] == [
        (rank, *gap) for rank, (_, gaps) in enumerate(INTERVALS.values()) for gap in gaps
    ]


@nightly
@pytest.mark.parametrize("window", ["host", "span"])
def test_device_gaps_add_up_to_the_idle_time_of_the_breakdown(build: Builder, window: str) -> None:
    build.rank(0)
    build.rank(1, offset_ns=17)
    for rank in (0, 1):
        for step in (0, 1, 2):
            build.step(rank, step, host=(100 * step, 100 * step + 90))
        for at in ((3, 40), (20, 57), (95, 120), (250, 251), (260, 295)):
            build.gpu(rank, at, "communication" if at[0] % 2 else "compute", stream=at[0] % 2)
    idle = {
        (row["rank"], row["step"]): row["idle_ns"]
        for row in rows(build.con, "breakdown", window=window)
    }
    gaps: dict[tuple[int, int], int] = dict.fromkeys(idle, 0)
    for row in rows(build.con, "gaps", window=window, min_gap_ns=0):
        gaps[row["rank"], row["step"]] += row["duration_ns"]
    assert gaps == idle
    assert sum(idle.values()) > 0
