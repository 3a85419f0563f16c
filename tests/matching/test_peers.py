"""Who the other side of a message is, where its own trace knows only a number."""

import pytest
from duckdb import DuckDBPyConnection as Connection

from tests.cases import cases
from tests.collective_calls import add_call, add_rank
from traceweave.matching.peers import ENOUGH, resolve_messages, resolve_peers
from traceweave.weave import weave


def peers(con: Connection) -> list[int | None]:
    rows = con.execute("SELECT peer FROM base.known_calls ORDER BY call_id").fetchall()
    return [row[0] for row in rows]


def test_members_of_a_communicator_number_each_other(empty_run: Connection) -> None:
    """Communicator a: ranks 4 and 6 are its members 0 and 1, member 2 has recorded nothing.
    In communicator b two ranks claim number 0; what is known already stays."""
    for rank, comm, mine, other, known in (
        (4, "a", 0, 1, None),
        (6, "a", 1, 0, None),
        (6, "a", 1, 2, None),
        (4, "b", 0, 1, None),
        (6, "b", 0, 0, None),
        (4, "a", 0, 1, 9),
    ):
        add_call(
            empty_run, rank, 0, 1, op="send", group=None, comm_id=comm, comm_rank=mine,
            comm_peer=other, peer=known,
        )  # fmt: skip
    resolve_peers(empty_run)
    assert peers(empty_run) == [6, 4, None, None, None, 9]


def test_a_communicator_of_all_ranks_needs_no_members(empty_run: Connection) -> None:
    """Its creation was not recorded, but every rank of the world sends in it."""
    for rank in range(2):
        add_rank(empty_run, rank, world_size=2)
        add_call(empty_run, rank, 0, 1, op="send", group=None, comm_id="w", comm_peer=1 - rank)
    add_call(empty_run, 0, 2, 3, op="send", group=None, comm_id="part", comm_peer=1)
    resolve_peers(empty_run)
    assert peers(empty_run) == [1, 0, None]


def numbered(con: Connection, world_size: int) -> list[int]:
    """How many messages between ranks 1, 2 and 3 of one communicator, who know each other by
    number, are matched, per rank; beside them rank 0 was recorded, which did something else."""
    ranks = (1, 2, 3)
    for rank in range(4):
        add_rank(con, rank, world_size=world_size, last_us=20_000)
    add_call(con, 0, 0, 1, group=None, comm_id="other")
    for k in range(20):
        for mine, rank in enumerate(ranks):
            for other in range(3):
                at = 900 * k + 300 * ((mine + other) % 3) + k**3 % 97
                if other != mine:
                    op = "send" if mine < other else "recv"
                    start = at - 20 - 3 * mine
                    add_call(con, rank, start, at, op=op, group=None, comm_id="c", comm_peer=other)
    weave(con)
    rows = con.execute(
        "SELECT count(*) FILTER (m.collective_id IS NOT NULL) FROM base.matches AS m JOIN"
        " base.collective_calls AS c USING (call_id) WHERE c.rank > 0 GROUP BY c.rank"
        " ORDER BY c.rank"
    ).fetchall()
    return [count for (count,) in rows]


def test_members_are_numbered_by_rank_where_all_were_recorded(empty_run: Connection) -> None:
    assert numbered(empty_run, world_size=4) == [40, 40, 40]


def test_members_that_may_be_missing_leave_numbers_open(empty_run: Connection) -> None:
    assert numbered(empty_run, world_size=8) == [0, 0, 0]


Said = list[tuple[str, int | None]]


def filled(con: Connection, said: Said) -> Said:
    """What two calls that say nothing are, before and after others of their stream that say this;
    another stream of theirs and another rank send to 5."""
    silent = ("unknown", None)
    for rank, stream, calls in (
        (0, 7, [silent, *said, silent]),
        (0, 8, [("send", 5)] * ENOUGH),
        (1, 7, [("send", 5)] * ENOUGH),
    ):
        for n, (op, peer) in enumerate(calls):
            add_call(
                con, rank, 10 * n, 10 * n + 5, op=op, peer=peer, stream=stream, group=None,
                gpu_op_id=10_000 * rank + 1_000 * stream + n,
            )  # fmt: skip
    resolve_messages(con)
    rows = con.execute(
        "SELECT op, peer FROM base.known_calls WHERE rank = 0 AND stream = 7 ORDER BY call_id"
    ).fetchall()
    assert rows[1:-1] == said
    return [rows[0], rows[-1]]


@pytest.mark.parametrize("message", [("send", 4), ("recv", 3), ("send", None), ("recv", None)])
def test_what_says_nothing_is_as_all_others_of_its_stream(
    empty_run: Connection, message: tuple[str, int | None]
) -> None:
    assert filled(empty_run, [message] * ENOUGH) == [message] * 2


MANY: Said = [("send", 4)] * 50


@pytest.mark.parametrize(
    "said",
    [
        MANY[: ENOUGH - 1], [*MANY, ("recv", 4)], [*MANY, ("send", 5)], [*MANY, ("send", None)],
        [*MANY, ("all_reduce", None)], [("all_reduce", None)] * 50, [],
    ],
)  # fmt: skip
def test_where_others_of_the_stream_differ_or_are_few_nothing_is_told(
    empty_run: Connection, said: Said
) -> None:
    assert filled(empty_run, said) == [("unknown", None)] * 2


@cases
def test_what_a_stream_says_holds_for_what_says_nothing_on_it(
    empty_run: Connection, silent: dict[str, int | str | None]
) -> None:
    for n in range(ENOUGH):
        add_call(
            empty_run, 0, 10 * n, 10 * n + 5, op="send", peer=4, stream=7, gpu_op_id=n, group=None
        )
    told = {"rank": 0, "op": "unknown", "stream": 7, "gpu_op_id": 99, "group": None}
    others = {"source_id": silent.get("source_id", silent.get("rank", 0))}
    add_call(empty_run, start_us=900, end_us=905, **told | others | silent)  # type: ignore[arg-type]
    resolve_messages(empty_run)
    rows = empty_run.execute("SELECT op, peer FROM base.known_calls ORDER BY call_id")
    assert rows.fetchall()[-1] == ("unknown", None)


def test_a_thread_of_a_streams_number_says_nothing_of_it(empty_run: Connection) -> None:
    for n in range(ENOUGH):
        add_call(empty_run, 0, 10 * n, 10 * n + 5, op="send", peer=4, stream=7, gpu_op_id=None)
    add_call(empty_run, 0, 900, 905, op="unknown", stream=7, gpu_op_id=99, group=None)
    resolve_messages(empty_run)
    rows = empty_run.execute("SELECT op FROM base.known_calls ORDER BY call_id").fetchall()
    assert rows[-1] == ("unknown",)


def test_to_resolve_messages_again_changes_nothing(empty_run: Connection) -> None:
    """As `ingest --add` does, here with a later recording in which the stream hears from 3."""
    first = filled(empty_run, [("send", 4)] * ENOUGH)
    for n in range(ENOUGH):
        add_call(
            empty_run, 0, 900 + 10 * n, 905 + 10 * n, op="recv", peer=3, stream=7, source_id=9,
            gpu_op_id=90_000 + n, group=None,
        )  # fmt: skip
    resolve_messages(empty_run)
    rows = empty_run.execute(
        "SELECT op, peer FROM base.known_calls"
        " WHERE rank = 0 AND stream = 7 AND source_id = 0 ORDER BY call_id"
    ).fetchall()
    assert [rows[0], rows[-1]] == first == [("send", 4)] * 2
