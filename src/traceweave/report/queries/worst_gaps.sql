-- The longest device gaps; `gaps` holds the rows of `traceweave analyze gaps run.duckdb`.
SELECT rank, step, duration_ns, cause, host_op, after_op, before_op
FROM gaps
WHERE stream IS NULL
ORDER BY duration_ns DESC, rank, start_ns
LIMIT 25
