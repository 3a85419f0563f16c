"""findings: each rule on rows made by hand; tests/end_to_end has them on simulated runs.

In findings.cases steps are of 1 ms, and times are us from the beginning of each step. A time that
is a list has one of each step, None in those without it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

from tests.analyses.builders import Builder, Span, check, found_by, rows
from tests.analyses.flops_run import gpu_named
from tests.conftest import Recorded
from tests.marks import nightly
from tests.told import Case, told
from traceweave.analyses import find, rules
from traceweave.analyses.reference import findings_markdown
from traceweave.errors import UsageError
from traceweave.replay.model import Model
from traceweave.store.database import open_database
from traceweave.store.empty import create_tables

US = 1_000

MELTING = ((900, 1200), (1200, 2100), (2100, 3000), (3000, 3300))

LONG = (0, 1000, 2000, 4000, 5000, 6000)
above_300_us = pytest.approx(400 * US, abs=100 * US)

Time = float | None | list[float | None]


class Run(Builder):
    """Steps of some ranks, and what happens in all of them."""

    begins: tuple[int, ...] = (0,)

    def steps(self, ranks: int = 2, count: int = 4, begins: tuple[int, ...] = ()) -> None:
        """So many steps of 1 ms, or those that begin there, the last of which ends so."""
        *self.begins, end = begins or range(0, (count + 1) * 1000, 1000)
        for rank in range(ranks):
            self.rank(rank)
            for step, window in enumerate(zip(self.begins, [*self.begins[1:], end], strict=True)):
                self.step(rank, step, window, window)

    def _each(self, *times: Time) -> Iterator[tuple[int, list[float]]]:
        """Yield the steps that have all of these times, and the times there."""
        for step, at in enumerate(self.begins):
            here = [time[step] if isinstance(time, list) else time for time in times]
            if None not in here:
                yield step, [at + (time or 0) for time in here]

    def compute(self, rank: int, until: Time, since: Time = 0, **more: Any) -> None:
        """Compute that is launched as it begins."""
        for step, (begin, end) in self._each(since, until):
            launch = self.launch(rank, (begin, begin + 0.01))
            self.gpu(rank, (begin, end), step=step, launch=launch, **more)

    def launched(
        self, rank: int, since: Time = 990, until: Time = 1000, begin: Time = None
    ) -> None:
        """An op without length as its launch returns, or of the time from `begin` to `until`."""

        for step, (call, end, at) in self._each(since, until, until if begin is None else begin):
            returned = end if begin is None else call + 10
            self.gpu(rank, (at, end), step=step, launch=self.launch(rank, (call, returned)))

    def copies(
        self, rank: int, since: Time, until: Time, name: str = "Memcpy HtoD", **more: Any
    ) -> None:
        for step, span in self._each(since, until):
            self.gpu(rank, tuple(span), "memory", name, step=step, **more)

    def hosts(
        self, rank: int, since: Time, until: Time, name: str, kind: str = "annotation", **more: Any
    ) -> list[int]:
        """A range of the host; returns its op_ids."""
        return [
            self.host(rank, tuple(span), name, kind, step=step, **more)
            for step, span in self._each(since, until)
        ]

    def meet(
        self,
        at: dict[int, tuple[Time, Time]],
        op: str = "all_reduce",
        each: Any = None,
        **more: Any,
    ) -> None:
        """One operation on some ranks, with a kernel on each; `each` may be one of every step."""
        spans: dict[int, dict[int, Span]] = {}
        for rank, span in at.items():
            for step, (begin, end) in self._each(*span):
                spans.setdefault(step, {})[rank] = (begin, end)
        for step, there in spans.items():
            for rank, span in there.items():
                self.gpu(rank, span, "communication", "nccl", 20, step=step)
            said = each[step] if isinstance(each, list) else each
            self.collective(there, op, step=step, each=said, **more)

    def transfers(self, role: str, op: str = "all_reduce", **more: Any) -> None:
        """On two ranks 600 us of compute, then 300 us of transfer, no waiting."""
        self.steps()
        self.group(0, [0, 1], role=role, role_source="description", **more)
        for rank in (0, 1):
            self.compute(rank, 600)
        self.meet({0: (600, 900), 1: (600, 900)}, op, bytes_=1_000_000)

    def asked(self, name: str, **more: Any) -> list[dict[int, dict[str, int]]]:
        """A call of that name on both ranks in every step, as the operator of what they meet in."""
        asked = [self.hosts(rank, 30, 50, name, "op", depth=1, **more) for rank in (0, 1)]
        return [
            {r: {"host_op_id": op} for r, op in enumerate(ops)} for ops in zip(*asked, strict=True)
        ]

    def gathered(self, around: str) -> None:
        """Transfers that are asked for in a range, after a shorter one of its family is over."""
        self.steps()
        self.group(0, [0, 1], role="dp", role_source="description")
        for rank in (0, 1):
            self.compute(rank, 600)
            self.hosts(rank, 20, 60, around)
            self.hosts(rank, 21, 25, f"{around}.inner", depth=1)
        asked = self.asked("c10d::_allgather_base_")
        self.meet({0: (600, 900), 1: (600, 900)}, "all_gather", asked, bytes_=1_000_000)

    def micro_batches(self, late: float) -> None:
        """Four of 100 us on two stages; all but the first begin later on the second."""
        self.steps()
        self.group(0, [0, 1], role="pp", role_source="name")
        for n in range(4):
            after = late if n else 0
            begin, sent = 100 * n, 100 * n + 100
            self.compute(0, sent, begin)
            self.compute(1, sent + after + 100, sent + after)
            spans = {0: (sent, sent + after), 1: (begin, sent + after)}
            self.meet(spans, "send", {1: {"op": "recv"}})

    def two_micro_batches(self, held: int) -> None:
        """Two of 100 us on two ranks, the second 400 us late, that hold so many stages each."""
        self.steps()
        self.group(0, [0, 1], role="pp", role_source="name")
        for rank in (0, 1):
            for stage in range(rank, 2 * held, 2):
                self.host(rank, (10, 20), f"PP:{stage}F0", "annotation", step=0)
        for n, begin in enumerate((0, 500)):
            middle, end = begin + 100, begin + 200
            self.compute(0, middle, begin)
            self.compute(1, end, middle)
            spans = {0: (middle, middle), 1: (n * 200, middle)}
            self.meet(spans, "send", {1: {"op": "recv"}})

    def two_groups(self, seen: list[int], **more: Any) -> None:
        """Transfers of three ranks, of which some are seen, and of three others."""
        self.steps(6)
        self.group(0, [0, 1, 5])
        self.group(1, [2, 3, 4])
        for number, ranks, end in ((0, seen, 800), (1, [2, 3, 4], 600)):
            each = dict.fromkeys(ranks, more)
            self.meet(dict.fromkeys(ranks, (500, end)), each=each, group_id=number)

    def first_pass(self) -> None:
        """Kernels between which memory is allocated, without steps."""
        self.rank(0)
        for at in range(0, 4000, 1000):
            self.gpu(0, (at + 10, at + 700), launch=self.launch(0, (at, at + 5)))
            self.host(0, (at + 710, at + 990), "aten::empty")
            self.host(0, (at + 720, at + 900), "cudaMalloc", "runtime", 1)

    def late_batch(self, loader: str) -> None:
        """The host waits for data for 40 us, 440 in step 2."""
        self.steps(1)
        self.compute(0, [950, 950, 550, 950])
        self.hosts(0, [950, 950, 550, 950], 990, loader)
        self.launched(0)

    def micro_steps(self, *updates: int) -> None:
        """Every fourth of eight steps takes 1000 us, the others 110."""
        self.steps(1, 8)
        self.compute(0, [100, 100, 100, 990] * 2)
        self.hosts(
            0, [0 if step in updates else None for step in range(8)], 1, "Optimizer.step#SGD.step"
        )
        self.sql(
            "UPDATE base.steps SET duration_ns = 110_000, device_end_local_ns ="
            " start_local_ns + 110_000 WHERE step % 4 < 3"
        )

    def batches(self, source: str, busy: float) -> None:
        """Step 2 takes 2 ms, and is busy for so long."""
        self.steps(1, begins=LONG)
        self.compute(0, [1000, 1000, busy, 1000, 1000])
        self.sql(f"UPDATE base.steps SET source = '{source}'")

    def long_step(self, late: float) -> None:
        """Step 2 takes 2 ms, of which rank 1 comes so late to what three ranks meet in."""
        self.steps(3, begins=LONG)
        self.group(0, [0, 1, 2])
        ends: list[float | None] = [1000, 1000, 2000, 1000, 1000]
        for rank in range(3):
            self.compute(rank, 500)
        late_in_2: list[float | None] = [500, 500, 500 + late, 500, 500]
        self.meet({0: (500, ends), 1: (late_in_2, ends), 2: (500, ends)})

    def kernels(self, rank: int, **lengths: int) -> None:
        """The rank runs each kernel once, one after the other; lengths in us, but for the first,
        which is now a little longer, now shorter."""
        for step, little in enumerate((0, 0.3, -0.3, 0)):
            at, more = step * 1000.0, rank * little
            for name, length in lengths.items():
                self.gpu(rank, (at, at + length + more), name=name, step=step)
                at, more = at + length + more, 0

    def rounds(self, count: int, *inside: str, copies: bool = False, launches: int = 1) -> None:
        """Rounds of 100 us: a wait inside of operators until 40.5 of them, then two more launches.
        Of the three, so many are of the operator; the first may be of a copy to the GPU."""
        self.steps(1, begins=(0, count * 100))
        for begin in range(0, count * 100, 100):
            around = None
            for depth, name in enumerate(inside):
                around = self.host(0, (begin, begin + 41), name, depth=depth, parent_id=around)
            wait = (begin + 1, begin + 40.5)
            self.host(0, wait, "cudaEventSynchronize", "runtime", 1, parent_id=around, step=0)
            for n, (since, until) in enumerate(((0, 40), (60, 69), (90, 99))):
                at = begin + since
                call = self.launch(0, (at, at + 0.5), parent_id=around if n < launches else None)
                of: Any = {"category": "memory", "copy_kind": "HtoD"} if copies and n == 0 else {}
                self.gpu(0, (at + 0.5, begin + until), name="abc"[n], launch=call, **of)
        # waits outside of the steps are not what made the host launch late in them
        outside = self.host(0, (-900, -100), "aten::nonzero")
        self.host(0, (-800, -200), "cudaEventSynchronize", "runtime", 1, parent_id=outside)

    def program(self, operator: str, product: str, last: str) -> None:
        """What an operator and an optimizer run: products, a kernel of that class, a softmax."""
        self.steps(1, begins=(0, 100))
        self.host(0, (0, 5), operator)
        self.host(0, (0, 5), "Optimizer.step#Adam.step", "annotation")
        calls = [self.launch(0, (n, n)) for n in range(3)]
        self.gpu(0, (0, 80), name=product, class_="gemm", launch=calls[0])
        name = "Adam" if last == "optimizer" else "multi_tensor"
        self.gpu(0, (80, 99.5), name=name, class_=last, launch=calls[1])
        self.gpu(0, (99.5, 100), class_="softmax", launch=calls[2])

    def products(self, gpu: str, last: str) -> None:
        """Of 100 us, 80 are products in fp32 on the ordinary cores of a GPU, then 19 of others."""
        self.steps(1, begins=(0, 100))
        gpu_named(self, 0, gpu)
        self.host(0, (0, 5), "aten::mm")
        kernels = (
            ("ampere_sgemm_128x64_nn", (0, 60)),
            ("sm80_xmma_gemm_ffma_a4", (60, 80)),
            (last, (80, 99)),
        )
        for name, at in kernels:
            self.gpu(0, at, name=name, step=0, class_="gemm")

    def allocated(self, used: int, reserved: int) -> None:
        """Memory of rank 0."""
        self.sql(
            "INSERT INTO base.memory_events (rank, op_id, source_id, device, name, at_local_ns,"
            " value, total_allocated_bytes, total_reserved_bytes)"
            f" VALUES (0, 99, 0, 'GPU 0', 'alloc', 0, {used}, {used}, {reserved})"
        )


@told
def test_findings(empty_run: duckdb.DuckDBPyConnection, case: Case) -> None:
    check(Run(empty_run, unit=US), case, **globals())


@nightly
def test_copies_beside_pageable_ones_are_bound_by_what_no_copy_at_all_gains(build: Builder) -> None:
    """Copies run until 500 us, the last 20 from pageable memory, which is a rule of its own. What
    comes after them is launched at 400 us, so that it could begin 100 us earlier."""
    run = Run(build.con, unit=US)
    run.steps(1, 1)
    run.compute(0, 10)
    for name, at in (("Pinned", (10, 480)), ("Pageable", (480, 500))):
        launch = run.launch(0, (at[0] / 100, at[0] / 100 + 0.01))
        run.copies(0, *at, f"Memcpy HtoD ({name} -> Device)", launch=launch)
    run.gpu(0, (500, 1000), step=0, launch=run.launch(0, (400, 401)))
    row = {row["rule"]: row for row in rows(run.con, "findings")}["exposed_copies"]
    assert (row["bound_ns"], row["cost_is"]) == (470 * US, "at most")
    assert row["cost_ns"] == pytest.approx(100 * US, abs=15 * US)


@nightly
def test_a_fix_that_is_not_replayed_gains_no_more_than_is_left(
    recorded: Recorded, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was wrong: merging took 60.7 ms where without any transfer 37.8 are gained."""

    def step(model: Model, scenario: str) -> tuple[float, float | None]:
        if "bucket_mb" in scenario:
            raise UsageError("not replayed")
        return replayed(model, scenario)

    replayed = Model.step
    monkeypatch.setattr(Model, "step", step)
    found = recorded("busy_cores_gloo").findings().set_index("rule").loc["small_collectives"]
    assert found.cost_is == "at most"
    assert found.cost_ns < 37.9e6 < found.bound_ns


def test_fragmentation_is_a_warning_near_the_limit(tmp_path: Path) -> None:
    with duckdb.connect(tmp_path / "run.duckdb") as con:
        create_tables(con)
        run = Run(con, unit=US)
        run.rank(0)
        run.gpu(0, (0, 2000))
        run.allocated(6 * 10**9, 10**10)
    severities = {None: "info", 10**10: "warning", 2 * 10**10: "info"}
    # read-only, so what all three are made from is computed once
    with open_database(tmp_path / "run.duckdb") as con:
        for memory, severity in severities.items():
            row = found_by(con, "fragmentation", gpu_memory_bytes=memory)["fragmentation"]
            assert (row["severity"], row["ranks"], row["cost_ns"]) == (severity, [0], None)
            assert row["evidence"] == (
                "4.00 GB of 10.0 GB reserved memory is not allocated at the peak (40.0%), most on"
                " rank 0"
            )


@pytest.mark.parametrize("types", [("Float",), ("Float", "Int")])
def test_collectives_so_small_that_latency_is_most_of_them_could_be_merged(
    build: Builder, types: tuple[str, ...]
) -> None:
    # transfer = 20 us + bytes / 1 GB/s: ten of 4 kB in each step take 24 us, one of 80 kB 100 us
    run = Run(build.con, unit=US)
    run.steps()
    run.group(0, [0, 1], role="dp", role_source="description")
    for rank in (0, 1):
        run.compute(rank, 300)
    begin = 300
    for n, kb in enumerate((80, *[4] * 10)):
        span = (begin, begin + 20 + kb)
        begin = span[1] + 10
        each = {rank: {"dtype": types[n % len(types)]} for rank in (0, 1)}
        run.meet({0: span, 1: span}, bytes_=kb * 1000, each=each)
    row = found_by(run.con, "small_collectives", replay_ops=0)["small_collectives"]
    # 80 kB is as large as four times the size that takes as long as latency: it does not count.
    # 10 calls of 4 kB in a step would be one of 25 MB, or one of each type: 9 or 8 latencies
    assert row["cost_ns"] == (10 - len(types)) * 20 * US
    assert row["evidence"] == (
        "Each rank calls all_reduce 10 times per step, 4.00 kB on average. A call costs 20.0 us"
        " before its first byte, as much as transferring 20.0 kB"
    )
    # what is not replayed is not advised
    assert row["advice"].startswith("Merging them (larger buckets) is not known to gain anything")


def test_severity_sorts_by_what_it_says(build: Builder) -> None:
    order = build.con.execute(
        "SELECT s FROM (VALUES ('info'), ('warning'), ('critical')) AS t(s)"
        " ORDER BY CAST(s AS ENUM('critical', 'warning', 'info'))"
    ).fetchall()
    assert [severity for (severity,) in order] == ["critical", "warning", "info"]
    [column] = [c for c in find("findings").columns if c.name == "severity"]
    assert column.type == "ENUM('critical', 'warning', 'info')"


def test_every_rule_is_documented() -> None:
    page = findings_markdown()
    for rule in rules():
        section = page.split(f"\n### {rule.name}\n")[1].split("\n##")[0]
        assert rule.finds in section
    for parameter in find("findings").parameters:
        assert f"`{parameter.name}`" in page
