"""The training step of a pipeline: all microbatches forward, then all backward."""

from __future__ import annotations

import numpy as np

from traceweave_simulator.catalogue import FIRST, LAST, NCCL_KERNELS, Operator
from traceweave_simulator.model import StepBuilder
from traceweave_simulator.program import (
    ALL,
    AUTOGRAD,
    COMPUTE_STREAM,
    MAIN,
    RECV_STREAM,
    SEND_STREAM,
    Code,
    Comm,
)


class PipelineBuilder(StepBuilder):
    """Writes each stage's share of the step for the ranks of that stage alone.

    The instructions are in an order that every rank could have issued them in: a send stands right
    before its recv.
    """

    def layers_of(self, stage: int, stages: int) -> range:
        """Return the layers of a pipeline stage."""
        bounds = [self.config.layers * s // stages for s in range(stages + 1)]
        bounds[-1] += self.config.last_stage_layers
        return range(bounds[stage], bounds[stage + 1])

    def model(self) -> None:
        """Forward and backward passes of all microbatches."""
        p, stages = self.p, self.config.model_parallel
        records: dict[tuple[int, int], list[tuple[Operator, int]]] = {}
        for batch in range(self.config.microbatches):
            for stage in range(stages):
                record = records[batch, stage] = []
                p.who = self.groups.data[stage]
                if stage == 0:
                    self.forward(FIRST, record)
                self.forward_layers(self.layers_of(stage, stages), record)
                if stage == stages - 1:
                    self.forward(LAST, record)
                else:
                    self.transfer(stage, stage + 1)
        for batch in range(self.config.microbatches):
            last = batch == self.config.microbatches - 1
            for stage in reversed(range(stages)):
                record = records[batch, stage]
                p.who, p.thread = self.groups.data[stage], AUTOGRAD
                if stage == stages - 1:
                    self.backward(*record.pop())
                self.backward_layers(self.layers_of(stage, stages), record, reduce=last)
                if stage == 0:
                    self.backward(*record.pop())
                p.thread = MAIN
                if stage > 0:
                    self.transfer(stage, stage - 1)
        p.who = ALL

    def transfer(self, source: int, target: int) -> None:
        """Send activations or gradients from one stage to another."""
        p, data = self.p, self.groups.data
        pairs = np.stack([data[source], data[target]], axis=1)
        elements = self.config.activation_bytes // 2
        first = len(p.comms)
        for op, code, stage, stream in (
            ("send", Code.SEND, source, SEND_STREAM),
            ("recv", Code.RECV, target, RECV_STREAM),
        ):
            p.who = data[stage]
            other = first + 1 if op == "send" else first
            comm = Comm(op, self.groups.model_ids, pairs, elements, "BFloat16", 2, other)
            p.wait(stream, COMPUTE_STREAM)
            p.communicate(comm, NCCL_KERNELS[op, "BFloat16"], stream, code)
        p.wait(COMPUTE_STREAM, RECV_STREAM)
