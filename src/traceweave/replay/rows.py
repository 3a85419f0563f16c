"""What a rank's tables say, as columns: the only place of this room that asks the database."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import duckdb
import numpy as np
import numpy.typing as npt

from traceweave.arrays import Flags, Ints
from traceweave.replay.nodes import HOLDS
from traceweave.store.database import asked_of
from traceweave.vocabulary import script

T = TypeVar("T")

Columns = Mapping[str, npt.NDArray[Any]]
"""Columns of equal length by name; no value is missing, -1 and NONE stand for none."""

NONE = -(2**62)
"""No time."""

FEW_NODES = 2_000_000
"""Are read at once: their rows and their graph take some 100 bytes for each."""

TIMES = frozenset({
    "start_ns", "end_ns", "waited", "called", "together", "soonest",
    "device_start_ns", "device_end_ns",
})  # fmt: skip
"""Columns that are moments: ns of the common clock since the run's first event, NONE for none."""

_ORIGIN = """
SELECT min(aligned_ns(r.first_local_ns, c.offset_ns, c.drift_ppm, c.reference_local_ns))
FROM ranks AS r
JOIN clock_spans AS c
    ON c.rank = r.rank
    AND r.first_local_ns >= c.from_local_ns AND r.first_local_ns < c.until_local_ns
"""

_NAMES = """
CREATE OR REPLACE TEMP TABLE tw_replay_names AS
SELECT row_number() OVER (ORDER BY name) - 1 AS number, name
FROM (FROM gpu_ops SELECT DISTINCT name UNION FROM device_ops SELECT name WHERE timeline = 'cpu');

CREATE OR REPLACE TEMP TABLE tw_replay_classes AS
SELECT row_number() OVER (ORDER BY class) - 1 AS number, class
FROM (SELECT class FROM gpu_ops GROUP BY class UNION SELECT 'operator');
"""

# A call is a node of the graph where it launches or waits; that of an event orders streams.
_CALLS = """
CREATE OR REPLACE TEMP TABLE tw_replay_calls AS
SELECT row_number() OVER (ORDER BY name) - 1 AS number, name, sort
FROM (
    SELECT
        name,
        CASE
            WHEN holds_stream = 'event' THEN 5
            WHEN contains(name, 'EventRecord') THEN 6
            WHEN waits_for = 'device' THEN 1 WHEN waits_for = 'stream' THEN 2
            WHEN waits_for = 'event' THEN 3 WHEN waits_for = 'copy' THEN 4
            WHEN name IN (SELECT launch_call FROM gpu_ops) THEN 0 WHEN allocates = 'free' THEN 9
        END AS sort
    FROM tw_call_names
)
WHERE sort IS NOT NULL
"""


class Call:
    """Sorts of calls: what launches, what makes its thread wait for what, the two that order
    streams, what launches once there is room in the queue, what orders streams while a collective
    is asked for (NCCL's own streams, or the one of the collective after its input, no other after
    it), and what frees memory: it waits for the device."""

    LAUNCH, DEVICE, STREAM, EVENT, COPY, WAIT, RECORD, ROOM, INNER, FREES = range(10)


COMPUTES, COMMUNICATES, COPIES = range(3)
"""Categories of ops; what sets memory copies too."""
CATEGORY = f"""CASE {{}}.category
        WHEN 'compute' THEN {COMPUTES} WHEN 'communication' THEN {COMMUNICATES} ELSE {COPIES}
    END"""

ANY_THREAD = -1
"""The chain of a record that names no thread."""

_GPU_OPS = f"""
SELECT
    o.rank, o.op_id, (hash(o.device, o.context, o.stream) >> 1)::BIGINT AS chain,
    coalesce(o.stream, -1) AS stream,
    o.start_ns, o.end_ns, n.number AS name_id, c.number AS class_id,
    {CATEGORY.format("o")} AS category, coalesce(o.copy_kind = 'HtoD', FALSE) AS from_host,
    coalesce(o.step, -1) AS step, coalesce(o.launch_op_id, -1) AS launch,
    coalesce(o.correlation, -1) AS correlation,
    coalesce(o.launch_start_ns, {{none}}) AS called, coalesce(o.launch_duration_ns, 0) AS call_ns,
    (hash(o.launch_pid, o.launch_tid) >> 1)::BIGINT AS thread,
    coalesce(o.launch_start_local_ns + o.launch_duration_ns, {{none}}) AS launched_ns,
    o.start_local_ns AS own_start_ns, o.start_local_ns + o.duration_ns AS own_end_ns,
    -- an operation in two halves lasts from the start of one to the end of the other
    greatest(own_end_ns, r.start_local_ns + r.duration_ns) AS until_ns
FROM gpu_ops AS o
JOIN tw_replay_names AS n USING (name)
JOIN tw_replay_classes AS c USING (class)
LEFT JOIN (
    FROM collectives WHERE rank BETWEEN $first AND $last AND receive_op_id IS NOT NULL
) AS r ON r.gpu_op_id = o.op_id
WHERE o.rank BETWEEN $first AND $last
"""

# copies that may hold up the call that starts them
_PAGEABLE = """
SELECT rank, op_id
FROM gpu_ops
WHERE rank BETWEEN $first AND $last AND kind = 'memcpy' AND contains(lower({where}), 'pageable')
"""

# the name says it, or with nsys the arguments, which are long
_NSYS_SAYS = """CASE
    WHEN rank IN (SELECT rank FROM ranks WHERE format = 'nsys') THEN args::VARCHAR ELSE name
END"""

_HOST_CALLS = f"""
WITH asking AS (
    SELECT h.rank, h.pid, h.tid, h.start_ns, h.end_ns
    FROM host_ops AS h
    WHERE h.rank BETWEEN $first AND $last AND h.op_id IN (
        SELECT host_op_id FROM collectives
        WHERE rank BETWEEN $first AND $last AND gpu_op_id IS NOT NULL
    )
),
inner_waits AS (
    SELECT w.op_id
    FROM (
        SELECT h.rank, h.pid, h.tid, h.op_id, h.start_ns, h.end_ns
        FROM host_ops AS h JOIN tw_replay_calls AS c USING (name)
        WHERE h.rank BETWEEN $first AND $last AND c.sort = 5
    ) AS w
    ASOF JOIN asking AS a
        ON a.rank = w.rank AND a.pid = w.pid AND a.tid = w.tid AND a.start_ns <= w.start_ns
    WHERE w.end_ns <= a.end_ns
),
-- where an allocation fails, torch frees its cache; before that it waits for what used it on other
-- streams, of which older profilers record nothing
flushes AS (
    SELECT op_id, waits_ns
    FROM (
        SELECT
            h.op_id, n.allocates, lag(n.allocates) OVER calls AS before,
            h.start_ns - lag(h.end_ns) OVER calls AS waits_ns
        FROM host_ops AS h JOIN tw_call_names AS n USING (name)
        SEMI JOIN (
            SELECT rank, tid FROM host_ops JOIN tw_call_names USING (name) WHERE allocates = 'free'
        ) AS f ON f.rank = h.rank AND f.tid = h.tid
        WHERE h.rank BETWEEN $first AND $last AND h.kind IN ('runtime', 'driver')
        WINDOW calls AS (PARTITION BY h.rank, h.pid, h.tid ORDER BY h.start_ns)
    )
    WHERE allocates = 'free' AND before = 'allocate' AND waits_ns > 0
)
SELECT
    h.rank, h.op_id, (hash(h.pid, h.tid) >> 1)::BIGINT AS chain,
    h.start_ns - coalesce(f.waits_ns, 0) AS start_ns, h.end_ns,
    c.number AS call_id, CASE WHEN i.op_id IS NULL THEN c.sort ELSE {Call.INNER} END AS sort,
    coalesce(h.step, -1) AS step, coalesce(h.correlation, -1) AS correlation,
    h.start_local_ns - coalesce(f.waits_ns, 0) AS own_start_ns,
    h.start_local_ns + h.duration_ns AS own_end_ns
FROM host_ops AS h JOIN tw_replay_calls AS c USING (name)
LEFT JOIN inner_waits AS i ON i.op_id = h.op_id LEFT JOIN flushes AS f ON f.op_id = h.op_id
WHERE h.rank BETWEEN $first AND $last AND h.kind IN ('runtime', 'driver')
"""

# in a run without a GPU: what computes, and what asks for collectives, until it waits for them
_CPU_OPS = """
SELECT
    d.rank, d.op_id, d.stream AS chain, d.start_ns, d.end_ns, n.number AS name_id,
    c.number AS class_id,
    coalesce(d.step, -1) AS step, FALSE AS asks
FROM device_ops AS d
JOIN tw_replay_names AS n USING (name)
JOIN tw_replay_classes AS c ON c.class = 'operator'
WHERE d.rank BETWEEN $first AND $last AND d.timeline = 'cpu' AND d.category = 'compute'
UNION ALL BY NAME
SELECT
    h.rank, h.op_id, h.tid AS chain, h.start_ns,
    min(CASE WHEN h.end_ns < k.end_ns THEN h.end_ns ELSE greatest(h.start_ns, k.start_ns) END)
        AS end_ns,
    -1 AS name_id, -1 AS class_id, coalesce(h.step, -1) AS step, TRUE AS asks
FROM collectives AS k JOIN host_ops AS h ON h.op_id = k.host_op_id
WHERE h.rank BETWEEN $first AND $last AND k.gpu_op_id IS NULL AND h.kind = 'op'
GROUP BY ALL
"""

_COLLECTIVES = """
SELECT
    k.rank, coalesce(k.receive_op_id, k.gpu_op_id, -1) AS gpu_op,
    CASE WHEN k.receive_op_id IS NULL THEN -1 ELSE k.gpu_op_id END AS send_op,
    coalesce(k.host_op_id, -1) AS host_op,
    coalesce(i.number, -1) AS instance, k.start_ns, k.end_ns, coalesce(k.stream, -1) AS chain,
    coalesce(k.step, -1) AS step, k.call_id AS op_id,
    coalesce(h.start_ns, {none}) AS called, coalesce(h.tid, -1) AS caller,
    coalesce(i.together, {none}) AS together, coalesce(i.soonest, {none}) AS soonest,
    -- a message of gloo may be over before somebody waits for it
    k.start_ns + k.stated_ns AS waited
FROM collectives AS k
LEFT JOIN tw_replay_instances AS i USING (collective_id)
LEFT JOIN host_ops AS h ON h.op_id = k.host_op_id AND k.gpu_op_id IS NULL AND h.kind <> 'annotation'
WHERE k.rank BETWEEN $first AND $last
"""

_INSTANCES = """
CREATE OR REPLACE TEMP TABLE tw_replay_instances AS
SELECT
    row_number() OVER (ORDER BY collective_id) - 1 AS number, collective_id, op,
    coalesce(group_id, -1) AS group_id, coalesce(bytes, -1) AS bytes,
    coalesce(bus_factor, 1) AS factor, coalesce(ranks_expected, ranks_seen) AS size,
    coalesce(complete, FALSE) AND ranks_seen > 1 AS whole,
    coalesce(resolution_ns, 0) AS resolution,
    -- gloo passes parts of a sum around all ranks before the root has them
    coalesce(CASE WHEN op <> 'reduce' OR EXISTS (FROM gpu_ops) THEN root END, -1) AS root,
    op IN ('broadcast', 'scatter') AS from_root,
    op = 'broadcast' AS is_tree,
    op = 'send_recv' AND coalesce(group_id NOT IN (SELECT group_id FROM message_rings), TRUE)
        AS is_staged,
    dense_rank() OVER (ORDER BY dtype) AS elements,
    CASE WHEN whole AND root IS NULL AND op <> 'send_recv' THEN last_start_ns END AS together,
    -- before the quickest of its size could be over it was not
    together + min(first_end_ns - together) OVER (PARTITION BY op, group_id, bytes) AS soonest
FROM collective_instances LEFT JOIN (
    SELECT collective_id, min(dtype) AS dtype FROM collectives GROUP BY collective_id
) USING (collective_id);
"""

# every op, a second node of each part in a collective, what asks for one that the host transfers,
# both ends of calls, the collectives, and where steps begin and end
_MOST_NODES = """
SELECT
    (SELECT count(*) FROM gpu_ops) + (SELECT count(*) FROM device_ops WHERE timeline = 'cpu')
    + (SELECT 3 * count(*) - count(gpu_op_id) FROM collectives)
    + (SELECT count(*) FROM tw_replay_instances)
    + 2 * (SELECT count(*) FROM host_ops JOIN tw_replay_calls USING (name)
        WHERE sort < 5 OR sort = 9)
    + (SELECT count(*) FROM ranks) + (SELECT 2 * count(*) FROM steps)
"""

_RECORDED = """
SELECT
    rank, coalesce((args->>'stream')::BIGINT, -1) AS stream,
    coalesce((args->>'wait_on_stream')::BIGINT, -1) AS source,
    coalesce((args->>'wait_on_cuda_event_record_corr_id')::BIGINT, -1) AS record,
    coalesce((args->>'event')::BIGINT, -1) AS event,
    coalesce((args->>'correlation')::BIGINT, -1) AS correlation,
    CASE
        WHEN category = 'cuda_event' THEN 6
        WHEN name ILIKE 'stream wait%' THEN 5
        WHEN name ILIKE 'event sync%' THEN 3
        WHEN name ILIKE 'stream sync%' THEN 2
        ELSE 1
    END AS sort,
    start_ns
FROM other_events
WHERE rank BETWEEN $first AND $last AND category IN ('cuda_sync', 'cuda_event')
    AND start_ns IS NOT NULL
ORDER BY start_ns
"""

_HELD = f"""
SELECT
    h.rank, CASE WHEN h.tid IS NULL THEN {ANY_THREAD}
        ELSE (hash(nullif(h.pid, -1), nullif(h.tid, -1)) >> 1)::BIGINT END AS chain,
    list_position({list(HOLDS)}, h.sort) - 1 AS sort,
    aligned_ns(h.start_ns, c.offset_ns, c.drift_ppm, c.reference_local_ns) AS start_ns,
    aligned_ns(h.end_ns, c.offset_ns, c.drift_ppm, c.reference_local_ns) AS end_ns
FROM tw_holds AS h
JOIN clock_spans AS c
    ON c.rank = h.rank AND h.start_ns >= c.from_local_ns AND h.start_ns < c.until_local_ns
WHERE h.rank BETWEEN $first AND $last AND h.sort <> 'sync'
ORDER BY h.start_ns
"""

_STEPS = """
SELECT
    rank, step, start_ns, end_ns, coalesce(device_start_ns, {none}) AS device_start_ns,
    coalesce(device_end_ns, {none}) AS device_end_ns,
    -- on the rank's own clock: the common one may have stepped in between
    coalesce(
        device_end_local_ns = lead(device_start_local_ns) OVER (PARTITION BY rank ORDER BY step),
        FALSE
    ) AS followed
FROM steps
WHERE rank BETWEEN $first AND $last ORDER BY step
"""


@dataclass(frozen=True)
class RankRows:
    """What the tables hold of one rank."""

    rank: int
    tick: int
    """Smallest difference of times that its trace can tell, ns."""
    gpu: Columns
    pageable: Columns
    """Ops that copy from or to pageable memory."""
    calls: Columns
    cpu: Columns
    collectives: Columns
    recorded: Columns
    holds: Columns
    """What kept a thread from launching; sort: a place in HOLDS."""
    steps: Columns


@dataclass(frozen=True)
class Names:
    """What numbers in the columns stand for."""

    names: tuple[str, ...]
    classes: tuple[str, ...]
    comm_ops: tuple[str, ...]


_numbered: WeakKeyDictionary[duckdb.DuckDBPyConnection, int] = WeakKeyDictionary()
"""Of each connection the database whose names and instances it has numbered last."""

_IS_THERE = "duckdb_tables() WHERE temporary AND table_name = 'tw_replay_instances'"


class Tables:
    """The tables of a run, asked one rank at a time."""

    def __init__(self, con: duckdb.DuckDBPyConnection) -> None:
        self._con = con
        database, read_only = asked_of(con)
        if not (read_only and _numbered.get(con) == database and self._any(_IS_THERE)):
            for statement in (script(__package__, "holds.sql"), _NAMES, _CALLS, _INSTANCES):
                con.execute(statement)
            _numbered[con] = database
        (self.origin,) = con.execute(_ORIGIN).fetchone() or (0,)
        self.has_gpu = self._any("gpu_ops")
        where = _NSYS_SAYS if self._any("ranks WHERE format = 'nsys'") else "name"
        self._pageable = _PAGEABLE.replace("{where}", where)
        self._has_holds = self._any("tw_holds WHERE sort <> 'sync'")
        self.names = Names(*(
            tuple(text for (text,) in con.execute(f"{of} ORDER BY ALL").fetchall())
            for of in (
                "SELECT name FROM tw_replay_names", "SELECT class FROM tw_replay_classes",
                "SELECT 'send_recv' UNION SELECT op FROM collectives",
            )
        ))  # fmt: skip
        self.instances = self._columns("FROM tw_replay_instances ORDER BY number")

    def members(self) -> dict[int, Ints]:
        """Return the ranks of each group in the order of their places, of a run without a GPU."""
        if self.has_gpu:
            return {}
        rows = self._con.execute("SELECT group_id, ranks FROM groups WHERE len(ranks) = size")
        return {group: np.array(ranks) for group, ranks in rows.fetchall()}

    @cached_property
    def most_nodes(self) -> int:
        """How many nodes there may be at most."""
        (count,) = self._con.execute(_MOST_NODES).fetchone() or (0,)
        return int(count)

    def _any(self, relation: str) -> bool:
        return bool(self._con.execute(f"SELECT 1 FROM {relation} LIMIT 1").fetchall())

    def _columns(self, query: str, **parameters: object) -> Columns:
        found = self._con.execute(query.replace("{none}", str(NONE)), parameters or None)
        columns = {}
        for name, column in found.fetchnumpy().items():
            numbers = np.ma.getdata(column)
            if numbers.dtype.kind in "iub":
                numbers = numbers.astype(np.int64, copy=False)
            if name in TIMES:
                numbers = np.where(numbers > NONE, numbers - self.origin, NONE)
            columns[name] = numbers
        return columns

    def ranks(self) -> Iterator[RankRows]:
        """Yield what there is of each rank, by rank; none of ranks without a timeline.

        Several are read at once (`together`).
        """
        # a database that lacks one of the relations is refused, whatever it holds
        for part in self.parts():
            rows_of = self.read(part[0][0], part[-1][0]) if part else self.read(-1, -1)
            for rank, tick in part:
                rows = rows_of(rank, tick)
                if len(rows.gpu["op_id"]) or len(rows.cpu["op_id"]):
                    yield rows

    def parts(self) -> list[list[tuple[int, int]]]:
        """Return the ranks and the ticks of their clocks, those together that are read at once."""
        ranks = self._con.execute(
            "SELECT rank, coalesce(tick_ns, 1) FROM ranks ORDER BY rank"
        ).fetchall()
        return together(ranks, self.most_nodes)

    def read(
        self, first: int, last: int, only: Collection[str] = ()
    ) -> Callable[[int, int], RankRows]:
        """Read the ranks from the first to the last, `only` some tables of them if any are named.

        Return a function that has the rows of one of these ranks, given the tick of its clock.
        """
        has_gpu = self.has_gpu
        wanted = {
            "gpu": (_GPU_OPS, has_gpu), "pageable": (self._pageable, has_gpu),
            "calls": (_HOST_CALLS, has_gpu), "cpu": (_CPU_OPS, not has_gpu),
            "collectives": (_COLLECTIVES, True), "recorded": (_RECORDED, has_gpu),
            "holds": (_HELD, self._has_holds), "steps": (_STEPS, True),
        }  # fmt: skip
        read = {}
        for name, (query, is_wanted) in wanted.items():
            rows = "" if is_wanted and (not only or name in only) else "LIMIT 0"
            found = self._columns(f"{query} {rows}", first=first, last=last)
            read[name] = sorted_by(found, "rank")
        return lambda rank, tick: RankRows(
            rank, tick, **{name: of_rank(columns, rank) for name, columns in read.items()}
        )


def together(ranks: list[T], nodes: int) -> list[list[T]]:
    """Divide ranks that have so many nodes into those that are read at once: of a small run all,
    as each query goes through what ranks have that lie beside those that it asks for.
    """
    most = max(FEW_NODES * len(ranks) // max(nodes, 1), 1)
    return [ranks[at : at + most] for at in range(0, len(ranks), most)] or [ranks]


def of_rank(columns: Columns, rank: int) -> Columns:
    """Return the rows of a rank of columns that are sorted by rank."""
    begin, end = np.searchsorted(columns["rank"], [rank, rank + 1]).tolist()
    return where(columns, slice(begin, end))


def where(columns: Columns, which: Ints | Flags | slice) -> Columns:
    """Return some rows of columns."""
    return {name: column[which] for name, column in columns.items()}


def sorted_by(columns: Columns, *keys: str) -> Columns:
    """Return columns in the order of `keys`, the first of which counts most."""
    order = np.lexsort([columns[key] for key in reversed(keys)])
    if np.all(order[1:] > order[:-1]):
        return columns
    return where(columns, order)
