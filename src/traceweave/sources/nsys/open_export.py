"""Opening an export in whichever form it has."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path

from traceweave.sources.nsys.export import Export
from traceweave.sources.nsys.folder_reader import open_folder
from traceweave.sources.nsys.sqlite_reader import open_sqlite


def open_export(path: Path, most_bytes: int | None = None) -> AbstractContextManager[Export]:
    """Open a SQLite file, packed or not, or a folder of tables, for reading only.

    Raises InputError if it is neither, or unpacks to more than `most_bytes`.
    """
    return open_folder(path) if path.is_dir() else open_sqlite(path, most_bytes)
