-- relation: collectives | one row per rank and collective or point-to-point operation
-- column: rank INTEGER | global rank
-- column: collective_id BIGINT | the same value on all ranks of one instance; NULL if unmatched
-- column: group_id INTEGER | process group
-- column: op VARCHAR | all_reduce, all_gather, reduce_scatter, all_to_all, dispatch, combine, broadcast, reduce, gather, scatter, send, recv, barrier or unknown
-- column: seq BIGINT | sequence number in the group, from the trace; NULL of replays of a CUDA graph
-- column: dtype VARCHAR | element type as the trace names it
-- column: bytes BIGINT | size S as nccl-tests defines it (the whole buffer); NULL if the trace does not say
-- column: start_ns BIGINT | start, common clock
-- column: end_ns BIGINT | end, common clock
-- column: duration_ns BIGINT | length as the profiler measured it, waiting included; of a send or recv of gloo from its call, and, if matched, until it was over on either side, not until somebody waited for it
-- column: start_local_ns BIGINT | start, rank's own clock
-- column: stream BIGINT | stream or host thread it ran on
-- column: gpu_op_id BIGINT | the kernel that executed it; NULL for a host backend such as gloo
-- column: receive_op_id BIGINT | of an operation that is two kernels, a send half and a receive half (DeepEP with receive hooks), the second: the operation lasts from the start of gpu_op_id to the end of this, whatever runs in between; NULL of others
-- column: host_op_id BIGINT | the host operation that issued it; where none names it, the call that launched it
-- column: step BIGINT | step in which it was issued
-- column: match VARCHAR | how it was matched over ranks: 'seq', 'order', 'sequence-aligned' or 'unmatched'
-- column: call_id BIGINT | unique per row
-- column: peer INTEGER | the other rank of a send or recv
-- column: root INTEGER | of a broadcast, reduce, gather or scatter: the rank that all receive from, or send to, as the trace says; NULL if it does not, or not all members of the group are known
-- column: evidence VARCHAR | evidence that this is a collective: 'metadata', 'capture' (annotation of a CUDA graph), 'nvtx', 'host op' or 'name'
-- column: inferred VARCHAR | which columns rest on other files or ranks, and how: 'group, seq by flight recorder', 'peer by communicator'; NULL: the rank's own trace states all. group_id and collective_id are always of all ranks
-- column: stated_ns BIGINT | the length that the rank's own trace states: duration_ns, but of a send or recv of gloo until somebody had waited for it
CREATE VIEW collectives AS
SELECT
    k.rank, m.collective_id, m.group_id,
    coalesce(k.kind, k.op) AS op,
    k.seq, k.dtype, k.bytes,
    aligned_ns(k.start_local_ns, c.offset_ns, c.drift_ppm, c.reference_local_ns) AS start_ns,
    aligned_ns(k.start_local_ns + k.duration_ns, c.offset_ns, c.drift_ppm, c.reference_local_ns) AS end_ns,
    k.duration_ns, k.start_local_ns, k.stream, k.gpu_op_id, k.receive_op_id, k.host_op_id, k.step,
    coalesce(m.match, 'unmatched') AS match,
    k.call_id, k.peer, CASE WHEN len(g.ranks) = g.size THEN g.ranks[k.root_place + 1] END AS root, k.evidence, k.inferred, k.stated_ns
FROM base.known_calls AS k
JOIN clock_spans AS c
    ON k.rank = c.rank AND k.start_local_ns >= c.from_local_ns AND k.start_local_ns < c.until_local_ns
LEFT JOIN base.matches AS m USING (call_id)
LEFT JOIN groups AS g ON g.group_id = m.group_id;

-- Internal: busbw / algbw of an operation on this many ranks, as nccl-tests defines it (PERFORMANCE.md of NVIDIA/nccl-tests);
-- NULL for operations that it does not define or if ranks is unknown.
CREATE MACRO base.bus_factor(op, ranks) AS
    CASE
        WHEN op = 'all_reduce' THEN 2 * (ranks - 1) / ranks
        WHEN op IN ('all_gather', 'reduce_scatter', 'all_to_all', 'gather', 'scatter') THEN (ranks - 1) / ranks
        WHEN op IN ('broadcast', 'reduce', 'send_recv') AND ranks IS NOT NULL THEN CAST(1 AS DOUBLE)
    END;

-- relation: collective_instances | one row per matched collective operation of the whole run
-- column: collective_id BIGINT | unique per instance
-- column: op VARCHAR | which operation ('send_recv' for a send with its recv)
-- column: group_id INTEGER | process group
-- column: ranks_seen BIGINT | ranks that recorded it
-- column: ranks_expected INTEGER | members of the group; NULL if unknown
-- column: bytes BIGINT | size S as nccl-tests defines it
-- column: first_start_ns BIGINT | first rank's start, common clock
-- column: last_start_ns BIGINT | last rank's start
-- column: first_end_ns BIGINT | first rank's end
-- column: last_end_ns BIGINT | last rank's end
-- column: arrival_skew_ns BIGINT | last_start_ns - first_start_ns
-- column: transfer_ns BIGINT | last_end_ns - last_start_ns, though who comes after last_rank may find others done; where complete is not true, waiting for a rank that was not recorded may be part of it; of a buffered message only what the receiver still had to do
-- column: wait_total_ns BIGINT | sum over the ranks of wait_ns of collective_waits, were it not held to durations
-- column: last_rank INTEGER | the rank that arrived last; where root is known, of a broadcast or scatter the root: of no other is known that anybody waits for it
-- column: algbw_gbps DOUBLE | bytes / transfer_ns, decimal GB/s; a lower bound where complete is not true; NULL where is_buffered
-- column: busbw_gbps DOUBLE | algbw_gbps times bus_factor
-- column: complete BOOLEAN | every expected rank was seen; NULL if the size of the group is unknown
-- column: step BIGINT | step in which most ranks issued it
-- column: transfer_min_ns BIGINT | shortest duration over the ranks: the transfer time without any clock; NULL where root is known, as some have only to hand their part over
-- column: below_resolution BOOLEAN | the arrival skew, first to last, is below the clock resolution
-- column: resolution_ns BIGINT | clock resolution: the largest residual_p95_ns of the ranks that took part, and no less than the tick_ns of their traces; NULL if one of them has no residual
-- column: last_delay_ns BIGINT | from the start of the last but one to that of last_rank; where root is known, of a broadcast or scatter from that of the last of waiting_ranks; 0 if there are none; NULL if one rank was seen
-- column: last_is_known BOOLEAN | the clocks resolve which rank came last: last_delay_ns is not below resolution_ns, and not 0; false where is_buffered: nobody waited for it
-- column: bus_factor DOUBLE | busbw / algbw of the operation as nccl-tests defines it; NULL where it does not, or the size of the group is unknown
-- column: root INTEGER | the rank that sends a broadcast or scatter, or receives a reduce or gather; NULL of others, where a trace does not say it, they do not agree, or it was not recorded
-- column: awaited_ns BIGINT | start of last_rank, common clock
-- column: waiting_ranks BIGINT | ranks that waited for last_rank: all others that were seen; where root is known, of a broadcast or scatter those that came before the root, of a reduce or gather the root if it came before the last; 0 where is_buffered
-- column: is_buffered BOOLEAN | a message whose send was over before its receive began, by more than resolution_ns (by anything, where that is NULL): the library had room for it, so that neither side waited for the other
CREATE VIEW collective_instances AS
WITH per_instance AS (
    SELECT
        k.collective_id,
        CASE WHEN min(k.op) = 'recv' AND max(k.op) = 'send' THEN 'send_recv' ELSE min(k.op) END AS op,
        min(k.group_id) AS group_id,
        count(DISTINCT k.rank) AS ranks_seen,
        max(k.bytes) AS bytes,
        min(k.start_ns) AS first_start_ns,
        max(k.start_ns) AS last_start_ns,
        max(k.start_ns, 2)[2] AS last_but_one_ns,
        min(k.end_ns) AS first_end_ns,
        max(k.end_ns) AS last_end_ns,
        max(k.end_ns) FILTER (k.op = 'send') AS sent_ns,
        min(k.start_ns) FILTER (k.op = 'recv') AS received_from_ns,
        CAST(sum(k.start_ns - t.origin_ns) AS BIGINT) AS starts_sum_ns,
        any_value(t.origin_ns) AS origin_ns,
        arg_max(k.rank, (k.start_ns, -k.rank)) AS last_rank,
        mode(k.step) AS step,
        CASE WHEN count(k.root) = count(*) AND min(k.root) = max(k.root) AND bool_or(k.rank = k.root) THEN min(k.root) END AS root,
        max(k.start_ns) FILTER (k.rank = k.root) AS root_start_ns,
        list(k.start_ns) FILTER (k.root IS NOT NULL) AS starts,
        min(k.duration_ns) AS transfer_min_ns,
        CASE WHEN count(r.residual_p95_ns) = count(*) THEN max(greatest(r.residual_p95_ns, r.tick_ns)) END AS resolution_ns
    FROM collectives AS k
    CROSS JOIN (SELECT min(first_local_ns) AS origin_ns FROM base.rank_sources) AS t
    LEFT JOIN (
        SELECT rank, c.residual_p95_ns, t.tick_ns
        FROM (SELECT rank, max(residual_p95_ns) AS residual_p95_ns FROM clocks GROUP BY rank) AS c
        LEFT JOIN (SELECT rank, nullif(max(tick_ns), 1) AS tick_ns FROM base.rank_sources GROUP BY rank) AS t USING (rank)
    ) AS r ON r.rank = k.rank
    WHERE k.collective_id IS NOT NULL
    GROUP BY k.collective_id
),
-- of a broadcast or scatter whoever was there before the root waits for it; of a reduce or gather the root does, for the last
roles AS (
    SELECT
        *,
        CASE
            WHEN root IS NULL THEN NULL
            WHEN op IN ('broadcast', 'scatter') THEN list_filter(starts, lambda start_ns: start_ns < root_start_ns)
            ELSE list_filter([root_start_ns], lambda start_ns: start_ns < last_start_ns)
        END AS waiting,
        root IS NOT NULL AND op IN ('broadcast', 'scatter') AS root_is_awaited
    FROM per_instance
),
timed AS (
    SELECT
        i.* REPLACE (CASE WHEN root_is_awaited THEN root ELSE last_rank END AS last_rank),
        CASE WHEN i.op = 'send_recv' THEN 2 ELSE g.size END AS ranks_expected,
        CASE WHEN root_is_awaited THEN root_start_ns ELSE last_start_ns END AS awaited_ns,
        last_start_ns - first_start_ns AS arrival_skew_ns,
        last_end_ns - last_start_ns AS transfer_ns,
        CASE
            WHEN len(waiting) = 0 THEN 0
            WHEN root_is_awaited THEN root_start_ns - list_max(waiting)
            ELSE last_start_ns - last_but_one_ns
        END AS last_delay_ns,
        coalesce(op = 'send_recv' AND sent_ns < received_from_ns - coalesce(resolution_ns, 0), FALSE) AS is_buffered,
        CASE WHEN NOT is_buffered THEN bytes / nullif(greatest(transfer_ns, 0), 0) END AS algbw_gbps
    FROM roles AS i LEFT JOIN groups AS g USING (group_id)
)
SELECT
    collective_id, op, group_id, ranks_seen, ranks_expected, bytes, first_start_ns, last_start_ns, first_end_ns,
    last_end_ns, arrival_skew_ns, transfer_ns,
    CASE
        WHEN is_buffered THEN 0
        WHEN root IS NULL THEN ranks_seen * (last_start_ns - origin_ns) - starts_sum_ns
        ELSE len(waiting) * (awaited_ns - origin_ns) - coalesce(CAST(list_sum(list_transform(waiting, lambda start_ns: start_ns - origin_ns)) AS BIGINT), 0)
    END AS wait_total_ns,
    last_rank,
    algbw_gbps,
    algbw_gbps * base.bus_factor(op, ranks_expected) AS busbw_gbps,
    ranks_seen = ranks_expected AS complete,
    step,
    CASE WHEN root IS NULL THEN transfer_min_ns END AS transfer_min_ns,
    coalesce(arrival_skew_ns < resolution_ns, TRUE) AS below_resolution,
    resolution_ns,
    last_delay_ns,
    coalesce(last_delay_ns > 0 AND last_delay_ns >= resolution_ns AND NOT is_buffered, FALSE) AS last_is_known,
    base.bus_factor(op, ranks_expected) AS bus_factor,
    root, awaited_ns,
    CASE WHEN is_buffered THEN 0 ELSE coalesce(len(waiting), ranks_seen - 1) END AS waiting_ranks,
    is_buffered
FROM timed;

-- relation: collective_waits | one row per rank and matched collective: how long it waited, and for which rank
-- column: collective_id BIGINT | the instance
-- column: rank INTEGER | global rank
-- column: op VARCHAR | which operation
-- column: group_id INTEGER | process group
-- column: step BIGINT | step in which this rank issued it
-- column: start_ns BIGINT | start, common clock
-- column: end_ns BIGINT | end, common clock
-- column: duration_ns BIGINT | length as the profiler measured it
-- column: wait_ns BIGINT | from this rank's start to the start of last_rank, common clock, and no longer than the operation; 0 of a message that was buffered (is_buffered of collective_instances), and of a rank that waits for nobody: where root is known, the root of a broadcast or scatter, and all others of a reduce or gather
-- column: wait_free_ns BIGINT | duration_ns minus the shortest duration over the ranks: the wait without any clock; NULL where root is known
-- column: is_last BOOLEAN | this rank is last_rank
-- column: last_rank INTEGER | as in collective_instances
-- column: start_local_ns BIGINT | start, rank's own clock
CREATE VIEW collective_waits AS
SELECT
    k.collective_id, k.rank, i.op, i.group_id, k.step, k.start_ns, k.end_ns, k.duration_ns,
    CASE WHEN i.is_buffered OR NOT awaits_others(i.op, i.root, k.rank) THEN 0 ELSE least(greatest(i.awaited_ns - k.start_ns, 0), k.duration_ns) END AS wait_ns,
    k.duration_ns - i.transfer_min_ns AS wait_free_ns,
    k.rank = i.last_rank AS is_last,
    i.last_rank,
    k.start_local_ns
FROM collectives AS k JOIN collective_instances AS i USING (collective_id);
