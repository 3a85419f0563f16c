-- What is said of collectives in the same way wherever they appear.

-- macro: tw_bus_factor(op, ranks) | busbw / algbw of an operation on this many ranks, as nccl-tests defines it (PERFORMANCE.md of NVIDIA/nccl-tests); NULL for operations that it does not define or if ranks is unknown
CREATE TEMP MACRO IF NOT EXISTS tw_bus_factor(op, ranks) AS
    CASE
        WHEN op = 'all_reduce' THEN 2 * (ranks - 1) / ranks
        WHEN op IN ('all_gather', 'reduce_scatter', 'all_to_all', 'gather', 'scatter') THEN (ranks - 1) / ranks
        WHEN op IN ('broadcast', 'reduce', 'send_recv') AND ranks IS NOT NULL THEN CAST(1 AS DOUBLE)
    END;

-- macro: tw_missing_ranks(incomplete, operations, ranks_seen, ranks, meaning) | a note where incomplete of some operations lack members of their group, as '12 of 16 ranks not seen: ' || meaning if all do; NULL if none does
CREATE TEMP MACRO IF NOT EXISTS tw_missing_ranks(incomplete, operations, ranks_seen, ranks, meaning) AS
    CASE
        WHEN incomplete = operations AND incomplete > 0 THEN format('{} of {} ranks not seen: {}', ranks - ranks_seen, ranks, meaning)
        WHEN incomplete > 0 THEN format('{} of {} lack ranks: waiting for them counts as transfer', incomplete, operations)
    END;

-- macro: tw_last_arrivals() | one row per collective seen on two ranks or more: collective_id, delay_ns (from the start of the last but one to that of the last), is_told (the clocks can tell who came last: no delay below the largest residual_p95_ns of the ranks that took part, and none of 0)
-- reads: clocks, collective_waits
CREATE TEMP MACRO IF NOT EXISTS tw_last_arrivals() AS TABLE
SELECT
    w.collective_id,
    min(w.wait_ns) FILTER (WHERE NOT w.is_last) AS delay_ns,
    min(w.wait_ns) FILTER (WHERE NOT w.is_last) >= greatest(max(coalesce(c.residual_ns, 9223372036854775807)), 1) AS is_told
FROM collective_waits AS w
LEFT JOIN (SELECT rank, max(residual_p95_ns) AS residual_ns FROM clocks GROUP BY rank) AS c USING (rank)
GROUP BY w.collective_id
HAVING count(*) FILTER (WHERE NOT w.is_last) > 0;
