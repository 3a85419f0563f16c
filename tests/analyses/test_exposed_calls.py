"""exposed_calls and unhidden: what communication is for, and what keeps it from being hidden."""

import duckdb

from tests.analyses.builders import Builder, unchanging
from tests.cases import cases
from tests.conftest import Recorded
from tests.marks import first_at_once
from traceweave.analyses import shared_rows

ENGINE = "autograd::engine::evaluate_function: "


# what was wrong: sums that a layer of SyncBatchNorm needs at once were to be merged in buckets of
# DDP, and activations on the stream of what needs them were to have one of their own
@first_at_once(2)
@cases
def test_what_a_function_of_the_backward_pass_asks_for(
    empty_run: duckdb.DuckDBPyConnection, inside: list[str], use: str, cause: str
) -> None:
    """A sum of 50 us between kernels of its stream, beside one of gradients that is hidden."""
    build = Builder(empty_run)
    build.rank(0)
    build.step(0, 0, (0, 300_000), (0, 300_000))
    build.group(0, [0, 1])
    ranges = {10_000: inside, 200_000: ["torch::autograd::AccumulateGrad"]}
    for at, names in ranges.items():
        for depth, name in enumerate(names):
            around = name if name.startswith("FSDP") else ENGINE + name
            build.host(0, (at + depth, at + 9_000 - depth), around, depth=depth)
        call = build.host(0, (at + 1_000, at + 5_000), "c10d::allreduce_", depth=5)
        launch = build.launch(0, (at + 2_000, at + 3_000))
        lies = (100_000, 150_000) if names is inside else (210_000, 240_000)
        stream = 7 if names is inside else 20
        op = build.gpu(0, lies, "communication", "C", stream, launch=launch, step=0)
        each = {0: {"gpu_op_id": op, "host_op_id": call, "stream": stream}}
        build.collective({0: lies}, each=each, step=0)
    for at, lies in ((0, (0, 100_000)), (20_000, (150_000, 300_000))):
        launch = build.launch(0, (at, at + 1_000))
        build.gpu(0, lies, launch=launch, step=0)
    with unchanging(build.con):
        calls = shared_rows(build.con, "exposed_calls").filter("exposed_ns > 0")
        assert calls.select("use, exposed_ns").fetchall() == [(use, 50_000)]
        causes = shared_rows(build.con, "unhidden").filter("scope = 'all'")
        assert causes.select("cause, share").fetchall() == [(cause, 1.0)]


# what was wrong: of a DDP job that gathers objects, to gather the next shards during compute, and
# to keep shards within a node
@cases
def test_what_is_gathered_may_be_no_shard(
    empty_run: duckdb.DuckDBPyConnection, dtypes: list[str], uses: list[str]
) -> None:
    build = Builder(empty_run)
    build.ranks(2)
    build.group(0, [0, 1], role="dp", role_source="description")
    for rank in range(2):
        build.step(rank, 0, (0, 1_000_000))
    for number, dtype in enumerate(dtypes):
        at, each = 10_000 + number * 100_000, {}
        for rank in range(2):
            call = build.host(rank, (at, at + 5_000), "c10d::allgather_", step=0)
            each[rank] = {"gpu_op_id": None, "host_op_id": call, "stream": 9, "dtype": dtype}
        lies = (at + 10_000, at + 90_000)
        build.collective(dict.fromkeys(range(2), lies), "all_gather", step=0, each=each)
    with unchanging(build.con):
        calls = shared_rows(build.con, "exposed_calls").filter("rank = 0").order("call_id")
        assert [use for (use,) in calls.select("use").fetchall()] == uses


# what was wrong: of 150 metrics summed up one by one, "DDP transfers", and larger buckets advised
def test_sums_beside_the_gradients_of_a_ddp_are_none_of_its_own(recorded: Recorded) -> None:
    """Each step ends with the sum of the loss, 4 bytes of each of four ranks in four steps."""
    calls = shared_rows(recorded("ddp_gloo_4ranks").con, "exposed_calls")
    sums = calls.filter("op = 'all_reduce'").aggregate("use, min(bytes), count(*)").fetchall()
    assert sorted(sums) == [("ddp", 295_296, 64), ("unknown", 4, 16)]


# what was wrong: each call there twice, once as what the sender and once as what the receiver reads
def test_a_message_that_both_hosts_read_after_is_one_call_of_each(
    empty_run: duckdb.DuckDBPyConnection,
) -> None:
    """Rank 0 sends 8 bytes to rank 1; both then read a number, as where neighbours exchange it."""
    build = Builder(empty_run)
    build.world(2)
    each = {}
    for rank, op in enumerate(("send", "recv")):
        build.step(rank, 0, (0, 100_000))
        call = build.host(rank, (50_000, 60_000), f"c10d::{op}", step=0)
        build.host(rank, (61_000, 62_000), "aten::item", step=0)
        each[rank] = {"gpu_op_id": None, "host_op_id": call, "stream": 9, "op": op}
    build.collective(dict.fromkeys(range(2), (50_000, 60_000)), "recv", step=0, bytes_=8, each=each)
    reads = shared_rows(build.con, "read_calls").select("rank, op").order("rank")
    assert reads.fetchall() == [(0, "send"), (1, "recv")]
    calls = shared_rows(build.con, "exposed_calls").select("rank, op, is_blocking").order("rank")
    assert calls.fetchall() == [(0, "send", True), (1, "recv", True)]
