-- shared: exposed_lane | stretches of calls in which no compute ran, each with the cause of most of it, as pages draw them beside gaps
-- grain: one row per rank, step, call and stretch
-- column: rank INTEGER | global rank
-- column: step BIGINT | as in exposed_causes
-- column: start_ns BIGINT | start, common clock
-- column: duration_ns BIGINT | length
-- column: cause VARCHAR | 'exposed: ' and the cause of most of it
-- column: what VARCHAR | which operation, and what is known of the cause
SELECT
    s.rank, s.step, s.start_ns, s.duration_ns,
    'exposed: ' || s.cause AS cause,
    concat_ws(', ', coalesce(k.op, 'unknown operation'), s.cause_detail) AS what
FROM (
    FROM {{ ref('exposed_stretches') }}
    QUALIFY row_number() OVER (PARTITION BY rank, op_id, start_ns ORDER BY time_ns DESC, cause) = 1
) AS s
LEFT JOIN collectives AS k USING (call_id)
ORDER BY s.rank, s.start_ns
