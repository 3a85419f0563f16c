"""Files and folders wherever they are: on this machine, or behind the file systems of pyarrow.

Object storage is named by URL. Credentials come from the environment, which the file systems read
themselves; what a URL says beside its path (a signature, a password) is used and never shown.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from traceweave.errors import InputError
from traceweave.locations import is_elsewhere, shown, url_of

if TYPE_CHECKING:
    from pyarrow import NativeFile, fs

BUFFER_BYTES = 4 << 20

_SECRET = re.compile(r"SECRET|TOKEN|KEY|PASSWORD|CREDENTIAL|SAS|CONNECTION_STRING", re.IGNORECASE)
"""Names of environment variables whose values are not for printing."""
_SHORTEST_SECRET = 8


_DUCKDB = slice(8, 12), b"DUCK"
"""Where a DuckDB file says what it is, after a checksum of eight bytes."""


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
        with _discreet():
            info = self.system.get_file_info(self.path)
        return int(info.size) if info.is_file else None

    def files(self) -> dict[str, int]:
        """Return the size in bytes of every file below the folder, by its path in it."""
        if self.system is None:
            below = (Path(at, name) for at, _, names in os.walk(self.path) for name in names)
            return {str(file.relative_to(self.path)): file.lstat().st_size for file in below}
        from pyarrow import fs

        selector = fs.FileSelector(self.path, allow_not_found=True, recursive=True)
        with _discreet():
            found = self.system.get_file_info(selector)
        return {
            info.path[len(self.path) :].lstrip("/"): int(info.size)
            for info in found
            if info.is_file
        }

    @contextmanager
    def reading(self) -> Iterator[IO[bytes]]:
        """Yield the file's bytes as a stream. Raises OSError."""
        if self.system is None:
            with open(self.path, "rb") as file:
                yield file
            return
        with (
            _discreet(),
            self.system.open_input_stream(
                self.path, compression=None, buffer_size=BUFFER_BYTES
            ) as stream,
        ):
            yield stream

    @contextmanager
    def opened(self) -> Iterator[NativeFile]:
        """Yield the file for reading it in any order. Raises OSError."""
        import pyarrow as pa

        with _discreet():
            file = (
                pa.OSFile(self.path)
                if self.system is None
                else self.system.open_input_file(self.path)
            )
        with file:
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
        with (
            _discreet(),
            self.system.open_output_stream(self.path, compression=None) as stream,
        ):
            yield stream

    def remove(self) -> None:
        """Remove the file. Raises OSError."""
        if self.system is None:
            os.unlink(self.path)
            return
        with _discreet():
            self.system.delete_file(self.path)


def place_of(name: str | Path | Place) -> Place:
    """Return the place that a user names. Raises InputError for a URL that cannot be used."""
    if isinstance(name, Place):
        return name
    if not is_elsewhere(name):
        return Place(None, os.path.abspath(name), str(name))
    scheme, rest = url_of(name)
    try:
        with _discreet():
            return Place(*_SYSTEMS[scheme](rest.rstrip("/")), shown(name).rstrip("/"))
    except (OSError, ValueError, ImportError) as error:
        raise InputError(f"{shown(name)}: cannot be reached: {error}") from None


def is_duckdb(path: str | Path) -> bool:
    """Tell whether a file of this machine is a database of DuckDB. Raises OSError."""
    with open(path, "rb") as file:
        place, magic = _DUCKDB
        return file.read(place.stop)[place] == magic


def without_secrets(text: str) -> str:
    """Return a text without what URLs in it say beside their path, and without values of the
    environment that are secret.
    """
    text = re.sub(r"((?:s3|gs|gcs|az|abfss?|https?):/+[^\s'\"?]*)\?[^\s'\")]*", r"\1", text)
    for name, value in os.environ.items():
        if _SECRET.search(name) and len(value) >= _SHORTEST_SECRET:
            text = text.replace(value, f"({name})")
    return text


@contextmanager
def _discreet() -> Iterator[None]:
    """Raise OSError without secrets for what a file system reports."""
    try:
        yield
    except OSError as error:
        text = without_secrets(str(error))
        if text == str(error):
            raise
        raise OSError(error.errno, text) from None


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
