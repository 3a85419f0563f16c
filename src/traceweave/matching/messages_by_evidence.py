"""Who the other side of a message is, where no trace says: the rank whose receives end when these
sends end.

One stream may carry the messages of several pairs, so calls are compared one by one, by time. Where
clocks are not tied yet, the tightest pairs tie them first. Then, all on one time, every two ranks
are compared; of two that both fit, the one is taken whose ends lie clearly nearer, and where
neither is clear, as in a pipeline whose replicas run in step, nobody is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise, permutations

import numpy as np

from traceweave.arrays import Flags, Floats, Ints
from traceweave.matching.alignment import LACK, Alignment, align_some, causal
from traceweave.matching.calls import RECV, SEND, UNKNOWN, Calls, SameClock
from traceweave.matching.coarse_clocks import EXACT, match_by_time
from traceweave.matching.common_time import CommonTime
from traceweave.matching.evidence import LEAST, PROVEN, SHARE, clear, likelier
from traceweave.matching.groups import Group
from traceweave.matching.shifts import STEP_NS, STEPS
from traceweave.matching.strands import Strand
from traceweave.matching.ties import (
    FOREIGN,
    SPEAKS,
    Tie,
    bundle,
    weigh,
)
from traceweave.matching.turns import Turns
from traceweave.medians import running_median

TIGHT_NS = 30_000.0
"""Ends of a pair that ties clocks scatter less: computing that always takes equally long between
two messages, which looks like a clock, varies more.
"""
FAR = 6.0
"""Messages lie nearer to the others of their pair than this many times the scatter of ends,"""
FAR_NS = 15_000.0
"""or than this."""
MOSTLY = 0.5
"""A pair that loses this share of its calls to another is no pair."""
EVENLY = 0.4
"""Share of the ranks with messages that have another at the distance of a pair, which must be
pairs: of stages two by two it is half.
"""


@dataclass(frozen=True)
class Channel:
    """Messages from one rank to another."""

    source: int
    target: int
    sent: Ints
    """Positions in the calls of the run, as those of the receives beside them."""
    received: Ints
    apart: Floats
    """How far the ends of both sides lie apart, ns, slow clocks aside."""
    tie: Tie

    @property
    def pair(self) -> tuple[int, int]:
        """Both ranks, ascending."""
        return min(self.source, self.target), max(self.source, self.target)

    def only(self, kept: Flags) -> Channel:
        """Return the channel with some of its messages."""
        sent, received, apart = self.sent[kept], self.received[kept], self.apart[kept]
        return replace(self, sent=sent, received=received, apart=apart)


@dataclass
class Messages:
    """Looks for the pairs of the messages at `index` that are not matched yet, according to
    `instance`.
    """

    calls: Calls
    index: Ints
    groups: list[Group]
    same_clock: SameClock
    instance: Ints
    complete: bool
    """Every rank of the job was recorded."""
    met: set[frozenset[int]] = field(default_factory=set)
    """Every two ranks of which ends show messages, though others may fit as well."""

    def find(self) -> list[Channel]:
        """Return the channels that ends prove."""
        time = self._tied(CommonTime(self.calls, self.instance, self.same_clock))
        channels = list(self._channels(time, tied=True))
        self.met |= {frozenset((one.source, one.target)) for one in channels}
        found = self._in_turn(self._regular(_settle(channels), time))
        return found or list(self._by_turn(time))

    def _tied(self, time: CommonTime) -> CommonTime:
        """The time that untied ranks have in common if their tightest pairs are what they seem."""
        channels = list(self._channels(time, tied=False))
        self.met |= {frozenset((one.source, one.target)) for one in channels}
        tight = [c for c in _settle(channels) if c.tie.ends_ns <= TIGHT_NS]
        instance = self.instance.copy()
        parts = time.parts()
        for channel in sorted(self._direct(tight, time), key=lambda c: c.tie.ends_ns):
            here, there = parts[channel.source], parts[channel.target]
            if here != there:
                following = int(instance.max()) + 1
                instance[channel.sent] = following + np.arange(len(channel.sent))
                instance[channel.received] = instance[channel.sent]
                parts = {rank: here if part == there else part for rank, part in parts.items()}
        return CommonTime(self.calls, instance, self.same_clock)

    def _channels(self, time: CommonTime, tied: bool) -> Iterator[Channel]:
        """Channels between every two ranks whose clocks are tied, or are not."""
        ranks = np.unique(self.calls.rank[self.index]).tolist()
        sides = {(r, op): self._side(r, op) for r in ranks for op in (SEND, RECV, UNKNOWN)}
        for source, target in permutations(ranks, 2):
            if time.tied(source, target) == tied:
                for here, there in _ways(source, target):
                    if min(len(sides[source, here]), len(sides[target, there])) < LEAST:
                        continue  # as most are: calls say which side they are, or none does
                    sent = _with(target, sides[source, here])
                    received = _with(source, sides[target, there])
                    if min(len(sent), len(received)) >= LEAST and self._may_meet(sent, received):
                        found = _channel(sent, received, time)
                        if found is not None and len(found.sent) >= SHARE * self._many(
                            sent, received
                        ):
                            yield found

    def _regular(self, channels: list[Channel], time: CommonTime) -> list[Channel]:
        """The channels between ranks at a distance at which most others have one: stages lie
        evenly over the ranks of a job, and what meets by chance does not. All distances are
        multiples of one, or it of them.
        """
        ranks = set(self.calls.rank[self.index].tolist())
        pairs = self._known() | {c.pair for c in channels}
        pairs_at = Counter(high - low for low, high in pairs)
        room_at = {far: sum(rank + far in ranks for rank in ranks) for far in pairs_at}
        # where ranks were not recorded, one pair alone may belong to two that are not there
        least = 1 if self.complete else 2
        even = {far for far, n in pairs_at.items() if n >= least and n >= EVENLY * room_at[far]}
        main = max(even, key=lambda far: (pairs_at[far], -far), default=1)
        kept = {far for far in even if far % main == 0 or main % far == 0}
        return [c for c in self._direct(channels, time) if abs(c.source - c.target) in kept]

    def _known(self) -> set[tuple[int, int]]:
        """Every two ranks that are known to have met."""
        return Turns.of(self.calls, self.index, self.instance).pairs()

    def _direct(self, channels: list[Channel], time: CommonTime) -> list[Channel]:
        """The channels without those that stages between may have passed on: what a stage sends on
        follows what it received, so those before and after it seem to be a pair. None is taken
        where a stage may be between all that lie so far apart, or one at a distance of others.
        """
        pairs = self._known()
        direct = {high - low for low, high in pairs}
        pairs |= {c.pair for c in channels}
        matched = self.instance.copy()
        for one in channels:
            matched[one.sent] = matched[one.received] = 0
        free = self.index[matched[self.index] < 0]
        left = Counter(map(tuple, np.c_[self.calls.rank, self.calls.op][free].tolist()))
        ranks = set(self.calls.rank.tolist())
        hops = [
            {n for n in _parts(*one.pair) if self._may_pass(one, n, pairs, left, ranks, time)}
            for one in channels
        ]
        far = [abs(one.source - one.target) for one in channels]
        direct |= {n for n, between in zip(far, hops, strict=True) if not between}
        return [
            one
            for one, n, between in zip(channels, far, hops, strict=True)
            if n in direct and not between & direct
        ]

    def _may_pass(
        self,
        one: Channel,
        hop: int,
        pairs: set[tuple[int, int]],
        left: Counter[tuple[int, int]],
        ranks: set[int],
        time: CommonTime,
    ) -> bool:
        """Whether stages so far from each other may have passed the messages of a channel on: not
        all are known to have met, none that has not shares a clock with the next, which would show
        it, and each was not recorded or has as many receives and sends without another side yet.
        """
        low, high = one.pair
        between = range(low + hop, high, hop)
        apart = [pair for pair in pairwise([low, *between, high]) if pair not in pairs]
        if not apart or any({*pair} <= ranks and time.tied(*pair) for pair in apart):
            return False
        return all(
            left[rank, op] + left[rank, UNKNOWN] >= len(one.sent)
            if rank in ranks
            else not self.complete
            for rank in between
            for op in (SEND, RECV)
        )

    def _in_turn(self, channels: list[Channel]) -> list[Channel]:
        """The channels without messages whose like, in the same place of the program, mostly have
        another other side, or none: a program repeats itself, and whose other side was not recorded
        meets the next one by chance.
        """
        instance = self.instance.copy()
        for one in channels:
            instance[one.sent] = instance.max(initial=-1) + 1 + np.arange(len(one.sent))
            instance[one.received] = instance[one.sent]
        share = np.full(len(self.calls), np.nan)
        share[self.index] = Turns.of(self.calls, self.index, instance).shares()
        kept = []
        for one in channels:
            # beside a message that was lost, one comes on that side in a place that is not its own
            sides = share[np.stack([one.sent, one.received])]
            own = np.nansum(sides, axis=0) >= SHARE * np.isfinite(sides).sum(axis=0)
            told = np.isfinite(sides).any(axis=0)
            # where most come in turn, one among calls without partners is no better than its like
            kept.append(one.only(own & told if (own & told).mean() >= MOSTLY else own))
        return [one for one in kept if len(one.sent) >= LEAST]

    def _by_turn(self, time: CommonTime) -> Iterator[Channel]:
        """Messages of known pairs that time alone did not show: those whose turn it is on both
        sides, and that end clearly nearer to each other than to any other message of that pair.
        """
        turns = Turns.of(self.calls, self.index, self.instance)
        expected = turns.expected()
        for low, high in sorted(turns.pairs()):
            ways = [(*pair, *way) for pair in ((low, high), (high, low)) for way in _ways(*pair)]
            for source, target, here, there in ways:
                sides = (source, target, here), (target, source, there)
                sent, received = (
                    self._strand(r, (turns.rank == r) & (expected == other) & (turns.op == op))
                    for r, other, op in sides
                )
                if time.tied(source, target) and min(len(sent), len(received)) >= LEAST:
                    yield from _left_over(sent, received, time, self.instance)

    def _side(self, rank: int, op: int) -> Strand:
        here = (self.calls.rank[self.index] == rank) & (self.calls.op[self.index] == op)
        return self._strand(rank, here & (self.instance[self.index] < 0))

    def _strand(self, rank: int, here: Flags) -> Strand:
        """Some of the messages, all of one rank."""
        mine = self.index[here]
        return Strand(rank, mine, self.calls.take(mine), -1, None, np.arange(len(mine)))

    def _many(self, sent: Strand, received: Strand) -> int:
        """How many messages the side with fewer has in all."""
        rank, op = self.calls.rank[self.index], self.calls.op[self.index]
        sides = ((side.rank, side.calls.op[0]) for side in (sent, received))
        return min(int(((rank == r) & (op == o)).sum()) for r, o in sides)

    def _may_meet(self, sent: Strand, received: Strand) -> bool:
        """Whether labels leave room: one group, or one that is not known."""
        mine, theirs = set(sent.calls.label.tolist()), set(received.calls.label.tolist())
        return bool(mine & theirs) or any(self.groups[n].open for n in mine | theirs)


def _parts(low: int, high: int) -> list[int]:
    """The distances of which the one between two ranks is a multiple, but for itself."""
    return [n for n in range(1, (high - low) // 2 + 1) if (high - low) % n == 0]


def _ways(source: int, target: int) -> list[tuple[int, int]]:
    """What messages from one rank to another are to the two: of those that neither side's trace
    tells from receives, either direction is taken once.
    """
    both = [(UNKNOWN, UNKNOWN)] if source < target else []
    return [(SEND, RECV), (SEND, UNKNOWN), (UNKNOWN, RECV), *both]


def _with(other: int, side: Strand) -> Strand:
    """The messages whose other side may be that rank: none that their own trace gives another."""
    peer = side.calls.peer
    possible = (peer < 0) | (peer == other)
    return side if possible.all() else side.take(np.flatnonzero(possible))


def _channel(sent: Strand, received: Strand, time: CommonTime) -> Channel | None:
    """The messages that two ranks' calls show by time, if ends prove them to be messages."""
    a, b = (_plain(time.shown(s.rank, s.calls)) for s in (received, sent))
    found = align_some(a, b, same_clock=time.tied(sent.rank, received.rank))
    for _ in range(2):
        mine = np.flatnonzero(found.partner >= 0)
        if len(mine) < LEAST:
            return None
        row = found.partner[mine]
        apart = (a.end[mine] - b.end[row]).astype(np.float64)
        apart -= running_median(apart)
        near = np.abs(apart) <= max(FAR * float(np.median(np.abs(apart))), FAR_NS)
        found.partner[mine[~near]] = -1
    tie = _tie(replace(sent, calls=b), replace(received, calls=a), found)
    if not tie.proves or tie.against > FOREIGN:
        return None
    # a pair keeps to its streams: on others each side may meet somebody else meanwhile
    streams = np.c_[a.stream[mine], b.stream[row]]
    sort = np.unique(streams, axis=0, return_inverse=True)[1].ravel()
    says, count = np.bincount(sort, tie.by_call[row]), np.bincount(sort)
    proven = [of > 0 and clear(float(of), int(n)) for of, n in zip(says, count, strict=True)]
    near &= np.array(proven)[sort]
    near &= ~_outdone(a, b, found.partner, max(FAR * tie.ends_ns, FAR_NS))[mine]
    kept = Channel(sent.rank, received.rank, sent.index[row], received.index[mine], apart, tie)
    return kept.only(near & (tie.by_call[row] >= -SPEAKS))


def _outdone(a: Calls, b: Calls, partner: Ints, near: float) -> Flags:
    """Which receives are of a stretch of which clearly more meet sends if a clock has stepped: what
    meets by chance leaves most alone."""
    found = np.zeros(len(a), dtype=np.bool_)
    ends = np.sort(b.end)
    for first in range(0, len(a), LEAST):
        stretch = np.arange(first, min(first + 2 * LEAST, len(a)))
        mine = stretch[partner[stretch] >= 0]
        ahead = ends - a.end[stretch, None]
        at, place = np.nonzero(np.abs(ahead) <= STEPS * STEP_NS)
        order = np.argsort(ahead[at, place])
        at, votes = at[order], ahead[at, place][order]
        last = np.searchsorted(votes, votes + 2 * near, side="right")
        own = np.median(b.end[partner[mine]] - a.end[mine]) if len(mine) else np.nan
        apart = (votes > own + near) | (votes[last - 1] < own - near)
        for n in np.flatnonzero(apart & (last - np.arange(len(votes)) > len(mine))):
            elsewhere = np.unique(at[n : last[n]])
            if LACK * (len(elsewhere) - len(mine)) >= PROVEN:
                found[stretch[elsewhere]] = True
    return found


def _left_over(
    sent: Strand, received: Strand, time: CommonTime, instance: Ints
) -> Iterator[Channel]:
    """The messages of a pair that are not matched yet and that causality allows, by time."""
    here, there = instance[received.index], instance[sent.index]
    # those whose other side is told apart otherwise, as a receive is from what may be either
    received = received.take(np.flatnonzero((here < 0) | np.isin(here, there)))
    sent = sent.take(np.flatnonzero((there < 0) | np.isin(there, here)))
    a, b = (_plain(time.shown(s.rank, s.calls)) for s in (received, sent))
    known = instance[received.index] >= 0
    partner = np.full(len(a), -1, dtype=np.int64)
    order = np.argsort(instance[sent.index], kind="stable")
    place = np.searchsorted(instance[sent.index[order]], instance[received.index[known]])
    partner[known] = order[place]
    match_by_time(a, b, replace(EXACT, scatter=np.inf), partner)
    mine = np.flatnonzero((partner >= 0) & ~known)
    row = partner[mine]
    possible = causal(a, mine, b, row, EXACT)
    partner[mine[~possible]] = -1
    if possible.any():
        tie = _tie(
            replace(sent, calls=b), replace(received, calls=a), Alignment(partner, EXACT, False)
        )
        apart = (a.end[mine] - b.end[row]).astype(np.float64)
        whole = Channel(sent.rank, received.rank, sent.index[row], received.index[mine], apart, tie)
        yield whole.only(possible)


def _tie(sent: Strand, received: Strand, found: Alignment) -> Tie:
    """What the ends of messages say of their being messages."""
    return weigh(bundle([sent, received], [None, found]), [np.array([0]), np.array([1])])


def _plain(calls: Calls) -> Calls:
    """The calls with one symbol for both sides of a message."""
    return replace(calls, op=np.full(len(calls), SEND))


def _settle(channels: list[Channel]) -> list[Channel]:
    """Give every call to the one channel that it fits clearly best."""
    kept = [np.full(len(c.sent), True) for c in channels]
    for m, one in enumerate(channels):
        for n, other in enumerate(channels[:m]):
            for i, j, may_be_both in _shared(one, other):
                nearer = float(likelier(one.apart[i], other.apart[j]).sum())
                told = clear(nearer, len(i))
                if not told and may_be_both:
                    continue
                if nearer < 0 or not told:
                    kept[m][i] = False
                if nearer > 0 or not told:
                    kept[n][j] = False
    return [
        channel.only(mine)
        for channel, mine in zip(channels, kept, strict=True)
        if mine.sum() >= max(LEAST, MOSTLY * len(mine))
    ]


def _shared(one: Channel, other: Channel) -> Iterator[tuple[Ints, Ints, bool]]:
    """Places of calls that two channels claim both, and whether they may be of both: one kernel may
    send to one rank and receive from another.
    """
    for mine, rank, theirs, other_rank, either in (
        (one.sent, one.source, other.sent, other.source, False),
        (one.received, one.target, other.received, other.target, False),
        (one.sent, one.source, other.received, other.target, True),
        (one.received, one.target, other.sent, other.source, True),
    ):
        if rank == other_rank:
            _, i, j = np.intersect1d(mine, theirs, return_indices=True)
            if len(i):
                yield i, j, either
