"""The fixed text of a Kineto file: header, metadata events, event shapes, footer; spacing and
key order as Kineto prints them."""

# Lines as kineto prints them.
# ruff: noqa: E501

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from traceweave_simulator.program import Comm, GpuOp
    from traceweave_simulator.run import Run

OPERATOR = """  {
    "ph": "X", "cat": "cpu_op", "name": "@name", "pid": @pid, "tid": @tid,
    "ts": @ts, "dur": @dur,
    "args": {
      @args
    }
  },
"""
ANNOTATION = OPERATOR.replace("cpu_op", "user_annotation")
CALL = """  {
    "ph": "X", "cat": "cuda_runtime", "name": "@name", "pid": @pid, "tid": @tid,
    "ts": @ts, "dur": @dur,
    "args": {
      "External id": %d,      "cbid": @cbid, "correlation": %d
    }
  },
"""
GPU = """  {
    "ph": "X", "cat": "@cat", "name": "@name", "pid": @device, "tid": @stream,
    "ts": @ts, "dur": @dur,
    "args": {
      @args
    }
  },
"""
SYNC = """  {
    "ph": "X", "cat": "cuda_sync", "name": "@kind", "pid": @device, "tid": @stream,
    "ts": @ts, "dur": @dur,
    "args": {
      "cuda_sync_kind": "@kind", @waits"stream": @stream, "correlation": %d, "device": @device, "context": 1
    }
  },
"""
FLOW_START = """  {
    "ph": "s", "id": %d, "pid": @pid, "tid": @tid, "ts": @ts,
    "cat": "ac2g", "name": "ac2g"
  },
"""
FLOW_END = """  {
    "ph": "f", "id": %d, "pid": @device, "tid": @stream, "ts": @ts,
    "cat": "ac2g", "name": "ac2g", "bp": "e"
  },
"""
FORWARD_FLOW = FLOW_START.replace("ac2g", "fwdbwd")
BACKWARD_FLOW = (
    FLOW_END.replace("ac2g", "fwdbwd").replace("@device", "@pid").replace("@stream", "@tid")
)

SYNC_KINDS = {
    "cudaStreamWaitEvent": "Stream Wait Event", "cudaStreamSynchronize": "Stream Sync",
    "cudaDeviceSynchronize": "Context Sync",
}  # fmt: skip
"""Runtime call -> its event, where synchronization is recorded."""

GPU_NAME = "NVIDIA H100 80GB HBM3"
GPU_MEMORY = 85_028_372_480

COLLECTIVE_NAMES = {
    "all_reduce": "allreduce", "all_gather": "_allgather_base", "reduce_scatter": "_reduce_scatter_base",
    "send": "send", "recv": "recv",
}  # fmt: skip
"""op -> `Collective name` in the metadata."""


def header(run: Run, rank: int, new: bool, base_ns: int) -> str:
    """Return everything before the first event."""
    config = run.config
    devices = sum(1 for r in run.ranks if config.host_of(r) == config.host_of(rank))
    blocks = ",\n".join(_device(number, new) for number in range(devices))
    if not new:
        info = json.dumps({"backend": "nccl", "rank": rank, "world_size": config.ranks})
        return (
            f'\n{{\n  "schemaVersion": 1,\n  "deviceProperties": [\n{blocks}\n  ],\n'
            f'  "distributedInfo": {info},\n  "record_shapes": 1,\n  "traceEvents": [\n'
        )
    mine = [g for g in run.groups if rank in g.ranks]
    info = json.dumps(
        {
            "backend": "nccl",
            "rank": rank,
            "world_size": config.ranks,
            "pg_count": len(mine),
            "pg_config": [
                {"pg_name": g.name, "pg_desc": g.description, "backend_config": "cuda:nccl", "pg_size": len(g.ranks), "ranks": list(g.ranks)}
                for g in mine
            ],
            "nccl_version": "2.29.7",
        }
    )  # fmt: skip
    return (
        f'\n  {{\n    "schemaVersion": 1,\n    "deviceProperties": [\n{blocks}\n    ],\n'
        f'      "trace_id": "{config.seed:024X}{rank:08X}",\n      "record_shapes": 1,\n'
        f'      "distributedInfo": {info},\n      "cuda_driver_version": 13000,\n'
        '      "cuda_runtime_version": 13000,\n      "cupti_version": 130001,\n'
        f'  "displayTimeUnit": "ms",\n  "baseTimeNanoseconds": {base_ns},\n  "traceEvents": [\n'
    )


def _device(number: int, new: bool) -> str:
    if new:
        return (
            f'    {{\n      "id": {number}, "name": "{GPU_NAME}", "totalGlobalMem": {GPU_MEMORY},\n'
            '      "computeMajor": 9, "computeMinor": 0,\n'
            '      "maxThreadsPerBlock": 1024, "maxThreadsPerMultiprocessor": 2048,\n'
            '      "regsPerBlock": 65536, "warpSize": 32,\n      "sharedMemPerBlock": 49152, "numSms": 132\n'
            '    , "regsPerMultiprocessor": 65536, "sharedMemPerBlockOptin": 232448, '
            '"sharedMemPerMultiprocessor": 233472\n    }'
        )
    return (
        f'    {{\n      "id": {number}, "name": "{GPU_NAME}", "totalGlobalMem": {GPU_MEMORY},\n'
        '      "computeMajor": 9, "computeMinor": 0,\n'
        '      "maxThreadsPerBlock": 1024, "maxThreadsPerMultiprocessor": 2048,\n'
        '      "regsPerBlock": 65536, "regsPerMultiprocessor": 65536, "warpSize": 32,\n'
        '      "sharedMemPerBlock": 49152, "sharedMemPerMultiprocessor": 233472,\n'
        '      "numSms": 132, "sharedMemPerBlockOptin": 232448\n    }'
    )


def metadata(
    ts: str, pid: int, device: int, tids: tuple[int, int], streams: list[int], new: bool
) -> str:
    """Return the M events: names, labels and sort order of the processes and threads."""
    python = "python3.13" if new else "python"
    events = []
    for number, label, sort in ((pid, "CPU", pid), (device, f"GPU {device}", 5_000_000 + device)):
        events += [
            _meta("process_name", ts, number, 0, f'"name": "{python}"'),
            _meta("process_labels", ts, number, 0, f'"labels": "{label}"'),
            _meta("process_sort_index", ts, number, 0, f'"sort_index": {sort}'),
        ]
    for stream in streams:
        events += [
            _meta("thread_name", ts, device, stream, f'"name": "stream {stream} "'),
            _meta("thread_sort_index", ts, device, stream, f'"sort_index": {stream}'),
        ]
    for tid in tids:
        events += [
            _meta("thread_name", ts, pid, tid, f'"name": "thread {tid} ({python})"'),
            _meta("thread_sort_index", ts, pid, tid, f'"sort_index": {tid}'),
        ]
    return "".join(events)


def _meta(name: str, ts: str, pid: int, tid: int, args: str) -> str:
    return (
        f'  {{\n    "name": "{name}", "ph": "M", "ts": {ts}, "pid": {pid}, "tid": {tid},\n'
        f'    "args": {{\n      {args}\n    }}\n  }},\n'
    )


def device_annotation(
    name: str, place: tuple[int, int], span: tuple[str, str], external: int
) -> str:
    """Return the shadow of a host annotation on a stream: place (device, stream), span (ts, dur)."""
    return (
        f'  {{\n    "ph": "X", "cat": "gpu_user_annotation", "name": "{name}", "pid": {place[0]}, "tid": {place[1]},\n'
        f'    "ts": {span[0]}, "dur": {span[1]},\n    "args": {{\n      "External id": {external}\n    }}\n  }},\n'
    )


def footer(first: str, length: str, end: str, name: str) -> str:
    """Return the span of the whole recording, its marks, and the end of the file."""
    return (
        f'  {{\n    "ph": "X", "cat": "Trace", "ts": {first}, "dur": {length},\n    "pid": "Spans", "tid": "PyTorch Profiler",\n'
        '    "name": "PyTorch Profiler (0)",\n    "args": {\n      "Op count": 0\n    }\n  },\n'
        f'  {{\n    "name": "process_sort_index", "ph": "M", "ts": {first},\n    "pid": "Spans", "tid": 0,\n'
        '    "args": {\n      "sort_index": 536870912\n    }\n  },\n'
        '  {\n    "name": "Iteration Start: PyTorch Profiler", "ph": "i", "s": "g",\n'
        f'    "pid": "Traces", "tid": "Trace PyTorch Profiler", "ts": {first}\n  }},\n'
        '  {\n    "name": "Record Window End", "ph": "i", "s": "g",\n'
        f'    "pid": "", "tid": "", "ts": {end}\n  }}\n  ],\n  "traceName": {json.dumps(name)}\n}}\n'
    )


def kernel_args(op: GpuOp, device: int, new: bool) -> str:
    """Return the arguments of a GPU op; slots: external id, correlation, and a copy's bandwidth."""
    graph = ',      "graph id": 0, "graph node id": 0' if new else ""
    if op.kind == "memcpy":
        return (
            f'"External id": %d,      "device": {device}, "context": 1,      "stream": {op.stream}, "correlation": %d,      '
            f'"bytes": {op.bytes}, "memory bandwidth (GB/s)": %s{graph}'
        )
    k = op.kernel
    blocks = k.grid[0] * k.grid[1] * k.grid[2]
    warps = blocks * k.block[0] * k.block[1] * k.block[2] // 32
    return (
        f'"External id": %d,      "queued": 0, "device": {device}, "context": 1,      "stream": {op.stream}, '
        f'"correlation": %d,      "registers per thread": {k.registers},      "shared memory": {k.shared_memory},      '
        f'"blocks per SM": {blocks / 132:.6f},      "warps per SM": {warps / 132:.6f},      '
        f'"grid": {list(k.grid)},      "block": {list(k.block)},      "est. achieved occupancy %%": 0{graph}'
    )


def _group(run: Run, rank: int, comm: Comm) -> tuple[str, str, tuple[int, ...]]:
    for number in comm.groups:
        group = run.groups[number]
        if rank in group.ranks:
            return group.name, group.description, group.ranks
    return "", "", ()


def _shortened(ranks: tuple[int, ...]) -> str:
    """Return a rank list as c10d writes it: at most 30 items."""
    if len(ranks) <= 30:
        return str(list(ranks))
    return "[" + ", ".join(map(str, ranks[:30])) + ", ...]"


def _elements(comm: Comm) -> tuple[int, int]:
    each = comm.elements // comm.size
    if comm.op == "all_gather":
        return each, comm.elements
    if comm.op == "reduce_scatter":
        return comm.elements, each
    return comm.elements, comm.elements


def comm_kernel_args(run: Run, rank: int, comm: Comm) -> str:
    """Return the NCCL keys of a kernel; slots: an unused bandwidth, Seq."""
    name, description, ranks = _group(run, rank, comm)
    inside, outside = _elements(comm)
    return (
        f'%.0s, "Collective name": "{COLLECTIVE_NAMES[comm.op]}", "In msg nelems": {inside}, "Out msg nelems": {outside}, '
        f'"Group size": {len(ranks)}, "dtype": "{comm.dtype}", "In split size": "[]", "Out split size": "[]", '
        f'"Process Group Name": "{name}", "Process Group Description": "{description}", '
        f'"Process Group Ranks": "{_shortened(ranks)}"{_peer(run, rank, comm, False)}, "Seq": %d'
    )


def _peer(run: Run, rank: int, comm: Comm, own: bool) -> str:
    """Return `Rank` (on operators), and of a send or recv the peer's rank."""
    _, _, ranks = _group(run, rank, comm)
    if comm.op not in ("send", "recv"):
        return f', "Rank": {ranks.index(rank) if rank in ranks else 0}' if own else ""
    column = 0 if comm.op == "send" else 1
    pair = next((m for m in comm.members if m[column] == rank), None)
    if pair is None:
        return ""
    peer = int(pair[1 - column])
    index = f', "Rank": {ranks.index(peer)}' if own else ""
    return index + (f', "Dst Rank": {peer}' if comm.op == "send" else f', "Src Rank": {peer}')


def comm_args(run: Run, rank: int, comm: Comm, new: bool) -> str:
    """Return the arguments of record_param_comms, without Seq."""
    shapes = (
        '"Concrete Inputs": ["", "", "", "1", "", "[]", "[]", "0", "1", "8"], "Input type": ["c10::BFloat16", "", "", "Scalar", '
        f'"", "ScalarList", "ScalarList", "Scalar", "Scalar", "Scalar"], "Input Dims": [[{comm.elements}], [], [], [], [], [], [], [], [], []]'
    )
    if not new:
        return shapes
    name, description, ranks = _group(run, rank, comm)
    inside, outside = _elements(comm)
    stride = ranks[1] - ranks[0] if len(ranks) > 1 else 1
    return (
        f'{shapes}, "Collective name": "{COLLECTIVE_NAMES[comm.op]}", "Process Group Description": "{description}", '
        f'"dtype": "{comm.dtype}"{_peer(run, rank, comm, True)}, "Out msg nelems": {outside}, "Process Group Name": "{name}", '
        f'"Global rank stride": {stride}, "Global rank start": {ranks[0] if ranks else 0}, "Is asynchronized op": 1, '
        f'"Out split size": "[]", "In split size": "[]", "Process Group Ranks": "{_shortened(ranks)}", '
        f'"Group size": {len(ranks)}, "In msg nelems": {inside}'
    )
