-- rule: uneven_exchange | an exchange that waits for the rank with most to move
-- topic: communication
-- needs: ref('exchanges'), ref('exposed_calls')
-- finds: In an all_to_all, dispatch or combine whose split sizes every rank recorded, one rank sends or receives more than the mean, and the exchange takes as long as that rank needs. Cost: what its exposed transfer is longer than if all had the same, at the same rate and without latency (`exchanges`): at most. Below `small_bytes` (64 KiB) for that rank, latency is all. The evidence names the rank that most of it is due to, or says that ranks take turns. What the receivers then compute longer is not in it: that is `straggler`.
-- try: Balance what ranks get: the capacity of experts or an auxiliary loss, the placement of experts or of embedding tables.
-- proof: exchanges
-- shows: transfers
-- param: small_bytes
WITH uneven AS (
    SELECT
        e.*,
        least(e.uneven_ns, x.exposed_ns) * x.ranks AS cost_ns,
        row_number() OVER (PARTITION BY e.op, e.group_id ORDER BY e.uneven_ns DESC, e.collective_id) AS number
    FROM {{ ref('exchanges') }} AS e
    JOIN (
        SELECT collective_id, avg(exposed_transfer_ns) AS exposed_ns, count(*) AS ranks
        FROM {{ ref('exposed_calls') }}
        WHERE exposed_transfer_ns IS NOT NULL
        GROUP BY collective_id
    ) AS x USING (collective_id)
    -- smaller ones take as long as they do, whoever has most
    WHERE e.uneven_ns > 0 AND e.peak_bytes >= {{ param('small_bytes') }}
),
ranked AS (
    SELECT op, group_id, peak_rank, arg_max(peak_is, uneven_ns) AS peak_is, sum(uneven_ns) / sum(sum(uneven_ns)) OVER (PARTITION BY op, group_id) AS share
    FROM uneven
    GROUP BY op, group_id, peak_rank
    QUALIFY row_number() OVER (PARTITION BY op, group_id ORDER BY sum(uneven_ns) DESC, peak_rank) = 1
),
-- groups that do the same have one finding
summed AS (
    SELECT
        u.op, g.kind,
        array_to_string(list(DISTINCT u.group_id ORDER BY u.group_id), ',') AS of_groups,
        CASE WHEN count(DISTINCT u.group_id) = 1 THEN any_value(u.group_id) END AS group_id,
        -- in each group the same one every time
        CASE WHEN min(r.share) >= 0.5 THEN list(DISTINCT r.peak_rank ORDER BY r.peak_rank) END AS ranks,
        arg_max(r.peak_is, u.uneven_ns) AS peak_is,
        sum(u.cost_ns) AS cost_ns,
        count(*) AS instances,
        sum(u.even_transfer_ns) / sum(u.transfer_ns) AS factor,
        sum(u.peak_to_mean * u.transfer_ns) / sum(u.transfer_ns) AS peak_to_mean,
        avg(u.transfer_ns) AS transfer_ns,
        avg(u.even_transfer_ns) AS even_ns
    FROM uneven AS u JOIN ranked AS r ON r.op = u.op AND r.group_id = u.group_id JOIN {{ ref('alike_groups') }} AS g ON g.group_id = u.group_id
    GROUP BY u.op, g.kind
)
SELECT
    CASE WHEN s.ranks IS NULL THEN format('{} waits for ranks that have {} times the mean', s.op, tw_digits(s.peak_to_mean))
        ELSE format('{} waits for {} {} times the mean', s.op, CASE WHEN len(s.ranks) = 1 THEN format('rank {}, which has', s.ranks[1]) ELSE tw_ranks(s.ranks) || ', which have' END, tw_digits(s.peak_to_mean)) END AS title,
    s.ranks,
    s.group_id,
    s.cost_ns / m.windows AS cost_ns,
    format('op={} group={} kind=transfer times={}', s.op, s.of_groups, round(s.factor, 4)) AS scenario,
    format('{} {} {} times the mean of all ranks in {}. Each takes {}, and {} at the same rate if all had the same',
        CASE WHEN s.ranks IS NULL THEN 'One rank after the other' WHEN len(s.ranks) = 1 THEN format('Rank {}', s.ranks[1]) ELSE 'One rank of each group' END, s.peak_is,
        tw_digits(s.peak_to_mean), tw_many(s.instances, 'uneven ' || s.op), tw_time(s.transfer_ns), tw_time(s.even_ns)) AS evidence,
    CASE WHEN s.op IN ('dispatch', 'combine') THEN 'Balance the experts: capacity, an auxiliary loss, or their placement'
        ELSE 'Balance what ranks exchange: placement of experts or embedding tables, capacity, sequence lengths' END AS advice
FROM summed AS s CROSS JOIN {{ ref('mean_step') }} AS m
