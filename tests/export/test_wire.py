"""Columns encoded at once against protobuf's own classes, one message at a time."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import example, given, settings
from hypothesis import strategies as st
from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as protos

from traceweave.export import wire

INT64 = st.integers(-(1 << 63), (1 << 63) - 1)


@settings(deadline=None)  # the first call imports pyarrow.compute
@given(st.lists(INT64, min_size=1, max_size=30))
@example([0, 1, 127, 128, (1 << 56) - 1, 1 << 56, (1 << 63) - 1, -1, -(1 << 63)])
def test_an_int64_field_is_what_protobuf_writes(values: list[int]) -> None:
    number = protos.DebugAnnotation.DESCRIPTOR.fields_by_name["int_value"].number

    rows = wire.field(number, wire.VARINT, wire.varints(np.array(values, dtype=np.int64)))

    expected = [protos.DebugAnnotation(int_value=v).SerializeToString() for v in values]
    assert rows.to_pylist() == expected
    assert bytes(wire.raw(rows)) == b"".join(expected)


@settings(deadline=None)  # the first call imports pyarrow.compute
@given(st.lists(st.lists(INT64.filter(lambda n: n >= 0), max_size=4), min_size=1, max_size=10))
def test_repeated_fixed64_fields_are_what_protobuf_writes(lists: list[list[int]]) -> None:
    values = np.array([v for row in lists for v in row], dtype=np.int64)
    offsets = np.append(0, np.cumsum([len(row) for row in lists]))

    rows = wire.fixed64_fields(47, values, offsets)

    expected = [protos.TrackEvent(flow_ids=row).SerializeToString() for row in lists]
    assert rows.to_pylist() == expected


def test_a_missing_value_leaves_its_field_and_its_message_out() -> None:
    numbers = wire.varints(np.array([7, 0, 300]), np.array([False, True, False]))

    assert numbers.to_pylist() == [b"\x07", None, b"\xac\x02"]
    assert wire.field(4, wire.VARINT, numbers).to_pylist() == [b"\x20\x07", b"", b"\x20\xac\x02"]
    assert wire.message(4, numbers).to_pylist() == [b"\x22\x01\x07", b"", b"\x22\x02\xac\x02"]


def test_parts_are_joined_row_by_row() -> None:
    left = pa.array([b"a", b"", b"ccc"], pa.binary())

    assert wire.join(b"<", left, b">").to_pylist() == [b"<a>", b"<>", b"<ccc>"]
    assert bytes(wire.raw(wire.join(b"<", left, b">")[1:])) == b"<><ccc>"


def test_no_rows_are_no_bytes() -> None:
    rows = wire.message(1, wire.varints(np.array([], dtype=np.int64)))

    assert bytes(wire.raw(rows)) == b""
