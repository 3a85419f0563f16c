"""Which sends and receives of gloo are one message, by order and causality alone.

A call names the other side by its place in a group, and the group not at all. Ends tell nothing: an
operation ends when somebody waits for it. What holds is little, but certain: a send and its receive
need each other, so neither is over before both were issued; messages of one group, place and tag
keep their order; and places of a group are in the order of ranks. A rank's messages to one place
are matched with those of another from one place where this leaves one way to do so, and both sides
have no other partner.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import duckdb
import numpy as np

from traceweave.arrays import Flags, Ints
from traceweave.matching.calls import SameClock
from traceweave.matching.outcome import NO_CLOCK, NO_ORDER, NO_PEER, ONE_SIDE, RIVALS, SAME_MEMBERS
from traceweave.matching.shifts import SLACK_NS
from traceweave.matching.worker_threads import Listed, read_listed

NEVER = np.iinfo(np.int64).max // 2
"""When a message was over that nobody waited for while it was recorded."""

Window = tuple[int, int]


@dataclass(frozen=True, eq=False)
class Side:
    """The messages of one file to one place with one tag, or from it, as they were issued."""

    rank: int
    source: int
    sends: bool
    place: int
    call: Ints
    """Numbers of the calls."""
    issued: Ints
    waited: Ints
    """When it was over for who issued it."""
    free: Ints
    """Since when the thread that issued it had done nothing else by then."""
    size: Ints
    dtype: Ints
    step: Ints
    """-1: in no step that is marked."""
    closed: bool
    """Every message was over in the step in which it was issued."""
    window: Window
    """In which the file recorded."""

    def __len__(self) -> int:
        return len(self.call)


@dataclass
class Messages:
    """Which calls are one message, and why others are none."""

    sent: list[Ints] = field(default_factory=list)
    """Numbers of calls, as those of the receives beside them."""
    received: list[Ints] = field(default_factory=list)
    refused: dict[str, list[Ints]] = field(default_factory=lambda: defaultdict(list))


def resolve_host_messages(con: duckdb.DuckDBPyConnection, same_clock: SameClock) -> Messages:
    """Return the messages of gloo, and infer who the other side is, their group where all of a
    trace's that may be it are one, and that a message is over for both sides when it is for one,
    whenever the other waits for it.
    """
    if not con.execute("SELECT 1 FROM base.messages LIMIT 1").fetchall():
        return Messages()
    search = _Search(con, same_clock)
    rows = list(search.find())
    if rows:
        con.execute(_INFER_SQL, [list(column) for column in zip(*rows, strict=True)])
    return search.found


_INFER_SQL = """
INSERT INTO base.inferences BY NAME
WITH found AS (
    SELECT
        unnest($1::BIGINT[]) AS call_id, unnest($2::INTEGER[]) AS peer,
        unnest($3::VARCHAR[]) AS group_name, unnest($4::VARCHAR[]) AS group_desc,
        unnest($5::INTEGER[][]) AS group_ranks, unnest($6::INTEGER[]) AS group_size,
        unnest($7::BIGINT[]) AS over_ns
)
SELECT
    f.call_id, 'order of messages' AS evidence, f.peer,
    f.group_name, f.group_desc, f.group_ranks, f.group_size,
    nullif(
        least(k.duration_ns, greatest(f.over_ns - k.start_local_ns, 0)), k.duration_ns
    ) AS duration_ns
FROM found AS f JOIN base.collective_calls AS k USING (call_id)
"""

# Of a file that lost events, lists no groups, received from anyone or has operations that no call
# issued, order tells nothing.
_UNUSABLE_SQL = """
CREATE OR REPLACE TEMP TABLE unusable_messages AS
SELECT source_id FROM base.messages WHERE peer_place IS NULL OR tag IS NULL
UNION SELECT source_id FROM base.messages
WHERE source_id NOT IN (SELECT source_id FROM base.listed_groups)
UNION SELECT source_id FROM base.collective_calls
WHERE evidence = 'host op' AND gpu_op_id IS NULL AND op IN ('send', 'recv')
    AND host_op_id NOT IN (SELECT host_op_id FROM base.messages)
UNION SELECT source_id FROM sources WHERE status <> 'ok'
"""

_WINDOWS_SQL = """
SELECT
    r.rank, any_value(coalesce(m.recorded_from_ns, r.first_local_ns)),
    any_value(coalesce(m.recorded_to_ns, r.last_local_ns))
FROM base.rank_sources AS r LEFT JOIN base.messages AS m USING (source_id)
WHERE r.rank NOT IN (
    SELECT rank FROM base.rank_sources JOIN unusable_messages USING (source_id)
)
GROUP BY r.rank, r.source_id
"""

_SIDES_SQL = """
WITH host AS (
    SELECT call_id, source_id, host_op_id, op, bytes, dtype FROM base.collective_calls
    WHERE evidence = 'host op' AND gpu_op_id IS NULL AND op IN ('send', 'recv')
),
-- what threads have done; an operator in which one waits is not over then
threads AS (
    SELECT source_id, tid, start_local_ns + duration_ns AS done_ns
    FROM base.host_ops
    WHERE kind = 'op' AND source_id IN (SELECT source_id FROM base.messages)
),
issuing AS (
    SELECT op_id AS host_op_id, tid FROM base.host_ops SEMI JOIN base.messages ON op_id = host_op_id
),
messages AS (
    SELECT m.*, coalesce(t.done_ns, m.waited_local_ns) AS free_local_ns
    FROM base.messages AS m
    LEFT JOIN issuing AS i USING (host_op_id)
    ASOF LEFT JOIN threads AS t
        ON t.source_id = m.source_id AND t.tid = i.tid AND m.waited_local_ns >= t.done_ns
),
known AS (
    SELECT
        m.*, k.call_id, k.op, coalesce(k.bytes, -1) AS bytes, s.step,
        m.waited_local_ns <= s.start_local_ns + s.duration_ns AS is_closed,
        dense_rank() OVER (ORDER BY k.dtype) AS dtype
    FROM messages AS m
    JOIN host AS k USING (source_id, host_op_id)
    ASOF LEFT JOIN base.steps AS s
        ON s.source_id = m.source_id AND s.rank = m.rank AND m.issued_local_ns >= s.start_local_ns
    WHERE m.source_id NOT IN (SELECT source_id FROM unusable_messages)
)
SELECT
    rank, source_id, op, peer_place, tag,
    list([
        call_id, issued_local_ns, coalesce(waited_local_ns, $never),
        coalesce(free_local_ns, $never), bytes, dtype, coalesce(step, -1)
    ] ORDER BY issued_local_ns, call_id),
    coalesce(bool_and(coalesce(is_closed, FALSE)), FALSE),
    any_value(recorded_from_ns), any_value(recorded_to_ns)
FROM known
GROUP BY rank, source_id, op, peer_place, tag
ORDER BY rank, source_id, op, peer_place, tag
"""


class _Search:
    """The sides of all ranks, and which of them may belong together."""

    def __init__(self, con: duckdb.DuckDBPyConnection, same_clock: SameClock) -> None:
        self.found = Messages()
        self.same_clock = same_clock
        self.sides: list[Side] = []
        con.execute(_UNUSABLE_SQL)
        tags: dict[tuple[bool, int], list[Side]] = defaultdict(list)
        for row in con.execute(_SIDES_SQL, {"never": NEVER}).fetchall():
            side = _side(row)
            self.sides.append(side)
            tags[side.sends, row[4]].append(side)
        self.windows: dict[int, list[Window]] = defaultdict(list)
        for rank, since, until in con.execute(_WINDOWS_SQL).fetchall():
            self.windows[rank].append((since, until))
        self.steps: dict[int, Ints] = {
            source: np.array(steps)
            for source, steps in con.execute(
                "SELECT source_id, list(DISTINCT step) FROM base.steps GROUP BY source_id"
            ).fetchall()
        }
        self.listed = read_listed(con, "source_id")
        self.shifts = {
            (sent, received): found
            for (sends, tag), those in tags.items()
            if sends
            for sent in those
            for received in tags.get((False, tag), [])
            if self._may_meet(sent, received) and (found := possible_shifts(sent, received))
        }
        self._refuse_others(con)

    def find(self) -> Iterator[tuple[int, int, str | None, str | None, list[int], int, int]]:
        """Match what has one partner, and yield of every call of those the other side, the group's
        name and description, its members and how many they are, and when the message was over, as
        far as that is known: when either side was.
        """
        for sent, received in self._pairs():
            groups = self._groups(sent, received)
            if len({group.ranks for group in groups}) < len(groups):
                self._refuse(SAME_MEMBERS, sent, received)
                continue
            shift = self._shift(sent, received)
            if shift is None:
                self._refuse(NO_ORDER, sent, received)
                continue
            i = _met(sent, received, shift)
            for side, met in ((sent, i), (received, i + shift)):
                self._refused(ONE_SIDE, np.delete(side.call, met))
            self.found.sent.append(sent.call[i])
            self.found.received.append(received.call[i + shift])
            ranks = tuple(sorted((sent.rank, received.rank)))
            (group,) = groups if len(groups) == 1 else [Listed("", None, ranks)]
            over = _over(sent, i, received, i + shift)
            for side, met, other in ((sent, i, received), (received, i + shift, sent)):
                until = side.waited.copy()
                until[met] = over
                for call, end in zip(side.call.tolist(), until.tolist(), strict=True):
                    yield (
                        call, other.rank, group.name or None, group.description,
                        list(group.ranks), len(group.ranks), end,
                    )  # fmt: skip

    def _pairs(self) -> Iterator[tuple[Side, Side]]:
        """Sides that have no partner but each other, whatever the others have."""
        partners: dict[Side, set[Side]] = {side: set() for side in self.sides}
        for sent, received in self.shifts:
            partners[sent].add(received)
            partners[received].add(sent)
        has_one = {side: self._has_partner(side, partners[side]) for side in self.sides}
        left = set(self.sides)
        while True:
            claims = dict.fromkeys(
                (side, other) if side.sends else (other, side)
                for side in self.sides
                if side in left and has_one[side] and len(partners[side] & left) == 1
                for other in partners[side] & left
            )
            if not claims:
                break
            claimed = Counter(chain.from_iterable(claims))
            for claim in claims:
                if all(claimed[side] == 1 for side in claim):
                    yield claim
                else:
                    self._refuse(RIVALS, *(side for side in claim if side in left))
                left -= set(claim)
        for side in (side for side in self.sides if side in left):
            others = partners[side]
            reason = NO_CLOCK if self._is_far(side) else RIVALS if len(others) > 1 else ONE_SIDE
            self._refuse(reason, side)

    def _may_meet(self, sent: Side, received: Side) -> bool:
        """Whether two ranks may have these places in one group, of which all members are in the
        order of ranks."""
        here, there = received.place, sent.place
        if not (here <= sent.rank and there <= received.rank and here != there):
            return False
        in_order = (here < there) == (sent.rank < received.rank)
        return in_order and self.same_clock(sent.rank, received.rank)

    def _has_partner(self, side: Side, partners: set[Side]) -> bool:
        """Whether the other side of some message surely is among the sides: each rank that may be
        it recorded all the while, on the same clock."""
        ranks = self._listed_peers(side) | {other.rank for other in partners}
        if not ranks <= self.windows.keys() or self._is_far(side):
            return False
        inside = np.ones(len(side), dtype=np.bool_)
        for rank in ranks:
            inside &= self._inside(side, rank)
        return bool(inside.any())

    def _inside(self, side: Side, rank: int) -> Flags:
        """Which messages began and were over while a rank recorded."""
        inside = np.zeros(len(side), dtype=np.bool_)
        for since, until in self.windows[rank]:
            inside |= (side.issued >= since) & (side.waited <= until)
        return inside

    def _is_far(self, side: Side) -> bool:
        """Whether a rank that may be the other side has a clock of its own."""
        recorded = self._listed_peers(side) & self.windows.keys()
        return any(not self.same_clock(side.rank, rank) for rank in recorded)

    def _listed_peers(self, side: Side) -> set[int]:
        """The ranks that have the place in one of the groups that the file lists."""
        groups = (group.ranks for group in self.listed[side.source])
        there = {ranks[side.place] for ranks in groups if side.place < len(ranks)}
        return there - {side.rank}

    def _groups(self, sent: Side, received: Side) -> list[Listed]:
        """The listed groups in which both ranks have these places."""
        return [
            group
            for group in self.listed[sent.source]
            if max(sent.place, received.place) < len(group.ranks)
            and group.ranks[sent.place] == received.rank
            and group.ranks[received.place] == sent.rank
        ]

    def _shift(self, sent: Side, received: Side) -> int | None:
        """The one shift that causality leaves, or of those that it leaves the one under which every
        message was received in the step in which it was sent, where none outlasts its step."""
        found = self.shifts[sent, received]
        if len(found) > 1 and sent.closed and received.closed:
            found = [shift for shift in found if self._in_step(sent, received, shift)]
        return found[0] if len(found) == 1 else None

    def _in_step(self, sent: Side, received: Side, shift: int) -> bool:
        """Whether a shift brings together what was issued in one step, over two steps or more, and
        leaves over what lies in steps that the other file lacks."""
        i = _met(sent, received, shift)
        if (sent.step[i] != received.step[i + shift]).any() or len(np.unique(sent.step[i])) < 2:
            return False
        left = (np.delete(sent.step, i), received), (np.delete(received.step, i + shift), sent)
        return not any(np.isin(steps, self.steps[other.source]).any() for steps, other in left)

    def _refuse_others(self, con: duckdb.DuckDBPyConnection) -> None:
        """Refuse the messages that are on no side."""
        calls = con.execute(
            "SELECT call_id FROM base.collective_calls"
            " WHERE evidence = 'host op' AND gpu_op_id IS NULL AND op IN ('send', 'recv')"
        ).fetchnumpy()["call_id"]
        known = [side.call for side in self.sides]
        self._refused(NO_PEER, np.setdiff1d(calls, np.concatenate(known) if known else []))

    def _refuse(self, reason: str, *sides: Side) -> None:
        for side in sides:
            self._refused(reason, side.call)

    def _refused(self, reason: str, calls: Ints) -> None:
        self.found.refused[reason].append(calls)


def _side(row: tuple[Any, ...]) -> Side:
    rank, source, op, place, _, messages, closed, since, until = row
    call, issued, waited, free, size, dtype, step = np.array(messages, np.int64).T
    return Side(
        rank, source, op == "send", place, call, issued, waited, free, size, dtype, step, closed,
        (since, until),
    )  # fmt: skip


def possible_shifts(sent: Side, received: Side) -> list[int]:
    """Return by how many places the n-th send may be from its receive, so that no message of the
    two was over before both its sides were issued; without any if no message may have both.

    What has no partner then was issued on the other side before its file began, or after its end.
    """
    low = _last_over(received, sent.window) + 1 - len(sent)
    high = len(received) - 1 - _last_over(sent, received.window)
    shifts = [s for s in _not_refuted(sent, received, low, high) if _obeys(sent, received, s)]
    return shifts if any(-len(sent) < s < len(received) for s in shifts) else []


def _met(sent: Side, received: Side, shift: int) -> Ints:
    """The places of the sends that have receives under a shift."""
    return np.arange(max(0, -shift), min(len(sent), len(received) - shift))


def _over(sent: Side, i: Ints, received: Side, j: Ints) -> Ints:
    """When messages were over: when either side was, but who did something else first may have
    waited for what was there. If it waited for less long than the quickest message of that size
    takes, of those that somebody waited for from the beginning, it did."""
    first = np.where(sent.waited[i] < received.waited[j], 0, 1)
    over, free = (
        np.choose(first, [getattr(sent, name)[i], getattr(received, name)[j]])
        for name in ("waited", "free")
    )
    together = np.maximum(sent.issued[i], received.issued[j])
    whole = np.maximum(free, together)
    _, of_size = np.unique(sent.size[i], return_inverse=True)
    quickest = np.full(len(i), NEVER)
    throughout = free <= together
    np.minimum.at(quickest, of_size[throughout], (over - together)[throughout])
    quickest = np.maximum(quickest[of_size], 0)
    was_there = (quickest < NEVER) & (over - whole < quickest)
    return np.where(was_there, np.minimum(together + quickest, over), over)


def _last_over(side: Side, window: Window) -> int:
    """The last message of a side that was over while the other file still recorded; -1: none."""
    over = np.flatnonzero(side.waited < window[1] - SLACK_NS)
    return int(over[-1]) if len(over) else -1


def _not_refuted(sent: Side, received: Side, low: int, high: int) -> Ints:
    """The shifts of a range that leave each send a receive, if it has one, that was issued before
    the send was over, and before which nothing but what was over too early lies."""
    n, m = np.arange(len(sent)), len(received)
    over = np.maximum.accumulate(received.waited)
    first = np.searchsorted(over, sent.issued - SLACK_NS)
    last = np.searchsorted(received.issued, sent.waited + SLACK_NS, side="right")
    # where the receive is one of 0 to first - 1, or of last to m - 1, it is refuted
    against = np.zeros(len(sent) + m + 1, dtype=np.int64)
    origin = len(sent)
    for begin, end in ((np.zeros_like(first), first), (last, np.full_like(last, m))):
        kept = begin < end
        np.add.at(against, (begin - n + origin)[kept], 1)
        np.add.at(against, (end - n + origin)[kept], -1)
    shifts = np.flatnonzero(np.cumsum(against) == 0) - origin
    return np.asarray(shifts[(shifts >= low) & (shifts <= high)])


def _obeys(sent: Side, received: Side, shift: int) -> bool:
    """Whether the two sides of every message fit each other under a shift."""
    i = _met(sent, received, shift)
    j = i + shift
    early = (received.waited[j] < sent.issued[i] - SLACK_NS) | (
        sent.waited[i] < received.issued[j] - SLACK_NS
    )
    sizes = (sent.size[i] == received.size[j]) & (sent.dtype[i] == received.dtype[j])
    return bool(not early.any() and sizes.all())
