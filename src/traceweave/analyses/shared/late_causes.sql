-- shared: late_causes | what most of a rank's lateness is made of
-- grain: one row per rank, or per rank and step, that did anything longer than the others on its way to a collective
-- needs: ref('excesses')
-- param: per VARCHAR = 'run' | what one row covers
-- choice: per 'run' | the whole run; step is NULL
-- choice: per 'step' | one step of the rank; step is NULL for what it did outside any step
-- column: rank INTEGER | global rank
-- column: step BIGINT | step of the rank; NULL: all of them
-- column: late_ns BIGINT | its delays * the ranks that waited
-- column: own_cause VARCHAR | what the rank itself did longer: the cause but for late_end; this and the two below NULL: nothing
-- column: begun_cause VARCHAR | own_cause, but for other_group, if that is a tenth of late_ns at least
-- column: own_detail VARCHAR | the detail of that
-- column: own_share DOUBLE | its part of all causes
-- column: is_end BOOLEAN | the cause is late_end
-- column: cause VARCHAR | as in stragglers; NULL: nothing took longer
-- column: cause_detail VARCHAR | as in stragglers
-- column: excess_ns DOUBLE | how much longer that took * the ranks that waited
-- column: cause_share DOUBLE | that / the same of all causes
WITH summed AS (
    SELECT
        rank,
        CASE WHEN {{ param('per') }} = 'step' THEN step END AS at_step,
        CAST(sum(delay_ns * waiting_ranks) AS BIGINT) AS late_ns,
        sum(compute_ns) AS own_compute_ns,
        sum(waiting_ranks * compute_ns) AS "compute",
        sum(waiting_ranks * (launch_ns + sync_ns + allocator_ns + code_ns)) AS host_bound,
        sum(waiting_ranks * loading_ns) AS data_loading,
        sum(waiting_ranks * copies_ns) AS copies,
        sum(waiting_ranks * comm_ns) AS other_group,
        sum(waiting_ranks * device_ns) AS device_delay,
        sum(waiting_ranks * other_ns) AS unknown_idle,
        sum(waiting_ranks * late_end_ns) AS late_end,
        list_sort([
            {ns: sum(waiting_ranks * launch_ns), cause: 'launch_bound'},
            {ns: sum(waiting_ranks * sync_ns), cause: 'sync'},
            {ns: sum(waiting_ranks * allocator_ns), cause: 'allocator'},
            {ns: sum(waiting_ranks * code_ns), cause: 'module_loading'}
        ])[-1].cause AS gap_cause
    FROM {{ ref('excesses') }}
    GROUP BY rank, at_step
),
-- what it did longer itself, beside that
causes AS (
    SELECT rank, at_step, cause, excess_ns, excess_ns / all_ns AS cause_share,
        arg_max({'cause': cause, 'ns': excess_ns}, excess_ns) FILTER (cause <> 'other_group') OVER (PARTITION BY rank, at_step) AS begun
    FROM (
        SELECT *, sum(excess_ns) OVER (PARTITION BY rank, at_step) AS all_ns
        FROM (
            UNPIVOT summed
            ON "compute", host_bound, data_loading, copies, other_group, device_delay, unknown_idle, late_end
            INTO NAME cause VALUE excess_ns
        )
        WHERE excess_ns > 0
    )
    WHERE cause <> 'late_end'
    QUALIFY row_number() OVER (PARTITION BY rank, at_step ORDER BY excess_ns DESC, cause) = 1
),
-- which kernels took longer than on the ranks that waited, in the same steps
worked AS MATERIALIZED (
    SELECT rank, coalesce(step, -1) AS step, class, sum(duration_ns) AS duration_ns
    FROM gpu_ops
    WHERE category = 'compute' AND rank IN (SELECT rank FROM {{ ref('stretches') }})
    GROUP BY ALL
),
waiters AS (
    SELECT DISTINCT l.rank, o.rank AS waiter
    FROM {{ ref('stretches') }} AS l JOIN {{ ref('stretches') }} AS o USING (collective_id)
    WHERE l.is_last AND NOT o.is_last AND l.rank IN (SELECT rank FROM causes WHERE cause = 'compute')
),
-- one at a time: of both joins at once DuckDB takes all pairs of ranks first
compared AS MATERIALIZED (
    SELECT w.rank, w.step, w.class, w.duration_ns, p.waiter FROM worked AS w JOIN waiters AS p USING (rank)
),
class_excess AS (
    SELECT w.rank, w.step, w.class, w.duration_ns - avg(o.duration_ns) AS excess_ns
    FROM compared AS w JOIN worked AS o ON o.rank = w.waiter AND o.step = w.step AND o.class = w.class
    GROUP BY w.rank, w.step, w.class, w.duration_ns
),
slow_classes AS (
    SELECT rank, CASE WHEN {{ param('per') }} = 'step' THEN nullif(step, -1) END AS at_step, class, sum(excess_ns) AS excess_ns
    FROM class_excess
    GROUP BY rank, at_step, class
    HAVING sum(excess_ns) > 0
    QUALIFY row_number() OVER (PARTITION BY rank, at_step ORDER BY sum(excess_ns) DESC, class) = 1
),
-- where it was held up itself, in the same step or the one before
pulled AS (
    SELECT
        s.rank,
        CASE WHEN {{ param('per') }} = 'step' THEN s.step END AS at_step,
        a.group_id,
        a.last_rank
    FROM (
        SELECT *, unnest([coalesce(step, -1), coalesce(step, -1) - 1]) AS near_step
        FROM {{ ref('stretches') }}
        WHERE is_last AND rank IN (SELECT rank FROM causes WHERE cause = 'other_group')
    ) AS s
    JOIN {{ ref('arrivals') }} AS a
        ON a.rank = s.rank AND coalesce(a.step, -1) = s.near_step AND a.group_id <> s.group_id
        AND a.own_start_ns >= s.from_ns AND a.own_start_ns < s.start_ns
    WHERE NOT a.is_last
    GROUP BY s.rank, at_step, a.group_id, a.last_rank
    QUALIFY row_number() OVER (
        PARTITION BY s.rank, at_step ORDER BY sum(s.waiting_ranks * a.wait_ns) DESC, a.group_id, a.last_rank
    ) = 1
)
SELECT
    z.rank, z.at_step AS step, z.late_ns,
    c.cause AS own_cause,
    CASE WHEN 10 * c.begun.ns >= z.late_ns THEN c.begun.cause END AS begun_cause,
    CASE c.cause
        -- of ranks that take turns within a step, the step has little to show
        WHEN 'compute' THEN CASE WHEN 10 * k.excess_ns >= z.own_compute_ns THEN k.class END
        WHEN 'host_bound' THEN z.gap_cause
        WHEN 'other_group' THEN 'group ' || p.group_id || ', waiting for rank ' || p.last_rank
    END AS own_detail,
    c.cause_share AS own_share,
    greatest(z.late_end, 0) > coalesce(c.excess_ns, 0) AS is_end,
    CASE WHEN is_end THEN 'late_end' ELSE c.cause END AS cause,
    CASE WHEN NOT is_end THEN own_detail END AS cause_detail,
    CASE WHEN is_end THEN z.late_end ELSE c.excess_ns END AS excess_ns,
    CASE WHEN is_end THEN z.late_end / coalesce(c.excess_ns / c.cause_share, z.late_end) ELSE c.cause_share END AS cause_share
FROM summed AS z
LEFT JOIN causes AS c ON c.rank = z.rank AND c.at_step IS NOT DISTINCT FROM z.at_step
LEFT JOIN slow_classes AS k ON k.rank = z.rank AND k.at_step IS NOT DISTINCT FROM z.at_step
LEFT JOIN pulled AS p ON p.rank = z.rank AND p.at_step IS NOT DISTINCT FROM z.at_step
