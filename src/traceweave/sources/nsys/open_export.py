"""Opening an export in whichever form it has."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path

from traceweave.sources.nsys.export import Export


def open_export(path: Path, most_bytes: int | None = None) -> AbstractContextManager[Export]:
    """Open a SQLite file, packed or not, or a folder of tables, for reading only.

    Raises InputError if it is neither, or unpacks to more than `most_bytes`.
    """
    # each with what it needs: of Arrow's parts some take as long as a small file
    if path.is_dir():
        from traceweave.sources.nsys.folder_reader import open_folder

        return open_folder(path)
    from traceweave.sources.nsys.sqlite_reader import open_sqlite

    return open_sqlite(path, most_bytes)
