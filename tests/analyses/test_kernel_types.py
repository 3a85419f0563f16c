"""kernel_types: by hand; on real runs its sums are those of breakdown (one_partition)."""

from tests.analyses.builders import Builder, rows


def _answer(build: Builder, **params: object) -> dict[tuple[int | None, str], int]:
    got = rows(build.con, "kernel_types", **params)
    return {(row["step"], row["kernel_type"]): row["time_ns"] for row in got}


def test_every_combination_of_three(build: Builder) -> None:
    # 0    10   20   30   40   50   60   70   80   90
    # compute   ====================          ====
    # comm           ==========      ====     ====
    # memory              ==========      ====     (90)
    build.rank(0)
    build.gpu(0, (10, 50))
    build.gpu(0, (20, 40), "communication", stream=8)
    build.gpu(0, (30, 55), "memory", stream=9)
    build.gpu(0, (60, 70), "communication", stream=8)
    build.gpu(0, (65, 80), "memory", stream=9)
    build.gpu(0, (85, 90))
    got = rows(build.con, "kernel_types", window="span")
    assert [(r["kernel_type"], r["time_ns"]) for r in got] == [
        ("compute", 15), ("memory", 15), ("compute overlapping communication", 10),
        ("compute overlapping communication overlapping memory", 10),
        ("compute overlapping memory", 10), ("idle", 10), ("communication", 5),
        ("communication overlapping memory", 5),
    ]  # fmt: skip
    assert got[0] == {
        "rank": 0, "step": None, "kernel_type": "compute", "time_ns": 15, "window_ns": 80,
        "window_share": 15 / 80, "busy_share": 15 / 70, "timeline": "gpu", "note": None,
    }  # fmt: skip
    assert got[5]["busy_share"] is None


def test_steps_cut_ops_at_their_edges(build: Builder) -> None:
    build.rank(0)
    build.step(0, 1, host=(0, 20), device=(0, 20))
    build.step(0, 2, host=(20, 40), device=(20, 40))
    build.gpu(0, (0, 30))
    build.gpu(0, (15, 40), "communication", stream=8)
    assert _answer(build) == {
        (1, "compute"): 15, (1, "compute overlapping communication"): 5,
        (2, "compute overlapping communication"): 10, (2, "communication"): 10,
    }  # fmt: skip
