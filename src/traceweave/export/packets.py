"""Packets: batches of slices and samples as the messages of a Perfetto trace.

A slice is written as its begin and its end, one behind the other, in order of (track, start,
longest first). Perfetto sorts packets by time and keeps the order of the file where times are
equal, so at one instant an earlier slice ends before a later one begins, and an outer slice begins
before an inner one; ends at one instant are alike, each closes what is on top.

Making a message costs ten times what filling one costs. So slices that have the same fields share
their two packets (perfetto's StreamingTraceProtoBuilder makes and copies a packet per event: 80 k
slices/s against 640 k).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from operator import setitem
from typing import IO, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from traceweave.analyses.sweeps.columns import to_numpy

SEQUENCE = 1
"""The id of the one packet sequence: interned strings hold for all packets of it."""

LAUNCH_FLOW = 1 << 62
"""Added to a launching call's op_id to make the id of the arrow from it to the GPU op. The arrow
that joins the ranks of a collective has the collective_id itself."""

MOST_STRINGS = 500_000
"""Interned strings after which the table starts anew: bounds the memory of writer and reader."""

_NO_NOTES = ("track", "start_ns", "end_ns", "name", "category", "flow_ids")
"""Columns of a batch of slices that have fields of their own."""


@dataclass(frozen=True)
class _Column:
    """A column of a batch in the form in which it goes into messages."""

    name: str
    text: bool
    values: list[Any]
    present: npt.NDArray[np.bool_]


@dataclass(frozen=True)
class _Pair:
    """Begin and end of the slices that have the same fields, and how a row fills them in."""

    trace: Any
    fill: list[tuple[Callable[[Any], None], list[Any]]]


class PacketWriter:
    """Writes packets to a file."""

    def __init__(self, file: IO[bytes], protos: Any) -> None:
        self._file = file
        self._protos = protos
        self._strings: dict[str, dict[str, int]] = {}
        self._new = protos.InternedData()
        self._fresh = True

    def packet(self, **fields: Any) -> None:
        """Write one packet with the fields given."""
        trace = self._protos.Trace()
        trace.packet.add(trusted_packet_sequence_id=SEQUENCE, **fields)
        self._file.write(trace.SerializeToString())

    def slices(self, batch: pa.RecordBatch, uuids: npt.NDArray[np.int64]) -> None:
        """Write the slices of a batch, the uuid of the track of each beside it.

        Columns that have no field of their own become debug annotations of their name.
        """
        if sum(map(len, self._strings.values())) > MOST_STRINGS:
            self._strings, self._fresh = {}, True
        columns = [self._column(name, batch[name]) for name in batch.schema.names[1:]]
        kinds = np.zeros(len(batch), dtype=np.int64)
        for place, column in enumerate(columns):
            kinds |= column.present.astype(np.int64) << place
        tracks = uuids.tolist()
        pairs = {
            kind: self._pair(tracks, [c for i, c in enumerate(columns) if kind >> i & 1])
            for kind in np.unique(kinds).tolist()
        }
        self._write_strings()
        for row, kind in enumerate(kinds.tolist()):
            pair = pairs[kind]
            for put, values in pair.fill:
                put(values[row])
            self._file.write(pair.trace.SerializeToString())

    def samples(self, batch: pa.RecordBatch, uuids: npt.NDArray[np.int64]) -> None:
        """Write the samples of a batch, the uuid of the counter track of each beside it."""
        trace = self._protos.Trace()
        packet = trace.packet.add(trusted_packet_sequence_id=SEQUENCE)
        event = packet.track_event
        event.type = event.TYPE_COUNTER
        rows = zip(uuids.tolist(), *(_values(batch[n]) for n in ("at_ns", "value")), strict=True)
        for event.track_uuid, packet.timestamp, event.double_counter_value in rows:
            self._file.write(trace.SerializeToString())

    def _column(self, name: str, column: pa.Array) -> _Column:
        present = to_numpy(column.is_valid().cast(pa.uint8())) > 0
        table = {"name": "event_names", "category": "event_categories"}.get(name)
        text = pa.types.is_string(column.type)
        if name == "flow_ids":
            lengths = to_numpy(pc.list_value_length(column), 0)
            present = lengths > 0
            flat, ends = _values(pc.list_flatten(column)), np.append(0, np.cumsum(lengths)).tolist()
            values: list[Any] = [flat[a:b] if b > a else None for a, b in pairwise(ends)]
        elif text or table:
            values = self._numbers(column, table or "debug_annotation_string_values").tolist()
        else:
            values = _values(column)
        return _Column(name, text, values, present)

    def _pair(self, tracks: list[int], columns: list[_Column]) -> _Pair:
        """Return the packets for slices that have values in just these columns."""
        trace = self._protos.Trace()
        begin, end = (trace.packet.add(trusted_packet_sequence_id=SEQUENCE) for _ in range(2))
        begin.sequence_flags = begin.SEQ_NEEDS_INCREMENTAL_STATE
        event = begin.track_event
        event.type, end.track_event.type = event.TYPE_SLICE_BEGIN, event.TYPE_SLICE_END
        fill: list[tuple[Callable[[Any], None], list[Any]]] = [
            (partial(setattr, e, "track_uuid"), tracks) for e in (event, end.track_event)
        ]
        fill += [(self._place(column, begin, end), column.values) for column in columns]
        return _Pair(trace, fill)

    def _place(self, column: _Column, begin: Any, end: Any) -> Callable[[Any], None]:
        """Return what puts a value of a column into the packets of a slice."""
        event = begin.track_event
        if column.name not in _NO_NOTES:
            [iid] = self._iids("debug_annotation_names", [column.name])
            note = event.debug_annotations.add(name_iid=iid)
            return partial(setattr, note, "string_value_iid" if column.text else "int_value")
        if column.name == "category":
            event.category_iids.append(0)
            return partial(setitem, event.category_iids, 0)
        if column.name == "flow_ids":
            return partial(setitem, event.flow_ids, slice(None))
        if column.name == "name":
            return partial(setattr, event, "name_iid")
        return partial(setattr, begin if column.name == "start_ns" else end, "timestamp")

    def _numbers(self, column: pa.Array, table: str) -> npt.NDArray[np.int64]:
        """Return the interned number of every string; 0 for null."""
        encoded = column.dictionary_encode()
        iids = self._iids(table, encoded.dictionary.to_pylist())
        codes = to_numpy(encoded.indices, len(iids))
        numbers: npt.NDArray[np.int64] = np.append(np.array(iids, dtype=np.int64), 0)[codes]
        return numbers

    def _iids(self, table: str, strings: list[str]) -> list[int]:
        """Return the interned numbers of distinct strings; new ones come before the batch."""
        known = self._strings.setdefault(table, {})
        iids = []
        for text in strings:
            iid = known.get(text)
            if iid is None:
                iid = known[text] = len(known) + 1
                if table == "debug_annotation_string_values":
                    getattr(self._new, table).add(iid=iid, str=text.encode())
                else:
                    getattr(self._new, table).add(iid=iid, name=text)
            iids.append(iid)
        return iids

    def _write_strings(self) -> None:
        packet = self._protos.TracePacket
        if self._new.ByteSize() or self._fresh:
            flags = packet.SEQ_NEEDS_INCREMENTAL_STATE
            if self._fresh:
                flags |= packet.SEQ_INCREMENTAL_STATE_CLEARED
            self.packet(interned_data=self._new, sequence_flags=flags)
        self._new, self._fresh = self._protos.InternedData(), False


def _values(column: pa.Array) -> list[Any]:
    """Return numbers as a list; what stands for a null is not to be read."""
    values: list[Any] = to_numpy(column, 0).tolist()
    return values
