-- Drawing: the steps on the timeline, the one of median length and the longest. `breakdown` holds rows of `traceweave
-- analyze breakdown run.duckdb`, `step_lengths` those of `traceweave analyze steps run.duckdb`. The stretch shown spans all
-- ranks that were in the step while the slowest one was: clocks that nothing aligned may put the others elsewhere.
WITH lengths AS (
    SELECT
        b.step,
        coalesce(any_value(s.length_ns), CAST(avg(b.window_ns) AS BIGINT)) AS length_ns,
        max(b.window_ns) AS slowest_ns,
        arg_max(b.rank, (b.window_ns, -b.rank)) AS slowest_rank,
        arg_max(b.window_start_ns, (b.window_ns, -b.rank)) AS slowest_from_ns
    FROM breakdown AS b LEFT JOIN step_lengths AS s USING (step)
    GROUP BY b.step
),
placed AS (
    SELECT *, row_number() OVER (ORDER BY length_ns, step DESC) AS place, count(*) OVER () AS steps
    FROM lengths
),
chosen AS (
    SELECT CASE WHEN place = (steps + 1) // 2 THEN 'median' ELSE 'longest' END AS role, *
    FROM placed
    WHERE place IN ((steps + 1) // 2, steps)
)
SELECT
    c.role,
    c.step,
    c.length_ns,
    c.slowest_rank,
    min(b.window_start_ns) AS from_ns,
    max(b.window_start_ns + b.window_ns) AS until_ns
FROM chosen AS c
JOIN breakdown AS b
    ON b.step IS NOT DISTINCT FROM c.step
    AND b.window_start_ns < c.slowest_from_ns + c.slowest_ns
    AND b.window_start_ns + b.window_ns > c.slowest_from_ns
GROUP BY c.role, c.step, c.length_ns, c.slowest_rank
ORDER BY c.role DESC
