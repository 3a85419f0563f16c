-- shared: first_change | what to change first for more overlap: what gains most by replay, else what the largest part of exposed communication asks for
-- grain: one row; none without exposed communication
-- param: min_share
-- column: scenario VARCHAR | for what-if; NULL: it cannot be said so
-- column: said VARCHAR | in words
WITH changes AS (
    FROM (VALUES
        ('overlap=full', 'Begin collectives when their inputs are there: launched earlier, in queues of their own'),
        ('stream=own', 'Give collectives a stream of their own (async_op=True), with an event where compute needs the result'),
        ('prefetch=1', 'Gather the parameters of the next unit during the compute of this one'),
        ('kind=launch times=0', 'Hosts that launch earlier: see launches'),
        ('kind=sync times=0', 'No synchronizing calls: see syncs'),
        ('kind=compute contention=none', 'Fewer SMs for communication (NCCL_MAX_CTAS), or other compute beside it: see contention')
    ) AS known(scenario, said)
    UNION ALL
    SELECT scenario, 'Smaller buckets of gradients (bucket_cap_mb)' FROM {{ ref('smaller_buckets') }}
),
best AS (
    SELECT c.scenario, format('{}; by replay at most {} per {}', c.said, tw_time(g.alone_ns), s.unit) AS said
    FROM changes AS c JOIN {{ ref('overlap_gains') }} AS g USING (scenario) CROSS JOIN {{ ref('mean_step') }} AS s
    WHERE g.alone_ns >= {{ param('min_share') }} * s.step_ns
    ORDER BY g.alone_ns DESC, c.scenario
    LIMIT 1
),
parts AS (
    SELECT
        sum(waiting_ns) AS waiting_ns, sum(movable_ns) AS movable_ns, sum(reorder_ns) AS reorder_ns, sum(never_ns) AS never_ns,
        greatest(sum(waiting_ns), sum(movable_ns), sum(reorder_ns), sum(never_ns)) AS most_ns
    FROM {{ ref('exposed_parts') }}
    HAVING sum(exposed_ns) > 0
)
SELECT
    b.scenario,
    coalesce(b.said, CASE
        WHEN p.most_ns = p.waiting_ns THEN 'Ranks wait for each other: see stragglers'
        WHEN p.most_ns = p.never_ns THEN 'Send less: the step has no compute left to hide it'
        ELSE coalesce(u.advice, 'Another order, or send less: compute waits for the results at once')
    END) AS said
FROM parts AS p LEFT JOIN best AS b ON TRUE LEFT JOIN {{ ref('unhidden') }} AS u ON u.scope = 'all'
