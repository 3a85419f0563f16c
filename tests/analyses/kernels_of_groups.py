"""Collectives with their kernels and the host operations that issue them, for hand-made runs."""

from dataclasses import dataclass
from typing import Any

from tests.analyses.builders import Builder, Interval

ACCUMULATE = "autograd::engine::evaluate_function: torch::autograd::AccumulateGrad"


@dataclass
class Issuer:
    """Issues collectives and compute of ranks; correlation numbers grow with every launch."""

    build: Builder
    correlation: int = 100
    step: int | None = 1

    def compute(self, rank: int, at: Interval, **more: Any) -> int:
        """A compute kernel on stream 7."""
        self.correlation += 1
        return self.build.gpu(rank, at, step=self.step, correlation=self.correlation, **more)

    def wait(self, rank: int, at_ns: int, tid: int = 1) -> None:
        """A cudaStreamWaitEvent."""
        self.correlation += 1
        self.build.host(
            rank, (at_ns, at_ns + 1), "cudaStreamWaitEvent", "runtime", 1, tid,
            correlation=self.correlation,
        )  # fmt: skip

    def collective(
        self,
        op: str,
        at: dict[int, Interval],
        asked_ns: int | None = None,
        tid: int = 1,
        stream: int = 20,
        **more: Any,
    ) -> None:
        """One operation with its kernels, asked for at `asked_ns` for 10 ns; `more` as in
        Builder."""
        each: dict[int, dict[str, Any]] = {}
        self.correlation += 1
        for rank, interval in at.items():
            kernel = self.build.gpu(
                rank, interval, "communication", stream=stream, correlation=self.correlation,
                launch=0, step=self.step,
            )  # fmt: skip
            each[rank] = {"gpu_op_id": kernel, "stream": stream}
            if asked_ns is not None:
                each[rank]["host_op_id"] = self.build.host(
                    rank, (asked_ns, asked_ns + 10), "record_param_comms", tid=tid
                )
        self.build.collective(at, op, step=self.step, each=each, **more)


def pick(rows: list[dict[str, Any]], *names: str) -> list[tuple[Any, ...]]:
    """Return some columns of rows."""
    return [tuple(row[name] for name in names) for row in rows]
