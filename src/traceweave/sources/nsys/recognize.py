"""What an nsys export looks like from outside, and telling one from other files: a SQLite file,
packed or not, or a folder of tables.

Nothing here imports Arrow before it has to: a run of Kineto files has no use for it.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from traceweave.errors import InputError
from traceweave.sources.elsewhere import place_at
from traceweave.sources.unpack import bomb_bytes, read_head

SQLITE_MAGIC = b"SQLite format 3\x00"
TABLE_SUFFIXES = (".parquet", ".arrow")
SIGNS = ("StringIds", "META_DATA_EXPORT", "TARGET_INFO_SESSION_START_TIME", "ENUM_NSYS_EVENT_TYPE")
"""A folder that holds two of these tables is an export; the first is in every one."""

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
        from traceweave.sources.nsys.sqlite_reader import open_sqlite

        with open_sqlite(path, bomb_bytes(path)) as export:
            names = [name.encode() for name in export.tables]
    except InputError:
        return False
    return "StringIds" in export.tables and any(n.startswith(_OURS) for n in names)


def is_export_folder(path: Path) -> bool:
    """Tell whether the folder is an export, from the names of its files."""
    found = [sign + suffix for suffix in TABLE_SUFFIXES for sign in SIGNS]
    return are_export([name for name in found if (path / name).is_file()])


def are_export(names: Collection[str]) -> bool:
    """Tell whether files of these names, all in one folder, are an export."""
    return any(sum(s + suffix in names for s in SIGNS) >= 2 for suffix in TABLE_SUFFIXES)
