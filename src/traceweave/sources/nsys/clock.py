"""The clock of an export: what to add to its times to get UTC."""

from __future__ import annotations

import re
from dataclasses import dataclass

from traceweave.sources.nsys.event_tables import KERNELS, NVTX, OS_CALLS, RUNTIME
from traceweave.sources.nsys.export import Export

_EPOCH_NOT_RELATIVE = 10**17
"""No recording lasts three years, so a time beyond this is already counted from 1970."""

_PLAUSIBLE = 2**62


@dataclass(frozen=True)
class SessionClock:
    """How the times of one export relate to UTC."""

    base_ns: int
    """Add to every time of the export to get UTC epoch nanoseconds."""
    notes: tuple[str, ...] = ()


def read_clock(export: Export) -> SessionClock:
    """Read the session start, and whether `--ts-normalize` and `--ts-shift` have been applied.

    Both change the times of events, neither the session start. A shift is how users align reports
    by hand, so it stays.
    """
    shifted = _shift_note(export.options.get("EXPORT_PARAM_TIME_SHIFT", ""))
    if _normalized(export):
        note = "its times are UTC already (exported with --ts-normalize)"
        return SessionClock(0, (note, *shifted))
    starts: list[int] = []
    if export.has("TARGET_INFO_SESSION_START_TIME", "utcEpochNs"):
        rows = export.rows("SELECT utcEpochNs FROM TARGET_INFO_SESSION_START_TIME")
        starts = [r[0] for r in rows if isinstance(r[0], int) and 0 <= r[0] < _PLAUSIBLE]
    if not starts:
        note = "it has no session start time: its times are relative to the start of recording"
        return SessionClock(0, (note, *shifted))
    notes = shifted
    if len(set(starts)) > 1:
        notes += ("several recordings were appended in one export: the first start time is used",)
    return SessionClock(starts[0], notes)


def _shift_note(shift: str) -> tuple[str, ...]:
    if re.fullmatch(r"[+-]?0*[1-9]\d{0,18}", shift):
        return (f"its times were shifted by {int(shift)} ns (exported with --ts-shift)",)
    return ()


def _normalized(export: Export) -> bool:
    if export.options.get("EXPORT_PARAM_TIME_NORMALIZE", "").lower() in {"true", "1"}:
        return True
    for table in (KERNELS.name, RUNTIME.name, NVTX.name, OS_CALLS.name):
        if export.has(table, "start"):
            rows = export.rows(f"SELECT start FROM {table} LIMIT 1")
            if rows and isinstance(rows[0][0], int) and rows[0][0] > _EPOCH_NOT_RELATIVE:
                return True
    return False
