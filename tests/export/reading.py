"""A second reader of Perfetto traces: protobuf's own parser and a stack per track.

It does what Perfetto's trace processor does with begin and end events (sort by time, keep the
order of the file where times are equal, an end closes the top of its track's stack), and rejects
whatever that one would drop, cut short or misplace."""

from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as protos

DEEPEST = 512
"""Perfetto drops slices that are nested deeper."""


@dataclass
class Slice:
    track: int
    start: int
    end: int
    name: str | None
    category: str | None
    notes: dict[str, int | str]
    flows: tuple[int, ...]
    depth: int


@dataclass
class Timeline:
    tracks: dict[int, Any] = field(default_factory=dict)
    slices: list[Slice] = field(default_factory=list)
    samples: dict[int, list[tuple[int, float]]] = field(default_factory=lambda: defaultdict(list))

    def path(self, uuid: int) -> tuple[str, str]:
        """Return (process name, track name)."""
        track = self.tracks[uuid]
        return self.tracks[track.parent_uuid].process.process_name, track.name

    def rank(self, uuid: int) -> int:
        pid: int = self.tracks[self.tracks[uuid].parent_uuid].process.pid
        return pid

    def on(self, name: str, rank: int = 0) -> list[Slice]:
        """Return the slices of the track of that name, in order of time."""
        return [
            s for s in self.slices if self.path(s.track)[1] == name and self.rank(s.track) == rank
        ]

    def by_op(self) -> dict[int, Slice]:
        found = {int(s.notes["op_id"]): s for s in self.slices if "op_id" in s.notes}
        assert len(found) == sum("op_id" in s.notes for s in self.slices), "an op is there twice"
        return found


def read(path: Path) -> Timeline:
    data = path.read_bytes()
    trace = protos.Trace.FromString(data)
    assert trace.SerializeToString() == data, "not the bytes that the protobuf classes write"
    timeline = Timeline()
    events = []
    interned: dict[tuple[str, int], str] = {}
    for packet in trace.packet:
        assert packet.trusted_packet_sequence_id == 1
        if packet.sequence_flags & packet.SEQ_INCREMENTAL_STATE_CLEARED:
            interned = {}
        for table in ("event_names", "event_categories", "debug_annotation_names"):
            for entry in getattr(packet.interned_data, table):
                assert (table, entry.iid) not in interned
                interned[table, entry.iid] = entry.name
        for entry in packet.interned_data.debug_annotation_string_values:
            interned["strings", entry.iid] = entry.str.decode()
        if packet.HasField("track_descriptor"):
            assert packet.track_descriptor.uuid not in timeline.tracks
            timeline.tracks[packet.track_descriptor.uuid] = packet.track_descriptor
        if packet.HasField("track_event"):
            events.append((packet.timestamp, _event(packet, interned)))
            assert packet.track_event.track_uuid in timeline.tracks, "event before its track"
    _replay(events, timeline)
    return timeline


def _event(packet: Any, interned: dict[tuple[str, int], str]) -> Any:
    event = packet.track_event
    if event.type == event.TYPE_SLICE_BEGIN:
        assert packet.sequence_flags & packet.SEQ_NEEDS_INCREMENTAL_STATE
        notes: dict[str, int | str] = {}
        for note in event.debug_annotations:
            name = interned["debug_annotation_names", note.name_iid]
            assert name not in notes
            if note.HasField("int_value"):
                notes[name] = note.int_value
            else:
                notes[name] = interned["strings", note.string_value_iid]
        name = interned["event_names", event.name_iid] if event.name_iid else None
        [category] = [interned["event_categories", iid] for iid in event.category_iids] or [None]
        flows = tuple(event.flow_ids)
        return Slice(event.track_uuid, packet.timestamp, -1, name, category, notes, flows, 0)
    return event


def _replay(events: list[tuple[int, Any]], timeline: Timeline) -> None:
    stacks: dict[int, list[Slice]] = defaultdict(list)
    events.sort(key=lambda event: event[0])  # stable, as Perfetto's sorter is
    for at, event in events:
        if isinstance(event, Slice):
            stack = stacks[event.track]
            event.depth = len(stack)
            assert event.depth < DEEPEST
            stack.append(event)
            timeline.slices.append(event)
        elif event.type == event.TYPE_SLICE_END:
            assert stacks[event.track_uuid], "an end without a begin"
            stacks[event.track_uuid].pop().end = at
        else:
            assert event.type == event.TYPE_COUNTER
            assert timeline.tracks[event.track_uuid].HasField("counter")
            timeline.samples[event.track_uuid].append((at, event.double_counter_value))
    assert not any(stacks.values()), "a slice without an end"
