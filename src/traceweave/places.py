"""Files and folders wherever they are: on this machine, or behind the file systems of pyarrow.

Object storage is named by URL. Credentials come from the environment, which the file systems read
themselves; what a URL says beside its path (a signature, a password) is used and never shown.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any
from urllib.parse import parse_qsl, quote, unquote

from traceweave.errors import InputError
from traceweave.locations import SHORTEST_SECRET, is_elsewhere, shown, url_of, without_secrets

if TYPE_CHECKING:
    from pyarrow import NativeFile, fs

BUFFER_BYTES = 4 << 20

_DUCKDB = slice(8, 12), b"DUCK"
"""Where a DuckDB file says what it is, after a checksum of eight bytes."""


_LIBRARIES = ("pyarrow", "fsspec", "aiohttp", "asyncio")
"""What file systems are made of. Their errors are of any class."""


class PlaceError(OSError):
    """What a file system says of a place, without what is secret."""

    def __init__(self, place: str, given: str, error: BaseException) -> None:
        number = error.errno if isinstance(error, OSError) else None
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        for secret in _secrets(given):
            reason = reason.replace(secret, "***")
        super().__init__(number or errno.EIO, " ".join(without_secrets(reason).split()), place)

    def __str__(self) -> str:
        return str(self.strerror)


def _secrets(given: str) -> Iterator[str]:
    """Yield what a name has beside host and path, by which it may be quoted: whole and in parts."""
    address, _, query = given.partition("?")
    user = address.partition("://")[2].partition("/")[0].rpartition("@")[0]
    for secret in (query, user, *(value for _, value in parse_qsl(query))):
        if len(secret) >= SHORTEST_SECRET:
            yield from {secret, quote(secret), quote(secret, safe=""), unquote(secret)}


@dataclass(frozen=True)
class Place:
    """A file or folder, which may not exist yet."""

    system: fs.FileSystem | None = field(repr=False)
    """None: this machine's own."""
    path: str = field(repr=False)
    """Its name in that file system."""
    shown: str
    """As the user named it, without what is secret."""

    def __str__(self) -> str:
        return self.shown

    def __truediv__(self, name: str) -> Place:
        return replace(self, path=f"{self.path}/{name}", shown=f"{self.shown}/{name}")

    @property
    def name(self) -> str:
        """The last part of its path."""
        return self.path.rpartition("/")[2]

    def beside(self, name: str) -> Place:
        """Return what is in the same folder under another name; the folder for ''."""
        path, where = (text.rpartition("/")[0] for text in (self.path, self.shown))
        folder = replace(self, path=path, shown=where)
        return folder / name if name else folder

    @property
    def is_web(self) -> bool:
        """Whether it is read over HTTP, over which nothing is written."""
        return self.shown.startswith("http") and self.system is not None

    @property
    def local(self) -> Path | None:
        """Its path on this machine; None if it is elsewhere."""
        return Path(self.path) if self.system is None else None

    @property
    def identity(self) -> tuple[object, ...]:
        """What all names of one file have in common, and no two files."""
        if self.system is not None:
            return (type(self.system).__name__, self.path)
        with suppress(OSError):
            status = os.stat(self.path)
            return (status.st_dev, status.st_ino)
        return (self.path,)

    def size(self) -> int | None:
        """Return the size of the file in bytes; None if there is none. Raises OSError."""
        if self.system is None:
            return os.path.getsize(self.path) if os.path.isfile(self.path) else None
        with self._discreet():
            info = self.system.get_file_info(self.path)
        return int(info.size) if info.is_file else None

    def files(self) -> dict[str, int]:
        """Return the size in bytes of every file below the folder, by its path in it."""
        if self.system is None:
            below = (Path(at, name) for at, _, names in os.walk(self.path) for name in names)
            return {str(file.relative_to(self.path)): file.lstat().st_size for file in below}
        from pyarrow import fs

        selector = fs.FileSelector(self.path, allow_not_found=True, recursive=True)
        with self._discreet():
            found = self.system.get_file_info(selector)
        return {
            info.path[len(self.path) :].lstrip("/"): int(info.size)
            for info in found
            if info.is_file
        }

    def names(self) -> list[str]:
        """Return the names of the files in the folder, not of those below it."""
        if self.system is None:
            return [entry.name for entry in os.scandir(self.path) if entry.is_file()]
        from pyarrow import fs

        with self._discreet():
            found = self.system.get_file_info(fs.FileSelector(self.path, allow_not_found=True))
        return [info.base_name for info in found if info.is_file]

    @contextmanager
    def reading(self) -> Iterator[IO[bytes]]:
        """Yield the file's bytes as a stream. Raises OSError."""
        if self.system is None:
            with open(self.path, "rb") as file:
                yield file
            return
        with self._discreet():
            stream = self.system.open_input_stream(
                self.path, compression=None, buffer_size=BUFFER_BYTES
            )
        with self._discreet(meanwhile=True), stream:
            yield stream

    @contextmanager
    def opened(self) -> Iterator[NativeFile]:
        """Yield the file for reading it in any order. Raises OSError."""
        import pyarrow as pa

        with self._discreet():
            file = (
                pa.OSFile(self.path)
                if self.system is None
                else self.system.open_input_file(self.path)
            )
        with self._discreet(meanwhile=True), file:
            yield file

    @contextmanager
    def writing(self) -> Iterator[IO[bytes]]:
        """Yield a stream that becomes the file, even where an error ends it. Raises OSError."""
        if self.system is None:
            # not its parents: a folder that was given up stays gone, whoever still writes for it
            Path(self.path).parent.mkdir(exist_ok=True)
            with open(self.path, "wb") as file:
                yield file
            return
        with self._discreet():
            stream = self.system.open_output_stream(self.path, compression=None)
        with self._discreet(meanwhile=True), stream:
            yield stream

    def remove(self) -> None:
        """Remove the file. Raises OSError."""
        if self.system is None:
            os.unlink(self.path)
            return
        with self._discreet():
            self.system.delete_file(self.path)

    def replace(self, target: Place) -> None:
        """Give the file, which is elsewhere, another name in one stroke. Raises OSError."""
        assert self.system is not None
        with self._discreet():
            self.system.copy_file(self.path, target.path)
            self.system.delete_file(self.path)

    @contextmanager
    def _discreet(self, *, meanwhile: bool = False) -> Iterator[None]:
        """Raise PlaceError for what a file system reports; of what is done `meanwhile` by others,
        which have errors of their own, only for what is one of a file system.
        """
        try:
            yield
        except PlaceError:
            raise
        except Exception as error:
            of_system = isinstance(error, OSError) or (
                type(error).__module__.partition(".")[0] in _LIBRARIES
            )
            if self.system is None or (meanwhile and not of_system):
                raise
            raise PlaceError(self.shown, self.path, error) from None


def place_of(name: str | Path | Place) -> Place:
    """Return the place that a user names. Raises InputError for a URL that cannot be used."""
    if isinstance(name, Place):
        return name
    if not is_elsewhere(name):
        return Place(None, os.path.abspath(name), str(name))
    scheme, rest = url_of(name)
    try:
        return Place(*_SYSTEMS[scheme](rest.rstrip("/")), shown(name).rstrip("/"))
    except Exception as error:  # libraries raise what they like
        raise InputError(
            f"{shown(name)}: cannot be reached: {PlaceError(shown(name), rest, error)}"
        ) from None


def is_duckdb(path: str | Path) -> bool:
    """Tell whether a file of this machine is a database of DuckDB. Raises OSError."""
    with open(path, "rb") as file:
        place, magic = _DUCKDB
        return file.read(place.stop)[place] == magic


_Found = tuple[Any, str]
"""A file system of pyarrow, and a path in it."""

_NOT_IN_ITS_URL = "credentials and options come from the environment, not from its URL"


def _by_uri(scheme: str, rest: str) -> _Found:
    from pyarrow import fs

    if "@" in rest.partition("/")[0] or "?" in rest:
        raise ValueError(_NOT_IN_ITS_URL)
    system, path = fs.FileSystem.from_uri(f"{scheme}://{rest}")
    return system, path


def _azure(rest: str) -> _Found:
    from pyarrow import fs

    if "?" in rest:
        raise ValueError(_NOT_IN_ITS_URL)
    container, slash, path = rest.partition("/")
    container, _, host = container.partition("@")
    parts = os.environ.get("AZURE_STORAGE_CONNECTION_STRING", "").split(";")
    joined = dict(part.split("=", 1) for part in parts if "=" in part)

    def told(name: str, in_joined: str) -> str | None:
        # as Azure's own command line reads them
        return os.environ.get(f"AZURE_STORAGE_{name}") or joined.get(in_joined)

    account = host.partition(".")[0] or told("ACCOUNT", "AccountName")
    if not account:
        raise ValueError("set AZURE_STORAGE_ACCOUNT or AZURE_STORAGE_CONNECTION_STRING")
    key = told("KEY", "AccountKey")
    options = (
        {"account_key": key} if key else {"sas_token": told("SAS_TOKEN", "SharedAccessSignature")}
    )
    if endpoint := joined.get("BlobEndpoint"):
        scheme, _, authority = endpoint.partition("://")
        for service in ("blob", "dfs"):
            options[f"{service}_storage_scheme"] = scheme
            options[f"{service}_storage_authority"] = authority.partition("/")[0]
    return fs.AzureFileSystem(account, **options), f"{container}{slash}{path}"


def _web(scheme: str, rest: str) -> _Found:
    try:
        import fsspec
    except ImportError as error:
        raise ImportError("it needs pip install 'traceweave-ranks[cloud]'") from error
    from pyarrow import fs

    return fs.PyFileSystem(fs.FSSpecHandler(fsspec.filesystem(scheme))), f"{scheme}://{rest}"


_SYSTEMS: dict[str, Callable[[str], _Found]] = {
    "s3": partial(_by_uri, "s3"),
    "gs": partial(_by_uri, "gs"),
    "gcs": partial(_by_uri, "gs"),
    "az": _azure,
    "abfs": _azure,
    "abfss": _azure,
    "http": partial(_web, "http"),
    "https": partial(_web, "https"),
}
