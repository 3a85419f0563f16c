"""Calls whose group no label tells: they get groups that their ends prove, or a reason why not.

Known groups that lack members take part: a rank whose profiler writes no labels may be one. Every
group found ties clocks, and better clocks find more groups, so the search goes on until it finds
none. Then strands that hold several groups are divided by what is said of their calls.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import permutations

import numpy as np

from traceweave.arrays import Flags, Ints
from traceweave.matching.by_order import Part, match_rest
from traceweave.matching.calls import RECV, SEND, UNKNOWN, Calls, SameClock
from traceweave.matching.coarse_clocks import EXACT
from traceweave.matching.common_time import CommonTime
from traceweave.matching.groups import NO_ROLE, Group, Job
from traceweave.matching.groups_by_evidence import Search, StrandSet
from traceweave.matching.messages_by_evidence import Channel, Messages
from traceweave.matching.outcome import (
    ACAUSAL,
    MIXED,
    NO_PAIR,
    NOT_PROVEN,
    ONE_SIDE,
    RIVALS,
    UNNAMED,
    Matches,
)
from traceweave.matching.strands import Strand, signatures, strands_of
from traceweave.matching.ties import Tie
from traceweave.matching.turns import rivalled
from traceweave.words import duration, plural


def match_open(
    calls: Calls, groups: list[Group], same_clock: SameClock, job: Job, matches: Matches
) -> None:
    """Match calls of open groups; what is found is appended to `groups` and noted in
    `calls.label`, and open groups that keep no calls are taken out.
    """
    if any(group.open for group in groups):
        search = _OpenCalls(calls, groups, same_clock, job, matches)
        search.match()
        search.forget_empty()


@dataclass
class _OpenCalls:
    calls: Calls
    groups: list[Group]
    same_clock: SameClock
    job: Job
    matches: Matches
    messages: list[Ints] = field(default_factory=list)
    """Those that were matched, side by side."""
    met: set[frozenset[int]] = field(default_factory=set)
    """Every two ranks of which ends show messages, though others may fit as well."""
    one_sided: Flags = field(init=False)
    """Messages of which one trace names the other side, and that one's trace none."""

    def __post_init__(self) -> None:
        self.one_sided = self.matches.refused(ONE_SIDE)

    def match(self) -> None:
        """Search until nothing more is found, then in finer strands."""
        pools = [self._pool(number) for number, group in enumerate(self.groups) if group.open]
        for finer in (False, True):
            if finer:
                pools = [self._finer(pool) for pool in pools]
            found = True
            while found:
                found = any([self._messages(), *(self._search(pool) for pool in pools)])
        self._refuse_rivalled()

    def _pool(self, number: int) -> list[Strand]:
        """The strands of an open group, and those of known groups that may lack some of them."""
        group = self.groups[number]
        strands = self._strands(number, -1)
        if not group.labelled:
            ranks = {strand.rank for strand in strands}
            for other, known in enumerate(self.groups):
                if not known.open and _lacks(known, ranks):
                    strands += self._strands(other, other)
        return strands

    def _strands(self, number: int, group: int) -> list[Strand]:
        """The collectives of a group, a strand per rank and stream; on the host, per rank."""
        here = (self.calls.label == number) & (self.calls.op != SEND) & (self.calls.op != RECV)
        index = np.flatnonzero(here)
        streams = np.where(self.calls.on_gpu[index], self.calls.stream[index], -1)
        return strands_of(self.calls, index, streams, group, self.groups[number].size)

    def _finer(self, pool: list[Strand]) -> list[Strand]:
        """Divide strands by what is said of their calls."""
        return [part for s in pool for part in s.divided(signatures(self.calls, s.index))]

    def _search(self, pool: list[Strand]) -> bool:
        """Match what can be proven of a pool and take it out; whether anything was."""
        # messages of both directions in one kernel are strands too until they are matched
        pool[:] = [open_ for s in pool if len(open_ := self._without_messages(s))]
        open_strands = [strand for strand in pool if strand.group < 0]
        if not open_strands:
            return False
        time = CommonTime(self.calls, self.matches.instance, self.same_clock)
        search = Search(time, self.job, self._may_join)
        while True:
            sets = search.find([strand for strand in pool if not strand.mixed])
            streams = self._of_several(sets, search, pool)
            if not streams:
                break
            pool[:] = [replace(s, shared=s.shared or s.stream in streams) for s in pool]
        sets = [s for s in sets if any(strand.group < 0 for strand in s.strands)]
        sets = [s for s in sets if not self._may_be_messages(s)]
        placed = np.full(len(self.calls), False)
        for found in sets:
            self._accept(found, time)
            for strand in found.strands:
                placed[strand.index] = strand.group < 0
        left = [(strand, np.flatnonzero(~placed[strand.index])) for strand in pool]
        pool[:] = [strand.take(kept) for strand, kept in left if len(kept)]
        for strand in pool:
            if strand.group < 0:
                otherwise = MIXED if strand.mixed else NOT_PROVEN
                reason = search.reasons.get(int(strand.index[0]), otherwise)
                self.matches.refuse(strand.index, UNNAMED if reason == ACAUSAL else reason)
        return bool(sets)

    def _of_several(self, sets: list[StrandSet], search: Search, pool: list[Strand]) -> set[int]:
        """The streams on which nothing computes that carry several groups all the same: some calls
        of a set clearly are not of it, or those of a sort that does not prove it are of another.
        """
        sets = [found for found in sets if not found.shared]
        streams: set[int] = set()
        of, doubtful = np.full(len(self.calls), -1), np.full(len(self.calls), False)
        for number, found in enumerate(sets):
            first = found.strands[0]
            several, rows = search.doubts(found)
            streams |= {first.stream} if several else set()
            doubtful[first.index[rows]] = True
            for strand in found.strands:
                of[strand.index] = number
        sort = signatures(self.calls, np.arange(len(self.calls)))
        asked = np.isin(sort, sort[doubtful])
        parts = [part for part in self._finer(pool) if asked[part.index[0]] and not part.shared]
        for part in Search(search.time, self.job, self._may_join).find(parts):
            for strand in part.strands if part.whole else ():
                if of[strand.index[0]] >= 0 and sets[of[strand.index[0]]].ranks() != part.ranks():
                    streams.add(strand.stream)
        return streams

    def _may_be_messages(self, found: StrandSet) -> bool:
        """Whether a set may be messages to ranks outside it: ranks that run in step begin and end
        them together, as if they were one collective.
        """
        exchanges = (found.strands[0].calls.op == UNKNOWN).any()
        ranks = set(found.ranks())
        return bool(exchanges) and any(len(pair & ranks) == 1 for pair in self.met)

    def _without_messages(self, strand: Strand) -> Strand:
        """The strand without calls that were matched as messages, of known groups all."""
        met = self.matches.instance[strand.index] >= 0
        return strand if strand.group >= 0 or not met.any() else strand.take(np.flatnonzero(~met))

    def _refuse_rivalled(self) -> None:
        """Take back messages whose other side may be another one that was not found."""
        if not self.messages:
            return
        index = self._open_messages()
        if (self.matches.instance[index] < 0).any():
            time = CommonTime(self.calls, self.matches.instance, self.same_clock)
            doubtful = rivalled(self.calls, index, self.matches.instance, time)
            self.matches.refuse(index[np.isin(self.matches.instance[index], doubtful)], RIVALS)

    def _messages(self) -> bool:
        """Match messages whose other side no trace names; whether any was."""
        calls, matches = self.calls, self.matches
        index = self._open_messages()
        if not (matches.instance[index] < 0).any():
            return False
        search = Messages(
            calls, index, self.groups, self.same_clock, matches.instance, self.job.complete
        )
        channels = search.find()
        self.met |= search.met
        for channel in channels:
            instance = matches.next_instance + np.arange(len(channel.sent))
            for side in (channel.sent, channel.received):
                matches.accept(side, instance, "sequence-aligned")
                self.messages.append(side)
            self._label(channel)
        left = index[(matches.instance[index] < 0) & (matches.reason[index] < 0)]
        matches.refuse(left, NO_PAIR)
        return bool(channels)

    def _open_messages(self) -> Ints:
        """Messages whose other side no trace names, or only one of the two, matched or not."""
        calls = self.calls
        message = (calls.op == SEND) | (calls.op == RECV)
        open_groups = np.array([group.open for group in self.groups])
        unknown = open_groups[calls.label] & (calls.op == UNKNOWN)
        bare = (message & (calls.peer < 0) | unknown) & calls.on_gpu
        named = self.one_sided & np.isin(calls.peer, calls.rank[bare])
        found: list[Ints] = [np.flatnonzero(bare | named), *self.messages]
        return np.unique(np.concatenate(found))

    def _label(self, channel: Channel) -> None:
        """Note the group of messages: that which either side names, or one of the two ranks."""
        label, ranks = self.calls.label, frozenset((channel.source, channel.target))
        is_open = np.array([group.open for group in self.groups])
        for side, other in permutations((channel.sent, channel.received)):
            told = is_open[label[side]] & ~is_open[label[other]]
            label[side[told]] = label[other[told]]
            for number in np.unique(label[side[told]]).tolist():
                _grow(self.groups[number], ranks, channel.tie)
        nobody = is_open[label[channel.sent]]
        if nobody.any():
            number = self._group_with(ranks, _describe(channel.tie))
            label[channel.sent[nobody]] = label[channel.received[nobody]] = number

    def _may_join(self, a: Strand, b: Strand) -> bool:
        """Whether labels allow it: not two named groups, and no rank that a group does not list."""
        if a.group >= 0 and b.group >= 0:
            return a.group == b.group
        listed = self.groups[max(a.group, b.group)].members if max(a.group, b.group) >= 0 else None
        return listed is None or {a.rank, b.rank} <= listed

    def _accept(self, found: StrandSet, time: CommonTime) -> None:
        """Give the calls of a set their group and instances; those of known groups keep theirs."""
        parts, instance = self._numbered(found, time)
        if not any(strand.shared for strand in found.strands):
            match_rest(parts, instance)
        plain = all(a.plain for a in found.alignments if a is not None)
        number = self._group_of(found)
        for strand in found.strands:
            new = strand.index[
                (self.matches.instance[strand.index] < 0) & (instance[strand.index] >= 0)
            ]
            self.matches.accept(new, instance[new], "order" if plain else "sequence-aligned")
            self.calls.label[strand.index] = number

    def _numbered(self, found: StrandSet, time: CommonTime) -> tuple[list[Part], Ints]:
        """The strands on the first one's clock, and the instance of every call that has a
        partner.
        """
        instance = self.matches.instance.copy()
        seed = found.strands[0]
        pairs = []
        for strand, alignment in zip(found.strands, found.alignments, strict=True):
            if alignment is not None:
                mine = np.flatnonzero(alignment.partner >= 0)
                pairs.append((strand.index[mine], seed.index[alignment.partner[mine]]))
        for mine, theirs in pairs:
            known = (instance[mine] >= 0) & (instance[theirs] < 0)
            instance[theirs[known]] = instance[mine[known]]
        new = seed.index[instance[seed.index] < 0]
        instance[new] = self.matches.next_instance + np.arange(len(new))
        for mine, theirs in pairs:
            instance[mine] = np.where(instance[mine] < 0, instance[theirs], instance[mine])
        lines = [EXACT if a is None else a.line for a in found.alignments]
        return [
            Part(strand.index, time.shown(strand.rank, strand.calls), line)
            for strand, line in zip(found.strands, lines, strict=True)
        ], instance

    def _group_of(self, found: StrandSet) -> int:
        """The number of the group that a set belongs to: one that its labels name, one found before
        that has the same members and never runs at the same time, or a new one.
        """
        ranks = frozenset(found.ranks())
        named = max(strand.group for strand in found.strands)
        if named < 0:
            return self._group_with(ranks, _describe(found.tie, found.whole), found.strands)
        _grow(self.groups[named], ranks, found.tie)
        return named

    def _group_with(
        self, ranks: frozenset[int], membership: str, strands: Sequence[Strand] = ()
    ) -> int:
        for number, group in enumerate(self.groups):
            found_before = group.key[0] == "inferred" and group.members == ranks
            if found_before and not any(self._overlap(strand, number) for strand in strands):
                return number
        everybody = len(ranks) == (self.job.size or self.job.recorded)
        self.groups.append(
            Group(
                ("inferred", tuple(sorted(ranks)), len(self.groups)),
                size=len(ranks),
                members=ranks,
                seen=set(ranks),
                role="world" if everybody else "unknown",
                role_source="every rank of the run takes part" if everybody else NO_ROLE,
                membership=membership,
            )
        )
        return len(self.groups) - 1

    def _overlap(self, strand: Strand, number: int) -> bool:
        """Whether a strand's calls run while its rank runs others of a group: a communicator does
        one thing at a time.
        """
        others = np.flatnonzero((self.calls.label == number) & (self.calls.rank == strand.rank))
        start = np.r_[strand.calls.start, self.calls.start[others]]
        end = np.r_[strand.calls.end, self.calls.end[others]]
        order = np.argsort(start, kind="stable")
        return bool((np.maximum.accumulate(end[order])[:-1] > start[order][1:]).any())

    def forget_empty(self) -> None:
        """Take out open groups whose calls all found another."""
        count = np.bincount(self.calls.label, minlength=len(self.groups))
        kept = [n for n, group in enumerate(self.groups) if count[n] or not group.open]
        number = np.full(len(self.groups), -1, dtype=np.int64)
        number[kept] = np.arange(len(kept))
        self.calls.label[:] = number[self.calls.label]
        self.groups[:] = [self.groups[n] for n in kept]


def _grow(group: Group, ranks: frozenset[int], tie: Tie | None) -> None:
    """Note that a named group has these ranks, of which some do not name it."""
    if group.membership == "stated":
        known = plural(len(group.seen), "rank")
        group.membership = f"stated for {known}; the others {_describe(tie)}"
    group.seen |= ranks


def _lacks(group: Group, ranks: set[int]) -> bool:
    """Whether a known group may have members among `ranks` that it is not seen on."""
    if group.members is not None:
        return bool((group.members - group.seen) & ranks)
    return group.size is not None and len(group.seen) < group.size and bool(ranks - group.seen)


def _describe(tie: Tie | None, whole: bool = True) -> str:
    if tie is None or not tie.calls:
        return "inferred: the job has no other ranks"
    return (
        f"inferred: the ends of {plural(tie.calls, 'call')} scatter by {duration(tie.ends_ns)};"
        f" as separate groups, those of its parts would by {duration(tie.apart_ns)}"
        + ("" if whole else "; others may be of it too, which begin when these do")
    )
