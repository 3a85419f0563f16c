"""Files and folders wherever they are, behind the file systems of pyarrow."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO

from pyarrow import fs

from traceweave.outputs import write_whole


@dataclass(frozen=True)
class Place:
    """A file or folder, which may not exist yet."""

    system: fs.FileSystem
    path: str
    """Its name in that file system."""
    shown: str
    """As the user named it."""

    def __str__(self) -> str:
        return self.shown

    def __truediv__(self, name: str) -> Place:
        return replace(self, path=f"{self.path}/{name}", shown=f"{self.shown}/{name}")

    @property
    def local(self) -> Path | None:
        """Its path on this machine; None if it is elsewhere."""
        return Path(self.path) if isinstance(self.system, fs.LocalFileSystem) else None

    def size(self) -> int | None:
        """Return the size of the file in bytes; None if there is none."""
        info = self.system.get_file_info(self.path)
        return int(info.size) if info.is_file else None

    def files(self) -> dict[str, int]:
        """Return the size in bytes of every file below the folder, by its path in it."""
        below = fs.FileSelector(self.path, allow_not_found=True, recursive=True)
        return {
            info.path[len(self.path) :].lstrip("/"): int(info.size)
            for info in self.system.get_file_info(below)
            if info.is_file
        }

    @contextmanager
    def reading(self) -> Iterator[IO[bytes]]:
        """Yield the file's bytes as a stream. Raises OSError."""
        with self.system.open_input_stream(self.path, compression=None) as stream:
            yield stream

    @contextmanager
    def writing(self) -> Iterator[IO[bytes]]:
        """Yield a stream that becomes the file. Raises OSError."""
        if self.local is not None:
            # not its parents: a folder that was given up stays gone, whoever still writes for it
            self.local.parent.mkdir(exist_ok=True)
        with self.system.open_output_stream(self.path, compression=None) as stream:
            yield stream

    def write_whole(self, data: bytes) -> None:
        """Write the file in one stroke: what was there is replaced, or stays as it was."""
        if self.local is not None:
            write_whole(self.local, data)
        else:
            with self.writing() as stream:
                stream.write(data)

    def remove(self) -> None:
        """Remove the file. Raises OSError."""
        self.system.delete_file(self.path)


def place_of(name: str | Path | Place) -> Place:
    """Return the place that a user names."""
    if isinstance(name, Place):
        return name
    return Place(fs.LocalFileSystem(), os.path.abspath(name), str(name))
