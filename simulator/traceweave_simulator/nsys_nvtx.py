"""The NVTX ranges of an nsys report: steps, the program's own annotations, operators, and NCCL's
calls."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING

import numpy as np

from traceweave_simulator.places import device_of
from traceweave_simulator.run import Index, Run

if TYPE_CHECKING:
    from traceweave_simulator.nsys_report import Report

PUSH_POP, DOMAIN_CREATE = 59, 75

CALL_NAMES = {
    "all_reduce": "ncclAllReduce",
    "all_gather": "ncclAllGather",
    "reduce_scatter": "ncclReduceScatter",
    "send": "ncclSend",
    "recv": "ncclRecv",
}

Columns = dict[str, object]
NAMES = ("start", "end", "eventType", "text", "globalTid", "textId", "domainId", "jsonText")


def nvtx_rows(report: Report, rank: int, emit_nvtx: bool, step_name: str) -> Columns:
    """Return the rank's rows of NVTX_EVENTS, by column."""
    # domain numbers are given per process, in the order of first use
    domain = 3 + rank % 2
    rows: list[tuple[object, ...]] = [
        (-40_000_000, None, DOMAIN_CREATE, "NCCL", report.thread(rank, 0), None, domain, None)
    ]
    rows += _steps(report, rank, step_name)
    rows += _annotations(report, rank, emit_nvtx)
    if report.payload:
        rows += _communicators(report, rank, domain)
    rows += _nccl_calls(report, rank, domain)
    rows.sort(key=lambda row: (row[0], -(row[1] or 0)))  # type: ignore[operator]
    return {name: list(values) for name, values in zip(NAMES, zip(*rows, strict=True), strict=True)}


def _steps(report: Report, rank: int, step_name: str) -> list[tuple[object, ...]]:
    run = report.run
    steps = run.recorded(run.step_start, rank)
    start = report.times(rank, run.step_start[steps, rank]).tolist()
    end = report.times(rank, run.step_end[steps, rank]).tolist()
    thread = report.thread(rank, 0)
    return [
        (s, e, PUSH_POP, step_name.format(step=n + run.config.first_step), thread, None, 0, None)
        for s, e, n in zip(start, end, steps.tolist(), strict=True)
    ]


def _annotations(report: Report, rank: int, emit_nvtx: bool) -> list[tuple[object, ...]]:
    run = report.run
    wanted = np.array(
        [
            emit_nvtx or (k.kind == "user_annotation" and not k.name.startswith("nccl:"))
            for k in run.ranges.kinds
        ]
    )
    rows = run.recorded(run.ranges.start, rank)
    rows = rows[wanted[run.ranges.kind[rows]]]
    start = report.times(rank, run.ranges.start[rows, rank]).tolist()
    end = report.times(rank, run.ranges.end[rows, rank]).tolist()
    threads = [report.thread(rank, number) for number in (0, 1)]
    sequence = run.range_sequence[rows].tolist()
    return [
        (
            s,
            e,
            PUSH_POP,
            _emitted(kind.name, seq, row) if emit_nvtx else kind.name,
            threads[kind.thread],
            None,
            0,
            None,
        )
        for s, e, kind, seq, row in zip(
            start,
            end,
            (run.ranges.kinds[k] for k in run.ranges.kind[rows]),
            sequence,
            rows.tolist(),
            strict=True,
        )
    ]


def _emitted(name: str, sequence: int, row: int) -> str:
    """Return an operator's range name as emit_nvtx builds it."""
    middle = f", seq = {sequence}" if sequence >= 0 else ""
    return f"{name}{middle}, op_id = {row + 1}"


def _communicators(report: Report, rank: int, domain: int) -> list[tuple[object, ...]]:
    """The rank's communicators as they were made, before the recording of GPU work."""
    run = report.run
    text = report.strings.id("ncclCommInitRankConfig")
    rows: list[tuple[object, ...]] = []
    for number, group in enumerate(run.groups):
        if rank not in group.ranks:
            continue
        at = 200_000_000 + 50_000_000 * len(rows)
        payload = {
            "NCCL communicator ID": communicator(run, number),
            "No. of ranks": len(group.ranks),
            "Rank": group.ranks.index(rank),
            "CUDA device": device_of(run, rank),
        }
        thread = report.thread(rank, 0)
        rows.append(
            (at, at + 30_000_000, PUSH_POP, None, thread, text, domain, json.dumps(payload))
        )
    return rows


def _nccl_calls(report: Report, rank: int, domain: int) -> list[tuple[object, ...]]:
    run = report.run
    rows: list[tuple[object, ...]] = []
    mine: Index = run.collective_rows[run.instance[:, rank] >= 0]
    calls = run.gpu_call[mine]
    begin, until = run.window(rank)
    for row, call in zip(mine.tolist(), calls.tolist(), strict=True):
        at = run.calls.start[call, rank]
        if not begin <= at < until:
            continue
        op = run.comms[run.gpu_comm[row]].op
        # (name, from, to, with payload) around the launch; p2p launches when its NCCL group ends
        limits = (at - 600, run.calls.end[call, rank] + 150)
        ranges = [(CALL_NAMES[op], *limits, True)]
        if op in ("send", "recv"):
            ranges = [
                ("ncclGroupStart", at - 1_000, at - 900, False),
                (CALL_NAMES[op], at - 850, at - 750, True),
            ]
            ranges.append(("ncclGroupEnd", at - 700, limits[1], False))
        thread = report.thread(rank, run.calls.kinds[run.calls.kind[call]].thread)
        for name, start, end, payload in ranges:
            edges = report.times(rank, np.array([start, end], dtype=np.int64)).tolist()
            text = _payload(run, rank, row) if payload and report.payload else None
            rows.append((*edges, PUSH_POP, None, thread, report.strings.id(name), domain, text))
    return rows


def _payload(run: Run, rank: int, row: int) -> str:
    comm = run.comms[run.gpu_comm[row]]
    group = next(g for g in comm.groups if rank in run.groups[g].ranks)
    # NCCL counts what the caller passes: per rank for all_gather and reduce_scatter
    share = comm.size if comm.op in ("all_gather", "reduce_scatter") else 1
    payload: dict[str, object] = {
        "NCCL communicator ID": communicator(run, group),
        "Message size [bytes]": comm.bytes // share,
    }
    if comm.op in ("all_reduce", "reduce_scatter"):
        payload["Reduction operation"] = "Sum"
    if comm.op in ("send", "recv"):
        column = 0 if comm.op == "send" else 1
        pair = next(m for m in comm.members if m[column] == rank)
        payload["Peer rank"] = run.groups[group].ranks.index(int(pair[1 - column]))
    return json.dumps(payload)


def communicator(run: Run, group: int) -> int:
    """Return a group's 64-bit communicator hash: the same on every member."""
    text = f"{run.config.seed}:{run.groups[group].name}:{run.groups[group].ranks}"
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big")
