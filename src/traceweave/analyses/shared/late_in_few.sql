-- shared: late_in_few | the rank that others wait for in few steps, apart from stragglers and who is as late as its like, if one alone is
-- grain: one row; none where there is no such rank
-- needs: ref('late_steps')
-- column: rank INTEGER | the late rank
-- column: steps BIGINT[] | the steps in which others wait for it: at most a third, in each of which it is late twice as long as any other rank is in a step
-- column: around BIGINT[] | those and the ones before: what it does at the end of a step, others wait for in the next
-- column: late_ns HUGEINT | what it alone was late in them, summed over those who wait
-- column: share DOUBLE | of all waiting but for what stragglers are told of: half or more
WITH late AS MATERIALIZED (
    FROM {{ ref('late_steps') }} ANTI JOIN (FROM {{ ref('blame') }} WHERE is_straggler) AS b USING (rank)
    ANTI JOIN (FROM {{ ref('as_its_like', per='step') }} WHERE NOT ended_late) AS k USING (rank, step)
),
often AS (
    SELECT
        rank, list(step ORDER BY step) AS steps, sum(late_ns) AS late_ns, min(late_ns) AS least_ns,
        list_sort(list_intersect(flatten(list([step, step - 1])), (SELECT list(DISTINCT step) FROM {{ ref('budget') }}))) AS around
    FROM (FROM late WHERE late_ns > 0 QUALIFY 2 * late_ns >= max(late_ns) OVER (PARTITION BY rank))
    GROUP BY rank
    HAVING bool_and(coalesce(since_step >= step - 1, TRUE))
    QUALIFY row_number() OVER (ORDER BY sum(late_ns) DESC, rank) = 1
)
SELECT l.rank, l.steps, l.around, l.late_ns, l.late_ns / r.late_ns AS share
FROM often AS l JOIN {{ ref('steadiness') }} AS s ON 3 * len(l.steps) <= s.steps
-- a straggler whose collective before ended later is told of a part of what it is late
JOIN (
    SELECT (SELECT sum(late_ns) FROM {{ ref('late_steps') }}) - coalesce(sum(late_ns), 0) AS late_ns FROM {{ ref('blame') }} WHERE is_straggler
) AS r ON 2 * l.late_ns >= r.late_ns
WHERE l.least_ns >= 2 * coalesce((SELECT max(t.late_ns) FROM late AS t WHERE t.rank <> l.rank), 0)
