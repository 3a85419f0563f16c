"""Recognize a dump, and say of which time it is."""

from __future__ import annotations

from pathlib import Path

from traceweave.sources.flight_recorder.dump import read_dump
from traceweave.sources.model import Process, Trace

_OWN_KEYS = (b"pg_config", b"pg_status", b"profiling_name")
_KEYS = (*_OWN_KEYS, b"entries", b"version")


def recognize(path: Path, head: bytes) -> bool:
    """Tell whether a file is a dump from its first bytes: a pickle or JSON with a dump's keys."""
    is_pickle = head[:1] == b"\x80" and head[1:2] in b"\x02\x03\x04\x05"
    if not is_pickle and not head.lstrip().startswith(b"{"):
        return False
    return any(key in head for key in _OWN_KEYS) and sum(key in head for key in _KEYS) >= 2


def probe(path: Path, trust_packed: bool = False, with_times: bool = True) -> Trace:
    """Describe a dump, which has to be read whole; nothing inside says its rank.

    Raises:
        InputError: it is damaged, or a pickle that holds more than plain values.
    """
    dump = read_dump(path)
    times = [entry.created_ns for entry in dump.entries if entry.created_ns is not None]
    return Trace(
        path=path,
        format="flight_recorder",
        size_bytes=path.stat().st_size,
        processes=(Process(key=0),),
        producer="torch flight recorder",
        producer_version=dump.version,
        first_ns=min(times, default=None),
        last_ns=max(times, default=None),
        beside=True,
    )
