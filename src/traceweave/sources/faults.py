"""Whose fault it is when a file cannot be read: its own, the machine's, or traceweave's."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb

from traceweave.errors import InputError, ResourceError, TraceweaveError, defect
from traceweave.interrupts import was_interrupted
from traceweave.resources import what_ran_out
from traceweave.store.database import first_line

_DAMAGE = (
    TraceweaveError,
    OSError,
    EOFError,
    UnicodeError,
    json.JSONDecodeError,
    sqlite3.Error,
    duckdb.DataError,
    duckdb.InvalidInputException,
)
"""What readers raise that were given something else than they expect; all else nobody foresaw."""

_NO_FAULT_OF_A_FILE = (duckdb.FatalException, duckdb.InterruptException, duckdb.IOException)
"""Of the database that is written."""


class BadFileError(InputError):
    """A file cannot be read; its text is the reason, without the file's name."""


@contextmanager
def fails_alone(*paths: Path) -> Iterator[None]:
    """Raise BadFileError for whatever goes wrong with a file, which has one of these names.

    What is no fault of it is raised as it is: Ctrl-C, a disk that is full; ResourceError if memory
    or threads ran out, since the next file would have none either.
    """
    try:
        yield
    except Exception as error:
        if isinstance(error, _NO_FAULT_OF_A_FILE) or was_interrupted(error):
            raise
        if (ran_out := what_ran_out(error)) is not None:
            raise ResourceError(f"{ran_out} while {paths[-1]} was read") from error
        reason = defect(error) if is_defect(error) else first_line(error)
        for path in paths:
            reason = reason.removeprefix(f"{path}: ")
        raise BadFileError(reason) from error


def is_defect(error: BaseException) -> bool:
    """Tell whether an error says nothing of a file, but of whoever has written its reader."""
    # what Arrow raises: it is imported where somebody needs it
    return not isinstance(error, _DAMAGE) and not type(error).__module__.startswith("pyarrow")


def damage(error: BaseException) -> str:
    """Return what an error says of a part of a file that cannot be read; the rest goes on.

    Raises the error again if memory or threads ran out.
    """
    if what_ran_out(error) is not None:
        raise error
    return first_line(error)
