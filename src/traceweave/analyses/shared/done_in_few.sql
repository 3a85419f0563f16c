-- shared: done_in_few | what the rank that others wait for in few steps does in them
-- grain: one row; none where there is no such rank
-- needs: ref('late_in_few')
-- column: rank INTEGER | the late rank
-- column: does VARCHAR | what the host idles in, or else the range that it is longer in, than the others, for at least half of what they wait, in at most a third of the steps
-- column: compiles BOOLEAN | at least half of what they wait it compiles code longer than any other rank
WITH compiled AS (
    SELECT max(compile_ns) FILTER (is_late) - coalesce(max(compile_ns) FILTER (NOT is_late), 0) AS more_ns
    FROM (
        SELECT k.rank = l.rank AS is_late, sum(k.compile_ns) AS compile_ns
        FROM {{ ref('compiling') }} AS k JOIN {{ ref('late_in_few') }} AS l ON list_contains(l.around, k.step)
        GROUP BY k.rank, l.rank
    )
)
SELECT
    l.rank,
    arg_max(r.does, (r.host_op IS NOT NULL, r.excess_ns)) AS does,
    coalesce(2 * any_value(c.more_ns) * any_value(m.ranks - 1) >= l.late_ns, FALSE) AS compiles
FROM {{ ref('late_in_few') }} AS l CROSS JOIN {{ ref('steadiness') }} AS s CROSS JOIN {{ ref('mean_step') }} AS m CROSS JOIN compiled AS c
LEFT JOIN {{ ref('differences') }} AS r ON r.rank = l.rank AND (r.kind = 'range' OR r.host_op IS NOT NULL) AND list_has_any(r.steps, l.around) AND 3 * len(r.steps) <= s.steps
    AND 2 * (r.time_ns - r.others_ns) * (m.ranks - 1) >= l.late_ns / len(l.steps)
GROUP BY l.rank, l.late_ns
