"""What an output may be written over: never what the command reads, nothing inside a run folder,
and otherwise only what is of the kind that is written, as its first bytes tell.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING

from traceweave.errors import UsageError
from traceweave.locations import is_elsewhere
from traceweave.places import Place, place_of

if TYPE_CHECKING:
    import pyarrow as pa

_HEAD_BYTES = 64 << 10
"""How much of a file tells what it is."""

_RUN_FOLDER = ".tw"
"""What the names of run folders in object storage end in."""

_MANIFEST = "manifest.json"

_STREAMS = re.compile(r"/dev/(stdin|stdout|stderr|fd/.*)|/proc/.*")
"""Names of open files, which others may go on writing to: never renamed over."""


class FileKind(Enum):
    """What files are: those that are written here first, then what is only recognized."""

    PAGE = "a page of traceweave"
    TEXT = "text"
    JSON = "JSON of traceweave"
    PARQUET = "Parquet of traceweave"
    JUNIT = "JUnit XML"
    TIMELINE = "a timeline of Perfetto"
    ARCHIVE = "an archive of traces for Perfetto"
    DATABASE = "a DuckDB database"
    SQLITE = "a SQLite database"
    GZIP = "packed with gzip"
    OTHER_PARQUET = "Parquet of something else"
    MANIFEST = "the manifest of a run folder"
    TRACE = "a trace"
    LOG = "a log of NCCL"
    MARKUP = "a page or XML of something else"
    OTHER_JSON = "JSON of something else"
    OTHER = "of an unknown kind"


_FIRST_BYTES = {
    FileKind.DATABASE: rb".{8}DUCK",
    FileKind.SQLITE: rb"SQLite format 3\0",
    FileKind.GZIP: rb"\x1f\x8b",
    FileKind.PARQUET: rb"PAR1",
    FileKind.ARCHIVE: rb"PK\x03\x04.{26}perfetto_manifest\.json",
    FileKind.TIMELINE: rb"\n.\x32",  # a packet that begins with a snapshot of clocks
    FileKind.PAGE: rb'<!DOCTYPE html>.{,4000}<meta name="generator" content="traceweave',
    FileKind.JUNIT: rb"<\?xml [^>]*\?>\s*<testsuite",
    FileKind.MARKUP: rb"(\xef\xbb\xbf)?\s*<[!?a-zA-Z]",
    FileKind.MANIFEST: rb'\{\s*"version":\s*\d+,\s*"files":',
    FileKind.TRACE: rb'(\xef\xbb\xbf)?\s*[{[].*("traceEvents"|"ph"\s*:\s*"\w")',
    FileKind.JSON: rb'\[\]?\n|\{\n  "',
    FileKind.OTHER_JSON: rb"(\xef\xbb\xbf)?\s*[{[]",
    FileKind.LOG: rb"(.*\n)?[^\n]*:\d+:\d+ \[\d+\] NCCL ",
}
"""In the order in which they are asked."""

_PARQUET_MARK = {"written_by": "traceweave"}
"""What the metadata of a Parquet file says, at its end."""


@contextmanager
def reading(names: Callable[[], Iterable[str | Path]]) -> Iterator[None]:
    """Refuse, until the block ends, to write over these files and over those in these folders.

    They are asked for when something is there that would be written over.
    """
    _read.append(names)
    try:
        yield
    finally:
        _read.remove(names)


_read: list[Callable[[], Iterable[str | Path]]] = []
"""Of the whole process: a file that is read is one for all threads."""


def check_target(target: str | Path | Place, kind: FileKind) -> None:
    """Raise UsageError unless a file of this kind may be written there: it is new, or takes the
    place of one of its kind that nobody reads here.
    """
    place = place_of(target)
    if place.local is not None and is_stream(place.local):
        return
    refuse_what_is_read(place)
    found = kind_of(place)
    if found not in (kind, None):
        raise UsageError(
            f"{place}: exists and is {found.value}, not {kind.value}; remove it, or name another"
            " file"
        )


def refuse_what_is_read(target: str | Path | Place) -> None:
    """Raise UsageError for what is read here or can only be read, and for what is in a run folder
    or is one.
    """
    place = place_of(target)
    if place.is_web:
        raise UsageError(f"{place}: the web is only read; name another place for what is written")
    if folder := _run_folder_of(place):
        raise UsageError(f"{place}: is in the run folder {folder}; name a place outside of it")
    if place.size() is None and not (place.local is not None and place.local.is_dir()):
        return
    if place.identity in set(_identities()):
        raise UsageError(f"{place}: is read by this command; name another file for what it writes")


def kind_of(place: Place) -> FileKind | None:
    """Return what is there by its first bytes; None if nothing is, or nothing is in it.

    Raises UsageError for a folder.
    """
    if place.local is not None and place.local.is_dir():
        raise UsageError(f"{place}: is a folder; name a file, for example {place}/out")
    try:
        if not place.size():
            return None
        with place.reading() as stream:
            found = _kind(stream.read(_HEAD_BYTES))
        if found == FileKind.PARQUET and not _is_marked(place):
            return FileKind.OTHER_PARQUET
    except OSError:  # one may write where one may not read, but not over what one cannot see
        return None if place.local is None else FileKind.OTHER
    return found


def is_stream(path: Path) -> bool:
    """Tell whether a name is that of an open file, a pipe or a device: nothing that is replaced."""
    return _STREAMS.fullmatch(os.path.abspath(path)) is not None or (
        path.exists() and not path.is_file() and not path.is_dir()
    )


def _kind(head: bytes) -> FileKind:
    for kind, pattern in _FIRST_BYTES.items():
        if re.match(pattern, head, re.DOTALL):
            return kind
    cut = head[: head.rfind(b"\n") + 1] or head  # not in the middle of a character
    with suppress(UnicodeDecodeError):
        if "\0" not in cut.decode():
            return FileKind.TEXT
    return FileKind.OTHER


def marked(schema: pa.Schema) -> pa.Schema:
    """Return the schema of a Parquet file that says that it was written here."""
    return schema.with_metadata({**(schema.metadata or {}), **_PARQUET_MARK})


def _is_marked(parquet: Place) -> bool:
    """Tell whether a Parquet file says that it was written here."""
    with parquet.opened() as file:
        length = min(file.size(), _HEAD_BYTES)
        tail: bytes = file.read_at(length, file.size() - length)
    return all(text.encode() in tail for mark in _PARQUET_MARK.items() for text in mark)


def _run_folder_of(place: Place) -> str | None:
    """Return the run folder that a place is in, or is itself."""
    if place.local is None:
        above = place.shown.split("/")[:-1]
        tail = next((i for i, part in enumerate(above) if part.endswith(_RUN_FOLDER)), None)
        return None if tail is None else "/".join(above[: tail + 1])
    path = place.local.resolve()
    for folder in (path, path.parent, path.parent.parent):
        manifest = folder / _MANIFEST
        if (
            folder.is_dir()
            and manifest.is_file()
            and kind_of(place_of(manifest)) == FileKind.MANIFEST
        ):
            return str(folder)
    return None


def _identities() -> Iterator[tuple[object, ...]]:
    for names in _read:
        for name in names():
            with suppress(OSError, ValueError):
                place = place_of(name)
                yield place.identity
                if not is_elsewhere(name) and os.path.isdir(name):
                    yield from ((place / file).identity for file in place.files())
