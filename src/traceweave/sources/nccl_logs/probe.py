"""Recognize a log, and say which library wrote it."""

from __future__ import annotations

import re
from pathlib import Path

from traceweave.sources.model import Trace
from traceweave.sources.unpack import bomb_bytes, read_head

_HEAD_BYTES = 256 * 1024

_LINE = re.compile(rb"[^\s:]:\d{1,10}:\d{1,10} \[\d{1,4}\] (?:[\w./]+:\d+ )?NCCL (?:INFO|WARN) ")
_VERSION = re.compile(rb"\b([NR]CCL) version ?:? ?(\d+\.\d+\.\d+)")


def recognize(path: Path, head: bytes) -> bool:
    """Tell whether a file is a log of NCCL's, or has one in it, from its first bytes, unpacked."""
    # the words first: the pattern alone takes a millisecond of a file that has none of them
    return (
        b"NCCL " in head
        and head.lstrip()[:1] not in (b"{", b"\x80")
        and _LINE.search(head) is not None
    )


def probe(path: Path, trust_packed: bool = False, with_times: bool = True) -> Trace:
    """Describe a log. Its lines say which processes wrote them; it has no rank, and no times."""
    version = _VERSION.search(read_head(path, _HEAD_BYTES))
    return Trace(
        path=path,
        format="nccl_log",
        size_bytes=path.stat().st_size,
        processes=(),
        producer=version[1].decode() if version else "NCCL",
        producer_version=version[2].decode() if version else None,
        most_bytes=None if trust_packed else bomb_bytes(path),
        beside=True,
    )
