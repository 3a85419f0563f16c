"""Which process group gloo's worker threads serve.

A call of gloo names no group. But every group of a rank has worker threads of its own, made when it
was made, so a rank's threads, by their numbers, serve its groups in the order in which its trace
lists them. Which groups were used at all, the calls tell: what two members did in one group has to
be alike and to obey causality. What all readings of a run's threads that do so have in common
holds; the rest stays open.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import duckdb
import numpy as np

from traceweave.arrays import Ints
from traceweave.matching.calls import RECV, SEND, Calls, read_calls
from traceweave.matching.send_recv import SameClock
from traceweave.matching.shifts import could_be_one

MOST_THREADS = 2
"""Of a group: what ProcessGroupGloo makes, unless its options say otherwise, which nobody sets."""
FEW = 3
"""Other members that each member of a group is compared with."""
MOST_READINGS = 64
"""More of them have nothing in common."""
MOST_STEPS = 20_000
"""Of the search; then it is given up."""


class Listed(NamedTuple):
    """A process group as a rank's trace lists it."""

    name: str
    description: str | None
    ranks: tuple[int, ...]


Threads = tuple[int, ...]
Reading = dict[Listed, Threads]
"""The threads of a rank that each group has which was used."""


def resolve_threads(con: duckdb.DuckDBPyConnection, same_clock: SameClock) -> None:
    """Fill in the group of gloo's calls in base.collective_calls where a rank's trace lists several
    and all files together tell which. Running it again gives the same.
    """
    listed = _read_listed(con)
    if not listed:
        return
    con.execute(_FORGET_SQL)
    calls = read_calls(con)
    found = con.execute(
        "SELECT coalesce(stream, -1) AS thread FROM base.collective_calls"
        " ORDER BY rank, start_local_ns, call_id"
    ).fetchnumpy()
    search = _Search(calls, np.asarray(found["thread"], np.int64), listed, same_clock)
    rows = list(_in_common(search.readings()))
    if rows:
        ranks, threads, groups = zip(*rows, strict=True)
        names, descriptions, members = zip(*groups, strict=True)
        given = [list(of) for of in (ranks, threads, names, descriptions, members)]
        con.execute(_RESOLVE_SQL, given)


# What records number, they name as well. The size of an all_gather's buffer is that of what all
# members gather: as long as they are not known, of all ranks.
_FORGET_SQL = """
UPDATE base.collective_calls AS k
SET group_name = NULL, group_desc = NULL, group_ranks = NULL, group_size = l.world_size,
    bytes = CASE WHEN k.op = 'all_gather'
        THEN k.bytes // k.group_size * l.world_size ELSE k.bytes END
FROM (SELECT DISTINCT rank, world_size FROM base.listed_groups) AS l
WHERE k.rank = l.rank AND k.evidence = 'host op' AND k.seq IS NULL AND k.group_ranks IS NOT NULL
"""

_RESOLVE_SQL = """
UPDATE base.collective_calls AS k
SET group_name = f.group_name, group_desc = f.group_desc, group_ranks = f.group_ranks,
    group_size = len(f.group_ranks),
    bytes = CASE WHEN k.op = 'all_gather'
        THEN k.bytes // k.group_size * len(f.group_ranks) ELSE k.bytes END
FROM (
    SELECT
        unnest($1::INTEGER[]) AS rank, unnest($2::BIGINT[]) AS thread,
        unnest($3::VARCHAR[]) AS group_name, unnest($4::VARCHAR[]) AS group_desc,
        unnest($5::INTEGER[][]) AS group_ranks
) AS f
WHERE k.rank = f.rank AND k.stream = f.thread AND k.evidence = 'host op' AND k.seq IS NULL
    AND k.op NOT IN ('send', 'recv')
"""


def _read_listed(con: duckdb.DuckDBPyConnection) -> dict[int, list[Listed]]:
    rows = con.execute(
        "SELECT rank, group_name, any_value(group_desc), any_value(world_size),"
        " any_value(group_ranks) FROM base.listed_groups GROUP BY rank, group_name"
        " ORDER BY rank, min(place)"
    ).fetchall()
    listed: dict[int, list[Listed]] = {}
    for rank, name, description, world_size, ranks in rows:
        members = tuple(range(world_size)) if ranks is None else tuple(ranks)
        if rank in members:
            listed.setdefault(rank, []).append(Listed(name, description, members))
    return listed


def _in_common(
    readings: list[dict[int, Reading]],
) -> Iterator[tuple[int, int, tuple[str | None, str | None, list[int]]]]:
    """A rank, a thread and its group, for every thread whose group has the same members in all
    readings; without a name where it may be one of several.
    """
    serves: dict[tuple[int, int], set[Listed]] = {}
    for ranks in readings:
        for rank, reading in ranks.items():
            for group, threads in reading.items():
                for thread in threads:
                    serves.setdefault((rank, thread), set()).add(group)
    for (rank, thread), groups in serves.items():
        if len({group.ranks for group in groups}) == 1:
            (name, description, members), *others = groups
            named = (None, None) if others else (name, description)
            yield rank, thread, (*named, list(members))


@dataclass
class _Search:
    """Readings of the threads of all ranks that do not contradict each other."""

    calls: Calls
    thread: Ints
    listed: dict[int, list[Listed]]
    same_clock: SameClock
    threads: dict[int, Threads] = field(init=False)
    """Of every rank, by number."""
    known: dict[tuple[int, Threads, int, Threads], bool] = field(default_factory=dict)
    steps: int = 0

    def __post_init__(self) -> None:
        messages = (self.calls.op == SEND) | (self.calls.op == RECV)  # run where they are called
        self.on_threads = ~self.calls.on_gpu & ~messages
        self.threads = {
            rank: tuple(
                np.unique(self.thread[self.on_threads & (self.calls.rank == rank)]).tolist()
            )
            for rank in self.listed
        }

    def readings(self) -> list[dict[int, Reading]]:
        """All of them; none if there are too many to have anything in common."""
        found: list[dict[int, Reading]] = []
        for reading in self._extended({}, [rank for rank in self.threads if self.threads[rank]]):
            found.append(reading)
            if len(found) > MOST_READINGS:
                return []
        return [] if self.steps > MOST_STEPS else found

    def _extended(
        self, known: dict[int, Reading], left: Sequence[int]
    ) -> Iterator[dict[int, Reading]]:
        """Readings of the ranks that are left which go with what is known of others."""
        if not left:
            yield dict(known)
            return
        rank, *others = left
        for reading in self._own(rank, 0, 0):
            self.steps += 1
            if self.steps > MOST_STEPS:
                return
            if self._agrees(rank, reading, known):
                yield from self._extended(known | {rank: reading}, others)

    def _own(self, rank: int, group: int, first: int) -> Iterator[Reading]:
        """Readings of a rank's threads from the `first` on, by its groups from `group` on."""
        left = self.threads[rank][first:]
        if not left:
            yield {}
            return
        if group == len(self.listed[rank]):
            return
        yield from self._own(rank, group + 1, first)
        for count in range(1, min(MOST_THREADS, len(left)) + 1):
            if self._supported(rank, self.listed[rank][group], left[:count]):
                for rest in self._own(rank, group + 1, first + count):
                    yield {self.listed[rank][group]: left[:count]} | rest

    def _supported(self, rank: int, group: Listed, threads: Threads) -> bool:
        """Whether other members have threads that may serve the group if these do."""
        others = [r for r in group.ranks if r != rank and self.threads.get(r)]
        return all(
            self._idle(other, rank, threads)
            or any(self._fit(rank, threads, other, theirs) for theirs in self._sets(other))
            for other in others[:FEW]
        )

    def _sets(self, rank: int) -> list[Threads]:
        all_ = self.threads[rank]
        return [
            all_[i : i + n] for n in range(MOST_THREADS, 0, -1) for i in range(len(all_) + 1 - n)
        ]

    def _agrees(self, rank: int, reading: Reading, known: dict[int, Reading]) -> bool:
        """Whether a reading of a rank's threads goes with those of other ranks."""
        for group in self.listed[rank]:
            others = [r for r in group.ranks if r in known]
            mine = reading.get(group)
            for other in others[:FEW]:
                theirs = known[other].get(group)
                if mine is None and theirs is None:
                    continue
                if mine is None or theirs is None:
                    idle = rank if mine is None else other
                    if not self._idle(idle, rank + other - idle, mine or theirs or ()):
                        return False
                elif not self._fit(rank, mine, other, theirs):
                    return False
        return True

    def _fit(self, rank: int, mine: Threads, other: int, theirs: Threads) -> bool:
        """Whether threads of two ranks may serve one group."""
        key = (rank, mine, other, theirs) if rank < other else (other, theirs, rank, mine)
        if key not in self.known:
            a, b = self._of(*key[:2]), self._of(*key[2:])
            self.known[key] = could_be_one(a, b, self.same_clock(rank, other))
        return self.known[key]

    def _idle(self, idle: int, rank: int, threads: Threads) -> bool:
        """Whether the calls of a rank's threads all lie outside of what another one recorded."""
        if not self.same_clock(idle, rank):
            return False
        whole = self._of(idle, self.threads[idle])
        calls = self._of(rank, threads)
        beside = (calls.end < whole.start.min()) | (calls.start > whole.end.max())
        return bool(beside.all())

    def _of(self, rank: int, threads: Threads) -> Calls:
        at = self._at(rank)
        return self.calls.take(at[np.isin(self.thread[at], threads)])

    def _at(self, rank: int) -> Ints:
        """Positions of the calls of a rank's threads."""
        return np.flatnonzero(self.on_threads & (self.calls.rank == rank))
