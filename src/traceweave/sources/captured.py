"""What traceweave.capture wrote into a trace beside what the profiler wrote, or into a file beside
the report of nsys.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from itertools import chain, islice
from typing import Any

import duckdb

from traceweave.sources.batches import insert_all
from traceweave.sources.values import LATEST_NS, MOST_RANK, listed, mapping, text, whole, wholes

_MOST_EXCHANGES = 100_000
_MOST_ENTRIES = 10_000
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
        insert_all(con, table, found)


def parse_captured(value: object) -> Captured:
    """Read the value of the top level's key `traceweave`; what is damaged is left out."""
    told = mapping(value)
    settings = chain(
        _measured(told.get(UNPROFILED)),
        _settings("version", told.get("versions")),
        _settings("switch", told.get("switches")),
    )
    return Captured(
        text(told.get("host")),
        tuple(islice(_exchanges(told.get("probes")), _MOST_EXCHANGES)),
        tuple(islice(_roles(told.get("groups")), _MOST_ENTRIES)),
        tuple(islice(settings, _MOST_ENTRIES)),
    )


def _roles(groups: object) -> Iterator[GroupRole]:
    for group in map(mapping, listed(groups)):
        name, role, ranks = group.get("name"), text(group.get("role")), wholes(group.get("ranks"))
        if isinstance(name, str) and role is not None and ranks is not None:
            yield GroupRole(name, sorted(ranks), role)


def _settings(kind: str, told: object) -> Iterator[Setting]:
    for name, value in mapping(told).items():
        if isinstance(value, str):
            yield Setting(kind, name, value)


def _measured(step_ns: object) -> Iterator[Setting]:
    if (length := whole(step_ns, LATEST_NS, least=1)) is not None:
        yield Setting("measured", UNPROFILED, str(length))


def _exchanges(probes: object) -> Iterator[Exchange]:
    for meeting, of_peer in enumerate(map(mapping, listed(probes))):
        peer = whole(of_peer.get("peer"), MOST_RANK)
        for one in listed(of_peer.get("times")):
            times = wholes(one, LATEST_NS) or []
            if peer is not None and len(times) == 4:
                yield Exchange(peer, meeting, *times)
