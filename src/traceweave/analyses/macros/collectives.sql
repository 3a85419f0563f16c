-- What nccl-tests says about collectives (PERFORMANCE.md of NVIDIA/nccl-tests).

-- macro: tw_bus_factor(op, ranks) | busbw / algbw of an operation on this many ranks, as nccl-tests defines it; NULL for operations that it does not define or if ranks is unknown
CREATE TEMP MACRO IF NOT EXISTS tw_bus_factor(op, ranks) AS
    CASE
        WHEN op = 'all_reduce' THEN 2 * (ranks - 1) / ranks
        WHEN op IN ('all_gather', 'reduce_scatter', 'all_to_all', 'gather', 'scatter') THEN (ranks - 1) / ranks
        WHEN op IN ('broadcast', 'reduce', 'send_recv') AND ranks IS NOT NULL THEN CAST(1 AS DOUBLE)
    END;
