"""Memory over time: how much was allocated and reserved, and what held it at the peak."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import duckdb

from traceweave.analyses import analysis_relation
from traceweave.report.columns import rows_table
from traceweave.report.page import Column, Figure, Origin, Section, Table, bars
from traceweave.report.query import Row, analysis_rows
from traceweave.report.selection import Selection, select_ranks
from traceweave.words import count, percent, plural, shortened, size

MOST_ROWS = 40
"""Operators and ranges in the table."""

DRAWN = 8
"""Ranks and devices whose memory is drawn over time."""

STRETCHES = 400
"""Points of a curve."""

_PEAKS = "traceweave analyze memory run.duckdb"
_CURVES = (
    f"traceweave analyze memory_timeline run.duckdb -p stretches={STRETCHES} -p curves={DRAWN}"
)
_LIVE = "traceweave analyze memory_live run.duckdb"


@dataclass(frozen=True)
class Memory:
    """Rows of the analyses memory and memory_timeline, and of memory_live at the highest peak."""

    peaks: list[Row]
    curves: list[Row]
    operators: list[Row]

    @property
    def highest(self) -> Row:
        """The row of the rank and device with the highest peak."""
        return _highest(self.peaks)


def load_memory(con: duckdb.DuckDBPyConnection) -> Memory:
    """Read the peaks, the curves of the ranks with the highest ones, and what was live there."""
    peaks = analysis_rows(con, "memory")
    if not peaks:
        return Memory([], [], [])
    curves = analysis_rows(con, "memory_timeline", stretches=STRETCHES, curves=DRAWN)
    rank, device = (_highest(peaks)[key] for key in ("rank", "device"))
    live = con.table(analysis_relation(con, "memory_live")).filter(f"rank = {rank}")
    operators = [row for row in live.to_arrow_table().to_pylist() if row["device"] == device]
    return Memory(peaks, curves, operators)


def _highest(peaks: list[Row]) -> Row:
    """Return the highest peak of a GPU; of the host if no GPU has any."""
    return min(peaks, key=lambda row: (row["on_host"], -row["peak_allocated_bytes"], row["rank"]))


def memory_in_words(memory: Memory) -> str:
    """Say in a sentence or two how high the peak was and what held the memory there."""
    if not memory.peaks:
        return ""
    peak = memory.highest
    text = f"At most {size(peak['peak_allocated_bytes'])} were allocated at once, on {_where(peak)}"
    if peak["reserved_at_peak_bytes"]:
        unused = percent(peak["fragmentation_at_peak"])
        text += (
            f"; the allocator held {size(peak['reserved_at_peak_bytes'])} then, {unused} of it not"
            " in use"
        )
    named = _held_by(row for row in memory.operators if row["host_op"])
    if not named:
        return f"{text}."
    name, held = next(iter(named.items()))
    share = held / peak["peak_allocated_bytes"]
    much = "Most of it" if share > 0.5 else "The largest part of it"
    return f"{text}. {much}, {percent(share)}, was allocated in {name}."


def memory_section(memory: Memory) -> Section:
    """Lay out memory over time, what was live at the peak, and the peaks per rank."""
    found = bool(memory.peaks)
    return Section(
        anchor="memory",
        title="Memory",
        lead=(
            "Allocated is what the program holds; reserved is what the allocator took from the"
            " device to serve it. The peak is the moment with most allocated."
        ),
        notes=(memory_in_words(memory), *_notes(memory)) if found else (),
        figures=(_curves(memory), *_operator_figure(memory)) if found else (),
        tables=(_operator_table(memory), _peak_table(memory)) if found else (),
        origins=(
            Origin("Peaks", _PEAKS),
            Origin("Live at the peak", _LIVE),
            Origin("Memory over time", _CURVES),
        ),
        empty=""
        if found
        else "The traces hold no memory events. Record them with profile_memory=True of the"
        " PyTorch profiler, or with --cuda-memory-usage=true of nsys.",
    )


def _where(row: Row) -> str:
    device = f", {row['device']}" if row["device"] else ""
    return f"rank {row['rank']}{device}"


def _notes(memory: Memory) -> list[str]:
    told = [note for note in dict.fromkeys(row["note"] for row in memory.peaks) if note]
    notes = [f"{note[0].upper()}{note[1:]}." for note in told]
    if len(memory.peaks) > DRAWN:
        notes.append(
            f"Drawn over time: the {DRAWN} highest of {plural(len(memory.peaks), 'peak')}."
        )
    return notes


def _curves(memory: Memory) -> Figure:
    reserved = any(row["reserved_bytes"] is not None for row in memory.curves)
    keys = ("allocated_bytes", "reserved_bytes") if reserved else ("allocated_bytes",)
    curves: dict[int, list[Row]] = {}
    for row in memory.curves:
        curves.setdefault(row["place"], []).append(row)
    chart = {
        "kind": "curves",
        "axis": "since the first memory event",
        "series": [
            {"label": "Reserved", "role": "reserved"},
            {"label": "Allocated", "role": "compute"},
        ][0 if reserved else 1 :],
        "variants": [
            {
                "label": _where(rows[0]).capitalize(),
                "at": [row["since_ns"] for row in rows],
                "values": [[row[key] for row in rows] for key in reversed(keys)],
            }
            for rows in curves.values()
        ],
    }
    return Figure(
        "memory",
        "Memory over time",
        f"bytes, the most in each of {STRETCHES} stretches",
        f"Line chart of allocated and reserved memory. {memory_in_words(memory)} The table “Peak"
        " per rank” holds the numbers.",
        chart,
        origin="Memory over time",
    )


def _operator_figure(memory: Memory) -> tuple[Figure, ...]:
    labels = dict(list(_held_by(memory.operators).items())[:12])
    if not labels:
        return ()
    live = ("Live at the peak", "compute", list(labels.values()))
    return (
        Figure(
            "memory-operators",
            "Live at the peak, by operator",
            f"bytes, {_where(memory.highest)}",
            "Bar chart of the memory that was live at the peak, by the operator that allocated it."
            " The table “Live at the peak” holds the numbers.",
            bars(list(labels), live, measure="bytes"),
            height=72 + 30 * len(labels),
            origin="Live at the peak",
        ),
    )


def _held_by(rows: Iterable[Row]) -> dict[str, int]:
    """Return the bytes by operator, most first."""
    held: dict[str, int] = {}
    for row in rows:
        name = shortened(row["host_op"] or row["note"] or "no operator")
        held[name] = held.get(name, 0) + row["bytes"]
    return dict(sorted(held.items(), key=lambda item: (-item[1], item[0])))


def _operator_table(memory: Memory) -> Table:
    return rows_table(
        "memory-operators",
        f"Live at the peak of {_where(memory.highest)}",
        "memory_live",
        {
            "host_op": "Operator",
            "range": "",
            "bytes": "Live",
            "share": "",
            "blocks": "",
            "largest_bytes": "",
        },
        ({**row, "host_op": row["host_op"] or row["note"]} for row in memory.operators[:MOST_ROWS]),
        note=_left_out(len(memory.operators)),
        origin="Live at the peak",
    )


def _left_out(rows: int) -> str:
    return f"The {MOST_ROWS} largest of {count(rows)}." if rows > MOST_ROWS else ""


def _peak_table(memory: Memory) -> Table:
    chosen: Selection = select_ranks(memory.peaks, lambda row: row["peak_allocated_bytes"])
    first = min(row["peak_at_ns"] for row in memory.peaks)
    peak = "At the peak"
    return rows_table(
        "memory",
        "Peak per rank",
        "memory",
        {
            "rank": "",
            "device": "",
            "allocations": "",
            "allocation_bytes": "Allocated in all",
            "peak_allocated_bytes": Column("Allocated", group=peak),
            "reserved_at_peak_bytes": Column("Reserved", group=peak),
            "fragmentation_at_peak": Column("Not in use", "percent", group=peak),
            "after_first_ns": Column("After the first rank's", "duration", group=peak),
            "peak_reserved_bytes": "Most reserved",
        },
        ({**row, "after_first_ns": row["peak_at_ns"] - first} for row in chosen.rows),
        note=chosen.note("memory", _PEAKS),
    )
