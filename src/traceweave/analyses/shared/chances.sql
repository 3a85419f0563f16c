-- shared: chances | could it be chance that a rank makes others wait as often and as long as it does?
-- grain: one row per rank that takes part in collectives whose last rank the clocks resolve
-- column: rank INTEGER | global rank
-- column: chance DOUBLE | as in stragglers
WITH
-- Of a broadcast only the root can be late: whether it is by chance, all tell that began it, in their order.
rooted AS (
    SELECT k.collective_id, k.rank, k.step, i.last_start_ns - (max(k.start_ns, 2) OVER one)[2] AS delay_ns, i.ranks_seen - 1 AS others, k.start_ns = i.last_start_ns AS is_last, i.resolution_ns
    FROM collectives AS k JOIN collective_instances AS i USING (collective_id)
    WHERE i.root IS NOT NULL AND i.ranks_seen > 1
    WINDOW one AS (PARTITION BY k.collective_id)
),
direct AS (
    SELECT collective_id, rank, step, caused_ns FROM {{ ref('arrivals') }} WHERE last_is_known AND NOT has_root
    UNION ALL
    SELECT collective_id, rank, step, CASE WHEN is_last THEN delay_ns * others END FROM rooted WHERE delay_ns > 0 AND delay_ns >= resolution_ns
),
-- what a rank was held up in another group for is because of the rank that this goes back to, as in blame
-- (of a broadcast that is the root, whoever began it after that)
origins AS (
    SELECT o.collective_id, i.last_rank AS rank, o.origin FROM {{ ref('late_origins') }} AS o JOIN collective_instances AS i USING (collective_id)
),
came AS (
    SELECT d.* REPLACE (CASE WHEN o.origin IS NULL THEN d.caused_ns END AS caused_ns) FROM direct AS d LEFT JOIN origins AS o USING (collective_id, rank)
    UNION ALL
    SELECT d.collective_id, o.origin, d.step, d.caused_ns FROM direct AS d JOIN origins AS o USING (collective_id, rank) WHERE d.caused_ns > 0
),
-- What ranks made others wait, by step; in a run of one by stretch since they were even: collectives of either hang together.
trials AS (
    SELECT
        a.rank,
        CASE WHEN s.several THEN a.step ELSE coalesce(t.first_id, a.collective_id) END AS trial,
        CAST(coalesce(sum(a.caused_ns), 0) AS BIGINT) AS wait_ns
    FROM came AS a
    -- a rank that was not there yet when a stretch began takes part in that of the others
    LEFT JOIN (SELECT collective_id, coalesce(max(first_id), collective_id) AS first_id FROM {{ ref('legs') }} GROUP BY collective_id) AS t USING (collective_id)
    CROSS JOIN (SELECT count(DISTINCT step) > 1 AS several FROM came) AS s
    WHERE (a.step IS NOT NULL OR NOT s.several) AND NOT tw_is_unknown(a.rank, a.step)
    GROUP BY ALL
),
-- What one rank does in few steps says nothing of how late the others are there: these are compared with each other in the rest.
asked AS (
    SELECT s.rank IS NOT NULL AS is_rest, t.trial, t.rank, t.wait_ns
    FROM trials AS t LEFT JOIN {{ ref('late_seldom') }} AS s ON (SELECT count(DISTINCT rank) > 2 FROM trials)
    WHERE s.rank IS NULL OR t.rank <> s.rank AND NOT list_contains(s.steps, t.trial)
    UNION ALL
    SELECT FALSE, t.trial, t.rank, t.wait_ns FROM trials AS t SEMI JOIN {{ ref('late_seldom') }} AS s ON (SELECT count(DISTINCT rank) > 2 FROM trials)
),
drawn AS (
    SELECT is_rest, CAST(unnest(drawn.rank) AS INTEGER) AS rank, unnest(drawn.chance) AS chance
    FROM (SELECT is_rest, sweep_chances(list(trial), list(rank), list(wait_ns)) AS drawn FROM asked GROUP BY is_rest)
)
SELECT rank, arg_max(chance, is_rest) AS chance FROM drawn GROUP BY rank
