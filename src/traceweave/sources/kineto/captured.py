"""What traceweave.capture wrote into a trace, beside what the profiler wrote."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

_MOST_EXCHANGES = 100_000
_LATEST_NS = 4 * 10**18
_MOST_RANK = 2**31 - 1


Exchange = tuple[int, int, int, int, int, int]
"""Of clock probes: the rank that was asked, at which meeting; when the request left and arrived,
when the answer left and arrived."""


@dataclass(frozen=True)
class Captured:
    """The part of it that traceweave uses; empty for other traces."""

    host: str | None = None
    exchanges: tuple[Exchange, ...] = ()


def parse_captured(value: object) -> Captured:
    """Read the value of the top level's key `traceweave`; what is damaged is left out."""
    if not isinstance(value, dict):
        return Captured()
    host = value.get("host")
    exchanges = islice(_exchanges(value.get("probes")), _MOST_EXCHANGES)
    return Captured(host if isinstance(host, str) and host else None, tuple(exchanges))


def _exchanges(probes: object) -> Iterator[Exchange]:
    for meeting, of_peer in enumerate(probes if isinstance(probes, list) else []):
        found = of_peer if isinstance(of_peer, dict) else {}
        peer, times = found.get("peer"), found.get("times")
        for one in times if isinstance(times, list) else []:
            if _is_exchange(peer, one):
                yield (peer, meeting, *one)


def _is_exchange(peer: object, times: object) -> bool:
    return (
        _is_within(peer, _MOST_RANK)
        and isinstance(times, list)
        and len(times) == 4
        and all(_is_within(time, _LATEST_NS) for time in times)
    )


def _is_within(value: object, most: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= most
