-- shared: chances | could it be chance that a rank makes others wait as often and as long as it does?
-- grain: one row per rank that takes part in collectives whose last rank the clocks resolve
-- column: rank INTEGER | global rank
-- column: chance DOUBLE | as in stragglers
-- column: few BIGINT[] | of the one rank of which that is so, the few steps in which it is late, far longer than others usually are
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
        s.several AS is_step,
        CAST(coalesce(sum(a.caused_ns), 0) AS BIGINT) AS wait_ns
    FROM came AS a
    -- a rank that was not there yet when a stretch began takes part in that of the others
    LEFT JOIN (SELECT collective_id, coalesce(max(first_id), collective_id) AS first_id FROM {{ ref('legs') }} GROUP BY collective_id) AS t USING (collective_id)
    CROSS JOIN (SELECT count(DISTINCT step) > 1 AS several FROM came) AS s
    WHERE (a.step IS NOT NULL OR NOT s.several) AND NOT tw_is_unknown(a.rank, a.step)
    GROUP BY ALL
),
-- The rank that is late in few steps, at most a third, in each at least half as long as in any and twice as long as the worst of the
-- others is in the middle step; of several the one that is late longest.
few AS (
    SELECT rank, list(trial ORDER BY trial) AS trials
    FROM (
        SELECT
            *, median(CASE WHEN wait_ns = longest[1] THEN coalesce(longest[2], 0) ELSE longest[1] END) OVER its AS others_ns,
            2 * wait_ns >= max(wait_ns) OVER its AS is_late
        FROM (SELECT *, max(wait_ns, 2) OVER (PARTITION BY trial) AS longest FROM trials WHERE is_step)
        WINDOW its AS (PARTITION BY rank)
    )
    WHERE is_late AND wait_ns > 0
    GROUP BY rank
    HAVING min(wait_ns) >= 2 * any_value(others_ns) AND 3 * count(*) <= (SELECT count(DISTINCT trial) FROM trials)
        AND (SELECT count(DISTINCT rank) FROM trials) > 2
    QUALIFY row_number() OVER (ORDER BY sum(wait_ns) DESC, rank) = 1
),
-- what it does there says nothing of how late the others are: these are compared with each other in the rest
asked AS (
    SELECT FALSE AS is_rest, * FROM trials
    UNION ALL
    SELECT TRUE, t.* FROM trials AS t JOIN few AS f ON t.rank <> f.rank AND NOT list_contains(f.trials, t.trial)
),
drawn AS (
    SELECT is_rest, CAST(unnest(drawn.rank) AS INTEGER) AS rank, unnest(drawn.chance) AS chance
    FROM (SELECT is_rest, sweep_chances(list(trial), list(rank), list(wait_ns)) AS drawn FROM asked GROUP BY is_rest)
)
SELECT d.rank, arg_max(d.chance, d.is_rest) AS chance, any_value(f.trials) AS few
FROM drawn AS d LEFT JOIN few AS f USING (rank)
GROUP BY d.rank
