"""The training step: forward, backward, optimizer, and the collectives that each kind of
parallelism adds."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from traceweave_simulator import catalogue
from traceweave_simulator.catalogue import (
    COPIES,
    D2D,
    D2H,
    FIRST,
    H2D,
    LAST,
    LAYER,
    NCCL_KERNELS,
    PAGEABLE,
    Call,
    Kernel,
    Operator,
)
from traceweave_simulator.config import Config, Gap
from traceweave_simulator.groups import Groups
from traceweave_simulator.program import (
    AUTOGRAD,
    COMPUTE_STREAM,
    COPY_STREAM,
    MAIN,
    MODEL_STREAM,
    RECV_STREAM,
    SEND_STREAM,
    WORLD_STREAM,
    Comm,
    Program,
)


class StepBuilder:
    """Writes the program of one step, with the gaps that are to happen in it."""

    def __init__(self, config: Config, groups: Groups, gaps: tuple[Gap, ...]) -> None:
        self.config = config
        self.groups = groups
        self.gaps = gaps
        self.p = Program(extra_host_ops=config.extra_host_ops)

    # -- pieces

    def gap(self, cause: str) -> tuple[Gap, ...]:
        """Return the gaps of one cause, with their ranks spelled out: such a pause is exact, not
        jittered."""
        everybody = tuple(range(self.config.ranks))
        return tuple(
            replace(g, ranks=everybody if g.ranks is None else g.ranks)
            for g in self.gaps
            if g.cause == cause
        )

    def forward(self, op: Operator, record: list[tuple[Operator, int]]) -> None:
        """Write an operator of the forward pass and note it with its autograd sequence number."""
        p = self.p
        sequence = p.sequences
        p.sequences += 1
        record.append((op, sequence))
        self._nest(op.forward.calls, op.forward.kernel, sequence)

    def _nest(self, calls: tuple[Call, ...], kernel: Kernel, sequence: int) -> None:
        outer, *inner = calls
        args = (
            f'"Concrete Inputs": {outer.concrete}, "Input type": {outer.types}, '
            f'"Input Strides": {outer.strides}, "Input Dims": {outer.dims}'
        )
        with self.p.range(outer.name, args=args, sequence=sequence):
            if inner:
                self._nest(tuple(inner), kernel, -1)
            else:
                self.p.launch(kernel)

    def backward(self, op: Operator, sequence: int) -> None:
        """Write an operator's backward, as the autograd engine runs it."""
        p = self.p
        with (
            p.range(
                f"autograd::engine::evaluate_function: {op.node}",
                sequence=sequence,
                backward=True,
            ),
            p.range(op.node, sequence=sequence, backward=True),
        ):
            for work in op.backward:
                self._nest(work.calls, work.kernel, -1)

    def reduce_over(self, op: str, axis: str, size: int, stream: int) -> None:
        """Write a collective over every group of an axis, after what is on the compute stream."""
        g = self.groups
        members, ids = {
            "world": (g.world, g.world_ids),
            "model": (g.model, g.model_ids),
            "data": (g.data, g.data_ids),
        }[axis]
        if not isinstance(self.p.who, slice):
            here = np.isin(members, self.p.who).any(axis=1)
            members, ids = members[here], tuple(np.asarray(ids)[here].tolist())
        dtype, element = ("BFloat16", 2) if size > 64 else ("Float", 4)
        elements = max(1, size // element)
        if op != "all_reduce":
            elements += -elements % members.shape[1]
        comm = Comm(op, ids, members, elements, dtype, element)
        if self.config.shared_stream:
            stream = COMPUTE_STREAM
        else:
            self.p.wait(stream, COMPUTE_STREAM)
        self.p.communicate(comm, NCCL_KERNELS[op, dtype], stream)

    def settle(self, stream: int) -> None:
        """Let the compute stream wait for a communication stream."""
        if not self.config.shared_stream:
            self.p.wait(COMPUTE_STREAM, stream)

    # -- the step

    def load(self) -> None:
        """The data loader, and the batch's copy to the device."""
        p = self.p
        with p.range(
            "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", "user_annotation"
        ):
            p.work(self.config.data_loading_ns)
            for gap in self.gap("data_loading"):
                p.work(gap.duration_ns, gap.ranks)
                p.gap = gap
        args = (
            '"Concrete Inputs": ["", "4", "0", "", "", "True", "False", ""], '
            '"Input type": ["long int", "Scalar", "Scalar", "", "", "Scalar", "Scalar", ""], '
            '"Input Dims": [[4, 2048], [], [], [], [], [], [], []]'
        )
        with (
            p.range("aten::to", args=args),
            p.range("aten::_to_copy", args=args),
            p.range("aten::copy_"),
        ):
            p.copy(COPIES[H2D], 65_536, H2D)
            if self.config.pageable_bytes:
                duration = round(self.config.pageable_bytes / self.config.pageable_gbps)
                p.copy(
                    Kernel(PAGEABLE.name, PAGEABLE.short, duration), self.config.pageable_bytes, H2D
                )
                p.synchronize("cudaStreamSynchronize", (COMPUTE_STREAM,))

    def injected(self) -> None:
        """What goes wrong in the middle of the forward pass."""
        p = self.p
        for gap in self.gap("sync"):
            p.synchronize("cudaDeviceSynchronize", ALL_STREAMS, gap.duration_ns, gap.ranks)
            p.gap = gap
        for gap in self.gap("launch_bound"):
            # drained first, or the queue would hide the host's pause
            p.synchronize("cudaDeviceSynchronize", ALL_STREAMS)
            p.launch(catalogue.FILL)
            p.work(gap.duration_ns, gap.ranks)
            p.gap = gap
        for gap in self.gap("dependency"):
            duration = gap.duration_ns
            long = Kernel(COPIES[D2D].name, COPIES[D2D].short, duration)
            p.wait(COPY_STREAM, COMPUTE_STREAM)
            p.copy(long, duration * 500, D2D, COPY_STREAM)
            p.wait(COMPUTE_STREAM, COPY_STREAM)
            p.gap = gap

    def forward_layers(self, layers: range, record: list[tuple[Operator, int]]) -> None:
        """The forward pass of some layers, with the collectives of FSDP and tensor parallelism."""
        config = self.config
        fsdp, tp = config.parallelism == "fsdp", config.parallelism == "tp"
        if fsdp:
            self.reduce_over("all_gather", "data", config.layer_bytes, WORLD_STREAM)
        for layer in layers:
            if fsdp:
                self.settle(WORLD_STREAM)
                if config.overlap and layer != layers[-1]:
                    self.reduce_over("all_gather", "data", config.layer_bytes, WORLD_STREAM)
            for position, op in enumerate(LAYER):
                self.forward(op, record)
                if tp and position in (3, 8):
                    self.reduce_over("all_reduce", "model", config.activation_bytes, MODEL_STREAM)
                    self.settle(MODEL_STREAM)
            if fsdp and not config.overlap and layer != layers[-1]:
                self.reduce_over("all_gather", "data", config.layer_bytes, WORLD_STREAM)
            if layer == layers[len(layers) // 2]:
                self.injected()

    def backward_layers(
        self, layers: range, record: list[tuple[Operator, int]], reduce: bool
    ) -> None:
        """The backward pass of some layers; `record` holds their operators, forward order."""
        config = self.config
        waiting = 0
        for layer in reversed(layers):
            if config.parallelism == "fsdp":
                self.reduce_over("all_gather", "data", config.layer_bytes, WORLD_STREAM)
                self.settle(WORLD_STREAM)
            for position in reversed(range(len(LAYER))):
                op, sequence = record.pop()
                self.backward(op, sequence)
                if config.parallelism == "tp" and position in (1, 6):
                    self.reduce_over("all_reduce", "model", config.activation_bytes, MODEL_STREAM)
                    self.settle(MODEL_STREAM)
            waiting += 1
            if config.parallelism == "fsdp":
                self.reduce_over("reduce_scatter", "data", config.layer_bytes, WORLD_STREAM)
                if not config.overlap:
                    self.settle(WORLD_STREAM)
            elif reduce and (waiting == config.bucket_layers or layer == layers[0]):
                if config.data_parallel > 1:
                    part = waiting * config.layer_bytes // config.bucket_parts
                    for _ in range(config.bucket_parts):
                        self.reduce_over("all_reduce", "data", part, WORLD_STREAM)
                    if not config.overlap:
                        self.settle(WORLD_STREAM)
                waiting = 0

    def optimizer(self) -> None:
        """The gradient norm over all ranks, the optimizer's kernels, and the loss on the host."""
        p, config = self.p, self.config
        self.reduce_over("all_reduce", "world", 4, WORLD_STREAM)
        self.settle(WORLD_STREAM)
        with p.range("Optimizer.step#AdamW.step", "user_annotation"):
            for _ in range(max(2, config.layers // 4)):
                with p.range("aten::_fused_adamw_"):
                    p.launch(catalogue.ADAM)
        with p.range("Optimizer.zero_grad#AdamW.zero_grad", "user_annotation"):
            p.work(5_000)
        if config.sync_every_step:
            with p.range("aten::item"), p.range("aten::_local_scalar_dense"):
                p.copy(COPIES[D2H], 4, D2H)
                p.synchronize("cudaStreamSynchronize", (COMPUTE_STREAM,))

    def build(self) -> Program:
        """Return the whole step."""
        self.load()
        self.model()
        self.optimizer()
        return self.p

    def model(self) -> None:
        """Forward and backward pass of the whole model on every rank."""
        p, config = self.p, self.config
        record: list[tuple[Operator, int]] = []
        layers = range(config.layers)
        wrapper = {
            "ddp": "DistributedDataParallel.forward",
            "fsdp": "FullyShardedDataParallel.forward",
        }
        with p.range(wrapper.get(config.parallelism, "forward"), "user_annotation"):
            self.forward(FIRST, record)
            self.forward_layers(layers, record)
            self.forward(LAST, record)
        p.thread = AUTOGRAD
        self.backward(*record.pop())
        self.backward_layers(layers, record, reduce=True)
        self.backward(*record.pop())
        if config.parallelism != "fsdp" and config.data_parallel > 1:
            self.reduce_over("all_reduce", "data", config.layer_bytes // 8, WORLD_STREAM)
        p.thread = MAIN


ALL_STREAMS = (COMPUTE_STREAM, WORLD_STREAM, MODEL_STREAM, SEND_STREAM, RECV_STREAM, COPY_STREAM)
