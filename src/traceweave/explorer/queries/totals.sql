-- What runs in a stretch of time on some ranks, as far as it lies in it: in all by class, by lane, by name, and, if they stand
-- side by side, by name and rank.
WITH each AS MATERIALIZED (
    SELECT
        lane,
        CASE WHEN $beside THEN rank END AS rank,
        category,
        class,
        name,
        sum(least(start_ns + duration_ns, $until_ns) - greatest(start_ns, $from_ns)) AS busy_ns,
        count(*) AS ops,
        max(duration_ns) AS longest_ns
    FROM memory.explorer.within($from_ns, $until_ns, $low, $high, $short, $ranks)
    WHERE $lane < 0 OR lane = $lane
    GROUP BY lane, rank, category, class, name
)
SELECT
    lane,
    rank,
    category,
    class,
    name,
    CAST(sum(busy_ns) AS BIGINT) AS busy_ns,
    CAST(sum(ops) AS BIGINT) AS ops,
    max(longest_ns) AS longest_ns,
    grouping(lane, rank, category, class, name) AS level
FROM each
GROUP BY GROUPING SETS ((category, class), (lane, category), (category, class, name), (rank, category, class, name))
ORDER BY busy_ns DESC
