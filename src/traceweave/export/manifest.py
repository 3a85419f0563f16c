"""The original traces in one archive with a manifest that tells Perfetto (58 and newer) each file's
offset to the common clock: opened there, every event is as its profiler wrote it, and aligned.

Perfetto relates a file's clock by one constant and refuses to for a file that is gzip inside the
archive, so what was packed is unpacked, and packed again by the archive itself.
"""

from __future__ import annotations

import zipfile
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import duckdb
import orjson

from traceweave._version import __version__
from traceweave.errors import InputError
from traceweave.locations import is_elsewhere, shown
from traceweave.outputs import whole_file
from traceweave.sources.find import is_trace
from traceweave.sources.unpack import ByteStream
from traceweave.targets import FileKind

NAME = "perfetto_manifest.json"
_WHOLE_TIMELINE = "REALTIME"
"""The clock of the merged timeline: `ts` there is `start_ns` here."""
_MOST_NAME_CHARACTERS = 60
"""Perfetto's page takes names of up to 99."""


@dataclass(frozen=True)
class Bundled:
    """One original trace in the archive."""

    rank: int
    path: Path
    name: str
    """In the archive."""
    offset_ns: int
    """From the file's own times to the common clock."""
    lost_ns: int
    """By how much an event of it is off at most, since drift and steps of its clock are no
    constant."""


@dataclass(frozen=True)
class Bundle:
    """What an export wrote."""

    path: Path
    files: tuple[Bundled, ...]
    left_out: tuple[Path, ...]
    """Traces that Perfetto cannot read."""


def write_manifest(
    con: duckdb.DuckDBPyConnection, path: Path, ranks: Collection[int] | None = None
) -> Bundle:
    """Write the original traces of the run in `con`, of all ranks or of these, and their manifest
    as the archive `path`, which is replaced if it exists.

    Raises InputError if a trace is not where it was at ingest, has another size now, is none by
    its contents, or is in object storage, and if Perfetto can read none of them.
    """
    bundle = plan(con, path, ranks)
    with (
        whole_file(path, FileKind.ARCHIVE) as file,
        zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
    ):
        _add(archive, NAME, [orjson.dumps(manifest(bundle.files))])
        for bundled in bundle.files:
            with bundled.path.open("rb") as trace:
                _add(archive, bundled.name, ByteStream(trace).pieces())
    return bundle


def manifest(files: Sequence[Bundled]) -> dict[str, object]:
    """Return the manifest (version 1) of these files."""
    first = files[0].name
    return {
        "perfetto_manifest": {
            "version": 1,
            "trace_time": {"clock": _WHOLE_TIMELINE, "file": first},
            "files": [
                {
                    "path": bundled.name,
                    # ranks use the same numbers for their GPUs as for processes
                    "machine": {"name": bundled.name.rpartition("/")[0]},
                    "clocks": {
                        "sync_to": {"file": first, "clock": _WHOLE_TIMELINE},
                        "offset_ns": bundled.offset_ns,
                    },
                }
                for bundled in files
            ],
            "attributes": {"traceweave.version": __version__}
            | {f"traceweave.lost_ns.{bundled.name}": bundled.lost_ns for bundled in files},
        }
    }


def plan(
    con: duckdb.DuckDBPyConnection, path: Path, ranks: Collection[int] | None = None
) -> Bundle:
    """Return what `write_manifest` is going to write. Raises as it does."""
    rows = con.execute(
        "SELECT rank, source_id, path, size_bytes, base_ns, first_local_ns, last_local_ns"
        " FROM base.rank_sources JOIN sources USING (source_id)"
        " WHERE $1 IS NULL OR list_contains($1, rank) ORDER BY rank, first_local_ns, source_id",
        [None if ranks is None else list(ranks)],
    ).fetchall()
    files, left_out = [], []
    taken: set[str] = set()
    for rank, source_id, written, size, base_ns, first_ns, last_ns in rows:
        if base_ns is None:
            left_out.append(Path(written))
            continue
        _check(written, size)
        added_ns, lost_ns = _constant(con, rank, first_ns, last_ns)
        name = _name(rank, Path(written).name)
        name = name if name not in taken else _name(rank, f"{source_id}-{Path(written).name}")
        taken.add(name)
        files.append(Bundled(rank, Path(written), name, base_ns + added_ns, lost_ns))
    if not files:
        raise InputError(
            "Perfetto can read none of this run's traces (only those of the PyTorch profiler, a"
            " file per rank); use --to perfetto"
        )
    return Bundle(path, tuple(files), tuple(dict.fromkeys(left_out)))


def _check(path: str, size: int) -> None:
    if is_elsewhere(path):
        raise InputError(
            f"{shown(path)}: is in object storage; copy the traces here and ingest them, or use"
            " --to perfetto"
        )
    try:
        now = Path(path).stat().st_size
    except OSError as error:
        raise InputError(
            f"{path}: {error.strerror or error}; the original traces have to be where they were at"
            " ingest"
        ) from error
    if now != size:
        raise InputError(f"{path}: is not the file that was ingested, its size has changed")
    # the database may be somebody else's, and name any file of this machine
    if not is_trace(Path(path), "kineto"):
        raise InputError(
            f"{shown(path)}: is no trace of the PyTorch profiler, whatever the database says; only"
            " traces are exported: leave its rank out with --ranks, or use --to perfetto"
        )


def _constant(
    con: duckdb.DuckDBPyConnection, rank: int, first_ns: int | None, last_ns: int | None
) -> tuple[int, int]:
    """Return the constant that is nearest to a rank's clock within a recording, and by how much the
    clock is off at most.
    """
    pieces = con.execute(
        "SELECT from_local_ns, until_local_ns, offset_ns, drift_ppm, reference_local_ns"
        " FROM clock_spans WHERE rank = ? ORDER BY 1",
        [rank],
    ).fetchall()
    first_ns = pieces[0][4] if first_ns is None else first_ns
    last_ns = first_ns if last_ns is None else last_ns
    added = [
        offset + round(drift * 1e-6 * (at - reference))
        for begin, end, offset, drift, reference in pieces
        if begin <= last_ns and end > first_ns
        for at in (max(begin, first_ns), min(end, last_ns))
    ]
    low, high = min(added), max(added)
    return (low + high) // 2, (high - low + 1) // 2


def _name(rank: int, name: str) -> str:
    """Return a name in the archive: what begins with a dot is ignored there."""
    name = name.removesuffix(".gz").lstrip(".")[-_MOST_NAME_CHARACTERS:]
    return f"rank {rank}/{name.encode('utf-8', 'replace').decode()}"


def _add(archive: zipfile.ZipFile, name: str, pieces: Iterable[bytes]) -> None:
    with archive.open(name, "w", force_zip64=True) as member:
        for piece in pieces:
            member.write(piece)
