"""What makes many ranks one run: matching collectives over ranks, and estimating every rank's
clock.

Reads base.collective_calls, base.rank_sources and NCCL's own records; writes what all files
together tell of the calls (base.inferences), groups, base.matches, clocks and the run's rows of
ingest_issues about them.
Running it again gives the same tables.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import duckdb
import numpy as np
from threadpoolctl import threadpool_limits

from traceweave.arrays import Ints
from traceweave.clocks.clock import Clock, RankInfo, Violations, alone, find_violations
from traceweave.clocks.matrices import build_blocks, read_exchanges
from traceweave.clocks.tables import read_ranks, write_clocks
from traceweave.errors import UsageError
from traceweave.links import write_links
from traceweave.matching.calls import Calls, read_calls
from traceweave.matching.groups import Job, find_groups, read_labels, recorded_groups, state_roles
from traceweave.matching.match import match_calls
from traceweave.matching.messages_by_order import resolve_host_messages
from traceweave.matching.outcome import (
    read_instances,
    read_known_clocks,
    read_world_size,
    write_groups,
    write_matches,
)
from traceweave.matching.peers import resolve_messages, resolve_peers
from traceweave.matching.worker_threads import resolve_threads
from traceweave.words import name_ranks

METHODS = ("ends", "wall clock")


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
    clock_of = read_known_clocks(con)

    def same_clock(rank: int, other: int) -> bool:
        return bool(clock_of[rank] & clock_of[other])

    con.execute("DELETE FROM base.inferences WHERE evidence <> 'flight recorder'")
    resolve_peers(con)
    resolve_messages(con)
    messages = resolve_host_messages(con, same_clock)
    ranks = read_ranks(con)
    calls = read_calls(con)
    resolve_threads(con, calls, same_clock)
    groups, group_of_label = find_groups(
        read_labels(con, calls), {info.rank for info in ranks}, read_world_size(con)
    )
    if len(calls):
        calls.label[:] = group_of_label[calls.label]
    size = read_world_size(con)
    # of a rank without calls nothing is recorded that matching could miss
    known = [info.rank for info in ranks] if size is None else np.unique(calls.rank).tolist()
    job = Job(tuple(sorted(known)), size)
    matches = match_calls(calls, groups, same_clock, job, messages)
    clocks, slack, left = _fit(con, calls, matches.instance, ranks, None, True)
    groups = [*groups, *recorded_groups(con, groups)]
    state_roles(con, groups)
    con.execute("BEGIN")
    write_groups(con, groups)
    write_matches(con, calls, matches)
    write_links(con)
    write_clocks(con, clocks, slack, left)
    con.execute("COMMIT")
    return WeaveSummary(
        calls=len(calls),
        instances=int(matches.instance.max(initial=-1)) + 1,
        matched=matches.matched(),
        unmatched=matches.unmatched(),
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
    ranks = read_ranks(con)
    known = [info.rank for info in ranks]
    if reference_rank is not None and reference_rank not in known:
        raise UsageError(f"no rank {reference_rank} in this run: it has {name_ranks(known)}")
    calls = read_calls(con)
    instance = read_instances(con, calls)
    use_ends = method == "ends"
    clocks, slack, left = _fit(con, calls, instance, ranks, reference_rank, same_host, use_ends)
    con.execute("BEGIN")
    write_clocks(con, clocks, slack, left)
    con.execute("COMMIT")
    return clocks


def _fit(
    con: duckdb.DuckDBPyConnection,
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
    if len(ranks) == 1:
        clock = alone(ranks[0])
        return [clock], 0, find_violations(blocks, numbers, [clock], origin)
    from traceweave.clocks.answer import fit_clocks  # imports SciPy, which takes 0.1 s

    probes = read_exchanges(con, np.array(numbers), origin)
    used = [*blocks, *probes] if use_ends else []
    # thousands of small systems: threads of the BLAS would spend their time waiting for each other
    with threadpool_limits(limits=1, user_api="blas"):
        clocks, slack = fit_clocks(
            ranks, used, origin, reference_rank=reference, same_host=same_host
        )
    return clocks, slack, find_violations(blocks, numbers, clocks, origin)
