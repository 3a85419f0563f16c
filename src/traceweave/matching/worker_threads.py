"""Which process group gloo's worker threads serve.

A call of gloo names no group. But every group of a rank has worker threads of its own, made when it
was made, so a rank's threads, by their numbers, serve its groups in the order in which its trace
lists them. Which groups were used at all, the calls tell: what two members did in one group has to
be alike and to obey causality. What all readings of a run's threads that do so have in common
holds; the rest stays open.

Groups made after the profiler started are in no list, so threads may also serve one of those. A
call that makes a group records nothing but takes time, so calls whose first one comes after a pause
of the threads that issue collectives may be of such a group.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain, pairwise
from statistics import median
from typing import NamedTuple

import duckdb
import numpy as np

from traceweave.arrays import Ints
from traceweave.matching.calls import RECV, SEND, Calls, SameClock
from traceweave.matching.shifts import could_be_one
from traceweave.matching.strands import THREADS
from traceweave.matching.ties import Bundle, Tie, weigh
from traceweave.store.schema import LEAST_PAUSE_NS

ALONE = 3
"""Calls, each after a pause, that one of a group's two threads may have done while the other had
nothing to do: the one that has waited longer takes the next. Of calls that come at once the one
that is still awake takes as many as there are: of those 70 to 270 us apart 8 in a row."""
FEW = 3
"""Members on either side that each member of a group is compared with."""
STEPS = 3
"""Steps of which calls have to come in each to be of a group that was there before the first."""
MOST_READINGS = 100
"""Of one rank; where one has more, groups of the same members count as one. If it still has more,
the run stays open."""


class Listed(NamedTuple):
    """A process group as a rank's trace lists it."""

    name: str
    description: str | None
    ranks: tuple[int, ...]


UNLISTED = Listed("", None, ())
"""Groups made after the profiler started, whose members nothing tells."""

Threads = tuple[int, ...]
Reading = dict[Listed, Threads]
"""The threads of a rank that each group has which was used."""


@dataclass(frozen=True)
class Recording:
    """When a rank may have made groups that one of its files does not list."""

    pauses: list[tuple[int, int]]
    """In which its threads that issue collectives recorded nothing: start and end, in order."""
    steps: list[tuple[int, int, int]]
    """Number, start and end, in order."""

    def may_have_made(self, calls: Calls) -> bool:
        """Return whether the group that the calls are of may have been made in the recording,
        before the first of them.
        """
        first = int(calls.start.min())
        return self._longest(None, first) > 0 and not self._used_from_the_first_step_on(calls)

    def _used_from_the_first_step_on(self, calls: Calls) -> bool:
        """Whether calls come in all steps, and no longer pause before them in the first than is
        usual in others. In the step 0 that a profiler marks, a job may set itself up.
        """
        if len(self.steps) < STEPS or not self.steps[0][0]:
            return False
        begin = self.steps[0][1]
        if self._longest(None, begin) or int(calls.start.min()) < begin:
            return False
        pauses = []
        for _, start, end in self.steps:
            here = calls.start[(calls.start >= start) & (calls.start < end)]
            if not len(here):
                return False
            pauses.append(self._longest(start, int(here.min())))
        return pauses[0] <= 2 * median(pauses[1:])

    def _longest(self, since: int | None, until: int) -> int:
        """The longest pause between two moments."""
        inside = (
            min(end, until) - (start if since is None else max(start, since))
            for start, end in self.pauses
        )
        return max((pause for pause in inside if pause >= LEAST_PAUSE_NS), default=0)


def read_recordings(con: duckdb.DuckDBPyConnection, origin_ns: int) -> dict[int, Recording]:
    """Return what each source that lists groups recorded, by its number; times since an origin."""
    rows = con.execute(_RECORDINGS_SQL, {"origin": origin_ns}).fetchall()
    return {source: Recording(pauses, steps) for source, pauses, steps in rows}


_RECORDINGS_SQL = """
WITH spans AS (
    SELECT source_id, NULL AS step, start_local_ns - $origin AS start_ns, duration_ns
    FROM base.pauses
    UNION ALL
    SELECT source_id, step, start_local_ns - $origin, duration_ns FROM base.steps
)
SELECT
    source_id,
    coalesce(list([start_ns, start_ns + duration_ns] ORDER BY start_ns)
        FILTER (start_ns IS NOT NULL AND step IS NULL), []),
    coalesce(list([step, start_ns, start_ns + duration_ns] ORDER BY start_ns)
        FILTER (step IS NOT NULL), [])
FROM (SELECT DISTINCT source_id FROM base.listed_groups) LEFT JOIN spans USING (source_id)
GROUP BY source_id
"""


def resolve_threads(con: duckdb.DuckDBPyConnection, calls: Calls, same_clock: SameClock) -> None:
    """Infer the group of gloo's calls where a rank's trace lists some and all files together tell
    which; the sizes and roots of `calls` that follow from it are set.
    """
    listed = {
        rank: groups
        for rank, its in read_listed(con, "rank").items()
        if (groups := [group for group in its if rank in group.ranks])
    }
    if not listed:
        return
    recordings = read_recordings(con, calls.origin_ns)
    # a file that ends early may lack all that a thread did: then no reading of its rank is right
    damaged = {rank for (rank,) in con.execute(_DAMAGED_SQL).fetchall()}
    whole = {rank: groups for rank, groups in listed.items() if rank not in damaged}
    for ranks in (listed, whole):
        rows = list(_Search(calls, ranks, same_clock, recordings).groups())
        if rows:
            con.execute(_INFER_SQL, [list(column) for column in zip(*rows, strict=True)])
            order = np.argsort(calls.call_id)
            for of, told in ((calls.size, _SIZES_SQL), (calls.root, _ROOTS_SQL)):
                call, value = con.execute(told).fetchnumpy().values()
                of[order[np.searchsorted(calls.call_id[order], call)]] = value
            return


_DAMAGED_SQL = """
SELECT DISTINCT rank FROM base.rank_sources JOIN ingest_issues USING (source_id)
WHERE kind = 'file damaged'
"""

# What records number, they name as well. The size of an all_gather's buffer is that of what all
# members gather: as long as they are not known, of all ranks.
_INFER_SQL = """
INSERT INTO base.inferences BY NAME
WITH found AS (
    SELECT
        unnest($1::INTEGER[]) AS rank, unnest($2::BIGINT[]) AS thread,
        unnest($3::VARCHAR[]) AS group_name, unnest($4::VARCHAR[]) AS group_desc,
        unnest($5::INTEGER[][]) AS group_ranks
)
SELECT
    k.call_id, 'worker thread' AS evidence, f.group_name, f.group_desc, f.group_ranks,
    len(f.group_ranks) AS group_size,
    CASE WHEN k.op = 'all_gather' AND len(f.group_ranks) <> k.group_size
        THEN k.bytes // k.group_size * len(f.group_ranks) END AS bytes
FROM found AS f JOIN base.known_calls AS k ON k.rank = f.rank AND k.stream = f.thread
WHERE k.evidence = 'host op' AND k.gpu_op_id IS NULL AND k.seq IS NULL
    AND k.op NOT IN ('send', 'recv')
"""

_SIZES_SQL = """
SELECT call_id, bytes FROM base.inferences
WHERE evidence = 'worker thread' AND bytes IS NOT NULL
"""

_ROOTS_SQL = """
SELECT k.call_id, CAST(i.group_ranks[k.root_place + 1] = k.rank AS BIGINT) AS root
FROM base.inferences AS i JOIN base.collective_calls AS k USING (call_id)
WHERE i.evidence = 'worker thread' AND i.group_ranks[k.root_place + 1] IS NOT NULL
"""


def read_listed(con: duckdb.DuckDBPyConnection, of: str) -> dict[int, list[Listed]]:
    """Return the groups that each rank or source lists, by the column `of` that has its number."""
    rows = con.execute(
        f"SELECT {of}, group_name, any_value(group_desc), any_value(world_size),"
        f" any_value(group_ranks) FROM base.listed_groups GROUP BY {of}, group_name"
        f" ORDER BY {of}, min(place)"
    ).fetchall()
    listed: dict[int, list[Listed]] = defaultdict(list)
    for number, name, description, world_size, ranks in rows:
        members = tuple(range(world_size)) if ranks is None else tuple(ranks)
        listed[number].append(Listed(name, description, members))
    return listed


@dataclass
class _Search:
    """Readings of the threads of every rank that do not contradict those of others."""

    calls: Calls
    listed: dict[int, list[Listed]]
    same_clock: SameClock
    recordings: dict[int, Recording]
    at: dict[int, Ints] = field(init=False)
    """Positions of the calls that a rank's threads ran."""
    threads: dict[int, Threads] = field(init=False)
    """Of every rank, by number."""
    sets: dict[int, list[Threads]] = field(default_factory=dict)
    known: dict[tuple[int, Threads, int, Threads], bool] = field(default_factory=dict)
    late: dict[tuple[int, Threads], bool] = field(default_factory=dict)

    def __post_init__(self) -> None:
        messages = (self.calls.op == SEND) | (self.calls.op == RECV)  # run where they are called
        on_threads = ~self.calls.on_gpu & ~messages & (self.calls.seq < 0)
        at = {rank: np.flatnonzero(on_threads & (self.calls.rank == rank)) for rank in self.listed}
        self.at = {rank: its for rank, its in at.items() if len(its)}
        self.threads = {
            r: tuple(np.unique(self.calls.thread[its]).tolist()) for r, its in self.at.items()
        }

    def groups(self) -> Iterator[tuple[int, int, str | None, str | None, list[int]]]:
        """A rank, a thread, and the name, description and members of its group, for every thread
        whose group has the same members in all readings; without a name where it may be one of
        several. Nothing of a group of which no other member was recorded.
        """
        if self._sole():
            if not self._sole_may_be_idle():
                for rank, threads in self.threads.items():
                    name, description, members = self.listed[rank][0]
                    for thread in threads:
                        yield rank, thread, name, description, list(members)
            return
        for rank, readings in self._told_by_ends(self._consistent()).items():
            for thread in self.threads[rank]:
                served = {g for of in readings for g, its in of.items() if thread in its}
                if len({group.ranks for group in served}) == 1:
                    (name, description, members), *others = served
                    if members == UNLISTED.ranks:
                        continue
                    if len(members) > 1 and not self.threads.keys() & set(members) - {rank}:
                        continue
                    named = (None, None) if others or not name else (name, description)
                    yield rank, thread, *named, list(members)

    def _sole(self) -> bool:
        """Whether every rank lists one group and ran its calls on the threads of one: two for each
        network interface that gloo was given, so more if those all served it from the first on.
        """
        return all(
            len(self.listed[rank]) == 1
            and (
                len(threads) <= THREADS
                or not any(self._may_be_late(rank, two) for two in _by_two(threads))
            )
            for rank, threads in self.threads.items()
        )

    def _sole_may_be_idle(self) -> bool:
        """Whether all that each of several ranks did may be of a group that it does not list: that
        one used the listed group shows that all members did.
        """
        several = len(self.threads) > 1
        return several and all(self._may_be_late(rank, its) for rank, its in self.threads.items())

    def _consistent(self) -> dict[int, list[Reading]]:
        """The readings of each rank for which every other rank has one that goes with them; none at
        all if a rank is left without.

        What holds in all of these holds in every reading of the whole run (arc consistency).
        """
        left = self._readings()
        if not left:
            self._merge()
            left = self._readings()
        beside = {rank: self._beside(rank, self.listed[rank]) for rank in left}
        asked = deque(left)
        while asked:
            rank = asked.popleft()
            for other in beside[rank]:
                kept = [
                    reading
                    for reading in left[other]
                    if any(self._agree(other, reading, rank, mine) for mine in left[rank])
                ]
                if not kept:
                    return {}
                if len(kept) < len(left[other]):
                    left[other] = kept
                    if other not in asked:
                        asked.append(other)
        return left

    def _told_by_ends(self, left: dict[int, list[Reading]]) -> dict[int, list[Reading]]:
        """The readings without those that ends refute, where the same threads of all members serve
        either one group, or groups that divide it.
        """
        ways = {
            rank: {
                frozenset((group.ranks, its) for group, its in of.items() if group.ranks): of
                for of in readings
            }
            for rank, readings in left.items()
        }
        if not ways or any(len(left[r]) != 2 or len(ways[r]) != 2 for r in left):
            return left
        # what the two readings of a rank do not have in common
        apart = {r: [of - frozenset.intersection(*its) for of in its] for r, its in ways.items()}
        if any(len(of) != 1 for its in apart.values() for of in its):
            return left
        served = {r: dict(chain.from_iterable(its)) for r, its in apart.items()}
        whole = max((ranks for of in served.values() for ranks in of), key=len)
        parts = {r: next((p for p in of if p != whole), whole) for r, of in served.items()}
        divided = sorted({part for part in parts.values() if set(part) < set(whole)})
        if sorted(left) != sorted(whole) or sorted(chain(*divided)) != sorted(whole):
            return left
        tie = self._weigh({r: of.get(whole, ()) for r, of in served.items()}, parts, divided)
        if tie is None or not tie.clear:
            return left
        is_whole = tie.evidence > 0
        return {
            r: [of for of in its if any(g.ranks == whole for g in of) == is_whole]
            for r, its in left.items()
        }

    def _weigh(
        self,
        threads: dict[int, Threads],
        part: dict[int, tuple[int, ...]],
        parts: list[tuple[int, ...]],
    ) -> Tie | None:
        """What ties the calls of some threads of each rank together, beside being of parts."""
        ranks = sorted(threads)
        calls = [self._of(rank, threads[rank]) for rank in ranks]
        if len({len(its.start) for its in calls}) > 1 or not len(calls[0].start):
            return None
        if not all(self.same_clock(ranks[0], rank) for rank in ranks[1:]):
            return None
        order = [np.argsort(its.start, kind="stable") for its in calls]
        start, end = (
            np.stack([its[at] for its, at in zip(of, order, strict=True)], axis=1).astype(float)
            for of in ([c.start for c in calls], [c.end for c in calls])
        )
        columns = [np.array([n for n, r in enumerate(ranks) if part[r] == one]) for one in parts]
        return weigh(Bundle(np.array(ranks), start, end, pure=True), columns)

    def _beside(self, rank: int, groups: list[Listed]) -> list[int]:
        """The ranks that a rank is compared with: the next and the last few members of groups."""
        found: dict[int, None] = {}
        for group in groups:
            members = [member for member in group.ranks if member in self.threads]
            place = members.index(rank)
            near = [members[(place + n) % len(members)] for n in range(-FEW, FEW + 1)]
            found |= dict.fromkeys(near)
        return [other for other in found if other != rank]

    def _readings(self) -> dict[int, list[Reading]]:
        """The readings of every rank by itself; none at all if one has too many."""
        found = {}
        for rank in self.threads:
            found[rank] = self._of_rank(rank)
            if len(found[rank]) > MOST_READINGS:
                return {}
        return found

    def _merge(self) -> None:
        """Count groups of the same members as one, without a name."""
        names: dict[tuple[int, ...], set[str]] = {}
        for group in chain.from_iterable(self.listed.values()):
            names.setdefault(group.ranks, set()).add(group.name)
        self.listed = {
            rank: [g if len(names[g.ranks]) == 1 else Listed("", None, g.ranks) for g in groups]
            for rank, groups in self.listed.items()
        }

    def _of_rank(self, rank: int) -> list[Reading]:
        """Readings of a rank's threads: a few more than `MOST_READINGS` if there are as many."""
        threads = self.threads[rank]
        # of the threads from each on, by groups from the last one back; first by unlisted ones
        rest: list[list[Reading]] = [[] for _ in threads] + [[{}]] * THREADS
        for first in reversed(range(len(threads))):
            its = threads[first : first + THREADS]
            if its in self._sets(rank) and self._late(rank, its):
                rest[first] = self._beginning(UNLISTED, its, rest[first + THREADS])
        for group in reversed(self.listed[rank]):
            behind = list(rest)
            for its in self._sets(rank):
                first = threads.index(its[0])
                if behind[first + len(its)] and self._supported(rank, group, its):
                    mine = self._beginning(group, its, behind[first + len(its)])
                    each = {frozenset(one.items()): one for one in [*rest[first], *mine]}
                    rest[first] = list(each.values())[: MOST_READINGS + 1]
        return rest[0]

    @staticmethod
    def _beginning(group: Listed, threads: Threads, rest: list[Reading]) -> list[Reading]:
        """Readings of the rest of the threads behind those that serve a group."""
        return [reading | {group: threads + reading.get(group, ())} for reading in rest]

    def _supported(self, rank: int, group: Listed, threads: Threads) -> bool:
        """Whether other members have threads that may serve the group if these do."""
        return all(
            self._idle(other, rank, threads)
            or any(self._fit(rank, threads, other, theirs) for theirs in self._sets(other))
            for other in self._beside(rank, [group])
        )

    def _late(self, rank: int, threads: Threads) -> bool:
        """Whether threads may serve a group that no trace lists: here, and others elsewhere."""
        return self._may_be_late(rank, threads) and any(
            self._may_be_late(other, theirs)
            for other in self.threads
            if other != rank
            for theirs in _by_two(self.threads[other])
        )

    def _may_be_late(self, rank: int, threads: Threads) -> bool:
        """Whether each of a rank's files leaves open that its list lacks the threads' group."""
        if (rank, threads) not in self.late:
            calls = self._of(rank, threads)
            self.late[rank, threads] = all(
                self.recordings[source].may_have_made(calls.take(calls.source == source))
                for source in np.unique(calls.source).tolist()
                if source in self.recordings
            )
        return self.late[rank, threads]

    def _sets(self, rank: int) -> list[Threads]:
        """What of a rank's threads may serve one group."""
        its = self.threads[rank]
        if rank not in self.sets:
            lone = [(thread,) for thread in its if self._after_pauses(rank, thread) <= ALONE]
            self.sets[rank] = [*pairwise(its), *lone]
        return self.sets[rank]

    def _after_pauses(self, rank: int, thread: int) -> int:
        """How many calls of a thread came after it had none for a while, the first included."""
        calls = self._of(rank, (thread,))
        pauses = np.sort(calls.start)[1:] - np.sort(calls.end)[:-1]
        return 1 + int((pauses >= LEAST_PAUSE_NS).sum())

    def _agree(self, rank: int, mine: Reading, other: int, theirs: Reading) -> bool:
        """Whether readings of two ranks' threads go together."""
        for group in set(self.listed[rank]) & set(self.listed[other]):
            one, another = mine.get(group), theirs.get(group)
            if one and another:
                if not self._fit(rank, one, other, another):
                    return False
            elif one or another:
                idle, busy = (rank, other) if another else (other, rank)
                if not self._idle(idle, busy, one or another or ()):
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
        at = self.at[rank]
        return self.calls.take(at[np.isin(self.calls.thread[at], threads)])


def _by_two(threads: Threads) -> list[Threads]:
    """All threads but the last with the next one; a sole one alone."""
    return list(pairwise(threads)) or [threads]
