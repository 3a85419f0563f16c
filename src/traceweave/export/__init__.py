"""The run for other tools: the aligned timeline for Perfetto, the original traces with their clocks
for it, the tables as Parquet files.
"""

from __future__ import annotations

from pathlib import Path

import duckdb

from traceweave.errors import UsageError
from traceweave.export.manifest import Bundle, Bundled, plan, write_manifest
from traceweave.export.parquet import write_parquet
from traceweave.export.perfetto import Written, write_perfetto
from traceweave.export.selection import Ranges, Selection, select
from traceweave.locations import shown
from traceweave.targets import FileKind, check_target

__all__ = [
    "Bundle",
    "Bundled",
    "Ranges",
    "Selection",
    "Written",
    "export",
    "plan",
    "select",
    "write_manifest",
    "write_parquet",
    "write_perfetto",
]

_ENDINGS = {"perfetto": ".pftrace", "perfetto-manifest": ".zip"}
"""What the files are called. Perfetto opens them by any name."""

_KINDS = {"perfetto": FileKind.TIMELINE, "perfetto-manifest": FileKind.ARCHIVE}

_OTHERS = (".json", ".gz", ".html", ".csv", ".parquet", ".sqlite", ".duckdb")
"""Endings that promise a format which no file exported has."""

_WRITTEN = (*_ENDINGS.items(), ("parquet", ".parquet"))


def export(
    con: duckdb.DuckDBPyConnection,
    path: Path,
    to: str,
    *,
    ranks: Ranges = None,
    steps: Ranges = None,
    start: int | str | None = None,
    end: int | str | None = None,
    host: bool = True,
    gaps: bool = False,
) -> Path:
    """Write the run in `con` to `path`, a file ('perfetto', 'perfetto-manifest') or a folder
    ('parquet').

    Raises UsageError for another `to`, for a selection that is wrong or not for it, and for a path
    whose ending promises another format.
    """
    if to in _KINDS:
        check_target(path, _KINDS[to])
    _refuse_promise(path, to)
    parts = any(given is not None for given in (steps, start, end)) or gaps or not host
    if to == "perfetto":
        chosen = select(con, ranks=ranks, steps=steps, start=start, end=end, host=host, gaps=gaps)
        write_perfetto(con, path, chosen)
    elif to == "parquet":
        if ranks is not None or parts:
            raise UsageError(
                "Parquet files hold the whole run: leave out ranks, steps, times, host and gaps,"
                " or use 'traceweave query ... --format parquet'"
            )
        write_parquet(con, path)
    elif to == "perfetto-manifest":
        if parts:
            raise UsageError(
                "perfetto-manifest has the original traces, whole: leave out steps, times, host and"
                " gaps, or use --to perfetto"
            )
        write_manifest(con, path, select(con, ranks=ranks).ranks)
    else:
        raise UsageError(
            f"there is no export to {to!r}; available: perfetto, perfetto-manifest, parquet"
        )
    return path


def _refuse_promise(path: Path, to: str) -> None:
    """Raise UsageError for a file whose name says that it is what it would not be."""
    ending = path.suffix.lower()
    others = (*_OTHERS, *_ENDINGS.values())
    if to not in _ENDINGS or ending == _ENDINGS[to] or ending not in others:
        return
    other = next((f"; {ending} is an export to {a}" for a, its in _WRITTEN if its == ending), "")
    raise UsageError(
        f"{shown(path)}: an export to {to} is no {ending}; name it {_ENDINGS[to]}{other}"
    )
