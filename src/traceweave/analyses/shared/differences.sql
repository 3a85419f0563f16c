-- shared: differences | what each rank does more, longer or alone, beside the median of the others
-- grain: one row per rank and thing that it takes longer for than the median of the others, over all steps
-- column: rank INTEGER | global rank
-- column: kind VARCHAR | 'kernel', 'operator' (of a CPU run, without those inside it; else its kernels, where ranks run others for it), 'range' (annotation or NVTX range on the host), or 'idle'
-- column: name VARCHAR | its name; of 'idle' the cause as in idle_causes. Ranges that only numbers or a hash tell apart are one
-- column: count_per_step DOUBLE | how often, mean over the steps in which it takes longer
-- column: others_count DOUBLE | the median of the others
-- column: is_always_more BOOLEAN | whether it is more often than the median of the others in every step, or in each of three or more that have it
-- column: time_ns DOUBLE | how long, mean over these steps
-- column: others_ns DOUBLE | the median of the others
-- column: excess_ns DOUBLE | how much longer, per step over all steps
-- column: which VARCHAR | in which steps, in words; NULL without steps
-- column: steps BIGINT[] | these steps
-- column: host_op VARCHAR | of 'idle' what the host is in for most of that time, as idle_causes has it, but for the range of a step
-- column: does VARCHAR | all that in a sentence
WITH running AS (
    SELECT count(DISTINCT rank) AS ranks FROM {{ ref('own_times') }}
),
some_run AS (
    SELECT name FROM {{ ref('own_times') }} WHERE kind = 'kernel' GROUP BY name HAVING count(DISTINCT rank) < (SELECT ranks FROM running)
),
-- of what all ranks call each may run a kernel of its own, as autotuning chooses: then all that it runs is compared
chosen AS MATERIALIZED (
    SELECT called FROM tw_launched() WHERE kind = 'op' AND name IN (FROM some_run) GROUP BY called HAVING count(DISTINCT rank) = (SELECT ranks FROM running)
),
launched AS MATERIALIZED (
    SELECT rank, step, called AS operator, name, count(*) AS n, sum(duration_ns) AS ns FROM tw_launched() WHERE kind = 'op' AND called IN (FROM chosen) GROUP BY ALL
),
things AS (
    SELECT t.rank, t.step, t.kind, t.name, t.n - coalesce(l.n, 0) AS n, t.ns - coalesce(l.ns, 0) AS ns
    FROM {{ ref('own_times') }} AS t
    LEFT JOIN (SELECT rank, step, name, sum(n) AS n, sum(ns) AS ns FROM launched GROUP BY ALL) AS l
        ON t.kind = 'kernel' AND l.rank = t.rank AND l.step IS NOT DISTINCT FROM t.step AND l.name = t.name
    UNION ALL
    SELECT rank, step, 'operator', operator, sum(n), sum(ns) FROM launched GROUP BY ALL
    UNION ALL
    -- what a thread is in while it waits for others is theirs
    SELECT rank, step, 'range', tw_unnumbered(name), count(*), sum(duration_ns)
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
        -- in a step that one rank alone recorded nobody does less
        coalesce((SELECT list(step ORDER BY step) FROM (SELECT step FROM steps GROUP BY step HAVING count(DISTINCT rank) > 1 OR (SELECT count(*) FROM ranks) = 1)), [NULL]) AS steps
),
-- of a rank that does not do it the time is 0; materialized, or DuckDB sorts once per rank
sorted AS MATERIALIZED (
    SELECT kind, name, step, list(ns ORDER BY ns) AS all_ns, list(n ORDER BY n) AS all_n, count(*) OVER (PARTITION BY kind, name) AS done_in FROM spans GROUP BY kind, name, step
),
beside AS (
    SELECT
        s.rank, s.kind, s.name, s.step, s.n, s.ns, a.done_in,
        tw_median_of_others(a.all_ns, s.ns, z.ranks) AS others_ns,
        tw_median_of_others(a.all_n, s.n, z.ranks) AS others_n
    FROM spans AS s JOIN sorted AS a ON a.kind = s.kind AND a.name = s.name AND a.step IS NOT DISTINCT FROM s.step CROSS JOIN sizes AS z
    WHERE z.ranks > 1 AND (s.step IS NULL OR list_contains(z.steps, s.step))
),
ranked AS (
    SELECT *, sum(greatest(ns - others_ns, 0)) OVER (PARTITION BY rank, kind, name ORDER BY ns - others_ns DESC, step) AS until_ns FROM beside
),
longer AS (
    -- what others do not do is more wherever it is; one step that is worse than all hides the others only if half of it is there
    SELECT
        *,
        ns > others_ns AND (
            max(others_ns) OVER thing = 0
            -- as many more in every step are more in every step, however long they take
            OR kind <> 'idle' AND bool_and(n >= 1.1 * others_n) OVER thing AND 2 * min(n - others_n) OVER thing >= max(n - others_n) OVER thing
            OR 2 * (ns - others_ns) >= max(ns - others_ns) FILTER (2 * until_ns >= excess_ns) OVER thing
        ) AS is_longer
    FROM (SELECT *, max(until_ns) OVER (PARTITION BY rank, kind, name) AS excess_ns FROM ranked)
    WINDOW thing AS (PARTITION BY rank, kind, name)
),
grouped AS (
    SELECT
        rank,
        kind,
        name,
        avg(n) FILTER (is_longer) AS count_per_step,
        avg(others_n) FILTER (is_longer) AS others_count,
        bool_and(n > others_n) AS is_more,
        count(*) AS present,
        any_value(done_in) AS done_in,
        avg(ns) FILTER (is_longer) AS time_ns,
        avg(others_ns) FILTER (is_longer) AS others_ns,
        sum(ns - others_ns) AS excess_ns,
        list(step ORDER BY step) FILTER (is_longer) AS steps
    FROM longer
    GROUP BY rank, kind, name
    HAVING sum(ns - others_ns) > 0
),
hosts AS (
    SELECT l.rank, l.name, arg_max(i.host_op, i.host_op_ns) AS host_op
    FROM longer AS l JOIN {{ ref('idle_causes') }} AS i ON i.rank = l.rank AND i.step IS NOT DISTINCT FROM l.step AND i.cause = l.name
    WHERE l.kind = 'idle' AND l.is_longer
    GROUP BY l.rank, l.name, tw_range_kind(i.host_op)
    QUALIFY tw_range_kind(any_value(i.host_op)) IS NOT NULL AND 2 * sum(i.host_op_ns) > sum(sum(i.idle_ns)) OVER (PARTITION BY l.rank, l.name)
)
SELECT
    g.rank,
    g.kind,
    g.name,
    g.count_per_step,
    g.others_count,
    coalesce(g.is_more AND g.present = g.done_in AND g.done_in >= least(len(z.steps), 3), FALSE) AS is_always_more,
    g.time_ns,
    g.others_ns,
    CAST(g.excess_ns AS DOUBLE) / len(z.steps) AS excess_ns,
    tw_which_steps(g.steps, z.steps) AS which,
    g.steps,
    h.host_op,
    tw_difference(g.rank, g.kind, g.name, g.count_per_step, g.others_count, g.time_ns, g.others_ns, which, h.host_op, s.unit) AS does
FROM grouped AS g CROSS JOIN sizes AS z CROSS JOIN {{ ref('mean_step') }} AS s
LEFT JOIN hosts AS h ON g.kind = 'idle' AND h.rank = g.rank AND h.name = g.name
