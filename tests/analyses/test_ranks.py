from tests.analyses.builders import Builder, rows
from tests.conftest import Recorded

COUNTED = ("rank", "steps", "gpu_ops", "host_ops", "collectives", "matched", "timeline")


def test_what_each_rank_recorded_is_counted(build: Builder) -> None:
    build.ranks(3)
    build.con.execute(
        "UPDATE base.rank_sources SET host = 'a', first_local_ns = 5, last_local_ns = 30"
        " WHERE rank = 0"
    )
    build.con.execute("UPDATE base.rank_sources SET first_local_ns = NULL WHERE rank = 2")
    for step in (1, 2):
        build.step(0, step, host=(step, step + 1))
    build.gpu(0, (0, 10))
    build.gpu(1, (0, 10), launch=build.launch(1, (0, 1)))
    build.host(2, (0, 10), "aten::mm")
    build.collective({0: (0, 10), 1: (0, 10)})
    build.collective({0: (20, 30)}, matched=False)
    found = rows(build.con, "ranks")
    assert [tuple(row[key] for key in COUNTED) for row in found] == [
        (0, 2, 1, 0, 2, 1, "gpu"),
        (1, 0, 1, 1, 1, 1, "gpu"),
        # others recorded work on a GPU: its operators are on no timeline
        (2, 0, 0, 1, 0, 0, None),
    ]
    assert [(row["host"], row["recorded_ns"]) for row in found] == [
        ("a", 25),
        (None, 0),
        (None, None),
    ]


def test_without_any_gpu_the_operators_are_the_timeline(build: Builder) -> None:
    build.rank(0)
    build.host(0, (0, 10), "aten::mm")
    assert [row["timeline"] for row in rows(build.con, "ranks")] == ["cpu"]


def test_ranks_of_a_real_run(recorded: Recorded) -> None:
    run = recorded("kineto/megatron_tp8")
    found, (whole,) = run.ranks(), run.matching(per="run").to_dict("records")
    # INDEX.md: 84 all-reduces on each of 8 ranks of 8
    assert found["rank"].tolist() == list(range(8))
    assert found["collectives"].tolist() == found["matched"].tolist() == [84] * 8
    assert set(found["timeline"]) == {"gpu"}
    assert (whole["instances"], whole["complete"]) == (84, 84)
