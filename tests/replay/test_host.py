"""What the host does before the GPU has anything to do: by hand in host.cases, times in ms."""

from __future__ import annotations

from typing import Any

import duckdb

from tests.analyses.builders import Builder, Span
from tests.replay.by_hand import check_replay
from tests.told import Case, told
from traceweave.analyses import Parameter, find
from traceweave.replay.device import DEPTH

MS = 1_000_000
LOADER = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"


class Host(Builder):
    """A host that launches and waits, in step 1 unless said."""

    def step_of(self, end: float, device: Span | None = None) -> None:
        """Rank 0 with one step."""
        self.rank(0)
        self.step(0, 1, (0, end), device or (0, end))

    def launched(
        self, called: float, at: Span, took: float = 0.005, step: int = 1, **more: Any
    ) -> None:
        """An op and the call that launches it."""
        launch = self.launch(0, (called, called + took), step=step)
        self.gpu(0, at, launch=launch, step=step, **more)

    def call(self, name: str, at: Span, rank: int = 0, depth: int = 0, step: int = 1) -> int:
        """A call of CUDA."""
        return self.host(rank, at, name, "runtime", depth, step=step)

    def only_step(self, begins: int, ends: int, synced: bool = True) -> None:
        """One step, whose op is launched at 60 and runs from 61 to 80."""
        self.step_of(100, (begins, ends))
        if synced:  # as the profiler does at first
            self.call("cudaDeviceSynchronize", (0, 0.001))
        self.launched(60, (61, 80))

    def loaded(self, begins: float) -> None:
        """Three kernels, and one whose code is loaded in the call that launches it."""
        self.step_of(20, (0, begins + 13))
        for at in (0, 0.1, 0.2):
            self.launched(at, (at + 0.01, at + 0.05))
        self.launched(1, (begins, begins + 13), 5, name="new")

    def full_queue(self, room: int = 1000, ops: int = 1100) -> None:
        self.step_of(0.1 * ops, (0.01, 0.1 * ops + 0.01))
        returned = 0.0
        for n in range(ops):
            done = (n - room + 1) * 0.1 + 0.015 if n >= room else 0
            called, returned = returned, max(returned + 0.005, done)
            begins = n * 0.1 + 0.01
            self.launched(called, (begins, begins + 0.1), returned - called, name="gemm")

    def copy(self, called: Span, at: Span, kind: str, rank: int = 0) -> None:
        """A copy of pageable memory."""
        call = self.call("cudaMemcpyAsync", called, rank)
        name = f"Memcpy {kind} (Pageable)"
        self.gpu(rank, at, "memory", name, launch=call, step=1, copy_kind=kind)

    def copied(self, kind: str, runs: float, returns: float) -> None:
        self.step_of(13, (0.01, 12.04))
        self.launched(0, (0.01, runs))
        self.copy((0.02, returns), (10.005, 10.015), kind)
        self.launched(returns + 0.01, (10.04, 12.04))

    def locked(self, returns: float) -> None:
        self.step_of(13, (0.01, returns + 2.01))
        self.launched(0, (0.01, 10))
        self.copy((0.02, 10.02), (10.005, 10.015), "DtoH")
        launch = self.launch(0, (1, returns), 2, step=1)
        at = (returns + 0.01, returns + 2.01)
        self.gpu(0, at, stream=8, launch=launch, step=1)

    def paused(self, *calls: int) -> None:
        """Rank 0 copies at 2, rank 1 at these."""
        for rank, own in enumerate(((2,), calls)):
            self.rank(rank)
            self.step(rank, 1, (0, 20), (0, own[-1] + 0.1))
            self.gpu(rank, (0, 1), launch=self.launch(rank, (0, 0.005), step=1), step=1)
            for at in own:
                took = 0.105 if own == (12,) else 0.005
                self.copy((at, at + took), (at + 0.002, at + 0.1), "HtoD", rank)


@told
def test_host(empty_run: duckdb.DuckDBPyConnection, case: Case) -> None:
    check_replay(Host(empty_run, unit=MS), case, **globals())


def test_a_queue_is_as_deep_for_replay_as_for_the_analysis() -> None:
    assert find("queue_depth").parameters[0] == Parameter(
        "queue_limit", "BIGINT", DEPTH, "a queue that holds this many launches is full"
    )
