"""An analysis of one's own: a file with a header like those here, which is asked as a query is."""

from __future__ import annotations

from pathlib import Path

from traceweave.analyses.catalog import EXAMPLE, Analysis, parse
from traceweave.errors import UsageError
from traceweave.locations import is_elsewhere, shown


def read_own(path: str | Path) -> Analysis:
    """Read an analysis from a file. Raises UsageError for one without a header, or a wrong one."""
    path = Path(path)
    if is_elsewhere(path):
        raise UsageError(f"{shown(path)}: is read on this machine only; copy it here")
    try:
        sql = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is no text"
        raise UsageError(f"{path}: cannot be read: {reason}") from error
    if not sql.startswith("-- "):
        raise UsageError(
            f"{path}: has no header: its first line is '-- analysis: {path.stem} | what the rows"
            f" are'; {EXAMPLE}; without one, ask 'traceweave query run.duckdb - < {path}'"
        )
    return parse(path.stem, sql)
