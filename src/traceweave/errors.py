"""Everything that can go wrong, as one small tree.

TraceweaveError          exit code 3 unless a subclass says otherwise
├── UsageError           2  the call itself is wrong: unknown name, bad option value
├── InputError           3  a file or folder cannot be used, or is ambiguous
├── DatabaseError        3  not a traceweave database, or one of another version
└── QueryError           2  the user's SQL, or a parameter of an analysis, is wrong

A message is one line: what failed, on which file, and the way out.
"""

from __future__ import annotations

__all__ = ["DatabaseError", "InputError", "QueryError", "TraceweaveError", "UsageError"]


class TraceweaveError(Exception):
    """Base of every error that a user can cause and mend; its text is the whole message."""

    exit_code: int = 3


class UsageError(TraceweaveError):
    """The request itself is wrong: an unknown analysis, a bad option value."""

    exit_code = 2


class InputError(TraceweaveError):
    """A trace file or folder cannot be read, or it is ambiguous what it is."""


class DatabaseError(TraceweaveError):
    """The database is missing, is not one of ours, or was written by another version."""


class QueryError(TraceweaveError):
    """SQL that DuckDB refuses, or a parameter that does not fit its analysis."""

    exit_code = 2
