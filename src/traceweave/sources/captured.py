"""What traceweave.capture wrote into a trace beside what the profiler wrote, or into a file beside
the report of nsys.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from itertools import chain, islice
from typing import Any, TypeGuard

import duckdb

_MOST_EXCHANGES = 100_000
_MOST_ENTRIES = 10_000
_LATEST_NS = 4 * 10**18
MOST_RANK = 2**31 - 1
UNPROFILED = "unprofiled_step_ns"
"""How long a step took before the profiler was made ready."""


@dataclass(frozen=True)
class Exchange:
    """An exchange of clock probes, by the columns of base.clock_probes; times in ns since the
    epoch, the middle two by the clock of the peer.
    """

    peer_rank: int
    meeting: int
    asked_local_ns: int
    heard_local_ns: int
    answered_local_ns: int
    received_local_ns: int


@dataclass(frozen=True)
class GroupRole:
    """What the job says a process group is for, by the columns of base.group_roles."""

    group_name: str
    group_ranks: list[int]
    role: str


@dataclass(frozen=True)
class Setting:
    """What a rank ran with, by the columns of base.job_settings."""

    kind: str
    """'version', 'switch', or 'measured' for what capture measured itself."""
    name: str
    value: str


@dataclass(frozen=True)
class Captured:
    """The part of it that traceweave uses; empty for other traces."""

    host: str | None = None
    exchanges: tuple[Exchange, ...] = ()
    roles: tuple[GroupRole, ...] = ()
    settings: tuple[Setting, ...] = ()


def store_captured(
    con: duckdb.DuckDBPyConnection, told: Iterable[tuple[int, int, Captured]]
) -> None:
    """Fill base.clock_probes, base.group_roles and base.job_settings with what sources told: (rank,
    source_id, what).
    """
    rows: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for rank, source_id, captured in told:
        of_rank = {"rank": rank, "source_id": source_id}
        for table, entries in (
            ("base.clock_probes", captured.exchanges),
            ("base.group_roles", captured.roles),
            ("base.job_settings", captured.settings),
        ):
            rows[table] += [of_rank | asdict(entry) for entry in entries]
    for table, found in rows.items():
        if found:
            con.execute(
                f"INSERT INTO {table} BY NAME SELECT unnest($1, recursive := true)", [found]
            )


def parse_captured(value: object) -> Captured:
    """Read the value of the top level's key `traceweave`; what is damaged is left out."""
    if not isinstance(value, dict):
        return Captured()
    host = value.get("host")
    exchanges = islice(_exchanges(value.get("probes")), _MOST_EXCHANGES)
    settings = chain(
        _measured(value.get(UNPROFILED)),
        _settings("version", value.get("versions")),
        _settings("switch", value.get("switches")),
    )
    return Captured(
        host if isinstance(host, str) and host else None,
        tuple(exchanges),
        tuple(islice(_roles(value.get("groups")), _MOST_ENTRIES)),
        tuple(islice(settings, _MOST_ENTRIES)),
    )


def _roles(groups: object) -> Iterator[GroupRole]:
    for group in groups if isinstance(groups, list) else []:
        found = group if isinstance(group, dict) else {}
        name, ranks, role = found.get("name"), found.get("ranks"), found.get("role")
        if isinstance(name, str) and isinstance(role, str) and role and _are_ranks(ranks):
            yield GroupRole(name, sorted(ranks), role)


def _settings(kind: str, told: object) -> Iterator[Setting]:
    for name, value in told.items() if isinstance(told, dict) else ():
        if isinstance(value, str):
            yield Setting(kind, name, value)


def _measured(step_ns: object) -> Iterator[Setting]:
    if is_within(step_ns, _LATEST_NS) and step_ns > 0:
        yield Setting("measured", UNPROFILED, str(step_ns))


def _exchanges(probes: object) -> Iterator[Exchange]:
    for meeting, of_peer in enumerate(probes if isinstance(probes, list) else []):
        found = of_peer if isinstance(of_peer, dict) else {}
        peer, times = found.get("peer"), found.get("times")
        for one in times if isinstance(times, list) else []:
            if is_within(peer, MOST_RANK) and _are_times(one):
                yield Exchange(peer, meeting, *one)


def _are_ranks(value: object) -> TypeGuard[list[int]]:
    return isinstance(value, list) and all(is_within(rank, MOST_RANK) for rank in value)


def _are_times(value: object) -> TypeGuard[list[int]]:
    if not isinstance(value, list) or len(value) != 4:
        return False
    return all(is_within(time, _LATEST_NS) for time in value)


def is_within(value: object, most: int) -> TypeGuard[int]:
    """Tell whether a value is a number from 0 to `most`."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= most
