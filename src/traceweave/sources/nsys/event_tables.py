"""Which tables of an export hold events, and which of their columns are read: event_tables.tsv.

There each column is a `name` or `name:kind`, the union over all schema versions from before 2021 to
3.28. Left out on purpose: process streams, log files and environments (they hold secrets) and the
arguments of OS calls (command lines may hold secrets).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources

import pyarrow as pa

_TYPES = {
    "": pa.int64(),
    "string": pa.int64(),  # an id of StringIds
    "text": pa.string(),
    "real": pa.float64(),
}

NVTX_RANGES = "59, 60, 70, 71"
"""The event types of ranges, push/pop and start/end, the latter two as text imports have them."""

USABLE = f'start < {2**62} AND coalesce("end", 0) < {2**62}'
"""Of rows with start and end: beyond, a time is damage."""

NOT_TIMELY = "without a usable time"


@dataclass(frozen=True, eq=False)
class EventTable:
    """One table of events and the columns to read."""

    name: str
    category: str
    """Set for tables that are stored as `other_events` of this category, all columns alike."""
    types: Mapping[str, pa.DataType]
    """Arrow types by column name, in order."""
    string_ids: tuple[str, ...]
    """Columns that refer to StringIds."""

    @property
    def stored(self) -> str:
        """The temporary table of the rows, with the columns that hold anything."""
        return "nsys_rows_of_" + self.name.lower()

    @property
    def judged(self) -> str:
        """The rows with all columns, and with their `fault` if they cannot be used."""
        return "nsys_judged_" + self.name.lower()

    @property
    def staged(self) -> str:
        """The rows that can be used, and what the events of all tables have."""
        return "nsys_" + self.name.lower()

    @property
    def start(self) -> str:
        """The column with the time of an event, or of its begin."""
        return "start" if "start" in self.types else "timestamp"

    @property
    def may_be_open(self) -> bool:
        """Whether its events may have no end: those that last are cut where the recording ends."""
        return self.name == "NVTX_EVENTS" or self.name.startswith("MPI_")

    @property
    def faults(self) -> Mapping[str, str]:
        """What makes a row useless, by what is said of it."""
        if self.name == "CUPTI_ACTIVITY_KIND_CUDA_EVENT":
            return {}  # before schema 3.25 they have no time of their own
        faults = {NOT_TIMELY: f"NOT coalesce(nsys_timely({self.start}), FALSE)"}
        if "end" in self.types:
            missing = "" if self.may_be_open or self.category else ' OR "end" IS NULL'
            faults[NOT_TIMELY] += f' OR NOT coalesce(nsys_timely("end"), TRUE){missing}'
            faults["that end before they start"] = f'"end" < {self.start}' + (
                f" AND eventType IN ({NVTX_RANGES})" if self.name == "NVTX_EVENTS" else ""
            )
        if self.name == "CUDA_GPU_MEMORY_USAGE_EVENTS":
            faults["with an impossible size"] = "NOT nsys_timely(coalesce(bytes, 0))"
        return faults


def _tables() -> dict[str, EventTable]:
    text = resources.files(__package__).joinpath("event_tables.tsv").read_text(encoding="utf-8")
    tables = {}
    for name, category, columns in (line.split("\t") for line in text.splitlines()[1:]):
        kinds = {c: kind for c, _, kind in (column.partition(":") for column in columns.split())}
        types = {column: _TYPES[kind] for column, kind in kinds.items()}
        strings = tuple(column for column, kind in kinds.items() if kind == "string")
        tables[name] = EventTable(name, category, types, strings)
    return tables


TABLES: Mapping[str, EventTable] = _tables()
"""Every table that is read, in the order in which its rows are numbered."""

KERNELS, MEMCPY, GRAPH_TRACE, RUNTIME = (
    TABLES[f"CUPTI_ACTIVITY_KIND_{kind}"] for kind in ("KERNEL", "MEMCPY", "GRAPH_TRACE", "RUNTIME")
)
NVTX, OS_CALLS = TABLES["NVTX_EVENTS"], TABLES["OSRT_API"]
MPI = tuple(table for name, table in TABLES.items() if name.startswith("MPI_"))

PAYLOAD_COLUMN = "binaryData"
"""Read with NVTX, decoded batch by batch, never stored as it is."""

NOT_LOADED: Mapping[str, str] = {
    "SCHED_EVENTS": "thread scheduling events",
    "COMPOSITE_EVENTS": "CPU samples",
    "OSRT_FILE_ACCESS_EVENTS": "file access events (they name files)",
}
"""Tables of events that are counted but not stored, and what they hold."""

_TIME_COLUMNS = ("start", "timestamp", "rawTimestamp")
_NO_EVENTS = frozenset({"MPI_COMMUNICATORS", "OSRT_FILE_ACCESS_DESCRIPTORS"})
"""Tables with a time column that describe things and record no events."""
_DESCRIBING = ("ENUM_", "TARGET_INFO_", "META_DATA_")


def may_hold_events(table: str, columns: frozenset[str]) -> bool:
    """Tell whether a table holds events: a known one, or one of unknown name that has times."""
    if table in _NO_EVENTS or table.startswith((*_DESCRIBING, "sqlite_")):
        return False
    return table in TABLES or table in NOT_LOADED or not columns.isdisjoint(_TIME_COLUMNS)


def is_of_nsys(table: str) -> bool:
    """Tell whether events, or what they refer to, are looked for in a table of this name."""
    known = table in TABLES or table in NOT_LOADED or table in ("StringIds", "MPI_RANKS")
    return known or table.startswith(_DESCRIBING)
