"""The kernel of a group call (`batch_isend_irecv`) does what the sends and receives before its
launch say: they end before the group does, and the kernel itself says nothing (pytorch 194693).

Files are made by hand in that layout, with the truth next to each."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest

import traceweave
from tests.marks import first_at_once, nightly
from tests.sources.test_kineto_load import kernel, launch, load_file, span

Events = list[dict[str, Any]]
Query = Callable[[str], list[tuple[Any, ...]]]

SEND_RECV = "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)"
MESSAGES = """
    SELECT op, peer, bytes, group_name, evidence, start_local_ns // 1000 AS at, stream
    FROM base.collective_calls ORDER BY start_local_ns, host_op_id, op DESC
"""


def message(
    ts: float, op: str, peer: int | None, *, dur: float = 1, size: int = 4, desc: str = "mesh_pp"
) -> dict[str, Any]:
    """A send or receive of 8 values of two bytes in the group of ranks 0 to 3."""
    args = {
        "Collective name": op, "In msg nelems": 8, "Out msg nelems": 8, "Group size": size,
        "dtype": "BFloat16", "Process Group Name": "7", "Process Group Description": desc,
        "Process Group Ranks": str(list(range(size))),
    }  # fmt: skip
    if peer is not None:
        args["Dst Rank" if op == "send" else "Src Rank"] = peer
    return span("record_param_comms", ts, dur, args=args)


def batch(ts: float, number: int, to: int = 1, of: int = 3, desc: str = "mesh_pp") -> Events:
    """A send and a receive that end before the launch, and the kernel that does both."""
    return [
        message(ts, "send", to, desc=desc), message(ts + 2, "recv", of, desc=desc),
        launch(ts + 4, 1, number, "cudaLaunchKernelExC"), kernel(SEND_RECV, ts + 20, 9, number),
    ]  # fmt: skip


@pytest.fixture
def load(empty_run: duckdb.DuckDBPyConnection, tmp_path: Path) -> Callable[[Events], Query]:
    def write_and_load(events: Events) -> Query:
        path = tmp_path / "trace.json"
        top = {"distributedInfo": {"rank": 0}, "traceEvents": events}
        path.write_text(json.dumps(top), encoding="utf-8")
        load_file(empty_run, path)
        return lambda query: empty_run.execute(query).fetchall()

    return write_and_load


def test_a_kernel_does_the_messages_before_its_launch(load: Any) -> None:
    query = load(batch(0, 5))
    assert query(MESSAGES) == [
        ("send", 1, 16, "7", "metadata", 20, 7),
        ("recv", 3, 16, "7", "metadata", 20, 7),
    ]
    assert query("SELECT count(DISTINCT gpu_op_id), count(DISTINCT host_op_id) FROM collectives")[
        0
    ] == (1, 2)


@nightly
def test_a_message_outside_of_a_group_is_of_its_own_kernel(load: Any) -> None:
    alone = [message(0, "send", 2, dur=4), launch(1, 1, 4), kernel(SEND_RECV, 8, 3, 4)]
    query = load([*alone, *batch(10, 5)])
    assert query(MESSAGES) == [
        ("send", 2, 16, "7", "metadata", 8, 7),
        ("send", 1, 16, "7", "metadata", 30, 7),
        ("recv", 3, 16, "7", "metadata", 30, 7),
    ]


def test_messages_of_a_kernel_that_was_lost_are_not_given_to_the_next(load: Any) -> None:
    lost = batch(0, 5, to=2, of=2)[:-1]
    query = load([*lost, *batch(10, 6)])
    assert [row[:2] for row in query(MESSAGES)] == [("send", 1), ("recv", 3)]


def test_messages_before_the_launch_of_another_kernel_are_nobodys(load: Any) -> None:
    """As where the end of the group was not recorded: the next launch is not the group's."""
    orphans = batch(0, 5)[:2]
    compute = [launch(6, 1, 8), kernel("gemm", 9, 3, 8)]
    query = load([*orphans, *compute, launch(20, 1, 9), kernel(SEND_RECV, 30, 9, 9)])
    assert [row[:2] for row in query(MESSAGES)] == [("unknown", None)]


@nightly
def test_messages_of_another_thread_are_not_taken(load: Any) -> None:
    events = batch(0, 5)
    events[0]["tid"] = 10
    query = load(events)
    assert [row[:2] for row in query(MESSAGES)] == [("recv", 3)]


def test_a_kernel_stays_open_if_a_peer_would(load: Any) -> None:
    """torch 2.4 names no peer: with more than two ranks, where a message goes stays open."""
    events = [message(0, "send", None), message(2, "recv", 3)]
    query = load([*events, launch(4, 1, 5), kernel(SEND_RECV, 20, 9, 5)])
    assert [row[:2] for row in query(MESSAGES)] == [("unknown", None)]


def test_of_two_ranks_the_other_is_the_peer(load: Any) -> None:
    events = [message(0, "send", None, size=2), message(2, "recv", None, size=2)]
    query = load([*events, launch(4, 1, 5), kernel(SEND_RECV, 20, 9, 5)])
    assert [row[:4] for row in query(MESSAGES)] == [
        ("send", None, 16, "7"),
        ("recv", None, 16, "7"),
    ]


@first_at_once()
@pytest.mark.parametrize(("batches", "op"), [(8, "send"), (7, "unknown")])
def test_a_kernel_from_before_the_window_does_what_all_others_of_its_stream_do(
    load: Any, batches: int, op: str
) -> None:
    early = kernel(SEND_RECV, 0, 3, 99)
    query = load([early, *(event for n in range(batches) for event in batch(10 + 40 * n, n + 1))])
    found = query(MESSAGES)
    assert found[0][0] == op
    assert len(found) == 2 * batches + (2 if op == "send" else 1)


def test_a_kernel_from_before_the_window_stays_open_where_others_differ(load: Any) -> None:
    early = kernel(SEND_RECV, 0, 3, 99)
    others = [event for n in range(9) for event in batch(10 + 40 * n, n + 1, to=1 + n % 2)]
    assert load([early, *others])(MESSAGES)[0][:2] == ("unknown", None)


def test_the_kernel_of_coalesced_collectives_is_named_by_itself(load: Any) -> None:
    """`nccl:coalesced` says only that it is a group's."""
    around = span("nccl:coalesced", 0, 10, cat="user_annotation")
    query = load([around, launch(4, 1, 5), kernel("ncclDevKernel_AllReduce_Sum_f32", 20, 9, 5)])
    assert [row[:1] for row in query(MESSAGES)] == [("all_reduce",)]


RANKS = 4
ROUNDS = 24
EARLY = 2
BEGINS = [100 * n + 11 * n * n for n in range(ROUNDS)]
"""When rounds begin, us; no two follow each other alike."""


def ring(rank: int, turns: bool, desc: str = "mesh_pp") -> Events:
    """Keys go round a ring of four: in each round a rank sends to the next one and receives from
    the one before, in every other round the other way if the ring `turns`. Rank 2 is 5 us late
    each time. Of ranks 1 and 3 the first two rounds were launched before the window."""
    events = []
    for n, at in enumerate(BEGINS):
        start = 50 + at + (5 if rank == 2 else 0)
        if rank % 2 == 0 or n >= EARLY:
            to, of = after(rank, n, turns), after(rank, n, turns, -1)
            events += batch(at, n + 1, to, of, desc)[:3]
        events.append(kernel(SEND_RECV, start, 70 + at - start, n + 1))
    return events


def after(rank: int, n: int, turns: bool, step: int = 1) -> int:
    return (rank + (-step if turns and n % 2 else step)) % RANKS


def ingest_ring(
    folder: Path, turns: bool, desc: str = "mesh_pp", ranks: range = range(RANKS)
) -> traceweave.Run[Any]:
    for rank in ranks:
        top = {
            "distributedInfo": {"rank": rank, "world_size": 2 * RANKS},
            "baseTimeNanoseconds": 1_759_300_074_000_000_000,
            "traceEvents": ring(rank, turns, desc),
        }
        (folder / f"rank{rank}.json").write_text(json.dumps(top), encoding="utf-8")
    traceweave.ingest(folder, folder / "run.duckdb")
    return traceweave.open(folder / "run.duckdb")


@nightly
@pytest.mark.parametrize("turns", [True, False])
def test_every_send_meets_the_receive_of_its_round(tmp_path: Path, turns: bool) -> None:
    """Kernels from before the window as well, where all others of the stream do the same."""
    with ingest_ring(tmp_path, turns) as run:
        pairs = run.sql(
            "SELECT list(rank ORDER BY op DESC) AS ranks, list(op ORDER BY op DESC) AS ops,"
            " list(DISTINCT (start_local_ns + duration_ns - 1759300074000000000) // 1000 - 70)"
            " AS begins FROM collectives WHERE peer IS NOT NULL AND collective_id IS NOT NULL"
            " GROUP BY collective_id"
        )
    assert {len(begins) for begins in pairs.begins} == {1}
    assert {tuple(ops) for ops in pairs.ops} == {("send", "recv")}
    found = {
        (int(ranks[0]), int(ranks[1]), BEGINS.index(int(begins[0])))
        for ranks, begins in zip(pairs.ranks, pairs.begins, strict=True)
    }
    first = EARLY if turns else 0
    assert found == {(r, after(r, n, turns), n) for r in range(RANKS) for n in range(first, ROUNDS)}


@nightly
def test_messages_that_do_not_say_to_whom_are_no_collective(tmp_path: Path) -> None:
    """What was wrong: ranks 1 and 3, whose first kernels say nothing, were joined in them."""
    with ingest_ring(tmp_path, turns=True) as run:
        unknown = run.sql(
            "SELECT rank, collective_id FROM collectives WHERE op = 'unknown' ORDER BY rank"
        )
    assert unknown["rank"].tolist() == [1] * EARLY + [3] * EARLY
    assert unknown["collective_id"].isna().all()
