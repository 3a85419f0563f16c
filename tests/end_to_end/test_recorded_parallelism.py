"""The recorded pipelines of 4 stages: what the analyses say against the events themselves."""

import gzip
import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from pathlib import Path

import duckdb
import pytest

import traceweave
from tests.conftest import DatabaseOf
from tests.marks import first_at_once, nightly

FIXTURES = Path(__file__).parents[1] / "fixtures"
RANKS, STEPS, MICROBATCHES = range(4), (3, 4, 5), 6
IN_FLIGHT = {"gpipe": MICROBATCHES, "1f1b": len(RANKS)}
CALLS = {"c10d::send": "send", "c10d::recv_": "recv"}

Interval = tuple[int, int]


@dataclass(frozen=True)
class Message:
    """One side of a message; times in ns."""

    op: str
    peer: int
    asked_ns: int
    end_ns: int


@dataclass(frozen=True)
class Recorded:
    """What one rank's file says, read without any code of the project."""

    steps: dict[int, Interval]
    compute: list[Interval]
    optimizers: list[int]
    messages: list[Message]


@cache
def recorded(schedule: str, rank: int) -> Recorded:
    path = FIXTURES / f"pipeline_{schedule}" / f"rank{rank}.json.gz"
    trace = json.loads(gzip.decompress(path.read_bytes()), parse_float=Decimal)
    events = [
        (event["name"], event["cat"], start, start + int(event["dur"] * 1000), event["args"])
        for event in trace["traceEvents"]
        if event["ph"] == "X" and event["cat"] in ("cpu_op", "user_annotation")
        for start in [trace["baseTimeNanoseconds"] + int(event["ts"] * 1000)]
    ]
    events.sort(key=lambda event: event[2])
    messages = []
    for call, op in CALLS.items():
        asked = [event for event in events if event[0] == call]
        done = [event for event in events if event[0] == f"gloo:{op}"]
        for (_, _, asked_ns, _, args), (_, _, _, end, _) in zip(asked, done, strict=True):
            messages.append(Message(op, int(args["Concrete Inputs"][2]), asked_ns, end))
    return Recorded(
        {int(e[0].partition("#")[2]): e[2:4] for e in events if e[0].startswith("ProfilerStep#")},
        [e[2:4] for e in events if e[1] == "cpu_op" and e[0] not in CALLS],
        [e[2] for e in events if e[0].startswith("Optimizer.step#")],
        messages,
    )


def within(times: Interval, at: int) -> bool:
    return times[0] <= at < times[1]


def covered_ns(intervals: list[Interval], window: Interval) -> int:
    """Length of the union of intervals inside the window; they are in the order of their starts."""
    total, until = 0, window[0]
    for start, end in intervals:
        start, end = max(start, until), min(end, window[1])
        total += max(0, end - start)
        until = max(until, end)
    return total


def last_of_pass(rank: Recorded, step: Interval) -> int:
    """End of the rank's last compute before the optimizer, or start of its last message."""
    optimizer = next(at for at in rank.optimizers if within(step, at))
    return max(
        *(end for start, end in rank.compute if step[0] <= start < optimizer),
        *(message.asked_ns for message in rank.messages if within(step, message.asked_ns)),
    )


def by_hand(schedule: str) -> Iterator[dict[str, object]]:
    ranks = [recorded(schedule, rank) for rank in RANKS]
    for step in STEPS:
        start = min(at for at, _ in ranks[0].compute if within(ranks[0].steps[step], at))
        ends = [last_of_pass(rank, rank.steps[step]) for rank in ranks]
        full = min(
            message.end_ns
            for message in ranks[-1].messages
            if message.op == "recv" and within(ranks[-1].steps[step], message.asked_ns)
        )
        for number, rank in enumerate(ranks):
            window = (start, max(ends))
            busy = covered_ns(rank.compute, window)
            inner = 0 < number < len(RANKS) - 1
            yield {
                "rank": number,
                "step": step,
                "first_rank": 0,
                "stage": number,
                "stages": len(RANKS),
                "microbatches": MICROBATCHES,
                "schedule": schedule,
                "in_flight": IN_FLIGHT[schedule],
                "window_start_ns": start,
                "window_ns": window[1] - start,
                "busy_ns": busy,
                "bubble_ns": window[1] - start - busy,
                "ideal_share": 3 / 9,
                # the other three stages' share of six micro-batches, a half rounded up
                "excess_ns": (2 * (window[1] - start - busy) - busy + 1) // 2,
                "warmup_ns": full - start,
                "drain_ns": max(ends) - ends[-1],
                "warmup_bubble_ns": full - start - covered_ns(rank.compute, (start, full)),
                "sends": 2 * MICROBATCHES if inner else MICROBATCHES,
                "receives": 2 * MICROBATCHES if inner else MICROBATCHES,
            }


def blocked_ns(rank: Recorded, step: int, release_ns: int) -> int:
    """Last stretch of each receive without compute, if compute went on soon after it."""
    total = 0
    for message in rank.messages:
        if message.op == "recv" and within(rank.steps[step], message.asked_ns):
            before = max(end for start, end in rank.compute if start < message.end_ns)
            after = min(start for start, _ in rank.compute if start >= message.end_ns)
            if before < message.end_ns and after - message.end_ns <= release_ns:
                total += message.end_ns - max(message.asked_ns, before)
    return total


def with_peers(database: Path, schedule: str, copy: Path) -> Path:
    """Copy the database and fill in the other side of each message, as the recorded calls say."""
    shutil.copy(database, copy)
    known = [
        (message.peer, rank, message.op, message.asked_ns)
        for rank in RANKS
        for message in recorded(schedule, rank).messages
    ]
    with duckdb.connect(copy) as con:
        con.executemany(
            "UPDATE base.collective_calls SET peer = ? WHERE rank = ? AND op = ?"
            " AND start_local_ns = ?",
            known,
        )
        found = con.execute("SELECT count(peer) FROM base.collective_calls").fetchone()
    assert found == (len(known),)
    return copy


@nightly
@pytest.mark.parametrize("schedule", ["gpipe", "1f1b"])
def test_stages_and_bubble_are_those_of_the_events(
    database_of: DatabaseOf, tmp_path: Path, schedule: str
) -> None:
    database = database_of(FIXTURES / f"pipeline_{schedule}")
    run = traceweave.open(with_peers(database, schedule, tmp_path / "run.duckdb"))
    expected = list(by_hand(schedule))
    got = run.analyze("pipeline")
    assert got[list(expected[0])].to_dict("records") == expected
    # where the interpreter runs between a receive and the next operator
    blocked = [blocked_ns(recorded(schedule, r), s, 1_000_000) for s in STEPS for r in RANKS]
    waited = run.analyze("pipeline", release_ns=1_000_000)
    assert waited["receive_blocked_ns"].tolist() == blocked
    assert min(blocked) > 0
    assert set(got["receive_blocked_ns"]) == {0}
    # two cores do the work of four ranks: the stages stand still for more than the least
    assert (got.groupby("step")["bubble_share"].mean() > 3 / 9).all()


@first_at_once()
@pytest.mark.parametrize("schedule", ["gpipe", "1f1b"])
def test_without_the_other_sides_nothing_is_claimed(database_of: DatabaseOf, schedule: str) -> None:
    run = traceweave.open(database_of(FIXTURES / f"pipeline_{schedule}"))
    seen = run.sql(
        "SELECT op, count(*) AS n FROM collectives WHERE match = 'unmatched' GROUP BY op"
    )
    assert dict(zip(seen["op"], seen["n"], strict=True)) == {"send": 108, "recv": 108}
    issues = run.sql('SELECT kind, "count" FROM ingest_issues').to_dict("records")
    clock = "the other side may be a rank with another clock, and order alone does not tell"
    assert issues == [{"kind": f"unmatched_collectives: {clock}", "count": 216}]
    rows = run.analyze("pipeline")
    assert len(rows) == len(RANKS) * len(STEPS)
    assert rows["stage"].isna().all()
    assert rows["bubble_ns"].isna().all()
    assert {note.split(";")[0] for note in rows["note"]} == {
        "not computable: which ranks are the other sides of its messages is not known: issues says"
        " why"
    }


@nightly
@pytest.mark.parametrize("schedule", ["gpipe", "1f1b"])
def test_files_of_one_host_tell_stages_and_schedule(
    database_of: DatabaseOf, tmp_path: Path, schedule: str
) -> None:
    """The same recordings, named as torch's trace handler names files: by host and process."""
    recorded = FIXTURES / f"pipeline_{schedule}"
    with traceweave.open(database_of(recorded)) as run:
        processes = run.sql("SELECT rank, pid FROM ranks").itertuples(index=False)
    for rank, pid in processes:
        name = f"node0_{pid}.1764000000000.pt.trace.json.gz"
        shutil.copy(recorded / f"rank{rank}.json.gz", tmp_path / name)
    traceweave.ingest(tmp_path, tmp_path / "run.duckdb")
    with traceweave.open(tmp_path / "run.duckdb") as run:
        seen = run.sql(
            "SELECT count(*), count(collective_id), count(DISTINCT collective_id) FROM collectives"
        )
        assert seen.iloc[0].tolist() == [216, 216, 108]
        rows = run.analyze("pipeline")
    assert {*zip(rows["rank"], rows.stage, rows.stages, strict=True)} == {(r, r, 4) for r in RANKS}
    assert {*zip(rows.schedule, rows.microbatches, strict=True)} == {(schedule, 6)}


@first_at_once()
@pytest.mark.parametrize("schedule", ["gpipe", "1f1b"])
def test_the_group_of_all_is_used_for_a_pipeline(database_of: DatabaseOf, schedule: str) -> None:
    run = traceweave.open(database_of(FIXTURES / f"pipeline_{schedule}"))
    (group,) = run.analyze("groups").to_dict("records")
    assert (group["role"], group["used_for"], group["used_source"]) == (
        "world", "pp", "operations: only send and recv",
    )  # fmt: skip
    # each message is 256 x 512 floats, counted where it is sent and where it is received
    assert (group["calls"], group["bytes"]) == (216, 216 * 256 * 512 * 4)
    hidden = communicated = 0
    for rank in RANKS:
        events = recorded(schedule, rank)
        busy = sorted((message.asked_ns, message.end_ns) for message in events.messages)
        everything = sorted([*busy, *events.compute])
        whole = (everything[0][0], max(end for _, end in everything))
        communicated += covered_ns(busy, whole)
        hidden += (
            covered_ns(busy, whole)
            + covered_ns(events.compute, whole)
            - covered_ns(everything, whole)
        )
    assert (group["comm_ns"], group["overlap_ns"]) == (communicated, hidden)


@first_at_once()
@pytest.mark.parametrize("schedule", ["gpipe", "1f1b"])
def test_a_message_takes_time_from_its_call_on(schedule: str) -> None:
    """What the fixtures teach about gloo: its annotations begin late, its calls do not."""
    for source in RANKS:
        sent = [m for m in recorded(schedule, source).messages if m.op == "send"]
        for target in {message.peer for message in sent}:
            there = recorded(schedule, target).messages
            received = [m for m in there if m.op == "recv" and m.peer == source]
            pairs = list(zip([m for m in sent if m.peer == target], received, strict=True))
            assert len(pairs) == MICROBATCHES * len(STEPS)
            assert all(a.asked_ns < b.end_ns and b.asked_ns < a.end_ns for a, b in pairs)
