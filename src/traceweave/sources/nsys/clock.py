"""The clock of an export: what to add to its times to get UTC."""

from __future__ import annotations

import re

from traceweave.sources.nsys.event_tables import KERNELS, NVTX, OS_CALLS, RUNTIME
from traceweave.sources.nsys.export import Export

_EPOCH_NOT_RELATIVE = 10**17
"""No recording lasts three years, so a time beyond this is already counted from 1970."""

_PLAUSIBLE = 2**62


def read_clock(export: Export) -> tuple[int, tuple[str, ...]]:
    """Return what to add to every time of the export to get UTC epoch nanoseconds, and notes: the
    session start, unless `--ts-normalize` has been applied, and whether `--ts-shift` has.

    Both change the times of events, neither the session start. A shift is how users align reports
    by hand, so it stays.
    """
    shifted = _shift_note(export.options.get("EXPORT_PARAM_TIME_SHIFT", ""))
    if _normalized(export):
        note = "its times are UTC already (exported with --ts-normalize)"
        return 0, (note, *shifted)
    starts: list[int] = []
    if export.has("TARGET_INFO_SESSION_START_TIME", "utcEpochNs"):
        rows = export.rows("SELECT utcEpochNs FROM TARGET_INFO_SESSION_START_TIME")
        starts = [r[0] for r in rows if isinstance(r[0], int) and 0 <= r[0] < _PLAUSIBLE]
    if not starts:
        note = "it has no session start time: its times are relative to the start of recording"
        return 0, (note, *shifted)
    notes = shifted
    if len(set(starts)) > 1:
        notes += ("several recordings were appended in one export: the first start time is used",)
    return starts[0], notes


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
