"""Messages whose send is over before its receive begins: nobody waited, and no link is measured."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import traceweave
from tests.analyses.builders import Builder, found_by, rows, told, unchanging
from tests.collective_calls import with_a_buffered_message
from traceweave.explorer.explorer import explore
from traceweave.report.sections.collectives import collectives_section, load_collectives

US = 1_000
BYTES = 3_000_000


@pytest.fixture
def messages(build: Builder) -> Iterator[Builder]:
    """Rank 0 sends three times to rank 1, in us.

    The first send is over 270 us before its receive begins, which takes 6 us from a buffer. The
    second receive waits 100 us for its send. The third send has no room and waits 50 us. The
    transfers of the last two take 30 us: 100 GB/s."""
    build.world(2, residual_ns=1 * US)
    send(build, (0, 30), (300, 306))
    send(build, (600, 630), (500, 630))
    send(build, (900, 980), (950, 980))
    with unchanging(build.con):
        yield build


def send(
    build: Builder, sent: tuple[int, int], received: tuple[int, int], step: int | None = None
) -> None:
    """Add a message from rank 0 to rank 1, in us."""
    met(build, "send", {0: sent, 1: received}, 0, step)


def met(
    build: Builder, op: str, at: dict[int, tuple[int, int]], group: int, step: int | None
) -> None:
    """Add a collective with its kernels, in us."""
    of = {rank: (start * US, end * US) for rank, (start, end) in at.items()}
    ops = {
        rank: build.gpu(rank, times, category="communication", stream=20, step=step)
        for rank, times in of.items()
    }
    sides = {rank: "recv" if op == "send" and rank == 1 else op for rank in ops}
    each = {rank: {"gpu_op_id": ops[rank], "op": sides[rank]} for rank in ops}
    build.collective(of, bytes_=BYTES, group_id=group, step=step, each=each)


def test_nobody_is_known_to_come_last_in_a_buffered_message(messages: Builder) -> None:
    got = messages.con.execute(
        "SELECT is_buffered, last_is_known, wait_total_ns, round(algbw_gbps), round(busbw_gbps)"
        " FROM collective_instances ORDER BY first_start_ns"
    ).fetchall()
    assert got == [
        (True, False, 0, None, None),
        (False, True, 100 * US, 100, 100),
        (False, True, 50 * US, 100, 100),
    ]


@pytest.mark.parametrize(
    ("sent", "residual_ns", "is_buffered"),
    [
        # over 270 us before the receive begins
        ((0, 30), 269 * US, True),
        ((0, 30), 270 * US, False),
        # where nothing is known of the clocks, any distance counts
        ((0, 30), None, True),
        ((0, 300), None, False),
        # a receive that is over before its send began is a fault of the clocks
        ((400, 430), 1 * US, False),
    ],
)
def test_a_message_is_buffered_as_far_as_the_clocks_can_tell(
    build: Builder, sent: tuple[int, int], residual_ns: int | None, is_buffered: bool
) -> None:
    build.ranks(2, residual_ns=residual_ns)
    send(build, sent, (300, 306))
    found = build.con.execute("SELECT is_buffered FROM collective_instances").fetchall()
    assert found == [(is_buffered,)]


# what was wrong: rank 1 was said to be 300 us late for a send that took 30 us
def test_the_receiver_of_a_buffered_message_is_not_late(messages: Builder) -> None:
    got = sorted(rows(messages.con, "exposed_comm"), key=lambda row: (row["start_ns"], row["rank"]))
    keys = ("rank", "wait_ns", "late_rank", "late_ns")
    assert [tuple(row[key] for key in keys) for row in got] == [
        (0, 0, None, None),
        # 6 us is less than 30 us: not even the send waited
        (1, 0, None, None),
        (1, 100 * US, 0, 100 * US),
        (0, 0, None, None),
        (0, 50 * US, 1, 50 * US),
        (1, 0, None, None),
    ]
    waits = messages.con.execute("SELECT wait_ns FROM collective_waits ORDER BY start_ns, rank")
    assert [wait for (wait,) in waits.fetchall()] == [0, 0, 100 * US, 0, 50 * US, 0]
    columns = "rank caused_wait_ns waited_ns waited_free_ns instances"
    assert sorted(told(messages.con, "stragglers", columns, queued_ns=0)) == [
        (0, 100 * US, 50 * US, 50 * US, 2),
        (1, 50 * US, 100 * US, 100 * US, 2),
    ]


def test_findings_name_no_straggler_for_buffered_messages(build: Builder) -> None:
    """Rank 0 computes for 2 of each 10 ms and sends; rank 1 receives after 6 ms. Both meet at the
    end in a sum for which rank 1 comes 20 us late."""
    build.ranks(2, residual_ns=1 * US)
    build.group(0, [0, 1], role="cp")
    build.group(1, [0, 1], role="world")
    for step in range(12):
        at = 10_000 * step
        for rank, ready in ((0, at + 2_000), (1, at + 6_000)):
            build.step(rank, step, (at * US, (at + 10_000) * US), (at * US, (at + 10_000) * US))
            build.gpu(rank, (at * US, ready * US), step=step)
            build.gpu(rank, ((at + 6_030) * US, (at + 9_800 + 20 * rank) * US), step=step)
        send(build, (at + 2_000, at + 2_030), (at + 6_000, at + 6_030), step)
        end = at + 9_900
        met(build, "all_reduce", {0: (at + 9_800, end), 1: (at + 9_820, end)}, 1, step)
    late = [row for row in rows(build.con, "exposed_comm") if row["late_ns"]]
    assert {(row["op"], row["late_rank"], row["late_ns"]) for row in late} == {
        ("all_reduce", 1, 20 * US)
    }
    assert found_by(build.con, "straggler") == {}


def test_buffered_messages_have_no_rate(messages: Builder) -> None:
    note = (
        "1 of 3 were buffered, their sends over before their receives began: left out of transfer"
        " times"
    )
    (rate,) = rows(messages.con, "bandwidth")
    keys = ("instances", "measured", "buffered", "transfer_p50_ns", "transfer_min_p50_ns", "note")
    assert [rate[key] for key in keys] == [3, 2, 1, 30 * US, 30 * US, note]
    assert rate["busbw_best_gbps"] == pytest.approx(100)
    columns = "messages bytes transfer_ns bandwidth_gbps note"
    assert told(messages.con, "comm_matrix", columns) == [(3, 3 * BYTES, 60 * US, 100, note)]
    # of the two that somebody waited in each rank was last once
    columns = "instances transfer_max_ns wait_max_ns note last_rank last_rank_share"
    few = f"fewer than 5 operations: no tail is told; {note}"
    assert told(messages.con, "tails", columns) == [(3, 30 * US, 100 * US, few, 0, 0.5)]
    (line,) = rows(messages.con, "alpha_beta")
    assert line["note"] == f"not computable: there is one size only; {note}"


def test_where_all_messages_are_buffered_that_is_the_reason(build: Builder) -> None:
    build.world(2, residual_ns=1 * US)
    send(build, (0, 30), (300, 306))
    send(build, (600, 630), (900, 906))
    note = "every send was over before its receive began: buffered messages show no transfer"
    names = ("bandwidth", "comm_matrix", "alpha_beta", "matching")
    with unchanging(build.con):
        ((rate,), (pair,), (line,), (found,)) = (rows(build.con, name) for name in names)
        section = collectives_section(load_collectives(build.con), 2)
    assert (rate["measured"], rate["busbw_free_p50_gbps"], rate["note"]) == (0, None, note)
    assert (pair["transfer_ns"], pair["bandwidth_gbps"], pair["note"]) == (None, None, note)
    assert line["note"] == f"not computable: {note}"
    assert [found[key] for key in ("shared", "known_instances", "buffered")] == [2, 0, 2]
    assert section.notes[:2] == (
        "Every send was over before its receive began: messages were buffered, no rank waited.",
        "4 calls on all ranks make up 2 collectives, all complete.",
    )


@pytest.mark.parametrize("name", ["messages_mesh_gloo", "messages_tags_gloo"])
def test_no_message_of_gloo_is_buffered(
    fixtures: Path, database_of: Callable[..., Path], name: str
) -> None:
    """A send is over once its receive was called, on the one clock of these ranks, though what the
    call does may be recorded to begin milliseconds later."""
    with traceweave.open(database_of(fixtures / name)) as run:
        found = run.sql(
            "SELECT count(*) AS messages, count(*) FILTER (is_buffered) AS buffered,"
            " count(*) FILTER (first_end_ns < last_start_ns) AS apart"
            " FROM collective_instances WHERE op = 'send_recv'"
        )
        longer = run.sql("FROM collective_waits WHERE wait_ns > duration_ns")
    assert found.to_dict("records") == [{"messages": 48, "buffered": 0, "apart": 0}]
    assert longer.empty


def test_the_explorer_draws_no_waiting_in_a_buffered_message(
    fixtures: Path, database_of: Callable[..., Path], tmp_path: Path
) -> None:
    mesh = tmp_path / "run.duckdb"
    rank, op_id = with_a_buffered_message(database_of(fixtures / "messages_mesh_gloo"), mesh)
    with explore(mesh) as explorer, explorer.run.asking() as asking:
        (told,) = explorer.op(asking, "host", rank, op_id)["collectives"]
        assert told["instance"]["is_buffered"]
        assert [one["wait_ns"] for one in told["members"]] == [0, 0]
