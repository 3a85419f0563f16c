"""The text of every different event of one rank's Kineto trace, with slots for what varies.

Events of one table share their slots, in this order; what a template does not show is `%.0s`:

host ranges  ts, dur, external id, autograd sequence, index, collective's counter, flow id, flow ts
CUDA calls   ts, dur, external id, correlation, flow id, flow ts
their syncs  ts, dur, correlation of the record of the event, correlation
GPU ops      ts, dur, external id, correlation, bandwidth, collective's counter, flow id, flow ts

A time is two slots (microseconds and thousandths), or one if the trace counts whole microseconds.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from traceweave_simulator.kineto_layout import (
    ANNOTATION,
    BACKWARD_FLOW,
    CALL,
    FLOW_END,
    FLOW_START,
    FORWARD_FLOW,
    GPU,
    OPERATOR,
    SYNC,
    SYNC_KINDS,
    comm_args,
    comm_kernel_args,
    kernel_args,
)
from traceweave_simulator.places import device_of, pid_of
from traceweave_simulator.program import MAIN, Range
from traceweave_simulator.run import Run

CALLBACK_IDS = {
    "cudaLaunchKernel": 211,
    "cudaLaunchKernelExC": 430,
    "cudaMemcpyAsync": 41,
    "cudaEventRecord": 135,
    "cudaStreamWaitEvent": 147,
    "cudaStreamSynchronize": 131,
    "cudaDeviceSynchronize": 165,
}
"""CUPTI's numbers of the runtime calls."""


@dataclass(frozen=True)
class Templates:
    """The templates of one rank's trace."""

    run: Run
    rank: int
    new: bool
    integer_us: bool

    @cached_property
    def pid(self) -> int:
        """Return the process id."""
        return pid_of(self.run, self.rank)

    @cached_property
    def tids(self) -> tuple[int, int]:
        """Return the thread ids of the main and the autograd thread."""
        return self.pid, self.pid + 64

    @property
    def no_flow(self) -> str:
        """Return the slots of a flow that is not shown."""
        return "%.0s%.0s" if self.integer_us else "%.0s%.0s%.0s"

    def step(self) -> str:
        """Return the template of a step's range; its first slot is the step's number."""
        text = self._fixed(ANNOTATION, self._ids("", False))
        return text.replace("@name", "ProfilerStep#%d").replace("@tid", str(self.tids[MAIN]))

    def calls(self) -> list[str]:
        """Return a template for every kind of CUDA call."""
        templates = []
        for kind in self.run.calls.kinds:
            text = self._fixed(CALL, "").replace("@name", kind.name)
            text += self._fixed(FLOW_START, "") if kind.gpu >= 0 else self.no_flow
            text = text.replace("@cbid", str(CALLBACK_IDS[kind.name]))
            templates.append(text.replace("@tid", str(self.tids[kind.thread])))
        return templates

    def syncs(self) -> dict[int, str]:
        """Return a template for every kind of CUDA call that is a synchronization."""
        templates = {}
        device = str(device_of(self.run, self.rank))
        for number, kind in enumerate(self.run.calls.kinds):
            if kind.name in SYNC_KINDS:
                waits = "%.0s"
                if kind.on >= 0:
                    waits = (
                        f'"wait_on_stream": {kind.on}, "wait_on_cuda_event_record_corr_id": %d, '
                        f'"wait_on_cuda_event_id": {kind.stream}, '
                    )
                text = self._fixed(SYNC.replace("@waits", waits), "")
                text = text.replace("@kind", SYNC_KINDS[kind.name]).replace("@device", device)
                templates[number] = text.replace("@stream", str(kind.stream))
        return templates

    def _fixed(self, shape: str, args: str) -> str:
        ts, dur = ("%d", "%d") if self.integer_us else ("%d.%03d", "%d.%03d")
        text = shape.replace("@pid", str(self.pid)).replace("@ts", ts).replace("@dur", dur)
        # old versions began a new line where later ones only kept the indentation
        text = text.replace("@args", args)
        return text if self.new else text.replace(",      ", ",\n      ")

    def _ids(self, args: str, sequence: bool, comm: bool = False) -> str:
        """Return the arguments of a host range; slots: external id, sequence, index,
        collective's counter."""
        return "".join(
            (
                '"External id": %d,',
                '"Record function id": 0, ' if self.new else "",
                '"Sequence number": %d, "Fwd thread id": 0, ' if sequence else "%.0s",
                f"{args}, " if args else "",
                '"Ev Idx": %d',
                ', "Seq": %d' if comm else "%.0s",
            )
        )

    def ranges(self) -> list[str]:
        """Return a template for every kind of range; those that differ only in their sequence
        number share it."""
        made: dict[Range, str] = {}
        templates = []
        for number, row in enumerate(self.run.ranges.kinds):
            key = replace(row, sequence=min(row.sequence, 0))
            if key not in made or row.comm >= 0:
                made[key] = self._range_template(number)
            templates.append(made[key])
        return templates

    def _range_template(self, kind: int) -> str:
        run = self.run
        row = run.ranges.kinds[kind]
        shape = OPERATOR if row.kind == "cpu_op" else ANNOTATION
        comm = row.comm >= 0 and self.new
        args = row.args
        if row.comm >= 0:
            found = run.comms[self._comm_of_range[kind]]
            args = comm_args(run, self.rank, found, self.new)
        flow = self.no_flow
        if row.sequence >= 0 and row.name.startswith("aten::"):
            flow = self._fixed(FORWARD_FLOW, "")
        elif row.backward and not row.name.startswith("autograd::"):
            flow = self._fixed(BACKWARD_FLOW, "")
        text = self._fixed(shape, self._ids(args, row.sequence >= 0, comm)).replace(
            "@name", escaped(row.name)
        )
        return (text + flow).replace("@tid", str(self.tids[row.thread]))

    @cached_property
    def _comm_of_range(self) -> dict[int, int]:
        """Kind of a record_param_comms -> its collective."""
        run = self.run
        with_comm = np.flatnonzero(run.range_comm >= 0)
        kinds, first = np.unique(run.ranges.kind[with_comm], return_index=True)
        comms = run.gpu_comm[run.range_comm[with_comm[first]]]
        return dict(zip(kinds.tolist(), comms.tolist(), strict=True))

    def gpu(self) -> list[str]:
        """Return a template for every kind of GPU op."""
        run, rank = self.run, self.rank
        device = device_of(run, rank)
        comm_of = dict(zip(run.gpu.kind.tolist(), run.gpu_comm.tolist(), strict=True))
        templates = []
        for number, op in enumerate(run.gpu.kinds):
            args = kernel_args(op, device, self.new)
            if op.comm >= 0 and self.new and number in comm_of:
                args += comm_kernel_args(run, rank, run.comms[comm_of[number]])
            elif op.kind == "kernel":
                args += "%.0s%.0s"
            else:
                args += "%.0s"
            category = "kernel" if op.kind == "kernel" else "gpu_memcpy"
            text = (
                self._fixed(GPU, args)
                .replace("@cat", category)
                .replace("@name", escaped(op.kernel.name))
            )
            text += self._fixed(FLOW_END, "")
            templates.append(
                text.replace("@device", str(device)).replace("@stream", str(op.stream))
            )
        return templates


def escaped(text: str) -> str:
    """Return a name as JSON text inside a `%` template."""
    return json.dumps(text)[1:-1].replace("%", "%%")
