"""What every rank's host does in one step, as a list of instructions over numbered rows.

A rank's program says which host ranges open and close, which CUDA calls are made, and what they put
on which stream. All ranks run the same instructions (a pipeline's stages each their own share), so
timeline.py executes an instruction for all ranks at once. Rows are static: names, arguments, sizes;
the times come later, one column per rank.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from traceweave_simulator.catalogue import EXTRA_OPS, Kernel
from traceweave_simulator.config import Gap

Ranks = npt.NDArray[np.int64] | slice
"""The ranks that run an instruction; a slice for all of them, so that indexing makes no copy."""

ALL = slice(None)
MAIN, AUTOGRAD = 0, 1

COMPUTE_STREAM, WORLD_STREAM, MODEL_STREAM, SEND_STREAM, RECV_STREAM, COPY_STREAM = (
    7,
    20,
    24,
    28,
    32,
    36,
)


class Code(IntEnum):
    """What an instruction does."""

    PUSH = 0
    """A host range opens."""
    POP = 1
    """A host range closes."""
    WORK = 2
    """The host computes."""
    CALL = 3
    """A CUDA call that puts nothing on a stream."""
    LAUNCH = 4
    """A CUDA call that puts a kernel or copy on a stream."""
    COLLECTIVE = 5
    """The same for a collective's kernel."""
    SEND = 6
    """A send's kernel; the RECV that follows ends both."""
    RECV = 7
    WAIT = 8
    """cudaStreamWaitEvent: what comes on a stream waits for what is on another now."""
    SYNC = 9
    """The host blocks until streams are empty."""


@dataclass(frozen=True, slots=True)
class Range:
    """A host range: an operator or an annotation of the profiler."""

    name: str
    kind: str
    """'cpu_op' or 'user_annotation'."""
    thread: int
    args: str
    """Constant part of the Kineto arguments: JSON members, without braces."""
    sequence: int = -1
    """Autograd sequence number within the step; -1: none."""
    backward: bool = False
    comm: int = -1
    """Row of `Program.comms` that a record_param_comms speaks of."""


@dataclass(frozen=True, slots=True)
class Call:
    """A CUDA runtime call."""

    name: str
    thread: int
    scope: int
    """Innermost operator around it, a row of `Program.ranges`; -1: none."""
    gpu: int = -1
    """What it puts on a stream, a row of `Program.gpu`; -1: nothing."""
    stream: int = -1
    """Stream that a cudaStreamWaitEvent holds up, or that the host waits for; -1: none."""
    on: int = -1
    """Stream that the former waits for; the call before it recorded the event."""


@dataclass(frozen=True, slots=True)
class GpuOp:
    """A kernel or copy on a stream."""

    kind: str
    """'kernel' or 'memcpy'."""
    kernel: Kernel
    stream: int
    call: int
    bytes: int = -1
    copy_kind: int = 0
    """CUPTI's number: 1 HtoD, 2 DtoH, 8 DtoD."""
    comm: int = -1
    after: Gap | None = None
    """The pause made on purpose just before it."""


@dataclass(frozen=True, slots=True)
class Group:
    """A process group."""

    name: str
    description: str
    ranks: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Comm:
    """A collective or point-to-point operation of one step; one instance in each group of
    `members`."""

    op: str
    """all_reduce, all_gather, reduce_scatter, send or recv."""
    groups: tuple[int, ...]
    """Group of each row of `members`."""
    members: npt.NDArray[np.int64]
    """(groups, ranks of a group); for a send and its recv (pairs, 2): sender, receiver."""
    elements: int
    """Elements of the whole buffer."""
    dtype: str
    element_bytes: int
    pair: int = -1
    """Row of the other half of a point-to-point operation."""

    @property
    def bytes(self) -> int:
        """Return the size S of nccl-tests."""
        return self.elements * self.element_bytes

    @property
    def size(self) -> int:
        """Return how many ranks take part."""
        return int(self.members.shape[1])


@dataclass(frozen=True, slots=True)
class Instruction:
    """One thing the host does; `row` and `other` are rows or streams, as the code says."""

    code: Code
    who: Ranks
    cost_ns: int
    row: int = -1
    other: int = -1
    streams: tuple[int, ...] = ()
    only: tuple[int, ...] | None = None
    """Ranks that pay `cost_ns` of a WORK or wait `other` ns longer in a SYNC; None: all."""


@dataclass
class Program:
    """One step's instructions and rows, filled by the methods below."""

    instructions: list[Instruction] = field(default_factory=list)
    ranges: list[Range] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    gpu: list[GpuOp] = field(default_factory=list)
    comms: list[Comm] = field(default_factory=list)
    sequences: int = 0
    who: Ranks = field(default_factory=lambda: ALL)
    thread: int = MAIN
    scopes: list[int] = field(default_factory=list)
    gap: Gap | None = None
    """A pause that no operation of the compute stream has followed yet."""
    op_cost_ns: int = 1_500
    call_cost_ns: int = 4_000
    extra_host_ops: int = 0

    def add(self, code: Code, cost_ns: int, **more: object) -> None:
        """Append an instruction for the ranks of `who`."""
        self.instructions.append(Instruction(code, self.who, cost_ns, **more))  # type: ignore[arg-type]

    def work(self, cost_ns: int, only: tuple[int, ...] | None = None) -> None:
        """Let the host compute for `cost_ns`."""
        self.add(Code.WORK, cost_ns, only=only)

    @contextmanager
    def range(
        self,
        name: str,
        kind: str = "cpu_op",
        args: str = "",
        sequence: int = -1,
        backward: bool = False,
        comm: int = -1,
    ) -> Iterator[None]:
        """Open a host range on the current thread, and close it."""
        row = len(self.ranges)
        self.ranges.append(Range(name, kind, self.thread, args, sequence, backward, comm))
        self.add(Code.PUSH, self.op_cost_ns, row=row)
        operator = kind == "cpu_op"
        if operator:
            self.scopes.append(row)
        yield
        if operator:
            self.scopes.pop()
        self.add(Code.POP, self.op_cost_ns // 2, row=row)

    def call(self, name: str, gpu: int = -1, stream: int = -1, on: int = -1) -> int:
        """Add the row of a CUDA call and return its number."""
        scope = self.scopes[-1] if self.scopes else -1
        self.calls.append(Call(name, self.thread, scope, gpu, stream, on))
        return len(self.calls) - 1

    def _extras(self) -> None:
        for number in range(self.extra_host_ops):
            name, args = EXTRA_OPS[number % len(EXTRA_OPS)]
            row = len(self.ranges)
            self.ranges.append(Range(name, "cpu_op", self.thread, args))
            self.add(Code.PUSH, 400, row=row)
            self.add(Code.POP, 150, row=row)

    def put(self, op: GpuOp, code: Code, cost_ns: int) -> None:
        """Add the row of what a call puts on a stream, and the instruction that makes the call."""
        self.gpu.append(replace(op, after=self.gap))
        self.add(code, cost_ns, row=op.call, other=len(self.gpu) - 1)
        if op.stream == COMPUTE_STREAM:
            self.gap = None

    def launch(
        self, kernel: Kernel, stream: int = COMPUTE_STREAM, api: str = "cudaLaunchKernel"
    ) -> None:
        """Launch a compute kernel."""
        self._extras()
        call = self.call(api, len(self.gpu))
        self.put(GpuOp("kernel", kernel, stream, call), Code.LAUNCH, self.call_cost_ns)

    def copy(self, kernel: Kernel, size: int, copy_kind: int, stream: int = COMPUTE_STREAM) -> None:
        """Start an asynchronous copy."""
        call = self.call("cudaMemcpyAsync", len(self.gpu))
        op = GpuOp("memcpy", kernel, stream, call, size, copy_kind)
        self.put(op, Code.LAUNCH, self.call_cost_ns)

    def communicate(
        self, comm: Comm, kernel: Kernel, stream: int, code: Code = Code.COLLECTIVE
    ) -> int:
        """Launch the kernel of a collective, a send or a recv inside its c10d ranges; return the
        comm's row."""
        number = len(self.comms)
        self.comms.append(comm)
        c10d, annotation = COMM_NAMES[comm.op]
        with (
            self.range(c10d),
            self.range("record_param_comms", comm=number),
            self.range(annotation, "user_annotation"),
        ):
            call = self.call("cudaLaunchKernelExC", len(self.gpu))
            op = GpuOp("kernel", kernel, stream, call, comm.bytes, comm=number)
            self.put(op, code, 2 * self.call_cost_ns)
        return number

    def wait(self, stream: int, on: int) -> None:
        """Let what comes on `stream` wait for what is now on stream `on`."""
        record = self.call("cudaEventRecord")
        self.add(Code.CALL, self.call_cost_ns // 2, row=record)
        row = self.call("cudaStreamWaitEvent", stream=stream, on=on)
        self.add(Code.WAIT, self.call_cost_ns // 3, row=row, streams=(stream, on))

    def synchronize(
        self,
        name: str,
        streams: tuple[int, ...],
        longer_ns: int = 0,
        only: tuple[int, ...] | None = None,
    ) -> None:
        """Block the host until `streams` are empty, and `longer_ns` more."""
        row = self.call(name, stream=streams[0] if name == "cudaStreamSynchronize" else -1)
        self.add(Code.SYNC, self.call_cost_ns, row=row, other=longer_ns, streams=streams, only=only)


COMM_NAMES: dict[str, tuple[str, str]] = {
    "all_reduce": ("c10d::allreduce_", "nccl:all_reduce"),
    "all_gather": ("c10d::_allgather_base_", "nccl:_all_gather_base"),
    "reduce_scatter": ("c10d::_reduce_scatter_base_", "nccl:_reduce_scatter_base"),
    "send": ("c10d::send", "nccl:send"),
    "recv": ("c10d::recv_", "nccl:recv"),
}
"""op -> the dispatcher's operator and the profiler's annotation around the launch."""
