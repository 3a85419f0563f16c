from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import traceweave
from tests.analyses.builders import Builder, rows
from traceweave.simulate import Config, Gap, simulate, write_kineto

US = 1_000


def _steps(build: Builder, compute: list[int], comm: list[int], idle: list[int]) -> None:
    """Steps of compute, then communication, then nothing, in us; nothing is launched late."""
    build.rank(0)
    at = 0
    for step, (busy, sent, free) in enumerate(zip(compute, comm, idle, strict=True)):
        end = at + (busy + sent + free) * US
        build.step(0, step, host=(at, end), device=(at, end))
        build.gpu(0, (at, at + busy * US))
        build.gpu(0, (at + busy * US, at + (busy + sent) * US), "communication", stream=9)
        at = end
    build.gpu(0, (at, at))


def _grew(build: Builder, **params: object) -> list[tuple[Any, ...]]:
    names = ("step", "excess_ns", "grew", "grew_ns", "grew_share")
    return [tuple(row[n] for n in names) for row in rows(build.con, "slow_steps", **params)]


def test_every_column(build: Builder) -> None:
    _steps(build, [100, 100, 160, 100], [50, 50, 45, 50], [20, 20, 20, 20])
    assert rows(build.con, "slow_steps") == [
        {
            "rank": 0,
            "step": 2,
            "window_ns": 225 * US,
            "median_ns": 170 * US,
            "excess_ns": 55 * US,
            "excess_share": 55 / 170,
            "grew": "compute",
            "grew_ns": 60 * US,
            "grew_share": 60 / 55,
            "compute_ns": 60 * US,
            "exposed_comm_ns": -5 * US,
            "exposed_memory_ns": 0,
            "idle_ns": 0,
            "slow_ranks": 1,
        }
    ]


def test_the_part_that_grew_is_named(build: Builder) -> None:
    _steps(build, [100] * 6, [50, 90, 50, 50, 50, 50], [20, 20, 20, 70, 20, 29])
    assert _grew(build) == [
        (3, 50 * US, "idle: unknown", 50 * US, 1.0),
        (1, 40 * US, "exposed_comm", 40 * US, 1.0),
    ]
    assert [row[0] for row in _grew(build, min_excess_share=0.05)] == [3, 1, 5]
    assert _grew(build, min_excess_share=0.5) == []


def test_two_steps_have_no_usual_one(build: Builder) -> None:
    _steps(build, [100, 500], [50, 50], [20, 20])
    assert _grew(build) == []


@pytest.mark.parametrize(
    ("cause", "grew"),
    [("sync", "idle: sync"), ("data_loading", "idle: data_loading")],
)
def test_a_simulated_stall_of_one_step_is_found(cause: Any, grew: str, tmp_path: Path) -> None:
    stall = Gap(cause, 6_000_000, step=3)
    config = Config(ranks=2, steps=6, layers=2, gaps=(stall,), first_step=10)
    write_kineto(simulate(config), tmp_path / "traces")
    traceweave.ingest([tmp_path / "traces"], tmp_path / "run.duckdb")
    with traceweave.open(tmp_path / "run.duckdb") as run:
        found = run.analyze("slow_steps", window="host")
    assert found["step"].tolist() == [13, 13]
    assert found["grew"].tolist() == [grew, grew]
    assert (found["grew_ns"] - 6_000_000).abs().max() < 600_000
    assert found["slow_ranks"].tolist() == [2, 2]
