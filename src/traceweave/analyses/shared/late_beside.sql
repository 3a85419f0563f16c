-- shared: late_beside | ranks that come late together, or else the one that others wait for next, behind stragglers: what it is late the wait for those hides
-- grain: one row; none where there are no such ranks
-- param: warning_share
-- param: straggler_chance
-- column: ranks BIGINT[] | late_together; or one: others wait for it longer than for all the rest, stragglers apart, in more steps than by chance, and for something that it does longer; those that come first warning_share of the step (longest_ns of turns)
-- column: steps BIGINT | steps in which others wait for them longer than for any other rank, stragglers apart
-- column: of_steps BIGINT | steps in which any rank waits for these
-- column: behind BIGINT[] | the stragglers that it comes before; NULL: they are late together
-- column: does VARCHAR | what such a one does longer; NULL: of others
-- column: cause VARCHAR | as in stragglers, if that says which; NULL of others
WITH told AS (
    SELECT list(CAST(rank AS BIGINT) ORDER BY rank) AS ranks FROM {{ ref('blame') }} WHERE is_straggler HAVING count(*) > 0
),
waits AS (
    SELECT w.* FROM {{ ref('late_waits') }} AS w CROSS JOIN told AS t WHERE NOT list_contains(t.ranks, w.rank)
),
counted AS (
    SELECT
        CAST(rank AS BIGINT) AS rank, sum(wait_ns) AS late_ns, count(*) FILTER (is_longest) AS steps,
        2 * late_ns > sum(sum(wait_ns)) OVER () AS is_most, (SELECT count(DISTINCT step) FROM waits) AS of_steps
    FROM (SELECT *, wait_ns = max(wait_ns) OVER (PARTITION BY step) AS is_longest FROM waits)
    GROUP BY rank
),
next AS (
    SELECT c.rank, c.steps, c.of_steps, t.ranks AS behind, u.longest_ns, s.unit
    FROM counted AS c CROSS JOIN told AS t CROSS JOIN {{ ref('turns') }} AS u CROSS JOIN {{ ref('mean_step') }} AS s
    WHERE c.is_most AND c.steps > 1 AND u.longest_ns >= {{ param('warning_share') }} * s.step_ns
        -- as of ranks late together: the first step tells which, in the others it is 1 of those that are no stragglers
        AND exp(tw_log_ways(c.of_steps, c.steps) - (c.steps - 1) * tw_log_ways(s.ranks - len(t.ranks), 1)) <= {{ param('straggler_chance') }}
)
SELECT ranks, steps, of_steps, NULL AS behind, NULL AS does, NULL AS cause FROM {{ ref('late_together') }}
UNION ALL
SELECT
    [n.rank], n.steps, n.of_steps, n.behind,
    d.does,
    CASE WHEN d.kind = 'idle' AND d.name = 'data_loading' THEN d.name WHEN d.kind IN ('kernel', 'operator') THEN 'compute' END
FROM next AS n JOIN {{ ref('differences') }} AS d ON d.rank = n.rank
-- a straggler may hold it up too: that is none of its doing
WHERE 2 * d.excess_ns >= n.longest_ns AND NOT EXISTS (FROM {{ ref('late_together') }})
QUALIFY row_number() OVER (ORDER BY d.excess_ns DESC, d.kind, d.name) = 1
