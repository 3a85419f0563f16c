-- shared: late_together | ranks that come late together, as those of a slow host or of a slow replica do: each alone makes nobody wait
-- grain: one row; none where there are no such ranks
-- needs: ref('late_waits')
-- param: min_share
-- param: straggler_chance
-- column: ranks BIGINT[] | two at least, and half of all at most: others wait for each at least half as long as for any, and for them together more than for all the rest, min_share of the step; without stragglers whom others wait for alone, at other times; not where pipeline stages wait for each other
-- column: steps BIGINT | steps in which others wait for each of them longer than for any other rank
-- column: of_steps BIGINT | steps in which any rank waits
-- column: chance DOUBLE | at most so probable if all ranks are alike: which of them are late the first such step tells, and that the same are in the others is chance
WITH
-- a straggler for itself: most of the waiting is for it alone, of ranks that wait for others at other times
alone AS (
    SELECT e.late_rank AS rank, sum(e.late_ns) AS alone_ns, sum(sum(e.exposed_wait_ns)) OVER (PARTITION BY e.rank) - alone_ns AS beside_ns
    FROM {{ ref('exposed_calls') }} AS e
    GROUP BY e.rank, e.late_rank
),
waits AS (
    SELECT *
    FROM {{ ref('late_waits') }}
    WHERE rank NOT IN (
        SELECT rank
        FROM (SELECT rank, sum(alone_ns) AS alone_ns, sum(least(alone_ns, beside_ns)) AS both_ns FROM alone WHERE rank IS NOT NULL GROUP BY rank)
        JOIN (SELECT rank, sum(wait_ns) AS wait_ns FROM {{ ref('late_waits') }} GROUP BY rank) USING (rank)
        WHERE 2 * alone_ns > wait_ns AND 2 * both_ns >= alone_ns
    )
),
members AS (
    SELECT rank, wait_ns, 2 * wait_ns >= max(wait_ns) OVER () AS is_late
    FROM (SELECT rank, sum(wait_ns) AS wait_ns FROM waits GROUP BY rank)
),
late AS (
    SELECT
        list(CAST(rank AS BIGINT) ORDER BY rank) FILTER (is_late) AS ranks,
        sum(wait_ns) FILTER (is_late) AS late_ns,
        late_ns > coalesce(sum(wait_ns) FILTER (NOT is_late), 0) AS is_most
    FROM members
),
tried AS (
    SELECT w.step, min(w.wait_ns) FILTER (m.is_late) > coalesce(max(w.wait_ns) FILTER (NOT m.is_late), 0) AND count(*) FILTER (m.is_late) = len(any_value(l.ranks)) AS is_theirs
    FROM waits AS w JOIN members AS m USING (rank) CROSS JOIN late AS l
    GROUP BY w.step
),
counted AS (
    SELECT l.ranks, l.late_ns, count(*) FILTER (t.is_theirs) AS steps, count(*) AS of_steps
    FROM tried AS t CROSS JOIN late AS l
    WHERE l.is_most
    GROUP BY l.ranks, l.late_ns
)
SELECT c.ranks, c.steps, c.of_steps, w.chance
FROM counted AS c CROSS JOIN {{ ref('mean_step') }} AS s
CROSS JOIN (SELECT count(*) AS ranks FROM ranks) AS n
CROSS JOIN LATERAL (
    -- (of_steps over steps) ways to choose the steps, each beyond the first with 1 in (ranks over late ones)
    SELECT exp(tw_log_ways(c.of_steps, c.steps) - (c.steps - 1) * tw_log_ways(n.ranks, len(c.ranks))) AS chance
) AS w
WHERE len(c.ranks) > 1 AND 2 * len(c.ranks) <= n.ranks AND c.steps > 1
    AND c.late_ns >= {{ param('min_share') }} * s.step_ns * s.windows AND w.chance <= {{ param('straggler_chance') }}
