"""Exchanges of clock probes as what a fit knows already: collectives of two ranks.

An exchange proves that two clocks lie within half of its round trip of where its middles meet: the
middle of (asked, received) on one clock, of (heard, answered) on the other. So does a collective
whose ranks both ended there, and both began half a round trip before, as neither can end before the
other has begun. Bounds, fit and bends take exchanges beside the collectives and know no difference.

Only the quick ones of a meeting are taken. Whatever keeps an exchange waiting keeps one of its ways
waiting: on a busy machine the middles of those that took 40 us lay 10 us apart, of those that took
20 us 0.1 us.
"""

from __future__ import annotations

import duckdb
import numpy as np

from traceweave.arrays import Floats, Ints
from traceweave.clocks.matrices import KINDS, Block

PROBED = KINDS
"""The sort of evidence in the key of a block of exchanges; those of collectives are below."""

QUICK = 1.25
"""An exchange is quick if its round trip is no longer than this many of the shortest."""

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
