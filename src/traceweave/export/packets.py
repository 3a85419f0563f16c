"""Packets: batches of slices and samples as the bytes of a Perfetto trace.

Rare messages (descriptors, interned strings) are built with the protobuf classes; slices and
samples by wire.py, with the field numbers of the same classes, into the same bytes.

A slice is written as its begin and its end, one behind the other, in order of (track, start,
longest first). Perfetto sorts packets by time and keeps the order of the file where times are
equal, so at one instant an earlier slice ends before a later one begins, and an outer slice begins
before an inner one; ends at one instant are alike, each closes what is on top.
"""

from __future__ import annotations

from typing import IO, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from traceweave.export import wire
from traceweave.export.wire import Binary

SEQUENCE = 1
"""The id of the one packet sequence: interned strings hold for all packets of it."""

LAUNCH_FLOW = 1 << 62
"""Added to a launching call's op_id to make the id of the arrow from it to the GPU op. The arrow
that joins the ranks of a collective has the collective_id itself."""

MOST_STRINGS = 500_000
"""Interned strings after which the table starts anew: bounds the memory of writer and reader."""

NOT_ANNOTATED = ("track", "start_ns", "end_ns", "name", "category", "collective_ids", "launch_id")


class PacketWriter:
    """Writes packets to a file."""

    def __init__(self, file: IO[bytes], protos: Any) -> None:
        self._file = file
        self._protos = protos
        event, packet = protos.TrackEvent, protos.TracePacket
        self._event = {f.name: f.number for f in event.DESCRIPTOR.fields}
        self._note = {f.name: f.number for f in protos.DebugAnnotation.DESCRIPTOR.fields}
        self._packet = {f.name: f.number for f in packet.DESCRIPTOR.fields}
        self._trace = protos.Trace.DESCRIPTOR.fields_by_name["packet"].number
        self._sequence = packet(trusted_packet_sequence_id=SEQUENCE).SerializeToString()
        self._flags = packet(sequence_flags=packet.SEQ_NEEDS_INCREMENTAL_STATE).SerializeToString()
        self._begin = event(type=event.TYPE_SLICE_BEGIN).SerializeToString()
        self._end = event(type=event.TYPE_SLICE_END).SerializeToString()
        self._sample = event(type=event.TYPE_COUNTER).SerializeToString()
        self._strings: dict[str, dict[str, int]] = {}
        self._new = protos.InternedData()
        self._fresh = True

    def packet(self, **fields: Any) -> None:
        """Write one packet of protobuf messages."""
        packet = self._protos.TracePacket(trusted_packet_sequence_id=SEQUENCE, **fields)
        self._file.write(self._protos.Trace(packet=[packet]).SerializeToString())

    def slices(self, batch: pa.RecordBatch, uuids: npt.NDArray[np.int64]) -> None:
        """Write the slices of a batch, the uuid of the track of each beside it.

        Columns besides NOT_ANNOTATED become debug annotations of their name.
        """
        if sum(map(len, self._strings.values())) > MOST_STRINGS:
            self._strings, self._fresh = {}, True
        event = self._event
        track = self._number(event["track_uuid"], uuids)
        begin = wire.join(
            self._interned(batch["category"], "event_categories", event["category_iids"]),
            *self._annotations(batch),
            self._begin,
            self._interned(batch["name"], "event_names", event["name_iid"]),
            track,
            *self._flows(batch),
        )
        end = wire.join(self._end, track)
        rows = wire.join(
            self._packets(batch["start_ns"], begin, self._flags),
            self._packets(batch["end_ns"], end),
        )
        self._write_strings()
        self._file.write(wire.raw(rows))

    def samples(self, batch: pa.RecordBatch, uuids: npt.NDArray[np.int64]) -> None:
        """Write the samples of a batch, the uuid of the counter track of each beside it."""
        value = wire.doubles(np.asarray(batch["value"], dtype=np.float64))
        number = self._event["double_counter_value"]
        event = wire.join(
            self._sample,
            self._number(self._event["track_uuid"], uuids),
            wire.field(number, wire.FIXED64, value),
        )
        self._file.write(wire.raw(self._packets(batch["at_ns"], event)))

    def _packets(self, at: pa.Array, event: Binary, flags: bytes = b"") -> Binary:
        body = wire.join(
            self._number(self._packet["timestamp"], np.asarray(at)),
            self._sequence,
            wire.message(self._packet["track_event"], event),
            flags,
        )
        return wire.message(self._trace, body)

    def _number(self, field: int, values: npt.NDArray[np.int64]) -> Binary:
        return wire.field(field, wire.VARINT, wire.varints(values))

    def _annotations(self, batch: pa.RecordBatch) -> list[Binary]:
        notes = []
        for field in batch.schema:
            column = batch[field.name]
            if field.name in NOT_ANNOTATED or column.null_count == len(column):
                continue
            iid = self._iids("debug_annotation_names", [field.name])[0]
            name = wire.tag(self._note["name_iid"], wire.VARINT) + wire.varint_bytes(iid)
            missing = np.asarray(column.is_null())
            if pa.types.is_integer(field.type):
                number = self._note["int_value"]
                numbers = np.asarray(column.fill_null(0))
            else:
                number = self._note["string_value_iid"]
                numbers = self._numbers(column, "debug_annotation_string_values")
            head = name + wire.tag(number, wire.VARINT)
            body = pc.binary_join_element_wise(head, wire.varints(numbers, missing), b"")
            notes.append(wire.message(self._event["debug_annotations"], body))
        return notes

    def _flows(self, batch: pa.RecordBatch) -> list[Binary]:
        number = self._event["flow_ids"]
        flows = []
        names = batch.schema.names
        if "collective_ids" in names and batch["collective_ids"].null_count < len(batch):
            column = batch["collective_ids"]
            lengths = np.asarray(pc.list_value_length(column).fill_null(0))
            offsets = np.append(0, np.cumsum(lengths))
            flows.append(wire.fixed64_fields(number, np.asarray(pc.list_flatten(column)), offsets))
        if "launch_id" in names and batch["launch_id"].null_count < len(batch):
            column = batch["launch_id"]
            offsets = np.append(0, np.cumsum(np.asarray(column.is_valid())))
            launches = np.asarray(column.drop_null()) + LAUNCH_FLOW
            flows.append(wire.fixed64_fields(number, launches, offsets))
        return flows

    def _interned(self, column: pa.Array, table: str, field: int) -> Binary:
        missing = np.asarray(column.is_null())
        iids = self._numbers(column, table)
        return wire.field(field, wire.VARINT, wire.varints(iids, missing))

    def _numbers(self, column: pa.Array, table: str) -> npt.NDArray[np.int64]:
        """Return the interned number of every string; 0 for null."""
        encoded = column.dictionary_encode()
        iids = self._iids(table, encoded.dictionary.to_pylist())
        codes = np.asarray(encoded.indices.fill_null(len(iids)))
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
