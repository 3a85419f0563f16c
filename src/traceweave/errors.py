"""Everything that can go wrong, as one small tree.

TraceweaveError          exit code 3 unless a subclass says otherwise
├── UsageError           2  the call itself is wrong: unknown name, bad option value
├── InputError           3  a file or folder cannot be used, or is ambiguous
├── DatabaseError        3  not a traceweave database, or one of another version
├── ResourceError        3  memory or threads ran out: no fault of any file
└── QueryError           2  the user's SQL, or a parameter of an analysis, is wrong

A message is one line: what failed, on which file, and the way out; of URLs in it, whoever wrote it,
neither query nor password is told. What there is to choose from may
follow, one to a line.
"""

from __future__ import annotations

import difflib
import os
import traceback
from collections.abc import Iterable

from traceweave.locations import without_secrets

__all__ = [
    "DatabaseError",
    "InputError",
    "QueryError",
    "ResourceError",
    "TraceweaveError",
    "UsageError",
    "defect",
    "nearest",
    "shortened",
    "suggest",
]


class TraceweaveError(Exception):
    """Base of every error that a user can cause and fix; its text is the whole message.

    `choices` are what there is to choose from, where that is more than a few words.
    """

    exit_code: int = 3

    def __init__(self, message: str = "", choices: Iterable[str] = ()) -> None:
        self.message = without_secrets(message)
        super().__init__(self.message)
        self.choices = tuple(choices)

    def __str__(self) -> str:
        return "\n  ".join([self.message, *self.choices])


class UsageError(TraceweaveError):
    """The request itself is wrong: an unknown analysis, a bad option value."""

    exit_code = 2


class InputError(TraceweaveError):
    """A trace file or folder cannot be read, or is ambiguous."""


class DatabaseError(TraceweaveError):
    """The database is missing, is not one of ours, or was written by another version."""


class ResourceError(TraceweaveError):
    """Memory or threads ran out: with fewer files at a time, or on a larger machine, it works."""


class QueryError(TraceweaveError):
    """SQL that DuckDB refuses, or a parameter that does not fit its analysis."""

    exit_code = 2


DEBUG = "TRACEWEAVE_DEBUG"
"""Environment variable: if it is set, defects come with their traceback, on stderr."""


def defect(error: BaseException) -> str:
    """Return what to say of an error that nobody foresaw, on one line."""
    if os.environ.get(DEBUG):
        traceback.print_exception(error)
    said = " ".join(str(error).split())
    what = type(error).__name__ + (f": {said}" if said else "")
    return f"{what}: this is a defect of traceweave; report it with what {DEBUG}=1 shows"


MOST_SAID = 600
"""Characters of a text from elsewhere that a message has."""

MOST_MESSAGE = 4_000
"""Characters of a message, whatever it repeats."""


def shortened(text: str, most: int = MOST_SAID) -> str:
    """Return a text that comes from a file or a user, cut off where it is longer than `most`."""
    return text if len(text) <= most else f"{text[:most]}…"


def nearest(name: str, known: Iterable[str], *, cutoff: float = 0.65) -> str | None:
    """Return the known name that `name` is most likely meant to be; None if none is near.

    `cutoff` is difflib's: how alike they have to be, 0 to 1. A name of which it is a part is near.
    """
    listed = list(known)
    near = difflib.get_close_matches(name, listed, n=1, cutoff=cutoff)
    near += [one for one in listed if len(name) > 2 and name in one]
    return near[0] if near else None


def suggest(name: str, known: Iterable[str]) -> str:
    """Return `; did you mean 'x'?` for the nearest of the known names, or nothing."""
    near = nearest(name, known)
    return "" if near is None else f"; did you mean {near!r}?"
