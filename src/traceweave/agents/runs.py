"""The runs below one folder, and nothing outside of it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from traceweave.errors import UsageError, suggest
from traceweave.store.manifest import MANIFEST

MOST_RUNS = 200
"""Runs that a list holds."""


class Runs:
    """Finds runs by their names relative to a folder. Raises UsageError if it is none."""

    def __init__(self, root: Path) -> None:
        if not root.is_dir():
            raise UsageError(f"{root}: is no folder; name the one that holds the runs")
        self.root = root.resolve()

    def path(self, name: str) -> Path:
        """Return where a run is. Raises UsageError for what is outside of the folder."""
        try:
            path = (self.root / name).resolve()  # through links, which may lead elsewhere
        except (OSError, ValueError) as error:
            raise UsageError(f"{name!r} is no name of a run") from error
        if not path.is_relative_to(self.root):
            raise UsageError(f"{name!r} is outside of the folder that is served")
        return path

    def find(self, name: str) -> Path:
        """Return where a run is that is there. Raises UsageError if it is none, or outside."""
        path = self.path(name)
        # not Path.is_file: it raises for a name that is too long for one
        if not (os.path.isfile(path) or os.path.isfile(path / MANIFEST)):
            hint = suggest(name, [run["run"] for run in self.newest()])
            raise UsageError(f"there is no run {name!r}{hint or ';'} list_runs has their names")
        return path

    def newest(self) -> list[dict[str, str]]:
        """Return the names of runs and when they were written, newest first, at most MOST_RUNS."""
        found = [(path.stat().st_mtime, path.relative_to(self.root)) for path in self._walk()]
        found.sort(key=lambda run: (-run[0], run[1]))
        return [
            {"run": path.as_posix(), "written_utc": datetime.fromtimestamp(time, UTC).isoformat()}
            for time, path in found[:MOST_RUNS]
        ]

    def _walk(self) -> Iterator[Path]:
        """Yield database files, by their usual suffix, and run folders, without following links."""
        for folder, folders, files in os.walk(self.root):
            here = Path(folder)
            if MANIFEST in files:
                folders.clear()
                yield here
                continue
            folders[:] = [name for name in folders if not name.startswith(".")]
            databases = (here / name for name in files if name.endswith(".duckdb"))
            yield from (path for path in databases if not path.is_symlink())
