"""Which rank the other side of a send or recv is, where its own trace does not say."""

from __future__ import annotations

import duckdb
import numpy as np

from traceweave.arrays import Ints
from traceweave.matching.calls import Calls
from traceweave.matching.groups import Group

_SQL = """
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
    FROM base.collective_calls AS k
    LEFT JOIN members AS m ON k.comm_id = m.comm_id AND k.comm_peer = m.comm_rank
    LEFT JOIN worlds AS w ON k.comm_id = w.comm_id
    WHERE k.peer IS NULL AND k.comm_peer IS NOT NULL
)
UPDATE base.collective_calls SET peer = found.peer FROM found
WHERE collective_calls.call_id = found.call_id AND found.peer IS NOT NULL
"""


def resolve_peers(con: duckdb.DuckDBPyConnection) -> None:
    """Fill in base.collective_calls.peer where all files together know it.

    A trace may name the peer by its number in the communicator; then the other ranks' traces tell
    who has that number.
    """
    con.execute(_SQL)


def fill_peers(calls: Calls, index: Ints, group: Group) -> None:
    """In a group of two, the other side is the other member."""
    members = group.ranks
    if group.size == 2 and len(members) == 2:
        open_calls = index[calls.peer[index] < 0]
        other = np.where(calls.rank[open_calls] == members[0], members[1], members[0])
        calls.peer[open_calls] = other
