"""Files into which the traces of several ranks were merged say what the ranks' own files say."""

import gzip
import json
from collections.abc import Callable, Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

import traceweave
from tests.conftest import Recorded
from tests.marks import at_once, nightly
from traceweave.errors import InputError
from traceweave_simulator import Config, simulate, write_kineto

Event = dict[str, Any]
Traces = list[dict[str, Any]]
DatabaseOf = Callable[..., Path]

BREAKDOWN = """
SELECT rank, step, compute_ns, comm_ns, exposed_comm_ns, idle_ns, comm_hidden_fraction
FROM breakdown() ORDER BY ALL
"""
LATE = "SELECT rank, known_instances, known_last, round(resolved_wait_ns / 1e6) FROM stragglers()"
LINKS = "SELECT rank, count(*), count(launch_op_id) FROM gpu_ops GROUP BY rank ORDER BY rank"
COLLECTIVES = """
SELECT collective_id, any_value(op), count(*), any_value(match) FROM collectives
GROUP BY collective_id ORDER BY collective_id
"""


@pytest.fixture(scope="module")
def own_files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("own")
    write_kineto(simulate(Config(ranks=3, steps=3, layers=3, seed=5)), folder)
    return folder


@pytest.fixture(scope="module")
def traces(own_files: Path) -> Traces:
    return [_read(path) for path in sorted(own_files.iterdir())]


def _read(path: Path) -> dict[str, Any]:
    text = path.read_bytes()
    read: dict[str, Any] = json.loads(gzip.decompress(text) if text[:2] == b"\x1f\x8b" else text)
    return read


def _write(path: Path, top: dict[str, Any], events: list[Event]) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({**top, "traceEvents": events}))
    return path


def _tops(traces: Traces) -> dict[str, Any]:
    return {key: value for key, value in traces[0].items() if key != "traceEvents"}


def _each(traces: Traces) -> Iterator[tuple[int, Event]]:
    for rank, trace in enumerate(traces):
        for event in trace["traceEvents"]:
            yield rank, deepcopy(event)


def answers(database: Path) -> list[list[tuple[Any, ...]]]:
    with traceweave.open(database) as run:
        tables = [run.stream(query).read_all() for query in (BREAKDOWN, LATE, LINKS, COLLECTIVES)]
        return [[tuple(row.values()) for row in table.to_pylist()] for table in tables]


def sglang(traces: Traces) -> list[Event]:
    """As its merge_profiles does: a label in front of every pid."""
    return [{**event, "pid": f"[TP{rank:02d}] {event['pid']}"} for rank, event in _each(traces)]


def sglang_reversed(traces: Traces) -> list[Event]:
    return sglang(traces)[::-1]


def sglang_with_stages(traces: Traces) -> list[Event]:
    return [
        {**event, "pid": f"[TP{rank % 2:02d}-PP{rank // 2:02d}] {event['pid']}"}
        for rank, event in _each(traces)
    ]


def sglang_of_unknown_ranks(traces: Traces) -> list[Event]:
    return [{**event, "pid": f"[Unknown] {event['pid']}"} for _, event in _each(traces)]


def fused(traces: Traces) -> list[Event]:
    """As TraceLens' fusion does: pids and correlation ids shifted, and processes named."""
    events, named = [], {}
    for rank, event in _each(traces):
        if event["ph"] == "M" and event["name"].startswith("process_"):
            continue
        args = event.setdefault("args", {})
        args["rank"] = rank
        if isinstance(event["pid"], int):
            event["pid"] += rank * 10_000_000
            named[event["pid"]] = rank
        if "correlation" in args:
            args["correlation"] += rank * 100_000_000
        events.append(event)
    return events + [
        {
            "name": "process_name", "ph": "M", "pid": pid, "tid": 0,
            "args": {"name": f"RANK {rank} - X"},
        }
        for pid, rank in named.items()
    ]  # fmt: skip


def fused_before_it_named(traces: Traces) -> list[Event]:
    """The correlation ids alone tell, by time."""
    events = [event for event in fused(traces) if event["ph"] != "M"]
    for event in events:
        del event["args"]["rank"]
    return sorted(events, key=lambda event: float(event["ts"]))


def one_after_the_other(traces: Traces) -> list[Event]:
    """By hand: nothing changed, and all see their own device 0."""
    events = []
    for _, event in _each(traces):
        if event.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset", "gpu_user_annotation"):
            event["pid"] = 0
        events.append(event)
    return events


def shifted(traces: Traces) -> list[Event]:
    """By hand: pids far apart, in order of time."""
    events = []
    for rank, event in _each(traces):
        if isinstance(event["pid"], int):
            event["pid"] += rank * 10**9
        events.append(event)
    return sorted(events, key=lambda event: float(event.get("ts", 0)))


def labelled(traces: Traces) -> list[Event]:
    """By hand: pids that say nothing, and labels that do."""
    events, pids = [], {}
    for rank, event in _each(traces):
        if event["ph"] != "M":
            event["pid"] = pids.setdefault((rank, event["pid"]), 100 + 7 * len(pids))
            events.append(event)
    labels = [
        {
            "name": "process_labels", "ph": "M", "pid": pid, "ts": 0,
            "args": {"labels": f"rank {rank}"},
        }
        for (rank, _), pid in pids.items()
    ]  # fmt: skip
    return labels + sorted(events, key=lambda event: float(event["ts"]))


WAYS = [
    sglang, sglang_reversed, sglang_with_stages, sglang_of_unknown_ranks, fused,
    fused_before_it_named, one_after_the_other, shifted, labelled,
]  # fmt: skip


@pytest.mark.parametrize("way", at_once(WAYS, labelled))
def test_a_merged_file_says_what_the_ranks_own_files_say(
    way: Callable[[Traces], list[Event]], traces: Traces, own_files: Path, tmp_path: Path,
    database_of: DatabaseOf,
) -> None:  # fmt: skip
    merged = _write(tmp_path / "merged.json", _tops(traces), way(traces))
    assert answers(database_of(merged)) == answers(database_of(own_files))


@nightly
def test_what_a_collective_says_of_its_root_is_no_rank_of_the_process(
    fixtures: Path, tmp_path: Path, database_of: DatabaseOf
) -> None:
    """Both ranks say rank 0 of each reduce, which is its root, and their own of all-reduces."""
    files = fixtures / "root_waits_nccl"
    traces = [_read(path) for path in sorted(files.iterdir())]
    merged = _write(tmp_path / "merged.json", _tops(traces), shifted(traces))
    assert answers(database_of(merged)) == answers(database_of(files))


@nightly
def test_a_long_file_whose_head_says_one_rank(
    traces: Traces, own_files: Path, tmp_path: Path, database_of: DatabaseOf
) -> None:
    """The first rank's events fill all that a quick look sees."""
    more = [{"ph": "M", "name": "thread_name", "pid": 1, "args": {"name": "x" * 5_000_000}}]
    events = one_after_the_other(traces)
    merged = _write(tmp_path / "merged.json", _tops(traces), events[:300] + more + events[300:])
    assert answers(database_of(merged)) == answers(database_of(own_files))


@nightly
def test_perfetto_is_given_no_file_of_several_ranks(
    traces: Traces, tmp_path: Path, database_of: DatabaseOf
) -> None:
    merged = _write(tmp_path / "merged.json", _tops(traces), sglang(traces))
    with traceweave.open(database_of(merged)) as run, pytest.raises(InputError, match="per rank"):
        run.export(tmp_path / "run.zip", to="perfetto-manifest")


def test_what_nothing_tells_apart_is_refused(traces: Traces, tmp_path: Path) -> None:
    events = one_after_the_other(traces)
    mixed = sorted(events, key=lambda event: float(event.get("ts", 0)))
    merged = _write(tmp_path / "merged.json", _tops(traces), mixed)
    with pytest.raises(InputError, match="cannot be told apart; give the ranks' own"):
        traceweave.ingest([merged], tmp_path / "run.duckdb")


def test_processes_of_one_pid_are_refused(traces: Traces, tmp_path: Path) -> None:
    """As in containers, where each has the pid 1."""
    events = []
    for _, event in _each(traces):
        if isinstance(event["pid"], int):
            event["pid"] = 1 if event["pid"] > 64 else event["pid"]
            event["tid"] = 1 if event["pid"] == 1 else event["tid"]
        events.append(event)
    merged = _write(tmp_path / "merged.json", _tops(traces), events)
    with pytest.raises(InputError, match="processes with one pid were merged"):
        traceweave.ingest([merged], tmp_path / "run.duckdb")


def test_two_processes_that_wrote_into_one_file_at_once_are_recognised(
    traces: Traces, tmp_path: Path
) -> None:
    one, other = (json.dumps(trace, indent=1).encode() for trace in traces[:2])
    piece = 65_000
    text = b"".join(
        (one, other)[at // piece % 2][at : at + piece]
        for at in range(0, min(len(one), len(other)), piece)
    )
    mixed = tmp_path / "rank0.json"
    mixed.write_bytes(text)
    with pytest.raises(InputError, match="wrote into it at once"):
        traceweave.ingest([mixed], tmp_path / "run.duckdb")


@nightly
def test_the_corpus_case(corpus: Path, database_of: DatabaseOf) -> None:
    merged = answers(database_of(corpus / "cases" / "merged_pids"))
    assert merged == answers(database_of(corpus / "cases" / "reference"))
    breakdown, late, _, collectives = merged
    assert {rank for rank, *_ in breakdown} == {0, 1, 2, 3}
    assert {hidden for *_, hidden in breakdown} == {0.0}
    assert late[0] == (2, 4, 4, 108.0)
    assert len(collectives) == 4


@nightly
def test_a_command_processor_that_writes_calls_is_no_other_process(recorded: Recorded) -> None:
    assert recorded("kineto/mtia_accelerator").con.execute(
        "SELECT count(*) FROM ranks"
    ).fetchall() == [(1,)]
