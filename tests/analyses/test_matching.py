from tests.analyses.builders import Builder, rows
from tests.conftest import Recorded

COUNTS = ("calls", "unmatched", "instances", "shared", "known_instances", "complete",
          "incomplete", "unsized", "synchronizing", "violations", "violation_max_ns",
          "buffered")  # fmt: skip


def test_calls_are_counted_by_what_became_of_them(build: Builder) -> None:
    for rank, offset_ns in ((0, 0), (1, 40), (2, 0)):
        build.rank(rank, residual_ns=5, offset_ns=offset_ns)
    build.group(0, [0, 1, 2])
    build.group(1, [0, 1], size=None)
    # on all ranks: rank 2 comes last, 20 after rank 1
    build.collective({0: (0, 130), 1: (60, 90), 2: (120, 130)})
    # rank 2 is missing, and rank 0 ends 30 before rank 1 begins
    build.collective({0: (200, 220), 1: (210, 260)})
    # seen on one rank, and without a partner
    build.collective({0: (300, 310)})
    build.collective({2: (400, 410)}, matched=False)
    # may end anywhere before it has begun everywhere; nobody says how large the group is
    build.collective({0: (500, 510), 1: (540, 550)}, op="broadcast", group_id=1)
    all_reduce, broadcast = rows(build.con, "matching")
    assert (all_reduce.pop("op"), all_reduce.pop("group_id")) == ("all_reduce", 0)
    assert all_reduce == dict(zip(COUNTS, (7, 1, 3, 2, 2, 1, 2, 0, 2, 1, 30, 0), strict=True))
    assert (broadcast.pop("op"), broadcast.pop("group_id")) == ("broadcast", 1)
    assert broadcast == dict(zip(COUNTS, (2, 0, 1, 1, 1, 0, 0, 1, 0, 0, None, 0), strict=True))
    (run,) = rows(build.con, "matching", per="run")
    assert (run.pop("op"), run.pop("group_id")) == (None, None)
    assert run == dict(zip(COUNTS, (9, 1, 4, 3, 3, 1, 2, 1, 2, 1, 30, 0), strict=True))


def test_a_send_and_its_recv_are_one(build: Builder) -> None:
    build.ranks(2)
    more = {0: {"op": "send", "peer": 1}, 1: {"op": "recv", "peer": 0}}
    build.collective({0: (0, 10), 1: (5, 10)}, group_id=None, each=more)
    build.collective({0: (20, 30)}, op="send", group_id=None, matched=False)
    found = [(r["op"], r["calls"], r["instances"]) for r in rows(build.con, "matching")]
    assert found == [("send_recv", 2, 1), ("send", 1, 0)]


def test_ranks_that_began_to_record_later_lack_the_first_calls(recorded: Recorded) -> None:
    found = recorded("kineto/nanogpt_8xh100").matching().set_index("op")
    # INDEX.md: 76, 76, 76, 76, 81, 84, 84 and 84 calls; so 76 are on all ranks, 8 on some
    assert found["calls"].sum() == 4 * 76 + 81 + 3 * 84
    assert found["unmatched"].sum() == 0
    assert (found["complete"].sum(), found["incomplete"].sum()) == (76, 8)
    assert found["violations"].sum() == 0
