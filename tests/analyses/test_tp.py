from tests.analyses.builders import Builder, rows
from tests.analyses.kernels_of_groups import Issuer, pick
from tests.conftest import Recorded
from tests.marks import nightly


def test_what_blocks_compute_and_what_runs_beside_it(build: Builder) -> None:
    build.ranks(2)
    build.step(0, 1, (0, 900), (0, 1000))
    build.group(0, [0, 1], role="tp", role_source="description")
    issue = Issuer(build)
    issue.compute(0, (0, 100))
    # compute stands still for it: 100 ns; rank 1 comes 30 ns later
    issue.collective("all_reduce", {0: (100, 200), 1: (130, 200)})
    issue.compute(0, (210, 300))
    # on the compute stream, but compute goes on too late to have waited for it
    issue.collective("all_reduce", {0: (300, 350), 1: (300, 350)}, stream=7)
    issue.compute(0, (400, 500))
    # hidden
    issue.collective("all_reduce", {0: (450, 480), 1: (450, 480)})
    got = rows(build.con, "tp", release_ns=30)
    assert pick(got, "rank", "step", "group_id", "window_ns", "calls", "bytes") == [
        (0, 1, 0, 1000, 3, 3072),
        # no steps: no window
        (1, 1, 0, None, 3, 3072),
    ]
    assert got[0] | {"note": None} == got[0]
    names = ("comm_ns", "wait_ns", "same_stream_ns", "exposed_ns", "blocked_ns")
    # rank 1 computes nothing: all is exposed, nothing is held up
    assert pick(got, *names) == [(180, 30, 50, 150, 100), (150, 0, 0, 150, 0)]
    shares = ("comm_share", "exposed_share", "blocked_share", "comm_hidden_fraction")
    assert pick(got, *shares) == [(0.18, 0.15, 0.1, 30 / 180), (None, None, None, 0.0)]
    assert got[0]["used_source"] == "description"


def test_only_tensor_parallel_groups_are_listed_or_the_one_asked_for(build: Builder) -> None:
    build.rank(0)
    build.group(0, [0], role="world", role_source="size is the world size")
    build.group(1, [0], role="tp", role_source="name")
    issue = Issuer(build, step=None)
    issue.collective("all_reduce", {0: (0, 100)}, group_id=0)
    issue.collective("all_reduce", {0: (100, 300)}, group_id=1)
    (row,) = rows(build.con, "tp")
    assert (row["group_id"], row["step"], row["window_ns"], row["comm_ns"]) == (1, None, 300, 200)
    assert row["note"] == (
        "outside any step: the window is the span of the rank; some were seen on one rank only"
    )
    assert pick(rows(build.con, "tp", group_id=0), "group_id", "used_source") == [(0, "parameter")]


@nightly
def test_the_real_transfers_of_megatron_are_as_fast_as_its_links(recorded: Recorded) -> None:
    got = recorded("kineto/megatron_tp8").analyze("tp")
    assert got["rank"].tolist() == list(range(8))
    assert (got["calls"] == 84).all()
    assert (got["exposed_ns"] == got["comm_ns"]).all()
    # 8 A100: what is not waiting moves 5.4 GB x 7/4 at 180 to 220 GB/s over the bus
    speed = got["bytes"] * 1.75 / (got["comm_ns"] - got["wait_ns"])
    assert speed.between(180, 220).all()
    # the host-bound rank arrives last, so it waits least of all
    assert got["wait_ns"].idxmin() == 0
