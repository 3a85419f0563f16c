-- Drawing: what the timeline shows, in numbers: `shown_ops` and `shown_gaps` hold the rows of the queries above. Sums are over
-- the operations launched in the step that lie in the stretch shown, so that work of two streams at once counts twice.
WITH ops AS (
    SELECT
        role,
        rank,
        CAST(sum(ops) AS BIGINT) AS ops,
        CAST(sum(duration_ns) FILTER (category = 'compute') AS BIGINT) AS compute_ns,
        CAST(sum(wait_ns) AS BIGINT) AS wait_ns,
        CAST(sum(duration_ns - wait_ns) AS BIGINT) AS transfer_ns
    FROM shown_ops
    WHERE own
    GROUP BY role, rank
),
gaps AS (
    SELECT
        role,
        rank,
        CAST(sum(duration_ns) AS BIGINT) AS gap_ns,
        max(duration_ns) AS longest_ns,
        arg_max(cause, (duration_ns, -start_ns)) AS cause,
        arg_max(host_op, (duration_ns, -start_ns)) FILTER (host_op IS NOT NULL) AS host_op
    FROM shown_gaps
    GROUP BY role, rank
)
SELECT
    s.step,
    s.role,
    o.rank,
    r.why,
    o.ops,
    o.compute_ns,
    o.wait_ns,
    o.transfer_ns,
    g.gap_ns,
    g.longest_ns,
    g.cause,
    g.host_op
FROM ops AS o
JOIN shown_steps AS s USING (role)
JOIN shown_ranks AS r ON r.rank = o.rank
LEFT JOIN gaps AS g ON g.role = o.role AND g.rank = o.rank
ORDER BY s.role DESC, o.rank
