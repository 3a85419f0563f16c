-- analysis: health | the most important answers on one screen
-- answers: How is this run doing: its steps, its time budget, its slowest rank and collective, its memory, its clocks?
-- topic: overview
-- grain: one row per answer, the most important first
-- first: 10
-- param: replay_ops
-- column: answer VARCHAR | what the row is about
-- column: value DOUBLE | the number; NULL: see verdict
-- column: unit VARCHAR | its unit: 'ms', '%', 'GB', 'us', 'x' (times)
-- column: verdict VARCHAR | what it says, in plain words
-- column: rank INTEGER | the rank it is about; NULL: all, or none in particular
-- column: step BIGINT | the step it is about; NULL: all, or none in particular
-- column: proof VARCHAR | the analysis that shows the rows behind it: traceweave analyze <proof>
-- order: line
-- caveat: fixes and costs are of the step time, the mean over the steps and ranks (length_ns of steps); where no step is marked, of the mean recording.
-- caveat: a rank without GPU ops, in a run where others have some, is left out of all numbers; the answer 'no GPU work' counts such ranks.
-- caveat: the parts of the time budget are shares of the mean window of breakdown, idle time split by idle_causes; they add up to 100 %.
-- caveat: 'fix 1' to 'fix 3' are what the mean step gains by the best fixes of fixes, each after those before it; what gains less than 1 % is left out.
-- caveat: recording comes first: whether the records are fit to judge; its value is the mean recording where no step is marked.
-- caveat: findings says what each of these costs and what to try.
WITH totals AS MATERIALIZED (
    SELECT
        count(*) AS windows,
        sum(window_ns) AS window_ns,
        sum(comm_ns) AS comm_ns,
        count(DISTINCT rank) AS ranks,
        CASE WHEN any_value(has_steps) THEN 'step' ELSE 'recording' END AS unit,
        any_value(has_steps) AS has_steps
    FROM {{ ref('budget') }}
    HAVING count(*) > 0
),
mfu AS (
    SELECT mfu, dtype, covered_share FROM {{ ref('mfu') }} WHERE rank IS NULL
),
latest AS (
    SELECT rank, cost_ns, is_straggler, chance FROM {{ ref('blame') }} WHERE cost_ns > 0 ORDER BY cost_ns DESC, rank LIMIT 1
),
shared AS (
    SELECT (SELECT count(*) FROM ranks) > 1 AND unmatched = calls AS is_unmatched, calls, shared AS instances
    FROM {{ ref('matching', per='run') }}
),
tail AS (
    SELECT op, duration_p50_ns, duration_p99_ns, tail_ratio, slowest_rank, slowest_step
    FROM {{ ref('tails') }}
    WHERE instances >= 5 AND tail_ratio IS NOT NULL AND op <> 'send_recv'
    ORDER BY (duration_p99_ns - duration_p50_ns) * calls DESC, op
    LIMIT 1
),
recorded AS (
    SELECT count(*) AS ranks, max(world_size) AS world_size FROM ranks HAVING count(*) > 0
),
lost AS (
    SELECT
        count(*) FILTER (status <> 'ok') AS files,
        count(*) FILTER (events_skipped IS NULL) AS uncounted
    FROM {{ ref('files') }}
),
hung AS (
    FROM {{ rule('hang') }} QUALIFY row_number() OVER (ORDER BY ranks NULLS LAST, group_id) = 1
),
judged AS (
    SELECT
        first(message ORDER BY is_unknown DESC, kind, ranks) AS message,
        first(ranks ORDER BY is_unknown DESC, kind, ranks) AS ranks,
        first(worst ORDER BY is_unknown DESC, kind, ranks) AS worst,
        count(*) AS kinds
    FROM {{ ref('doubted') }}
    WHERE ranks IS NOT NULL
    HAVING (SELECT count(*) FROM ranks) > 0
),
rows AS (
    SELECT 0 AS line, 'hang' AS answer, NULL AS value, '' AS unit, evidence AS verdict,
        CASE WHEN len(ranks) = 1 THEN ranks[1] END AS rank, NULL AS step, 'hangs' AS proof
    FROM hung
    UNION ALL
    SELECT 0.5, 'recording', CASE WHEN NOT t.has_steps THEN t.window_ns / t.windows / 1e6 END, CASE WHEN NOT t.has_steps THEN 'ms' ELSE '' END,
        CASE WHEN NOT t.has_steps THEN 'mean over ' || tw_many(t.ranks, 'rank') || '; no steps marked; ' ELSE '' END
        || CASE WHEN j.kinds = 0 THEN 'fit to judge' ELSE tw_ranks(j.ranks) || coalesce(format(', rank {} most', j.worst), '') || ': ' || j.message END
        || CASE WHEN j.kinds > 1 THEN format('; {} more', j.kinds - 1) ELSE '' END,
        CASE WHEN len(j.ranks) = 1 THEN j.ranks[1] END, NULL, CASE WHEN j.kinds = 0 AND NOT t.has_steps THEN 'breakdown' ELSE 'recording' END
    FROM judged AS j LEFT JOIN totals AS t ON TRUE
    UNION ALL
    SELECT 0.5, 'recording', NULL, '', evidence, NULL, NULL, 'files'
    FROM {{ rule('nothing_to_measure') }}
    WHERE NOT EXISTS (FROM ranks)
    UNION ALL
    SELECT 1 AS line, 'step time' AS answer, s.mean_ns / 1e6 AS value, 'ms' AS unit,
        -- of two steps the mean is the median
        CASE WHEN s.steps = 1 THEN 'one step' ELSE format('mean of {}', tw_many(s.steps, 'step')) END
            || CASE WHEN s.steps > 2 THEN format('; median {}', tw_time(s.p50_ns)) ELSE '' END
        || coalesce('; no range marks them: inferred from ' || s.inferred_from, '')
        || CASE WHEN s.source = 'host' AND s.device_min_ns IS NOT NULL
            THEN format('; by host ranges, as GPU windows vary from {} to {}', tw_time(s.device_min_ns), tw_time(s.device_max_ns))
            ELSE '' END
        || coalesce(format('; before the recording {}', tw_time(b.ns)), '') AS verdict,
        NULL AS rank, NULL AS step, 'steps' AS proof
    FROM {{ ref('steadiness') }} AS s CROSS JOIN totals
    CROSS JOIN (SELECT CAST(median(TRY_CAST(value AS BIGINT)) AS BIGINT) AS ns FROM job_settings WHERE name = 'unprofiled_step_ns') AS b
    UNION ALL
    SELECT CASE WHEN p95_ns > 1.1 * p50_ns THEN 2 ELSE 31.5 END, 'jitter', 100.0 * (p95_ns - p50_ns) / p50_ns, '%',
        CASE WHEN p95_ns > 1.1 * p50_ns THEN 'unsteady' ELSE 'steady' END || ', p95 above p50; longest ' || tw_time(max_ns) || CASE WHEN (SELECT count(*) FROM ranks) > 1 THEN ', mean of ranks' ELSE '' END, rank, longest, 'steps'
    FROM {{ ref('steadiness') }}
    WHERE steps > 2
    UNION ALL
    SELECT CASE WHEN m.mfu IS NULL THEN 37 ELSE 20 END, 'MFU', 100 * m.mfu, '%',
        CASE
            WHEN m.mfu IS NULL THEN 'not computable: see mfu'
            -- the rest may be elementwise work, which has no product in it; where it is most of the time, products are missing
            WHEN m.covered_share < 0.5 THEN format('at least: {} of compute is counted', tw_percent(m.covered_share))
            ELSE 'of the GPU''s peak in ' || m.dtype
        END, NULL, NULL, 'mfu'
    FROM mfu AS m CROSS JOIN totals
    UNION ALL
    SELECT 4 + f.n / 100, 'fix ' || f.n, f.gain_ns / 1e6, 'ms',
        f.title || ': leaves ' || tw_time(f.step_ns)
        || CASE WHEN f.n > 1 AND f.gain_ns > 1.1 * f.alone_ns THEN format('; alone it gains {}', CASE WHEN f.alone_ns = 0 THEN 'nothing' ELSE tw_time(f.alone_ns) END) ELSE '' END,
        w.rank, NULL, 'fixes'
    FROM {{ ref('fixes', replay_ops=param('replay_ops')) }} AS f
    CROSS JOIN LATERAL (SELECT CASE WHEN len(f.ranks) = 1 THEN f.ranks[1] END AS rank) AS w
    CROSS JOIN totals AS t
    WHERE f.n BETWEEN 1 AND 3 AND f.gain_ns >= 0.01 * t.window_ns / t.windows
    UNION ALL
    SELECT 4, 'fix 1', NULL, 'ms', 'not replayed: see fixes', NULL, NULL, 'fixes'
    FROM {{ ref('fixes', replay_ops=param('replay_ops')) }}
    WHERE n = 0 AND step_ns IS NULL
    UNION ALL
    -- what no scenario says is among no fixes
    SELECT 5, 'largest finding', l.bound_ns / 1e6, 'ms', 'at most: ' || l.title || '; it cannot be replayed', NULL, NULL, 'findings'
    FROM (SELECT * FROM {{ ref('found') }} WHERE bound_ns IS NOT NULL ORDER BY bound_ns DESC, rule LIMIT 1) AS l CROSS JOIN totals AS t
    WHERE l.scenario IS NULL AND l.ceiling IS NULL AND l.bound_ns >= 0.05 * t.window_ns / t.windows
    UNION ALL
    SELECT line, answer, value, unit, verdict, NULL, NULL, proof FROM {{ ref('budget_answers') }}
    UNION ALL
    SELECT 11.5, 'worst straggler', l.cost_ns / 1e6, 'ms',
        CASE
            WHEN s.is_unmatched THEN format('none of {} could be matched over the ranks', tw_many(s.calls, 'call'))
            WHEN s.instances = 0 THEN 'no collective seen on two ranks'
            WHEN l.rank IS NULL AND e.staged_ns > 0 THEN 'stages wait for each other: see pipeline'
            WHEN l.rank IS NULL THEN 'no rank is late beyond clock noise'
            WHEN g.ranks IS NOT NULL THEN format('per {} for rank {} alone; {} are late together', t.unit, l.rank, tw_ranks(g.ranks))
            WHEN f.rank IS NOT NULL THEN format('per {} for rank {}, in {}', t.unit, l.rank, tw_steps(f.steps))
            WHEN coalesce(l.chance > {{ param('straggler_chance') }}, TRUE) THEN format('per {} for rank {}, maybe by chance', t.unit, l.rank)
            ELSE format('per {} for rank {}, {} of it', t.unit, l.rank, tw_percent(l.cost_ns / m.length_ns))
                || CASE WHEN l.is_straggler THEN '' ELSE '; others are equally late, in turn' END
        END,
        l.rank, NULL, CASE WHEN s.is_unmatched THEN 'matching' WHEN l.rank IS NULL AND e.staged_ns > 0 THEN 'pipeline' ELSE 'stragglers' END
    FROM totals AS t CROSS JOIN shared AS s LEFT JOIN latest AS l ON TRUE LEFT JOIN {{ ref('late_together') }} AS g ON list_contains(g.ranks, l.rank)
    LEFT JOIN {{ ref('late_in_few') }} AS f ON f.rank = l.rank LEFT JOIN {{ ref('exposure') }} AS e ON TRUE LEFT JOIN {{ ref('mean_step') }} AS m ON TRUE
    WHERE t.comm_ns > 0
    UNION ALL
    SELECT 32, 'longest tail', duration_p99_ns / 1e6, 'ms',
        format('p99 of {}, {} x median', op, tw_digits(tail_ratio)), slowest_rank, slowest_step, 'tails'
    FROM tail
    UNION ALL
    SELECT line, answer, value, unit, verdict, rank, NULL, proof FROM {{ ref('resource_answers') }}
    UNION ALL
    SELECT CASE WHEN ranks < world_size OR files > 0 THEN 0.6 ELSE 35 END, 'ranks', ranks, '',
        CASE WHEN ranks < world_size THEN format('of {}: the others are not seen', world_size) WHEN world_size IS NULL THEN 'no trace says of how many' ELSE 'all of the job' END
        || CASE WHEN files > 0 THEN format('; {} incomplete', tw_many(files, 'file')) ELSE '' END
        || CASE WHEN uncounted > 0 THEN ', how much is missing is not known' ELSE '' END,
        NULL, NULL, 'pop'
    FROM recorded CROSS JOIN lost
    UNION ALL
    SELECT 0.7, 'no GPU work', count(*), '',
        CASE WHEN sum(coalesce(launches, unread_tasks, 0)) > 0 THEN 'recorded, though some was done: nothing is known of its time'
            ELSE 'ranks left out of all numbers' END,
        CASE WHEN count(*) = 1 THEN min(rank) END, NULL, 'breakdown'
    FROM ranks
    WHERE rank IN (SELECT unnest(ranks) FROM {{ rule('nothing_to_measure') }})
    HAVING sum(coalesce(launches, unread_tasks, 0)) > 0 OR EXISTS (FROM tw_timelines WHERE timeline = 'gpu') AND count(*) > 0
)
SELECT
    answer,
    CAST(value AS DOUBLE) AS value,
    unit,
    verdict,
    CAST(rank AS INTEGER) AS rank,
    CAST(step AS BIGINT) AS step,
    proof
FROM rows
ORDER BY line
