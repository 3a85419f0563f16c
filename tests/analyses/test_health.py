"""health: one screen, its numbers those of the analyses that it names."""

from typing import Any

import pytest

from tests.analyses.builders import Builder, found_by, rows, unchanging
from tests.marks import nightly
from tests.tables import empty_database
from traceweave.cli import layout
from traceweave.cli.cells import cell
from traceweave.store.empty import create_tables


def _run(build: Builder) -> None:
    """Two ranks, two steps; rank 1 computes 20 us longer in the second.

    Per step: 40 us compute, 20 us all-reduce, 20 us copy, 20 us of nothing (launched late)."""
    for rank in (0, 1):
        build.rank(rank)
        for number in (0, 1):
            at = number * 100_000
            late = 20_000 if rank and number else 0
            build.step(rank, number, (at, at + 100_000), (at, at + 100_000))
            build.gpu(
                rank, (at, at + 40_000 + late), launch=build.launch(rank, (at, at + 10)),
                step=number,
            )  # fmt: skip
            build.gpu(
                rank, (at + 40_000 + late, at + 80_000), "communication", "ncclAllReduce",
                step=number,
            )  # fmt: skip
            build.gpu(rank, (at + 80_000, at + 90_000), "memory", step=number)
            build.gpu(
                rank, (at + 100_000, at + 100_000),
                launch=build.launch(rank, (at + 95_000, at + 100_000)), step=number,
            )  # fmt: skip
    build.group(0, [0, 1])
    build.collective({0: (40_000, 80_000), 1: (40_000, 80_000)}, step=0)
    build.collective({0: (140_000, 180_000), 1: (160_000, 180_000)}, step=1)


@pytest.fixture(scope="module")
def answers() -> list[dict[str, Any]]:
    with empty_database() as con:
        create_tables(con)
        build = Builder(con)
        _run(build)
        return rows(build.con, "health")


def test_every_answer_is_there_with_its_number(answers: list[dict[str, Any]]) -> None:
    got = {r["answer"]: (r["value"], r["unit"], r["rank"], r["step"]) for r in answers}
    assert got.pop("recording") == (None, "", None, None)
    assert got.pop("step time") == (0.1, "ms", None, None)
    assert got.pop("MFU") == (None, "%", None, None)
    # all of a step
    budget = {
        "compute": 45.0,
        # rank 0 waits 20 us for rank 1 in one of two steps
        "exposed waiting": 5.0,
        "exposed transfer": 30.0,
        "exposed copies": 10.0,
        "idle: launch bound": 10.0,
    }
    for answer, share in budget.items():
        value, unit, _, _ = got.pop(answer)
        assert (value, unit) == (pytest.approx(share), "%")
    assert got.pop("overlap") == (0.0, "%", None, None)
    # 20 us in one of two steps
    assert got.pop("worst straggler") == (0.01, "ms", 1, None)
    assert got.pop("clock resolution") == (0.0, "us", 0, None)
    assert got.pop("ranks") == (2.0, "", None, None)
    # without the time of launches: of the 10 us in which each step idles
    gain, unit, *_ = got.pop("fix 1")
    assert (0 < gain <= 0.01, unit) == (True, "ms")
    assert got == {}


@nightly
def test_a_stall_at_the_end_of_a_step_counts_once(build: Builder) -> None:
    # rank 1 stalls for 40 us at the end of step 1; rank 0 waits for it in step 2
    edges = {0: (0, 100, 200, 340, 440), 1: (0, 100, 240, 340, 440)}
    for rank, at in edges.items():
        build.rank(rank)
        for step in range(4):
            window = (at[step] * 1000, at[step + 1] * 1000)
            build.step(rank, step, window, window)
            build.gpu(rank, window)
    got = {r["answer"]: r for r in rows(build.con, "health")}
    assert (got["step time"]["value"], got["step time"]["verdict"]) == (
        0.11,
        "mean of 4 steps; median 100 us",
    )
    assert got["jitter"]["value"] == pytest.approx(20)
    assert got["jitter"]["verdict"] == ("unsteady, p95 above p50; longest 120 us, mean of ranks")
    found = found_by(build.con, "unsteady_steps")["unsteady_steps"]
    assert found["cost_ns"] == 10_000  # 40 us in four steps


@nightly
def test_a_rank_whose_kernels_were_lost_counts_nowhere(build: Builder) -> None:
    for rank in (0, 1, 2):
        build.rank(rank)
        build.step(rank, 0, (0, 1_000_000), (0, 1_000_000))
        build.host(rank, (0, 900_000), "aten::mm", step=0)
        if rank != 1:
            build.gpu(rank, (0, 500_000))
    with unchanging(build.con):
        health, budget = (rows(build.con, name) for name in ("health", "breakdown"))
        found = found_by(build.con, "nothing_to_measure")["nothing_to_measure"]
    got = {r["answer"]: (r["value"], r["verdict"], r["rank"]) for r in health}
    assert got["compute"][0] == 50
    assert got["no GPU work"] == (1, "ranks left out of all numbers", 1)
    assert [found[key] for key in ("severity", "ranks", "evidence")] == [
        "warning",
        [1],
        "1 of 3 ranks has no GPU work, unlike the others: left out of all numbers here",
    ]
    assert {r["rank"] for r in budget} == {0, 2}


@nightly
def test_a_run_without_any_gpu_work_is_about_its_host(build: Builder) -> None:
    build.rank(0)
    build.step(0, 0, (0, 1_000_000))
    build.host(0, (0, 450_000), "aten::mm", step=0)
    build.host(0, (450_000, 900_000), "aten::add", step=0)
    assert "no GPU work" not in {r["answer"] for r in rows(build.con, "health")}
    found = {r["rule"]: r["evidence"] for r in rows(build.con, "findings")}
    assert found["compute_bound"] == (
        "No GPU work was recorded; operators on the CPU run for 90.0% of the step."
        " Each step runs 2 operators, one per 450 us of compute"
    )


@nightly
def test_calls_of_several_ranks_that_were_not_matched_are_counted(build: Builder) -> None:
    for rank in (0, 1):
        build.rank(rank)
        build.gpu(rank, (0, 5_000_000))
        build.gpu(rank, (5_000_000, 8_000_000), "communication")
        build.collective({rank: (5_000_000, 8_000_000)}, matched=False)
    [row] = [r for r in rows(build.con, "health") if r["answer"] == "worst straggler"]
    assert row["verdict"] == "none of 2 calls could be matched over the ranks"
    assert (row["value"], row["proof"]) == (None, "matching")


@nightly
def test_one_rank_alone_is_told_so(build: Builder) -> None:
    build.rank(0)
    build.gpu(0, (0, 5_000_000))
    build.gpu(0, (5_000_000, 8_000_000), "communication")
    build.collective({0: (5_000_000, 8_000_000)}, matched=False)
    said = {r["answer"]: r["verdict"] for r in rows(build.con, "health")}
    assert said["recording"] == "mean over 1 rank; no steps marked; fit to judge"
    assert said["worst straggler"] == "no collective seen on two ranks"
    assert said["clock resolution"] == "one rank needs no alignment"
    assert said["ranks"] == "no trace says of how many"


@nightly
def test_ranks_on_one_clock_of_their_host_are_not_called_unaligned(build: Builder) -> None:
    for rank in (0, 1):
        build.rank(rank, residual_ns=None)
        build.gpu(rank, (0, 5_000_000))
    build.con.execute("UPDATE clocks SET status = 'same host' WHERE rank = 1")
    build.con.execute("UPDATE clocks SET status = 'aligned' WHERE rank = 0")
    said = {r["answer"]: (r["value"], r["verdict"]) for r in rows(build.con, "health")}
    assert said["clock resolution"] == (None, "unknown: ranks of a host share its clock")


def test_it_fits_the_page(answers: list[dict[str, Any]]) -> None:
    names = list(answers[0])
    cells = [[cell(name, row[name]) for name in names] for row in answers]
    lines, _, left_out = layout.lay_out(
        names, cells, [name in ("value", "rank", "step") for name in names]
    )
    assert max(map(len, lines)) <= layout.WIDTH
    assert left_out == []
    assert not any("…" in line for line in lines)
    # but for a title that names both ranks
    assert len(lines) <= 3 + len(answers)
