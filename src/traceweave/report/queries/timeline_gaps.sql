-- Drawing: the gaps on the timeline, per rank and step at most the 500 longest, times from the beginning of the stretch shown;
-- `gaps` holds the rows of `traceweave analyze gaps run.duckdb`.
SELECT
    s.role,
    g.rank,
    g.start_ns - s.from_ns AS start_ns,
    g.duration_ns,
    g.cause,
    g.host_op
FROM gaps AS g
JOIN shown_ranks AS r ON r.rank = g.rank
JOIN shown_steps AS s
    ON g.step IS NOT DISTINCT FROM s.step AND g.start_ns < s.until_ns AND g.start_ns + g.duration_ns > s.from_ns
WHERE g.stream IS NULL
QUALIFY row_number() OVER (PARTITION BY s.role, g.rank ORDER BY g.duration_ns DESC, g.start_ns) <= 500
ORDER BY s.role DESC, g.rank, g.start_ns
