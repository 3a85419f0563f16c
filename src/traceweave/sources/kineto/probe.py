"""Recognize a Kineto file and read what it says of itself, without loading its events."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import duckdb

from traceweave.sources.kineto.parts import merged, part_events, told
from traceweave.sources.kineto.properties import Properties, parse_properties
from traceweave.sources.kineto.reader import Reading, count_events, read_events, stage_events
from traceweave.sources.kineto.stream import EventStream
from traceweave.sources.model import WALL_CLOCK_NS, Process, Trace
from traceweave.sources.unpack import bomb_bytes
from traceweave.sources.values import LATEST_NS

_TOP_LEVEL_KEYS = (
    b'"traceEvents"',
    b'"schemaVersion"',
    b'"deviceProperties"',
    b'"distributedInfo"',
)

_BLOCK_BYTES = 4 << 20
_SAMPLE_BYTES = 16 << 10
"""Of both ends of every block, to see times."""

_PID_EVERY_BYTES, _PID_BYTES = 64 << 10, 4 << 10
"""How often so much is looked at to see whose events there are: a rank's take more."""

_TENSORBOARD_NAME = re.compile(
    r"(?P<host>[A-Za-z0-9][A-Za-z0-9.-]*)_(?P<pid>\d{1,18})\.\d{13,}\.pt\.trace\.json(\.gz)?"
)
"""torch.profiler.tensorboard_trace_handler names its files HOST_PID.TIME.pt.trace.json, or
NAME.TIME.pt.trace.json with a name that the user gave it. No host's name has an underscore."""

_NO_HOST = re.compile(r"((global|local)-?)?(rank|worker|step|iter|iteration|epoch)-?\d*", re.I)
"""What users name files after."""

_SPAN_TIME = re.compile(rb'"ts"\s*:\s*"?(-?\d{1,18})(?:\.(\d{1,3})\d*)?"?\s*,\s*"dur"')
"""Marks and metadata may carry times far outside the recording, spans do not."""

_PID = re.compile(rb'"pid"\s*:\s*(?:(\d{1,18})|"([^"]{1,200})")\s*[,}]')
_ISSUER = re.compile(
    rb'"cat"\s*:\s*"(?:cpu_op|cuda_runtime|hip_runtime)"[^{}]*?"pid"\s*:\s*(\d{1,18})\s*[,}]'
)
_DEVICES = 64
"""Numbers below are those of devices, which have a pid as well."""

_ANY_TIME = re.compile(rb'"ts"\s*:\s*"?(-?\d{1,18})(?:\.(\d{1,3})\d*)?"?\s*[,}]')
_HOST_EVENT_PID = re.compile(
    rb'"cat"\s*:\s*"(?:cpu_op|user_annotation|cuda_runtime)".*?"pid"\s*:\s*(\d{1,18})\b', re.S
)


def recognize(path: Path, head: bytes) -> bool:
    """Tell whether a file is a Kineto (Chrome) trace from its first bytes, unpacked."""
    text = head.lstrip(b"\xef\xbb\xbf \t\r\n")
    if text.startswith(b"{"):
        return any(key in text for key in _TOP_LEVEL_KEYS)
    return text.startswith(b"[") and b'"ph"' in text


def probe(path: Path, trust_packed: bool = False, with_times: bool = True) -> Trace:
    """Read the top level of a Kineto file and, `with_times`, those of its first and last event.

    Of a file that seems to be merged of several ranks' all events are read, to tell them apart.
    Times need the file to be read to its end, though nothing is parsed: some versions of torch
    write their base after the events. Without them, the head is enough where it tells the rank;
    then the time of the first event is given if the head tells it.

    Raises:
        InputError: the file has no traceEvents array, cannot be read, or unpacks to an absurd size
            and is not trusted; or it holds several processes that nothing tells apart.
    """
    most_bytes = None if trust_packed else bomb_bytes(path)
    with path.open("rb") as file:
        stream = EventStream(file, block_bytes=_BLOCK_BYTES, most_bytes=most_bytes)
        extent = _Extent()
        for block in stream.blocks():
            extent.look_at(block)
            head_tells = extent.blocks == 1 and extent.pid is not None and not extent.seems_merged
            if head_tells and not with_times:
                properties = parse_properties(stream.head, b"")
                if properties.process.rank is not None:
                    return _of_head(_trace(path, properties, extent, most_bytes))
    trace = _trace(path, parse_properties(stream.head, stream.tail), extent, most_bytes)
    return _told_apart(trace) if extent.seems_merged else trace


def _told_apart(trace: Trace) -> Trace:
    """Return the trace with all of its processes, if several issue work."""
    with duckdb.connect() as con:
        stage_events(con)
        reading = read_events(con, trace, lambda _: None)
        count_events(con)
        if not merged(con):
            return trace
        (known,) = trace.processes
        parts = part_events(con, 0, known, damaged=wrote_at_once(reading))
    return replace(trace, processes=parts, notes=(*trace.notes, told(parts)))


def wrote_at_once(reading: Reading) -> bool:
    """Tell whether there is damage between events, and not only where the file ends."""
    return reading.unparsed.count > int(reading.cut_short)


def _of_head(trace: Trace) -> Trace:
    """Return what the head alone tells: when it begins, if the base of its times came before."""
    begun = trace.first_ns is not None and trace.first_ns >= WALL_CLOCK_NS
    return replace(trace, first_ns=trace.first_ns if begun else None, last_ns=None)


def _trace(path: Path, properties: Properties, extent: _Extent, most_bytes: int | None) -> Trace:
    first_ns, last_ns = extent.epoch_ns(properties.base_ns)
    process = describe_process(path, properties, extent.pid)
    return Trace(
        path=path,
        format="kineto",
        size_bytes=path.stat().st_size,
        processes=(process,) if extent.blocks else (),
        producer="PyTorch Profiler",
        first_ns=first_ns,
        last_ns=last_ns,
        most_bytes=most_bytes,
        versions=properties.versions,
        notes=tuple(_notes(properties, extent)),
    )


def _notes(properties: Properties, extent: _Extent) -> Iterator[str]:
    if not extent.blocks:
        rank = properties.process.rank
        of = "" if rank is None else f" of rank {rank}"
        yield f"it holds no events: nothing{of} was recorded"
    elif properties.no_rank is not None:
        yield (
            f"its distributedInfo says rank {properties.no_rank}, which is not a rank:"
            " its name decides, or --rank"
        )


def describe_process(path: Path, properties: Properties, pid: int | None) -> Process:
    """Return the file's process, as its top level, its events (`pid`) or else its name tell."""
    host, named_pid = _named_host(path.name.encode("utf-8", "replace").decode(), pid)
    told = properties.process
    return replace(told, host=told.host or host, pid=pid or named_pid)


@dataclass
class _Extent:
    """The times and the process that a sample of each block shows."""

    blocks: int = 0
    """How many were seen; none in a file without events."""
    spans: list[int] = field(default_factory=list)
    """First and last of the spans seen so far, in ns; empty before the first."""
    any: list[int] = field(default_factory=list)
    """The same of all events, for files without spans."""
    pid: int | None = None
    processes: set[bytes] = field(default_factory=set)
    """Pids that are no numbers of devices."""
    labels: set[bytes] = field(default_factory=set)
    """What stands before a pid that is text: '[TP00' of '[TP00] 1234'."""

    @property
    def seems_merged(self) -> bool:
        """Whether events are of several processes, as far as the samples show."""
        return len(self.processes) > 1 or len(self.labels) > 1

    def look_at(self, block: bytes) -> None:
        """Take the beginning and the end of a block into account."""
        self.blocks += 1
        for sample in (block[:_SAMPLE_BYTES], block[-_SAMPLE_BYTES:]):
            self.spans = _extended(self.spans, _SPAN_TIME.findall(sample))
            self.any = _extended(self.any, _ANY_TIME.findall(sample))
        for at in range(0, len(block), _PID_EVERY_BYTES):
            self._look_whose(block[at : at + _PID_BYTES])
        if self.pid is None and (match := _HOST_EVENT_PID.search(block, 0, _SAMPLE_BYTES)):
            self.pid = int(match[1])

    def _look_whose(self, sample: bytes) -> None:
        self.processes.update(_ISSUER.findall(sample))
        for number, text in _PID.findall(sample):
            if not (number or text).isdigit():
                self.labels |= {text} if re.search(rb"\d", text) else set()
            elif int(number or text) >= _DEVICES:
                self.processes.add(number or text)

    def epoch_ns(self, base_ns: int) -> tuple[int | None, int | None]:
        """Return first and last time; None where the file has none that makes sense."""
        extent = self.spans or self.any
        if not extent or any(abs(ns) > LATEST_NS for ns in extent):
            return None, None
        return base_ns + extent[0], base_ns + extent[1]


def _extended(extent: list[int], found: list[tuple[bytes, bytes]]) -> list[int]:
    times = [int(us) * 1000 + int(decimals.ljust(3, b"0")) for us, decimals in found]
    return [min(extent + times), max(extent + times)] if times else extent


def _named_host(name: str, pid: int | None) -> tuple[str | None, int | None]:
    """Return host and process id that a file name tells, where its events do not contradict it."""
    match = _TENSORBOARD_NAME.fullmatch(name)
    if match is None or _NO_HOST.fullmatch(match["host"]):
        return None, None
    named_pid = int(match["pid"])
    return (match["host"], named_pid) if pid in (None, named_pid) else (None, None)
