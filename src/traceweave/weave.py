"""What makes many ranks one run: matching collectives over ranks, and estimating every rank's
clock.

Reads base.collective_calls and base.rank_sources; writes groups, base.matches, clocks and the run's
rows of ingest_issues about collectives. Running it again gives the same tables.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import astuple, dataclass

import duckdb
import numpy as np
import pyarrow as pa
from threadpoolctl import threadpool_limits

from traceweave.arrays import Ints
from traceweave.clocks.estimate import Clock, fit_clocks
from traceweave.clocks.matrices import build_blocks
from traceweave.clocks.piece import RankInfo
from traceweave.clocks.violations import Violations, find_violations
from traceweave.errors import UsageError
from traceweave.matching.calls import Calls, read_calls
from traceweave.matching.groups import Group, find_groups, read_labels
from traceweave.matching.match import match_calls
from traceweave.matching.outcome import HOW, Matches
from traceweave.matching.peers import resolve_peers

METHODS = ("ends", "wall clock")
CAUSALITY = "causality_violated"
"""Kind of the row of ingest_issues about instances that end before they have begun everywhere."""
CONTRADICTION = "causality_contradicts_itself"
"""Kind of the row about bounds that had to be loosened, because no clocks satisfy all of them."""
UNMATCHED = "unmatched_collectives"
"""Kind of the rows of ingest_issues about calls that were not matched; the reason follows after a
colon.
"""


@dataclass(frozen=True)
class WeaveSummary:
    """What weaving a run came to."""

    calls: int
    instances: int
    matched: dict[str, int]
    """Calls per value of base.matches.match except 'unmatched'."""
    unmatched: dict[str, int]
    """Calls without an instance, by reason."""
    clocks: dict[str, int]
    """Ranks per value of clocks.status."""
    violations: int = 0
    """Instances that, on the clocks found, end on one rank before another has begun."""


def weave(con: duckdb.DuckDBPyConnection) -> WeaveSummary:
    """Fill groups, base.matches and clocks of `con`, replacing what an earlier call wrote there."""
    resolve_peers(con)
    ranks = _read_ranks(con)
    calls = read_calls(con)
    groups, group_of_label = find_groups(
        read_labels(con), {info.rank for info in ranks}, _world_size(con)
    )
    if len(calls):
        calls.label[:] = group_of_label[calls.label]
    clock_of = _known_clocks(con)
    matches = match_calls(calls, groups, lambda i, j: bool(clock_of[i] & clock_of[j]))
    clocks, slack, left = _fit(calls, matches.instance, ranks, None, True)
    con.execute("BEGIN")
    _write_groups(con, groups)
    _write_matches(con, calls, matches)
    _write_clocks(con, clocks)
    _write_issues(con, matches)
    _write_trouble(con, slack, left)
    con.execute("COMMIT")
    con.execute("DROP TABLE call_labels")
    return WeaveSummary(
        calls=len(calls),
        instances=int(matches.instance.max(initial=-1)) + 1,
        matched={h: int(n) for h, n in zip(HOW[1:], _how_counts(matches)[1:], strict=True) if n},
        unmatched=_reasons(matches),
        clocks=dict(Counter({clock.rank: clock.status for clock in clocks}.values())),
        violations=left.count,
    )


def align(
    con: duckdb.DuckDBPyConnection,
    reference_rank: int | None = None,
    same_host: bool = True,
    method: str = "ends",
) -> list[Clock]:
    """Fit the clocks of a woven run again and replace the table `clocks`; matches stay as they are.

    `method`: 'ends' fits to the ends of collectives, 'wall clock' leaves every clock as it is and
    only counts what contradicts it. Raises UsageError if `reference_rank` is not a rank of the run
    or the method is unknown.
    """
    if method not in METHODS:
        raise UsageError(f"no method {method!r}: it is one of {', '.join(METHODS)}")
    ranks = _read_ranks(con)
    known = [info.rank for info in ranks]
    if reference_rank is not None and reference_rank not in known:
        raise UsageError(f"no rank {reference_rank} in this run: it has {_short(known)}")
    calls = read_calls(con)
    instance = _read_instances(con, calls)
    use_ends = method == "ends"
    clocks, slack, left = _fit(calls, instance, ranks, reference_rank, same_host, use_ends)
    con.execute("BEGIN")
    _write_clocks(con, clocks)
    _write_trouble(con, slack, left)
    con.execute("COMMIT")
    con.execute("DROP TABLE call_labels")
    return clocks


def _short(ranks: Sequence[int]) -> str:
    if len(ranks) <= 8:
        return "ranks " + ", ".join(map(str, ranks))
    return f"{len(ranks)} ranks from {ranks[0]} to {ranks[-1]}"


def _fit(
    calls: Calls,
    instance: Ints,
    ranks: list[RankInfo],
    reference: int | None,
    same_host: bool,
    use_ends: bool = True,
) -> tuple[list[Clock], int, Violations]:
    """The clocks, by how much causality was loosened, and what still contradicts it."""
    if not ranks:
        return [], 0, Violations(0, 0, 0, None, None)
    numbers = [info.rank for info in ranks]
    blocks = build_blocks(calls, instance, np.array(numbers))
    origin = calls.origin_ns if len(calls) else ranks[0].first_ns
    used = blocks if use_ends else []
    # thousands of small systems: threads of the BLAS would spend their time waiting for each other
    with threadpool_limits(limits=1, user_api="blas"):
        clocks, slack = fit_clocks(
            ranks, used, origin, reference_rank=reference, same_host=same_host
        )
    return clocks, slack, find_violations(blocks, numbers, clocks, origin)


def _read_ranks(con: duckdb.DuckDBPyConnection) -> list[RankInfo]:
    rows = con.execute(
        # ranks in one report were recorded by one profiler on one host, named or not
        "WITH sources AS (SELECT *, count(DISTINCT rank) OVER (PARTITION BY source_id) AS together"
        " FROM base.rank_sources) SELECT rank,"
        " coalesce(min(host), min(CASE WHEN together > 1 THEN 'report ' || source_id END)),"
        " coalesce(min(first_local_ns), 0), coalesce(max(last_local_ns), 0)"
        " FROM sources GROUP BY rank ORDER BY rank"
    ).fetchall()
    return [RankInfo(*row) for row in rows]


def _known_clocks(con: duckdb.DuckDBPyConnection) -> dict[int, set[str]]:
    """Names of the clocks that each rank is known to use: those of its hosts and of its files."""
    found: dict[int, set[str]] = {}
    for rank, source, host in con.execute(
        "SELECT rank, source_id, host FROM base.rank_sources"
    ).fetchall():
        found.setdefault(rank, set()).add(f"file {source}")
        if host is not None:
            found[rank].add(f"host {host}")
    return found


def _world_size(con: duckdb.DuckDBPyConnection) -> int | None:
    found = con.execute("SELECT max(world_size) FROM base.rank_sources").fetchall()
    return None if found[0][0] is None else int(found[0][0])


def _read_instances(con: duckdb.DuckDBPyConnection, calls: Calls) -> Ints:
    """The instance of each call and, as its label, its group, as an earlier weave wrote them."""
    columns = con.execute(
        "SELECT call_id, coalesce(collective_id, -1) AS instance,"
        " CAST(coalesce(group_id, -1) AS BIGINT) AS label FROM base.matches ORDER BY call_id"
    ).fetchnumpy()
    position = np.searchsorted(np.asarray(columns["call_id"]), calls.call_id)
    calls.label[:] = np.asarray(columns["label"])[position]
    return np.asarray(columns["instance"], dtype=np.int64)[position]


def _write_groups(con: duckdb.DuckDBPyConnection, groups: list[Group]) -> None:
    con.execute("DELETE FROM groups")
    rows = [
        (number, g.name, g.description, g.size, g.ranks, g.role, g.role_source)
        for number, g in enumerate(groups)
    ]
    if rows:
        con.executemany("INSERT INTO groups VALUES (?, ?, ?, ?, ?, ?, ?)", rows)


def _write_matches(con: duckdb.DuckDBPyConnection, calls: Calls, matches: Matches) -> None:
    found = pa.table(
        {
            "call_id": calls.call_id,
            "group_id": calls.label.astype(np.int32),
            "collective_id": pa.array(matches.instance, mask=matches.instance < 0),
            "match": pa.DictionaryArray.from_arrays(matches.how.astype(np.int8), list(HOW)),
        }
    )
    con.execute("DELETE FROM base.matches")
    con.register("weave_found", found)
    con.execute("INSERT INTO base.matches BY NAME SELECT * FROM weave_found")
    con.unregister("weave_found")


def _write_clocks(con: duckdb.DuckDBPyConnection, clocks: list[Clock]) -> None:
    con.execute("DELETE FROM clocks")
    if clocks:
        con.executemany(
            "INSERT INTO clocks VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            [astuple(clock) for clock in clocks],
        )


def _write_issues(con: duckdb.DuckDBPyConnection, matches: Matches) -> None:
    con.execute(
        "DELETE FROM ingest_issues WHERE source_id IS NULL AND starts_with(kind, ?)", [UNMATCHED]
    )
    for reason, count in _reasons(matches).items():
        con.execute(
            "INSERT INTO ingest_issues VALUES (NULL, ?, ?, NULL, ?)",
            [f"{UNMATCHED}: {reason}", count, f"calls that belong to no instance: {reason}"],
        )


def _write_trouble(con: duckdb.DuckDBPyConnection, slack_ns: int, left: Violations) -> None:
    """Say where causality and the clocks do not go together."""
    con.execute("DELETE FROM ingest_issues WHERE kind IN (?, ?)", [CAUSALITY, CONTRADICTION])
    if left.count:
        _write_issue(
            con, CAUSALITY, left.count, f"rank {left.early_rank} before rank {left.late_rank}",
            f"of {left.checked} synchronizing collectives, these end on one rank before another"
            f" has begun, by up to {left.worst_ns} ns: differences that small between these ranks"
            " are not to be trusted",
        )  # fmt: skip
    if slack_ns:
        _write_issue(
            con, CONTRADICTION, 1, None,
            f"no clocks satisfy all collectives; every bound was loosened by {slack_ns} ns, so"
            " bound_ns is an estimate in this run, not a proof",
        )  # fmt: skip


def _write_issue(
    con: duckdb.DuckDBPyConnection, kind: str, count: int, example: str | None, message: str
) -> None:
    con.execute(
        "INSERT INTO ingest_issues VALUES (NULL, ?, ?, ?, ?)", [kind, count, example, message]
    )


def _how_counts(matches: Matches) -> Ints:
    return np.bincount(matches.how, minlength=len(HOW))


def _reasons(matches: Matches) -> dict[str, int]:
    counts = np.bincount(matches.reason[matches.reason >= 0], minlength=len(matches.reasons))
    return {r: int(n) for r, n in zip(matches.reasons, counts, strict=True) if n}
