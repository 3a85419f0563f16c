"""The first steps of a file alone: what a recording would be that had been stopped after them."""

import gzip
import io
import json
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import pytest

from tests.marks import at_once, nightly
from traceweave.sources import kineto
from traceweave.sources.kineto import first_steps, reader
from traceweave.sources.kineto.reader import stage_events
from traceweave.sources.kineto.stream import EventStream
from traceweave.sources.model import Beginning, Step, Trace
from traceweave.sources.unpack import ByteStream
from traceweave.store.schema import create_base

HOST = {"cpu_op", "user_annotation", "cuda_runtime", "cuda_driver", "python_function"}
DEVICE = {"kernel", "gpu_memcpy", "gpu_memset"}


def trace_of(path: Path, beginning: Beginning | None = None) -> Trace:
    trace = kineto.probe(path, False, True)
    return Trace(path, "kineto", trace.size_bytes, trace.processes, beginning=beginning)


def beginning_of(path: Path, last: int = 0) -> Beginning:
    steps = list(kineto.steps(trace_of(path)))
    return Beginning(steps[last].end_ns, steps[-1].start_ns)


def events_of(path: Path) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]
    return events


def by_hand(path: Path, end_us: float) -> set[tuple[str, str, float]]:
    """Name, category and start of the spans that began before, or were launched before."""
    spans = [e for e in events_of(path) if e["ph"] == "X" and e["cat"] in HOST | DEVICE]
    early = [e for e in spans if e["ts"] < end_us]
    launches = {
        e["args"]["correlation"] for e in early
        if e["cat"] not in DEVICE and e["args"].get("correlation")
    }  # fmt: skip
    late = [
        e for e in spans
        if e["ts"] >= end_us and e["cat"] in DEVICE and e["args"].get("correlation") in launches
    ]  # fmt: skip
    return {(e["name"], e["cat"], e["ts"]) for e in early + late}


def test_steps_are_those_that_the_file_marks(fixtures: Path) -> None:
    """Against the JSON: number, start and end, in the order of the file."""
    path = fixtures / "root_scatters_nccl" / "rank0.json.gz"
    marked = [
        (int(e["name"].partition("#")[2]), e["ts"], e["ts"] + e["dur"])
        for e in events_of(path)
        if e["name"].startswith("ProfilerStep#") and e["cat"] == "user_annotation"
    ]
    found = [(s.number, s.start_ns / 1000, s.end_ns / 1000) for s in kineto.steps(trace_of(path))]
    assert len(found) == 20
    assert found == [(n, pytest.approx(a), pytest.approx(b)) for n, a, b in marked]


def test_what_runs_on_the_device_is_known_by_its_category() -> None:
    """What may run late is not left out unread: the regular expression and staging.sql agree."""
    with duckdb.connect() as con:
        stage_events(con)
        (device,), (host,) = (
            con.execute(f"SELECT list(cat) FROM {side}_categories").fetchall()
            for side in ("device", "host")
        )
    found = {
        cat for (cats,) in (device, host) for cat in cats
        if first_steps._ON_DEVICE.search(b'"cat": "%b"' % cat.encode())
    }  # fmt: skip
    assert found == set(device[0])


@pytest.mark.parametrize("name", ["slow_rank_nccl", "root_scatters_nccl", "ddp_gloo_4ranks"])
def test_what_is_loaded_is_what_began_or_was_launched_before(
    fixtures: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "PIECE_BYTES", 4 << 10)
    path = fixtures / name / "rank0.json.gz"
    beginning = beginning_of(path)
    base_ns = json.loads(gzip.decompress(path.read_bytes()))["baseTimeNanoseconds"]
    with duckdb.connect() as con:
        create_base(con)
        kineto.load(con, trace_of(path, beginning), 0, lambda _: None)
        rows = con.execute(
            "SELECT name, start_local_ns FROM base.gpu_ops"
            " UNION ALL SELECT name, start_local_ns FROM base.host_ops"
        ).fetchall()
    wanted = by_hand(path, beginning.end_ns / 1000)
    assert {(text, round(at - base_ns)) for text, at in rows} == {
        (text, round(ts * 1000)) for text, _, ts in wanted
    }


@nightly
@pytest.mark.parametrize("ranks", at_once(["rank0*", "rank[1-9]*"], "rank0*"))
def test_of_the_text_only_late_events_are_left_out(fixtures: Path, ranks: str) -> None:
    """All that is left is whole, and the ends are as they were."""
    for path in sorted(fixtures.glob(f"*/{ranks}.json.gz")):
        if len(list(kineto.steps(trace_of(path)))) < 4:
            continue
        beginning = beginning_of(path)
        text = gzip.decompress(path.read_bytes())
        whole = EventStream(io.BytesIO(text))
        assert list(whole.blocks())
        early = partial(first_steps.without_later, beginning=beginning)
        stream = EventStream(io.BytesIO(text), block_bytes=4 << 10, through=early)
        kept = json.loads(b"[" + b",".join(stream.blocks()) + b"]")
        assert (stream.head, stream.tail, stream.damaged) == (whole.head, whole.tail, None)
        held = Counter(map(repr, kept))
        late = [e for e in events_of(path) if not held[repr(e)]]
        assert all(e["ts"] * 1000 >= beginning.end_ns for e in late), path
        assert len(kept) + len(late) == len(events_of(path))


@pytest.mark.parametrize("early", [30, 800, 1999])
def test_one_early_event_among_late_ones_is_kept(early: int) -> None:
    """As a mark is that begins the annotations, behind the last operators."""
    events = [b'{"cat": "a", "name": "%d", "ts": %d}' % (n, 1000 + n) for n in range(2000)]
    events[early] = b'{"cat": "user_annotation", "name": "early", "ts": 5}'
    pieces = iter([b'{"traceEvents": [', b",".join(events[:1000]), b"," + b",".join(events[1000:]),
                   b', {"ts": 1}]}'])  # fmt: skip
    kept = b"".join(first_steps.without_later(pieces, Beginning(100_000, 100_000)))
    assert "early" in {event.get("name") for event in json.loads(kept)["traceEvents"]}


def test_a_mark_may_lie_across_two_pieces_of_the_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever it is cut, it is found once and whole."""
    event = (
        '{"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#7", "ts": 1.5, "dur": 1234}'
    )
    path = tmp_path / "rank0.json"
    path.write_text('{"traceEvents": [' + event + "]}")
    for size in range(20, len(event) + 20):
        monkeypatch.setattr(first_steps, "ByteStream", partial(ByteStream, block_bytes=size))
        assert list(kineto.steps(Trace(path, "kineto", 1, ()))) == [Step(7, 1500, 1_235_500)], size


def test_a_long_file_is_mostly_left_out() -> None:
    def text() -> Iterator[bytes]:
        for number in range(20_000):
            yield b'{"ph": "X", "cat": "cpu_op", "name": "a", "ts": %d, "dur": 1}' % number

    source = b'{"traceEvents": [' + b",".join(text()) + b'], "x": 1}'
    early = partial(first_steps.without_later, beginning=Beginning(100_000, 100_000))
    stream = EventStream(io.BytesIO(source), block_bytes=32 << 10, through=early)
    kept = json.loads(b"[" + b",".join(stream.blocks()) + b"]")
    assert {e["ts"] for e in kept} >= set(range(100))
    assert len(kept) < 2_000
    assert stream.tail == b'], "x": 1}'
