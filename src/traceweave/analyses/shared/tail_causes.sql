-- shared: tail_causes | what the tails of collectives rest on
-- grain: one row per operation, process group and power-of-two size bucket that has a tail: matched operations that took more than twice the median of 5 or more
-- needs: collective_instances, collectives
-- column: op VARCHAR | which operation
-- column: group_id INTEGER | process group
-- column: bytes_from BIGINT | lower end of the size bucket
-- column: instances BIGINT | operations in the tail, each by the rank on which it took longest
-- column: excess_ns BIGINT | what they take beyond the median, in all: the sum of the following
-- column: late_ns BIGINT | of that, the rank waited for others
-- column: beside_ns BIGINT | it transferred beside other collectives, which the rest of its kind do not
-- column: copies_ns BIGINT | the same of copies
-- column: alone_ns BIGINT | it transferred, and neither is known
-- column: late_rank INTEGER | the rank that most of late_ns was waited for
-- column: late_cause VARCHAR | what that rank did longer meanwhile, as in stragglers of the step with most of it
-- column: steps BIGINT[] | the steps they were in
WITH calls AS MATERIALIZED (
    SELECT
        i.op, i.group_id, tw_bytes_from(i.bytes) AS bytes_from, k.collective_id, k.call_id, k.rank, k.step, k.duration_ns,
        coalesce(s.wait_ns, 0) AS wait_ns, k.start_local_ns + coalesce(s.wait_ns, 0) AS from_ns, k.start_local_ns + k.duration_ns AS until_ns,
        CASE WHEN i.last_is_known THEN coalesce(o.origin, i.last_rank) END AS late_rank
    FROM collectives AS k
    JOIN collective_instances AS i USING (collective_id)
    LEFT JOIN tw_split_calls() AS s ON s.call_id = k.call_id
    LEFT JOIN {{ ref('late_origins') }} AS o USING (collective_id)
    WHERE i.ranks_seen > 1
),
longest AS MATERIALIZED (
    SELECT
        *, duration_ns - median_ns AS excess_ns, duration_ns > 2 * median_ns AS is_tail,
        row_number() OVER (PARTITION BY op, group_id, bytes_from, is_tail ORDER BY collective_id) AS number
    FROM (
        SELECT *, tw_percentile(duration_ns, 0.5) OVER kind AS median_ns, count(*) OVER kind AS instances
        FROM (FROM calls QUALIFY row_number() OVER (PARTITION BY collective_id ORDER BY duration_ns DESC, rank) = 1)
        WINDOW kind AS (PARTITION BY op, group_id, bytes_from)
    )
    WHERE instances >= 5
),
-- the tail, and some of the rest to compare it with
looked AS MATERIALIZED (
    SELECT * FROM longest
    SEMI JOIN (SELECT op, group_id, bytes_from FROM longest WHERE is_tail) AS t
        ON t.op = longest.op AND t.group_id IS NOT DISTINCT FROM longest.group_id AND t.bytes_from IS NOT DISTINCT FROM longest.bytes_from
    WHERE is_tail OR number <= 20
),
beside AS (
    SELECT
        l.call_id,
        least(1, coalesce(sum(tw_shared_ns(k.start_local_ns, k.start_local_ns + k.duration_ns, l.from_ns, l.until_ns)), 0)
            / greatest(any_value(l.until_ns - l.from_ns), 1)) AS share
    FROM looked AS l
    JOIN collectives AS k
        ON k.rank = l.rank AND k.start_local_ns < l.until_ns AND k.start_local_ns + k.duration_ns > l.from_ns
        AND k.collective_id IS DISTINCT FROM l.collective_id
    GROUP BY l.call_id
),
copying AS (
    SELECT
        l.call_id,
        least(1, sum(tw_shared_ns(g.start_local_ns, g.start_local_ns + g.duration_ns, l.from_ns, l.until_ns))
            / greatest(any_value(l.until_ns - l.from_ns), 1)) AS share
    FROM looked AS l
    JOIN (SELECT rank, start_local_ns, duration_ns FROM gpu_ops WHERE category = 'memory') AS g
        ON g.rank = l.rank AND g.start_local_ns < l.until_ns AND g.start_local_ns + g.duration_ns > l.from_ns
    GROUP BY l.call_id
),
-- half of the transfer or more, and twice as much as in the rest of its kind
judged AS (
    SELECT
        l.*, least(l.excess_ns, l.wait_ns) AS late_ns, l.excess_ns - late_ns AS transfer_ns,
        coalesce(b.share, 0) AS beside_share, coalesce(y.share, 0) AS copy_share,
        coalesce(avg(coalesce(b.share, 0)) FILTER (WHERE NOT l.is_tail) OVER kind, 0) AS usual_beside,
        coalesce(avg(coalesce(y.share, 0)) FILTER (WHERE NOT l.is_tail) OVER kind, 0) AS usual_copy
    FROM looked AS l LEFT JOIN beside AS b USING (call_id) LEFT JOIN copying AS y USING (call_id)
    WINDOW kind AS (PARTITION BY l.op, l.group_id, l.bytes_from)
),
tails AS MATERIALIZED (
    SELECT
        *,
        CASE
            WHEN beside_share >= 0.5 AND beside_share > 2 * usual_beside THEN 'beside'
            WHEN copy_share >= 0.5 AND copy_share > 2 * usual_copy THEN 'copies'
            ELSE 'alone'
        END AS sort
    FROM judged
    WHERE is_tail
),
late AS (
    SELECT op, group_id, bytes_from, late_rank, arg_max(step, late_ns) AS step
    FROM tails
    WHERE late_ns > 0 AND late_rank IS NOT NULL
    GROUP BY op, group_id, bytes_from, late_rank
    QUALIFY row_number() OVER (PARTITION BY op, group_id, bytes_from ORDER BY sum(late_ns) DESC, late_rank) = 1
)
SELECT
    t.op, t.group_id, t.bytes_from,
    count(*) AS instances,
    CAST(sum(t.excess_ns) AS BIGINT) AS excess_ns,
    CAST(sum(t.late_ns) AS BIGINT) AS late_ns,
    CAST(coalesce(sum(t.transfer_ns) FILTER (WHERE t.sort = 'beside'), 0) AS BIGINT) AS beside_ns,
    CAST(coalesce(sum(t.transfer_ns) FILTER (WHERE t.sort = 'copies'), 0) AS BIGINT) AS copies_ns,
    CAST(coalesce(sum(t.transfer_ns) FILTER (WHERE t.sort = 'alone'), 0) AS BIGINT) AS alone_ns,
    any_value(l.late_rank) AS late_rank,
    any_value(s.cause) AS late_cause,
    list(DISTINCT t.step ORDER BY t.step) FILTER (WHERE t.step IS NOT NULL) AS steps
FROM tails AS t
LEFT JOIN late AS l ON l.op = t.op AND l.group_id IS NOT DISTINCT FROM t.group_id AND l.bytes_from IS NOT DISTINCT FROM t.bytes_from
LEFT JOIN {{ ref('stragglers', per='step') }} AS s ON s.rank = l.late_rank AND s.step IS NOT DISTINCT FROM l.step
GROUP BY t.op, t.group_id, t.bytes_from
