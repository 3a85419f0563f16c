"""Which rank the other side of a send or recv is, where its own trace does not say, and which
calls that say nothing are messages.
"""

from __future__ import annotations

import duckdb
import numpy as np

from traceweave.arrays import Ints
from traceweave.matching.calls import SEND, Calls
from traceweave.matching.groups import Group

ENOUGH = 8
"""Messages that say what the others of their stream are."""

_PEERS_SQL = """
INSERT INTO base.inferences BY NAME
WITH members AS (
    SELECT comm_id, comm_rank, min(rank) AS rank
    FROM base.collective_calls
    WHERE comm_id IS NOT NULL AND comm_rank IS NOT NULL
    GROUP BY ALL HAVING count(DISTINCT rank) = 1
),
worlds AS (
    -- a communicator of all ranks numbers them as the run does
    SELECT comm_id FROM base.collective_calls
    WHERE comm_id IS NOT NULL AND comm_peer IS NOT NULL
    GROUP BY comm_id
    HAVING count(DISTINCT rank) = (SELECT max(world_size) FROM base.rank_sources)
),
found AS (
    SELECT k.call_id, coalesce(m.rank, CASE WHEN w.comm_id IS NOT NULL THEN k.comm_peer END) AS peer
    FROM base.known_calls AS k
    LEFT JOIN members AS m ON k.comm_id = m.comm_id AND k.comm_peer = m.comm_rank
    LEFT JOIN worlds AS w ON k.comm_id = w.comm_id
    WHERE k.peer IS NULL AND k.comm_peer IS NOT NULL
)
SELECT call_id, 'communicator' AS evidence, peer FROM found WHERE peer IS NOT NULL
"""

_MESSAGES_SQL = """
INSERT INTO base.inferences BY NAME
WITH said AS (
    SELECT rank, source_id, stream, any_value(op) AS op, any_value(peer) AS peer
    FROM base.known_calls
    WHERE op <> 'unknown' AND gpu_op_id IS NOT NULL
    GROUP BY rank, source_id, stream
    HAVING count(DISTINCT op) = 1 AND any_value(op) IN ('send', 'recv')
        AND count(*) >= $enough
        AND (count(peer) = 0 OR count(DISTINCT peer) = 1 AND count(peer) = count(*))
)
SELECT k.call_id, 'stream' AS evidence, s.op, s.peer
FROM said AS s JOIN base.known_calls AS k USING (rank, source_id, stream)
WHERE k.op = 'unknown' AND k.evidence = 'name' AND k.gpu_op_id IS NOT NULL
"""


def resolve_peers(con: duckdb.DuckDBPyConnection) -> None:
    """Infer the other side of messages where all files together know it.

    A trace may name the peer by its number in the communicator; then the other ranks' traces tell
    who has that number.
    """
    con.execute(_PEERS_SQL)


def resolve_messages(con: duckdb.DuckDBPyConnection) -> None:
    """Infer what calls are that say nothing but their kernel's name, as those launched before the
    window: on a stream whose others in the same recording all are sends to one rank, or receives
    from one, they are too; where none of them says to whom, or from whom, they are sends or
    receives. A communicator of two ranks keeps to one stream; where that carries both sends and
    receives, nothing tells. What a label leaves open, as that of sends and receives in one kernel,
    may be either.
    """
    con.execute(_MESSAGES_SQL, {"enough": ENOUGH})


def fill_peers(calls: Calls, index: Ints, group: Group, complete: bool) -> None:
    """Fill in the other side of messages of a group: in a group of two, the other member; else the
    member of that number, since communicators number their members by rank. Those are known where
    a trace lists them, or every rank of the job was recorded (`complete`).
    """
    members = np.array(group.ranks)
    open_calls = index[calls.peer[index] < 0]
    if group.size == 2 and len(members) == 2:
        other = np.where(calls.rank[open_calls] == members[0], members[1], members[0])
        calls.peer[open_calls] = other
    elif group.members is not None or complete:
        open_calls = open_calls[calls.peer_number[open_calls] >= 0]
        number = calls.peer_number[open_calls]
        if not len(number) or number.max() >= len(members):
            return
        peer = members[number]
        if group.members is not None or _both_ways(calls, open_calls, peer):
            calls.peer[open_calls] = peer


def _both_ways(calls: Calls, index: Ints, peer: Ints) -> bool:
    """Whether every rank that sends to another is one that the other receives from."""
    sends = calls.op[index] == SEND
    sent = np.c_[calls.rank[index], peer][sends]
    received = np.c_[peer, calls.rank[index]][~sends]
    return np.array_equal(np.unique(sent, axis=0), np.unique(received, axis=0))
