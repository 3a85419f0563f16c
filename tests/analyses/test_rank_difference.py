"""rank_difference: what one rank does more, longer or alone."""

import pytest

from tests.analyses.builders import Builder, rows
from tests.marks import first_at_once, nightly

MS = 1_000_000


def _step(build: Builder, rank: int, step: int, **kernels: tuple[int, ...]) -> None:
    """A step of 100 ms with kernels of some lengths, one after the other."""
    begin = at = step * 100 * MS
    build.step(rank, step, host=(begin, begin + 100 * MS), device=(begin, begin + 100 * MS))
    for name, lengths in kernels.items():
        for length in lengths:
            build.gpu(rank, (at, at + length * MS), name=name, step=step)
            at += length * MS


@first_at_once()
@pytest.mark.parametrize(
    ("steps", "slow", "which"),
    [
        (8, {5, 6, 7}, "from step 5 on"),
        pytest.param(8, {0, 4}, "in steps 0 and 4", marks=nightly),
        pytest.param(8, {1, 4, 7}, "in every 3rd step", marks=nightly),
        pytest.param(9, {1, 3, 5}, "in 3 of 9 steps", marks=nightly),
        # what was wrong: "in every 1th step"
        (8, {2, 3, 4}, "in steps 2 to 4"),
        pytest.param(8, {3}, "in step 3", marks=nightly),
        pytest.param(8, {0, 1}, "until step 1", marks=nightly),
        (8, set(range(8)), "in every step"),
        # a step in ten may be as quick as those before
        (13, set(range(3, 13)) - {7}, "in 9 of 10 steps from step 3 on"),
        pytest.param(13, set(range(3, 13)) - {7, 8}, "in 8 of 13 steps", marks=nightly),
    ],
)
def test_what_a_rank_does_alone_and_in_which_steps(
    build: Builder, steps: int, slow: set[int], which: str
) -> None:
    for rank in range(3):
        build.rank(rank)
        for step in range(steps):
            extra = {"evaluate": (10, 10)} if rank == 2 and step in slow else {}
            _step(build, rank, step, gemm=(20 + rank,), **extra)
    evaluated, gemm = [r for r in rows(build.con, "rank_difference", rank=2) if r["kind"] != "idle"]
    assert (evaluated["name"], evaluated["count_per_step"], evaluated["others_count"]) == (
        "evaluate", 2.0, 0.0,
    )  # fmt: skip
    assert evaluated["excess_ns"] == pytest.approx(len(slow) * 20 * MS / steps, abs=1)
    assert evaluated["which_steps"] == which
    # of the two others, 20 and 21 ms, the lower is the median
    assert (gemm["time_ns"], gemm["others_ns"]) == (22 * MS, 20 * MS)


# what was wrong: "108 ms in step 10", of a loader that took 46 ms longer in all other steps too
def test_a_step_that_is_worst_does_not_hide_the_others(build: Builder) -> None:
    """30 ms longer in seven steps, 70 in the last; rank 0 alone records one more."""
    for rank in range(3):
        build.rank(rank)
        for step in range(8):
            _step(build, rank, step, load=((40 if step < 7 else 80) if rank == 2 else 10,))
    _step(build, 0, 8, load=(90,))
    (load,) = [r for r in rows(build.con, "rank_difference", rank=2) if r["kind"] == "kernel"]
    assert (load["which_steps"], load["time_ns"]) == ("in every step", 45 * MS)
    assert [r for r in rows(build.con, "rank_difference", rank=0) if r["kind"] == "kernel"] == []


@pytest.mark.parametrize(
    ("recorded_as", "told"),
    [
        ("forward", "forward"),
        # what was wrong: a name that a rank alone has was told as done by it alone
        ("rank{rank}/forward", "rank…/forward"),
        pytest.param("forward.{n}", "forward", marks=nightly),
        pytest.param(
            "graph {rank}2ans6mw7it6v64miziobi4tuarpf2ch5uhyug5q", "graph …", marks=nightly
        ),
        # a hash as short as they are, with numbers at its end
        ("graph {rank}41d8cd98f00b204e9800998ecf84{rank}07", "graph …"),
    ],
)
def test_how_often_others_do_it_is_told_where_that_differs(
    build: Builder, recorded_as: str, told: str
) -> None:
    """As where one rank has more micro-batches: what was wrong is that only times were told."""
    for rank in range(3):
        build.rank(rank)
        for step in range(2):
            _step(build, rank, step, A=(4,) * (6 if rank == 2 else 2), B=(9 if rank == 2 else 5,))
            for n in range(6 if rank == 2 else 2):
                begin = step * 100 * MS + n * 10 * MS
                name = recorded_as.format(rank=rank, n=n)
                build.host(rank, (begin, begin + 7 * MS), name, kind="annotation", step=step)
    notes = {row["name"]: row["note"] for row in rows(build.con, "rank_difference", rank=2)}
    assert notes[told] == (
        f"Rank 2 runs '{told}' 6 times, 42.0 ms in every step; the others 2 times, 14.0 ms at the"
        " median"
    )
    assert notes["A"].endswith(
        "A 6 times, 24.0 ms in every step; the others 2 times, 8.00 ms at the median"
    )
    assert notes["B"].endswith("B once, 9.00 ms in every step; the others 5.00 ms at the median")


@nightly
def test_the_rank_that_ranks_wait_for_most_is_meant_unless_one_is_named(build: Builder) -> None:
    for rank in range(2):
        build.rank(rank)
        _step(build, rank, 0, work=(90 if rank else 10,))
        build.step(rank, 1, host=(100 * MS, 101 * MS))
    build.group(0, [0, 1])
    build.collective({0: (10 * MS, 95 * MS), 1: (90 * MS, 95 * MS)}, step=0)
    assert {row["rank"] for row in rows(build.con, "rank_difference")} == {1}


# what was wrong: "Rank 1 runs gemm_128 once, 12.0 ms; most others do not", and of the others theirs
def test_what_ranks_run_other_kernels_for_is_compared_by_its_operator(build: Builder) -> None:
    """Autotuning gives rank 1 another product; what rank 2 alone calls keeps its kernels' names,
    also of one that runs in products too.
    """
    for rank, (product, ms) in enumerate([("gemm_64", 10), ("gemm_128", 12), ("gemm_64", 10)]):
        build.rank(rank)
        for step in range(2):
            _step(build, rank, step)
            at = step * 100 * MS
            for op, kernel, length in [
                ("aten::mm", product, ms),
                ("aten::mm", "gemm_32", 4),
                *([("aten::sort", "radix", 7), ("aten::topk", "gemm_64", 3)] if rank == 2 else []),
            ]:
                called = build.host(rank, (at, at + MS), op, step=step)
                launch = build.launch(rank, (at, at + MS), step=step, parent_id=called)
                build.gpu(rank, (at, at + length * MS), name=kernel, step=step, launch=launch)
                at += length * MS
    said = {
        rank: [
            (row["kind"], row["name"], row["time_ns"] / MS, row["others_ns"] / MS)
            for row in rows(build.con, "rank_difference", rank=rank)
            if row["kind"] in ("kernel", "operator")
        ]
        for rank in range(3)
    }
    assert said == {
        0: [],
        1: [("operator", "aten::mm", 16, 14)],
        2: [("kernel", "radix", 7, 0), ("kernel", "gemm_64", 3, 0)],
    }


@nightly
def test_one_rank_has_nobody_beside_it(build: Builder) -> None:
    build.rank(0)
    _step(build, 0, 0, work=(10,))
    assert rows(build.con, "rank_difference", rank=0) == []
