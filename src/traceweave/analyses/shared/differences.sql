-- shared: differences | what each rank does more, longer or alone, beside the median of the others
-- grain: one row per rank and thing that it takes longer for than the median of the others, over all steps
-- column: rank INTEGER | global rank
-- column: kind VARCHAR | 'kernel', 'operator' (of a CPU run, without those inside it), 'range' (annotation or NVTX range on the host), or 'idle'
-- column: name VARCHAR | its name; of 'idle' the cause as in idle_causes. Ranges that only a number at the end tells apart are one
-- column: count_per_step DOUBLE | how often, mean over the steps in which it takes longer
-- column: others_count DOUBLE | the median of the others
-- column: is_always_more BOOLEAN | whether it is more often than the median of the others in every step
-- column: time_ns DOUBLE | how long, mean over these steps
-- column: others_ns DOUBLE | the median of the others
-- column: excess_ns DOUBLE | how much longer, per step over all steps
-- column: which VARCHAR | in which steps, in words; NULL without steps
-- column: steps BIGINT[] | these steps
WITH things AS (
    SELECT rank, step, kind, name, n, ns FROM {{ ref('own_times') }}
    UNION ALL
    -- what a thread is in while it waits for others is theirs
    SELECT rank, step, 'range', regexp_replace(name, '[ _#:]*[0-9]+$', ''), count(*), sum(duration_ns)
    FROM host_ops
    WHERE kind IN ('annotation', 'nvtx') AND NOT starts_with(name, 'ProfilerStep#')
        AND coalesce({{ names('collective_ranges', 'name') }} NOT IN ('device', 'host', 'issue'), TRUE)
    GROUP BY ALL
    UNION ALL
    SELECT rank, step, 'idle', cause, gaps, idle_ns FROM {{ ref('idle_causes') }} WHERE cause <> 'short'
),
spans AS MATERIALIZED (
    SELECT t.*
    FROM things AS t CROSS JOIN (SELECT count(*) > 0 AS has_steps FROM steps) AS s
    WHERE t.rank IS NOT NULL AND t.ns > 0 AND (t.step IS NOT NULL) = s.has_steps
),
sizes AS (
    SELECT
        (SELECT count(*) FROM ranks) AS ranks,
        coalesce((SELECT list(DISTINCT step ORDER BY step) FROM steps), [NULL]) AS steps
),
-- of a rank that does not do it the time is 0
sorted AS (
    SELECT kind, name, step, list(ns ORDER BY ns) AS all_ns, list(n ORDER BY n) AS all_n FROM spans GROUP BY kind, name, step
),
beside AS (
    SELECT
        s.rank, s.kind, s.name, s.step, s.n, s.ns,
        tw_median_of_others(a.all_ns, s.ns, z.ranks) AS others_ns,
        tw_median_of_others(a.all_n, s.n, z.ranks) AS others_n
    FROM spans AS s JOIN sorted AS a ON a.kind = s.kind AND a.name = s.name AND a.step IS NOT DISTINCT FROM s.step CROSS JOIN sizes AS z
    WHERE z.ranks > 1
),
longer AS (
    -- what others do not do is more wherever it is
    SELECT
        *,
        ns > others_ns AND (max(others_ns) OVER thing = 0 OR 2 * (ns - others_ns) >= max(ns - others_ns) OVER thing) AS is_longer
    FROM beside
    WINDOW thing AS (PARTITION BY rank, kind, name)
)
SELECT
    l.rank,
    l.kind,
    l.name,
    avg(l.n) FILTER (l.is_longer) AS count_per_step,
    avg(l.others_n) FILTER (l.is_longer) AS others_count,
    coalesce(bool_and(l.n > l.others_n) AND count(*) = len(any_value(z.steps)), FALSE) AS is_always_more,
    avg(l.ns) FILTER (l.is_longer) AS time_ns,
    avg(l.others_ns) FILTER (l.is_longer) AS others_ns,
    CAST(sum(l.ns - l.others_ns) AS DOUBLE) / len(any_value(z.steps)) AS excess_ns,
    tw_which_steps(list(l.step ORDER BY l.step) FILTER (l.is_longer), any_value(z.steps)) AS which,
    list(l.step ORDER BY l.step) FILTER (l.is_longer) AS steps
FROM longer AS l CROSS JOIN sizes AS z
GROUP BY l.rank, l.kind, l.name
HAVING sum(l.ns - l.others_ns) > 0
