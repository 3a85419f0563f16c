-- analysis: slow_steps | the steps that took longer than usual, and what grew in them
-- answers: Which steps are outliers, on which rank, and is it compute, communication, copies or idle time that grew?
-- topic: time
-- grain: one row per rank and step that is slow
-- page: figure-budget-heat
-- param: min_excess_share DOUBLE = 0.1 | a step is slow if it took longer than the rank's median step by this share of it
-- param: window VARCHAR = 'device' | how a step is measured, as in breakdown
-- choice: window 'device' | from the step's first GPU op to the next step's first
-- choice: window 'host' | the step's range on the host
-- param: min_gap_ns
-- param: kernel_delay_ns
-- column: rank INTEGER | global rank
-- column: step BIGINT | step number
-- column: window_ns BIGINT | length of the step
-- column: median_ns BIGINT | median length of the rank's steps (nearest rank: one of the values)
-- column: excess_ns BIGINT | window_ns - median_ns
-- column: excess_share DOUBLE | excess_ns / median_ns
-- column: grew VARCHAR | the part that is farthest above its own median: 'compute', 'exposed_comm', 'exposed_memory', or idle time by cause: 'idle: launch_bound', 'idle: sync' ...; 'idle: short' is the time in gaps too short to analyze
-- column: grew_ns BIGINT | by how much
-- column: grew_share DOUBLE | grew_ns / excess_ns; above 1 if other parts shrank
-- column: compute_ns BIGINT | time in which compute ran, minus its median over the rank's steps
-- column: exposed_comm_ns BIGINT | the same for communication that no compute hid
-- column: exposed_memory_ns BIGINT | the same for copies that nothing hid
-- column: idle_ns BIGINT | the same for the time in which nothing ran
-- column: slow_ranks BIGINT | ranks on which this step is slow
-- main: rank, step, window_ns, excess_ns, excess_share, grew, grew_ns, grew_share, slow_ranks
-- order: excess_ns DESC, rank, step
-- caveat: a rank with fewer than three steps has no rows.
-- caveat: where ranks wait for each other, one slow rank slows the step of all: exposed_comm grows on the others, something else on the slow rank. stragglers distinguishes them.
-- caveat: gaps shorter than min_gap_ns are not analyzed: 'idle: short'.
-- caveat: a step's device window ends with the first GPU op of the next one: a delay of that op, such as loading its batch, counts in the previous step. Analyses of host ranges, such as data_loading, count it in the step itself.
WITH parts AS MATERIALIZED (
    SELECT rank, step, window_ns, compute_ns, exposed_comm_ns, exposed_memory_ns, idle_ns
    FROM {{ ref('breakdown', window=param('window')) }}
    WHERE step IS NOT NULL
    QUALIFY count(*) OVER (PARTITION BY rank) > 2
),
medians AS (
    SELECT
        rank,
        tw_percentile(window_ns, 0.5) AS window_ns,
        tw_percentile(compute_ns, 0.5) AS compute_ns,
        tw_percentile(exposed_comm_ns, 0.5) AS exposed_comm_ns,
        tw_percentile(exposed_memory_ns, 0.5) AS exposed_memory_ns,
        tw_percentile(idle_ns, 0.5) AS idle_ns
    FROM parts
    GROUP BY rank
),
slow AS MATERIALIZED (
    SELECT
        p.rank,
        p.step,
        p.window_ns,
        m.window_ns AS median_ns,
        p.window_ns - m.window_ns AS excess_ns,
        p.compute_ns - m.compute_ns AS compute_ns,
        p.exposed_comm_ns - m.exposed_comm_ns AS exposed_comm_ns,
        p.exposed_memory_ns - m.exposed_memory_ns AS exposed_memory_ns,
        p.idle_ns - m.idle_ns AS idle_ns
    FROM parts AS p JOIN medians AS m USING (rank)
    WHERE p.window_ns > m.window_ns AND p.window_ns - m.window_ns >= {{ param('min_excess_share') }} * m.window_ns
),
idles AS MATERIALIZED (
    SELECT rank, step, cause, idle_ns
    FROM {{ ref('idle_causes', window=param('window'), min_gap_ns=param('min_gap_ns'), kernel_delay_ns=param('kernel_delay_ns')) }}
    WHERE step IS NOT NULL
),
-- a step without gaps of a cause has none of it: that counts in the median
usual AS (
    SELECT k.rank, k.cause, tw_percentile(coalesce(i.idle_ns, 0), 0.5) AS idle_ns
    FROM (SELECT DISTINCT rank, cause FROM idles) AS k
    JOIN parts AS p USING (rank)
    LEFT JOIN idles AS i ON i.rank = k.rank AND i.cause = k.cause AND i.step = p.step
    GROUP BY k.rank, k.cause
),
grown AS (
    SELECT s.rank, s.step, 'idle: ' || u.cause AS part, coalesce(i.idle_ns, 0) - u.idle_ns AS grew_ns
    FROM slow AS s
    JOIN usual AS u USING (rank)
    LEFT JOIN idles AS i ON i.rank = s.rank AND i.cause = u.cause AND i.step = s.step
    UNION ALL
    SELECT rank, step, 'compute', compute_ns FROM slow
    UNION ALL
    SELECT rank, step, 'exposed_comm', exposed_comm_ns FROM slow
    UNION ALL
    SELECT rank, step, 'exposed_memory', exposed_memory_ns FROM slow
),
most AS (
    SELECT rank, step, part, grew_ns
    FROM grown
    QUALIFY row_number() OVER (PARTITION BY rank, step ORDER BY grew_ns DESC, part) = 1
)
SELECT
    s.rank,
    s.step,
    s.window_ns,
    s.median_ns,
    s.excess_ns,
    tw_ratio(s.excess_ns, s.median_ns) AS excess_share,
    m.part AS grew,
    m.grew_ns,
    tw_ratio(m.grew_ns, s.excess_ns) AS grew_share,
    s.compute_ns,
    s.exposed_comm_ns,
    s.exposed_memory_ns,
    s.idle_ns,
    count(*) OVER (PARTITION BY s.step) AS slow_ranks
FROM slow AS s LEFT JOIN most AS m USING (rank, step)
ORDER BY s.excess_ns DESC, s.rank, s.step
