"""What matching says of every call: its instance, how it was found, or why there is none; the
tables that it writes, and what it reads of the ranks.
"""

from __future__ import annotations

from dataclasses import dataclass

import duckdb
import numpy as np

from traceweave.arrays import Flags, Ints
from traceweave.matching.calls import Calls
from traceweave.matching.groups import Group
from traceweave.store.rows import insert_rows, registered
from traceweave.words import EPOCH_FROM_NS

HOW = ("unmatched", "seq", "order", "sequence-aligned")
"""Values of base.matches.match; their position is their code in `Matches.how`."""

ACAUSAL = "however the ranks' calls are lined up, some end before their partners begin"
SEVERAL_WAYS = "the sequence repeats itself and fits in several ways"
_UNNAMED = "their groups are not named and may be several; flight recorder dumps name them"
UNNAMED = f"{ACAUSAL}: {_UNNAMED}"
MIXED = f"more threads ran its rank's calls than one group has: {_UNNAMED}"
ALONE = "no other rank of the group recorded it"
NO_PEER = "the trace does not say which rank is the other side"
ONE_SIDE = "the other side of the send or recv is not in the traces"
NOT_PROVEN = "no label names its group, and ends do not prove one"
NO_PAIR = "no label names the other side, and ends do not prove one"
RIVALS = "no label names the other side, and two ranks may be it"
NO_ORDER = "order and causality leave several ways to pair its rank's sends with receives"
NO_CLOCK = "the other side may be a rank with another clock, and order alone does not tell"
SAME_MEMBERS = "several groups of the same members may carry it"
OVERLAPS = "its stream ran another call at the same time, so its clock was set back"
PART_FITS = "only some of its stream's calls fit those of another rank"
DISAGREE = "ranks disagree on operation, size or type under one sequence number"
COALESCED = "ranks issued different numbers of calls under one sequence number"
MISNUMBERED = "what ranks did under these sequence numbers contradicts causality"
NO_SEQ = "without sequence number in a group whose other calls have one"
NO_TIME_FIT = "no call of another rank fits it in order and time"

UNMATCHED = "unmatched_collectives"
"""Kind of the rows of ingest_issues about calls that were not matched; the reason follows after a
colon.
"""


def sides(instance: Ints, index: Ints, by: Ints) -> tuple[Ints, Ints]:
    """Return those of the calls at `index` that share an instance, two by two, the one of which
    `by` says less first.
    """
    index = index[instance[index] >= 0]
    index = index[np.lexsort((by[index], instance[index]))]
    first = np.flatnonzero(np.diff(instance[index]) == 0)
    return index[first], index[first + 1]


@dataclass
class Matches:
    """Per call: its instance (-1: none), how it was found and, for the unmatched, why not."""

    instance: Ints
    how: Ints
    reason: Ints
    reasons: list[str]
    next_instance: int = 0
    """The first number that no instance has had."""

    @classmethod
    def empty(cls, calls: int) -> Matches:
        """Return `calls` unmatched calls without a reason."""
        return cls(
            np.full(calls, -1, dtype=np.int64),
            np.zeros(calls, dtype=np.int64),
            np.full(calls, -1, dtype=np.int64),
            [],
        )

    def refuse(self, index: Ints, reason: str) -> None:
        """Leave the calls at `index` unmatched because of `reason`."""
        if not len(index):
            return
        if reason not in self.reasons:
            self.reasons.append(reason)
        self.instance[index] = -1
        self.how[index] = 0
        self.reason[index] = self.reasons.index(reason)

    def refused(self, reason: str) -> Flags:
        """Return which calls are unmatched because of `reason`."""
        code = self.reasons.index(reason) if reason in self.reasons else len(self.reasons)
        return np.asarray(self.reason == code)

    def accept(self, index: Ints, instance: Ints, how: str) -> None:
        """Give the calls at `index` their instances."""
        self.instance[index] = instance
        self.how[index] = HOW.index(how)
        self.reason[index] = -1
        self.next_instance = max(self.next_instance, int(instance.max(initial=-1)) + 1)

    def matched(self) -> dict[str, int]:
        """Calls per way in which they were matched."""
        counts = np.bincount(self.how, minlength=len(HOW))
        return {how: int(n) for how, n in zip(HOW[1:], counts[1:], strict=True) if n}

    def unmatched(self) -> dict[str, int]:
        """Calls without an instance, by reason."""
        counts = np.bincount(self.reason[self.reason >= 0], minlength=len(self.reasons))
        return {reason: int(n) for reason, n in zip(self.reasons, counts, strict=True) if n}


def read_known_clocks(con: duckdb.DuckDBPyConnection) -> dict[int, set[str]]:
    """Names of the clocks that each rank is known to use: those of its hosts, as far as its times
    are of a wall clock, and of its reports. A file that was merged of several has as many clocks.
    """
    found: dict[int, set[str]] = {}
    for rank, source, of_wall, host in con.execute(
        "SELECT rank, CASE WHEN format = 'nsys' THEN format('report {}', source_id)"
        " ELSE format('file {} of rank {}', source_id, rank) END,"
        " first_local_ns >= ?, host FROM base.rank_sources",
        [EPOCH_FROM_NS],
    ).fetchall():
        found.setdefault(rank, set()).add(source)
        if host is not None and of_wall:
            found[rank].add(f"host {host}")
    return found


def read_world_size(con: duckdb.DuckDBPyConnection) -> int | None:
    """Return the number of ranks of the job, None if no trace says."""
    found = con.execute("SELECT max(world_size) FROM base.rank_sources").fetchall()
    return None if found[0][0] is None else int(found[0][0])


def read_instances(con: duckdb.DuckDBPyConnection, calls: Calls) -> Ints:
    """Return the instance of each call, -1 if none, as calls were matched before; the label of each
    call becomes its group.
    """
    columns = con.execute(
        "SELECT call_id, coalesce(collective_id, -1) AS instance,"
        " CAST(coalesce(group_id, -1) AS BIGINT) AS label FROM base.matches ORDER BY call_id"
    ).fetchnumpy()
    position = np.searchsorted(np.asarray(columns["call_id"]), calls.call_id)
    calls.label[:] = np.asarray(columns["label"])[position]
    return np.asarray(columns["instance"], dtype=np.int64)[position]


def write_groups(con: duckdb.DuckDBPyConnection, groups: list[Group]) -> None:
    """Replace the table groups; the number of a group is its place in the list."""
    con.execute("DELETE FROM groups")
    insert_rows(con, "groups", [
        {"group_id": number, "name": g.name, "description": g.description, "size": g.size,
         "ranks": g.ranks, "role": g.role, "role_source": g.role_source,
         "stated_role": g.stated_role, "membership": g.membership}
        for number, g in enumerate(groups)
    ])  # fmt: skip


def write_matches(con: duckdb.DuckDBPyConnection, calls: Calls, matches: Matches) -> None:
    """Replace the table base.matches, and the issues about calls that were not matched."""
    found = {
        "call_id": calls.call_id,
        "group_id": calls.label,
        "collective_id": matches.instance,
        "how": matches.how,
    }
    con.execute("DELETE FROM base.matches")
    with registered(con, found) as rows:
        con.execute(
            "INSERT INTO base.matches BY NAME SELECT call_id, group_id,"
            " CASE WHEN collective_id >= 0 THEN collective_id END AS collective_id,"
            f" ($1::VARCHAR[])[how + 1] AS match FROM {rows}",
            [list(HOW)],
        )
    con.execute(
        "DELETE FROM ingest_issues WHERE source_id IS NULL AND starts_with(kind, ?)", [UNMATCHED]
    )
    insert_rows(con, "ingest_issues", [
        {"kind": f"{UNMATCHED}: {reason}", "count": count,
         "message": f"calls that belong to no instance: {reason}"}
        for reason, count in matches.unmatched().items()
    ])  # fmt: skip
