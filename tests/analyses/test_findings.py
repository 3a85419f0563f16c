"""findings: each rule on rows made by hand; tests/end_to_end has them on simulated runs."""

from __future__ import annotations

from typing import Any

import pytest

from tests.analyses.builders import Builder, rows
from traceweave.analyses import find

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


def _by_rule(build: Builder, **params: object) -> dict[str, dict[str, Any]]:
    return {row["rule"]: row for row in rows(build.con, "findings", **params)}


def test_a_rank_that_computes_longer_is_the_straggler(build: Builder) -> None:
    _steps(build)
    build.group(0, [0, 1])
    for step in range(4):
        at = step * 1000 * US
        _compute(build, 0, step, 600 * US)
        _compute(build, 1, step, 900 * US)
        for rank, start in ((0, 600 * US), (1, 900 * US)):
            build.gpu(rank, (at + start, at + 1000 * US), "communication", "nccl", 20, step=step)
        build.collective(
            {0: (at + 600 * US, at + 1000 * US), 1: (at + 900 * US, at + 1000 * US)}, step=step
        )
    found = _by_rule(build)
    row = found["straggler"]
    # rank 0 waits 300 us of the 1000 us of each step
    assert (row["severity"], row["ranks"], row["cost_ns"], row["step_share"]) == (
        "critical",
        [1],
        300 * US,
        0.3,
    )
    assert row["evidence"] == (
        "Rank 1 keeps 1 rank waiting 300 us per step, last in 4 of 4 collectives:"
        " it computes longer, most in other kernels"
    )
    assert "imbalance" not in found
    # 100 us of transfer that nothing hides, though compute was there
    assert found["poor_overlap"]["cost_ns"] == 100 * US


def test_what_costs_too_little_is_left_out(build: Builder) -> None:
    _steps(build)
    for rank in range(2):
        for step in range(4):
            _compute(build, rank, step, 1000 * US)
    assert [(r["rule"], r["cost_ns"], r["evidence"]) for r in rows(build.con, "findings")] == [
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
            launch=build.launch(0, (at + 990 * US, at + 991 * US)),
        )
        build.host(0, (at + 500 * US, at + 980 * US), "next_batch", "annotation")
    found = _by_rule(build)
    row = found["data_bound"]
    assert (row["ranks"], row["cost_ns"], row["severity"]) == ([0], 500 * US, "critical")
    assert row["evidence"] == (
        "The GPU idles 500 us per step on rank 0 while the host waits for data (1 gap),"
        " most in next_batch"
    )


def test_thresholds_are_parameters(build: Builder) -> None:
    _steps(build, ranks=1)
    for step, length in enumerate((1000, 1000, 1000, 1000)):
        _compute(build, 0, step, length * US * 9 // 10)
    assert "compute_bound" in _by_rule(build)
    assert "compute_bound" not in _by_rule(build, compute_bound_share=0.95)


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
    found = _by_rule(build)
    assert found["missing_ranks"]["evidence"].startswith("2 of 8 ranks recorded")
    assert found["lost_events"]["evidence"] == (
        "1 of 2 files read in part or not at all; 40 events are not here"
    )


def test_ranks_without_any_work_are_told(build: Builder) -> None:
    build.rank(0)
    assert [(r["rule"], r["ranks"]) for r in rows(build.con, "findings")] == [
        ("nothing_to_measure", [0])
    ]


@pytest.mark.parametrize(
    ("memory", "severity"), [(None, "info"), (1_000_000, "warning"), (2_000_000, "info")]
)
def test_fragmentation_is_a_warning_near_the_limit(
    build: Builder, memory: int | None, severity: str
) -> None:
    build.rank(0)
    build.gpu(0, (0, 2000 * US))
    build.con.execute(
        "INSERT INTO base.memory_events (rank, op_id, source_id, device, name, at_local_ns, value,"
        " total_allocated_bytes, total_reserved_bytes)"
        " VALUES (0, 99, 0, 'GPU 0', 'alloc', 0, 600000, 600000, 1000000)"
    )
    row = _by_rule(build, gpu_memory_bytes=memory)["fragmentation"]
    assert (row["severity"], row["ranks"], row["cost_ns"]) == (severity, [0], None)
    assert row["evidence"] == (
        "400 kB of 1.00 MB reserved memory is not allocated at the peak (40.0%), most on rank 0"
    )


def test_waiting_below_the_resolution_accuses_nobody(build: Builder) -> None:
    _steps(build)
    build.con.execute("UPDATE clocks SET residual_p95_ns = ?", [400 * US])
    build.group(0, [0, 1])
    for step in range(4):
        at = step * 1000 * US
        for rank, start in ((0, 600 * US), (1, 900 * US)):
            _compute(build, rank, step, start)
            build.gpu(rank, (at + start, at + 1000 * US), "communication", "nccl", 20, step=step)
        build.collective(
            {0: (at + 600 * US, at + 1000 * US), 1: (at + 900 * US, at + 1000 * US)}, step=step
        )
    found = _by_rule(build)
    assert "straggler" not in found
    # half of the ranks wait 300 us per step
    assert found["weak_clocks"]["severity"] == "warning"
    assert found["weak_clocks"]["evidence"] == (
        "Clocks tell ranks apart by 400 us; 150 us per step of waiting is below that,"
        " so who is late there is not known"
    )


def test_every_rule_is_documented(build: Builder) -> None:
    import re
    from pathlib import Path

    page = (Path(__file__).parents[2] / "docs" / "findings.md").read_text(encoding="utf-8")
    documented = set(re.findall(r"^### (\w+)$", page, re.MULTILINE))
    sql = find("findings").sql
    rules = set(re.findall(r"'(\w+)' AS rule", sql)) | set(
        re.findall(r"THEN '(\w+_(?:bound|idle))'\n", sql)
    )
    assert documented == rules | {"short_gaps"}
    for parameter in find("findings").parameters:
        assert f"`{parameter.name}`" in page
