"""Matched collectives and exchanges of clock probes as matrices: what clocks are computed from.

One block holds the instances of one group and one kind of evidence, a row per instance and a column
per member; a rank that an instance lacks is NaN there.

An exchange of probes proves that two clocks lie within half of its round trip of where its middles
meet: as does a collective whose ranks both ended there, and both began half a round trip before.
Only the quick ones of a meeting are taken, as what keeps one waiting does so on one of its ways: on
a busy machine the middles of those that took 40 us lay 10 us apart, of those that took 20, 0.1 us.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import duckdb
import numpy as np
import numpy.typing as npt

from traceweave.arrays import Floats, Ints
from traceweave.matching.buffered import ends_coincide
from traceweave.matching.calls import OPS, PROVES, RECV, SEND, UNKNOWN, Calls

SHORTEST_NS = 100
"""No collective is over sooner. A call that seems to be had its clock set back meanwhile, and its
end is made up."""
QUICK = 1.25
"""An exchange is quick if its round trip is no longer than this many of the shortest."""
ROOTED, MESSAGES, UNKNOWN_KIND, PROBED = 1, 2, 3, 4
"""Sorts of evidence of a block: ends of operations with a root coincide where ranks have waited for
it, those of messages by direction, those of unknown operations as calls were matched by them; and
exchanges of probes."""


@dataclass(frozen=True)
class Block:
    """Instances (rows) of one group over its ranks (columns); times in ns since the origin of the
    calls, NaN if absent.
    """

    ranks: Ints
    """Position of each column's rank in the list of all ranks."""
    start: Floats
    end: Floats
    transfer: Floats
    """Per row: shortest duration, ns."""
    key: tuple[int, int]
    """Group and sort of evidence."""
    proves: bool
    """Causality holds between every two ranks of a row."""
    sends: Floats | None = None
    """For send with recv: per cell 1 for the sender, 0 for the receiver."""
    sort: Ints | None = None
    """Per row: a number of the operation and its size in the trace; without, or where it is
    negative, the size is not known."""


def build_blocks(calls: Calls, instance: Ints, ranks: Ints) -> list[Block]:
    """Arrange the matched calls (instance >= 0) whose ends coincide in blocks; `ranks` lists all
    ranks, ascending."""
    # gloo relays what a root sends: ranks end when those are there that they send to
    relayed = ~PROVES[calls.op] & (calls.root >= 0) & ~calls.on_gpu
    known = ends_coincide(calls, instance) & (calls.end - calls.start >= SHORTEST_NS)
    matched = np.flatnonzero(known & ~relayed)
    count = np.bincount(instance[matched], minlength=1)
    matched = matched[count[instance[matched]] > 1]
    if not len(matched):
        return []
    op = calls.op[matched]
    kind = np.where(PROVES[op], 0, ROOTED)
    kind[(op == SEND) | (op == RECV)] = MESSAGES
    kind[op == UNKNOWN] = UNKNOWN_KIND
    first_label = np.full(int(instance.max()) + 1, -1, dtype=np.int64)
    first_label[instance[matched]] = calls.label[matched]
    key = PROBED * first_label[instance[matched]] + kind
    order = np.argsort(key, kind="stable")
    borders = np.r_[0, np.flatnonzero(np.diff(key[order])) + 1, len(order)]
    blocks = []
    for low, high in pairwise(borders.tolist()):
        index = matched[order[low:high]]
        block = _build(calls, index, instance[index], ranks, int(key[order[low]]) % PROBED)
        if len(block.ranks) > 1:
            blocks.append(block)
    return blocks


def _build(calls: Calls, index: Ints, instance: Ints, ranks: Ints, kind: int) -> Block:
    members, column = np.unique(calls.rank[index], return_inverse=True)
    rows, row = np.unique(instance, return_inverse=True)
    shape = (len(rows), len(members))
    start, end = np.full(shape, np.nan), np.full(shape, np.nan)
    start[row, column] = calls.start[index]
    end[row, column] = calls.end[index]
    sends: npt.NDArray[np.float64] | None = None
    if kind == MESSAGES:
        sends = np.full(shape, np.nan)
        sends[row, column] = calls.op[index] == SEND
    transfer = np.nanmin(end - start, axis=1)
    key = (int(calls.label[index[0]]), kind)
    sort = np.full(len(rows), -1)
    known = calls.size[index] >= 0
    sort[row[known]] = len(OPS) * calls.size[index][known] + calls.op[index][known]
    place = np.searchsorted(ranks, members)
    return Block(place, start, end, transfer, key, kind == 0, sends, sort)


_EXCHANGES = """
WITH others AS (FROM clock_probes WHERE rank <> peer_rank),
shortest AS (
    SELECT rank, peer_rank, meeting, source_id, min(round_trip_ns) AS shortest_ns
    FROM others GROUP BY ALL
)
SELECT rank, peer_rank, asked_local_ns, heard_local_ns, answered_local_ns, received_local_ns
FROM others JOIN shortest USING (rank, peer_rank, meeting, source_id)
WHERE round_trip_ns <= $quick * shortest_ns
ORDER BY rank, peer_rank, asked_local_ns
"""


def read_exchanges(con: duckdb.DuckDBPyConnection, ranks: Ints, origin_ns: int) -> list[Block]:
    """Return a block per two of the `ranks` (ascending) that exchanged probes; times count from
    `origin_ns`.
    """
    rows = con.execute(_EXCHANGES, {"quick": QUICK}).fetchnumpy()
    found = np.stack([np.asarray(column, dtype=np.int64) for column in rows.values()], axis=1)
    found = found[np.isin(found[:, :2], ranks).all(axis=1)]
    blocks = []
    for pair in np.unique(found[:, :2], axis=0):
        mine = (found[:, :2] == pair).all(axis=1)
        times = (found[mine, 2:] - origin_ns).astype(np.float64)
        blocks.append(as_collectives(np.searchsorted(ranks, pair), times))
    return blocks


def as_collectives(pair: Ints, times: Floats) -> Block:
    """Return the exchanges of two ranks; `times`, a row each: when the request left and arrived,
    when the answer left and arrived.
    """
    asked, heard, answered, received = times.T
    half = ((received - asked) - (answered - heard)) / 2
    end = np.stack([(asked + received) / 2, (heard + answered) / 2], axis=1)
    order = np.argsort(pair)
    key = (-1 - int(pair[0]), PROBED)
    return Block(pair[order], (end - half[:, None])[:, order], end[:, order], half, key, True)
