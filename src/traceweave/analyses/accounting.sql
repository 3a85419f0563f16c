-- analysis: accounting | where every nanosecond of each rank's step went: its state, the cause, and who is behind it
-- answers: What is each step made of, why is time lost, and because of whom?
-- topic: time
-- grain: one row per rank, step, state, cause and origin with any time; the same without steps where step is NULL
-- param: window
-- param: queued_ns
-- param: min_gap_ns
-- param: kernel_delay_ns
-- column: rank INTEGER | global rank
-- column: step BIGINT | step number; NULL: the rank's whole span
-- column: state VARCHAR | what ran, the first of these that did: 'compute', 'transfer', 'waiting' (only for other ranks), 'communication' (waiting or transfer, not known which), 'copy'; 'idle': nothing
-- column: cause VARCHAR | of 'idle' as in idle_causes, of 'waiting' what made the origin late, as in stragglers in this step; NULL: there is none, or it is not known
-- column: cause_detail VARCHAR | of 'waiting' as in stragglers
-- column: origin_rank INTEGER | of 'waiting' the rank that was waited for, through chains of groups (late_rank of exposed_comm); NULL: several came late together, or the clocks cannot tell
-- column: time_ns BIGINT | how long: the rows of a rank and step add up to window_ns
-- column: window_ns BIGINT | length of the step, as in breakdown
-- column: window_share DOUBLE | time_ns / window_ns, 0 to 1
-- order: rank, step NULLS FIRST, time_ns DESC, state, cause NULLS LAST, origin_rank NULLS LAST
-- caveat: states are those of breakdown, compute before communication before copies; what each idle time is due to is idle_causes'.
-- caveat: time in which a rank waits for several that are late together has no origin: stragglers shares it among them.
WITH parts AS MATERIALIZED (
    FROM {{ ref('partition') }} WHERE window_ns > 0
),
-- for whom each rank waited, in each step and in all
late AS (
    SELECT rank, step, late_rank, sum(late_ns) AS late_ns
    FROM (
        SELECT rank, step, late_rank, late_ns FROM {{ ref('exposed_comm', queued_ns=param('queued_ns')) }} WHERE late_ns > 0
        UNION ALL
        SELECT rank, NULL, late_rank, late_ns FROM {{ ref('exposed_comm', queued_ns=param('queued_ns')) }} WHERE late_ns > 0
    )
    GROUP BY ALL
),
-- calls are of the step that issued them, and windows of what ran in them: no more is given to origins than was waited
given AS MATERIALIZED (
    SELECT
        w.rank, w.step, w.window_ns, l.late_rank AS origin_rank,
        CAST(floor(l.late_ns * least(w.time_ns / sum(l.late_ns) OVER (PARTITION BY w.rank, w.step), 1)) AS BIGINT) AS time_ns
    FROM parts AS w JOIN late AS l ON l.rank = w.rank AND l.step IS NOT DISTINCT FROM w.step
    WHERE w.state = 'waiting'
),
waiting AS (
    FROM given
    UNION ALL
    SELECT w.rank, w.step, w.window_ns, NULL, w.time_ns - coalesce(g.time_ns, 0)
    FROM parts AS w
    LEFT JOIN (SELECT rank, step, sum(time_ns) AS time_ns FROM given GROUP BY rank, step) AS g
        ON g.rank = w.rank AND g.step IS NOT DISTINCT FROM w.step
    WHERE w.state = 'waiting'
),
reasons AS (
    SELECT rank, step, cause, cause_detail
    FROM {{ ref('stragglers', per='step', queued_ns=param('queued_ns'), min_gap_ns=param('min_gap_ns'), kernel_delay_ns=param('kernel_delay_ns')) }}
    WHERE step IS NOT NULL
    UNION ALL
    SELECT rank, NULL, cause, cause_detail
    FROM {{ ref('stragglers', queued_ns=param('queued_ns'), min_gap_ns=param('min_gap_ns'), kernel_delay_ns=param('kernel_delay_ns')) }}
),
divided AS (
    SELECT rank, step, window_ns, state, cause, NULL AS cause_detail, NULL AS origin_rank, time_ns FROM parts WHERE state <> 'waiting'
    UNION ALL
    SELECT w.rank, w.step, w.window_ns, 'waiting', r.cause, r.cause_detail, w.origin_rank, w.time_ns
    FROM waiting AS w LEFT JOIN reasons AS r ON r.rank = w.origin_rank AND r.step IS NOT DISTINCT FROM w.step
)
SELECT
    rank,
    step,
    state,
    cause,
    cause_detail,
    CAST(origin_rank AS INTEGER) AS origin_rank,
    CAST(time_ns AS BIGINT) AS time_ns,
    window_ns,
    tw_ratio(time_ns, window_ns) AS window_share
FROM divided
WHERE time_ns > 0
ORDER BY rank, step NULLS FIRST, time_ns DESC, state, cause NULLS LAST, origin_rank NULLS LAST
