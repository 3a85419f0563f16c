"""What analyses answer of tiny runs, worked out by hand: by_hand/ANALYSIS.cases; times are ns."""

import json
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import duckdb

from tests.analyses import flops_run
from tests.analyses.builders import Builder, Interval, check
from tests.analyses.kernels_of_groups import ACCUMULATE as ACCUMULATE
from tests.analyses.kernels_of_groups import Issuer
from tests.analyses.memory_events import memory_event
from tests.told import Case, told

LOADER = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
COPIED = [
    ((20, 90), "Memcpy DtoH (Device -> Pageable)"), ((20, 100), "Memcpy HtoD (Pageable -> Device)"),
    ((20, 90), "Memcpy DtoH"), ((20, 101), "Memcpy DtoH (Device -> Pageable)"),
    ((20, 90), "Memcpy DtoH (Device -> Pinned)"), ((20, 90), "Memcpy DtoD (Device -> Device)"),
]  # fmt: skip


class Run(Builder):
    """What several cases are made of."""

    @cached_property
    def issue(self) -> Issuer:
        """Collectives and compute, in the order of their launches."""
        return Issuer(self)

    def without_steps(self) -> None:
        """What is issued is in no step."""
        self.issue.step = None

    def launched(
        self, call: Interval, *at: Interval, rank: int = 0, tid: int = 1, **more: Any
    ) -> None:
        """Kernels of one call."""
        launch = self.launch(rank, call, tid)
        for each in at:
            self.gpu(rank, each, launch=launch, **more)

    def calling(self, rank: int, at: Interval, name: str, call: Interval, kernel: Interval) -> None:
        """An operator that launches a kernel."""
        launch = self.launch(rank, call, parent_id=self.host(rank, at, name))
        self.gpu(rank, kernel, launch=launch)

    def copy(
        self, at: Interval, name: str, size: int | None, rank: int = 0, **more: object
    ) -> None:
        kind = {"copy_kind": name.split()[1][:4], "bytes": size}
        self.gpu(rank, at, "memory", name, 9, **(kind | more))

    def copied(self, rank: int, at: Interval, name: str) -> None:
        """A copy of a call that returns at 100."""
        launch = self.host(rank, (0, 100), "cudaMemcpyAsync", "runtime")
        self.copy(at, name, 8, rank, launch=launch)

    def waiting(self, at: Interval) -> None:
        """A call of the runtime that waits, and the driver's in it."""
        outer = self.host(0, at, "cudaStreamSynchronize", "runtime", 4, step=3)
        self.host(0, at, "cuStreamSynchronize", "driver", 5, parent_id=outer)

    def graph(self, call: Interval, *ops: tuple[int, int, str, int], **more: Any) -> None:
        """A graph launched, and its ops: begin, end, name and stream."""
        launch = self.host(0, call, "cudaGraphLaunch", "runtime")
        for begin, end, name, stream in ops:
            self.gpu(0, (begin, end), name=name, stream=stream, launch=launch, **more)

    def replayed(self, at: int) -> None:
        """A graph whose capture was annotated, of forward and backward."""
        launch = self.launch(0, (at, at + 5), step=at // 100)
        forward, backward = '{"name": "attention"', ', "autograd_phase": "backward"}'
        for first, last, node, args in (
            (10, 20, 3, forward + "}"), (40, 45, 3, forward + "}"),
            (60, 70, 4, '{"grid": [1, 1, 1]}'), (80, 88, 5, forward + backward),
        ):  # fmt: skip
            self.gpu(0, (at + first, at + last), launch=launch, graph_node=node, args=args)

    def queued(self) -> None:
        """Two launches while the stream is busy, and one later."""
        for call, start in (((0, 5), 30), ((10, 12), 40), ((60, 62), 80)):
            self.launched(call, (start, start + 5))

    def memory(self, at: int, value: int, address: int, *totals: int, **more: Any) -> None:
        memory_event(self, at, value, address, *totals, **more)

    def rise_and_fall(self) -> None:
        """Allocated 100, 400 of 1000 reserved, 350, 450 of 500 reserved, 50."""
        for number, (value, allocated, reserved) in enumerate(
            ((100, 100, 1000), (300, 400, 1000), (-50, 350, 500), (100, 450, 500), (-400, 50, 500))
        ):
            self.memory(10 * number + 10, value, number, allocated, reserved)

    def reduced(self, at: dict[int, Interval], step: int | None = None) -> None:
        """An all-reduce with its kernels."""
        ops = {rank: self.gpu(rank, span, "communication", stream=9) for rank, span in at.items()}
        each = {rank: {"gpu_op_id": op} for rank, op in ops.items()}
        self.collective(at, step=step, each=each)

    def three_meet(self, residual_ns: int | None = 0) -> None:
        """Rank 2 comes last, 30 after rank 1 and 40 after rank 0; the transfer takes 20.

        rank 0  ########====================----        # compute, = waiting, - transfer"""
        self.world(3, residual_ns)
        for rank, end in enumerate((115, 110, 140)):
            self.gpu(rank, (0, end))
        self.collective({0: (100, 160), 1: (110, 160), 2: (140, 160)})

    def all_to_all(self, args: str | None) -> None:
        """Of rank 0, 1200 bytes."""
        kernel = self.gpu(0, (0, 100), "communication", args=args)
        self.collective({0: (0, 100)}, "all_to_all", bytes_=1200, each={0: {"gpu_op_id": kernel}})

    def exchange(
        self,
        splits: dict[int, list[int] | None],
        scale: int = 1,
        unit: int = 1,
        step: int | None = None,
        group_id: int = 0,
    ) -> None:
        """An all_to_all with so many elements of 1 byte for each rank, each rank 10 units after the
        one before, until 100."""
        at, each = {}, {}
        for place, (rank, parts) in enumerate(splits.items()):
            sizes = [scale * part for part in parts or [30]]
            args: dict[str, Any] = {"In msg nelems": sum(sizes), "Out msg nelems": sum(sizes)}
            args |= {"In split size": str(sizes)} if parts else {}
            at[rank] = (10 * unit * place, 100 * unit)
            op = self.gpu(
                rank, at[rank], "communication", "SendRecv", 20, step=step, args=json.dumps(args)
            )
            each[rank] = {"gpu_op_id": op, "bytes": sum(sizes)}
        self.collective(at, "all_to_all", group_id, step=step, each=each)

    def two_buckets(self, *sizes: int | None) -> None:
        """Ready at 1000 and 1050; 200 and 400 ns: a latency of 100 ns and 20 bytes per ns."""
        self.ranks(2)
        self.group(0, [0, 1], role="dp", role_source="name")
        for compute, at, asked_ns, size in zip(
            ((0, 1000), (1000, 1050)), ((1000, 1200), (1200, 1600)), (500, 600), sizes, strict=True
        ):
            for rank in (0, 1):
                self.issue.compute(rank, compute)
            self.issue.collective("all_reduce", dict.fromkeys((0, 1), at), asked_ns, bytes_=size)

    def inspected(self, lengths_us: dict[int, list[int]], bytes_: int = 4000) -> None:
        """Inspector's lengths per rank of two, the n-th of each the same operation."""
        for rank, lengths in lengths_us.items():
            self.sql(
                "INSERT INTO base.nccl_communicators BY NAME SELECT 9 AS source_id,"
                f" {rank} AS number, 'h' AS host, 100 + {rank} AS pid, {rank} AS rank,"
                f" '0xa' AS identity, {rank} AS place, 2 AS size"
            )
            for nth, length in enumerate(lengths):
                self.sql(
                    "INSERT INTO base.nccl_inspected BY NAME SELECT 9 AS source_id,"
                    f" {rank * 100 + nth} AS record, {rank} AS number, 'all_reduce' AS op,"
                    f" 'AllReduce' AS name, FALSE AS is_p2p, {nth} AS nth, {bytes_} AS bytes,"
                    f" {length * 1000} AS duration_ns, 'kernel_gpu' AS timing, 1.5 AS busbw_gbps"
                )

    def two_windows(self) -> None:
        """Rank 0 computes 0-80 and 60-100 of its window 0-200, rank 1 0-50 of 0-160."""
        for rank, window in ((0, 200), (1, 160)):
            self.rank(rank)
            self.step(rank, 1, (0, 100), (0, window))
        self.gpu(0, (0, 80))
        self.gpu(0, (60, 100), stream=8)
        self.gpu(0, (100, 200), category="communication")
        self.gpu(1, (0, 50))
        self.gpu(1, (50, 160), category="communication")

    def steps_of(self, compute: list[int], comm: list[int], idle: list[int]) -> None:
        """Steps of compute, then communication, then nothing, in us; nothing is launched late."""
        self.rank(0)
        at = 0
        for step, (busy, sent, free) in enumerate(zip(compute, comm, idle, strict=True)):
            end = at + (busy + sent + free) * 1000
            self.step(0, step, (at, end), (at, end))
            self.gpu(0, (at, at + busy * 1000))
            self.gpu(0, (at + busy * 1000, end - free * 1000), "communication", stream=9)
            at = end
        self.gpu(0, (at, at))

    def three_ranks(self) -> None:
        """Kernels of which the last gemm and norm are longer from rank to rank."""
        self.ranks(3)
        for rank in range(3):
            for length in (10, 20, 30 + 10 * rank):
                self.gpu(rank, (0, length), name="gemm")
            self.gpu(rank, (0, 5 * (rank + 1)), name="norm")
            self.gpu(rank, (0, 500), "communication", name="all_reduce")
        self.gpu(2, (0, 900), name="alone")

    def kernels_of_two(self) -> None:
        """gemm takes 10, 20, 30 on rank 0 and 40 twice on rank 1; all_reduce 100; a copy."""
        self.ranks(2)
        for rank, length, name in (
            (0, 10, "gemm_a"), (0, 20, "gemm_a"), (0, 30, "gemm_a"),
            (1, 40, "gemm_a"), (1, 40, "gemm_a"), (1, 8, "gemm_b"),
        ):  # fmt: skip
            self.gpu(rank, (0, length), name=name, class_="gemm", step=rank + 1)
        self.gpu(0, (0, 100), "communication", "all_reduce", class_="collective", step=1)
        self.gpu(0, (0, 1000), "memory", "Memcpy HtoD", step=1)

    def row_of(self, names: str, stream: int = 7) -> None:
        """Kernels of 10 named by letters one after another, 2 apart; C is a collective."""
        for number, name in enumerate(names):
            category = "communication" if name == "C" else "compute"
            self.gpu(0, (12 * number, 12 * number + 10), category, name, stream)

    def linear(self) -> None:
        self.rank(0)
        top = self.host(0, (0, 100), "aten::linear")
        addmm = self.host(0, (10, 80), "aten::addmm", depth=1, parent_id=top)
        outer = self.launch(0, (20, 30), parent_id=addmm)
        inner = self.host(0, (22, 28), "cuLaunchKernel", "driver", 3, parent_id=outer)
        self.gpu(0, (50, 90), launch=inner)
        self.gpu(0, (90, 96), launch=self.launch(0, (40, 45), parent_id=addmm))
        self._backward(addmm, (400, 500))

    def _backward(self, of: int, kernel: Interval) -> None:
        back = self.host(0, (200, 300), "AddmmBackward0", tid=2)
        self.gpu(0, kernel, launch=self.launch(0, (210, 220), tid=2, parent_id=back))
        self.sql(f"INSERT INTO base.flows VALUES (0, 0, 'fwdbwd', {of}, {back})")

    def modules(self) -> None:
        """A model of two layers under a Python stack; the second one is called in the first."""
        #  Model   0.................................100     thread 2: 200..AddmmBackward0..300
        #    forward 1..............................99                    210-220 launch, 100 ns
        #      Linear_0  10...............60
        #         launch 12-14, 40 ns
        #         Linear_1     20....40
        #           addmm       22..38  launch 24-26, 7 ns
        #      Tanh_0                      70..80  launch 72-74, 5 ns
        self.rank(0)

        def frame(at: Interval, name: str, depth: int, parent: int | None) -> int:
            return self.host(0, at, name, "python", depth, parent_id=parent)

        def launch(at: int, parent: int, gpu_ns: int) -> None:
            call = self.launch(0, (at, at + 2), parent_id=parent)
            self.gpu(0, (500 + at, 500 + at + gpu_ns), launch=call)

        model = frame((0, 100), "nn.Module: Model_0", 0, None)
        forward = frame((1, 99), "model.py(7): forward", 1, model)
        first = frame((10, 60), "nn.Module: Linear_0", 2, forward)
        launch(12, first, 40)
        second = frame((20, 40), "nn.Module: Linear_1", 3, first)
        addmm = self.host(0, (22, 38), "aten::addmm", depth=4, parent_id=second)
        launch(24, addmm, 7)
        launch(72, frame((70, 80), "nn.Module: Tanh_0", 2, forward), 5)
        self._backward(addmm, (710, 810))

    def counted(self, at: Interval, flops: int, **more: Any) -> None:
        flops_run.counted(self, at, flops, **more)

    def kernel(self, called: int, at: Interval, **more: Any) -> None:
        flops_run.kernel(self, called, at, **more)

    def gpu_named(self, name: str, rank: int = 0) -> None:
        flops_run.gpu_named(self, rank, name)

    def three_kinds(self) -> None:
        """Two products and something else on an A100."""
        self.rank(0)
        self.gpu_named("NVIDIA A100-SXM4-80GB")
        self.counted((0, 100), flops=50 * 10**9, gigabytes=0.1, name="triton_big")
        self.kernel(10, (0, 100_000))
        self.counted((200, 300), flops=2 * 10**9, gigabytes=0.1, name="triton_small")
        self.kernel(210, (100_000, 200_000))
        self.kernel(400, (200_000, 250_000), class_="norm")

    def trained(self, rank: int = 0, gpu_name: str = "NVIDIA H200") -> None:
        """Steps of 10 us and 20 us; in each 4 GFLOP of model, in the second 1 of optimizer."""
        self.rank(rank)
        self.gpu_named(gpu_name, rank)
        self.step(rank, 1, (0, 9_000), (1_000, 11_000))
        self.step(rank, 2, (9_000, 19_000), (11_000, 31_000))
        for step, at in ((1, 100), (2, 9_100)):
            self.counted((at, at + 50), flops=4 * 10**9, rank=rank, step=step)
            self.kernel(at + 1, (at + 1_000, at + 7_000), rank=rank, step=step)
            self.kernel(at + 60, (at + 8_000, at + 10_000), rank=rank, step=step, class_="norm")
        self.host(rank, (18_000, 18_500), "Optimizer.step#Muon.step", "annotation", step=2)
        self.counted((18_100, 18_200), flops=10**9, rank=rank, step=2)
        self.kernel(18_101, (29_000, 31_000), rank=rank, step=2)

    def in_world(self, ranks: int) -> None:
        """So many ranks, whose group of all is known to be that."""
        self.ranks(ranks)
        self.group(0, list(range(ranks)), role="world", role_source="size is the world size")

    def groups_of(
        self, *ranks: list[int], ops: Sequence[str] = ("all_reduce",), **more: Any
    ) -> None:
        """Groups from 1 on, each with these operations."""
        for group_id, of in enumerate(ranks, 1):
            self.group(group_id, of, **more)
            for op in ops or ["all_reduce"]:
                self.issue.collective(op, dict.fromkeys(of, (0, 100)), group_id=group_id)


@told
def test_by_hand(empty_run: duckdb.DuckDBPyConnection, case: Case) -> None:
    check(Run(empty_run), case, **globals())
