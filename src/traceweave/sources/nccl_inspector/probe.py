"""Recognize a file of NCCL Inspector."""

from __future__ import annotations

import re
from pathlib import Path

from traceweave.sources.model import Trace
from traceweave.sources.unpack import bomb_bytes, read_head

_HEAD_BYTES = 64 * 1024

_VERSION = re.compile(rb'"inspector_output_format_version"\s*:\s*"v?([\d.]{1,20})"')


def recognize(path: Path, head: bytes) -> bool:
    """Tell whether a file has Inspector's records from its first bytes, unpacked."""
    first = head.lstrip().partition(b"\n")[0]
    return first.startswith(b"{") and b'"header"' in first and _VERSION.search(first) is not None


def probe(path: Path, trust_packed: bool = False, with_times: bool = True) -> Trace:
    """Describe a file. Its records say which processes they are of, so it has no rank itself."""
    version = _VERSION.search(read_head(path, _HEAD_BYTES))
    return Trace(
        path=path,
        format="nccl_inspector",
        size_bytes=path.stat().st_size,
        processes=(),
        producer="NCCL Inspector",
        producer_version=version[1].decode() if version else None,
        most_bytes=None if trust_packed else bomb_bytes(path),
        beside=True,
    )
