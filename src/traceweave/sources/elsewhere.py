"""Trace files in object storage, as paths: what reads a file reads them as streams."""

from __future__ import annotations

import os
import shutil
import stat
import sys
from collections.abc import Callable, Collection, Iterator
from fnmatch import fnmatch
from pathlib import Path, PosixPath
from typing import Any

from traceweave.errors import InputError
from traceweave.locations import shown
from traceweave.places import BUFFER_BYTES, Place, place_of


class Elsewhere(PosixPath):
    """The path of a file that is not on this machine. It can be opened for reading, and knows its
    name and size; as text it is its URL, without what is secret in it.
    """

    place: Place

    # the class takes another argument than its base does, which hands its own to both of these
    def __new__(cls, place: Place) -> Elsewhere:  # noqa: D102
        path = super().__new__(cls, place.shown)
        path.place = place
        return path

    def __init__(self, place: Place) -> None:
        if sys.version_info >= (3, 12):
            super().__init__(place.shown)

    def __reduce__(self) -> Any:
        return type(self), (self.place,)

    def __eq__(self, other: object) -> bool:
        # what is shown of two places may be the same
        return isinstance(other, Elsewhere) and self.place.identity == other.place.identity

    def __hash__(self) -> int:
        return hash(self.place.identity)

    def __str__(self) -> str:
        return self.place.shown if hasattr(self, "place") else super().__str__()

    def with_segments(self, *segments: str | os.PathLike[str]) -> Path:
        """Return what is derived from it: a path that names nothing."""
        return Path(*segments)

    def open(self, *_: Any, **__: Any) -> Any:
        """Return the file's bytes as a stream, a context manager. Raises OSError."""
        return self.place.reading()

    def stat(self, *, follow_symlinks: bool = True) -> os.stat_result:
        """Return its size; no numbers tell it from other files, its place does. Raises OSError."""
        size = self.place.size()
        if size is None:
            raise FileNotFoundError(2, "No such file", str(self))
        return os.stat_result((stat.S_IFREG | 0o444, 0, -1, 1, 0, 0, size, 0, 0, 0))

    def is_dir(self, **_: Any) -> bool:
        """Tell that it is a file."""
        return False

    def absolute(self) -> Elsewhere:
        """Return itself: a URL does not depend on the current folder."""
        return self


def place_at(path: Path) -> Place | None:
    """Return the place of a file that is not on this machine."""
    return path.place if isinstance(path, Elsewhere) else None


def copied(path: Path, folder: Path) -> Path:
    """Return a file of this machine: the file itself, or a copy of one elsewhere in `folder`.

    Raises OSError.
    """
    if place_at(path) is None:
        return path
    copy = folder / path.name
    with path.open("rb") as stream, copy.open("wb") as file:
        shutil.copyfileobj(stream, file, BUFFER_BYTES)
    return copy


class ElsewhereFolder(Elsewhere):
    """A folder whose files are one trace."""

    def __truediv__(self, name: str | os.PathLike[str]) -> Elsewhere:  # type: ignore[override]
        return Elsewhere(self.place / str(name))

    def iterdir(self) -> Iterator[Elsewhere]:  # type: ignore[override]
        """Yield the files in it. Raises OSError."""
        return (self / name for name in sorted(self.place.files()) if "/" not in name)

    def stat(self, *, follow_symlinks: bool = True) -> os.stat_result:
        """Tell that it is a folder, and no more."""
        return os.stat_result((stat.S_IFDIR | 0o555, 0, -1, 1, 0, 0, 0, 0, 0, 0))

    def is_dir(self, **_: Any) -> bool:
        """Tell that it is a folder."""
        return True


def find_elsewhere(name: str | Path, is_trace: Callable[[Collection[str]], bool]) -> Iterator[Path]:
    """Yield the files that a URL names: itself, those below it, or those that match it; a folder in
    place of its files where their names say that it `is_trace` as a whole.

    Raises InputError if there are none.
    """
    folder, pattern = _split(str(name))
    place = place_of(folder)
    try:
        if not pattern and place.size() is not None:
            yield Elsewhere(place)
            return
        files = sorted(place.files())
    except OSError as error:
        raise InputError(f"{shown(name)}: cannot be read: {error}") from None
    chosen = [
        file
        for file in files
        if not any(part.startswith(".") for part in file.split("/"))
        and (not pattern or fnmatch(file, pattern) or fnmatch(file, f"{pattern}/*"))
    ]
    if not chosen:
        raise InputError(f"{shown(name)}: no such file or folder, and no file matches it")
    folders: dict[str, list[str]] = {}
    for file in chosen:
        at, _, last = file.rpartition("/")
        folders.setdefault(at, []).append(last)
    for at, names in folders.items():
        below = place / at if at else place
        if is_trace(names):
            yield ElsewhereFolder(below)
        else:
            yield from (Elsewhere(below / last) for last in names)


def _split(name: str) -> tuple[str, str]:
    """Part the folder that a glob begins with from the rest; '' if it is no glob."""
    if name.lower().startswith("http"):  # whose ? begins a query
        return name, ""
    parts = name.split("/")
    for i, part in enumerate(parts):
        if any(c in part for c in "*?["):
            return "/".join(parts[:i]), "/".join(parts[i:])
    return name, ""
