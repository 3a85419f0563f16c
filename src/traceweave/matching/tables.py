"""What matching reads of the ranks, and the tables it writes: groups, base.matches, and why calls
were not matched.
"""

from __future__ import annotations

import duckdb
import numpy as np

from traceweave.arrays import Ints
from traceweave.matching.calls import Calls
from traceweave.matching.groups import Group
from traceweave.matching.outcome import HOW, Matches
from traceweave.store.rows import insert_rows, registered
from traceweave.words import EPOCH_FROM_NS

UNMATCHED = "unmatched_collectives"
"""Kind of the rows of ingest_issues about calls that were not matched; the reason follows after a
colon.
"""


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
