-- shared: late_origins | for whom others waited in collectives to which ranks come that had been held up in another group
-- grain: one row per collective whose last rank's lateness goes back mostly to another rank, or that of another mostly to the last
-- needs: ref('wait_origins')
-- column: collective_id BIGINT | the instance
-- column: origin INTEGER | the rank that most of the last one's lateness goes back to: it may be the last one itself
-- column: since_ns BIGINT | when the last of those arrived whom another reason made late, common clock: from then on all waited for this rank
-- column: is_known BOOLEAN | that is longer before the last arrival than the clock resolution
WITH main AS (
    SELECT collective_id, rank, arg_max(origin, (share, -origin)) AS origin
    FROM {{ ref('wait_origins') }}
    GROUP BY collective_id, rank
),
lasts AS (
    SELECT i.collective_id, o.origin, i.awaited_ns, i.resolution_ns
    FROM collective_instances AS i LEFT JOIN main AS m ON m.collective_id = i.collective_id AND m.rank = i.last_rank
    CROSS JOIN LATERAL (SELECT coalesce(m.origin, i.last_rank) AS origin) AS o
    -- whom it held up comes with it, first or last
    WHERE EXISTS (FROM main AS h WHERE h.collective_id = i.collective_id AND h.origin = o.origin AND h.rank <> h.origin)
),
others AS (
    SELECT l.collective_id, max(w.start_ns) AS since_ns
    FROM lasts AS l
    JOIN collective_waits AS w USING (collective_id)
    LEFT JOIN main AS m ON m.collective_id = w.collective_id AND m.rank = w.rank
    -- who comes after a root is waited for by nobody
    WHERE coalesce(m.origin, w.rank) <> l.origin AND w.start_ns <= l.awaited_ns
    GROUP BY l.collective_id
)
SELECT
    l.collective_id,
    l.origin,
    o.since_ns,
    coalesce(l.awaited_ns > o.since_ns AND l.awaited_ns - o.since_ns >= l.resolution_ns, FALSE) AS is_known
FROM lasts AS l JOIN others AS o USING (collective_id)
