-- Drawing: at most eight ranks for the timeline, and why each was chosen; `shown` tells which of them appear at first.
-- `breakdown` and `waits` hold the rows of `traceweave analyze breakdown` and `traceweave analyze stragglers`,
-- `shown_steps` those of “Steps on the timeline”.
WITH placed AS (
    SELECT
        rank,
        row_number() OVER (ORDER BY avg(compute_ns), rank) AS place,
        count(*) OVER () AS ranks
    FROM breakdown
    GROUP BY rank
),
reasons AS (
    SELECT rank, 1 AS importance, 'most waited for' AS why
    FROM waits
    WHERE origin_wait_ns > 0
    QUALIFY row_number() OVER (ORDER BY origin_wait_ns DESC, rank) = 1
    UNION ALL
    SELECT slowest_rank, 2, 'slowest in step ' || step FROM shown_steps WHERE role = 'longest'
    UNION ALL
    SELECT rank, 3, 'least compute' FROM placed WHERE place = 1 AND ranks > 1
    UNION ALL
    SELECT rank, 4, 'most compute' FROM placed WHERE place = ranks AND ranks > 1
    UNION ALL
    SELECT rank, 5, 'median compute' FROM placed WHERE place = (ranks + 1) // 2 AND ranks > 2
    UNION ALL
    SELECT rank, CASE WHEN ranks <= 4 THEN 6 ELSE 7 END, NULL FROM placed
)
SELECT
    r.rank,
    string_agg(r.why, ', ' ORDER BY r.importance) AS why,
    min(r.importance) < 7 AS shown
FROM reasons AS r LEFT JOIN waits AS w USING (rank)
GROUP BY r.rank
QUALIFY row_number() OVER (ORDER BY min(r.importance), max(w.origin_wait_ns) DESC NULLS LAST, r.rank) <= 8
ORDER BY r.rank
