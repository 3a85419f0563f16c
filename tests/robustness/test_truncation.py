"""Files cut off at any byte: what was whole before the cut is loaded, and nothing else."""

import gzip
import io
import json
import shutil
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import traceweave
from tests.marks import at_once, nightly
from tests.robustness.conftest import Load
from traceweave.cli.main import main
from traceweave.errors import InputError
from traceweave.sources.kineto.stream import EventStream

TRACE = Path(__file__).parent.parent / "fixtures" / "ddp_gloo_4ranks" / "rank0.json.gz"
SLICE_PACKED_BYTES = 32 << 10


@cache
def real() -> tuple[bytes, list[Any], list[int]]:
    """Return a real trace unpacked, its events, and where each of them ends."""
    text = gzip.decompress(TRACE.read_bytes())
    events = json.loads(text)["traceEvents"]
    ends, at = [], text.index(b'"traceEvents"')
    for _ in events:
        at = text.index(b"\n  }", at) + 4
        ends.append(at)
    return text, events, ends


def whole_events(data: bytes, block_bytes: int) -> tuple[list[Any], EventStream]:
    stream = EventStream(io.BytesIO(data), block_bytes=block_bytes)
    blocks = list(stream.blocks())
    return json.loads(b"[" + b",".join(blocks) + b"]"), stream


@given(data=st.data(), block_bytes=st.sampled_from([1 << 14, 1 << 18, 4 << 20]))
@settings(max_examples=40, deadline=None)
def test_a_real_trace_cut_at_any_byte_gives_every_event_before_the_cut(
    data: st.DataObject, block_bytes: int
) -> None:
    text, events, ends = real()
    cut = data.draw(st.integers(0, len(text)))
    if cut < text.index(b"[", text.index(b'"traceEvents"')) + 1:
        with pytest.raises(InputError, match="no traceEvents array"):
            whole_events(text[:cut], block_bytes)
        return
    found, stream = whole_events(text[:cut], block_bytes)
    assert found == events[: sum(end <= cut for end in ends)]
    ended = cut > text.index(b"]", ends[-1])
    assert stream.damaged == (None if ended else "the file ends inside its traceEvents array")


@given(data=st.data())
@settings(max_examples=40, deadline=None)
def test_a_real_gzip_cut_at_any_byte_gives_nearly_every_event_before_the_cut(
    data: st.DataObject,
) -> None:
    text, events, ends = real()
    packed = TRACE.read_bytes()
    cut = data.draw(st.integers(2, len(packed) - 1))
    try:
        found, stream = whole_events(packed[:cut], 4 << 20)
    except InputError:
        assert cut < 1000
        return

    assert found == events[: len(found)]
    assert stream.damaged == "the gzip stream ends too early"
    assert len(found) >= sum(end <= len(text) * (cut / len(packed)) * 0.8 for end in ends) - 50


@nightly
@given(data=st.data())
@settings(max_examples=40, deadline=None)
def test_a_gzip_with_a_wrong_byte_loses_at_most_what_follows_it(data: st.DataObject) -> None:
    _, events, _ = real()
    packed = bytearray(TRACE.read_bytes())
    at = data.draw(st.integers(SLICE_PACKED_BYTES * 2, len(packed) - 1))
    packed[at] ^= data.draw(st.integers(1, 255))
    stream = EventStream(io.BytesIO(bytes(packed)), block_bytes=1 << 16)
    text = b",".join(stream.blocks())
    before = len(events) * (at - SLICE_PACKED_BYTES) // len(packed) // 2
    assert json.loads(b"[" + text[: text.index(b"\n  },", len(text) // 8)] + b"}]")
    assert text.count(b"\n  }") >= before
    assert stream.damaged is not None


@pytest.mark.parametrize("share", at_once([0.001, 0.02, 0.5, 0.93, 0.9999], 0.93))
@pytest.mark.parametrize("packed", [False, True])
def test_a_cut_file_is_loaded_with_the_loss_counted(load: Load, share: float, packed: bool) -> None:
    text, _, ends = real()
    data = TRACE.read_bytes() if packed else text
    cut = int(len(data) * share)

    outcome = load(data[:cut], "trace.json.gz" if packed else "trace.json")

    if outcome.refused is not None:
        assert share == 0.001
        assert packed
        return
    assert outcome.damaged is not None
    assert outcome.read == outcome.stored + sum(issue.count for issue in outcome.issues)
    kinds = {issue.kind for issue in outcome.issues}
    assert kinds <= {"damaged event", "unpaired arrow"}
    if not packed:
        whole = sum(end <= cut for end in ends)
        assert outcome.read in (whole, whole + 1)


NOT_KNOWN = "the file ends inside its traceEvents array; how much is missing is not known"


@nightly
def test_what_lies_beyond_a_cut_is_not_known_wherever_it_is_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text, _, ends = real()
    traces, database = tmp_path / "traces", tmp_path / "run.duckdb"
    shutil.copytree(TRACE.parent, traces, ignore=shutil.ignore_patterns("rank0*"))
    (traces / "rank0.json").write_bytes(text[: ends[2000] + 100])

    status = main(["ingest", str(traces), "-o", str(database)])
    with traceweave.open(database) as run:
        cut, *whole = run.info().sources
        damage = {w.kind: w.count for w in run.info().warnings}
        [lost] = [r for r in run.findings().to_dict("records") if r["rule"] == "lost_events"]
        health = run.health().to_dict("records")
        page = run.report(tmp_path / "page.html").read_text(encoding="utf-8")

    assert status == 3
    assert f"partial: {traces / 'rank0.json'}: {NOT_KNOWN}" in capsys.readouterr().err
    assert (cut.events_skipped, cut.message) == (None, NOT_KNOWN)
    assert {source.events_skipped for source in whole} == {0}
    assert (damage["damaged event"], damage["file damaged"]) == (1, None)
    assert lost["evidence"] == (
        "1 of 4 files read in part or not at all; how many events are missing is not known"
    )
    assert [r["verdict"] for r in health if r["answer"] == "ranks"] == [
        "all of the job; 1 file incomplete, how much is missing is not known"
    ]
    assert (
        "Incomplete input: 1 file could not be read to the end: how many events are missing"
        " there is not known."
    ) in page
    assert "were not stored" not in page


@nightly
def test_what_is_lost_before_the_end_of_a_file_is_counted(tmp_path: Path) -> None:
    text, _, ends = real()
    traces, database = tmp_path / "traces", tmp_path / "run.duckdb"
    traces.mkdir()
    (traces / "rank0.json").write_bytes(
        text[: ends[2000]] + b",\n  {\n    nothing\n  }" + text[ends[2000] :]
    )

    result = traceweave.ingest(traces, database)

    assert [(s.status, s.message) for s in result.sources] == [
        ("partial", "1 event is not valid JSON")
    ]
    with traceweave.open(database) as run:
        [lost] = [r for r in run.findings().to_dict("records") if r["rule"] == "lost_events"]
    assert lost["evidence"] == "1 of 1 file read in part or not at all; 1 event is not here"
