"""Runs as folders: the small tables in a database, the large ones as Parquet per batch of ranks.

Shards come first, then the database, all under names that nothing else has; then the manifest,
which makes them the run. A kill at any moment leaves the run that was there or none. Who changes a
run on this machine waits for who does so already; elsewhere, and on disks without locks, what was
begun from another run than is there at the end is refused.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import duckdb

from traceweave.errors import DatabaseError, InputError, UsageError
from traceweave.interrupts import held_back
from traceweave.locations import is_elsewhere, shown
from traceweave.outputs import beside, remove, remove_orphans
from traceweave.places import Place, place_of
from traceweave.store.database import cut_off
from traceweave.store.draft import attach_draft, explaining
from traceweave.store.elsewhere import path_in_duckdb
from traceweave.store.empty import create_tables
from traceweave.store.manifest import (
    MANIFEST,
    Manifest,
    Part,
    check_sizes,
    is_database,
    is_run_folder,
    new_database_name,
    read_manifest,
    write_manifest,
)
from traceweave.store.shards import find_shards, is_shard, prepare, show_shards
from traceweave.targets import refuse_what_is_read

SUFFIX = ".tw"


def is_folder_name(output: str | Path) -> bool:
    """Tell whether a run of this name is a folder: it ends in .tw, or is one on this machine."""
    if shown(output).rstrip("/").endswith(SUFFIX):
        return True
    return not is_elsewhere(output) and is_run_folder(place_of(output))


@dataclass
class FolderDraft:
    """A run folder under construction."""

    scratch: Path
    """An empty folder on this machine that disappears with the draft."""
    con: duckdb.DuckDBPyConnection
    """Connection to the database of the small tables: empty ones, or those of the run as it is."""
    folder: Place
    """Where shards go, for the run that this becomes."""
    shards: list[Part]
    """Those that belong to it; any other is removed."""

    def show(self) -> None:
        """Have `con` see the rows of all shards in the large tables."""
        show_shards(self.con, self.shards)


@contextmanager
def drafting_folder(
    target: Place, jobs: int = 1, *, keep: bool = False, waiting: Callable[[], None] | None = None
) -> Iterator[FolderDraft]:
    """Yield an empty run folder that becomes `target` when the block ends without an exception;
    to `keep` what is there, one like it.

    A folder that is not there yet is written beside and renamed; a run that is there is replaced by
    its manifest. `jobs` is how many threads write at a time; `waiting` is called if another program
    changes the run, which is waited for. Raises InputError or DatabaseError.
    """
    with _locked(target, waiting), _drafting(target, jobs, keep) as draft:
        yield draft


@contextmanager
def _drafting(target: Place, jobs: int, keep: bool) -> Iterator[FolderDraft]:
    old = _what_is_there(target)
    if keep:
        old = read_manifest(target)
        check_sizes(target, old.parts)
    new = target.local is not None and old is None
    scratch = _scratch(target)
    folder = place_of(scratch / "run") if new else target
    file = scratch / new_database_name()
    try:
        with explaining(target, jobs):
            scratch.mkdir(exist_ok=True)
            if folder.local is not None:
                folder.local.mkdir(exist_ok=True)
            if keep and old is not None:
                _copy(folder / old.database, file)
            con = duckdb.connect()
            try:
                attach_draft(con, file, scratch, jobs)
                find_shards(con, folder)
                if keep:
                    # with the slash: not the folders beside it whose names begin alike
                    cut_off(con, folders=[f"{path_in_duckdb(folder)}/"])
                else:
                    create_tables(con)
                    prepare(con)
                draft = FolderDraft(scratch, con, folder, [*old.shards] if old and keep else [])
                yield draft
                con.execute("CHECKPOINT")
            finally:
                con.close()
            commit(folder, old if keep else None, draft.shards, file)
            if new:
                _rename(scratch / "run", target)
    finally:
        with held_back():
            if not new:
                sweep(target)
            remove(scratch)


def commit(folder: Place, base: Manifest | None, shards: Sequence[Part], file: Path) -> None:
    """Make `shards` and the database in `file` the run of a folder; if they are made of the run
    `base`, it has to be there still. Raises InputError if another program was faster.
    """
    new = (*shards, _database_part(file))
    _put(file, folder / file.name)
    try:
        check_sizes(folder, new)
        if base is not None and read_manifest(folder) != base:
            raise DatabaseError("its manifest is another one")
    except DatabaseError as error:
        reason = str(error).removeprefix(f"{folder}: ").partition(";")[0]
        raise InputError(
            f"{folder}: another program has changed it meanwhile ({reason}), and it is left as it"
            " is now; run the command again"
        ) from error
    write_manifest(folder, new)


@contextmanager
def _locked(target: Place, waiting: Callable[[], None] | None) -> Iterator[None]:
    """Let one program at a time change a folder of this machine, as far as its disk knows locks."""
    if target.local is None or not target.local.is_dir():
        yield
        return
    handle = os.open(target.path, os.O_RDONLY)  # of the folder itself: nothing is left of it
    try:
        with suppress(OSError):
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if waiting is not None:
                    waiting()
                fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _rename(folder: Path, target: Place) -> None:
    """Give a new run its name. Raises InputError if another program was faster."""
    try:
        os.rename(folder, target.path)
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise
        raise InputError(
            f"{target}: another program has made it meanwhile, and it is left as it is; run the"
            " command again to replace it, or with --add to add to it"
        ) from error


def sweep(folder: Place) -> None:
    """Remove the shards and databases that the manifest of a folder does not list, all of them if
    it has none.
    """
    known = is_run_folder(folder)
    with suppress(DatabaseError, OSError):  # of a manifest that cannot be read nothing is known
        listed = {part.path for part in read_manifest(folder).parts} if known else set()
        for path in folder.files():
            if path not in listed and _is_part(path):
                (folder / path).remove()


def _what_is_there(target: Place) -> Manifest | None:
    """Return the manifest of the run that will be replaced; None if nothing is there.

    Raises UsageError if it may not be.
    """
    if is_run_folder(target):
        with suppress(DatabaseError):  # of another version
            return read_manifest(target)
        return Manifest(())
    refuse_what_is_read(target)
    path = target.local
    if path is not None and not path.parent.is_dir():
        raise InputError(f"{target}: the folder {path.parent} does not exist; create it first")
    # a first ingest that was killed while it sent the manifest has left that alone
    left = {name for name in target.files() if not name.startswith(f".{MANIFEST}.")}
    if not all(map(_is_part, left)) or (path is not None and path.is_file()):
        raise UsageError(
            f"{target}: exists and is not a traceweave run; remove it, or name another folder"
            " with -o"
        )
    return Manifest(()) if left else None


def _is_part(path: str) -> bool:
    return is_shard(path) or is_database(path)


def _scratch(target: Place) -> Path:
    """Return the name of a folder for what is needed meanwhile: on the same disk, if it is here."""
    if target.local is None:
        return Path(tempfile.mkdtemp(prefix="traceweave-"))
    final = target.local.resolve()
    remove_orphans(final)
    return beside(final, ".dir.tmp")


def _copy(place: Place, file: Path) -> None:
    with place.reading() as stream, file.open("wb") as copy:
        shutil.copyfileobj(stream, copy)


def _database_part(file: Path) -> Part:
    with file.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256")
    return Part(file.name, file.stat().st_size, digest.hexdigest())


def _put(file: Path, place: Place) -> None:
    """Move a file of this machine to its place, in one stroke."""
    if place.local is not None:
        os.replace(file, place.local)
        return
    with file.open("rb") as stream, place.writing() as there:
        shutil.copyfileobj(stream, there)
