"""The manifest of a run folder: which files belong to it, with their sizes and hashes.

A run folder is what its manifest says, so writing that file is what makes or changes a run. While
the database in the folder is replaced, the manifest lists the old one and the new one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass

import orjson

from traceweave.errors import DatabaseError
from traceweave.outputs import write_whole
from traceweave.places import Place

MANIFEST = "manifest.json"
DATABASE = "run.duckdb"
"""The file of a run folder that holds the small tables and the public relations."""

_VERSION = 1
_BLOCK_BYTES = 1 << 20


@dataclass(frozen=True)
class Part:
    """One file of a run folder."""

    path: str
    """In the folder: TABLE/BATCH-TOKEN.parquet, or run.duckdb."""
    size_bytes: int
    sha256: str
    sources: tuple[int, ...] = ()
    """source_id of the files whose rows it has; none for run.duckdb, which has something of all."""

    @property
    def table(self) -> str | None:
        """The base table whose rows it has; None for run.duckdb."""
        table, slash, _ = self.path.partition("/")
        return table if slash else None

    @property
    def batch(self) -> int:
        """The number of the batch whose rows it has; -1 for run.duckdb."""
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
    def size_bytes(self) -> int:
        """What the run takes, the manifest itself aside."""
        return sum(part.size_bytes for part in self.parts)


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
    try:
        with (folder / MANIFEST).reading() as stream:
            said = orjson.loads(stream.read())
        if said["version"] != _VERSION:
            raise DatabaseError(
                f"{folder}: written by another traceweave (manifest version {said['version']},"
                f" this one reads {_VERSION}); ingest the traces again"
            )
        parts = [Part(**{**part, "sources": tuple(part["sources"])}) for part in said["files"]]
        return Manifest(tuple(parts))
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise DatabaseError(
            f"{folder}: its {MANIFEST} cannot be read ({error}); ingest the traces again"
        ) from error


def write_manifest(folder: Place, parts: Iterable[Part]) -> None:
    """Replace the manifest of a run folder in one stroke. Raises OSError or InputError."""
    said = {"version": _VERSION, "files": [asdict(part) for part in parts]}
    write_whole(folder / MANIFEST, orjson.dumps(said, option=orjson.OPT_INDENT_2), None)


def check_sizes(folder: Place, parts: Sequence[Part]) -> None:
    """Raise DatabaseError unless every file is there and as long as it was written."""
    sizes = folder.files()
    listed: dict[str, set[int]] = {}
    for part in parts:
        listed.setdefault(part.path, set()).add(part.size_bytes)
    for path, expected in listed.items():
        if path not in sizes:
            raise DatabaseError(
                f"{folder}: {path} is missing; copy the folder again, or ingest the traces again"
            )
        if sizes[path] not in expected:
            raise DatabaseError(
                f"{folder}: {path} has {sizes[path]} bytes, not {max(expected)}; copy the folder"
                " again, or ingest the traces again"
            )


def check_hashes(folder: Place, parts: Sequence[Part]) -> None:
    """Raise DatabaseError unless every file has the bytes that were written."""
    listed: dict[str, set[str]] = {}
    for part in parts:
        listed.setdefault(part.path, set()).add(part.sha256)
    for path, expected in listed.items():
        with (folder / path).reading() as stream:
            digest = hashlib.sha256()
            while block := stream.read(_BLOCK_BYTES):
                digest.update(block)
        if digest.hexdigest() not in expected:
            raise DatabaseError(
                f"{folder}: {path} is damaged: its hash is not the one in {MANIFEST}; copy the"
                " folder again, or ingest the traces again"
            )


def size_of_run(place: Place) -> int:
    """Return how many bytes a run takes, be it a file or a folder."""
    return read_manifest(place).size_bytes if is_run_folder(place) else place.size() or 0
