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
from dataclasses import dataclass, replace
from itertools import permutations

import numpy as np

from traceweave.arrays import Flags, Floats, Ints
from traceweave.matching.alignment import align_some
from traceweave.matching.calls import OPS, RECV, SEND, Calls
from traceweave.matching.coarse_clocks import running_median
from traceweave.matching.common_time import CommonTime
from traceweave.matching.groups import Group
from traceweave.matching.send_recv import SameClock
from traceweave.matching.strands import Strand
from traceweave.matching.ties import (
    FOREIGN,
    LEAST,
    SPEAKS,
    Tie,
    bundle,
    clear,
    likelier,
    weigh,
)

UNKNOWN = OPS.index("unknown")
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
SHARE = 0.25
"""Share of the messages of either side, found before or not, that a pair must have: what is left
over by others meets by chance.
"""

USUAL = 3
"""How often one message must follow another to be no chance."""


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

    def find(self) -> list[Channel]:
        """Return the channels that ends prove."""
        time = self._tied(CommonTime(self.calls, self.instance, self.same_clock))
        return self._in_turn(self._regular(_settle(list(self._channels(time, tied=True)))))

    def _tied(self, time: CommonTime) -> CommonTime:
        """The time that untied ranks have in common if their tightest pairs are what they seem."""
        found = [c for c in self._channels(time, tied=False) if c.tie.ends_ns <= TIGHT_NS]
        instance = self.instance.copy()
        parts = time.parts()
        for channel in sorted(found, key=lambda c: c.tie.ends_ns):
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
                ways = [(SEND, RECV)] if source > target else [(SEND, RECV), (UNKNOWN, UNKNOWN)]
                for here, there in ways:
                    sent, received = sides[source, here], sides[target, there]
                    if min(len(sent), len(received)) >= LEAST and self._may_meet(sent, received):
                        found = _channel(sent, received, time)
                        if found is not None and len(found.sent) >= SHARE * self._many(
                            sent, received
                        ):
                            yield found

    def _regular(self, channels: list[Channel]) -> list[Channel]:
        """The channels between ranks at a distance at which most others have one: stages lie
        evenly over the ranks of a job, and what meets by chance does not.
        """
        ranks = set(self.calls.rank[self.index].tolist())
        pairs = self._known_pairs() | {
            (min(c.source, c.target), max(c.source, c.target)) for c in channels
        }
        pairs_at = Counter(high - low for low, high in pairs)
        room_at = {far: sum(rank + far in ranks for rank in ranks) for far in pairs_at}
        kept = {far for far, count in pairs_at.items() if count >= EVENLY * room_at[far]}
        return [c for c in channels if abs(c.source - c.target) in kept]

    def _in_turn(self, channels: list[Channel]) -> list[Channel]:
        """The channels without messages that come after and before others than elsewhere: a program
        repeats itself, and whose other side was not recorded meets the next one by chance.
        """
        channel = np.full(len(self.calls), -1)
        for number, one in enumerate(channels):
            channel[one.sent], channel[one.received] = 2 * number, 2 * number + 1
        here, following = self.index[:-1], self.index[1:]
        known = (channel[here] >= 0) & (channel[following] >= 0)
        known &= self.calls.rank[here] == self.calls.rank[following]
        here, following = here[known], following[known]
        turn = channel[here] * 2 * len(channels) + channel[following]
        _, which, count = np.unique(turn, return_inverse=True, return_counts=True)
        says = np.where(count[which] >= USUAL, 1, -1)
        fits, heard = np.zeros((2, len(self.calls)), dtype=np.int64)
        for beside in (here, following):
            np.add.at(fits, beside, says)
            np.add.at(heard, beside, 1)
        kept = []
        for one in channels:
            own = fits[one.sent] + fits[one.received] > 0
            alone = heard[one.sent] + heard[one.received] == 0
            # where most come in turn, one among calls without partners is no better than its like
            kept.append(one.only(own if own.mean() >= MOSTLY else own | alone))
        return [one for one in kept if len(one.sent) >= LEAST]

    def _known_pairs(self) -> set[tuple[int, int]]:
        """Ranks, ascending, whose messages have been matched before."""
        matched = self.index[self.instance[self.index] >= 0]
        order = matched[np.lexsort((self.calls.rank[matched], self.instance[matched]))]
        two = np.flatnonzero(np.diff(self.instance[order]) == 0)
        rank = self.calls.rank[order]
        return set(zip(rank[two].tolist(), rank[two + 1].tolist(), strict=True))

    def _side(self, rank: int, op: int) -> Strand:
        here = (self.calls.rank[self.index] == rank) & (self.calls.op[self.index] == op)
        mine = self.index[here & (self.instance[self.index] < 0)]
        return Strand(rank, mine, self.calls.take(mine), -1, None)

    def _many(self, sent: Strand, received: Strand) -> int:
        """How many messages the side with fewer has in all."""
        rank, op = self.calls.rank[self.index], self.calls.op[self.index]
        sides = ((side.rank, side.calls.op[0]) for side in (sent, received))
        return min(int(((rank == r) & (op == o)).sum()) for r, o in sides)

    def _may_meet(self, sent: Strand, received: Strand) -> bool:
        """Whether labels leave room: one group, or one that is not known."""
        mine, theirs = set(sent.calls.label.tolist()), set(received.calls.label.tolist())
        return bool(mine & theirs) or any(self.groups[n].open for n in mine | theirs)


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
    whole = bundle([replace(sent, calls=b), replace(received, calls=a)], [None, found])
    tie = weigh(whole, [np.array([0]), np.array([1])])
    if not tie.proves or tie.against > FOREIGN:
        return None
    kept = Channel(sent.rank, received.rank, sent.index[row], received.index[mine], apart, tie)
    return kept.only(near & (tie.by_call[row] >= -SPEAKS))


def _plain(calls: Calls) -> Calls:
    """The calls with one symbol for both sides of a message."""
    return replace(calls, op=np.full(len(calls), SEND))


def _settle(channels: list[Channel]) -> list[Channel]:
    """Give every call to the one channel that it fits clearly best."""
    kept = [np.full(len(c.sent), True) for c in channels]
    for m, one in enumerate(channels):
        for n, other in enumerate(channels[:m]):
            for i, j in _shared(one, other):
                nearer = float(likelier(one.apart[i], other.apart[j]).sum())
                if nearer < 0 or not clear(nearer, len(i)):
                    kept[m][i] = False
                if nearer > 0 or not clear(nearer, len(i)):
                    kept[n][j] = False
    return [
        channel.only(mine)
        for channel, mine in zip(channels, kept, strict=True)
        if mine.sum() >= max(LEAST, MOSTLY * len(mine))
    ]


def _shared(one: Channel, other: Channel) -> Iterator[tuple[Ints, Ints]]:
    """Places of calls that two channels claim both, those of either side."""
    for mine, theirs in ((one.sent, other.sent), (one.received, other.received)):
        _, i, j = np.intersect1d(mine, theirs, return_indices=True)
        if len(i):
            yield i, j
