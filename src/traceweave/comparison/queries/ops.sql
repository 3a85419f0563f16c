-- Operators and ranges of the host (annotations, NVTX) by name and input shapes, per step: their time on the host without what
-- was recorded inside them. $steps: the steps that count, on the ranks that have them; NULL: the whole recording.
WITH inside AS (
    -- what an operator starts may last longer than it does, as gloo's sends do
    SELECT c.parent_id, sum(greatest(least(c.end_ns, p.end_ns) - c.start_ns, 0)) AS inside_ns
    FROM host_ops AS c JOIN host_ops AS p ON p.op_id = c.parent_id
    GROUP BY c.parent_id
),
-- calls with the same arguments have the same shapes, which are long to look for in each
alike AS (
    SELECT
        o.name, o.kind, any_value(o.args) FILTER (o.arguments_hash IS NOT NULL) AS args,
        CASE WHEN $steps IS NOT NULL THEN o.step END AS step,
        count(*) AS calls,
        sum(o.duration_ns - coalesce(i.inside_ns, 0)) AS total_ns
    FROM host_ops AS o LEFT JOIN inside AS i ON i.parent_id = o.op_id
    WHERE o.kind IN ('op', 'nvtx', 'annotation') AND o.rank IS NOT NULL
        -- steps and collectives have tables of their own
        AND (o.kind <> 'annotation' OR NOT starts_with(o.name, 'ProfilerStep#')
            AND coalesce({{ names('collective_ranges', 'o.name') }} NOT IN ('device', 'host', 'issue'), TRUE))
        AND ($steps IS NULL OR list_contains($steps, o.step) AND (o.rank, o.step) IN (SELECT (rank, step) FROM steps))
    GROUP BY o.name, o.kind, o.step, o.arguments_hash
)
SELECT
    name AS item,
    args ->> '$."Input Dims"' AS shape,
    kind AS class,
    step,
    CAST(sum(calls) AS BIGINT) AS calls,
    CAST(sum(total_ns) AS BIGINT) AS total_ns
FROM alike
GROUP BY ALL
