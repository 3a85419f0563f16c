-- What was live when most memory was allocated, on the rank and device of `shown_memory` with the highest peak;
-- `memory_live` holds the rows of `traceweave analyze memory_live run.duckdb`.
WITH highest AS (
    SELECT rank, device FROM shown_memory ORDER BY peak_allocated_bytes DESC, rank, device LIMIT 1
)
SELECT l.rank, l.device, l.host_op, l.range, l.bytes, l.blocks, l.largest_bytes, l.share, l.note
FROM memory_live AS l JOIN highest AS h ON h.rank = l.rank AND h.device IS NOT DISTINCT FROM l.device
ORDER BY l.bytes DESC, l.host_op NULLS LAST, l.range NULLS LAST
