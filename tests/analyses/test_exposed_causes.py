"""exposed_causes: why no compute hides what is exposed, by hand and on real runs."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import traceweave
from tests.analyses.builders import Builder, rows
from tests.conftest import DatabaseOf
from tests.marks import first_at_once, nightly
from traceweave.analyses.runner import provide
from traceweave.replay.streams import PROMPT_NS

US = 1000
MAIN, SIDE = 7, 20


class Op(NamedTuple):
    """A GPU op; times in us. Its call takes 2; with a wait for an event right before it."""

    name: str
    start: int
    end: int
    launched: int | None
    stream: int = MAIN
    waits: bool = False


def _put(build: Builder, rank: int, ops: Sequence[Op]) -> dict[str, int]:
    """Write ops; those whose names begin with C are all-reduces, with M copies. Return op_ids."""
    build.rank(rank)
    found = {}
    for number, op in enumerate(ops):
        at = (op.start * US, op.end * US)
        kind = {"C": "communication", "M": "memory"}.get(op.name[0], "compute")
        call = None
        if op.launched is not None:
            since = op.launched * US
            if op.waits:
                build.launch(rank, (since - 2 * US, since - US), correlation=None)
                wait = (since - US, since - US // 2)
                build.host(rank, wait, "cudaStreamWaitEvent", "runtime", 9)
            call = build.launch(rank, (since, since + 2 * US), correlation=100 + number)
        found[op.name] = build.gpu(rank, at, kind, op.name, op.stream, launch=call)
    return found


def _told(build: Builder, *ops: Op) -> Counter[tuple[str, str | None]]:
    """Return the us that each cause and detail has."""
    build.group(0, [0])
    for name, op_id in _put(build, 0, ops).items():
        if name.startswith("C"):
            (op,) = [op for op in ops if op.name == name]
            each = {0: {"gpu_op_id": op_id, "stream": op.stream}}
            build.collective({0: (op.start * US, op.end * US)}, each=each)
    return _causes(rows(build.con, "exposed_causes"))


def _causes(found: list[dict[str, Any]]) -> Counter[tuple[str, str | None]]:
    told: Counter[tuple[str, str | None]] = Counter()
    for row in found:
        told[row["cause"], row["cause_detail"]] += row["time_ns"] / US
    return told


K1, K0 = Op("K1", 0, 100, 0), Op("K1", 0, 40, 0)
ON_STREAM, NEXT = ("same_stream", "stream 7"), ("launched_late", "the compute that follows")
OWN, QUEUED = ("launched_late", "its own launch"), ("launched_late", "queued behind all_reduce")
DELAY, COPIES = ("kernel_delay", None), ("copies", None)


@first_at_once(7)
@pytest.mark.parametrize(
    ("ops", "want"),
    [
        # compute is behind it on one stream
        ((K1, Op("C", 100, 150, 10), Op("K2", 150, 200, 20)), {ON_STREAM: 50}),
        # K2 is launched later, but C lay behind K1 from 12 on
        ((K1, Op("C", 100, 150, 10), Op("K2", 190, 200, 180)), {ON_STREAM: 50}),
        # compute is launched after it
        ((K1, Op("C", 100, 150, 10, SIDE), Op("K2", 170, 200, 160)), {NEXT: 50}),
        # 30 us earlier it could have begun; the other 50 compute waits for it all the same
        ((K0, Op("C", 70, 150, 66, SIDE, waits=True), Op("K2", 151, 200, 80, waits=True)),
         {OWN: 30, ("nothing_left", "K2"): 50}),
        # it was queued behind another
        ((K0, Op("C1", 42, 100, 10, SIDE, waits=True), Op("C2", 100, 150, 20, SIDE, waits=True),
          Op("K2", 151, 200, 30, waits=True)), {("input_ready_late", "K1"): 58, QUEUED: 50}),
        # as DDP copies sums out of its buckets: K2 is behind M1, which waits for C1, and M2
        ((K0, Op("C1", 42, 100, 10, SIDE), Op("C2", 101, 200, 12, SIDE), Op("M1", 102, 106, 20),
          Op("M2", 202, 206, 22), Op("K2", 208, 250, 24)), {("nothing_left", "K2"): 58 + 99}),
        # without launches nothing is known
        ((Op("K1", 0, 100, None), Op("C", 100, 150, None), Op("K2", 150, 200, None)),
         {("unknown", "no launch of the compute that follows"): 50}),
        # launched at 70, 30 us before it began: no more is due to the stream than it waited there
        ((K1, Op("C", 100, 150, 68), Op("K2", 190, 200, 180)), {ON_STREAM: 30, NEXT: 20}),
        # its input came just before and its result is needed at once
        ((K1, Op("C", 101, 150, 10, SIDE, waits=True), Op("K2", 151, 200, 20, waits=True)),
         {("input_ready_late", "K1"): 49}),
        # needed at once, and its input is not known
        ((K1, Op("C", 140, 190, 10, SIDE), Op("K2", 191, 200, 20)), {("nothing_left", "K2"): 50}),
        # K2 waits for it since 20; that S on another stream is launched late hides no more of it
        ((K1, Op("C", 101, 200, 10, SIDE, waits=True), Op("K2", 201, 250, 20, waits=True),
          Op("S", 160, 165, 155, 30)), {("input_ready_late", "K1"): 91, DELAY: 3}),
        # M1 with its start, and M2, that waited for 62 us, nobody knows for what
        ((K0, Op("C", 0, 200, 1, SIDE), Op("M1", 42, 58, 3), Op("M2", 120, 130, 4),
          Op("K2", 132, 210, 5)),
         {COPIES: 18 + 10, ("unknown", "what the compute that follows waits for"): 62, DELAY: 2}),
    ],
)  # fmt: skip
def test_each_cause_by_hand(
    build: Builder, ops: tuple[Op, ...], want: dict[tuple[str, str | None], float]
) -> None:
    assert _told(build, *ops) == want


@nightly
def test_a_host_that_waits_launches_nothing(build: Builder) -> None:
    build.host(0, (95 * US, 130 * US), "cudaStreamSynchronize", "runtime", 9)
    told = _told(build, K1, Op("C", 100, 150, 10, SIDE), Op("K2", 170, 200, 160))
    assert told == {("blocked", None): 30, NEXT: 20}


def test_waiting_for_other_ranks_comes_first(build: Builder) -> None:
    build.group(0, [0, 1])
    ops = {}
    for rank, start in ((0, 100), (1, 130)):
        ops[rank] = _put(
            build, rank, (Op("K1", 0, start, 0), Op("C", start, 150, 10), Op("K2", 150, 200, 20))
        )["C"]
    each = {rank: {"gpu_op_id": op_id, "stream": MAIN} for rank, op_id in ops.items()}
    build.collective({0: (100 * US, 150 * US), 1: (130 * US, 150 * US)}, each=each)
    found = rows(build.con, "exposed_causes")
    assert _causes([row for row in found if row["rank"] == 0]) == {
        ("other_ranks", None): 30,
        ("same_stream", "stream 7"): 20,
    }
    assert _causes([row for row in found if row["rank"] == 1]) == {("same_stream", "stream 7"): 20}


@nightly
def test_steps_divide_what_runs_on_into_the_next(build: Builder) -> None:
    build.step(0, 1, (0, 120 * US), (0, 120 * US))
    build.step(0, 2, (120 * US, 240 * US), (120 * US, 240 * US))
    _told(build, K1, Op("C", 100, 150, 10), Op("K2", 150, 200, 20))
    found = rows(build.con, "exposed_causes")
    assert {row["step"]: row["time_ns"] for row in found} == {1: 20 * US, 2: 30 * US}


def test_copies_out_of_buckets_on_a_real_gpu(fixtures: Path, database_of: DatabaseOf) -> None:
    """Rank 2 of slow_rank_nccl comes last. In step 4 four sums run in a row, 20.1 ms; copies behind
    each are launched 3 ms after the first began, and start 2 to 6 us after their sum ends."""
    with traceweave.open(database_of(fixtures / "slow_rank_nccl")) as run:
        found, delays = run.exposed_causes(), "FROM tw_exposed_pieces WHERE reason = 'kernel_delay'"
        provide(run.con, delays)
        [(longest,)] = run.con.sql(f"SELECT max(end_ns - start_ns) {delays}").fetchall()
    mine = found[(found["rank"] == 2) & (found["step"] == 4)]
    ms = (mine.groupby("cause")["time_ns"].sum() / 1e6).round(2)
    assert ms.to_dict() == {
        "nothing_left": 14.79,
        "launched_late": 4.84,  # the third, whose input was there, behind the second
        "other_ranks": 0.14,
        "kernel_delay": 0.12,
    }
    assert 0 < longest <= PROMPT_NS
