"""What becomes of the rows of an export: exports of a few rows each, in nsys_rows.cases."""

import struct
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

import traceweave
from tests.sources import nsys_export
from tests.sources.nsys_export import ALL_REDUCE, Row, blob, collective_payload, process, thread
from tests.sources.nsys_loading import load_export, load_rows
from tests.told import Case, told
from traceweave.sources import nsys

COMM = 0xF123456789ABCDEF
"""A communicator id beyond the range of signed 64-bit integers, as half of them are."""
WHOLE = collective_payload(ALL_REDUCE, COMM, 4096, 0)
BROKEN = [
    b"", b"short", WHOLE[:-20], blob(99, bytes(24)),
    struct.pack("<4Q", 1, ALL_REDUCE, 2**63, 2**63),
    struct.pack("<4Q24x", 1, ALL_REDUCE, 2**64 - 32, 32),
]  # fmt: skip
"""Blobs that cannot be decoded; the last two overflow."""
ON_GPU = {"deviceId": 0, "contextId": 1, "streamId": 7, "globalPid": process(11)}

Event = tuple[str, list[Row]]


def of(table: str, make: Callable[..., Row]) -> Callable[..., Event]:
    return lambda *values, **more: (table, [make(*values, **more)])


def row(table: str, **columns: Any) -> Event:
    return table, [columns]


def launched(pid: int, start: int, end: int, launch: int, name: str, **more: Any) -> Event:
    """A kernel, with the call that launches it: 2 ns long, its number is the time."""
    return "", [
        nsys_export.kernel(pid, start, end, launch, name, **more),
        nsys_export.call(pid, launch, launch + 2, launch, "cuLaunchKernelEx"),
    ]


def domain(pid: int) -> Event:
    return row("NVTX_EVENTS", start=-9, eventType=75, text="NCCL", domainId=1,
               globalTid=thread(pid))  # fmt: skip


def environment(**variables: str) -> Event:
    return "META_DATA_CAPTURE", [
        {"name": "PROCESS_0:ENVIRONMENT_VARIABLE", "value": f'{name}="{value}"'}
        for name, value in variables.items()
    ]


def reduced(start: int, size: int) -> Event:
    """A call of ncclAllReduce, 1 ns long."""
    payload = collective_payload(ALL_REDUCE, COMM, size, 0)
    return "NVTX_EVENTS", [nsys_export.nccl(11, start, start + 1, "ncclAllReduce", payload)]


def group(*peers: int | None) -> Event:
    """A group that sends to and receives from each peer; None: no payload."""
    rows = [nsys_export.nccl(11, 10, 11, "ncclGroupStart")]
    for i, peer in enumerate(peers):
        for shift, name, schema in ((0, "ncclSend", 16777225), (2, "ncclRecv", 16777226)):
            payload = None if peer is None else collective_payload(schema, COMM, 64, peer)
            at = 12 + 4 * i + shift
            rows.append(nsys_export.nccl(11, at, at + 1, name, payload))
    return "NVTX_EVENTS", [*rows, nsys_export.nccl(11, 30, 40, "ncclGroupEnd")]


NAMES = {
    **vars(nsys_export),
    "kernel": of("CUPTI_ACTIVITY_KIND_KERNEL", nsys_export.kernel),
    "call": of("CUPTI_ACTIVITY_KIND_RUNTIME", nsys_export.call),
    "nvtx": of("NVTX_EVENTS", nsys_export.nvtx),
    "nccl": of("NVTX_EVENTS", nsys_export.nccl),
    **{f.__name__: f for f in (row, launched, domain, environment, reduced, group)},
    "COMM": COMM, "WHOLE": WHOLE, "BROKEN": BROKEN, "ON_GPU": ON_GPU,
}  # fmt: skip


def tables_of(events: Sequence[Event]) -> dict[str, list[Row]]:
    tables: dict[str, list[Row]] = {}
    for table, rows in events:
        for one in rows:
            launch = "CUPTI_ACTIVITY_KIND_" + ("KERNEL" if "shortName" in one else "RUNTIME")
            tables.setdefault(table or launch, []).append(one)
    return tables


@told
def test_rows_of_an_export(case: Case, tmp_path: Path) -> None:
    """Beside the tables of a database there are `processes`, `issues`, `notes` and `loaded`."""
    tables = tables_of(case.given(NAMES))
    if any(event.get("binaryData") for event in tables.get("NVTX_EVENTS", ())):
        tables["NVTX_PAYLOAD_SCHEMA_ENTRIES"] = nsys_export.NCCL_SCHEMAS * 2
    loaded = load_rows(tmp_path, epoch=0, **tables)
    for name, told_ in (
        ("processes", [vars(p) for p in loaded.trace.processes]),
        ("issues", [vars(issue) for issue in loaded.loaded.issues]),
        ("notes", [{"note": note} for note in loaded.trace.notes]),
        ("loaded", [{"read": loaded.loaded.events_read, "stored": loaded.loaded.events_stored}]),
    ):
        if told_:
            loaded.con.execute(
                f"CREATE TABLE {name} AS SELECT unnest($1, recursive := true)", [told_]
            )
    case.holds(loaded.rows, NAMES)


def test_progress_sums_to_the_size_of_the_file(tmp_path: Path) -> None:
    loaded = load_rows(tmp_path, NVTX_EVENTS=[nsys_export.nvtx(11, 5, 8, "step")] * 100)
    told: list[int] = []
    loaded.con.execute("DELETE FROM base.host_ops")
    nsys.load(loaded.con, loaded.trace, 2, told.append)
    assert sum(told) == loaded.trace.size_bytes
    assert min(told) >= 0


def test_a_program_of_one_kernel_is_no_doubtful_record(tmp_path: Path) -> None:
    """Its data is copied in 60 pieces; of 60 kernels one that is as long would be doubtful, and
    so would a copy, unless it moves most of the bytes."""
    for kernels, copied, doubts in (
        (1, None, []),
        (60, None, [("one op",)]),
        (60, 64, [("one op",)]),
        (60, 9_999, []),
    ):
        copies = [
            {"start": 10 * n, "end": 10 * n + 4, "correlationId": n, "bytes": 64, "copyKind": 1,
             "srcKind": 0, "dstKind": 2, **ON_GPU}
            for n in range(1, 61)
        ]  # fmt: skip
        if copied:
            copies[-1] |= {"start": 200_000, "end": 290_000, "bytes": copied}
        calls = [nsys_export.call(11, 10 * n - 8, 10 * n - 3, n, "cudaMemcpy") for n in range(61)]
        starts = [(1000 * n, 100 + n, 10) for n in range(1, kernels)]
        starts.append((100_000, 99, 10 if copied else 90_000))
        path = nsys_export.write_export(
            tmp_path / f"{kernels}_{copied}.sqlite",
            CUPTI_ACTIVITY_KIND_MEMCPY=copies,
            CUPTI_ACTIVITY_KIND_KERNEL=[
                nsys_export.kernel(11, at, at + long, number, "sum") for at, number, long in starts
            ],
            CUPTI_ACTIVITY_KIND_RUNTIME=calls
            + [nsys_export.call(11, at - 8, at - 3, n, "cudaLaunchKernel") for at, n, _ in starts],
        )
        assert load_export(path).rows("SELECT kind FROM base.doubts") == doubts


# what was wrong: a report of nsys 2023.4 under a driver of 2025 has 801 calls of NCCL on each of
# two ranks, a kernel on one and four copies on the other, and was called fit to judge
@pytest.mark.parametrize("recorded", [True, False])
def test_calls_of_nccl_without_kernels_have_no_device_records(
    tmp_path: Path, recorded: bool
) -> None:
    events = []
    for pid, rank in ((11, 0), (22, 1)):
        init = nsys_export.init_payload(COMM, 2, rank, rank)
        events += [
            domain(pid),
            ("NVTX_EVENTS", [nsys_export.nccl(pid, 0, 9, "ncclCommInitRankConfig", init)]),
            launched(pid, 9000, 9050, 70, "gemm", deviceId=rank),
        ]
        for at in range(10, 60, 10):
            call = nsys_export.nccl(pid, at, at + 9, "ncclAllReduce", WHOLE)
            events.append(("NVTX_EVENTS", [call]))
            if recorded:
                name = "ncclDevKernel_AllReduce_Sum_f32_RING_LL"
                events.append(launched(pid, 100 * at, 100 * at + 50, at + 2, name, deviceId=rank))
    schemas = nsys_export.NCCL_SCHEMAS
    load_rows(tmp_path, NVTX_PAYLOAD_SCHEMA_ENTRIES=schemas, **tables_of(events))
    result = traceweave.ingest([tmp_path / "rows.sqlite"], tmp_path / "run.duckdb")
    said = [
        "the file has no record of what the device did for 5 launches. The rank is unknown, left"
        " out of all numbers"
    ]
    assert [text.partition(": ")[2] for text in result.recording] == ([] if recorded else said)
