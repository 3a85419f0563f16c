-- shared: late_seldom | the rank that is late in few steps, far longer than others are: what it does there says nothing of how late the others are
-- grain: one row; none where there is no such rank
-- needs: ref('late_steps')
-- column: rank INTEGER | the late rank; of several the one that is late longest
-- column: steps BIGINT[] | those steps, by the ranks that wait: at most a third of all, in each of which it is late at least half as long as in any, and twice as long as the worst of the others is in the middle step
-- column: late_ns HUGEINT | how long it is late in them, summed over those who wait
WITH often AS (
    SELECT rank, list(step ORDER BY step) AS steps, sum(late_ns) AS late_ns, min(late_ns) AS least_ns
    FROM (FROM {{ ref('late_steps') }} WHERE late_ns > 0 QUALIFY 2 * late_ns >= max(late_ns) OVER (PARTITION BY rank))
    GROUP BY rank
)
SELECT o.rank, o.steps, o.late_ns
FROM often AS o JOIN {{ ref('steadiness') }} AS s ON 3 * len(o.steps) <= s.steps
WHERE o.least_ns >= 2 * (
    SELECT coalesce(median(worst_ns), 0)
    FROM (
        SELECT b.step, max(coalesce(t.late_ns, 0)) AS worst_ns
        FROM (SELECT DISTINCT step FROM {{ ref('budget') }}) AS b LEFT JOIN {{ ref('late_steps') }} AS t ON t.step = b.step AND t.rank <> o.rank
        GROUP BY b.step
    )
)
QUALIFY row_number() OVER (ORDER BY o.late_ns DESC, o.rank) = 1
