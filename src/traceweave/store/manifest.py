"""The manifest of a run folder: which files belong to it, with their sizes and hashes.

A run folder is what its manifest says, so writing that file is what makes or changes a run: it is
the only file that is ever written over, in one stroke.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass

import orjson

from traceweave.errors import DatabaseError, shortened
from traceweave.outputs import write_whole
from traceweave.places import Place

MANIFEST = "manifest.json"
_DATABASE = re.compile(r"run(-[0-9a-f]{8})?\.duckdb")
"""Names of the file that holds the small tables and the public relations: each is written under a
name of its own. run.duckdb is that of a folder of an earlier version.
"""
_VERSION = 1
_BLOCK_BYTES = 1 << 20

_SHARD = re.compile(r"[a-z_]+/\d{4,}-[0-9a-f]{8}\.parquet")

_MOST_SHOWN = 60
"""Characters of what a manifest says that a message has."""


@dataclass(frozen=True)
class Part:
    """One file of a run folder."""

    path: str
    """In the folder: TABLE/BATCH-TOKEN.parquet, or run-TOKEN.duckdb."""
    size_bytes: int
    sha256: str
    sources: tuple[int, ...] = ()
    """source_id of the files whose rows it has; none for the database, which has some of all."""

    @property
    def table(self) -> str | None:
        """The base table whose rows it has; None for the database."""
        table, slash, _ = self.path.partition("/")
        return table if slash else None

    @property
    def batch(self) -> int:
        """The number of the batch whose rows it has; -1 for the database."""
        _, slash, name = self.path.partition("/")
        return int(name.partition("-")[0]) if slash else -1


@dataclass(frozen=True)
class Manifest:
    """The files of a run."""

    parts: tuple[Part, ...]

    @property
    def shards(self) -> tuple[Part, ...]:
        """The files with rows of large tables."""
        return tuple(part for part in self.parts if part.table is not None)

    @property
    def database(self) -> str:
        """The name of its database; '' if it names none."""
        return next((part.path for part in self.parts if part.table is None), "")

    @property
    def size_bytes(self) -> int:
        """What the run takes, the manifest itself aside."""
        return sum(part.size_bytes for part in self.parts)


def new_database_name() -> str:
    """Return a name for a database in a run folder that no other has."""
    return f"run-{secrets.token_hex(4)}.duckdb"


def is_database(path: str) -> bool:
    """Tell whether a file of a run folder is named like its database."""
    return _DATABASE.fullmatch(path) is not None


def is_run_folder(place: Place) -> bool:
    """Tell whether a folder holds a finished run."""
    return (place / MANIFEST).size() is not None


def read_manifest(folder: Place) -> Manifest:
    """Return the manifest of a run folder. Raises DatabaseError if it cannot be used."""
    if not is_run_folder(folder):
        raise DatabaseError(
            f"{folder}: no run folder is there; make one with 'traceweave ingest TRACES -o"
            f" {folder}'"
        )
    _refuse_link(folder, MANIFEST)
    try:
        with (folder / MANIFEST).reading() as stream:
            said = orjson.loads(stream.read())
        if said["version"] != _VERSION:
            raise DatabaseError(
                f"{folder}: written by another traceweave (manifest version"
                f" {shortened(str(said['version']), _MOST_SHOWN)}, this one reads {_VERSION});"
                " ingest the traces again"
            )
        parts = [_part(**part) for part in said["files"]]
        manifest = Manifest(tuple(parts))
        if not is_database(manifest.database):
            raise ValueError("it names no database")
        return manifest
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise DatabaseError(
            f"{folder}: its {MANIFEST} cannot be read ({shortened(str(error))}); ingest the traces"
            " again"
        ) from error


def _refuse_link(folder: Place, path: str) -> None:
    if folder.local is not None and (folder.local / path).is_symlink():
        raise DatabaseError(
            f"{folder}: {path} is a link, which may lead anywhere; copy the folder with the files"
            " themselves (cp -rL)"
        )


def _part(path: str, size_bytes: int, sha256: str, sources: Sequence[int]) -> Part:
    """Return a part as a manifest says it. Raises ValueError for one that is none: somebody else
    may have written it, and name any file.
    """
    known = isinstance(path, str) and (is_database(path) or is_shard_name(path))
    if not (known and isinstance(size_bytes, int) and isinstance(sha256, str)):
        raise ValueError(f"{shortened(str(path), _MOST_SHOWN)!r} is no file of a run folder")
    return Part(path, size_bytes, sha256, tuple(map(int, sources)))


def is_shard_name(path: str) -> bool:
    """Tell whether a path in a folder may be that of a shard."""
    return _SHARD.fullmatch(path) is not None


def write_manifest(folder: Place, parts: Iterable[Part]) -> None:
    """Replace the manifest of a run folder in one stroke. Raises OSError or InputError."""
    said = {"version": _VERSION, "files": [asdict(part) for part in parts]}
    write_whole(folder / MANIFEST, orjson.dumps(said, option=orjson.OPT_INDENT_2), None)


def check_sizes(folder: Place, parts: Sequence[Part]) -> None:
    """Raise DatabaseError unless every file is there, itself and no link, and as long as it was
    written.
    """
    sizes = folder.files()
    for part in parts:
        if part.path not in sizes:
            raise DatabaseError(
                f"{folder}: {part.path} is missing; copy the folder again, or ingest the traces"
                " again"
            )
        _refuse_link(folder, part.path)
        if sizes[part.path] != part.size_bytes:
            raise DatabaseError(
                f"{folder}: {part.path} has {sizes[part.path]} bytes, not {part.size_bytes}; copy"
                " the folder again, or ingest the traces again"
            )


def check_hashes(folder: Place, parts: Sequence[Part]) -> None:
    """Raise DatabaseError unless every file has the bytes that were written."""
    for part in parts:
        with (folder / part.path).reading() as stream:
            digest = hashlib.sha256()
            while block := stream.read(_BLOCK_BYTES):
                digest.update(block)
        if digest.hexdigest() != part.sha256:
            raise DatabaseError(
                f"{folder}: {part.path} is damaged: its hash is not the one in {MANIFEST}; copy the"
                " folder again, or ingest the traces again"
            )


def size_of_run(place: Place) -> int:
    """Return how many bytes a run takes, be it a file or a folder."""
    return read_manifest(place).size_bytes if is_run_folder(place) else place.size() or 0
