"""The kernel of a group call (`batch_isend_irecv`) does what the sends and receives before its
launch say: they end before the group does, and the kernel itself says nothing (pytorch 194693).

Files of a ring are made by hand in that layout; what single kernels do is in kineto_rows.cases."""

import json
from pathlib import Path
from typing import Any

import pytest

import traceweave
from tests.marks import nightly
from tests.sources.kineto_events import Event, kernel
from tests.sources.test_kineto_rows import SEND_RECV, batch

pytestmark = nightly

RANKS = 4
ROUNDS = 24
EARLY = 2
BEGINS = [100 * n + 11 * n * n for n in range(ROUNDS)]
"""When rounds begin, us; no two follow each other alike."""


def ring(rank: int, turns: bool, desc: str = "mesh_pp") -> list[Event]:
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


def test_messages_that_do_not_say_to_whom_are_no_collective(tmp_path: Path) -> None:
    """What was wrong: ranks 1 and 3, whose first kernels say nothing, were joined in them."""
    with ingest_ring(tmp_path, turns=True) as run:
        unknown = run.sql(
            "SELECT rank, collective_id FROM collectives WHERE op = 'unknown' ORDER BY rank"
        )
    assert unknown["rank"].tolist() == [1] * EARLY + [3] * EARLY
    assert unknown["collective_id"].isna().all()
