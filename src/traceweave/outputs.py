"""Outputs that are whole or absent: written beside their target, renamed when they are complete.

A kill at any moment leaves the old file or none. What an exception leaves is removed at once; what
a killed process left is removed by the next one that writes the same target.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import shutil
import socket
import stat
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, cast

from traceweave.errors import InputError, UsageError
from traceweave.interrupts import held_back
from traceweave.locations import is_elsewhere, shown
from traceweave.places import Place, place_of
from traceweave.targets import FileKind, check_target, is_stream, refuse_what_is_read

BUFFER_BYTES = 1 << 20

_IN_MEMORY_BYTES = 32 << 20
"""Of an output that goes elsewhere; what is larger is on disk until it is complete."""

_MOST_NAME_BYTES = 160
"""Of the target's name, so that with what is added it is a file name still (255 bytes)."""

_OWN = re.compile(r"/dev/(stdout|stderr|fd/(\d+))")
"""Names of files that this process has open."""


@contextmanager
def whole_file(target: Path | Place, kind: FileKind | None) -> Iterator[IO[bytes]]:
    """Yield a file that becomes `target` when the block ends without an exception.

    What goes elsewhere is kept, beyond some size on disk, until it is complete.
    What is no regular file (a pipe, a device, /dev/stdout) cannot be replaced: it is written to as
    it comes. `kind` is what may be replaced; None: anything, of a file that is the caller's own.
    Raises UsageError if what is there may not be replaced, InputError if it cannot be written.
    """
    try:
        if kind is not None:
            check_target(target, kind)
        if isinstance(target, Place) and target.local is not None:
            target = target.local
        if isinstance(target, Place) or is_elsewhere(target):
            with _sent(place_of(target)) as stream:
                yield stream
            return
        if is_stream(target):
            with _opened(target) as stream:
                yield stream
            return
        with _replacing(target.resolve()) as stream:
            yield stream
    except BrokenPipeError:  # who reads it has seen enough
        raise
    except OSError as error:
        raise _unwritable(target, error) from error


def write_whole(target: Path | Place, data: bytes, kind: FileKind | None) -> None:
    """Write a file at once. Raises as `whole_file` does."""
    with whole_file(target, kind) as file:
        file.write(data)


@contextmanager
def whole_folder(target: Path, kind: FileKind) -> Iterator[Path]:
    """Yield an empty folder whose files become those of `target` when the block ends.

    A folder that holds nothing else is replaced as one. Into one with other files in it, and the
    one that the caller works in, they are moved one by one, when all are complete. Raises
    UsageError if a file of another kind would be replaced, InputError if it cannot be written.
    """
    if is_elsewhere(target):
        raise InputError(
            f"{shown(target)}: a folder of files can only be written on this machine; copy it there"
        )
    try:
        refuse_what_is_read(target)
        target.parent.mkdir(parents=True, exist_ok=True)
        final = target.resolve()
        if final.exists() and not final.is_dir():
            raise UsageError(f"{target}: is a file; name a folder")
        remove_orphans(final)
        draft = beside(final, ".dir.tmp")
        try:
            draft.mkdir()
            yield draft
            for entry in draft.iterdir():
                check_target(final / entry.name, kind)
            _move_folder(draft, final)
        finally:
            with held_back():
                remove(draft)
    except OSError as error:
        raise _unwritable(target, error) from error


def beside(target: Path, suffix: str = ".tmp") -> Path:
    """Return a new name beside `target` for what is to become it."""
    return target.with_name(_draft_name(target.name, suffix))


def remove_orphans(target: Path) -> None:
    """Remove what processes of this host that are gone have left beside `target`."""
    with suppress(PermissionError):  # one may write into a folder that one may not list
        for entry in target.parent.iterdir():
            process = _who_drafted(entry.name, target.name)
            if process is not None and not _is_alive(process):
                remove(entry)


def remove(path: Path) -> None:
    """Remove a file with its write-ahead log, or a folder, as far as that can be done."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
        return
    for name in (path.name, path.name + ".wal"):
        with suppress(OSError):
            path.with_name(name).unlink()


@contextmanager
def _sent(place: Place) -> Iterator[IO[bytes]]:
    """Send what is complete under another name first: what is broken off there becomes a file."""
    with tempfile.SpooledTemporaryFile(_IN_MEMORY_BYTES) as draft:
        yield cast("IO[bytes]", draft)
        length = draft.seek(0, os.SEEK_END)
        draft.seek(0)
        sent = place.beside(_draft_name(place.name))
        try:
            with sent.writing() as stream:
                shutil.copyfileobj(draft, stream, BUFFER_BYTES)
            if sent.size() != length:
                raise OSError(errno.EIO, "what was sent is not there whole")
            sent.replace(place)
        finally:
            with held_back(), suppress(OSError):
                _remove_drafts(place)


@contextmanager
def _replacing(target: Path) -> Iterator[IO[bytes]]:
    remove_orphans(target)
    draft = beside(target)
    try:
        with draft.open("xb", buffering=BUFFER_BYTES) as file:
            _take_over_mode(target, file)
            yield file
        os.replace(draft, target)
    finally:
        with held_back():
            remove(draft)


def _take_over_mode(target: Path, file: IO[bytes]) -> None:
    """Give a file the permissions of the one that it replaces, which must be writable."""
    with suppress(FileNotFoundError):
        mode = stat.S_IMODE(target.stat().st_mode)
        if not os.access(target, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        os.fchmod(file.fileno(), mode)


def _move_folder(draft: Path, target: Path) -> None:
    names = {entry.name for entry in draft.iterdir()}
    if not target.exists():
        os.rename(draft, target)
    elif target != Path.cwd() and names >= {entry.name for entry in target.iterdir()}:
        old = beside(target, ".old.tmp")
        os.rename(target, old)
        os.rename(draft, target)
        remove(old)
    else:
        for name in sorted(names):
            os.replace(draft / name, target / name)


def _opened(stream: Path) -> IO[bytes]:
    """Open a stream. To open /dev/stderr anew would empty the log file that it goes into."""
    name = _OWN.fullmatch(os.path.abspath(stream))
    if name is None:
        return stream.open("wb")
    own = {"stdout": 1, "stderr": 2}
    for buffered in (sys.stdout, sys.stderr):
        buffered.flush()
    return os.fdopen(os.dup(own[name[1]] if name[1] in own else int(name[2])), "wb")


def _unwritable(target: Path | Place, error: OSError) -> InputError:
    reason = error.strerror or str(error)
    return InputError(f"{shown(str(target))}: cannot be written: {reason}; name another place")


def _remove_drafts(place: Place) -> None:
    """Remove what this process, and those of this host that are gone, have sent for a place."""
    for name in place.beside("").names():
        process = _who_drafted(name, place.name)
        if process is not None and (process == os.getpid() or not _is_alive(process)):
            place.beside(name).remove()


def _draft_name(name: str, suffix: str = ".tmp") -> str:
    return f".{_short(name)}.{_host()}-{os.getpid()}-{secrets.token_hex(4)}{suffix}"


def _who_drafted(name: str, target: str) -> int | None:
    """Return the process of this host that has given a draft of a target its name."""
    match = re.fullmatch(
        rf"\.{re.escape(_short(target))}\.{re.escape(_host())}-(\d+)-[0-9a-f]{{8}}"
        r"\.(dir\.|old\.)?tmp(\.wal)?",
        name,
    )
    return None if match is None else int(match[1])


def _short(name: str) -> str:
    return os.fsdecode(os.fsencode(name)[:_MOST_NAME_BYTES])


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return True


def _host() -> str:
    # a folder on a shared disk holds drafts of other machines, whose process ids mean nothing here
    return re.sub(r"[^A-Za-z0-9]", "_", socket.gethostname())[:32]
