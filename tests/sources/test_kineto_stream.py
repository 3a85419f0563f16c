"""The slicer: whatever the layout, the blocks together are exactly the file's events."""

import gzip
import io
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.marks import examples, nightly
from traceweave.errors import InputError
from traceweave.sources.kineto.stream import EventStream
from traceweave.sources.unpack import BLOCK_BYTES

TEXT = st.text(alphabet=st.sampled_from('ab"\\{}[], \n\té:'), max_size=12)
ARGS = st.recursive(
    st.none() | st.integers(-5, 5) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
EVENTS = st.lists(
    st.fixed_dictionaries({"ph": st.just("X"), "name": TEXT, "args": ARGS}), max_size=8
)
LAYOUTS = st.sampled_from([None, 1, 2, 4])


def slices(data: bytes, block_bytes: int = BLOCK_BYTES) -> tuple[list[Any], EventStream]:
    events = EventStream(io.BytesIO(data), block_bytes=block_bytes)
    blocks = list(events.blocks())
    return json.loads(b"[" + b",".join(blocks) + b"]"), events


@given(events=EVENTS, indent=LAYOUTS, block_bytes=st.integers(1, 400), trailer=st.booleans())
@settings(max_examples=examples(300), deadline=None)
def test_blocks_hold_exactly_the_events(
    events: list[Any], indent: int | None, block_bytes: int, trailer: bool
) -> None:
    document = {"schemaVersion": 1, "traceEvents": events}
    if trailer:
        document["distributedInfo"] = {"pg_config": [{"ranks": [0, 1]}], "rank": 1}
    data = json.dumps(document, indent=indent, ensure_ascii=False).encode()
    found, rest = slices(data, block_bytes)
    assert found == events
    assert rest.damaged is None
    assert json.loads(rest.head + rest.tail) == {**document, "traceEvents": []}


@pytest.mark.parametrize("end", ["\n  }]", "\n  } ]", "\n  }\n]", "\n  }\n  ]", "\n  }\t\r\n ]"])
@pytest.mark.parametrize("block_bytes", [7, 64, BLOCK_BYTES])
def test_the_array_ends_at_its_own_bracket_however_it_is_laid_out(
    end: str, block_bytes: int
) -> None:
    event = '\n  {\n    "ph": "X", "args": {"Input Dims": [[4, 2], []], "text": "a ] b, ]"}'
    data = (
        f'{{"traceEvents": [{event}\n  }},{event}{end}, "others": [\n  {{\n  }},\n  {{\n  }}\n]}}'
    )
    found, rest = slices(data.encode(), block_bytes)
    assert found == json.loads(data)["traceEvents"]
    assert json.loads(rest.head + rest.tail) == {**json.loads(data), "traceEvents": []}


@given(events=EVENTS, indent=LAYOUTS, data=st.data())
@settings(max_examples=examples(200), deadline=None)
def test_a_file_cut_anywhere_yields_the_events_before_the_cut(
    events: list[Any], indent: int | None, data: st.DataObject
) -> None:
    whole = json.dumps({"traceEvents": events}, indent=indent, ensure_ascii=False).encode()
    cut = data.draw(st.integers(whole.index(b"[") + 1, len(whole)))
    found, rest = slices(whole[:cut])
    assert found == events[: len(found)]
    if len(found) < len(events):
        assert rest.damaged == "the file ends inside its traceEvents array"


def test_a_bare_array_is_a_trace() -> None:
    found, rest = slices(b'[{"ph": "X"}, {"ph": "i"}]')
    assert found == [{"ph": "X"}, {"ph": "i"}]
    assert rest.damaged is None


def test_no_array_is_an_error() -> None:
    with pytest.raises(InputError, match="no traceEvents array"):
        slices(b'{"name": "left-pad", "version": "1.0.0"}')


@nightly
def test_real_files_are_cut_exactly(corpus: Path) -> None:
    seen = set()
    for path in sorted((corpus / "kineto").glob("*/*.json.gz")):
        if path.parent in seen:
            continue
        seen.add(path.parent)  # the ranks of a run are alike
        data = gzip.decompress(path.read_bytes())
        if len(data) < 5_000_000:
            found, rest = slices(data)
            whole = json.loads(data)
            assert found == (whole if isinstance(whole, list) else whole["traceEvents"]), path
            assert rest.damaged is None
