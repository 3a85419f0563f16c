"""findings: each rule on rows made by hand; tests/end_to_end has them on simulated runs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import duckdb
import pytest

from tests.analyses.builders import Builder, found_by, rows, told
from tests.conftest import Recorded
from tests.marks import first_at_once, nightly
from traceweave.analyses import find, rules
from traceweave.analyses.reference import findings_markdown
from traceweave.store.database import open_database
from traceweave.store.empty import create_tables

US = 1_000


def _steps(build: Builder, ranks: int = 2, steps: int = 4, length: int = 1000 * US) -> None:
    for rank in range(ranks):
        build.rank(rank)
        for step in range(steps):
            window = (step * length, (step + 1) * length)
            build.step(rank, step, window, window)


def _compute(build: Builder, rank: int, step: int, until: int, length: int = 1000 * US) -> None:
    at = step * length
    build.gpu(rank, (at, at + until), step=step, launch=build.launch(rank, (at, at + 10)))


def _meet(
    build: Builder, spans: dict[int, tuple[int, int]], op: str = "all_reduce", **more: Any
) -> None:
    """One operation on some ranks, with a kernel on each."""
    for rank, span in spans.items():
        build.gpu(rank, span, "communication", "nccl", 20, step=more["step"])
    build.collective(spans, op, **more)


def _by_rule(build: Builder, *names: str, **params: object) -> dict[str, dict[str, Any]]:
    """Return what some rules find, with their own bounds as costs: test_fixes.py has those
    replayed.
    """
    return found_by(build.con, *names, replay_ops=0, **params)


def test_a_rank_that_computes_longer_is_the_straggler(build: Builder) -> None:
    _steps(build)
    build.group(0, [0, 1])
    for step, late in enumerate((890 * US, 910 * US, 896 * US, 904 * US)):
        at = step * 1000 * US
        _compute(build, 0, step, 600 * US)
        _compute(build, 1, step, late)
        end = at + 1000 * US
        _meet(build, {0: (at + 600 * US, end), 1: (at + late, end)}, step=step)
    found = _by_rule(build, "straggler", "imbalance", "poor_overlap")
    row = found["straggler"]
    # rank 0 waits 300 us of the 1000 us of a step on average
    assert (row["severity"], row["ranks"], row["cost_ns"], row["step_share"]) == (
        "critical",
        [1],
        300 * US,
        0.3,
    )
    assert row["evidence"] == (
        "Rank 1 keeps 1 rank waiting 300 us per step, last in 4 of 4 collectives. Rank 1"
        " computes longer, most in other kernels. Rank 1 runs kernel once, 900 us in every step;"
        " the others 600 us at the median"
    )
    assert "imbalance" not in found
    # 100 us of transfer that nothing hides, though compute was there
    assert found["poor_overlap"]["cost_ns"] == 100 * US


@pytest.mark.parametrize(
    ("copied", "advice"),
    [
        (200, "Move them to a separate stream, ahead of their use, or avoid them"),
        # weights that are streamed to the GPU for every layer, say
        (700, "Avoid them: keep the data on the GPU, or copy less of it. Beside compute, on a"
            " separate stream, no more than 250 us of them can hide"),
    ],
)  # fmt: skip
def test_copies_hide_behind_no_more_compute_than_there_is(
    build: Builder, copied: int, advice: str
) -> None:
    _steps(build, ranks=1)
    for step in range(4):
        _compute(build, 0, step, 250 * US)
        at = step * 1000 * US + 250 * US
        build.gpu(0, (at, at + copied * US), "memory", "Memcpy HtoD (Pinned -> Device)", step=step)
    build.con.execute("UPDATE base.gpu_ops SET copy_kind = 'HtoD' WHERE category = 'memory'")
    row = _by_rule(build, "exposed_copies")["exposed_copies"]
    assert (row["cost_ns"], row["advice"]) == (copied * US, advice)


@nightly
def test_copies_beside_pageable_ones_are_bound_by_what_no_copy_at_all_gains(build: Builder) -> None:
    """Copies run until 500 us, the last 20 from pageable memory, which is a rule of its own. What
    comes after them is launched at 400 us, so that it could begin 100 us earlier."""
    _steps(build, ranks=1, steps=1)
    _compute(build, 0, 0, 10 * US)
    for name, at in (("Pinned", (10 * US, 480 * US)), ("Pageable", (480 * US, 500 * US))):
        launch = build.launch(0, (at[0] // 100, at[0] // 100 + 10))
        build.gpu(0, at, "memory", f"Memcpy HtoD ({name} -> Device)", step=0, launch=launch)
    launch = build.launch(0, (400 * US, 401 * US))
    build.gpu(0, (500 * US, 1000 * US), step=0, launch=launch)
    row = {row["rule"]: row for row in rows(build.con, "findings")}["exposed_copies"]
    assert (row["bound_ns"], row["cost_is"]) == (470 * US, "at most")
    assert row["cost_ns"] == pytest.approx(100 * US, abs=15 * US)


def test_a_cost_is_a_share_of_the_step_time(build: Builder) -> None:
    """The host's lead melts away, and the last GPU window ends with its last op: a step takes
    1,000 us, as host ranges say, whatever GPU windows add up to."""
    build.rank(0)
    for step, window in enumerate(((900, 1200), (1200, 2100), (2100, 3000), (3000, 3300))):
        begins, ends = (at * US for at in window)
        build.step(0, step, (step * 1000 * US, (step + 1) * 1000 * US), (begins, ends))
        build.gpu(0, (begins, ends - 100 * US), step=step)
        build.gpu(0, (ends - 100 * US, ends), "memory", "Memcpy HtoD", step=step)
    row = _by_rule(build, "exposed_copies")["exposed_copies"]
    assert (row["cost_ns"], row["step_share"]) == (100 * US, 0.1)


@first_at_once()
@pytest.mark.parametrize(
    ("ready", "late", "evidence"),
    [
        # each keeps the other waiting for 300 us in every second step
        (((600, 900), (900, 600)), None, "Ranks wait for each other 150 us per step without"
            " compute, in turn. Their compute is uneven (load balance 83.3%)"),
        # rank 0 waits 100 us for rank 1, before both wait 200 us for rank 2
        (((600, 700, 900), (600, 700, 900)), 2, "Apart from late ranks of other"
            " findings, ranks wait for each other 33.3 us per step without compute, in turn."
            " Their compute is uneven (load balance 81.5%)"),
    ],
)  # fmt: skip
def test_waiting_that_no_straggler_explains_is_imbalance(
    build: Builder, ready: tuple[tuple[int, ...], ...], late: int | None, evidence: str
) -> None:
    ranks = range(len(ready[0]))
    _steps(build, len(ranks))
    build.group(0, [*ranks])
    for step in range(4):
        at = step * 1000 * US
        starts = ready[step % 2]
        for rank, start in enumerate(starts):
            _compute(build, rank, step, start * US)
        spans = {rank: (at + starts[rank] * US, at + 1000 * US) for rank in ranks}
        _meet(build, spans, step=step)

    found = _by_rule(build, "straggler", "imbalance")

    assert found["imbalance"]["evidence"] == evidence
    assert ("straggler" in found) == (late is not None)
    assert late is None or found["straggler"]["ranks"] == [late]


def test_compute_that_is_uneven_within_steps_is_not_said_to_explain_nothing(build: Builder) -> None:
    """In every step each rank computes 200 us longer once: as much in all, and each waits once."""
    _steps(build)
    build.group(0, [0, 1])
    for step in range(4):
        for part, long in ((0, 0), (1, 1)):
            at = (step * 1000 + part * 500) * US
            starts = {rank: (at + (400 if rank == long else 200) * US) for rank in (0, 1)}
            for rank, start in starts.items():
                launch = build.launch(rank, (at, at + 10))
                build.gpu(rank, (at, start), step=step, launch=launch)
            spans = {rank: (start, at + 500 * US) for rank, start in starts.items()}
            _meet(build, spans, step=step)
    found = _by_rule(build, "straggler", "imbalance")
    assert found["imbalance"]["evidence"] == (
        "Ranks wait for each other 200 us per step without compute, in turn."
        " Their compute is uneven between collectives more than over a step (load balance 100.0%)."
        " In 100.0% of the waiting whose cause is known, the late rank computes longer"
    )
    assert found["imbalance"]["advice"].startswith("Balance the work between collectives, not only")


@first_at_once()
@pytest.mark.parametrize(
    ("late", "meets", "title", "evidence", "scenario"),
    [
        ((6,), range(8), "Rank 1 keeps the others waiting in step 6",
            "53.8 us per step without compute. Most of it is for rank 1 in step 6. There rank 1"
            " idles longer, no cause recorded", "rank=1 step=5,6 like=median"),
        ((3, 6), range(8), "Rank 1 keeps the others waiting in steps 3 and 6",
            "85.0 us per step without compute. Most of it is for rank 1 in steps 3 and 6. There"
            " rank 1 idles longer, no cause recorded", "rank=1 like=median"),
        # what it did since step 2 may have made it late
        ((6,), (2, 6), "Ranks wait for each other in turn",
            "31.3 us per step without compute, in turn.", None),
    ],
)  # fmt: skip
def test_who_is_late_in_few_steps_is_late_for_a_reason_of_its_own(
    build: Builder,
    late: tuple[int, ...],
    meets: Iterable[int],
    title: str,
    evidence: str,
    scenario: str | None,
) -> None:
    """Rank 1 idles 500 us in few steps; in the others ranks compute 60 us longer by turns."""
    _steps(build, steps=8)
    build.group(0, [0, 1])
    for step in range(8):
        at = step * 1000 * US
        starts = {rank: at + (160 if rank == step % 2 else 100) * US for rank in (0, 1)}
        for rank, start in starts.items():
            _compute(build, rank, step, start - at)
        starts[1] += 500 * US if step in late else 0
        spans = {rank: (start, at + 1000 * US) for rank, start in starts.items()}
        if step in meets:
            _meet(build, spans, step=step)
    found = _by_rule(build, "imbalance")["imbalance"]
    assert found["title"].startswith(title)
    assert found["evidence"].startswith(f"Ranks wait for each other {evidence}")
    assert found["scenario"] == scenario


def test_compute_that_explains_less_than_half_explains_a_part(build: Builder) -> None:
    """Once each a rank computes 400 us longer, copies and idles for 300 us longer."""
    _steps(build)
    build.group(0, [0, 1])
    late = ((1, 0, None), (0, 400, "compute"), (1, 300, "memory"), (0, 300, None))
    for step, (rank_late, by, what) in enumerate(late):
        at = step * 1000 * US
        starts = {rank: at + (400 + (by if rank == rank_late else 0)) * US for rank in (0, 1)}
        for rank, start in starts.items():
            _compute(build, rank, step, 400 * US)
            if what and rank == rank_late:
                build.gpu(rank, (at + 400 * US, start), what, what, step=step)
        spans = {rank: (start, at + 1000 * US) for rank, start in starts.items()}
        _meet(build, spans, step=step)
    found = _by_rule(build, "straggler", "imbalance")
    # 400 of 1000 us are waits for compute
    assert found["imbalance"]["evidence"] == (
        "Ranks wait for each other 125 us per step without compute, in turn. Their compute"
        " explains only part of it (load balance 90.0%). In 40.0% of the waiting whose cause is"
        " known, more than for any other cause, the late rank computes longer"
    )


def test_what_costs_too_little_is_left_out(build: Builder) -> None:
    _steps(build)
    for rank in range(2):
        for step in range(4):
            _compute(build, rank, step, 1000 * US)
    assert told(build.con, "findings", "rule cost_ns evidence") == [
        ("compute_bound", None, "Compute runs for 100.0% of the step")
    ]


def test_an_idle_gpu_is_told_by_cause_and_rank(build: Builder) -> None:
    _steps(build, ranks=3)
    for step in range(4):
        at = step * 1000 * US
        for rank in range(3):
            _compute(build, rank, step, 900 * US if rank else 500 * US)
        # the host of rank 0 launches late: 100 us in the data loader, then nothing recorded
        build.gpu(
            0,
            (at + 1000 * US, at + 1000 * US),
            launch=build.launch(0, (at + 990 * US, at + 1000 * US)),
        )
        build.host(0, (at + 500 * US, at + 980 * US), "next_batch", "annotation")
    found = _by_rule(build, "data_bound")
    row = found["data_bound"]
    assert (row["ranks"], row["cost_ns"], row["severity"]) == ([0], 500 * US, "critical")
    assert row["evidence"] == (
        "The GPU idles 500 us per step on rank 0 while the host waits for data (1 gap)."
        " The host is then mostly in next_batch"
    )


# what was wrong: "Most ranks wait for data", 300 us of it, of which rank 0 has most by far
@pytest.mark.parametrize(
    ("idles", "others", "cost"),
    [
        pytest.param((500, 100), "1 rank waits", 100, id="the other"),
        # what was wrong: "Ranks 1 and 2 wait for data", 130 us
        pytest.param((500, 200, 60), "2 ranks wait", 200, id="one of the others"),
    ],
)
def test_what_a_straggler_idles_is_not_told_of_all(
    build: Builder, idles: Sequence[int], others: str, cost: int
) -> None:
    _steps(build, ranks=len(idles), steps=8)
    build.group(0, [*range(len(idles))])
    for step in range(8):
        at, meeting = step * 1000 * US, {}
        for rank, idle in enumerate(idles):
            _compute(build, rank, step, 400 * US)
            until = at + (400 + idle) * US
            build.host(rank, (at + 400 * US, until - US), "next_batch", "annotation")
            launched = build.launch(rank, (until - US, until))
            build.gpu(rank, (until, until + 5 * US), step=step, launch=launched)
            meeting[rank] = until + 5 * US, at + 1000 * US
        _meet(build, meeting, step=step)
    found = _by_rule(build, "data_bound", "straggler")
    assert found["straggler"]["title"] == f"Rank 0 waits for data, and {others} for it"
    row = found["data_bound"]
    told = row["title"], row["ranks"], row["cost_ns"]
    assert told == ("Rank 1 waits for data", [1], cost * US)


@pytest.mark.parametrize(
    ("devices", "host", "advice"),
    [
        (
            (0, 0),
            None,
            "Not the host nor another stream: see that every rank has a GPU of its own.",
        ),
        ((0, 1), "n1", "Not the host nor another stream: look for another process on the GPU"),
    ],
)
def test_ranks_may_share_a_gpu_where_their_devices_have_one_number(
    build: Builder, devices: tuple[int, int], host: str | None, advice: str
) -> None:
    """Kernels start 400 us after what was before them ended, though launched long before."""
    _steps(build)
    for step in range(4):
        at = step * 1000 * US
        for rank in (0, 1):
            _compute(build, rank, step, 500 * US)
            late = build.launch(rank, (at + 100 * US, at + 110 * US))
            build.gpu(rank, (at + 900 * US, at + 1000 * US), step=step, launch=late)
    for rank, device in enumerate(devices):
        build.con.execute(
            "UPDATE base.rank_sources SET device = $1 WHERE rank = $2", [device, rank]
        )
    build.con.execute("UPDATE base.rank_sources SET host = $1", [host])
    row = _by_rule(build, "device_delay")["device_delay"]
    assert row["bound_ns"] == 400 * US
    assert row["advice"].startswith(advice)


@first_at_once()
@pytest.mark.parametrize(
    ("call", "advice"),
    [("cudaGraphLaunch", "Launch the next graph sooner"), ("cudaLaunchKernel", "CUDA graphs,")],
)
def test_graphs_are_not_advised_where_a_graph_is_launched_late(
    build: Builder, call: str, advice: str
) -> None:
    _steps(build, ranks=1)
    for at in range(0, 4000 * US, 250 * US):
        # four times in a step the device is idle for 100 us until the next launch
        launch = build.host(0, (at, at + 10 * US), call, "runtime")
        build.gpu(0, (at + 5 * US, at + 150 * US), launch=launch)
    row = _by_rule(build, "launch_bound")["launch_bound"]
    assert row["cost_ns"] > 300 * US
    assert row["advice"].startswith(advice)


@nightly
def test_thresholds_are_parameters(build: Builder) -> None:
    _steps(build, ranks=1)
    for step, length in enumerate((1000, 1000, 1000, 1000)):
        _compute(build, 0, step, length * US * 9 // 10)
    assert "compute_bound" in _by_rule(build, "compute_bound")
    assert "compute_bound" not in _by_rule(build, "compute_bound", compute_bound_share=0.95)


def test_missing_ranks_and_lost_files_are_told(build: Builder) -> None:
    _steps(build)
    for rank in range(2):
        _compute(build, rank, 0, 1000 * US)
    build.con.execute("UPDATE base.rank_sources SET world_size = 8")
    build.con.execute(
        "INSERT INTO sources (source_id, path, format, size_bytes, events_read, events_stored,"
        " events_skipped, status) VALUES (0, 'a', 'kineto', 1, 100, 60, 40, 'partial'),"
        " (1, 'b', 'kineto', 1, 100, 100, 0, 'ok')"
    )
    found = _by_rule(build, "missing_ranks", "lost_events")
    assert found["missing_ranks"]["evidence"].startswith("2 of 8 ranks recorded")
    assert found["lost_events"]["evidence"] == (
        "1 of 2 files read in part or not at all; 40 events are not here"
    )


def test_ranks_without_any_work_are_told(build: Builder) -> None:
    build.rank(0)
    found = _by_rule(build, "nothing_to_measure", "missing_ranks", "launch_bound")
    assert {rule: row["ranks"] for rule, row in found.items()} == {"nothing_to_measure": [0]}


@nightly
@pytest.mark.parametrize(("call", "phase", "evidence", "advice"), [
    ("cudaDeviceSynchronize", None, "No rank has GPU work or operators", "none of them launches"),
    (None, "b", "1 span of other kinds (serving)", "events of another program"),
    (None, None, "No rank has GPU work or operators", "Record CUDA activity"),
])  # fmt: skip
def test_what_files_without_work_hold_instead(
    build: Builder, call: str | None, phase: str | None, evidence: str, advice: str
) -> None:
    build.rank(0)
    if call:
        build.host(0, (0, 100 * US), call, "runtime")
    if phase:
        build.con.execute(
            "INSERT INTO base.other_events BY NAME SELECT 0 AS rank, 1 AS op_id, 0 AS source_id,"
            " $phase AS phase, 'serving' AS category, '1' AS name, 0 AS start_local_ns",
            {"phase": phase},
        )
    found = _by_rule(build, "nothing_to_measure")["nothing_to_measure"]
    assert evidence in found["evidence"]
    assert advice in found["advice"]


@nightly
def test_of_ranks_without_any_work_nothing_else_is_said(build: Builder) -> None:
    build.rank(0)
    assert [row["rule"] for row in rows(build.con, "findings")] == ["nothing_to_measure"]


def test_fragmentation_is_a_warning_near_the_limit(tmp_path: Path) -> None:
    with duckdb.connect(tmp_path / "run.duckdb") as con:
        create_tables(con)
        build = Builder(con)
        build.rank(0)
        build.gpu(0, (0, 2000 * US))
        build.con.execute(
            "INSERT INTO base.memory_events (rank, op_id, source_id, device, name, at_local_ns,"
            " value, total_allocated_bytes, total_reserved_bytes)"
            " VALUES (0, 99, 0, 'GPU 0', 'alloc', 0, 6e9, 6e9, 10e9)"
        )
    severities = {None: "info", 10**10: "warning", 2 * 10**10: "info"}
    # read-only, so what all three are made from is computed once
    with open_database(tmp_path / "run.duckdb") as con:
        found = [
            _by_rule(Builder(con), "fragmentation", gpu_memory_bytes=memory)
            for memory in severities
        ]
    for by_rule, severity in zip(found, severities.values(), strict=True):
        row = by_rule["fragmentation"]
        assert (row["severity"], row["ranks"], row["cost_ns"]) == (severity, [0], None)
        assert row["evidence"] == (
            "4.00 GB of 10.0 GB reserved memory is not allocated at the peak (40.0%), most on"
            " rank 0"
        )


def test_a_cache_of_some_segments_is_no_fragmentation(build: Builder) -> None:
    # of 60 MB in three segments of 20 MB, a third is allocated: what comes next finds room
    build.rank(0)
    build.gpu(0, (0, 2000 * US))
    build.con.execute(
        "INSERT INTO base.memory_events (rank, op_id, source_id, device, name, at_local_ns,"
        " value, total_allocated_bytes, total_reserved_bytes)"
        " VALUES (0, 99, 0, 'GPU 0', 'alloc', 0, 20000000, 20000000, 60000000)"
    )
    assert _by_rule(build, "fragmentation") == {}


def test_waiting_below_the_resolution_accuses_nobody(build: Builder) -> None:
    _steps(build)
    build.con.execute("UPDATE clocks SET residual_p95_ns = ?", [400 * US])
    build.group(0, [0, 1])
    for step in range(4):
        at = step * 1000 * US
        starts = {0: 600 * US, 1: 900 * US}
        for rank, start in starts.items():
            _compute(build, rank, step, start)
        spans = {rank: (at + start, at + 1000 * US) for rank, start in starts.items()}
        _meet(build, spans, step=step)
    found = _by_rule(build, "straggler", "weak_clocks")
    assert "straggler" not in found
    # half of the ranks wait 300 us per step
    assert found["weak_clocks"]["severity"] == "warning"
    assert found["weak_clocks"]["evidence"] == (
        "Clocks tell ranks apart by 400 us; 150 us per step of waiting is below that,"
        " so who is late there is not known"
    )


def test_a_clock_that_is_off_is_told_where_all_waiting_is_known(build: Builder) -> None:
    _steps(build)
    build.group(0, [0, 1])
    for step in range(4):
        at = step * 1000 * US
        for rank in (0, 1):
            _compute(build, rank, step, 600 * US)
        # rank 0 is done before rank 1 begins
        build.collective(
            {0: (at, at + 300 * US), 1: (at + 310 * US, at + 900 * US)}, "all_reduce", step=step
        )
    assert (
        _by_rule(build, "weak_clocks")["weak_clocks"]["evidence"]
        == "4 collectives end on one rank before they begin on another"
    )


def _transfers(build: Builder, role: str, op: str) -> None:
    """Four steps of 1 ms on two ranks: 600 us of compute, then 300 us of transfer, no waiting."""
    _steps(build)
    build.group(0, [0, 1], role=role, role_source="description")
    for step in range(4):
        at = step * 1000 * US
        span = (at + 600 * US, at + 900 * US)
        for rank in (0, 1):
            _compute(build, rank, step, 600 * US)
        _meet(build, {0: span, 1: span}, op, step=step, bytes_=1_000_000)


@first_at_once()
@pytest.mark.parametrize(
    ("role", "op", "rule", "advice"),
    [
        ("dp", "all_gather", "poor_overlap", "Gather the next shards"),
        ("ep", "all_to_all", "poor_overlap", "all_to_all of experts or sequences: in chunks"),
        ("tp", "all_reduce", "communication_bound", "Tensor parallelism: fewer ranks per group"),
        ("dp", "all_reduce", "poor_overlap", "DDP: smaller buckets are not known"),
        ("dp", "reduce_scatter", "poor_overlap", "Gather the next shards"),
        ("unknown", "all_gather", "poor_overlap", "Start them earlier and asynchronously"),
    ],
)
def test_advice_on_transfers_fits_what_the_group_is_for(
    build: Builder, role: str, op: str, rule: str, advice: str
) -> None:
    _transfers(build, role, op)
    found = _by_rule(build, "poor_overlap", "communication_bound")
    row = found[rule]
    assert row["advice"].startswith(advice)
    assert row["cost_ns"] == 300 * US
    assert {"poor_overlap", "communication_bound"} & set(found) == {rule}


@nightly
def test_sums_of_a_program_without_ddp_are_not_told_of_its_buckets(build: Builder) -> None:
    build.host(0, (10, 20), "aten::mm")
    _transfers(build, "dp", "all_reduce")
    advice = _by_rule(build, "poor_overlap")["poor_overlap"]["advice"]
    assert advice == (
        "Start the sum of each gradient during backward (async_op=True), wait for all at its end,"
        " or send less (gradient accumulation, gradients in lower precision)"
    )


def test_operations_of_a_model_parallel_region_cannot_be_hidden(build: Builder) -> None:
    # the group of all ranks has no role of its own; where the host asks for it shows its use
    _steps(build)
    build.group(0, [0, 1], role="world", role_source="size is the world size")
    for step in range(4):
        at = step * 1000 * US
        span = (at + 600 * US, at + 900 * US)
        asked = {}
        for rank in (0, 1):
            _compute(build, rank, step, 600 * US)
            build.host(rank, (at + 20, at + 60), "_ReduceFromModelParallelRegion", step=step)
            op = build.host(rank, (at + 30, at + 50), "c10d::allreduce_", depth=1, step=step)
            asked[rank] = {"host_op_id": op}
        _meet(build, {0: span, 1: span}, step=step, each=asked, bytes_=1_000_000)
    found = _by_rule(build, "poor_overlap", "communication_bound")
    assert "poor_overlap" not in found
    assert found["communication_bound"]["advice"].startswith("Tensor parallelism: ")


@nightly
@pytest.mark.parametrize(
    ("around", "advice"),
    [
        ("FSDP::all_gather (1)", "FSDP: gathering a unit ahead is not known"),
        ("Optimizer.step#NorMuon.step", "Issued inside Optimizer.step"),
        ("FullyShardedDataParallel.forward", "FSDP: gathering a unit ahead is not known"),
        ("forward", "Gather the next shards"),
    ],
)
def test_advice_for_fsdp_is_for_what_fsdp_issues(build: Builder, around: str, advice: str) -> None:
    _steps(build)
    build.group(0, [0, 1], role="dp", role_source="description")
    for step in range(4):
        at = step * 1000 * US
        span = (at + 600 * US, at + 900 * US)
        asked = {}
        for rank in (0, 1):
            _compute(build, rank, step, 600 * US)
            build.host(rank, (at + 20, at + 60), around, "annotation", step=step)
            # a shorter range of the same family that is over when the call is made
            build.host(
                rank, (at + 21, at + 25), f"{around}.inner", "annotation", depth=1, step=step
            )
            op = build.host(rank, (at + 30, at + 50), "c10d::_allgather_base_", depth=1, step=step)
            asked[rank] = {"host_op_id": op}
        _meet(build, {0: span, 1: span}, "all_gather", step=step, each=asked, bytes_=1_000_000)
    assert _by_rule(build, "poor_overlap")["poor_overlap"]["advice"].startswith(advice)


def test_calls_of_few_bytes_are_not_told_to_send_less(build: Builder) -> None:
    _transfers(build, "tp", "all_reduce")
    build.con.execute("UPDATE base.collective_calls SET bytes = 128")
    advice = _by_rule(build, "communication_bound")["communication_bound"]["advice"]
    assert advice.startswith("Most of it is in calls of less than 65.5 kB: latency or waiting")


def test_messages_without_their_other_side_are_the_bubble_not_slow_links(build: Builder) -> None:
    # both ranks stand still in sends and receives for 300 us of each step of 1000 us
    _steps(build)
    build.group(0, [0, 1], role="world", role_source="size is the world size")
    for step in range(4):
        at = step * 1000 * US
        span = (at + 600 * US, at + 900 * US)
        for rank, op in ((0, "recv"), (1, "send")):
            _compute(build, rank, step, 600 * US)
            _meet(build, {rank: span}, op, step=step, matched=False)
    found = _by_rule(build, "communication_bound", "poor_overlap", "pipeline_wait")
    assert not {"communication_bound", "poor_overlap"} & set(found)
    row = found["pipeline_wait"]
    assert (row["severity"], row["cost_ns"], row["proof"]) == ("info", 300 * US, "pipeline")
    assert row["evidence"] == (
        "Sends and receives take 300 us per step without compute, mean over the ranks. Waiting in"
        " them for the other stage is the bubble of a pipeline. How much of it is transfer is"
        " unknown: the other sides of these messages were not matched"
    )


@pytest.mark.parametrize(
    ("late_us", "updates", "severity"),
    [(0, False, "info"), (300, False, None), (0, True, "info")],
)
def test_a_bubble_is_what_the_schedule_needs_or_more(
    build: Builder, late_us: int, updates: bool, severity: str | None
) -> None:
    # four micro-batches of 100 us on two stages, one after the other: 100 us more than one stage
    _steps(build)
    for step in range(4 if updates else 0):
        # an update that no range tells: 490 us later, and no matter of the pipeline
        for rank in (0, 1):
            end = 1000 * (step + 1) * US
            build.gpu(rank, (end - 10 * US, end), step=step)
    build.group(0, [0, 1], role="pp", role_source="name")
    for step in range(4):
        at = [(1000 * step + 100 * n) * US for n in range(9)]
        for n in range(4):
            late = late_us * US if n else 0
            build.gpu(0, (at[n], at[n + 1]), step=step)
            build.gpu(1, (at[n + 1] + late, at[n + 2] + late), step=step)
            spans = {0: (at[n + 1], at[n + 1] + late), 1: (at[n], at[n + 1] + late)}
            _meet(build, spans, "send", step=step, each={1: {"op": "recv"}})
    row = _by_rule(build, "pipeline_wait")["pipeline_wait"]
    assert (row["severity"] == "info") == (severity == "info")
    told = ". With equal micro-batches and no delays the schedule would need 100 us of it"
    assert row["evidence"].endswith(told) == (severity is None)
    assert row["advice"].startswith("Look for micro-batches of unequal cost") == (severity is None)


@pytest.mark.parametrize("held", [1, 2])
def test_the_least_of_an_interleaved_pipeline_is_not_told(build: Builder, held: int) -> None:
    # the second micro-batch comes 400 us late; of two stages per rank nobody knows what is needed
    _steps(build)
    build.group(0, [0, 1], role="pp", role_source="name")
    for rank in (0, 1):
        for stage in range(rank, 2 * held, 2):
            name = f"PP:{stage}F0"
            build.host(rank, (10, 20), name, "annotation", step=0)
    for step in range(4):
        at = 1000 * step * US
        for n, begin in ((0, at), (1, at + 500 * US)):
            middle, end = begin + 100 * US, begin + 200 * US
            build.gpu(0, (begin, middle), step=step)
            build.gpu(1, (middle, end), step=step)
            spans = {0: (middle, middle), 1: (at + n * 200 * US, middle)}
            _meet(build, spans, "send", step=step, each={1: {"op": "recv"}})
    row = _by_rule(build, "pipeline_wait")["pipeline_wait"]
    assert (row["severity"] == "info") == (held == 2)
    assert ("would need 100 us of it" in row["evidence"]) == (held == 1)


def test_few_messages_without_their_other_side_leave_a_bubble_one(build: Builder) -> None:
    # of 300 us in each of four steps, 50 us of one are of a message that only one side has
    _steps(build)
    build.group(0, [0, 1])
    for step in range(4):
        at = step * 1000 * US
        for rank in (0, 1):
            _compute(build, rank, step, 600 * US)
        late, there = (at + 850 * US, at + 900 * US), (at + 600 * US, at + 900 * US)
        _meet(build, {0: there, 1: late}, "recv", step=step, each={1: {"op": "send"}})
    span = (950 * US, 1000 * US)
    _meet(build, {0: span}, "send", step=0, matched=False)
    row = _by_rule(build, "pipeline_wait")["pipeline_wait"]
    assert row["title"] == "Ranks of pipeline stages wait for each other"
    assert row["evidence"] == (
        "Stages of the pipeline wait for each other 131 us per step, mean over the ranks. How much"
        " of 6.25 us of that is transfer is unknown: the other sides of these messages were not"
        " matched"
    )


@first_at_once(2)
@pytest.mark.parametrize(
    ("seen", "each", "is_slow"),
    [
        ([0, 1, 5], {}, True),
        ([0, 1], {}, False),
        # kernels of NCCL that old traces name in the range of the host alone; threads of gloo
        ([0, 1, 5], {"evidence": "host op"}, True),
        ([0, 1, 5], {"evidence": "host op", "gpu_op_id": None}, False),
    ],
)
def test_a_link_is_not_called_slow_where_a_rank_may_have_come_late(
    build: Builder, seen: list[int], each: dict[str, Any], is_slow: bool
) -> None:
    # alike but for the time: 300 us of one group against 100 us of the other
    _steps(build, ranks=6)
    build.group(0, [0, 1, 5])
    build.group(1, [2, 3, 4])
    for step in range(4):
        at = step * 1000 * US
        for group_id, ranks, length in ((0, seen, 300 * US), (1, [2, 3, 4], 100 * US)):
            span = (at + 500 * US, at + 500 * US + length)
            spans, more = dict.fromkeys(ranks, span), dict.fromkeys(ranks, each)
            _meet(build, spans, group_id=group_id, step=step, each=more)
    found = _by_rule(build, "slow_link")
    if is_slow:
        assert found["slow_link"]["evidence"] == (
            "Transfers of group 0 take 3 times as long as those of groups of the same size"
        )
    else:
        assert "slow_link" not in found


def _kernels(build: Builder, rank: int, **lengths: int) -> None:
    """Four steps in which the rank runs each kernel once, one after the other; lengths in us, but
    for the first, which is now a little longer, now shorter."""
    for step, little in enumerate((0, 300, -300, 0)):
        at, more = step * 1000 * US, rank * little
        for name, length in lengths.items():
            build.gpu(rank, (at, at + length * US + more), name=name, step=step)
            at, more = at + length * US + more, 0


def test_a_gpu_that_is_slow_at_everything_is_a_slow_gpu(build: Builder) -> None:
    _steps(build, ranks=3)
    _kernels(build, 0, a=100, b=100, c=100, d=50)
    _kernels(build, 1, a=100, b=102, c=98, d=50)
    _kernels(build, 2, a=110, b=110, c=110, d=55)
    found = _by_rule(build, "slow_kernels", "uneven_work")
    assert "uneven_work" not in found
    row = found["slow_kernels"]
    # against 100, 101, 99 and 50, the middle of the other two
    assert (row["ranks"], row["cost_ns"], row["proof"]) == ([2], 35 * US, "kernels")
    assert row["evidence"] == (
        "The same kernels take 10.0% longer on rank 2 than on the others at the median, half of 4"
        " kernel names 10.0% or more"
    )
    assert row["advice"].startswith("Compare clock rates, power limit, temperature")


def test_more_work_in_some_kernels_is_no_slow_gpu(build: Builder) -> None:
    _steps(build)
    _kernels(build, 0, embed=100, table=50, gemm=200, norm=50, add=10)
    _kernels(build, 1, embed=220, table=80, gemm=204, norm=51, add=10)
    found = _by_rule(build, "slow_kernels", "uneven_work")
    assert "slow_kernels" not in found
    row = found["uneven_work"]
    # 120, 30, 4 and 1 us more; the first two are 150 of 155
    assert (row["ranks"], row["cost_ns"], row["severity"]) == ([1], 155 * US, "warning")
    assert row["evidence"] == (
        "Rank 1 computes 155 us longer per step than the other. 90% of what is longer is in 2 of 5"
        " kernel names. Rank 1 runs embed once, 220 us in every step; the others 100 us at the"
        " median. Half of the names are slower by 2.0% at most"
    )
    assert row["advice"].startswith("Balance the work of these kernels")


def test_a_rank_that_runs_more_kernels_has_more_work(build: Builder) -> None:
    _steps(build, ranks=3)
    for rank, more in ((0, {}), (1, {"embed": 100}), (2, {})):
        _kernels(build, rank, gemm=200, norm=50, **more)
    row = _by_rule(build, "uneven_work")["uneven_work"]
    assert (row["ranks"], row["cost_ns"]) == ([1], 100 * US)
    assert row["evidence"].startswith(
        "Rank 1 computes 100 us longer per step than the others at the median. 90% of what is"
        " longer is in 1 of 3 kernel names. Rank 1 runs embed once, 100 us in every step; most"
        " others do not."
    )


def test_more_work_here_and_less_there_costs_nothing(build: Builder) -> None:
    _steps(build)
    _kernels(build, 0, embed=100, table=200, gemm=200)
    _kernels(build, 1, embed=200, table=100, gemm=200)
    assert not {"slow_kernels", "uneven_work"} & set(_by_rule(build, "slow_kernels", "uneven_work"))


@nightly
def test_uneven_tables_of_a_real_run_are_not_a_slow_gpu(recorded: Recorded) -> None:
    found = recorded("kineto/sampled_2of128").findings(replay_ops=0).set_index("rule")
    assert "slow_kernels" not in found.index
    row = found.loc["uneven_work"]
    assert (list(row["ranks"]), row["severity"]) == ([1], "warning")
    # by breakdown, the means of two steps
    other, own = (
        recorded("kineto/sampled_2of128")
        .breakdown()
        .dropna(subset=["step"])
        .groupby("rank")["compute_ns"]
        .mean()
    )
    assert row["cost_ns"] == own - other == 30_826_500
    assert row["evidence"] == (
        "Rank 1 computes 30.8 ms longer per step than the other. 90% of what is longer is in 6 of"
        " 182 kernel names. Rank 1 runs"
        " void split_embedding_backward_codegen_rowwise_adagrad_unwei… once, 28.6 ms in every step;"
        " the others 11.7 ms at the median. Half of the names are slower by 0.3% at most"
    )


@nightly
@pytest.mark.parametrize(
    ("role", "rule", "evidence"),
    [
        (
            "tp",
            "communication_bound",
            "300 us of each step is communication that no compute hides. It may include"
            " waiting for ranks that were not recorded or whose calls were not matched",
        ),
        (
            "dp",
            "poor_overlap",
            "Compute hides 0.0% of the communication that could overlap with it, including waiting"
            " for ranks that were not recorded or whose calls were not matched."
            " At most 300 us more per step could be hidden",
        ),
    ],
)
def test_waiting_for_ranks_that_were_not_recorded_is_not_called_transfer(
    build: Builder, role: str, rule: str, evidence: str
) -> None:
    _transfers(build, role, "all_reduce")
    whole = _by_rule(build, rule)[rule]
    assert "were not recorded" not in whole["evidence"]
    build.con.execute("UPDATE groups SET size = 8")
    row = _by_rule(build, rule)[rule]
    assert row["evidence"] == evidence
    assert (row["cost_ns"], row["severity"]) == (whole["cost_ns"], whole["severity"])


@first_at_once()
@pytest.mark.parametrize(
    ("op", "words"), [("broadcast", "broadcast"), ("unknown", "calls of an unknown operation")]
)
def test_what_makes_not_all_ranks_wait_is_said_to_include_waiting(
    build: Builder, op: str, words: str
) -> None:
    _transfers(build, "tp", op)
    assert _by_rule(build, "communication_bound")["communication_bound"]["evidence"] == (
        "300 us of each step is communication that no compute hides. It may include waiting for"
        f" other ranks in {words} (its share of them is not known)"
    )


def test_only_the_transfer_of_groups_that_lack_ranks_is_doubted(build: Builder) -> None:
    # all ranks of the tensor-parallel group are here, two of eight of the data-parallel one
    _steps(build)
    build.group(0, [0, 1], role="tp", role_source="description")
    build.group(1, [0, 1], role="dp", role_source="description", size=8)
    for step in range(4):
        at = step * 1000 * US
        for rank in (0, 1):
            _compute(build, rank, step, 400 * US)
        for group_id, start in ((0, at + 400 * US), (1, at + 600 * US)):
            span = (start, start + 200 * US)
            _meet(build, {0: span, 1: span}, group_id=group_id, step=step)
    found = _by_rule(build, "communication_bound", "poor_overlap")
    assert found["communication_bound"]["evidence"] == (
        "200 us of each step is transfer that no compute hides or could hide"
    )
    assert found["poor_overlap"]["evidence"] == (
        "Compute hides 0.0% of the communication that could overlap with it, including waiting"
        " for ranks that were not recorded or whose calls were not matched."
        " At most 200 us more per step could be hidden"
    )


@pytest.mark.parametrize("types", [("Float",), ("Float", "Int")])
def test_collectives_so_small_that_latency_is_most_of_them_could_be_merged(
    build: Builder, types: Sequence[str]
) -> None:
    # transfer = 20 us + bytes / 1 GB/s: ten of 4 kB in each step take 24 us, one of 80 kB 100 us
    _steps(build)
    build.group(0, [0, 1], role="dp", role_source="description")
    for step in range(4):
        at = step * 1000 * US
        for rank in (0, 1):
            _compute(build, rank, step, 300 * US)
        begin = at + 300 * US
        for n, bytes_ in enumerate((80_000, *[4_000] * 10)):
            span = (begin, begin + 20 * US + bytes_)
            begin = span[1] + 10 * US
            each = {rank: {"dtype": types[n % len(types)]} for rank in (0, 1)}
            _meet(build, {0: span, 1: span}, step=step, bytes_=bytes_, each=each)
    row = _by_rule(build, "small_collectives")["small_collectives"]
    # 80 kB is as large as four times the size that takes as long as latency: it does not count.
    # 10 calls of 4 kB in a step would be one of 25 MB, or one of each type: 9 or 8 latencies
    assert row["cost_ns"] == (10 - len(types)) * 20 * US
    assert row["evidence"] == (
        "Each rank calls all_reduce 10 times per step, 4.00 kB on average. A call costs 20.0 us"
        " before its first byte, as much as transferring 20.0 kB"
    )
    # what is not replayed is not advised
    assert row["advice"].startswith("Merging them (larger buckets) is not known to gain anything")


def test_transfers_that_take_long_now_and_then_are_a_tail(build: Builder) -> None:
    # nine transfers of 50 us and one of 250 us
    _steps(build, steps=10)
    build.group(0, [0, 1])
    for step in range(10):
        at = step * 1000 * US
        length = 250 * US if step == 6 else 50 * US
        span = (at + 600 * US, at + 600 * US + length)
        for rank in (0, 1):
            _compute(build, rank, step, 600 * US)
        _meet(build, {0: span, 1: span}, step=step, bytes_=1_000_000)
    row = _by_rule(build, "long_tail")["long_tail"]
    # 200 us more than the median, in one of ten steps
    assert row["cost_ns"] == 20 * US
    assert row["evidence"] == (
        "1 of 10 all_reduce transfers take more than 2 times the median of their size, the"
        " longest 250 us against 50.0 us"
    )


def test_memory_allocated_in_every_step_is_no_stall_of_one(build: Builder) -> None:
    _steps(build, ranks=1)
    for step in range(4):
        at = step * 1000 * US
        _compute(build, 0, step, 700 * US)
        build.host(0, (at + 720 * US, at + 950 * US), "cudaMalloc", "runtime", step=step)
        launch = build.launch(0, (at + 960 * US, at + 1000 * US))
        build.gpu(0, (at + 1000 * US, at + 1000 * US), launch=launch)
    found = _by_rule(build, "allocator", "one_off_stall")
    assert found["allocator"]["cost_ns"] == 300 * US
    assert "one_off_stall" not in found
    assert found["allocator"]["advice"].startswith("Allocate once and reuse it")


@pytest.mark.parametrize(("frees", "advice"), [
    (True, "No empty_cache() in the loop"), (False, "Memory is allocated where it is first used"),
])  # fmt: skip
def test_what_gives_nothing_back_is_not_told_to_keep_it(
    build: Builder, frees: bool, advice: str
) -> None:
    """No step is marked, and every kernel runs four times: a first pass of a real model did."""
    build.rank(0)
    for at in range(0, 4000 * US, 1000 * US):
        build.gpu(0, (at + 10 * US, at + 700 * US), launch=build.launch(0, (at, at + 5 * US)))
        build.host(0, (at + 710 * US, at + 990 * US), "aten::empty")
        build.host(0, (at + 720 * US, at + 900 * US), "cudaMalloc", "runtime", 1)
        if frees:
            build.host(0, (at + 900 * US, at + 980 * US), "cudaFree", "runtime", 1)
    assert _by_rule(build, "allocator")["allocator"]["advice"].startswith(advice)


def test_a_stall_in_one_of_four_steps_is_named_with_it(build: Builder) -> None:
    # launched 50 us late in every step, and 450 us late in step 2
    _steps(build, ranks=1)
    for step in range(4):
        at = step * 1000 * US
        idle = 450 * US if step == 2 else 50 * US
        _compute(build, 0, step, 1000 * US - idle)
        launch = build.launch(0, (at + 990 * US, at + 1000 * US))
        build.gpu(0, (at + 1000 * US, at + 1000 * US), launch=launch)
    found = _by_rule(build, "one_off_stall", "launch_bound")
    stall, steady = found["one_off_stall"], found["launch_bound"]
    assert (stall["cost_ns"], steady["cost_ns"]) == (100 * US, 50 * US)
    assert stall["evidence"] == (
        "In step 2 (1 of 4) the GPU idles 400 us longer than in the others. The host launches late"
        " there"
    )


@pytest.mark.parametrize(
    ("loader", "operator", "advice"),
    [
        ("next_batch", None, "a shuffle or workers that start again; prefetch"),
        ("next_batch", "aten::mm", "workers that start again (persistent_workers=True); prefetch"),
        (
            "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__",
            "aten::mm",
            "storage or a shuffle; load on workers (num_workers)",
        ),
    ],
)
def test_a_batch_that_comes_late_once_is_told_of_its_loader(
    build: Builder, loader: str, operator: str | None, advice: str
) -> None:
    _steps(build, ranks=1)
    if operator:
        build.host(0, (0, US), operator)
    for step in range(4):
        at, idle = step * 1000 * US, 450 * US if step == 2 else 50 * US
        _compute(build, 0, step, 1000 * US - idle)
        build.host(0, (at + 1000 * US - idle, at + 990 * US), loader, "annotation")
        launch = build.launch(0, (at + 990 * US, at + 1000 * US))
        build.gpu(0, (at + 1000 * US, at + 1000 * US), launch=launch)
    assert advice in _by_rule(build, "one_off_stall")["one_off_stall"]["advice"]


def test_a_stall_of_one_rank_names_the_rank_and_costs_what_it_idles(build: Builder) -> None:
    _steps(build, ranks=3)
    for rank in range(3):
        for step in range(4):
            at = step * 1000 * US
            idle = 950 * US if (rank, step) == (1, 2) else 50 * US
            _compute(build, rank, step, 1000 * US - idle)
            launch = build.launch(rank, (at + 990 * US, at + 1000 * US))
            build.gpu(rank, (at + 1000 * US, at + 1000 * US), launch=launch)
    stall = _by_rule(build, "one_off_stall")["one_off_stall"]
    assert stall["title"] == "Rank 1 stalls in step 2: the host launches late"
    assert (stall["ranks"], stall["cost_ns"]) == ([1], 225 * US)
    assert stall["evidence"].startswith("In step 2 (1 of 4) the GPU of rank 1 idles 900 us longer")


def test_code_compiled_in_one_step_is_replayed_as_that_in_all(build: Builder) -> None:
    _steps(build, ranks=1)
    for step in range(4):
        at = step * 1000 * US
        _compute(build, 0, step, (500 if step == 2 else 990) * US)
        build.gpu(
            0,
            (at + 1000 * US, at + 1000 * US),
            launch=build.launch(0, (at + 995 * US, at + 1000 * US)),
        )
    build.host(0, (2510 * US, 2990 * US), "compile_fx_inner (dynamo_timed)", step=2)
    found = _by_rule(build, "compilation", "one_off_stall")
    assert found["compilation"]["title"] == "Rank 0 compiles code in step 2"
    assert found["compilation"]["scenario"] == "kind=compilation while=idle times=0"
    assert "one_off_stall" not in found


def test_a_step_that_is_long_beside_steady_idling_is_named(build: Builder) -> None:
    """Every step idles 80 us for late launches, step 5 is 900 us longer for them: no stall, as it
    is less than half of that idling.
    """
    build.rank(0)
    at = 0
    for step in range(20):
        end = at + (1900 if step == 5 else 1000) * US
        build.step(0, step, (at, end), (at, end))
        build.gpu(0, (at, at + 920 * US), step=step, launch=build.launch(0, (at, at + 10)))
        build.gpu(0, (end, end), step=step, launch=build.launch(0, (end - 10 * US, end)))
        at = end
    found = _by_rule(build, "unsteady_steps", "one_off_stall", unsteady_share=0.04)
    assert set(found) == {"unsteady_steps"}
    assert found["unsteady_steps"]["title"] == "Step 5 takes 1.90 ms, the median step 1.00 ms"


# what was wrong: of micro-batches that are marked as steps, "look for evaluation, longer inputs"
@pytest.mark.parametrize(
    "updates",
    # of those in every second step, others are as short as those without
    [(3, 7), range(8), (1, 3, 5, 7), (3,)],
    ids=["every fourth", "every one", "every second", "one alone"],
)
def test_a_step_that_updates_is_longer_than_a_micro_batch(
    build: Builder, updates: Sequence[int]
) -> None:
    _steps(build, ranks=1, steps=8)
    for step in range(8):
        at = step * 1000 * US
        _compute(build, 0, step, 990 * US if step % 4 == 3 else 100 * US)
        if step in updates:
            build.host(0, (at, at + US), "Optimizer.step#SGD.step", "annotation", step=step)
    for step in range(8):
        start = step * 1000 * US
        end = start + (1000 if step % 4 == 3 else 110) * US
        build.con.execute(
            "UPDATE base.steps SET duration_ns = $2, device_end_local_ns = $1 + $2"
            " WHERE start_local_ns = $1",
            [start, end - start],
        )
    row = _by_rule(build, "unsteady_steps")["unsteady_steps"]
    told = ". It updates the parameters, as 2 of 8 steps do"
    assert row["evidence"].endswith(told) == (len(updates) == 2)
    assert row["advice"].startswith("Mark updates as steps") == (len(updates) == 2)


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


@first_at_once(2)
@pytest.mark.parametrize(
    ("source", "busy", "found"),
    [
        ("ProfilerStep", 2000, {"unsteady_steps"}),
        # twice the requests; the host stops
        ("engine", 2000, set()),
        ("engine", 1000, {"one_off_stall"}),
    ],
)
def test_batches_of_an_engine_differ_in_what_they_have_to_do(
    build: Builder, source: str, busy: int, found: set[str]
) -> None:
    build.rank(0)
    lengths = (1000, 1000, 2000, 1000, 1000)
    for step, length in enumerate(lengths):
        at = sum(lengths[:step]) * US
        build.step(0, step, (at, at + length * US), (at, at + length * US))
        until = at + (busy if step == 2 else 1000) * US
        build.gpu(0, (at, until), step=step, launch=build.launch(0, (at, at + 10)))
    build.con.execute(f"UPDATE base.steps SET source = '{source}'")
    assert set(_by_rule(build, "unsteady_steps", "one_off_stall")) == found


@first_at_once(2)
@pytest.mark.parametrize(
    ("late", "grew"),
    [
        (600, None),
        (0, "1.00 ms"),
        # ranks 0 and 2 communicate for 1000 us more, rank 1 for 600: 867; of that 267 are waits
        (400, "867 us"),
    ],
)
def test_a_long_step_that_one_rank_makes_long_is_told_of_the_rank(
    build: Builder, late: int, grew: str | None
) -> None:
    """Rank 1 is as late in the long step, and never else; what is left is transfer."""
    build.group(0, [0, 1, 2])
    lengths = (1000, 1000, 2000, 1000, 1000)
    build.ranks(3)
    for step in range(len(lengths)):
        at, end = sum(lengths[:step]) * US, sum(lengths[: step + 1]) * US
        after = {rank: late if (rank, step) == (1, 2) else 0 for rank in range(3)}
        starts = {rank: at + (500 + wait) * US for rank, wait in after.items()}
        for rank, start in starts.items():
            build.step(rank, step, (at, end), (at, end))
            build.gpu(
                rank, (at, at + 500 * US), step=step, launch=build.launch(rank, (at, at + 10))
            )
            build.gpu(rank, (start, end), "communication", "nccl", 20, step=step)
        build.collective({rank: (start, end) for rank, start in starts.items()}, step=step)
    found = _by_rule(build, "unsteady_steps", "imbalance")
    if grew is None:
        assert "unsteady_steps" not in found
        assert found["imbalance"]["title"] == "Rank 1 keeps the others waiting in step 2"
        assert found["imbalance"]["ranks"] == [1]
        return
    assert found["unsteady_steps"]["evidence"] == (
        "Steps take 1.00 ms at the median, 1.20 ms on average. The longest, step 2, takes 2.00 ms."
        f" Communication that no compute hides grew there by {grew}"
    )
