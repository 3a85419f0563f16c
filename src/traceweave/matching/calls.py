"""The calls of a run as columns: what matching and fitting read, one numpy array per fact.

Times are nanoseconds since `Calls.origin_ns`, so that a double holds them exactly. -1 stands for an
unknown size, type, sequence number, peer or step; -2 never equals anything.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields

import duckdb
import numpy as np

from traceweave.arrays import Flags, Ints

SameClock = Callable[[int, int], bool]
"""Whether two ranks are known to have one clock."""

OPS = (
    "all_reduce",
    "all_gather",
    "reduce_scatter",
    "all_to_all",
    "barrier",
    "broadcast",
    "reduce",
    "gather",
    "scatter",
    "unknown",
    "send",
    "recv",
)
"""The operations that are told apart; their position is their code in `Calls.op`."""

SEND, RECV, UNKNOWN = OPS.index("send"), OPS.index("recv"), OPS.index("unknown")
RENDEZVOUS = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "barrier")
"""Operations that cannot end anywhere before they have started everywhere."""
PROVES = np.array([op in RENDEZVOUS for op in OPS])
"""Whether an operation code is one of them: no rank's end lies before any rank's start."""
_SENDS = np.array([op in ("broadcast", "scatter") for op in OPS])
"""Whether it is its root that sends."""
OWN_SIZE = ("all_to_all", "gather", "scatter")
"""Operations whose size may differ between the ranks of one instance (split sizes, the root's
buffer).
"""


@dataclass(frozen=True)
class Calls:
    """Columns of base.known_calls, ordered by rank and start, those of a host backend by when they
    were asked for; every array has one value per call.
    """

    call_id: Ints
    rank: Ints
    source: Ints
    label: Ints
    """Which distinct group label of groups.py the call carries; after grouping, the group's id."""
    op: Ints
    size: Ints
    """Bytes; -1 if the trace does not say or the operation's size may differ between ranks."""
    dtype: Ints
    seq: Ints
    peer: Ints
    peer_number: Ints
    """What the other side's number in the communicator is, where a trace says that instead."""
    step: Ints
    stream: Ints
    """The GPU's, or the host thread's; a host backend's threads take turns and tell nothing."""
    thread: Ints
    """The thread that a host backend ran it on; -1 of others."""
    kernel: Ints
    """Name and grid of the kernel, as a code, of calls that no group is named for."""
    captured: Flags
    """A CUDA graph replays it: it has no number."""
    on_gpu: Flags
    computing: Flags
    """Its stream also runs kernels that compute; told only of calls that no group is named for."""
    waited: Flags
    """It ends when somebody waits for it: a message of gloo, or what has a receive half."""
    root: Ints
    """1 of the root of a broadcast, reduce, gather or scatter, 0 of the others; -1 where there is
    none, or none is known."""
    start: Ints
    end: Ints
    origin_ns: int

    def __len__(self) -> int:
        return len(self.call_id)

    def roles(self, index: Ints) -> tuple[Flags, Flags]:
        """Return which of the calls at `index` do not end before those of their operation that are
        awaited have started, and which are awaited: all where none has a root, else the root of
        what it sends, and who sends to it.
        """
        op, root = self.op[index], self.root[index]
        proves, sends = PROVES[op], _SENDS[op].astype(np.int64)
        return proves | (root == 1 - sends), proves | (root == sends)

    def take(self, index: Ints | Flags) -> Calls:
        """Return the calls at `index`, in that order."""
        columns = {
            f.name: getattr(self, f.name)[index] for f in fields(self) if f.name != "origin_ns"
        }
        return Calls(**columns, origin_ns=self.origin_ns)


def agree(a: Calls, i: Ints, b: Calls, j: Ints) -> Flags:
    """Whether the calls i of a and j of b may be one operation; an unknown size, type or kernel
    agrees with any.
    """
    fits = a.op[i] == b.op[j]
    for mine, theirs in ((a.size, b.size), (a.dtype, b.dtype), (a.kernel, b.kernel)):
        if (mine < 0).all() or (theirs < 0).all():
            continue
        here, there = mine[i], theirs[j]
        fits &= (here == there) | (here < 0) | (there < 0)
    return np.asarray(fits)


STREAM_SQL = "CASE WHEN k.gpu_op_id IS NOT NULL OR k.evidence <> 'host op' THEN k.stream END"
"""Of base.known_calls as k: the stream, where it may tell groups apart."""

_CALLS_SQL = f"""
WITH types AS (
    SELECT dtype, row_number() OVER (ORDER BY dtype) - 1 AS code
    FROM (SELECT DISTINCT dtype FROM base.collective_calls WHERE dtype IS NOT NULL)
),
kernels AS (
    -- every rank of an operation runs the same kernel on the same grid, but for exchanges of
    -- pairs, and as long as one profiler writes the names
    SELECT call_id, dense_rank() OVER (ORDER BY name, grid) - 1 AS code
    FROM base.call_kernels
    WHERE NOT regexp_matches(name, '(?i)send_?recv')
        AND (SELECT count(DISTINCT format) FROM base.rank_sources) = 1
),
computing AS (
    SELECT DISTINCT rank, stream FROM base.compute_streams
),
asked AS (
    -- threads of gloo may begin two operations the other way round than they were asked for
    SELECT h.op_id, h.start_local_ns
    FROM base.host_ops AS h
    SEMI JOIN (SELECT host_op_id FROM base.collective_calls WHERE gpu_op_id IS NULL) AS k
        ON k.host_op_id = h.op_id
)
SELECT
    k.call_id,
    CAST(k.rank AS BIGINT) AS rank,
    CAST(k.source_id AS BIGINT) AS source,
    CAST(-1 AS BIGINT) AS label,
    CAST(coalesce(list_position($ops, k.op), list_position($ops, 'unknown')) - 1 AS BIGINT) AS op,
    CASE WHEN list_contains($own_size, k.op) THEN -1 ELSE coalesce(k.bytes, -1) END AS size,
    coalesce(t.code, -1) AS dtype,
    coalesce(k.seq, -1) AS seq,
    CAST(coalesce(k.peer, -1) AS BIGINT) AS peer,
    CAST(coalesce(k.comm_peer, -1) AS BIGINT) AS peer_number,
    coalesce(k.step, -1) AS step,
    coalesce({STREAM_SQL}, -1) AS stream,
    CASE WHEN {STREAM_SQL} IS NULL THEN coalesce(k.stream, -1) ELSE -1 END AS thread,
    coalesce(n.code, -1) AS kernel,
    k.evidence = 'capture' AS captured,
    k.gpu_op_id IS NOT NULL OR k.evidence <> 'host op' AS on_gpu,
    m.rank IS NOT NULL AS computing,
    k.receive_op_id IS NOT NULL
        OR k.op IN ('send', 'recv') AND k.evidence = 'host op' AND k.gpu_op_id IS NULL
        AND k.source_id IN (
            SELECT source_id FROM base.rank_sources WHERE format = 'kineto'
        ) AS waited,
    coalesce(CAST(k.group_ranks[k.root_place + 1] = k.rank AS BIGINT), -1) AS root,
    k.start_local_ns - $origin AS start,
    k.start_local_ns + k.duration_ns - $origin AS "end"
FROM base.known_calls AS k
LEFT JOIN types AS t ON k.dtype = t.dtype
LEFT JOIN kernels AS n ON k.call_id = n.call_id
LEFT JOIN computing AS m
    ON k.rank = m.rank AND k.stream = m.stream AND k.gpu_op_id IS NOT NULL
    AND k.group_name IS NULL AND k.comm_id IS NULL
LEFT JOIN asked AS a ON a.op_id = k.host_op_id AND k.gpu_op_id IS NULL
ORDER BY k.rank, coalesce(a.start_local_ns, k.start_local_ns), k.start_local_ns, k.call_id
"""


def read_calls(con: duckdb.DuckDBPyConnection) -> Calls:
    """Read every row of base.known_calls of `con`, without labels: groups.read_labels has these.

    A host backend runs one group's operations on several threads, so a thread never tells groups
    apart.
    """
    found = con.execute("SELECT min(start_local_ns) FROM base.collective_calls").fetchall()
    origin = int(found[0][0] or 0)
    columns = con.execute(
        _CALLS_SQL, {"ops": list(OPS), "own_size": list(OWN_SIZE), "origin": origin}
    ).fetchnumpy()
    captured, on_gpu, computing, waited = (
        np.asarray(columns.pop(name), np.bool_)
        for name in ("captured", "on_gpu", "computing", "waited")
    )
    numbers = {name: np.asarray(column, np.int64) for name, column in columns.items()}
    return Calls(
        **numbers, captured=captured, on_gpu=on_gpu, computing=computing, waited=waited,
        origin_ns=origin,
    )  # fmt: skip
