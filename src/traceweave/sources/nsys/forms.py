"""What an nsys export looks like from outside: a SQLite file, packed or not, or a folder of tables.

Nothing here imports Arrow, which a run of Kineto files has no use for.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

SQLITE_MAGIC = b"SQLite format 3\x00"
TABLE_SUFFIXES = (".parquet", ".arrow")
SIGNS = ("StringIds", "META_DATA_EXPORT", "TARGET_INFO_SESSION_START_TIME", "ENUM_NSYS_EVENT_TYPE")
"""A folder that holds two of these tables is an export; the first is in every one."""


def is_export_folder(path: Path) -> bool:
    """Tell whether the folder is an export, from the names of its files."""
    found = [sign + suffix for suffix in TABLE_SUFFIXES for sign in SIGNS]
    return are_export([name for name in found if (path / name).is_file()])


def are_export(names: Collection[str]) -> bool:
    """Tell whether files of these names, all in one folder, are an export."""
    return any(sum(s + suffix in names for s in SIGNS) >= 2 for suffix in TABLE_SUFFIXES)
