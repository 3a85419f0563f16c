"""When a rank's communication ran and no compute did, and what kept compute away.

All times of a rank are on its own clock. At every moment one call is meant: of those under way the
one that began first. What follows it, the next compute of the rank, tells why nothing ran beside:
it was not launched yet, it was behind the call on the same stream, or it waited for the call. Which
stream waits for which is that of replay, where it is shown.
"""

from __future__ import annotations

import duckdb
import numpy as np
import numpy.typing as npt

from traceweave.arrays import Flags, Ints
from traceweave.interrupts import go_on
from traceweave.replay.host import covered
from traceweave.replay.lookups import leads, least_behind, positions
from traceweave.replay.rank_graph import Ordered
from traceweave.replay.rows import (
    CATEGORY,
    COMMUNICATES,
    COMPUTES,
    COPIES,
    NONE,
    Call,
    RankRows,
    Tables,
    of_rank,
    sorted_by,
    where,
)
from traceweave.replay.streams import NO_WAITS, PROMPT_NS
from traceweave.store.rows import Columns, registered

FAR = np.iinfo(np.int64).max

# on the host a call may have no operation: it has a number of its own
_HOST_TIMELINE = f"""
SELECT
    rank, op_id, coalesce(stream, -1) AS chain, start_local_ns AS start_ns,
    start_local_ns + duration_ns AS end_ns, start_local_ns + duration_ns AS own_end_ns,
    $none AS launched_ns, -1 AS thread, {CATEGORY.format("device_ops")} AS category
FROM device_ops
WHERE rank BETWEEN $first AND $last AND category <> 'communication'
UNION ALL
SELECT
    rank, -1 - call_id, -1, start_local_ns, start_local_ns + duration_ns,
    start_local_ns + duration_ns, $none, -1, {COMMUNICATES}
FROM collectives
WHERE rank BETWEEN $first AND $last
ORDER BY rank, start_ns, op_id
"""

_COLUMNS = (
    "rank INTEGER, op_id BIGINT, start_ns BIGINT, end_ns BIGINT, reason VARCHAR, other_ns BIGINT,"
    " next_op_id BIGINT, held_by VARCHAR, late_ns BIGINT, after_op_id BIGINT"
)


_TABLES = {"tw_exposed_pieces": COMMUNICATES, "tw_copy_pieces": COPIES}
_USES = "op_id BIGINT, used_by BIGINT"


def create_exposed_tables(con: duckdb.DuckDBPyConnection) -> None:
    """Make tw_exposed_pieces: one row per stretch of a call in which no compute ran, with the
    reason: 'not_launched' (for other_ns of it the host waited in a call), 'same_stream',
    'needs_it', 'kernel_delay' (at most PROMPT_NS) or 'unknown' (for other_ns of it, copies were on
    the stream of the compute that follows, next_op_id), or 'lost': something was launched before
    that compute of which no record is there.

    Beside it, of the call, what it had to wait for before it began: 'compute' or 'stream' (what was
    before it on its stream, after_op_id), 'input' or 'launch'; and how much earlier it might have.
    It is empty for a run without a timeline. And tw_copy_pieces: the same of copies, where neither
    compute nor communication ran; and tw_first_uses: which op of another stream was the first that
    waited for each, or for what was behind it on its stream.
    """
    con.execute(f"CREATE OR REPLACE TEMP TABLE tw_first_uses ({_USES})")
    for name in _TABLES:
        con.execute(f"CREATE OR REPLACE TEMP TABLE {name} ({_COLUMNS})")
    tables = Tables(con)
    # in a batch of ranks the others have no ops
    present = {rank for (rank,) in con.execute("SELECT DISTINCT rank FROM device_ops").fetchall()}
    for part in tables.parts():
        if ranks := [one for one in part if one[0] in present]:
            _fill(con, tables, ranks)


def _fill(con: duckdb.DuckDBPyConnection, tables: Tables, ranks: list[tuple[int, int]]) -> None:
    """Add the pieces of some ranks to the tables."""
    those = {"first": ranks[0][0], "last": ranks[-1][0]}
    read = tables.read(**those, only=("gpu", "pageable", "calls", "recorded", "steps"))
    host = None if tables.has_gpu else _on_host(con, those)
    for rank, tick in ranks:
        go_on()
        rows = read(rank, tick)
        ops = of_rank(host, rank) if host else _timeline(rows.gpu)
        there = {name: of for name, of in _TABLES.items() if np.any(ops["category"] == of)}
        if not there:
            continue
        edges, shown = _edges(rows, ops)
        with registered(con, _first_uses(ops, edges)) as listed:
            con.execute(f"INSERT INTO tw_first_uses BY NAME FROM {listed}")
        edges, waits, lost = edges[:, shown], _waiting(rows.calls), _lost(rows)
        for name, category in there.items():
            found = _pieces(ops, edges, waits, lost, category)
            found["rank"] = np.full(len(found["op_id"]), rank)
            with registered(con, found) as listed:
                con.execute(f"INSERT INTO {name} BY NAME FROM {listed}")


def _on_host(con: duckdb.DuckDBPyConnection, those: dict[str, int]) -> Columns:
    """Return the operations of some ranks without a GPU."""
    found = con.execute(_HOST_TIMELINE, those | {"none": NONE}).fetchnumpy()
    return {name: np.ma.getdata(column) for name, column in found.items()}


def _timeline(gpu: Columns) -> Columns:
    """Return the ops of a rank's devices by their starts on its own clock."""
    names = ("op_id", "chain", "category", "thread", "launched_ns", "own_end_ns")
    own = {"start_ns": gpu["own_start_ns"], "end_ns": gpu["until_ns"]}
    return sorted_by({name: gpu[name] for name in names} | own, "start_ns", "op_id")


def _waiting(calls: Columns) -> Columns:
    """Return the calls in which a thread waits for the device, on its rank's own clock."""
    names = {"chain": "chain", "start_ns": "own_start_ns", "end_ns": "own_end_ns"}
    waits = (calls["sort"] >= Call.DEVICE) & (calls["sort"] < Call.WAIT)
    return {name: calls[column][waits] for name, column in names.items()}


def _lost(rows: RankRows) -> Ints:
    """Return when the rank launched what has no record, in order, on its own clock."""
    calls, gpu = rows.calls, rows.gpu
    lost = (calls["sort"] == Call.LAUNCH) & (calls["correlation"] >= 0)
    lost &= ~np.isin(calls["op_id"], gpu["launch"])
    lost &= ~np.isin(calls["correlation"], gpu["correlation"])
    return np.sort(calls["own_start_ns"][lost])


def _edges(rows: RankRows, ops: Columns) -> tuple[Ints, Flags]:
    """Return which op waits for which of another stream, as replay has it, by their places; and
    whether that is shown. Times alone show it of what was launched long before: to begin after its
    launch takes as long."""
    if not len(rows.gpu["op_id"]):
        return NO_WAITS, np.empty(0, bool)
    of = Ordered(rows)
    source, target = edges = positions(ops["op_id"], of.gpu["op_id"])[of.waits]
    ended, begun, launched = ops["end_ns"][source], ops["start_ns"][target], ops["launched_ns"]
    shown = (begun - ended <= PROMPT_NS) & (launched[target] <= ended - PROMPT_NS)
    shown &= launched[target] > NONE
    return edges, of.is_told | shown


def _first_uses(ops: Columns, edges: Ints) -> Columns:
    """Return the first op that waited for each, or for what was behind it on its stream."""
    first = np.full(len(ops["op_id"]), len(ops["op_id"]))
    np.minimum.at(first, *edges)
    order = np.argsort(ops["chain"], kind="stable")
    first[order] = least_behind(first[order], ops["chain"][order])
    used = np.flatnonzero(first < len(first))
    return {"op_id": ops["op_id"][used], "used_by": ops["op_id"][first[used]]}


def _pieces(
    ops: Columns, edges: Ints, waiting: Columns, lost: Ints, category: int
) -> dict[str, Ints]:
    """Return the stretches of calls, or copies, in which nothing that goes before them ran, cut
    where what follows is launched."""
    before = _before(ops)
    # when the stream of each was done with what was before it
    ops = {**ops, "free_ns": np.where(before >= 0, ops["own_end_ns"][before], NONE)}
    call, start, end, following = _stretches(ops, category)
    launched, same, needs = _following(ops, edges, call, following, category)
    known = launched > NONE
    # what waits for the call would not have run beside it, had it been launched before
    cut = np.where(known & ~needs, np.clip(launched, start, end), start)
    # until it is free to start, what is ahead of it on its stream is held up, or runs
    starting = _starting(ops)
    ready = np.where(known & ~same & ~needs, np.clip(starting[following], cut, end), end)
    reason = np.select([same, needs], ["same_stream", "needs_it"], "unknown").astype(object)
    # what runs within the call would hide no more of it if it began sooner: what counts is what
    # waits for its end
    waits, since = _ends(ops, edges, category)
    pending = np.where(start < cut, np.clip(since[call], start, cut), cut)
    blocked = covered(waiting, ops["thread"][following], start, pending)
    begun = {"chain": ops["chain"], "start_ns": starting, "end_ns": ops["end_ns"]}
    copies = where(begun, (ops["category"] == COPIES) & (ops["chain"] >= 0))
    chain = np.where(known & ~same & ~needs, ops["chain"][following], -1)
    copied = covered(copies, chain, cut, ready)
    late = np.full(len(call), "not_launched", dtype=object)
    parts = (
        (start, pending, late, blocked, following),
        (pending, cut, waits[call], np.zeros_like(blocked), _next(ops, ops["end_ns"][call])),
        (cut, ready, reason, copied, following),
        (ready, end, np.full_like(late, "kernel_delay"), np.zeros_like(blocked), following),
    )
    begin, until, why, other, after = (np.concatenate(part) for part in zip(*parts, strict=True))
    unseen = np.tile(_lacks_records(ops, following, lost), len(parts))
    why[unseen], other[unseen] = "lost", 0
    there = until > begin
    of = np.tile(call, len(parts))[there]
    return {
        "op_id": ops["op_id"][of],
        "start_ns": begin[there],
        "end_ns": until[there],
        "reason": why[there],
        "other_ns": other[there],
        "next_op_id": np.ma.masked_array(ops["op_id"][after], after < 0)[there],
        **_held(ops, edges, before, of),
    }


def _lacks_records(ops: Columns, following: Ints, lost: Ints) -> Flags:
    """Return whether something that has no record was launched between what follows each stretch
    and the compute before that: it may have run there."""
    compute = np.flatnonzero(ops["category"] == COMPUTES)
    latest = np.maximum.accumulate(ops["launched_ns"][compute])
    place = np.searchsorted(compute, following, side="left")
    since = np.append(-FAR, latest)[np.where(following >= 0, place, len(compute))]
    until = np.where(following >= 0, ops["launched_ns"][following], FAR)
    found: Flags = np.searchsorted(lost, until) > np.searchsorted(lost, since)
    return found


def _following(
    ops: Columns, edges: Ints, call: Ints, following: Ints, category: int
) -> tuple[Ints, Flags, Flags]:
    """Return when the compute that follows each call was launched (NONE: not known), whether it
    shares the stream, and whether it waits."""
    launched = np.where(following >= 0, ops["launched_ns"][following], NONE)
    known = launched > NONE
    same = known & (ops["chain"][following] == ops["chain"][call])
    needs = known & ~same & _is_followed(ops, edges, call, following, category)
    return launched, same, needs


def _ends(ops: Columns, edges: Ints, category: int) -> tuple[npt.NDArray[np.object_], Ints]:
    """Return by op, where it is a call whose end compute waits for: why, and since when; else FAR.

    Compute on its stream waits since it was launched, what needs the call would have anyway.
    """
    call = np.flatnonzero(ops["category"] == category)
    following = _next(ops, ops["end_ns"][call])
    launched, same, needs = _following(ops, edges, call, following, category)
    why, since = np.full(len(ops["op_id"]), "", dtype=object), np.full(len(ops["op_id"]), FAR)
    why[call] = np.where(same, "same_stream", "needs_it")
    since[call] = np.select([same, needs], [launched, -FAR], FAR)
    return why, since


def _next(ops: Columns, at: Ints) -> Ints:
    """Return the first compute that begins at each moment or later, -1: none."""
    compute = np.flatnonzero(ops["category"] == COMPUTES)
    return np.append(compute, -1)[np.searchsorted(ops["start_ns"][compute], at, side="left")]


def _before(ops: Columns) -> Ints:
    """Return the op before each on its stream, -1: none."""
    order = np.lexsort((ops["start_ns"], ops["chain"]))
    found = np.full(len(order), -1)
    found[order] = np.where(leads(ops["chain"][order]), -1, np.roll(order, 1))
    return found


def _starting(ops: Columns) -> Ints:
    """Return from when each op is being started: since it is free to, if that takes no longer."""
    could = np.maximum(ops["free_ns"], ops["launched_ns"])
    prompt = ops["start_ns"] - could <= PROMPT_NS
    return np.where(prompt, np.minimum(could, ops["start_ns"]), ops["start_ns"])


def _stretches(ops: Columns, category: int) -> tuple[Ints, Ints, Ints, Ints]:
    """Return calls, start, end, and the next compute (-1: none) of all stretches of a category in
    which none before it ran; `ops` are sorted by start."""
    first = np.flatnonzero(ops["category"] < category)
    begins = ops["start_ns"][first]
    ends = np.where(ops["category"] == COMPUTES, ops["own_end_ns"], ops["end_ns"])
    until = np.maximum.accumulate(ends[first])
    free_from, free_until = np.append(-FAR, until), np.append(begins, FAR)
    gap = free_from < free_until
    free_from, free_until = free_from[gap], free_until[gap]
    next_op = _next(ops, free_until)
    calls = np.flatnonzero(ops["category"] == category)
    covered = np.append(-FAR, np.maximum.accumulate(ops["end_ns"][calls])[:-1])
    since, end = np.maximum(ops["start_ns"][calls], covered), ops["end_ns"][calls]
    calls, since, end = (column[since < end] for column in (calls, since, end))
    first = np.searchsorted(free_until, since, side="right")
    count = np.maximum(np.searchsorted(free_from, end, side="left") - first, 0)
    row = np.repeat(np.arange(len(calls)), count)
    at = np.arange(len(row)) - np.repeat(np.cumsum(count) - count, count) + first[row]
    return (
        calls[row],
        np.maximum(since[row], free_from[at]),
        np.minimum(end[row], free_until[at]),
        next_op[at],
    )


def _is_followed(ops: Columns, edges: Ints, call: Ints, following: Ints, category: int) -> Flags:
    """Return whether what follows, or what is ahead of it on its stream, is known to wait for the
    call or one behind that."""
    chain, found = ops["chain"], np.zeros(len(call), dtype=bool)
    for stream in np.unique(chain[call]).tolist():
        calls = (ops["category"] == category) & (chain == stream)
        awaited = np.full(len(chain), NONE)
        source, target = edges[:, calls[edges[0]]]
        np.maximum.at(awaited, target, ops["end_ns"][source])
        asked = chain[call] == stream
        for other in np.unique(chain[following[asked]]).tolist():
            # what waits holds up all that is behind it on its stream
            awaited[chain == other] = np.maximum.accumulate(awaited[chain == other])
        found[asked] = awaited[following[asked]] >= ops["end_ns"][call[asked]]
    return found


def _held(ops: Columns, edges: Ints, before: Ints, of: Ints) -> dict[str, Ints]:
    """Return what calls, `of` the ops, had to wait for before they began, and how much earlier they
    might have.

    It is the latest of: the end of what was before it on its stream, of what its stream had to wait
    for, and its launch; none where the call began more than PROMPT_NS later.
    """
    ready, source = np.full(len(before), NONE), np.full(len(before), -1)
    ended, held_up = edges[:, np.argsort(ops["end_ns"][edges[0]], kind="stable")]
    # of several the last one stays
    ready[held_up], source[held_up] = ops["end_ns"][ended], ended
    ready, source, before = ready[of], source[of], before[of]
    start, launched, queued = (ops[name][of] for name in ("start_ns", "launched_ns", "free_ns"))
    latest = np.maximum(np.maximum(queued, ready), launched)
    held = np.select(
        [(launched == NONE) | (start - latest > PROMPT_NS), latest == ready, latest == queued],
        ["", "input", "stream"],
        "launch",
    )
    after = np.where(held == "input", source, np.where(held == "stream", before, -1))
    behind_compute = (held == "stream") & (ops["category"][before] == COMPUTES)
    # without a known input it might have had to wait for one; on the stream of compute it has none
    might = np.where(held == "stream", np.maximum(launched, ready), np.maximum(queued, ready))
    is_known = behind_compute | ((ready > NONE) & np.isin(held, ("stream", "launch")))
    late = np.where(is_known, np.maximum(start - might, 0), 0)
    return {
        "held_by": np.where(behind_compute, "compute", held).astype(object),
        "late_ns": late,
        "after_op_id": np.ma.masked_array(ops["op_id"][after], after < 0),
    }
