-- rule: small_collectives | collectives too small
-- topic: communication
-- needs: ref('alpha_beta'), ref('exposed_calls')
-- finds: Many collectives so small that latency is a large part of them (below four times the size at which it is half, by `alpha_beta`; of all-reduces by the shortest durations where the clocks resolve no transfer; not by two sizes alone, one less than four times the other). Those that the host reads (`read_sum`) are not among them. Cost: latency times the number of collectives that merging to `bucket_bytes` (25 MB, the default of DDP) would save, but no more than their exposed time. All-reduces are merged by replay (`bucket_mb=`); where that gains less than `min_share`, it is not advised.
-- try: Larger `bucket_cap_mb` for DDP, larger units for FSDP, coalesced collectives for others.
-- proof: alpha_beta
-- shows: transfers
-- param: bucket_bytes BIGINT = 25000000 | small collectives could be merged to about this size
WITH latencies AS (
    -- of a single size a bandwidth is assumed
    SELECT op, group_id, alpha_ns, half_bytes, sizes > 1 AS is_fitted
    FROM (
        FROM {{ ref('alpha_beta') }}
        UNION ALL
        -- where the clocks resolve no transfer, of the shortest durations over the ranks: they may include waiting, so replay has to decide
        FROM {{ ref('alpha_beta', time='shortest') }}
        SEMI JOIN (FROM {{ ref('alpha_beta') }} WHERE op = 'all_reduce' AND sizes = 0 AND unresolved_sizes > 0) AS u USING (op, group_id)
    )
    -- a line through two sizes that are much alike is as steep as their times vary by chance
    WHERE sizes <> 2 OR bytes_max >= 4 * bytes_min
),
small AS (
    SELECT
        c.op,
        c.group_id,
        c.kind,
        mode(c.use) AS use,
        any_value(c.alpha_ns) AS alpha_ns,
        any_value(c.half_bytes) AS half_bytes,
        any_value(c.is_fitted) AS is_fitted,
        count(*) AS calls,
        count(DISTINCT c.rank) AS ranks,
        count(DISTINCT (c.rank, c.step)) AS windows,
        list(DISTINCT c.step) AS steps,
        count(DISTINCT c.dtype) AS dtypes,
        sum(c.bytes) AS bytes,
        sum(c.bare_ns) AS exposed_ns
    FROM (
        SELECT c.*, f.alpha_ns, f.half_bytes, f.is_fitted, k.dtype, g.kind
        FROM {{ ref('exposed_calls') }} AS c JOIN collectives AS k USING (call_id) JOIN latencies AS f ON f.op = c.op AND f.group_id = c.group_id
        JOIN {{ ref('alike_groups') }} AS g ON g.group_id = c.group_id
        WHERE c.bytes < 4 * f.half_bytes AND NOT c.is_staged AND NOT c.is_blocking
        -- the only one of a step is merged with nothing
        QUALIFY count(*) OVER (PARTITION BY c.op, c.group_id, c.rank, c.step) > 1
    ) AS c
    GROUP BY c.op, c.group_id, c.kind
),
-- groups that do the same have one mend
merged AS (
    SELECT
        op,
        round(calls / windows)::BIGINT AS times,
        CASE WHEN count(*) = 1 THEN min(group_id) END AS group_id,
        array_to_string(list(group_id ORDER BY group_id), ',') AS of_groups,
        count(*) AS groups,
        mode(use) AS use,
        sum(alpha_ns * calls) / sum(calls) AS alpha_ns,
        max(half_bytes) AS half_bytes,
        bool_and(is_fitted) AS is_fitted,
        sum(bytes) / sum(calls) AS bytes,
        sum(ranks) AS ranks,
        list_sort(list_distinct(flatten(list(steps)))) AS steps,
        -- what can be merged is of one step, rank and type of elements; what latency costs cannot be more than what is exposed
        sum(least(alpha_ns * greatest(calls / windows - greatest(ceil(bytes / windows / {{ param('bucket_bytes') }}), dtypes), 0) * windows, exposed_ns)) AS cost_ns
    FROM small
    GROUP BY op, kind, round(calls / windows)
)
SELECT
    format('{} {} {} are small: {}', k.times, k.op, w.at, tw_size(k.bytes)) || CASE WHEN starts_with(w.at, 'per') THEN ' on average' ELSE '' END AS title,
    k.group_id,
    k.cost_ns / s.windows AS cost_ns,
    CASE WHEN k.op = 'all_reduce' THEN format('group={} bucket_mb={}', k.of_groups, tw_digits({{ param('bucket_bytes') }} / 1e6))
        ELSE format('op={} group={} bytes=0-{} alpha_us=0', k.op, k.of_groups, ceil(4 * k.half_bytes)::BIGINT) END AS scenario,
    CASE WHEN k.op = 'all_reduce' THEN scenario END AS remedy,
    'kind=transfer times=0' AS ceiling,
    format('transfers op={} group={} bytes=0-{}', k.op, k.of_groups, ceil(4 * k.half_bytes)::BIGINT) || CASE WHEN w.is_few THEN ' step=' || array_to_string(k.steps, ',') ELSE '' END AS shows,
    'Merging them (larger buckets) is not known to gain anything: leave them as they are' AS otherwise,
    format('Each rank{} calls {} {} {}, {} on average. A call ',
        CASE WHEN k.group_id IS NULL THEN format(' of {} groups', k.groups) WHEN k.ranks = s.ranks THEN '' ELSE format(' of group {}', k.group_id) END,
        k.op, tw_many(k.times, 'time'), w.at, tw_size(k.bytes))
        || CASE WHEN k.is_fitted THEN format('costs {} before its first byte, as much as transferring {}', tw_time(k.alpha_ns), tw_size(k.half_bytes))
            ELSE format('takes {} longer than its bytes would at 1 GB/s', tw_time(k.alpha_ns)) END AS evidence,
    'Merge them: ' || CASE k.use
        WHEN 'ddp' THEN 'larger DDP buckets (bucket_cap_mb)'
        WHEN 'fsdp' THEN 'larger FSDP units'
        WHEN 'optimizer' THEN 'larger buckets of the optimizer''s parameters'
        ELSE 'coalesced collectives, fewer and larger tensors'
    END AS advice
FROM merged AS k CROSS JOIN {{ ref('mean_step') }} AS s
CROSS JOIN LATERAL (
    -- a job that sums up every so many steps has more calls in these than the mean says
    SELECT s.has_steps AND len(k.steps) < s.windows // s.ranks AS is_few, CASE WHEN is_few THEN format('in {} of {} steps', len(k.steps), s.windows // s.ranks) ELSE 'per ' || s.unit END AS at
) AS w
