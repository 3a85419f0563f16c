-- rule: short_gaps | short gaps between kernels
-- topic: idling and copies
-- finds: What was launched takes its time to start, each no longer than `kernel_delay_ns`, and gaps too short to be looked into. Silent where the gaps are no longer than two ticks of the trace: of a trace in whole microseconds, gaps of 2 us.
-- try: Fewer, larger kernels; CUDA graphs.
-- proof: idle_causes
SELECT
    i.ranks,
    i.cost_ns,
    i.opening || CASE i.cause WHEN 'short' THEN ' in gaps too short to have a cause' ELSE ' until what was launched starts' END || i.details AS evidence,
    CASE WHEN p.is_cuda THEN 'Larger or fused kernels, CUDA graphs' ELSE 'Larger or fused kernels' END AS advice
FROM shared_idling() AS i CROSS JOIN shared_program() AS p
WHERE i.cause IN ('kernel_delay', 'short') AND (p.tick_ns = 1 OR i.gap_ns > 2 * p.tick_ns)
