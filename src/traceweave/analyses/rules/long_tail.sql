-- rule: long_tail | collectives that take long now and then
-- topic: communication
-- needs: collective_instances, ref('exposed_calls')
-- finds: Some transfers (at most `tail_share`, 25 %) take more than `tail_factor` (2) times the median of their operation, group and size, which must be known; where a rank of the group is not seen, what looks like transfer may be waiting for it, and does not count. Nor does what the host reads at once in every step: read_sum tells of all of it. Cost: the exposed part of the excess over the median; never more than the run gains, by replay, without any transfer.
-- try: Look for other traffic on the network at those moments, link retries and errors.
-- proof: tails
-- shows: transfers
-- param: tail_factor DOUBLE = 2.0 | transfers longer than this many medians of their kind are the tail
-- param: tail_share DOUBLE = 0.25 | if a larger share of them is longer, they are not a tail but a second kind
WITH transfers AS (
    SELECT
        c.collective_id,
        c.op,
        c.group_id,
        -- where experts are uneven, ranks exchange other amounts in one
        max(c.bytes) AS bytes,
        any_value(c.step) AS step,
        any_value(i.transfer_min_ns) AS transfer_ns,
        avg(c.exposed_transfer_ns) AS exposed_ns,
        count(*) AS ranks,
        bool_or(k.collective_id IS NOT NULL) AS is_hosted
    FROM {{ ref('exposed_calls') }} AS c JOIN collective_instances AS i USING (collective_id)
    -- what threads of the host time (gloo, MPI)
    LEFT JOIN (SELECT collective_id FROM collectives GROUP BY collective_id HAVING count(gpu_op_id) = 0) AS k USING (collective_id)
    WHERE c.exposed_transfer_ns IS NOT NULL AND i.root IS NULL AND c.bytes IS NOT NULL AND NOT c.is_p2p AND NOT c.lacks_ranks AND NOT c.is_read
    GROUP BY c.collective_id, c.op, c.group_id
),
medians AS (
    SELECT
        *,
        tw_percentile(transfer_ns, 0.5) OVER kind AS median_ns,
        count(*) OVER kind AS instances
    FROM transfers
    WINDOW kind AS (PARTITION BY op, group_id, bytes)
)
SELECT
    format('{} takes up to {}, {} at the median', t.op, tw_time(max(t.transfer_ns) FILTER (WHERE t.is_tail)),
        tw_time(arg_max(t.median_ns, (t.transfer_ns, t.bytes, t.step)) FILTER (WHERE t.is_tail))) AS title,
    CASE WHEN count(DISTINCT t.group_id) = 1 THEN any_value(t.group_id) END AS group_id,
    arg_max(format('transfers op={} group={} bytes={}', t.op, t.group_id, t.bytes) || coalesce(' step=' || t.step, ''), (t.transfer_ns, t.bytes, t.step)) FILTER (WHERE t.is_tail) AS shows,
    sum(least(t.transfer_ns - t.median_ns, t.exposed_ns) * t.ranks) FILTER (WHERE t.is_tail) / any_value(s.windows) AS cost_ns,
    'kind=transfer times=0' AS ceiling,
    format('{} of {} {} transfers take more than {} times the median of their size, the longest {} against {}',
        count(*) FILTER (WHERE t.is_tail), count(*), t.op, tw_digits({{ param('tail_factor') }}), tw_time(max(t.transfer_ns) FILTER (WHERE t.is_tail)),
        tw_time(arg_max(t.median_ns, (t.transfer_ns, t.bytes, t.step)) FILTER (WHERE t.is_tail))) AS evidence,
    CASE WHEN bool_or(t.is_hosted)
        THEN 'Look for other load on the CPU cores at those moments: threads of the host transfer, and may have waited for a core. Then look for other traffic on the network'
        ELSE 'Look for other traffic on the network or load on the GPUs at those moments; check links for retries and errors'
    END AS advice
FROM (
    SELECT *, transfer_ns > {{ param('tail_factor') }} * median_ns AS is_tail FROM medians WHERE instances >= 5
    WINDOW mine AS (PARTITION BY op, group_id)
    QUALIFY count(*) FILTER (WHERE is_tail) OVER mine BETWEEN 1 AND {{ param('tail_share') }} * count(*) OVER mine
) AS t
LEFT JOIN {{ ref('alike_groups') }} AS g USING (group_id) CROSS JOIN {{ ref('mean_step') }} AS s
GROUP BY t.op, g.kind
