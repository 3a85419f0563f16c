"""What a probe tells of a Kineto file, from its head alone or from the whole of it."""

import gzip
import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.cases import cases
from tests.marks import at_once
from traceweave import ingest
from traceweave.errors import InputError
from traceweave.sources.discover import discover
from traceweave.sources.formats import known_formats
from traceweave.sources.kineto import probe
from traceweave.sources.unpack import BLOCK_BYTES
from traceweave.store.database import open_database

FIXTURES = Path(__file__).parents[1] / "fixtures"
RECORDED = sorted(FIXTURES.glob("*/rank*.json*"))
EVENT = {"ph": "X", "cat": "cpu_op", "name": "op", "pid": 7, "tid": 1, "ts": 2, "dur": 3}


@pytest.mark.parametrize(
    "path",
    at_once(RECORDED, *(p for p in RECORDED if p.name.startswith("rank1."))),
    ids=lambda p: f"{p.parent.name}/{p.name}",
)
def test_the_head_of_a_recording_tells_what_the_whole_tells_but_its_end(path: Path) -> None:
    whole = probe(path, with_times=True)
    head = probe(path, with_times=False)
    assert whole.first_ns is not None
    if whole.processes[0].rank is None:
        assert head == whole
    else:
        assert head == replace(whole, first_ns=head.first_ns, last_ns=None)
        assert whole.first_ns <= (head.first_ns or whole.first_ns) <= (whole.last_ns or 0)


def write(path: Path, rank: int, top: dict[str, object], base_ns: int) -> Path:
    """Write a trace longer than a block, its base time and `top` after the events."""
    events = [EVENT, *[{**EVENT, "name": "x" * 1000} for _ in range(BLOCK_BYTES // 1000)]]
    before = {"distributedInfo": {"rank": rank, "world_size": 2}, "traceEvents": events}
    path.write_bytes(
        gzip.compress(json.dumps({**before, "baseTimeNanoseconds": base_ns, **top}).encode(), 1)
    )
    return path


def test_what_only_the_end_of_a_file_tells_is_in_the_database(tmp_path: Path) -> None:
    top: dict[str, object] = {
        "host_name": "node1",
        "deviceProperties": [{"id": 0, "name": "NVIDIA H100"}],
    }
    trace = write(tmp_path / "a.json.gz", 1, top, base_ns=5_000_000)
    assert probe(trace, with_times=False).processes[0].host is None

    ingest(trace, tmp_path / "run.duckdb")

    with open_database(tmp_path / "run.duckdb") as con:
        rows = con.execute(
            "SELECT rank, rank_source, host, pid, world_size, first_local_ns FROM base.rank_sources"
        )
        assert rows.fetchall() == [(1, "distributedInfo", "node1", 7, 2, 5_002_000)]


@cases
def test_a_host_is_read_only_from_a_name_that_the_handler_of_torch_gives(
    tmp_path: Path, name: str, host: str | None
) -> None:
    path = tmp_path / name
    events = json.dumps({"schemaVersion": 1, "traceEvents": [EVENT]}).encode()
    path.write_bytes(gzip.compress(events) if path.suffix == ".gz" else events)
    (process,) = probe(path).processes
    assert (process.host, process.pid) == (host, 7)


def test_the_process_of_a_name_stands_in_for_events_that_name_none(tmp_path: Path) -> None:
    path = tmp_path / "node-7_8.1698957662168769395.pt.trace.json"
    path.write_text(json.dumps({"traceEvents": [{"ph": "X", "name": "op", "ts": 1, "dur": 1}]}))
    (process,) = probe(path).processes
    assert (process.host, process.pid) == ("node-7", 8)


@pytest.mark.parametrize("written", ["-1", "1.5", "true", '"one"', "[0]", "1e3"])
def test_what_is_no_rank_is_said_and_the_name_decides(tmp_path: Path, written: str) -> None:
    for rank in (0, 1):
        trace = gzip.decompress(
            (FIXTURES / "uneven_work_gloo" / f"rank{rank}.json.gz").read_bytes()
        )
        stated = f'"rank": {rank}'.encode()
        assert trace.count(stated) == 1
        trace = trace.replace(stated, b'"rank": ' + (written.encode() if rank else b"0"))
        (tmp_path / f"worker{rank}.json").write_bytes(trace)

    found = discover([tmp_path], known_formats(), tmp_path)

    assert [(p.rank, p.rank_source) for s in found.sources for p in s.trace.processes] == [
        (0, "distributedInfo"),
        (1, "file name"),
    ]
    assert found.notes == (
        f"worker1.json: its distributedInfo says rank {written.replace('1e3', '1000.0')}, which is"
        " not a rank: its name decides, or --rank",
    )


def test_what_is_no_rank_is_said_also_where_no_name_decides(tmp_path: Path) -> None:
    for name, rank in (("a", 0), ("b", -1)):
        top = {"schemaVersion": 1, "distributedInfo": {"rank": rank}, "traceEvents": [EVENT]}
        (tmp_path / f"{name}.json").write_text(json.dumps(top))
    with pytest.raises(InputError, match=r"b\.json: its distributedInfo says rank -1.*--rank b"):
        discover([tmp_path], known_formats(), tmp_path)


def test_a_rank_that_the_top_level_breaks_off_in_is_not_believed(tmp_path: Path) -> None:
    events = json.dumps([EVENT])
    for number, stated in enumerate(["1.5", "-1", "1"]):
        path = tmp_path / f"t{number}.json"
        path.write_text(f'{{"traceEvents": {events}, "distributedInfo": {{"rank": {stated}')
        assert probe(path).processes[0].rank is None


def test_a_file_without_events_has_no_process(tmp_path: Path) -> None:
    top = {"schemaVersion": 1, "distributedInfo": {"rank": 3, "world_size": 4}}
    path = tmp_path / "t.json"
    path.write_text(json.dumps({**top, "traceEvents": []}))
    trace = probe(path)
    assert trace.processes == ()
    assert trace.notes == ("it holds no events: nothing of rank 3 was recorded",)


def test_times_are_looked_up_only_where_a_rank_is_claimed_twice(tmp_path: Path) -> None:
    for rank in (0, 1):
        write(tmp_path / f"first{rank}.json.gz", rank, {}, base_ns=1_000_000_000_000)

    distinct = discover([tmp_path], known_formats(), tmp_path)
    write(tmp_path / "second1.json.gz", 1, {}, base_ns=2_000_000_000_000)
    windows = discover([tmp_path], known_formats(), tmp_path)

    assert [s.trace.first_ns for s in distinct.sources] == [None, None]
    assert [(s.trace.path.name, s.trace.first_ns) for s in windows.sources] == [
        ("first0.json.gz", 1_000_000_002_000),
        ("first1.json.gz", 1_000_000_002_000),
        ("second1.json.gz", 2_000_000_002_000),
    ]
