-- analysis: tails | how long collectives take at the median and in the tail, split into waiting and transfer
-- answers: Which collectives have long tails, is the time waiting or transfer, and which rank arrives last?
-- topic: communication
-- grain: one row per operation, process group and power-of-two size bucket
-- needs: collectives
-- page: table-tails
-- column: op VARCHAR | which operation; 'send_recv' for a send matched with its recv
-- column: group_id INTEGER | process group; NULL if the operation could not be assigned to one
-- column: bytes_from BIGINT | lower end of the size bucket; NULL if the size is unknown
-- column: bytes_to BIGINT | upper end of the size bucket, not part of it
-- column: instances BIGINT | matched operations, each counted once for all its ranks
-- column: duration_p50_ns BIGINT | median over ranks and instances of the duration, waiting included
-- column: duration_p95_ns BIGINT | 95th percentile of the same
-- column: duration_p99_ns BIGINT | 99th percentile of the same
-- column: duration_max_ns BIGINT | longest
-- column: wait_p50_ns BIGINT | median of wait_ns of collective_waits, over instances and the ranks that wait in them; NULL if no other rank was seen
-- column: wait_p95_ns BIGINT | 95th percentile of the same
-- column: wait_p99_ns BIGINT | 99th percentile of the same
-- column: wait_max_ns BIGINT | longest
-- column: transfer_p50_ns BIGINT | median over instances of the time from the last start to the last end; NULL if no other rank was seen, or all were buffered
-- column: transfer_p95_ns BIGINT | 95th percentile of the same
-- column: transfer_p99_ns BIGINT | 99th percentile of the same
-- column: transfer_max_ns BIGINT | longest
-- column: tail_ratio DOUBLE | duration_p99_ns / duration_p50_ns; NULL if the median is 0
-- column: last_rank INTEGER | the rank that arrived last most often, the lowest of several, where the clocks resolve it; NULL if they never do
-- column: last_rank_share DOUBLE | instances in which it was last / instances in which the clocks resolve which rank was, 0 to 1
-- column: transfer_min_p50_ns BIGINT | median over instances of the shortest duration over the ranks: the transfer time without any clock; NULL where a root is known
-- column: wait_free_p99_ns BIGINT | 99th percentile over ranks and instances of the duration minus that shortest one: the wait without any clock
-- column: below_resolution_share DOUBLE | instances whose arrival skew, first to last, is below the clock resolution / instances seen on two ranks or more, 0 to 1
-- column: calls BIGINT | operations counted once per rank, which the durations are of
-- column: unmatched_calls BIGINT | those of them without a partner on other ranks; they have a duration, but no wait and no transfer
-- column: ranks_seen BIGINT | ranks that took part in any of them
-- column: slowest_rank INTEGER | the rank of the longest duration
-- column: slowest_step BIGINT | its step; NULL outside any step
-- column: algorithm VARCHAR | NCCL's algorithm for all sizes of the row, by its logs (nccl_choices); NULL if not known of all, and if they ran several: see note
-- column: protocol VARCHAR | NCCL's protocol; the same holds, and some algorithms have none
-- column: tail_instances BIGINT | of 5 operations or more, each by the rank on which it took longest, those that took more than twice the median: the tail; NULL: none
-- column: tail_ns BIGINT | what they take beyond the median in all, of which tail_is has most
-- column: tail_is VARCHAR | what the tail rests on: 'late arrival' (waiting), 'other collectives' or 'copies' (the transfer runs beside them, unlike the rest of its kind), 'transfer' (neither: a slow link or way, load)
-- column: tail_is_share DOUBLE | share of tail_ns that rests on that, 0 to 1
-- column: tail_rank INTEGER | of 'late arrival', the rank that most was waited for, where the clocks tell
-- column: tail_rank_cause VARCHAR | what that rank did longer in the step with most of it, as in stragglers
-- column: tail_steps BIGINT[] | the steps of the tail
-- column: tail_recurs BOOLEAN | whether it is in several steps, or several times without steps
-- column: note VARCHAR | why no tail is told, what a transfer may include, and the algorithms where NCCL ran several; NULL if there is nothing to say
-- column: link VARCHAR | where the group's bytes go (groups): 'intra-node', 'inter-node' or 'mixed'; NULL if unknown
-- main: op, group_id, link, bytes_from, instances, duration_p50_ns, duration_p99_ns, wait_p99_ns, transfer_p99_ns, tail_is, tail_rank, tail_steps, note
-- order: op, group_id NULLS LAST, bytes_from NULLS LAST
-- caveat: a percentile is the nearest rank: always one of the measured values, and of few values the p99 is the maximum.
-- caveat: wait and transfer compare clocks of several ranks; where below_resolution_share is high, trust wait_free_p99_ns and transfer_min_p50_ns.
-- caveat: the clocks resolve which rank came last where last_is_known of collective_instances is true.
-- caveat: an unrecorded rank may have come last: where members of the group are missing, waiting for them counts as transfer.
-- caveat: transfer can be negative where the clocks are off by more than it.
WITH calls AS (
    SELECT
        coalesce(i.op, k.op) AS op,
        k.group_id,
        tw_bytes_from(coalesce(i.bytes, k.bytes)) AS bytes_from,
        tw_bytes_to(coalesce(i.bytes, k.bytes)) AS bytes_to,
        coalesce(i.bytes, k.bytes) AS bytes,
        k.collective_id,
        k.call_id,
        k.rank,
        k.step,
        k.duration_ns
    FROM collectives AS k
    LEFT JOIN collective_instances AS i USING (collective_id)
),
call_tails AS (
    SELECT
        op,
        group_id,
        bytes_from,
        bytes_to,
        count(DISTINCT collective_id) AS instances,
        tw_percentile(duration_ns, 0.5) AS duration_p50_ns,
        tw_percentile(duration_ns, 0.95) AS duration_p95_ns,
        tw_percentile(duration_ns, 0.99) AS duration_p99_ns,
        max(duration_ns) AS duration_max_ns,
        count(*) AS calls,
        count(*) - count(collective_id) AS unmatched_calls,
        count(DISTINCT rank) AS ranks_seen,
        first(rank ORDER BY duration_ns DESC, rank, call_id) AS slowest_rank,
        first(step ORDER BY duration_ns DESC, rank, call_id) AS slowest_step
    FROM calls
    GROUP BY ALL
),
wait_tails AS (
    SELECT
        w.op,
        w.group_id,
        tw_bytes_from(i.bytes) AS bytes_from,
        tw_percentile(w.wait_ns, 0.5) AS wait_p50_ns,
        tw_percentile(w.wait_ns, 0.95) AS wait_p95_ns,
        tw_percentile(w.wait_ns, 0.99) AS wait_p99_ns,
        max(w.wait_ns) AS wait_max_ns,
        tw_percentile(w.wait_free_ns, 0.99) AS wait_free_p99_ns
    FROM tw_shared_waits() AS w
    JOIN collective_instances AS i USING (collective_id)
    WHERE awaits_others(i.op, i.root, w.rank)
    GROUP BY ALL
),
transfer_tails AS (
    SELECT
        op,
        group_id,
        tw_bytes_from(bytes) AS bytes_from,
        tw_percentile(transfer_ns, 0.5) AS transfer_p50_ns,
        tw_percentile(transfer_ns, 0.95) AS transfer_p95_ns,
        tw_percentile(transfer_ns, 0.99) AS transfer_p99_ns,
        max(transfer_ns) AS transfer_max_ns,
        tw_percentile(transfer_min_ns, 0.5) AS transfer_min_p50_ns,
        avg(CAST(below_resolution AS INTEGER)) AS below_resolution_share,
        nullif(concat_ws('; ',
            tw_missing_ranks(
                count(*) FILTER (WHERE NOT complete), count(*), min(ranks_seen), max(ranks_expected), 'waiting for them counts as transfer'
            ),
            tw_buffered(count(*) FILTER (WHERE is_buffered), count(*))), '') AS note
    FROM (
        SELECT * REPLACE (
            CASE WHEN NOT is_buffered THEN transfer_ns END AS transfer_ns,
            CASE WHEN NOT is_buffered THEN transfer_min_ns END AS transfer_min_ns
        )
        FROM collective_instances
        WHERE ranks_seen > 1
    )
    GROUP BY ALL
),
last_ranks AS (
    SELECT
        op,
        group_id,
        tw_bytes_from(bytes) AS bytes_from,
        last_rank,
        tw_ratio(count(*), sum(count(*)) OVER (PARTITION BY op, group_id, tw_bytes_from(bytes))) AS last_rank_share
    FROM collective_instances
    WHERE last_is_known
    GROUP BY op, group_id, tw_bytes_from(bytes), last_rank
    QUALIFY row_number() OVER (
        PARTITION BY op, group_id, tw_bytes_from(bytes) ORDER BY count(*) DESC, last_rank
    ) = 1
)
SELECT
    c.op, c.group_id, c.bytes_from, c.bytes_to, c.instances,
    c.duration_p50_ns, c.duration_p95_ns, c.duration_p99_ns, c.duration_max_ns,
    w.wait_p50_ns, w.wait_p95_ns, w.wait_p99_ns, w.wait_max_ns,
    t.transfer_p50_ns, t.transfer_p95_ns, t.transfer_p99_ns, t.transfer_max_ns,
    tw_ratio(c.duration_p99_ns, c.duration_p50_ns) AS tail_ratio,
    l.last_rank,
    l.last_rank_share,
    t.transfer_min_p50_ns,
    w.wait_free_p99_ns,
    t.below_resolution_share,
    c.calls,
    c.unmatched_calls,
    c.ranks_seen,
    c.slowest_rank,
    c.slowest_step,
    n.algorithm,
    n.protocol,
    g.instances AS tail_instances,
    g.excess_ns AS tail_ns,
    CASE greatest(g.late_ns, g.beside_ns, g.copies_ns, g.alone_ns)
        WHEN g.late_ns THEN 'late arrival' WHEN g.beside_ns THEN 'other collectives' WHEN g.copies_ns THEN 'copies' WHEN g.alone_ns THEN 'transfer'
    END AS tail_is,
    greatest(g.late_ns, g.beside_ns, g.copies_ns, g.alone_ns) / nullif(g.excess_ns, 0) AS tail_is_share,
    CASE WHEN tail_is = 'late arrival' THEN g.late_rank END AS tail_rank,
    CASE WHEN tail_is = 'late arrival' THEN g.late_cause END AS tail_rank_cause,
    g.steps AS tail_steps,
    CASE WHEN g.instances > 0 THEN len(coalesce(g.steps, [])) > 1 OR (g.steps IS NULL AND g.instances > 1) END AS tail_recurs,
    nullif(concat_ws('; ', CASE WHEN c.instances BETWEEN 1 AND 4 THEN 'fewer than 5 operations: no tail is told' END, t.note, tw_several_ways(n.ways)), '') AS note,
    o.link
FROM call_tails AS c
LEFT JOIN groups AS o USING (group_id)
LEFT JOIN {{ ref('tail_causes') }} AS g
    ON g.op = c.op AND g.group_id IS NOT DISTINCT FROM c.group_id AND g.bytes_from IS NOT DISTINCT FROM c.bytes_from
LEFT JOIN wait_tails AS w
    ON w.op = c.op AND w.group_id IS NOT DISTINCT FROM c.group_id AND w.bytes_from IS NOT DISTINCT FROM c.bytes_from
LEFT JOIN transfer_tails AS t
    ON t.op = c.op AND t.group_id IS NOT DISTINCT FROM c.group_id AND t.bytes_from IS NOT DISTINCT FROM c.bytes_from
LEFT JOIN last_ranks AS l
    ON l.op = c.op AND l.group_id IS NOT DISTINCT FROM c.group_id AND l.bytes_from IS NOT DISTINCT FROM c.bytes_from
LEFT JOIN tw_chosen('calls') AS n
    ON n.op = c.op AND n.group_id IS NOT DISTINCT FROM c.group_id AND n.bytes_from IS NOT DISTINCT FROM c.bytes_from
ORDER BY c.op, c.group_id NULLS LAST, c.bytes_from NULLS LAST
