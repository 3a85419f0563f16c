"""Which part of a run to export: ranks, steps and a stretch of time, checked against the run."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal

import duckdb

from traceweave.errors import UsageError
from traceweave.words import duration, named

Ranges = str | Iterable[int] | None
"""Numbers as '0,3-5' or as integers; None: all."""

_UNITS = {"ns": 1, "us": 1_000, "ms": 1_000_000, "s": 1_000_000_000, "min": 60_000_000_000}
_MOST = 9_223_372_036_854_775_807


@dataclass(frozen=True)
class Selection:
    """What to export. None stands for everything; times are aligned nanoseconds."""

    ranks: tuple[int, ...] | None = None
    steps: tuple[int, ...] | None = None
    start_ns: int | None = None
    end_ns: int | None = None
    host: bool = True
    """Host operators, API calls and other host events, and the arrows from launch to GPU op."""
    gaps: bool = False
    """Idle gaps named by their cause, the exposed communication per step, and the critical path."""


def select(
    con: duckdb.DuckDBPyConnection,
    *,
    ranks: Ranges = None,
    steps: Ranges = None,
    start: int | str | None = None,
    end: int | str | None = None,
    host: bool = True,
    gaps: bool = False,
) -> Selection:
    """Return the selection for what a user asks of the run in `con`.

    `start` and `end` are aligned nanoseconds, or offsets from the run's start such as '+1.5s'.
    Raises UsageError for what cannot be read, and for ranks and steps that the run does not have.
    """
    first, last = run_span(con)
    since, until = _time(start, first), _time(end, first)
    chosen = Selection(
        _existing(con, "rank", ranks), _existing(con, "step", steps), since, until, host, gaps
    )
    if since is not None and until is not None and until <= since:
        raise UsageError(f"the selected time is empty: it ends ({end}) before it starts ({start})")
    if (since is not None and since > last) or (until is not None and until < first):
        raise UsageError(
            f"nothing was recorded in the selected time: the run lasts {duration(last - first)};"
            " times are aligned nanoseconds, or offsets from its start such as +1.5s"
        )
    return chosen


def run_span(con: duckdb.DuckDBPyConnection) -> tuple[int, int]:
    """Return the aligned times of the run's first event and last end, ns; 0 for a run without."""
    [(first, last)] = con.execute(
        "SELECT min(aligned_ns(local_ns, offset_ns, drift_ppm, reference_local_ns)),"
        " max(aligned_ns(local_ns, offset_ns, drift_ppm, reference_local_ns))"
        " FROM (SELECT rank, unnest([first_local_ns, last_local_ns]) AS local_ns FROM ranks)"
        " JOIN clock_spans USING (rank)"
        " WHERE local_ns >= from_local_ns AND local_ns < until_local_ns"
    ).fetchall()
    return int(first or 0), int(last or 0)


def parse_ranges(text: str) -> tuple[tuple[int, int], ...]:
    """Return '0,3-5' as ((0, 0), (3, 5)). Raises UsageError."""
    ranges = []
    for part in text.split(","):
        found = re.fullmatch(r"\s*(\d{1,18})\s*(?:-\s*(\d{1,18})\s*)?", part)
        if found is None or (found[2] is not None and int(found[2]) < int(found[1])):
            raise UsageError(f"{text!r} is not a list of numbers; write them like 0,3-5")
        ranges.append((int(found[1]), int(found[2] or found[1])))
    return tuple(ranges)


def parse_time(text: str, origin_ns: int) -> int:
    """Return nanoseconds: a number as it is, '+1.5s' counted from the origin. Raises UsageError."""
    found = re.fullmatch(r"\+(\d{1,18}(?:\.\d{1,18})?)\s*(ns|us|ms|s|min)", text.strip())
    if found is not None:
        value = origin_ns + int(Decimal(found[1]) * _UNITS[found[2]])
    elif re.fullmatch(r"\d{1,19}", text.strip()):
        value = int(text)
    else:
        raise UsageError(
            f"{text!r} is not a time; write aligned nanoseconds, or an offset from the run's start"
            " such as +1.5s or +200ms"
        )
    if value > _MOST:
        raise UsageError(f"{text!r} is outside the times that a database can hold")
    return value


def _time(given: int | str | None, origin_ns: int) -> int | None:
    return parse_time(given, origin_ns) if isinstance(given, str) else given


def _existing(con: duckdb.DuckDBPyConnection, what: str, given: Ranges) -> tuple[int, ...] | None:
    if given is None:
        return None
    ranges = parse_ranges(given) if isinstance(given, str) else [(n, n) for n in given]
    relation = {"rank": "ranks", "step": "steps"}[what]
    rows = con.execute(f"SELECT DISTINCT {what} FROM {relation} ORDER BY {what}").fetchall()
    known = [int(row[0]) for row in rows]
    for first, last in ranges:
        have = sum(first <= number <= last for number in known)
        if have < last - first + 1:
            one = f"{what} {first} is" if first == last else f"{what}s {first}-{last} are"
            has = named(what, known) if known else f"no {what}s"
            raise UsageError(f"{one} not in this run; it has {has}")
    return tuple(n for n in known if any(first <= n <= last for first, last in ranges))
