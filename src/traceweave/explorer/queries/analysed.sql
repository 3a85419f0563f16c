-- What the analyses say of a stretch of time: gaps, the critical path, and how much there is of what.

-- query: gaps_shown
-- When some ranks did not compute, where that is long enough to be seen, of each the longest first.
WITH shown AS (
    FROM memory.explorer.gaps
    WHERE list_contains($ranks, rank) AND start_ns < $until_ns AND start_ns + duration_ns > $from_ns AND duration_ns >= $least_ns
    QUALIFY row_number() OVER (PARTITION BY rank ORDER BY duration_ns DESC, start_ns) <= $most
)
SELECT rank, start_ns, duration_ns, cause AS name, coalesce(host_op, '') AS what FROM shown ORDER BY rank, start_ns

-- query: path_shown
-- Stretches of the critical path in a view. Those that are too short to be seen are joined with their neighbours, a stretch for
-- about as many ns as can be seen: no time on the path is empty. Its kind is that of the most of its time.
WITH seen AS (
    SELECT *, start_ns + duration_ns AS end_ns, duration_ns < $least_ns AS is_short
    FROM memory.explorer.path
    WHERE list_contains($ranks, rank) AND start_ns < $until_ns AND start_ns + duration_ns > $from_ns
),
kinds AS (
    SELECT rank, start_ns // $least_ns AS place, kind, min(start_ns) AS start_ns, max(end_ns) AS end_ns, sum(duration_ns) AS total_ns, count(*) AS pieces, any_value(what) AS what
    FROM seen
    WHERE is_short
    GROUP BY rank, place, kind
),
joined AS (
    SELECT rank, min(start_ns) AS start_ns, max(end_ns) AS end_ns, arg_max(kind, (total_ns, kind)) AS kind, sum(pieces) AS pieces, any_value(what) AS what
    FROM kinds
    GROUP BY rank, place
)
SELECT rank, start_ns, duration_ns, kind AS name, coalesce(what, '') AS what FROM seen WHERE NOT is_short
UNION ALL
SELECT rank, start_ns, end_ns - start_ns, kind, CASE WHEN pieces = 1 THEN coalesce(what, '') ELSE pieces || ' short stretches, most of their time' END FROM joined
ORDER BY rank, start_ns

-- query: totals
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

-- query: idle_totals
-- Time without compute of ranks in a stretch of time by its cause, as far as it lies in it.
SELECT
    cause,
    CAST(sum(least(start_ns + duration_ns, $until_ns) - greatest(start_ns, $from_ns)) AS BIGINT) AS idle_ns,
    count(*) AS gaps,
    max(duration_ns) AS longest_ns,
    list_sort(list(DISTINCT rank)) AS ranks
FROM memory.explorer.gaps
WHERE start_ns < $until_ns AND start_ns + duration_ns > $from_ns AND list_contains($ranks, rank)
GROUP BY cause
ORDER BY idle_ns DESC
