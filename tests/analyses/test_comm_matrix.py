import json
from typing import Any

from tests.analyses.builders import Builder, rows
from tests.analyses.kernels_of_groups import pick
from tests.conftest import Recorded
from tests.marks import nightly

PAIR = ("from_rank", "to_rank", "messages", "bytes")


def _run(build: Builder, ranks: int = 3, **more: Any) -> None:
    build.ranks(ranks)
    build.group(0, list(range(ranks)), **more)


def _message(build: Builder, at: dict[int, tuple[int, int]], source: int, **more: Any) -> None:
    each = {rank: {"op": "send" if rank == source else "recv"} for rank in at}
    build.collective(at, each=each, **more)


def test_messages_go_from_the_sender_to_the_receiver(build: Builder) -> None:
    _run(build)
    # rank 0 sends at 100 what rank 1 waits for since 40: 60 ns of transfer
    _message(build, {0: (100, 160), 1: (40, 160)}, source=0, bytes_=600)
    _message(build, {0: (200, 260), 1: (250, 290)}, source=0, bytes_=400)
    got = rows(build.con, "comm_matrix")
    assert got == [
        {
            "group_id": 0, "op": "send_recv", "from_rank": 0, "to_rank": 1, "messages": 2,
            "bytes": 1000, "transfer_ns": 60 + 40, "busy_ns": 120, "transfer_p50_ns": 40,
            "bandwidth_gbps": 10.0, "parts": "message", "note": None,
        }
    ]  # fmt: skip


def test_one_side_of_a_message_is_enough(build: Builder) -> None:
    _run(build)
    each = {0: {"peer": 2}, 1: {"peer": 2}}
    build.collective({0: (0, 50)}, "send", bytes_=8, matched=False, each=each)
    build.collective({1: (0, 70)}, "recv", bytes_=None, matched=False, each=each)
    got = rows(build.con, "comm_matrix")
    assert pick(got, *PAIR, "transfer_ns", "busy_ns", "bandwidth_gbps") == [
        (0, 2, 1, 8, None, 50, None),
        (2, 1, 1, None, None, 70, None),
    ]
    assert got[1]["note"] == (
        "the traces do not say how many bytes 1 of them carry; 1 of them were seen on one rank only"
    )


def _all_to_all(build: Builder, args: dict[str, Any] | None) -> None:
    kernel = build.gpu(0, (0, 100), "communication", args=args and json.dumps(args))
    build.collective({0: (0, 100)}, "all_to_all", bytes_=1200, each={0: {"gpu_op_id": kernel}})


def test_an_all_to_all_is_split_as_the_trace_says(build: Builder) -> None:
    _run(build)
    # 300 elements of 4 bytes go in, as 1 : 2 : 3; the first part stays
    _all_to_all(
        build, {"In split size": "[10, 20, 30]", "In msg nelems": 300, "Out msg nelems": 240}
    )
    got = rows(build.con, "comm_matrix")
    assert pick(got, *PAIR, "parts") == [
        (0, 1, 1, 400, "split sizes"),
        (0, 2, 1, 600, "split sizes"),
    ]


def test_the_smaller_buffer_counts_if_that_is_what_goes_in(build: Builder) -> None:
    _run(build)
    # bytes is the larger of both: 1200 come out, 600 go in
    _all_to_all(build, {"In split size": "[1, 1, 4]", "In msg nelems": 150, "Out msg nelems": 300})
    assert pick(rows(build.con, "comm_matrix"), *PAIR) == [(0, 1, 1, 100), (0, 2, 1, 400)]


def test_without_usable_split_sizes_the_parts_are_taken_for_equal(build: Builder) -> None:
    _run(build)
    _all_to_all(build, {"In split size": "[]"})
    _all_to_all(build, {"In split size": "[1, 2, ...]"})
    _all_to_all(build, None)
    assert pick(rows(build.con, "comm_matrix"), *PAIR, "parts") == [
        (0, 1, 3, 1200, "equal parts"),
        (0, 2, 3, 1200, "equal parts"),
    ]


def test_members_that_the_trace_does_not_list_are_taken_together(build: Builder) -> None:
    _run(build, 1, size=4)
    _all_to_all(build, None)
    (row,) = rows(build.con, "comm_matrix")
    assert (row["to_rank"], row["bytes"]) == (None, 900)
    assert row["note"].startswith("the traces do not list the members of the group")


@nightly
def test_the_split_sizes_of_a_real_expert_parallel_run(recorded: Recorded) -> None:
    run = recorded("kineto/ep_moe_b200_seq")
    (row,) = run.analyze("comm_matrix").to_dict("records")
    # of two ranks, what each call sends to the other one by its own list
    want = run.sql(
        """
        SELECT sum(k.bytes * (args ->> 'In msg nelems')::BIGINT
            / greatest((args ->> 'In msg nelems')::BIGINT, (args ->> 'Out msg nelems')::BIGINT)
            * (args ->> 'In split size' ->> '$[1]')::BIGINT
            / list_sum((args ->> 'In split size')::BIGINT[])) AS bytes
        FROM collectives AS k JOIN gpu_ops AS g ON g.op_id = k.gpu_op_id
        WHERE k.op = 'all_to_all'
        """
    )
    assert (row["from_rank"], row["to_rank"], row["messages"]) == (0, 1, 30)
    assert row["parts"] == "split sizes"
    assert row["bytes"] == want["bytes"].iloc[0]
