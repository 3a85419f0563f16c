from typing import Any

from tests.analyses.builders import Builder, rows
from tests.conftest import Simulated
from tests.marks import nightly
from traceweave_simulator import Config, Gap

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
            "rank": 0, "step": 2, "window_ns": 225 * US, "median_ns": 170 * US,
            "excess_ns": 55 * US, "excess_share": 55 / 170, "grew": "compute", "grew_ns": 60 * US,
            "grew_share": 60 / 55, "compute_ns": 60 * US, "exposed_comm_ns": -5 * US,
            "exposed_memory_ns": 0, "idle_ns": 0, "slow_ranks": 1,
        }
    ]  # fmt: skip


@nightly
def test_the_part_that_grew_is_named(build: Builder) -> None:
    _steps(build, [100] * 6, [50, 90, 50, 50, 50, 50], [20, 20, 20, 70, 20, 29])
    assert _grew(build) == [
        (3, 50 * US, "idle: unknown", 50 * US, 1.0),
        (1, 40 * US, "exposed_comm", 40 * US, 1.0),
    ]
    assert [row[0] for row in _grew(build, min_excess_share=0.05)] == [3, 1, 5]
    assert _grew(build, min_excess_share=0.5) == []


@nightly
def test_two_steps_have_no_usual_one(build: Builder) -> None:
    _steps(build, [100, 500], [50, 50], [20, 20])
    assert _grew(build) == []


@nightly
def test_simulated_stalls_of_single_steps_are_found(simulated: Simulated) -> None:
    stalls = (Gap("sync", 6_000_000, step=1), Gap("data_loading", 8_000_000, step=4))
    config = Config(ranks=2, steps=7, layers=2, gaps=stalls, first_step=10)
    found = simulated(config).analyze("slow_steps", window="host").sort_values(["step", "rank"])
    assert found["step"].tolist() == [11, 11, 14, 14]
    assert found["grew"].tolist() == ["idle: sync"] * 2 + ["idle: data_loading"] * 2
    put_in = [6_000_000] * 2 + [8_000_000] * 2
    assert (found["grew_ns"] - put_in).abs().max() < 600_000
    assert found["slow_ranks"].tolist() == [2] * 4
