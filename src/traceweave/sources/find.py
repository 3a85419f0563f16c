"""Which of the files that the user names are traces. Content decides, not the suffix."""

from __future__ import annotations

import glob
import io
import json
import os
import stat
import tarfile
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from traceweave.errors import InputError
from traceweave.locations import is_elsewhere
from traceweave.sources.elsewhere import Elsewhere, find_elsewhere, place_at
from traceweave.sources.faults import BadFileError, fails_alone
from traceweave.sources.formats import Format, known_formats
from traceweave.sources.nsys import REPORT_SUFFIXES, are_export, is_export_folder, is_report
from traceweave.sources.nsys.recognize import SQLITE_MAGIC
from traceweave.sources.unpack import read_head

HEAD_BYTES = 256 * 1024
"""How much of a file, unpacked, decides what it is."""

TRACE_SUFFIXES = (".json", ".json.gz", ".sqlite", ".sqlite.gz")
"""A file so named is meant to be a trace: if its content is damaged, something is missing."""

_PACKED = (
    (b"PK\x03\x04", "a zip archive; unpack it (unzip FILE -d traces) and give the folder"),
    (b"\x28\xb5\x2f\xfd", "zstd-compressed; unpack it first (zstd -d FILE)"),
    (b"\xfd7zXZ", "xz-compressed; unpack it first (xz -d FILE, an archive: tar -xf FILE)"),
    (b"\x1f\x8b", "packed twice; unpack it once (gunzip FILE)"),
    (b"BZh", "bzip2-compressed; unpack it first (bzip2 -d FILE, an archive: tar -xf FILE)"),
)
_UTF_16 = "UTF-16 text; profilers write UTF-8, convert it (iconv -f UTF-16 -t UTF-8 FILE > NEW)"
_UTF_16_BEGINNINGS = (b"\xff\xfe", b"\xfe\xff", b"{\0", b"[\0", b"\0{", b"\0[")
_LINES = "a JSON value per line; make one document of them (jq -s '{traceEvents: .}' FILE > NEW)"
_EMPTY = "is empty; copy it again, or record again"
_CUT_OFF = "JSON that ends too early; copy it again, or record again"
_NO_JSON = "not JSON, as profilers write it; copy it again, or record again"
_TAR = "a tar archive; unpack it (mkdir traces && tar -xf FILE -C traces) and give the folder"
_TAR_MAGIC = slice(257, 262)
"""Where the header of its first file says b"ustar"."""


@dataclass(frozen=True)
class Candidate:
    """A file that one of the formats recognized, or one that has to be brought here first.

    An nsys export may be a folder with one file per table.
    """

    path: Path
    """As the user named it."""
    format: Format | None
    """None: an nsys report, which has to be exported, or SQLite elsewhere, to be copied here."""


@dataclass(frozen=True)
class PassedOver:
    """A file that is no trace, and why."""

    path: Path
    reason: str


@dataclass(frozen=True)
class Broken:
    """A file that should be a trace and cannot be read."""

    path: Path
    format: str
    """'kineto', 'nsys' or 'flight_recorder', as far as the name tells or content did."""
    reason: str

    @property
    def size_bytes(self) -> int:
        """Size on disk; 0 if even that cannot be found out."""
        try:
            return self.path.stat().st_size
        except OSError:
            return 0


Found = Candidate | PassedOver | Broken


def find(paths: Sequence[str | Path], formats: Sequence[Format]) -> list[Found]:
    """Return every file under `paths` (files, folders, globs) with what it is, in a fixed order.

    A file that several paths lead to comes once. Raises InputError for a path that leads nowhere.
    """
    seen: set[tuple[object, ...]] = set()
    found: list[Found] = []
    for path in _expand(paths):
        try:
            status = path.stat()
        except OSError as error:
            found.append(PassedOver(path, f"cannot be opened: {error.strerror}"))
            continue
        place = place_at(path)
        identity = (status.st_dev, status.st_ino) if place is None else place.identity
        if identity not in seen:
            seen.add(identity)
            found.append(_classify(path, status, formats))
    return _without_exported_reports(found)


def _expand(paths: Sequence[str | Path]) -> Iterator[Path]:
    for given in paths:
        path = Path(given)
        if not str(given) or "\0" in str(given):
            raise InputError(f"{str(given)!r}: not a path; name files, folders or globs")
        if is_elsewhere(given):
            yield from find_elsewhere(given, are_export)
        elif os.path.isdir(path):
            yield from _walk(path, set())
        elif os.path.lexists(path):
            yield path
        else:
            matches = sorted(glob.glob(str(given), recursive=True))
            if not matches:
                raise InputError(f"{given}: no such file or folder, and no file matches it")
            for match in matches:
                below = Path(match)
                yield from _walk(below, set()) if below.is_dir() else iter([below])


def _walk(folder: Path, entered: set[tuple[int, int]]) -> Iterator[Path]:
    """Yield the files below `folder`; links are followed, but no folder is entered twice."""
    try:
        status = folder.stat()
        names = sorted(os.listdir(folder))
    except OSError:
        yield folder
        return
    if (status.st_dev, status.st_ino) in entered:
        return
    entered.add((status.st_dev, status.st_ino))
    with suppress(PermissionError):
        if is_export_folder(folder):
            yield folder
            return
    for name in names:
        # hidden: version control, editors, drafts of databases, '._rank0.json' of macOS
        if not name.startswith("."):
            entry = folder / name
            yield from _walk(entry, entered) if os.path.isdir(entry) else iter([entry])


def _classify(path: Path, status: os.stat_result, formats: Sequence[Format]) -> Found:
    if stat.S_ISDIR(status.st_mode):
        return _classify_folder(path, formats)
    if not stat.S_ISREG(status.st_mode):
        return PassedOver(path, "not a regular file")
    if is_report(path):
        return Candidate(path, None)
    named = format_by_name(path.name)
    meant = path.name.lower().endswith(TRACE_SUFFIXES)
    try:
        head = read_head(path, HEAD_BYTES)
    except OSError as error:
        return Broken(path, named, f"cannot be opened: {error.strerror}")
    except InputError as error:
        reason = str(error).removeprefix(f"{path}: ")
        return Broken(path, named, reason) if meant else PassedOver(path, reason)
    try:
        with fails_alone(path):
            for format_ in formats:
                if format_.recognize(path, head):
                    to_copy = isinstance(path, Elsewhere) and head.startswith(SQLITE_MAGIC)
                    return Candidate(path, None if to_copy else format_)
    except BadFileError as error:
        return Broken(path, named, f"cannot be read: {error.message}")
    reason, meant = _why_not(path, head, meant)
    return Broken(path, named, reason) if meant else PassedOver(path, reason)


def is_trace(path: Path, format_name: str) -> bool:
    """Tell by its contents whether a file is a trace of a format, whatever is said of it.

    Raises OSError.
    """
    found = _classify(path, path.stat(), known_formats())
    if not isinstance(found, Candidate) or found.format is None:
        return False
    try:
        with fails_alone(path):
            return found.format.probe(path, True, False).format == format_name
    except BadFileError:
        return False


def _classify_folder(path: Path, formats: Sequence[Format]) -> Found:
    with suppress(BadFileError), fails_alone(path):
        for format_ in formats:
            if format_.recognize(path, b""):
                return Candidate(path, format_)
    return PassedOver(path, "a folder that cannot be searched")


def _why_not(path: Path, head: bytes, meant: bool) -> tuple[str, bool]:
    """Return what a file is that is no trace, and whether one is lost that it was `meant` to be."""
    if not head:
        return _EMPTY, meant
    if head.startswith(SQLITE_MAGIC):
        return "a SQLite database without the tables of an nsys export", meant
    if head[8:12] == b"DUCK":
        return "a DuckDB database", False
    if head[_TAR_MAGIC] == b"ustar":
        return _TAR, meant or _names_traces(path, head)
    for magic, reason in _PACKED:
        if head.startswith(magic):
            return reason, meant or _names_traces(path, head)
    text = _as_text(head)
    if head.startswith(_UTF_16_BEGINNINGS):
        return _UTF_16, meant or text[:1] in ("{", "[")
    if text[:1] in ("{", "["):
        first, _, rest = text.partition("\n")
        if '"ph"' in first and first.rstrip().endswith("}") and rest[:1] == "{":
            return _LINES, True
        if meant and len(head) < HEAD_BYTES and _ends_early(text):
            return _CUT_OFF, True
        return "JSON, but not a PyTorch profiler trace", False
    if meant and format_by_name(path.name) == "nsys":
        return "not a SQLite database; export the report again", True
    return (_NO_JSON, True) if meant else ("not a trace", False)


def _as_text(head: bytes) -> str:
    """Return the beginning of a text in UTF-8 or UTF-16."""
    encoding = "utf-8"
    if head.startswith(_UTF_16_BEGINNINGS):
        encoding = "utf-16-le" if head.startswith((b"\xff\xfe", b"{\0", b"[\0")) else "utf-16-be"
    return head.decode(encoding, "replace").lstrip("\ufeff \t\r\n")


def _ends_early(text: str) -> bool:
    """Tell whether a text is the beginning of JSON."""
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        return error.pos >= len(text.rstrip()) or error.msg.startswith("Unterminated string")
    except RecursionError:
        pass
    return False


def _names_traces(path: Path, head: bytes) -> bool:
    """Tell whether a packed file is called like a trace, or an archive has files that are."""
    names = [path.name]
    with suppress(OSError, ValueError, tarfile.TarError, zipfile.BadZipFile, NotImplementedError):
        if head[_TAR_MAGIC] == b"ustar":
            with tarfile.open(fileobj=io.BytesIO(head)) as archive:
                names += (member.name for member in archive)
        elif head.startswith(_PACKED[0][0]):
            with path.open("rb") as file, zipfile.ZipFile(file) as packed:
                names += packed.namelist()
    suffixes = (*TRACE_SUFFIXES, *REPORT_SUFFIXES)
    return any(
        name.lower().endswith(suffixes) or Path(name.lower()).stem.endswith(suffixes)
        for name in names
    )


def format_by_name(name: str) -> str:
    """Return the format that a file so named is meant to have."""
    name = name.lower()
    return "nsys" if ".sqlite" in name or name.endswith(REPORT_SUFFIXES) else "kineto"


def _without_exported_reports(found: Iterable[Found]) -> list[Found]:
    """Pass over each nsys report whose export was found as well."""
    found = list(found)
    candidates = (item.path for item in found if isinstance(item, Candidate))
    traces = {str(path) for path in candidates if not is_report(path)}
    return [
        PassedOver(item.path, f"its export {export.name} is read instead")
        if isinstance(item, Candidate)
        and is_report(item.path)
        and (export := _export(item.path, traces))
        else item
        for item in found
    ]


def _export(report: Path, traces: set[str]) -> Path | None:
    name, _, _ = str(report).rpartition(".")
    for ending in (".sqlite", ".sqlite.gz", "_pqtdir", "_arwdir"):  # as `nsys export` calls them
        if name + ending in traces:
            return Path(name + ending)
    return None
