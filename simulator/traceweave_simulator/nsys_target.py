"""What an nsys report says of its session: start, processes, devices, environment, export."""

from __future__ import annotations

import sqlite3
from datetime import UTC, datetime

from traceweave_simulator.nsys_facts import ENUMS, EXPORT_META, gpu_row, system_environment
from traceweave_simulator.nsys_report import VM, Report, insert, insert_all
from traceweave_simulator.places import device_of, pid_of


def describe_target(con: sqlite3.Connection, report: Report) -> None:
    """Write the session, its processes and devices, and how it was recorded."""
    host = report.run.config.host_of(report.ranks[0])
    _session(con, report)
    _processes(con, report)
    _devices(con, report, host)
    _metadata(con, report, host)
    for table, labels in ENUMS.items():
        insert_all(con, table, [{"id": i, "name": n, "label": label} for i, n, label in labels])


def _session(con: sqlite3.Connection, report: Report) -> None:
    began = datetime.fromtimestamp(report.start_ns // 1_000_000_000, UTC)
    text = [began.strftime("%Y-%m-%dT%H:%M:%S")]
    session = {"utcEpochNs": [report.start_ns], "utcTime": text, "localTime": text}
    insert(con, "TARGET_INFO_SESSION_START_TIME", session)
    last = [report.times(r, report.run.gpu.end[:, r].max(keepdims=True)) for r in report.ranks]
    length = int(max(e[0] for e in last)) + 500_000_000
    limits = {"startTime": [179_720_880], "stopTime": [179_720_880 + length]}
    insert(con, "ANALYSIS_DETAILS", {"globalVid": [VM], "duration": [length], **limits})


def _processes(con: sqlite3.Connection, report: Report) -> None:
    processes = [report.process(r) for r in report.ranks]
    pids = [pid_of(report.run, r) for r in report.ranks]
    insert(con, "PROCESSES", {"globalPid": processes, "pid": pids, "name": "python3"})
    names = [report.strings.id(name) for name in ("python3", "pt_autograd_0")]
    threads = [report.thread(r, n) for r in report.ranks for n in (0, 1)]
    named = {"nameId": names * len(pids), "priority": 20, "globalTid": threads}
    insert(con, "ThreadNames", named)


def _devices(con: sqlite3.Connection, report: Report, host: int) -> None:
    run = report.run
    devices = sorted({device_of(run, r) for r in run.ranks if run.config.host_of(r) == host})
    insert_all(con, "TARGET_INFO_GPU", [gpu_row(VM, d) for d in devices])
    pids = [pid_of(run, r) for r in report.ranks]
    place = {"hwId": 0, "vmId": 1, "contextId": 1}
    contexts = {"nullStreamId": 7, "deviceId": [device_of(run, r) for r in report.ranks]}
    insert(con, "TARGET_INFO_CUDA_CONTEXT_INFO", {"processId": pids, **contexts, **place})
    streams = sorted({k.stream for k in run.gpu.kinds})
    flags = [3 if s == 7 else 2 for s in streams] * len(pids)
    owners = [p for p in pids for _ in streams]
    kinds = {"streamId": streams * len(pids), "priority": 0, "flag": flags}
    insert(con, "TARGET_INFO_CUDA_STREAM", {"processId": owners, **kinds, **place})


def _metadata(con: sqlite3.Connection, report: Report, host: int) -> None:
    run = report.run
    environment = {
        "NODE_RANK": str(host),
        "WORLD_SIZE": str(run.config.ranks),
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
    }
    if len(report.ranks) == 1:
        rank = report.ranks[0]
        environment |= {"RANK": str(rank), "LOCAL_RANK": str(device_of(run, rank))}
    else:
        del environment["WORLD_SIZE"]
    capture = [
        ("CAPTURE_EVENT_TYPE", "NvtxEvents"),
        ("CAPTURE_EVENT_TYPE", "Cuda"),
        ("PROCESS_0:COMMAND", "python3"),
    ]
    capture += [
        ("PROCESS_0:ENVIRONMENT_VARIABLE", f'{name}="{value}"')
        for name, value in environment.items()
    ]
    capture.append(
        ("PROFILING_SESSION_UUID", f"{run.config.seed:08x}-0000-4000-8000-{report.ranks[0]:012x}")
    )
    for table, rows in (("META_DATA_CAPTURE", capture), ("META_DATA_EXPORT", EXPORT_META)):
        insert(con, table, {"name": [n for n, _ in rows], "value": [v for _, v in rows]})
    insert_all(con, "TARGET_INFO_SYSTEM_ENV", system_environment(VM, f"node{host}"))
