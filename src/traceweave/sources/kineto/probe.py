"""Recognize a Kineto file and read what it says of itself, without loading its events."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from traceweave.sources.kineto.properties import Properties, parse_properties
from traceweave.sources.kineto.stream import EventStream
from traceweave.sources.model import Process, Trace

_TOP_LEVEL_KEYS = (
    b'"traceEvents"',
    b'"schemaVersion"',
    b'"deviceProperties"',
    b'"distributedInfo"',
)

_TENSORBOARD_NAME = re.compile(r"(?P<host>.+)_(?P<pid>\d+)\.\d{13,}\.pt\.trace\.json(\.gz)?")
"""torch.profiler.tensorboard_trace_handler names its files HOST_PID.TIME.pt.trace.json."""

_TIME = re.compile(rb'"ts"\s*:\s*"?(-?\d+)(?:\.(\d{1,3})\d*)?"?\s*[,}]')
_HOST_EVENT_PID = re.compile(
    rb'"cat"\s*:\s*"(?:cpu_op|user_annotation|cuda_runtime)".*?"pid"\s*:\s*(\d+)', re.S
)


def recognize(path: Path, head: bytes) -> bool:
    """Tell whether a file is a Kineto (Chrome) trace from its first bytes, unpacked."""
    text = head.lstrip(b"\xef\xbb\xbf \t\r\n")
    if text.startswith(b"{"):
        return any(key in text for key in _TOP_LEVEL_KEYS)
    return text.startswith(b"[") and b'"ph"' in text


def probe(path: Path) -> Trace:
    """Read the top level of a Kineto file and the times of its first and last event.

    The file is read to its end, since newer torch writes part of the top level after the events;
    nothing is parsed.

    Raises:
        InputError: the file has no traceEvents array, or cannot be read.
    """
    with open(path, "rb") as file:
        stream = EventStream(file)
        extent = _Extent()
        for block in stream.blocks():
            extent.look_at(block)
    properties = parse_properties(stream.head, stream.tail)
    host, pid = _named_host(path.name)
    process = Process(
        key=0,
        rank=properties.rank,
        rank_source=None if properties.rank is None else "distributedInfo",
        world_size=properties.world_size,
        host=properties.host or host,
        pid=extent.pid or pid,
        gpu_names=properties.gpu_names,
        backend=properties.backend,
        nccl_version=properties.nccl_version,
    )
    return Trace(
        path=path,
        format="kineto",
        size_bytes=path.stat().st_size,
        processes=(process,),
        producer="PyTorch Profiler",
        first_ns=extent.first_ns(properties),
        last_ns=extent.last_ns(properties),
        notes=() if stream.damaged is None else (stream.damaged,),
    )


@dataclass
class _Extent:
    """The range of event times seen so far in a sample of each block, microseconds as the file has
    them.
    """

    first: tuple[int, int] | None = None
    last: tuple[int, int] | None = None
    pid: int | None = None

    def look_at(self, block: bytes) -> None:
        """Take the times of the beginning and the end of a block into account."""
        for sample in (block[:65536], block[-65536:]):
            for whole, decimals in _TIME.findall(sample):
                time = (int(whole), int(decimals.ljust(3, b"0") or 0))
                self.first = time if self.first is None else min(self.first, time)
                self.last = time if self.last is None else max(self.last, time)
        if self.pid is None and (match := _HOST_EVENT_PID.search(block, 0, 65536)):
            self.pid = int(match[1])

    def first_ns(self, properties: Properties) -> int | None:
        return _epoch_ns(self.first, properties)

    def last_ns(self, properties: Properties) -> int | None:
        return _epoch_ns(self.last, properties)


def _epoch_ns(time: tuple[int, int] | None, properties: Properties) -> int | None:
    if time is None or abs(time[0]) > 4 * 10**15:
        return None
    return properties.base_ns + time[0] * 1000 + time[1]


def _named_host(name: str) -> tuple[str | None, int | None]:
    match = _TENSORBOARD_NAME.fullmatch(name)
    return (match["host"], int(match["pid"])) if match else (None, None)
