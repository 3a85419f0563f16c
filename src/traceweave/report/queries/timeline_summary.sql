-- Drawing: the steps and ranks of the timeline in numbers: their time as `breakdown` has it, how many operations are drawn
-- (`shown_ops`), and the longest gap (`shown_gaps`).
WITH ops AS (
    SELECT role, rank, CAST(sum(ops) AS BIGINT) AS ops
    FROM shown_ops
    WHERE own
    GROUP BY role, rank
),
gaps AS (
    SELECT
        role,
        rank,
        max(duration_ns) AS longest_ns,
        arg_max(cause, (duration_ns, -start_ns)) AS cause,
        arg_max(what, (duration_ns, -start_ns)) FILTER (what IS NOT NULL) AS host_op
    FROM shown_gaps
    WHERE NOT starts_with(cause, 'exposed')
    GROUP BY role, rank
)
SELECT
    s.step,
    s.role,
    o.rank,
    r.why,
    o.ops,
    b.compute_ns,
    b.exposed_wait_ns,
    b.exposed_transfer_ns,
    b.exposed_unsplit_ns,
    b.exposed_memory_ns,
    b.idle_ns,
    g.longest_ns,
    g.cause,
    g.host_op
FROM ops AS o
JOIN shown_steps AS s USING (role)
JOIN shown_ranks AS r ON r.rank = o.rank
JOIN breakdown AS b ON b.rank = o.rank AND b.step IS NOT DISTINCT FROM s.step
LEFT JOIN gaps AS g ON g.role = o.role AND g.rank = o.rank
ORDER BY s.role DESC, o.rank
