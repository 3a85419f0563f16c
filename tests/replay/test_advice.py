"""What advice does, replayed: gradients in other buckets, parameters gathered ahead, collectives on
a stream of their own. Times in advice.cases are us, and two ranks are alike."""

from __future__ import annotations

from typing import Any

import duckdb

from tests.analyses.builders import Builder, Span
from tests.replay.by_hand import US, check_replay
from tests.told import Case, told


class Job(Builder):
    """Two ranks alike, in step 1."""

    def alike(self, end: float, begin: float = 1) -> None:
        """The ranks and their step, on the GPU from `begin`."""
        for rank in range(2):
            self.rank(rank)
            self.step(rank, 1, (0, end), (begin, end))

    def kernel(self, rank: int, called: float, at: Span, took: float, *what: Any) -> int:
        """A kernel and the call that launches it."""
        call = self.launch(rank, (called, called + took), step=1)
        return self.gpu(rank, at, *what, launch=call, step=1)

    def both(
        self, at: Span, kernels: list[int], op: str = "all_reduce", calls: Any = None, **more: Any
    ) -> None:
        """A collective of a kernel of each rank."""
        each = {rank: {"gpu_op_id": kernel} for rank, kernel in enumerate(kernels)}
        for rank, call in enumerate(calls or ()):
            each[rank]["host_op_id"] = call
        self.collective(dict.fromkeys(range(2), at), op, step=1, each=each, **more)

    def reduced(self, end: float, *reductions: tuple[float, float, float, int]) -> None:
        """All-reduces (launched, start, end, MB) on a stream, and what follows them there to the
        end; the backward pass begins to compute at 1."""
        self.group(0, [0, 1], role="dp", role_source="description")
        self.alike(end, begin=0)
        last = reductions[-1][2]
        for rank in range(2):
            self.host(rank, (0, last), "autograd::engine::evaluate_function", tid=2, step=1)
            self.kernel(rank, 0, (1, 5), 0.5)
            self.gpu(rank, (last, end), "communication", "end", 9, step=1)
        for called, start, until, size in reductions:
            at, of = (start, until), ("communication", "nccl", 9)
            kernels = [self.kernel(rank, called, at, 0.5, *of) for rank in range(2)]
            self.both(at, kernels, bytes_=size * 1_000_000)

    def asks(self, begin: float) -> None:
        """An operator of 100 us that launches an all-reduce of 10."""
        kernels, calls = [], []
        at = (begin + 86, begin + 96)
        for rank in range(2):
            self.host(rank, (begin, begin + 100), "c10d::allreduce_", step=1)
            inside = (begin + 1, begin + 99)
            calls.append(self.host(rank, inside, "record_param_comms", depth=1, step=1))
            of = ("communication", "nccl", 9)
            kernels.append(self.kernel(rank, begin + 80, at, 5, *of))
        self.both(at, kernels, calls=calls, bytes_=1000)

    def gathered(self) -> None:
        """Before each of three units of four kernels a gather, on stream 9, when the unit before it
        is done; all is launched at 0.

        stream 7   embed 0-10            unit 20-40            unit 50-70            unit 80-100
        stream 9              R 10-20               R 40-50               R 70-80
        """
        self.group(0, [0, 1], role="dp", role_source="description")
        self.alike(100, begin=0)
        for rank in range(2):
            self.kernel(rank, 0, (1, 10), 0.001)
        for n in range(3):
            called, begin, kernels = 0.01 + 0.02 * n, 10 + 30 * n, []
            at = (begin, begin + 10)
            for rank in range(2):
                for asked in (called, called + 0.004):
                    wait = (asked, asked + 0.001)
                    self.host(rank, wait, "cudaStreamWaitEvent", "runtime", 9)
                of = ("communication", "nccl", 9)
                kernels.append(self.kernel(rank, called + 0.002, at, 0.001, *of))
                launch = self.launch(rank, (called + 0.006, called + 0.007), step=1)
                for start in range(begin + 10, begin + 30, 5):
                    self.gpu(rank, (start, start + 5), launch=launch, step=1)
            self.both(at, kernels, "all_gather")

    def on_one_stream(self, op: str, role: str = "dp", last: str = "gemm") -> None:
        """All launched at 0 and on one stream; `last` is the class of C.

        stream 7   A 0-10   R 10-14   B 14-24   R 24-28   C 28-38
        """
        self.group(0, [0, 1], role=role, role_source="description")
        self.alike(38, begin=0)
        for n, at in enumerate(((0, 10), (10, 14), (14, 24), (24, 28), (28, 38))):
            kernels = []
            for rank in range(2):
                call = self.launch(rank, (0.001 * n - 0.01, 0.001 * n - 0.009), step=1)
                category, kind = ("communication", "collective") if n % 2 else ("compute", "gemm")
                class_ = last if n == 4 else kind
                kernels.append(self.gpu(rank, at, category, class_=class_, launch=call, step=1))
            if n % 2:
                self.both(at, kernels, op)


@told
def test_advice(empty_run: duckdb.DuckDBPyConnection, case: Case) -> None:
    check_replay(Job(empty_run, unit=US), case, **globals())
