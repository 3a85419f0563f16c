from tests.analyses.builders import Builder, rows
from tests.analyses.kernels_of_groups import Issuer, pick
from tests.conftest import Recorded
from tests.marks import nightly


def _run(build: Builder) -> Issuer:
    build.rank(0)
    build.group(0, [0], size=2, role="dp", role_source="name")
    return Issuer(build)


def test_the_first_use_is_the_compute_launched_after_the_wait(build: Builder) -> None:
    issue = _run(build)
    issue.wait(0, 5)
    issue.collective("all_gather", {0: (10, 50)}, 0)
    issue.wait(0, 15)
    # the next unit is gathered ahead: its own wait is not the compute stream's
    issue.wait(0, 25)
    issue.collective("all_gather", {0: (50, 80)}, 20)
    issue.compute(0, (50, 100))
    issue.wait(0, 40)
    issue.compute(0, (100, 150))
    issue.wait(0, 65, tid=2)
    issue.collective("reduce_scatter", {0: (150, 200)}, 60, tid=2)
    issue.compute(0, (160, 190))
    got = rows(build.con, "fsdp")
    assert pick(got, "rank", "step", "group_id", "op", "unit", "pass", "bytes", "asked_ns") == [
        (0, 1, 0, "all_gather", 1, "forward", 1024, 0),
        (0, 1, 0, "all_gather", 2, "forward", 1024, 20),
        (0, 1, 0, "reduce_scatter", 1, "backward", 1024, 60),
    ]
    assert pick(got, "first_use_ns", "prefetch_ns", "slack_ns") == [
        (50, 40, 0),
        (100, 50, 20),
        (None, None, None),
    ]
    # of the reduce-scatter [150, 160) and [190, 200) are exposed; nothing goes on after it
    assert pick(got, "duration_ns", "exposed_ns", "exposed_share", "blocked_ns") == [
        (40, 40, 1.0, 40),
        (30, 0, 0.0, 0),
        (50, 20, 0.4, 0),
    ]
    assert pick(got, "start_ns", "end_ns", "wait_ns", "note") == [
        (10, 50, None, "seen on one rank only"),
        (50, 80, None, "seen on one rank only"),
        (150, 200, None, "seen on one rank only"),
    ]


def test_without_waits_in_the_trace_there_is_no_first_use(build: Builder) -> None:
    issue = _run(build)
    issue.collective("all_gather", {0: (10, 50)}, 0)
    issue.compute(0, (50, 100))
    issue.collective("reduce_scatter", {0: (150, 200)}, 60)
    got = rows(build.con, "fsdp")
    assert pick(got, "pass", "first_use_ns") == [(None, None), (None, None)]
    assert got[0]["note"] == (
        "no thread gathers only: forward and backward cannot be separated;"
        " no wait of the compute stream for it is in the trace; seen on one rank only"
    )


def test_a_group_that_only_gathers_is_not_sharded(build: Builder) -> None:
    issue = _run(build)
    issue.collective("all_gather", {0: (10, 50)})
    assert rows(build.con, "fsdp") == []


@nightly
def test_where_the_stream_stood_still_the_real_first_use_is_right_after_the_end(
    recorded: Recorded,
) -> None:
    got = recorded("kineto/negative_queue_1of16").analyze("fsdp")
    gathers = got[got["op"] == "all_gather"]
    assert len(gathers) == 10
    # every gather blocks: the next kernel starts 7 to 10 us after its end, in whole us
    assert gathers["slack_ns"].between(7_000, 10_000).all()
    assert (gathers["blocked_ns"] == gathers["duration_ns"]).all()
    assert (gathers["prefetch_ns"] - gathers["slack_ns"] == gathers["duration_ns"]).all()
