"""Write a recording as an SQLite export of Nsight Systems, with NCCL's ranges and payloads."""

from __future__ import annotations

import sqlite3
import struct
from pathlib import Path

from .kineto import kernel_name
from .program import BYTES, Group
from .recording import Event, Recording
from .timeline import Kernel

SCHEMA_BASE = 1 << 24
VID = 1 << 48
NCCL_DOMAIN = 1
CALLS = {
    "all_gather": ("ncclAllGather", 4), "all_reduce": ("ncclAllReduce", 5),
    "barrier": ("ncclAllReduce", 5), "reduce_scatter": ("ncclReduceScatter", 7),
    "send": ("ncclSend", 9), "recv": ("ncclRecv", 10),
}  # fmt: skip
COMMUNICATOR, SIZE = ("NCCL communicator ID", 18, 0), ("Message size [bytes]", 22, 8)
LAYOUTS = {
    4: (COMMUNICATOR, SIZE),
    5: (COMMUNICATOR, SIZE, ("Reduction operation", SCHEMA_BASE + 14, 16)),
    7: (COMMUNICATOR, SIZE, ("Reduction operation", SCHEMA_BASE + 14, 16)),
    9: (COMMUNICATOR, SIZE, ("Peer rank", 5, 16)),
    10: (COMMUNICATOR, SIZE, ("Peer rank", 5, 16)),
    11: (COMMUNICATOR, ("No. of ranks", 5, 8), ("Rank", 5, 12), ("CUDA device", 5, 16)),
}
TABLES = """
CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE META_DATA_EXPORT (name TEXT, value TEXT);
CREATE TABLE META_DATA_CAPTURE (name TEXT, value TEXT);
CREATE TABLE TARGET_INFO_SESSION_START_TIME (utcEpochNs INTEGER, utcTime TEXT, localTime TEXT);
CREATE TABLE TARGET_INFO_SYSTEM_ENV (
    globalVid INTEGER, devStateName TEXT, name TEXT, nameEnum INTEGER, value TEXT);
CREATE TABLE ANALYSIS_DETAILS (
    globalVid INTEGER NOT NULL, duration INTEGER NOT NULL, startTime INTEGER NOT NULL,
    stopTime INTEGER NOT NULL);
CREATE TABLE PROCESSES (globalPid INTEGER, pid INTEGER, name TEXT);
CREATE TABLE TARGET_INFO_GPU (
    vmId INTEGER NOT NULL, id INTEGER NOT NULL, name TEXT, busLocation TEXT NOT NULL,
    smCount INTEGER, uuid TEXT, cuDevice INTEGER);
CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (
    start INTEGER NOT NULL, "end" INTEGER NOT NULL, deviceId INTEGER NOT NULL,
    contextId INTEGER NOT NULL, greenContextId INTEGER, streamId INTEGER NOT NULL,
    correlationId INTEGER, globalPid INTEGER, demangledName INTEGER NOT NULL,
    shortName INTEGER NOT NULL, mangledName INTEGER, launchType INTEGER, gridX INTEGER NOT NULL,
    gridY INTEGER NOT NULL, gridZ INTEGER NOT NULL, blockX INTEGER NOT NULL,
    blockY INTEGER NOT NULL, blockZ INTEGER NOT NULL, graphNodeId INTEGER);
CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (
    start INTEGER NOT NULL, "end" INTEGER NOT NULL, eventClass INTEGER NOT NULL, globalTid INTEGER,
    correlationId INTEGER, nameId INTEGER NOT NULL, returnValue INTEGER NOT NULL,
    callchainId INTEGER);
CREATE TABLE NVTX_EVENTS (
    start INTEGER NOT NULL, "end" INTEGER, eventType INTEGER NOT NULL, rangeId INTEGER,
    category INTEGER, color INTEGER, text TEXT, globalTid INTEGER, endGlobalTid INTEGER,
    textId INTEGER, domainId INTEGER, uint64Value INTEGER, int64Value INTEGER, doubleValue REAL,
    uint32Value INTEGER, int32Value INTEGER, floatValue REAL, jsonTextId INTEGER, jsonText TEXT,
    binaryData TEXT);
"""
PAYLOAD_TABLES = """
CREATE TABLE NVTX_PAYLOAD_SCHEMAS (
    domainId INTEGER, schemaId INTEGER, name TEXT, "type" INTEGER, flags INTEGER,
    numEntries INTEGER, payloadSize INTEGER, alignTo INTEGER);
CREATE TABLE NVTX_PAYLOAD_SCHEMA_ENTRIES (
    domainId INTEGER NOT NULL, schemaId INTEGER NOT NULL, idx INTEGER NOT NULL, flags INTEGER,
    "type" INTEGER, name TEXT, description TEXT, arrayOrUnionDetail INTEGER, "offset" INTEGER);
"""


class Writer:
    """One report of one rank."""

    def __init__(self, recording: Recording) -> None:
        self.recording = recording
        self.payloads = recording.style != "default"
        self.pid = VID | recording.pid << 24
        self.device = recording.rank % recording.job.per_host
        self.strings: dict[str, int] = {}
        self.rows: dict[str, list[tuple[object, ...]]] = {"KERNEL": [], "RUNTIME": [], "NVTX": []}
        self.session = recording.begin - 1_000_000
        self.correlation = 1000

    def write(self, path: Path) -> None:
        """Write the file."""
        recording = self.recording
        self.rows["NVTX"].append(_nvtx(-5000, None, 75, "NCCL", self._tid(False)))
        if recording.style != "late":
            self._set_up()
        for number, begin, end in recording.steps:
            row = _nvtx(begin - self.session, end - self.session, 59, f"step {number}",
                        self._tid(False), domain=0)  # fmt: skip
            self.rows["NVTX"].append(row)
        for event in recording.events:
            self._event(event)
        base = sqlite3.connect(path)
        base.executescript(TABLES + (PAYLOAD_TABLES if self.payloads else ""))
        self._describe(base)
        for name, rows in self.rows.items():
            table = "NVTX_EVENTS" if name == "NVTX" else f"CUPTI_ACTIVITY_KIND_{name}"
            if rows:
                marks = ", ".join("?" * len(rows[0]))
                base.executemany(f"INSERT INTO {table} VALUES ({marks})", rows)
        base.executemany("INSERT INTO StringIds VALUES (?, ?)",
                         [(n, text) for text, n in self.strings.items()])  # fmt: skip
        base.commit()
        base.close()

    def _describe(self, base: sqlite3.Connection) -> None:
        recording = self.recording
        job = recording.job
        base.execute(
            "INSERT INTO TARGET_INFO_SESSION_START_TIME VALUES (?, '', '')", [self.session]
        )
        base.executemany(
            "INSERT INTO META_DATA_EXPORT VALUES (?, ?)",
            [("EXPORT_PRODUCT_NAME", "NVIDIA Nsight Systems"),
             ("EXPORT_PRODUCT_VERSION", "2025.1.3.140"), ("EXPORT_SCHEMA_VERSION", "3.17.2"),
             ("EXPORT_PARAM_TIME_NORMALIZE", "false"), ("EXPORT_PARAM_TIME_SHIFT", "0")],
        )  # fmt: skip
        variables = {"RANK": recording.rank, "WORLD_SIZE": job.ranks, "LOCAL_RANK": self.device}
        base.executemany(
            "INSERT INTO META_DATA_CAPTURE VALUES ('PROCESS_0:ENVIRONMENT_VARIABLE', ?)",
            [(f'{name}="{value}"',) for name, value in variables.items()],
        )
        base.execute(
            "INSERT INTO TARGET_INFO_SYSTEM_ENV VALUES (?, 'Local (CLI)', 'Hostname', 619, ?)",
            [VID, recording.host],
        )
        stop = recording.finish - self.session
        base.execute("INSERT INTO ANALYSIS_DETAILS VALUES (?, ?, 0, ?)", [VID, stop, stop])
        base.execute("INSERT INTO PROCESSES VALUES (?, ?, 'python3')", [self.pid, recording.pid])
        base.executemany(
            "INSERT INTO TARGET_INFO_GPU VALUES (?, ?, 'NVIDIA H100 80GB HBM3', ?, 132, '', ?)",
            [(VID, n, f"0000:{n}", n) for n in range(job.per_host)],
        )
        for number, layout in LAYOUTS.items() if self.payloads else ():
            schema = SCHEMA_BASE + number
            size = 16 if number == 4 else 24
            base.execute("INSERT INTO NVTX_PAYLOAD_SCHEMAS VALUES (?, ?, NULL, 1, 0, ?, ?, 8)",
                         [NCCL_DOMAIN, schema, len(layout), size])  # fmt: skip
            base.executemany(
                "INSERT INTO NVTX_PAYLOAD_SCHEMA_ENTRIES VALUES (?, ?, ?, 0, ?, ?, NULL, NULL, ?)",
                [(NCCL_DOMAIN, schema, n, kind, name, at or None)
                 for n, (name, kind, at) in enumerate(layout)],
            )  # fmt: skip

    def _tid(self, backward: bool) -> int:
        return self.pid | (self.recording.pid + (480 if backward else 0))

    def _string(self, text: str) -> int:
        return self.strings.setdefault(text, len(self.strings) + 1)

    def _set_up(self) -> None:
        """NCCL's communicators are made before the first step, one after the other."""
        made = dict.fromkeys(
            (k.group, k.ranks) for k in (e.kernel for e in self.recording.events) if k.group
        )
        ordered = sorted(made, key=lambda m: (m[0].name, m[1]) if m[0] else ("", m[1]))
        for n, (group, ranks) in enumerate(ordered):
            if group:
                body = struct.pack("<Qiii4x", _communicator(group, ranks), len(ranks),
                                   ranks.index(self.recording.rank), self.device)  # fmt: skip
                begin = 1_000_000 + n * 30_000_000
                self._range("ncclCommInitRankConfig", begin, begin + 20_000_000, False, 11, body)

    def _range(
        self, name: str, begin: int, end: int, backward: bool, schema: int = 0, body: bytes = b""
    ) -> None:
        blob = None
        if schema and self.payloads:
            blob = struct.pack("<4Q", NCCL_DOMAIN, SCHEMA_BASE + schema, len(body), 32) + body
        row = _nvtx(begin, end, 59, None, self._tid(backward), self._string(name), binary=blob)
        self.rows["NVTX"].append(row)

    def _event(self, event: Event) -> None:
        kernel = event.kernel
        self.correlation += 3
        tid = self._tid(kernel.backward)
        if event.hosted:
            begin = event.launched - self.session
            if kernel.parts:
                self._calls(kernel, event.issued - self.session, begin)
            api = "cudaLaunchKernelExC_v11060" if kernel.parts else "cudaLaunchKernel_v7000"
            self.rows["RUNTIME"].append(
                (begin, begin + 6000, 0, tid, self.correlation, self._string(api), 0, None)
            )
        if event.seen:
            name = kernel_name(kernel)
            self.rows["KERNEL"].append(
                (event.start - self.session, event.end - self.session, self.device, 1, 0,
                 kernel.stream, self.correlation, self.pid, self._string(name),
                 self._string(name.split("(")[0]), self._string(name), 1, 24, 1, 1, 544, 1, 1, None)
            )  # fmt: skip

    def _calls(self, kernel: Kernel, begin: int, launch: int) -> None:
        """The ranges of NCCL's own calls; the launch lies in the last."""
        backward, after = kernel.backward, launch + 9000
        if kernel.op in CALLS and not kernel.messages:
            size = min(kernel.sent, kernel.received) * BYTES[kernel.dtype]
            name, schema = CALLS[kernel.op]
            self._range(name, launch - 5000, after, backward, schema, self._body(kernel, size))
            return
        self._range("ncclGroupStart", begin, begin + 400, backward)
        index = kernel.ranks.index
        if kernel.messages:
            sides = [("send" if m.sends else "recv", m.elements, index(m.peer))
                     for m in kernel.messages]  # fmt: skip
        else:
            each = len(kernel.ranks)
            sides = [
                side
                for n in range(each)
                for side in (("send", kernel.sent // each, n), ("recv", kernel.received // each, n))
            ]
        for n, (op, elements, peer) in enumerate(sides):
            name, schema = CALLS[op]
            at = begin + 1000 + n * (launch - begin - 4000) // len(sides)
            body = self._body(kernel, elements * BYTES[kernel.dtype], peer)
            self._range(name, at, at + 500, backward, schema, body)
        self._range("ncclGroupEnd", launch - 2000, after, backward)

    def _body(self, kernel: Kernel, size: int, last: int = 0) -> bytes:
        assert kernel.group
        body = struct.pack("<QQi4x", _communicator(kernel.group, kernel.ranks), size, last)
        return body[:16] if kernel.op == "all_gather" else body


def _communicator(group: Group, ranks: tuple[int, ...]) -> int:
    """NCCL's hash of a communicator: the same on all of its ranks."""
    text = f"{group.name} {ranks}".encode()
    return int.from_bytes(text, "big") * 0x9E3779B97F4A7C15 % (1 << 64)


def _nvtx(
    begin: int,
    end: int | None,
    kind: int,
    text: str | None,
    tid: int,
    text_id: int | None = None,
    domain: int = NCCL_DOMAIN,
    binary: bytes | None = None,
) -> tuple[object, ...]:
    nothing = (None,) * 8
    return (begin, end, kind, None, None, None, text, tid, None, text_id, domain, *nothing, binary)
