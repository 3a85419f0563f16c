"""What traceweave.capture wrote: into a trace, beside what the profiler wrote, or into a file
beside the report of an nsys that did the recording (a format of its own).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import duckdb
import orjson

from traceweave.errors import InputError
from traceweave.sources.model import Loaded, Process, Report, Trace
from traceweave.sources.values import LATEST_NS, MOST_RANK, listed, mapping, text, whole, wholes
from traceweave.store.rows import insert_rows

_FIRST = b'{"traceweave":'
_MOST_BYTES = 64 << 20
_MOST_EXCHANGES = 100_000
_MOST_ENTRIES = 10_000

Row = dict[str, Any]


Captured = dict[str, list[Row]]
"""The part of it that traceweave uses: rows by the table that they are for, without rank."""

PROBES, ROLES, SETTINGS = "base.clock_probes", "base.group_roles", "base.job_settings"


def recognize(path: Path, head: bytes) -> bool:
    """Tell whether a file lies beside a report from its first bytes; traces are known by theirs."""
    return head.lstrip().startswith(_FIRST)


def probe(path: Path, trust_packed: bool = False, with_times: bool = True) -> Trace:
    """Describe a file beside a report: who the process is.

    Raises:
        InputError: it is damaged, or larger than any is.
    """
    told = _read(path)
    return Trace(
        path=path,
        format="capture",
        size_bytes=path.stat().st_size,
        processes=(
            Process(
                key=0,
                rank=whole(told.get("rank"), MOST_RANK),
                rank_source="traceweave.capture",
                world_size=whole(told.get("world_size"), MOST_RANK) or None,
                host=text(told.get("host")),
                pid=whole(told.get("pid"), MOST_RANK),
            ),
        ),
        producer="traceweave.capture",
        producer_version=text(told.get("version")),
        beside=True,
    )


def load(con: duckdb.DuckDBPyConnection, trace: Trace, source_id: int, report: Report) -> Loaded:
    """Fill the tables of roles and settings from a file beside a report.

    Its clock probes are left out: nsys counts from the start of its session, whose place on the
    clock that was probed it does not tell as exactly. Raises InputError if it is damaged.
    """
    captured = {**parse_captured(_read(trace.path)), PROBES: []}
    rank = trace.processes[0].rank
    if rank is not None:
        store_captured(con, [(rank, source_id, captured)])
    report(trace.size_bytes)
    stored = sum(map(len, captured.values()))
    return Loaded(stored, stored)


def _read(path: Path) -> dict[str, Any]:
    if path.stat().st_size > _MOST_BYTES:
        raise InputError(f"{path}: is larger than what traceweave.capture writes")
    try:
        told = orjson.loads(path.read_bytes())["traceweave"]
    except (orjson.JSONDecodeError, LookupError, TypeError) as error:
        raise InputError(f"{path}: is damaged ({error}); copy it again") from error
    return mapping(told)


def store_captured(
    con: duckdb.DuckDBPyConnection, told: Iterable[tuple[int, int, Captured]]
) -> None:
    """Fill the tables with what sources told: (rank, source_id, what)."""
    rows: Captured = {PROBES: [], ROLES: [], SETTINGS: []}
    for rank, source_id, captured in told:
        for table, of_source in captured.items():
            rows[table] += [{"rank": rank, "source_id": source_id, **row} for row in of_source]
    for table, of_all in rows.items():
        insert_rows(con, table, of_all)


def parse_captured(value: object) -> Captured:
    """Read the value of the top level's key `traceweave`; what is damaged is left out."""
    told = mapping(value)
    return {
        PROBES: list(islice(_exchanges(told.get("probes")), _MOST_EXCHANGES)),
        ROLES: list(islice(_roles(told.get("groups")), _MOST_ENTRIES)),
        SETTINGS: list(islice(_settings(told), _MOST_ENTRIES)),
    }


def _exchanges(probes: object) -> Iterator[Row]:
    for meeting, of_peer in enumerate(map(mapping, listed(probes))):
        peer = whole(of_peer.get("peer"), MOST_RANK)
        for one in listed(of_peer.get("times")):
            times = wholes(one, LATEST_NS) or []
            if peer is not None and len(times) == 4:
                asked, heard, answered, received = times
                yield {
                    "peer_rank": peer, "meeting": meeting, "asked_local_ns": asked,
                    "heard_local_ns": heard, "answered_local_ns": answered,
                    "received_local_ns": received,
                }  # fmt: skip


def _roles(groups: object) -> Iterator[Row]:
    for group in map(mapping, listed(groups)):
        name, role, ranks = group.get("name"), text(group.get("role")), wholes(group.get("ranks"))
        if isinstance(name, str) and role is not None and ranks is not None:
            yield {"group_name": name, "group_ranks": sorted(ranks), "role": role}


def _settings(told: dict[str, Any]) -> Iterator[Row]:
    # what capture measured itself: how long a step took before the profiler was made ready
    step = "unprofiled_step_ns"
    if (length := whole(told.get(step), LATEST_NS, least=1)) is not None:
        yield {"kind": "measured", "name": step, "value": str(length)}
    for kind, key in (("version", "versions"), ("switch", "switches")):
        for name, value in mapping(told.get(key)).items():
            if isinstance(value, str):
                yield {"kind": kind, "name": name, "value": value}
