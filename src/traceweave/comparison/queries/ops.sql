-- Operators and ranges of the host (annotations, NVTX) by name and input shapes, per step: their time on the host without what
-- was recorded inside them. $steps: the steps that count, on the ranks that have them; NULL: the whole recording.
WITH counted AS NOT MATERIALIZED (
    SELECT * EXCLUDE (name), item AS name, hash(item, kind, step, arguments_hash) AS alike
    FROM (SELECT *, tw_unhashed(name) AS item FROM host_ops)
    WHERE kind IN ('op', 'nvtx', 'annotation') AND rank IS NOT NULL
        -- steps and collectives have tables of their own
        AND (kind <> 'annotation' OR NOT starts_with(name, 'ProfilerStep#')
            AND coalesce({{ names('collective_ranges', 'name') }} NOT IN ('device', 'host', 'issue'), TRUE))
        AND ($steps IS NULL OR list_contains($steps, step) AND (rank, step) IN (SELECT (rank, step) FROM steps))
),
-- what an operator starts may last longer than it does, as gloo's sends do
inside AS (
    SELECT p.alike, sum(greatest(least(c.end_ns, p.end_ns) - c.start_ns, 0)) AS inside_ns
    FROM host_ops AS c JOIN counted AS p ON p.op_id = c.parent_id
    GROUP BY p.alike
),
-- calls with the same arguments have the same shapes, which are long to look for in each
shaped AS (
    SELECT
        name, kind, any_value(args) FILTER (arguments_hash IS NOT NULL) AS args,
        CASE WHEN $steps IS NOT NULL THEN step END AS step, alike,
        count(*) AS calls,
        sum(duration_ns) AS total_ns
    FROM counted
    GROUP BY name, kind, step, arguments_hash, alike
)
SELECT
    name AS item,
    args ->> '$."Input Dims"' AS shape,
    kind AS class,
    step,
    CAST(sum(calls) AS BIGINT) AS calls,
    CAST(sum(total_ns - coalesce(inside_ns, 0)) AS BIGINT) AS total_ns
FROM shaped LEFT JOIN inside USING (alike)
GROUP BY item, shape, class, step
