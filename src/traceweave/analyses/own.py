"""An analysis of one's own: a file with a header like those here, which is asked as a query is."""

from __future__ import annotations

from pathlib import Path

from traceweave.analyses.catalog import Analysis, parse
from traceweave.errors import UsageError
from traceweave.locations import is_elsewhere, shown

_EXAMPLE = "docs/getting-started.md has a whole example"


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
            f"{path}: has no header ('-- analysis: {path.stem} | what the rows are', then the like"
            f" of answers, topic, grain, reads, order and columns); {_EXAMPLE}; without one, ask"
            f" 'traceweave query run.duckdb - < {path}'"
        )
    try:
        analysis = parse(path.stem, sql)
    except ValueError as error:
        raise UsageError(f"{error}; {_EXAMPLE}") from error
    _check_lines(path, analysis)
    return analysis


def _check_lines(path: Path, analysis: Analysis) -> None:
    """Raise UsageError for a line of the header that cannot be taken apart."""
    for lines, form in (
        ("parameters", "'-- param: name TYPE = default | meaning'"),
        ("columns", "'-- column: name TYPE | meaning'"),
        ("summary", f"'-- analysis: {path.stem} | what the rows are'"),
    ):
        try:
            getattr(analysis, lines)
        except (ValueError, IndexError) as error:
            raise UsageError(f"{path}: a line of the header is not {form}; {_EXAMPLE}") from error
