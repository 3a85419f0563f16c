"""Collective calls written by hand, times in microseconds after a common base."""

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pytest

from tests.told import Case
from traceweave.weave import weave

BASE = 1_760_000_000_000_000_000


def add_rank(
    con: duckdb.DuckDBPyConnection,
    rank: int,
    *,
    host: str | None = None,
    world_size: int | None = None,
    source: int | None = None,
    base: int = BASE,
    first_us: int = 0,
    last_us: int = 10_000,
) -> None:
    """Add a row of base.rank_sources."""
    con.execute(
        "INSERT INTO base.rank_sources BY NAME SELECT $rank AS rank, $source AS source_id,"
        " 'test' AS rank_source, $host AS host, $world AS world_size, 'kineto' AS format,"
        " $first AS first_local_ns, $last AS last_local_ns",
        {
            "rank": rank, "source": rank if source is None else source, "host": host,
            "world": world_size, "first": base + first_us * 1000, "last": base + last_us * 1000,
        },
    )  # fmt: skip


def add_call(
    con: duckdb.DuckDBPyConnection,
    rank: int,
    start_us: float,
    end_us: float,
    *,
    op: str = "all_reduce",
    group: str | None = "0",
    ranks: list[int] | None = None,
    size: int | None = None,
    bytes: int | None = 1024,
    base: int = BASE,
    **columns: Any,
) -> int:
    """Add a row of base.collective_calls and return its call_id."""
    found = con.execute("SELECT count(*) FROM base.collective_calls").fetchall()
    call_id = int(found[0][0])
    row = {
        "call_id": call_id, "rank": rank, "source_id": rank, "op": op, "group_name": group,
        "group_ranks": ranks, "group_size": size if ranks is None else len(ranks), "bytes": bytes,
        "dtype": "Float", "stream": 20, "start_local_ns": base + round(start_us * 1000),
        "duration_ns": round(end_us * 1000) - round(start_us * 1000),
        "evidence": "metadata" if group is not None else "name",
    } | columns  # fmt: skip
    names = ", ".join(row)
    marks = ", ".join(f"${name}" for name in row)
    con.execute(f"INSERT INTO base.collective_calls ({names}) VALUES ({marks})", row)
    return call_id


def together(
    con: duckdb.DuckDBPyConnection, ranks: list[int], offset_us: dict[int, int], count: int = 5
) -> None:
    """`count` collectives with one common end, on clocks that are behind by an offset."""
    for k in range(count):
        for rank in ranks:
            behind = offset_us.get(rank, 0)
            start = 1000 * k + 37 * k * k + 20 * rank
            end = 1000 * k + 37 * k * k + 400
            add_call(con, rank, start - behind, end - behind, group=str(ranks), ranks=ranks, seq=k)


@dataclass
class Calls:
    """What cases write in a run."""

    con: duckdb.DuckDBPyConnection

    def rank(self, rank: int, **more: Any) -> None:
        add_rank(self.con, rank, **more)

    def ranks(self, count: int) -> None:
        for rank in range(count):
            add_rank(self.con, rank)

    def call(self, rank: int, start_us: float, end_us: float, **more: Any) -> int:
        return add_call(self.con, rank, start_us, end_us, **more)

    def together(self, ranks: list[int], offset_us: dict[int, int]) -> None:
        together(self.con, ranks, offset_us)

    def sql(self, statement: str) -> None:
        self.con.execute(statement)


def check_woven(calls: Calls, case: Case, **names: Any) -> None:
    """Write the calls of a case, weave them, and compare what is asked of that.

    `? matched`, `? unmatched` and `? violations` ask for that of the summary, `? instances` for the
    instance of each call, `? clocks` for the main columns of those, `? threads` for thread, group,
    its ranks and calls of what worker threads did on all ranks; all else is SQL."""
    public = {name: getattr(calls, name) for name in dir(calls) if not name.startswith("_")}
    case.given(names | public)
    summary = weave(calls.con)

    def answer(query: str) -> list[tuple[Any, ...]]:
        if query in ("matched", "unmatched", "violations"):
            return [(getattr(summary, query),)]
        if query == "instances":
            return [tuple(one for _, one, _ in matched(calls.con))]
        if query == "threads":
            query = (
                "SELECT stream % 100, group_name, list(DISTINCT group_ranks ORDER BY group_ranks)"
                " FILTER (group_ranks IS NOT NULL), count(*)"
                " FROM base.known_calls GROUP BY ALL ORDER BY ALL"
            )
        if query == "clocks":
            query = (
                "SELECT rank, reference_rank, offset_ns, drift_ppm, anchors, status FROM clocks"
                " ORDER BY rank, from_local_ns NULLS FIRST"
            )
        return calls.con.execute(query).fetchall()

    case.holds(answer, names | {"approx": pytest.approx})


def matched(con: duckdb.DuckDBPyConnection) -> list[tuple[int, int | None, str]]:
    """(call_id, collective_id, match) of every call."""
    return con.execute(
        "SELECT call_id, collective_id, match FROM base.matches ORDER BY call_id"
    ).fetchall()


def with_a_buffered_message(source: Path, target: Path) -> tuple[int, int]:
    """Copy a database of messages and let one receive begin 1 ms after its send was over; return
    the rank of that send and the operation that issued it."""
    shutil.copy(source, target)
    with duckdb.connect(str(target)) as con:
        found = con.execute(
            "SELECT r.call_id, s.end_ns - r.start_ns + 1_000_000, s.rank, s.host_op_id"
            " FROM collectives AS s JOIN collectives AS r USING (collective_id)"
            " WHERE s.op = 'send' AND r.op = 'recv' ORDER BY s.call_id LIMIT 1"
        ).fetchall()
        [(receive, later, rank, op_id)] = found
        con.execute("DELETE FROM base.inferences WHERE call_id = ? AND op IS NULL", [receive])
        con.execute(
            "UPDATE base.collective_calls SET start_local_ns = start_local_ns + ?,"
            " duration_ns = 10_000 WHERE call_id = ?",
            [later, receive],
        )
    return rank, op_id
