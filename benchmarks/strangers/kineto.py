"""Write a recording as PyTorch's profiler does, in the manner of several versions of torch."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import orjson

from .program import BYTES, Group, Message
from .recording import Event, Recording
from .timeline import Kernel

BASE_NS = 1_759_300_074_000_000_000
C10D = {
    "all_reduce": ("allreduce", "all_reduce"),
    "all_gather": ("_allgather_base", "_all_gather_base"),
    "reduce_scatter": ("_reduce_scatter_base", "_reduce_scatter_base"),
    "all_to_all": ("all_to_all", "all_to_all"),
    "barrier": ("barrier", "all_reduce_barrier"),
    "send": ("send", "send"),
    "recv": ("recv", "recv"),
}
NCCL = {"all_gather": "AllGather", "reduce_scatter": "ReduceScatter", "barrier": "AllReduce",
        "all_reduce": "AllReduce"}  # fmt: skip
SHORT = {
    "Float": ("f32", "float"),
    "BFloat16": ("bf16", "__nv_bfloat16"),
    "Long": ("u64", "int64_t"),
}
GEMM = "ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_32x5_tn"
ATEN = {"Float": "float", "BFloat16": "c10::BFloat16", "Long": "long int"}


def kernel_name(kernel: Kernel, old: bool = False) -> str:
    """Return what NCCL calls the kernel: its sort and the type, never the communicator."""
    if not kernel.parts:
        return GEMM
    new_type, old_type = SHORT.get(kernel.dtype, ("u8", "int8_t"))
    nccl = NCCL.get(kernel.op)
    if old:
        sort = {
            None: "SendRecv_RING_SIMPLE_Sum_int8_t",
            "AllGather": "AllGather_RING_LL_Sum_int8_t",
        }
        name = sort.get(nccl) or f"{nccl}_RING_LL_Sum_{old_type}"
        return f"ncclKernel_{name}(ncclDevComm*, unsigned long, ncclWork*)"
    name = {None: "SendRecv", "AllGather": "AllGather_RING_LL"}.get(nccl) or (
        f"{nccl}_Sum_{new_type}_RING_LL"
    )
    return f"ncclDevKernel_{name}(ncclDevKernelArgsStorage<4096ul>)"


class Writer:
    """The events of one rank, in one version's manner."""

    def __init__(self, recording: Recording) -> None:
        self.recording, self.style = recording, recording.style
        self.old = self.style in ("shapes", "bare")
        self.labelled = self.style in ("seq", "keys")
        self.events: list[dict[str, Any]] = []
        self.external = 100
        self.correlation = 50_000
        self.main, self.autograd = recording.pid, recording.pid + 480

    def write(self, path: Path) -> None:
        """Write the file."""
        recording = self.recording
        for number, begin, end in recording.steps:
            self._span("user_annotation", f"ProfilerStep#{number}", self.main, begin, end, {})
        for event in recording.events:
            self._event(event)
        world = recording.job.ranks
        info: dict[str, Any] = {"backend": "nccl", "rank": recording.rank, "world_size": world}
        top: dict[str, Any] = {
            "schemaVersion": 1,
            "deviceProperties": [
                {"id": n, "name": "NVIDIA H100 80GB HBM3", "numSms": 132, "computeMajor": 9}
                for n in range(recording.job.per_host)
            ],
            "distributedInfo": info,
            "traceName": str(path.name),
        }
        if self.labelled:
            groups = dict.fromkeys(
                [recording.job.world] + [e.kernel.group for e in recording.events if e.kernel.group]
            )
            info |= {"pg_count": len(groups), "nccl_version": "2.21.5"}
            info["pg_config"] = [
                {"pg_name": g.name, "pg_desc": g.description, "backend_config": "cuda:nccl",
                 "pg_size": len(g.ranks), "ranks": list(g.ranks)} for g in groups
            ]  # fmt: skip
            top |= {"displayTimeUnit": "ms", "baseTimeNanoseconds": BASE_NS}
        if self.style != "bare":
            top["record_shapes"] = 1
        top["traceEvents"] = self.events
        path.write_bytes(orjson.dumps(top))

    def _time(self, ns: int) -> orjson.Fragment | int:
        """Write a moment: whole microseconds, then with decimals, then relative to a base."""
        if self.old:
            return ns // 1000
        ns -= BASE_NS if self.labelled else 0
        return orjson.Fragment(b"%d.%03d" % divmod(ns, 1000))

    def _long(self, ns: int) -> orjson.Fragment | int:
        return ns // 1000 if self.old else orjson.Fragment(b"%d.%03d" % divmod(ns, 1000))

    def _span(
        self, cat: str, name: str, tid: int, begin: int, end: int, args: dict[str, Any]
    ) -> dict[str, Any]:
        if cat in ("cpu_op", "user_annotation"):
            self.external += 1
            args = {"External id": self.external, **args}
        pid = int(self.recording.rank % self.recording.job.per_host)
        event = {"ph": "X", "cat": cat, "name": name, "pid": self.recording.pid, "tid": tid,
                 "ts": self._time(begin), "dur": self._long(max(end - begin, 0)),
                 "args": args}  # fmt: skip
        if cat == "kernel":
            event["pid"] = pid
        self.events.append(event)
        return event

    def _event(self, event: Event) -> None:
        kernel = event.kernel
        self.correlation += 7
        link: dict[str, Any] = {"correlation": self.correlation}
        labels: dict[str, Any] = {}
        if event.hosted:
            labels, external = self._call(event)
            link["External id"] = self.correlation if self.old else external
            if external is None:
                del link["External id"]
            launch = "cudaLaunchKernelExC" if kernel.parts else "cudaLaunchKernel"
            tid = self.autograd if kernel.backward else self.main
            self._span("cuda_runtime", launch, tid, event.launched, event.launched + 6000,
                       {"cbid": 430 if kernel.parts else 211, **link})  # fmt: skip
            self._flow("s", self.recording.pid, tid, event.launched)
        if event.seen:
            device = self.recording.rank % self.recording.job.per_host
            args = {"queued": 0, "device": device, "context": 1, "stream": kernel.stream, **link,
                    "grid": [24, 1, 1], "block": [544, 1, 1], **labels}  # fmt: skip
            name = kernel_name(kernel, self.style == "bare")
            self._span("kernel", name, kernel.stream, event.start, event.end, args)
            self._flow("f", device, kernel.stream, event.start)

    def _flow(self, side: str, pid: int, tid: int, at: int) -> None:
        self.events.append({"ph": side, "id": self.correlation, "pid": pid, "tid": tid,
                            "ts": self._time(at), "cat": "ac2g", "name": "ac2g",
                            "bp": "e"})  # fmt: skip

    def _call(self, event: Event) -> tuple[dict[str, Any], int | None]:
        """Write the operators of a call; return what its kernel says of it, and whose it is."""
        kernel, begin = event.kernel, event.issued
        tid = self.autograd if kernel.backward else self.main
        if kernel.group is None:
            op = self._span("cpu_op", "aten::mm", tid, begin, event.launched + 7000, {})
            return {}, op["args"]["External id"]
        if kernel.batched:
            each = (event.launched - begin - 2000) // (2 * len(kernel.messages))
            for n, part in enumerate(kernel.messages):
                at = begin + n * each
                self._span("cpu_op", "record_param_comms", tid, at, at + each - 200,
                           self._labels(kernel, part))  # fmt: skip
            return {}, None
        message = kernel.messages[0] if kernel.messages else None
        labels = self._labels(kernel, message)
        op = self._span("cpu_op", "record_param_comms", tid, begin, event.launched + 12_000, labels)
        title = f"nccl:{C10D[kernel.op][1]}"
        if message and kernel.group:
            arrow = "->" if message.sends else "<-"
            index = kernel.group.ranks.index
            title += f" {index(self.recording.rank)}{arrow}{index(message.peer)}"
        self._span("user_annotation", title, tid, begin + 6000, event.launched + 9000,
                   self._shapes(kernel) if self.style == "shapes" else {})  # fmt: skip
        hidden = ("Input Dims", "Input type", "Concrete Inputs")
        return {k: v for k, v in labels.items() if k not in hidden}, op["args"]["External id"]

    def _shapes(self, kernel: Kernel) -> dict[str, Any]:
        sent = kernel.sent or sum(m.elements for m in kernel.messages)
        return {"Input Dims": [[sent]], "Input type": [ATEN[kernel.dtype]], "Concrete Inputs": [""]}

    def _labels(self, kernel: Kernel, message: Message | None) -> dict[str, Any]:
        """Return NCCL's keys of the version, of one call."""
        if self.style == "bare" or kernel.group is None:
            return {}
        if self.style == "shapes":
            return self._shapes(kernel)
        op = kernel.op if not message else "send" if message.sends else "recv"
        sent, received = kernel.sent, kernel.received
        if message:
            sent = received = message.elements
        name = C10D[op][0]
        split = "[]"
        group: Group = kernel.group
        if op == "all_to_all" and sent != received:
            name, split = "all_to_allv", str([sent // len(group.ranks)] * len(group.ranks))
        labels: dict[str, Any] = {
            "Collective name": name, "In msg nelems": sent, "Out msg nelems": received,
            "Group size": len(group.ranks), "dtype": kernel.dtype,
            "In split size": split, "Out split size": split,
        }  # fmt: skip
        if self.style == "sizes":
            size = BYTES[kernel.dtype]
            return {"In msg size": sent * size, "Out msg size": received * size,
                    "Group size": len(group.ranks), "dtype": kernel.dtype}  # fmt: skip
        ranks = group.ranks
        shown = ", ".join(map(str, ranks[:30])) + (", ..." if len(ranks) > 30 else "")
        labels |= {
            "Process Group Name": group.name,
            "Process Group Description": group.description,
            "Process Group Ranks": f"[{shown}]",
            "Rank": ranks.index(message.peer if message else self.recording.rank),
        }
        strides = {b - a for a, b in pairwise(ranks)}
        if len(strides) == 1:
            labels |= {"Global rank start": ranks[0], "Global rank stride": strides.pop()}
        if message:
            labels["Dst Rank" if message.sends else "Src Rank"] = message.peer
        if self.style == "seq":
            labels |= {"Seq": kernel.seq}
        return labels
