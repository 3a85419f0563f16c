"""Telling an nsys export from other files."""

from __future__ import annotations

from pathlib import Path

from traceweave.errors import InputError
from traceweave.sources.elsewhere import place_at
from traceweave.sources.nsys.forms import SQLITE_MAGIC, is_export_folder
from traceweave.sources.unpack import bomb_bytes, read_head

_OURS = (b"CUPTI_ACTIVITY_KIND_", b"NVTX_EVENTS", b"TARGET_INFO_", b"OSRT_API", b"SCHED_EVENTS")
_PEEK_BYTES = 8 << 20


def recognize(path: Path, head: bytes) -> bool:
    """Tell whether a file (or folder) is an nsys export; `head` is its start, unpacked."""
    if path.is_dir():
        return is_export_folder(path)
    if not head.startswith(SQLITE_MAGIC):
        return False
    peek = read_head(path, _PEEK_BYTES)
    if b"StringIds" in peek and any(name in peek for name in _OURS):
        return True
    if place_at(path) is not None:  # of which only the beginning is looked at
        return False
    try:
        from traceweave.sources.nsys.open_export import open_export

        with open_export(path, bomb_bytes(path)) as export:
            names = [name.encode() for name in export.tables]
    except InputError:
        return False
    return "StringIds" in export.tables and any(n.startswith(_OURS) for n in names)
