-- Drawing: when no compute ran on the timeline, and why: gaps, in which nothing did, and exposed communication; per rank and step at
-- most the 500 longest of either, times from the beginning of the stretch shown. `gaps` holds the rows of `traceweave analyze gaps
-- run.duckdb`, `exposed` the stretches whose sums `traceweave analyze exposed_causes run.duckdb` has.
WITH stretches AS (
    SELECT rank, step, start_ns, duration_ns, cause, host_op AS what, 'idle' AS state FROM gaps WHERE stream IS NULL
    UNION ALL
    SELECT rank, step, start_ns, duration_ns, cause, what, 'exposed' FROM exposed
)
SELECT
    s.role,
    g.rank,
    g.start_ns - s.from_ns AS start_ns,
    g.duration_ns,
    g.cause,
    g.what
FROM stretches AS g
JOIN shown_ranks AS r ON r.rank = g.rank
JOIN shown_steps AS s
    ON g.step IS NOT DISTINCT FROM s.step AND g.start_ns < s.until_ns AND g.start_ns + g.duration_ns > s.from_ns
QUALIFY row_number() OVER (PARTITION BY s.role, g.rank, g.state ORDER BY g.duration_ns DESC, g.start_ns) <= 500
ORDER BY s.role DESC, g.rank, g.start_ns
